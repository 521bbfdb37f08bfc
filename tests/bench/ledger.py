"""ledger_rate: events of a topic become requests to a sink, and completed keys.

Its limit is 1/(1/d + 1/h), measured in the same round: d effects a second that the same PostgreSQL
takes in with nothing sent in between (three connections that intake, claim and record, in full
batches, each waiting for its answers only), h requests that the same HTTP client sends with no
database. ledger_work says the same of the processor time of all but the broker.

ledger_once: the same in mode at_most_once, where each key is marked durably before it is sent,
beside ledger_rate of the round."""

from __future__ import annotations

import subprocess
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Iterator

from tests.tools import children, libconfig, waiting
from tests.tools.broker import Client
from tests.tools.programs import Line, Program, build_directory

from . import brokers
from .machine import Meter, Usage
from .setting import DATABASE, Bench, Pace, Size, run_tool
from .table import Figure, harmonic, middle

EFFECTS = 100_000
IN_FLIGHT = 100
INTAKE_BATCH, RESULT_BATCH = 500, 100   # the ledger's defaults
SECRET = "sk_test_of_the_bench"
COPY = f"{DATABASE}_copy"     # of the empty schema, made anew for each measurement
TIMEOUT = 600

# The stand-in gives one message set of a partition for each fetch, after the whole time that a
# fetch may wait.
FETCH = [("fetch.wait.max.ms", "1")]
LARGE_SETS = [("linger.ms", "50")]

EFFECT = {
    "name": "charge", "target": "payments", "mode": "idempotent",
    "key": "order:${/order_id}:charge",
    "request": {"method": "POST", "path": "/v1/charges",
                "content_type": "application/x-www-form-urlencoded",
                "body": "amount=${/total_cents}&currency=usd&customer=${/customer_id}"},
    "retention": "forever",
}
TAKEN = ("SELECT coalesce(sum(next_offset), 0) FROM counterfoil.intake_position "
         "WHERE next_offset > 0")
BUSY = ("SELECT EXISTS (SELECT FROM counterfoil.effect_state "
        "WHERE state IN ('pending', 'retry_wait') AND NOT waiting) "
        "OR EXISTS (SELECT FROM counterfoil.effect_state WHERE state = 'in_flight')")
STATES = "SELECT state::text, count(*) FROM counterfoil.effect_state GROUP BY state"


@dataclass(frozen=True)
class Round:
    effects: int
    postgres: Pace
    http: Pace
    usage: Usage      # of the ledger
    once: Usage       # of the ledger, in mode at_most_once

    @property
    def rate(self) -> float:
        return self.effects / self.usage.seconds

    @property
    def limit(self) -> float:
        return harmonic(self.postgres.rate, self.http.rate)

    @property
    def ratio(self) -> float:
        return self.rate / self.limit

    @property
    def _work(self) -> float:
        """Of those that have a part in the limit: the broker has none."""
        return self.usage.total - self.usage.processor["broker"]

    def figures(self, broker: str) -> list[Figure]:
        million = 1e6 / self.effects
        return [
            Figure(f"ledger_rate {broker}", self.rate, "effects/s", self.limit),
            Figure(f"ledger_rate {broker}: postgres alone", self.postgres.rate, "effects/s"),
            Figure(f"ledger_rate {broker}: http alone", self.http.rate, "requests/s"),
            Figure(f"ledger_rate {broker}: others had", 100 * self.usage.others, "% of machine"),
            Figure(f"ledger_work {broker}", self._work * million, "s/million",
                   1e6 * (self.postgres.processor + self.http.processor), cost=True),
            *(Figure(f"ledger_work {broker}: {who}", seconds * million, "s/million")
              for who, seconds in self.usage.processor.items()),
            Figure(f"ledger_once {broker}", self.effects / self.once.seconds, "effects/s",
                   self.rate),
        ]


def _time_of(line: Line) -> float:
    return datetime.fromisoformat(line.fields["ts"].replace("Z", "+00:00")).timestamp()


class Sink:
    """Answers 200 to everything."""

    def __init__(self) -> None:
        self.process = children.spawn([str(build_directory() / "tests/bench/sink")],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        word, _, port = self.process.stdout.readline().partition(" ")
        assert word == "port", "the sink did not start"
        self.url = f"http://127.0.0.1:{int(port)}"

    def close(self) -> None:
        self.process.stdin.close()
        children.end(self.process)
        self.process.stdout.close()


@contextmanager
def _fresh_database(bench: Bench) -> Iterator[str]:
    bench.postgres.create_database(COPY, DATABASE)
    try:
        bench.postgres.query("CHECKPOINT")
        yield COPY
    finally:
        bench.postgres.drop_database(COPY)


class Work:
    def __init__(self, bench: Bench, broker: Client, sink: Sink, effects: int) -> None:
        self.bench = bench
        self.broker = broker
        self.sink = sink
        self.effects = effects
        self.secret = bench.directory / "secret"
        self.secret.write_text(SECRET + "\n")
        self._topics = 0

    def _configuration(self, topic: str, database: str, mode: str) -> dict[str, Any]:
        known = self.bench.configuration(self.broker.bootstrap, database)
        properties = [*known["kafka"]["properties"], *self.broker.group_properties, *FETCH]
        return libconfig.merge(known, {
            "kafka": {"properties": properties},
            "ledger": {"group": topic, "start": "earliest"},
            "targets": [{"name": "payments", "url": self.sink.url, "profile": "stripe-v1",
                         "secret_file": str(self.secret), "auth": "Bearer ${secret}",
                         "concurrency": IN_FLIGHT}],
            "effects": [libconfig.merge(EFFECT, {"on": {"topic": topic, "type": "order.placed"},
                                                 "mode": mode})],
        })

    def _events(self) -> str:
        """A topic that holds all of them."""
        self._topics += 1
        topic = f"effects-{self._topics}"
        self.broker.create_topic(topic, brokers.PARTITIONS)
        known = self.bench.configuration(self.broker.bootstrap)
        path = self.bench.write("produce.conf", libconfig.merge(known, {
            "kafka": {"properties": [*known["kafka"]["properties"], *LARGE_SETS]}}))
        run_tool("produce", path, topic, 2, self.effects - 1, with_=self.broker.process.pid)
        held = self.broker.count(topic)
        assert held == self.effects, f"the topic holds {held} events of {self.effects}"
        return topic

    def _postgres(self) -> Pace:
        with _fresh_database(self.bench) as database:
            return run_tool("record-effects", self.bench.postgres.conninfo(database), self.effects,
                            INTAKE_BATCH, IN_FLIGHT, RESULT_BATCH,
                            with_=self.bench.postgres.process.pid)

    def _http(self) -> Pace:
        return run_tool("send-requests", f"{self.sink.url}/v1/charges", self.effects, IN_FLIGHT,
                        with_=self.sink.process.pid)

    def _wait_completed(self, database: str) -> float:
        """The moment at which nothing was left to be done."""
        with closing(self.bench.postgres.connect(database)) as connection:
            cursor = connection.cursor()

            def ask(sql: str) -> Any:
                cursor.execute(sql)
                return cursor.fetchone()[0]

            waiting.until(lambda: ask(TAKEN) == self.effects, TIMEOUT, "all events to be taken in")
            waiting.until(lambda: not ask(BUSY), TIMEOUT, "all effects to be completed")
            return time.time()

    def _ledger(self, mode: str) -> Usage:
        """From the moment at which the ledger is a member of its group and begins to read."""
        topic = self._events()
        with _fresh_database(self.bench) as database:
            ledger = Program("counterfoil-ledger", "ledger", self.bench.directory,
                             self._configuration(topic, database, mode))
            try:
                ready = ledger.start(ready=False).wait_for("ready")
                meter = Meter({"ledger": ledger.pid, "sink": self.sink.process.pid,
                               "postgres": self.bench.postgres.process.pid,
                               "broker": self.broker.process.pid}, began=_time_of(ready))
                usage = meter.read(self._wait_completed(database))
                ledger.stop()
            finally:
                ledger.close()
            states = dict(self.bench.postgres.query(STATES, None, database))
        assert states == {"completed": self.effects}, states
        assert not ledger.complaints(), ledger.complaints()
        return usage

    def round(self) -> Round:
        return Round(self.effects, self._postgres(), self._http(), self._ledger("idempotent"),
                     self._ledger("at_most_once"))


def _rounds(work: Work, broker: str, count: int) -> Iterator[Round]:
    for n in range(count):
        done = work.round()
        print(f"ledger_rate {broker}, round {n + 1}: {done.rate:.0f} effects/s, ratio "
              f"{done.ratio:.2f}, at most once {done.effects / done.once.seconds:.0f}, others had {done.usage.others:.0%}", flush=True)
        yield done


def measure(bench: Bench, size: Size) -> Iterator[list[Figure]]:
    """The figures of each broker, as soon as they are there."""
    for name, broker in brokers.each():
        with closing(Sink()) as sink:
            work = Work(bench, broker, sink, size.of(EFFECTS))
            yield middle(_rounds(work, name, size.rounds)).figures(name)
