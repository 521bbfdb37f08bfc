"""The broker that users have, and events of an outbox that each become a charge.

Where no Apache Kafka can be had, every test of one is skipped, with the reason."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import pytest

from tests.tools import waiting
from tests.tools.kafka import Kafka, Unavailable
from tests.tools.world import World

MakeWorld = Callable[..., World]

# Everybody may do everything with what has no rules.
RULES = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
         "allow.everyone.if.no.acl.found": "true"}


@contextmanager
def a_kafka(**options: Any) -> Iterator[Kafka]:
    try:
        kafka = Kafka(**options)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with kafka:
        yield kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """The common one of a module's tests."""
    with a_kafka(settings=RULES) as broker:
        yield broker


def properties(kafka: Kafka, **more: str) -> dict[str, Any]:
    """Settings of a world: librdkafka's, with _ for the dots."""
    return {"kafka": {"properties": [("bootstrap.servers", kafka.bootstrap), *(
        (name.replace("_", "."), value) for name, value in more.items())]}}


# --- events of the outbox's writers, each one a charge --------------------------------------------

OF_EVENTS = {"on": {"type": "tested"}, "key": "event:${event_id}",
             "request": {"body": "amount=1&n=${/n}"}}


GENTLY = {"writers": 6, "rows": 1, "pause": 0.05}


def written(world: World) -> set[str]:
    return {f"event:{event}" for (event,) in world.query("SELECT event_id FROM public.written")}


def assert_each_charged_once(world: World) -> None:
    """Every event that was committed, and nothing else."""
    charges = world.provider.charges_by_key()
    assert set(charges) == written(world)
    assert world.duplicated() == {}
    assert world.states() == {"completed": len(charges)}


def progress(seen: Callable[[], int], more: int = 30) -> None:
    """Waits until so many more are there."""
    before = seen()
    waiting.until(lambda: seen() >= before + more, 30, f"{more} more than {before}")
