"""A ledger at work: a topic full of events, a sink for the requests, a database."""

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
from .machine import Meter, Usage, peak_bytes
from .setting import DATABASE, Bench, Pace, run_tool

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
         "WHERE topic = %s AND next_offset > 0")
IN_HAND = "SELECT count(*) FROM counterfoil.effect_state WHERE state = 'in_flight'"
BUSY = ("SELECT EXISTS (SELECT FROM counterfoil.effect_state "
        "WHERE state IN ('pending', 'retry_wait') AND NOT waiting) "
        "OR EXISTS (SELECT FROM counterfoil.effect_state WHERE state = 'in_flight')")
LAST = "SELECT coalesce(max(id), 0) FROM counterfoil.effect_state"
STATES = "SELECT state::text, count(*) FROM counterfoil.effect_state WHERE id > %s GROUP BY state"


@dataclass(frozen=True)
class Done:
    usage: Usage
    most: int            # in flight at a time, where that was watched
    peak_bytes: int      # of the ledger's memory


def _time_of(line: Line) -> float:
    return datetime.fromisoformat(line.fields["ts"].replace("Z", "+00:00")).timestamp()


class Sink:
    """Answers 200 to everything, after so many milliseconds."""

    def __init__(self, milliseconds: int = 0) -> None:
        self.process = children.spawn([str(build_directory() / "tests/bench/sink"),
                                       str(milliseconds)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        word, _, port = self.process.stdout.readline().partition(" ")
        assert word == "port", "the sink did not start"
        self.url = f"http://127.0.0.1:{int(port)}"

    def close(self) -> None:
        self.process.stdin.close()
        children.end(self.process)
        self.process.stdout.close()


@contextmanager
def fresh_database(bench: Bench) -> Iterator[str]:
    bench.postgres.create_database(COPY, DATABASE)
    try:
        bench.postgres.query("CHECKPOINT")
        yield COPY
    finally:
        bench.postgres.drop_database(COPY)


class Work:
    """`changes`: of the configuration, of the one target and the one effect."""

    def __init__(self, bench: Bench, broker: Client, sink: Sink, effects: int,
                 changes: dict[str, Any] | None = None, target: dict[str, Any] | None = None,
                 effect: dict[str, Any] | None = None) -> None:
        self.bench = bench
        self.broker = broker
        self.sink = sink
        self.effects = effects
        self.changes = changes or {}
        self.target = target or {}
        self.effect = effect or {}
        self.secret = bench.directory / "secret"
        self.secret.write_text(SECRET + "\n")
        self._topics = 0

    def _configuration(self, topic: str, database: str, mode: str) -> dict[str, Any]:
        known = self.bench.configuration(self.broker.bootstrap, database)
        properties = [*known["kafka"]["properties"], *self.broker.group_properties, *FETCH]
        target = {"name": "payments", "url": self.sink.url, "profile": "stripe-v1",
                  "secret_file": str(self.secret), "auth": "Bearer ${secret}",
                  "concurrency": IN_FLIGHT}
        effect = {"on": {"topic": topic, "type": "order.placed"}, "mode": mode}
        return libconfig.merge(libconfig.merge(known, {
            "kafka": {"properties": properties},
            "ledger": {"group": topic, "start": "earliest"},
            "targets": [libconfig.merge(target, self.target)],
            "effects": [libconfig.merge(libconfig.merge(EFFECT, effect), self.effect)],
        }), self.changes)

    def fill_topic(self) -> str:
        """A new topic that holds all events, of orders that no topic before it had."""
        topic = f"effects-{self._topics}"
        first = 2 + self._topics * (self.effects + 1)     # one more warms the producer up
        self._topics += 1
        self.broker.create_topic(topic, brokers.PARTITIONS)
        known = self.bench.configuration(self.broker.bootstrap)
        path = self.bench.write("produce.conf", libconfig.merge(known, {
            "kafka": {"properties": [*known["kafka"]["properties"], *LARGE_SETS]}}))
        run_tool("produce", path, topic, first, self.effects - 1, with_=self.broker.process.pid)
        held = self.broker.count(topic)
        assert held == self.effects, f"the topic holds {held} events of {self.effects}"
        return topic

    # --- parts of it ------------------------------------------------------------------------------

    def record(self) -> Pace:
        """What goes to the database, with nothing sent in between."""
        with fresh_database(self.bench) as database:
            return run_tool("record-effects", self.bench.postgres.conninfo(database), self.effects,
                            INTAKE_BATCH, IN_FLIGHT, RESULT_BATCH,
                            with_=self.bench.postgres.process.pid)

    def send(self) -> Pace:
        """The requests, without a database."""
        return run_tool("send-requests", f"{self.sink.url}/v1/charges", self.effects, IN_FLIGHT,
                        with_=self.sink.process.pid)

    # --- all of it --------------------------------------------------------------------------------

    def _wait_completed(self, topic: str, database: str, watch: bool) -> tuple[float, int]:
        """The moment at which nothing was left to be done, and the most that was in flight."""
        most = 0
        with closing(self.bench.postgres.connect(database, True)) as connection:
            cursor = connection.cursor()

            def ask(sql: str, *parameters: object) -> Any:
                cursor.execute(sql, parameters)
                return cursor.fetchone()[0]

            def taken() -> bool:
                nonlocal most
                if watch:
                    most = max(most, ask(IN_HAND))
                return ask(TAKEN, topic) == self.effects

            waiting.until(taken, TIMEOUT, "all events to be taken in")
            waiting.until(lambda: not ask(BUSY), TIMEOUT, "all effects to be completed")
            return time.time(), most

    def run(self, mode: str = "idempotent", database: str | None = None,
            watch: bool = False) -> Done:
        """From the moment at which the ledger is a member of its group and begins to read, in a
        fresh database, or in that one. `watch`: also what is in flight, which costs something."""
        topic = self.fill_topic()
        if database:
            return self._run(topic, mode, database, watch)
        with fresh_database(self.bench) as database:
            return self._run(topic, mode, database, watch)

    def _run(self, topic: str, mode: str, database: str, watch: bool) -> Done:
        before = self.bench.postgres.query(LAST, None, database)[0][0]
        ledger = Program("counterfoil-ledger", "ledger", self.bench.directory,
                         self._configuration(topic, database, mode))
        try:
            ready = ledger.start(ready=False).wait_for("ready")
            meter = Meter({"ledger": ledger.pid, "sink": self.sink.process.pid,
                           "postgres": self.bench.postgres.process.pid,
                           "broker": self.broker.process.pid}, began=_time_of(ready))
            ended, most = self._wait_completed(topic, database, watch)
            done = Done(meter.read(ended), most, peak_bytes(ledger.pid))
            ledger.stop()
        finally:
            ledger.close()
        states = dict(self.bench.postgres.query(STATES, (before,), database))
        assert states == {"completed": self.effects}, states
        assert not ledger.complaints(), ledger.complaints()
        return done
