"""The stage, and who plays on it: the relay and its rival, one after the other, each with the same
backlog, PostgreSQL and broker."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator, Protocol

from tests.tools import children, libconfig, waiting
from tests.tools.broker import Client
from tests.tools.programs import Program, build_directory

from . import brokers
from .backlog import Backlog
from .machine import Meter, Usage, peak_bytes, resident_bytes
from .setting import DATABASE, Bench

IN_FLIGHT = 40_000   # at least what a player may have sent and not yet deleted
TIMEOUT = 600


@dataclass
class Stage:
    name: str        # of the broker
    bench: Bench
    backlog: Backlog
    broker: Client
    _topics: int = 0

    @property
    def conninfo(self) -> str:
        return self.bench.postgres.conninfo(DATABASE)

    def new_topic(self, **options: object) -> str:
        self._topics += 1
        topic = f"bench-{self._topics}"
        self.broker.create_topic(topic, brokers.PARTITIONS, **options)
        return topic

    def meter(self, *players: "Player") -> Meter:
        return Meter({**{player.name: player.pid for player in players},
                      "postgres": self.bench.postgres.process.pid,
                      "broker": self.broker.process.pid})

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Another session has one until the block ends: nothing deleted meanwhile can be cleared
        away."""
        with closing(self.bench.postgres.connect(DATABASE, autocommit=False)) as session:
            session.set_session(isolation_level="REPEATABLE READ", readonly=True)
            session.cursor().execute("SELECT count(*) FROM counterfoil.lease")
            yield

    def wait_empty(self) -> None:
        waiting.until(lambda: self.backlog.count() == 0, TIMEOUT, "the outbox to be empty")

    def wait_gone(self, last: int, timeout: float = TIMEOUT) -> float | None:
        """The moment at which the outbox was empty; None: it was not in time."""
        try:
            waiting.until(lambda: not self.backlog.has(last), timeout, "the last row to be deleted",
                          every=0.01)
        except waiting.Late:
            return None
        while True:
            now = time.time()
            if not self.backlog.has_after(last - IN_FLIGHT):
                return now


class Player(Protocol):
    name: str

    @property
    def pid(self) -> int: ...
    def start(self) -> object: ...
    def pause(self) -> None:
        """Once the outbox is empty: stands still and holds nothing."""
    def go_on(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None:
        """It must have gone well."""
    def close(self) -> None: ...


class Relay(Program):
    def __init__(self, stage: Stage, number: int = 1, lease: str = "10m") -> None:
        super().__init__("counterfoil-relay", f"relay-{number}", stage.bench.directory,
                         libconfig.merge(stage.bench.configuration(stage.broker.bootstrap),
                                         {"relay": {"lease": lease}}))
        self.name = "relay"
        self._first = number == 1

    def start(self, ready: bool = True, timeout: float = 30) -> Program:
        """A second one stands by."""
        if self._first:
            return super().start(ready, timeout)
        super().start(ready=False)
        self.wait_for("standby", timeout)
        return self

    pause, go_on = Program.freeze, Program.thaw

    def stop(self, timeout: float = 30) -> None:
        super().stop(timeout)
        assert not self.complaints(), self.complaints()


class Rival:
    """tests/bench/rival.c. `follow`: it goes on looking; else it stops at an empty outbox."""

    name = "rival"

    def __init__(self, stage: Stage, number: int = 1, follow: bool = False) -> None:
        self._command = [str(build_directory() / "tests/bench/rival"), stage.conninfo,
                         stage.broker.bootstrap, "follow" if follow else "drain"]
        self._follow = follow
        self.process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> None:
        self.process = children.spawn(self._command, stdin=subprocess.PIPE, text=True, bufsize=1,
                                      stdout=subprocess.PIPE)
        self.go_on()

    def pause(self) -> None:
        assert self.process.stdout.readline() == "empty\n", "the rival has failed"

    def go_on(self) -> None:
        self.process.stdin.write("go on\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self._follow:
            assert self.process.poll() is None, "the rival has failed"
            self.process.terminate()
        else:
            self.process.stdin.close()
            assert self.process.wait(30) == 0, "the rival has failed"
        self.close()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


Make = Callable[[Stage], Player]


@dataclass(frozen=True)
class Drained:
    rows: int
    usage: Usage
    idle_bytes: int   # resident before there was a backlog
    peak_bytes: int

    @property
    def rate(self) -> float:
        return self.rows / self.usage.seconds


def drained(stage: Stage, make: Make, rows: int, held: bool = False,
            patience: float = TIMEOUT) -> Drained:
    """The backlog is put there while the player, who has published before, stands still. `held`:
    another session has a snapshot all the while. Who has not done within `patience` seconds is
    stopped, and what it did until then counts."""
    topic = stage.new_topic()
    stage.backlog.clear()
    stage.backlog.add_one(topic)
    with ExitStack() as stack:
        player = stack.enter_context(closing(make(stage)))
        player.start()
        stage.wait_empty()
        player.pause()
        idle = resident_bytes(player.pid)
        last = stage.backlog.fill(topic, rows)
        if held:
            stack.enter_context(stage.snapshot())
        meter = stage.meter(player)
        player.go_on()
        done = stage.wait_gone(last, patience)
        usage = meter.read(done or time.time())
        left = stage.backlog.count()
        peak = peak_bytes(player.pid)
        if done:
            player.stop()
    if done:
        published = sum(high for _, high in stage.broker.bounds(topic))
        assert left == 0, f"{left} rows are left"
        assert published == rows + 1, f"{published} messages"
    return Drained(rows - left, usage, idle, peak)
