"""relay_writers: what the relay costs the application. Writers that emit as fast as they can, with
nobody behind them, with the relay and with its rival, in turns."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

from .setting import Size, run_tool
from .stage import Make, Relay, Rival, Stage
from .table import Figure, middle

WRITERS = 4
SECONDS = 6


@dataclass(frozen=True)
class Written:
    rate: float   # transactions a second
    left: int     # rows that waited in the outbox at the end


@dataclass(frozen=True)
class Round:
    alone: Written
    relay: Written
    rival: Written

    @property
    def ratio(self) -> float:
        return self.relay.rate / self.alone.rate

    def figures(self, broker: str) -> list[Figure]:
        return [
            Figure(f"relay_writers {broker}", self.relay.rate, "tx/s", self.alone.rate),
            Figure(f"relay_writers {broker}: rows left behind", self.relay.left, "rows"),
            Figure(f"relay_writers {broker}: the rival's", self.rival.rate, "tx/s",
                   self.alone.rate),
            Figure(f"relay_writers {broker}: the rival left behind", self.rival.left, "rows"),
        ]


def _written(stage: Stage, seconds: float, make: Make | None = None) -> Written:
    topic = stage.new_topic()
    stage.backlog.fill(topic, 1)
    with ExitStack() as stack:
        if make:
            player = stack.enter_context(closing(make(stage)))
            player.start()
            stage.wait_empty()
        pace = run_tool("write-orders", stage.conninfo, topic, 1, WRITERS, seconds,
                        with_=stage.bench.postgres.process.pid)
        left = stage.backlog.count()
        if make:
            stage.wait_empty()
            player.stop()
    return Written(pace.rate, left)


def measure(stage: Stage, size: Size) -> list[Figure]:
    seconds = size.seconds(SECONDS)
    rounds = [Round(_written(stage, seconds), _written(stage, seconds, Relay),
                    _written(stage, seconds, lambda s: Rival(s, follow=True)))
              for _ in range(size.rounds)]
    return middle(rounds).figures(stage.name)
