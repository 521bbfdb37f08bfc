"""relay_drain: a backlog, from PostgreSQL to the broker and out of the table.

Its limit is 1/(1/p + 1/k), measured in the same round: p rows a second that the same PostgreSQL
gives and deletes with no broker, k that the same producer sends with no PostgreSQL. relay_work says
the same of the processor time of all processes, which other work on the machine hardly changes."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Iterator

from tests.tools import libconfig, waiting
from tests.tools.broker import Client
from tests.tools.programs import Program

from . import brokers
from .backlog import TOPIC, Backlog
from .machine import Meter, Usage
from .setting import DATABASE, Bench, Pace, Size, run_tool
from .table import Figure, harmonic, middle

ROWS = 500_000
LEASE, TOKEN = "bench", 1     # of drain-outbox, which deletes as an owner
IN_FLIGHT = 40_000            # at least what the relay may have sent and not yet deleted
TIMEOUT = 600


@dataclass(frozen=True)
class Round:
    rows: int
    postgres: Pace
    shortest: Pace    # PostgreSQL with the shortest statements that would do
    producer: Pace
    usage: Usage      # of the relay

    @property
    def rate(self) -> float:
        return self.rows / self.usage.seconds

    @property
    def limit(self) -> float:
        return harmonic(self.postgres.rate, self.producer.rate)

    @property
    def ratio(self) -> float:
        return self.rate / self.limit

    def figures(self, broker: str) -> list[Figure]:
        million = 1e6 / self.rows
        return [
            Figure(f"relay_drain {broker}", self.rate, "rows/s", self.limit),
            Figure(f"relay_drain {broker}: postgres alone", self.postgres.rate, "rows/s",
                   self.shortest.rate),
            Figure(f"relay_drain {broker}: producer alone", self.producer.rate, "rows/s"),
            Figure(f"relay_drain {broker}: others had", 100 * self.usage.others, "% of machine"),
            Figure(f"relay_work {broker}", self.usage.total * million, "s/million",
                   1e6 * (self.postgres.processor + self.producer.processor), cost=True),
            *(Figure(f"relay_work {broker}: {who}", seconds * million, "s/million")
              for who, seconds in self.usage.processor.items()),
        ]


class Drain:
    def __init__(self, bench: Bench, backlog: Backlog, broker: Client) -> None:
        self.bench = bench
        self.backlog = backlog
        self.broker = broker
        self.configuration = libconfig.merge(bench.configuration(broker.bootstrap),
                                             {"relay": {"lease": "10m"}})
        self._topics = 0

    def _new_topic(self) -> str:
        self._topics += 1
        topic = f"{TOPIC}-{self._topics}"
        self.broker.create_topic(topic, brokers.PARTITIONS)
        return topic

    def _postgres(self, *lease: object) -> Pace:
        self.backlog.fill()
        return run_tool("drain-outbox", self.bench.postgres.conninfo(DATABASE), *lease,
                        with_=self.bench.postgres.process.pid)

    def _producer(self) -> Pace:
        path = self.bench.write("produce.conf", self.configuration)
        return run_tool("produce", path, self._new_topic(), 2, self.backlog.rows,
                        with_=self.broker.process.pid)

    def _wait_gone(self, last: int) -> float:
        """The moment at which the outbox was empty."""
        waiting.until(lambda: not self.backlog.has(last), TIMEOUT, "the last row to be deleted",
                      every=0.01)
        while True:
            now = time.time()
            if not self.backlog.has_after(last - IN_FLIGHT):
                return now

    def _relay(self) -> Usage:
        """The backlog is put there while the relay, which has published before, stands still."""
        topic = self._new_topic()
        relay = Program("counterfoil-relay", "relay", self.bench.directory, self.configuration)
        try:
            relay.start()
            self.backlog.add_one(topic)
            waiting.until(lambda: self.backlog.count() == 0, 30, "the first row to be published")
            relay.freeze()
            last = self.backlog.fill(topic)
            meter = Meter({"relay": relay.pid, "postgres": self.bench.postgres.process.pid,
                           "broker": self.broker.process.pid})
            relay.thaw()
            usage = meter.read(self._wait_gone(last))
            relay.stop()
        finally:
            relay.close()
        self._check(relay, topic)
        return usage

    def _check(self, relay: Program, topic: str) -> None:
        left = self.backlog.count()
        published = sum(high for _, high in self.broker.bounds(topic))
        assert left == 0, f"{left} rows are left"
        assert published == self.backlog.rows + 1, f"{published} messages"
        assert not relay.complaints(), relay.complaints()

    def warm_up(self) -> None:
        """A Java broker is slow at first."""
        self._producer()

    def round(self) -> Round:
        return Round(self.backlog.rows, self._postgres(LEASE, TOKEN), self._postgres(),
                     self._producer(), self._relay())


def _rounds(drain: Drain, broker: str, count: int) -> Iterator[Round]:
    drain.warm_up()
    for n in range(count):
        done = drain.round()
        print(f"relay_drain {broker}, round {n + 1}: {done.rate:.0f} rows/s, ratio "
              f"{done.ratio:.2f}, others had {done.usage.others:.0%}", flush=True)
        yield done


def measure(bench: Bench, size: Size) -> Iterator[list[Figure]]:
    """The figures of each broker, as soon as they are there."""
    with closing(bench.postgres.connect(DATABASE)) as connection:
        backlog = Backlog(connection, size.of(ROWS))
        bench.postgres.query("INSERT INTO counterfoil.lease (name, owner, token, until) "
                             "VALUES (%s, '', %s, now())", (LEASE, TOKEN), DATABASE)
        print("outbox: {} rows of {} to {} bytes".format(backlog.rows, *backlog.row_size()))
        for name, broker in brokers.each():
            drain = Drain(bench, backlog, broker)
            yield middle(_rounds(drain, name, size.rounds)).figures(name)
