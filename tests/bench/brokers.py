"""The Kafkas to measure against: the stand-in, and a real one where it can be had."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from tests.tools.broker import Broker, Client
from tests.tools.kafka import Kafka, Unavailable

PARTITIONS = 12   # the stand-in keeps only 5 MiB of each
REAL = "kafka"


@contextmanager
def _mock() -> Iterator[Client]:
    with Broker(partitions=PARTITIONS) as broker:
        yield broker


@contextmanager
def _kafka() -> Iterator[Client]:
    with Kafka(quick=False) as kafka:
        yield kafka


def each() -> Iterator[tuple[str, Client]]:
    """Each with its name, one after the other; what cannot be had is said and left out."""
    for name, opened in (("mock", _mock), (REAL, _kafka)):
        try:
            with opened() as broker:
                yield name, broker
        except Unavailable as why:
            print(f"skipped: {name}: {why}", flush=True)
