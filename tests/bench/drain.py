"""relay_drain: a backlog, from PostgreSQL to the broker and out of the table.

Its limit is 1/(1/p + 1/k), measured in the same round: p rows a second that the same PostgreSQL
gives and deletes with no broker, k that the same producer sends with no PostgreSQL. relay_work says
the same of the processor time of all processes, which other work on the machine hardly changes.
Its peer is the rival, in the same round on the same backlog."""

from __future__ import annotations

from dataclasses import dataclass

from .setting import DATABASE, ROWS, Pace, Size, run_tool
from .stage import Drained, Relay, Rival, Stage, drained
from .table import Figure, harmonic, middle

LEASE, TOKEN = "bench", 1     # of drain-outbox, which deletes as an owner
NO_TOPIC = "none"             # nor does it publish
WARM_UP = 300_000             # a Java broker is slow at first


@dataclass(frozen=True)
class Round:
    postgres: Pace
    shortest: Pace    # PostgreSQL with the shortest statements that would do
    producer: Pace
    relay: Drained
    rival: Drained

    @property
    def limit(self) -> float:
        return harmonic(self.postgres.rate, self.producer.rate)

    @property
    def ratio(self) -> float:
        return self.relay.rate / self.limit

    @property
    def lead(self) -> float:
        return self.relay.rate / self.rival.rate

    def limit_figures(self, broker: str) -> list[Figure]:
        usage, million = self.relay.usage, 1e6 / self.relay.rows
        return [
            Figure(f"relay_drain {broker}", self.relay.rate, "rows/s", self.limit),
            Figure(f"relay_drain {broker}: postgres alone", self.postgres.rate, "rows/s",
                   self.shortest.rate),
            Figure(f"relay_drain {broker}: producer alone", self.producer.rate, "rows/s"),
            Figure(f"relay_drain {broker}: others had", 100 * usage.others, "% of machine"),
            Figure(f"relay_work {broker}", usage.total * million, "s/million",
                   1e6 * (self.postgres.processor + self.producer.processor), cost=True),
            *(Figure(f"relay_work {broker}: {who}", seconds * million, "s/million")
              for who, seconds in usage.processor.items()),
        ]

    def rival_figures(self, broker: str) -> list[Figure]:
        spent = [1e6 * who.usage.processor[name] / who.rows
                 for name, who in (("relay", self.relay), ("rival", self.rival))]
        return [
            Figure(f"rival_drain {broker}", self.relay.rate, "rows/s", self.rival.rate),
            Figure(f"rival_drain {broker}: others had", 100 * self.rival.usage.others,
                   "% of machine"),
            Figure(f"relay_cpu {broker}: draining", spent[0], "s/million", spent[1], cost=True),
        ]


class Drain:
    def __init__(self, stage: Stage, size: Size) -> None:
        self.stage = stage
        self.rows = size.of(ROWS)
        self.rounds = size.rounds

    def _postgres(self, *lease: object) -> Pace:
        self.stage.backlog.fill(NO_TOPIC, self.rows)
        return run_tool("drain-outbox", self.stage.conninfo, *lease,
                        with_=self.stage.bench.postgres.process.pid)

    def _producer(self, rows: int) -> Pace:
        bench, broker = self.stage.bench, self.stage.broker
        path = bench.write("produce.conf", bench.configuration(broker.bootstrap))
        return run_tool("produce", path, self.stage.new_topic(), 2, rows,
                        with_=broker.process.pid)

    def _round(self) -> Round:
        return Round(self._postgres(LEASE, TOKEN), self._postgres(), self._producer(self.rows),
                     drained(self.stage, Relay, self.rows), drained(self.stage, Rival, self.rows))

    def run(self) -> list[Figure]:
        broker = self.stage.name
        self.stage.bench.postgres.query(
            "INSERT INTO counterfoil.lease (name, owner, token, until) VALUES (%s, '', %s, now()) "
            "ON CONFLICT DO NOTHING", (LEASE, TOKEN), DATABASE)
        self._producer(WARM_UP)
        rounds = []
        for n in range(self.rounds):
            done = self._round()
            print(f"relay_drain {broker}, round {n + 1}: {done.relay.rate:.0f} rows/s, ratio "
                  f"{done.ratio:.2f}, {done.lead:.2f} rivals, others had "
                  f"{done.relay.usage.others:.0%}", flush=True)
            rounds.append(done)
        return [*middle(rounds).limit_figures(broker),
                *middle(rounds, by=lambda r: r.lead).rival_figures(broker)]


def measure_drain(stage: Stage, size: Size) -> list[Figure]:
    return Drain(stage, size).run()
