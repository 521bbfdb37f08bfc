"""A world that many tests of effects share: events go straight to the topic, every test takes
orders of its own, and the whole story of one order's key can be asked for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

from . import waiting
from .broker import Broker, Headers
from .libconfig import merge
from .postgres import Postgres
from .provider import Seen
from .shop import Order
from .world import CHARGE, UNFINISHED, World

RETRY = {"strategy": "exponential", "first": "20ms", "max": "100ms", "attempts": 4}


@dataclass(frozen=True)
class Key:
    """What the ledger holds of a key; the names are the columns'."""

    id: int
    state: str
    owner: int | None
    epoch: int
    tries: int
    attempts: int
    throttled: int
    stalled: int
    takeovers: int
    unknown_sends: int
    outcome: str | None
    http_status: int | None
    error_class: str
    provider_id: str | None
    emit_failed: bool
    first_sent_at: datetime | None
    window_until: datetime | None
    due_at: datetime
    state_since: datetime


@dataclass(frozen=True)
class Attempt:
    """One row of attempt."""

    n: int
    epoch: int
    owner: int | None
    outcome: str
    http_status: int | None
    error: str | None
    provider_key: str | None
    provider_id: str | None
    response_body: bytes | None
    truncated: bool
    late: bool
    started_at: datetime
    recorded_at: datetime


KEY = (f"SELECT s.{', s.'.join(f.name for f in fields(Key))} FROM counterfoil.effect e "
       "JOIN counterfoil.effect_state s USING (id) WHERE e.idempotency_key = %s")
ATTEMPTS = (f"SELECT {', '.join(f'a.{f.name}' for f in fields(Attempt))} FROM counterfoil.effect e "
            "JOIN counterfoil.attempt a ON a.effect_id = e.id WHERE e.idempotency_key = %s "
            "ORDER BY a.n, a.recorded_at")


def key_name(order: int) -> str:
    return Order(order, "", 0).key


def announce(world: World, orders: Iterable[int], event_type: str = "order.placed",
             headers: Headers = (), **payload: Any) -> None:
    """Publishes the events of these orders, past outbox and relay; `payload` changes its values."""
    for n in orders:
        order = Order(n, payload.get("customer_id", f"customer-{n % 97}"), 100 + n)
        world.broker.produce(world.topic, order.payload.encode(), b"order-%d" % n,
                             [("ce_id", b"event-%d" % n), ("ce_type", event_type.encode()),
                              *headers])
    world.broker.flush()


def key_of(world: World, order: int) -> Key | None:
    found = world.query(KEY, (key_name(order),))
    return Key(*found[0]) if found else None


def attempts_of(world: World, order: int) -> list[Attempt]:
    """Every attempt, evidence that came late too."""
    rows = world.query(ATTEMPTS, (key_name(order),))
    return [Attempt(*(bytes(v) if isinstance(v, memoryview) else v for v in row)) for row in rows]


def outcomes_of(world: World, order: int) -> list[str]:
    return [attempt.outcome for attempt in attempts_of(world, order)]


def requests_of(world: World, order: int) -> list[Seen]:
    return [seen for seen in world.provider.requests() if seen.key == key_name(order)]


def charges_of(world: World, order: int) -> int:
    return world.provider.charges_by_key()[key_name(order)]


def wait_state(world: World, order: int, *states: str, timeout: float = 20) -> Key:
    """The key, once it is in one of these states."""
    def look() -> Key | None:
        key = key_of(world, order)
        return key if key and key.state in states else None
    try:
        return waiting.until(look, timeout, f"order {order} to be {' or '.join(states)}")
    except waiting.Late as late:
        raise waiting.Late(f"{late}; it is {key_of(world, order)}") from None


def wait_finished(world: World, orders: Iterable[int], timeout: float = 20) -> None:
    """No machine will move these any more."""
    names = [key_name(n) for n in orders]

    def finished() -> bool:
        return world.value(
            "SELECT count(*) FROM counterfoil.effect e JOIN counterfoil.effect_state s USING (id) "
            "WHERE e.idempotency_key = ANY (%s) AND s.state::text <> ALL (%s)",
            (names, list(UNFINISHED))) == len(names)
    try:
        waiting.until(finished, timeout, f"{len(names)} keys to be finished")
    except waiting.Late as late:
        raise waiting.Late(f"{late}; all keys: {dict(world.states())}") from None


def same_bytes(requests: list[Seen]) -> bool:
    """Whether they are one request, sent again: line, every header, body."""
    return len({(r.method, r.path, tuple(r.headers), r.digest) for r in requests}) == 1


def effect(event_type: str, target: str = "payments", **changes: Any) -> dict[str, Any]:
    """An effect of its own for that type of event, sent to /v1/TYPE; `changes` are laid over it."""
    own = {"name": event_type, "on": {"type": event_type}, "target": target, "retry": RETRY,
           "request": {"path": f"/v1/{event_type}"}}
    return merge(merge(CHARGE, own), changes)


class Bench:
    """A world and its next orders."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._given = 0

    def orders(self, count: int) -> list[int]:
        """Numbers that no other test has."""
        first = self._given + 1
        self._given += count
        return list(range(first, first + count))

    def order(self) -> int:
        return self.orders(1)[0]


@contextmanager
def opened(directory: Path, postgres: Postgres, template: str, broker: Broker, name: str, *,
           effects: Sequence[dict[str, Any]], targets: Sequence[dict[str, Any]] = (),
           profiles: Sequence[dict[str, Any]] = (),
           settings: dict[str, Any] | None = None) -> Iterator[Bench]:
    """A bench with a relay and a ledger, which log everything. `targets` are further ones: what
    differs from the world's."""
    postgres.create_database(name, template)
    for topic in (name, f"{name}.dlq"):
        broker.create_topic(topic)
    quick = [("bootstrap.servers", broker.bootstrap), ("fetch.wait.max.ms", "20")]
    world = World(directory, postgres, name, broker, name, target={"timeout": "1s"},
                  settings=merge({"log": {"level": "debug"}, "profiles": profiles,
                                  "kafka": {"properties": quick}}, settings or {}))
    try:
        world.targets = [merge(world.targets[0], t) for t in [{}, *targets]]
        world.effects = [merge(e, {"on": {"topic": name}}) for e in effects]
        world.start()
        yield Bench(world)
    finally:
        world.close()
        postgres.drop_database(name)
    complaints = world.complaints()
    assert not complaints, "\n".join(["in the logs:", *complaints])
