"""All that is measured of the relay, on each broker; what needs a broker that keeps everything and
lets no consumer wait, on the real Kafka alone."""

from __future__ import annotations

from contextlib import closing
from typing import Callable, Iterator

from . import brokers, hardship, steady, writers
from .backlog import Backlog
from .drain import measure_drain
from .setting import DATABASE, ROWS, Bench, Size
from .stage import Stage
from .table import Figure

Measure = Callable[[Stage, Size], list[Figure]]
EVERYWHERE: tuple[Measure, ...] = (measure_drain,)
ON_KAFKA: tuple[Measure, ...] = (
    steady.measure_latency, steady.measure_idle, hardship.measure_memory, hardship.measure_held,
    writers.measure, hardship.measure_books)


def measure(bench: Bench, size: Size) -> Iterator[list[Figure]]:
    """The figures of each broker, as soon as they are there."""
    with closing(bench.postgres.connect(DATABASE)) as connection:
        backlog = Backlog(connection, max(size.of(ROWS), hardship.KILL_LEAST))
        print("outbox: rows of {} to {} bytes".format(*backlog.row_size()))
        for name, broker in brokers.each():
            stage = Stage(name, bench, backlog, broker)
            for one in EVERYWHERE + (ON_KAFKA if name == brokers.REAL else ()):
                figures = one(stage, size)
                for figure in figures:
                    print("  " + "  ".join(filter(None, figure.cells())), flush=True)
                yield figures
