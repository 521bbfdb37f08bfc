"""What the tests of intake share: sending any message at all, and asking what became of it."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any

from tests.tools.provider import Provider
from tests.tools.world import World

from .conftest import numbers

PARTITIONS = 4
ORDER = b'{"order_id": %s, "customer_id": "c", "total_cents": 1}'


# --- sending --------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Sent:
    partition: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Sender:
    """A test's own messages in a world's topic, which can come again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[Sent] = []

    def send(self, value: bytes | None, event_type: str | None = "order.placed", *,
             event_id: str | None = "", partition: int = 0, key: bytes | None = None,
             headers: tuple[tuple[str, bytes], ...] = ()) -> str | None:
        """`event_id` "": a new one; None: no such header."""
        event_id = f"event-{next(numbers)}" if event_id == "" else event_id
        own = [("ce_type", event_type), ("ce_id", event_id)]
        whole = (*((name, text.encode()) for name, text in own if text is not None), *headers)
        self._produce(Sent(partition, value, key, whole))
        return event_id

    def order(self, order_id: str | int, cents: int = 100, **where: Any) -> str | None:
        """An order as the shop places it; a number is one in its JSON too."""
        return self.send(json.dumps({"order_id": order_id, "customer_id": "c", "total_cents": cents}
                                    ).encode(), **where)

    def _produce(self, one: Sent) -> None:
        self.sent.append(one)
        self.world.broker.produce(self.world.topic, one.value, one.key, one.headers, one.partition)

    def repeat(self) -> None:
        """All that was sent once more, byte for byte."""
        for one in self.sent[:]:
            self._produce(one)
        self.flush()

    def flush(self) -> None:
        self.world.broker.flush()

    def drain(self) -> None:
        self.flush()
        self.world.wait_drained()

    def again(self) -> None:
        """What was sent comes again, as copies and from positions that are set back: the world must
        look as if it had come once."""
        before = self.world.effects_seen()
        self.repeat()
        self.world.wait_drained()
        assert_same(before, self.world.effects_seen())
        before = seen(self.world)
        set_positions(self.world, -2)
        nudge(self.world)
        self.world.wait_drained()
        assert_same(before, seen(self.world))


def seen(world: World) -> dict[str, Any]:
    return {**world.effects_seen(), **world.records_seen()}


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for what, was in before.items():
        assert after[what] == was, f"{what} changed when the same events came again"


def set_positions(world: World, offset: int) -> None:
    world.query("UPDATE counterfoil.intake_position SET next_offset = %s WHERE topic = %s",
                (offset, world.topic))


def nudge(world: World) -> None:
    """A ledger that has nothing to read does not look at its positions: it gets something."""
    for partition in range(PARTITIONS):
        world.broker.produce(world.topic, b"", None, [("ce_type", b"nudge")], partition)
    world.broker.flush()


# --- asking ---------------------------------------------------------------------------------------

def keys(world: World) -> list[str]:
    return [key for (key,) in world.query("SELECT idempotency_key FROM counterfoil.effect")]


def effects_of(world: World, key: str) -> list[tuple[Any, ...]]:
    """(target, tenant, provider key, partition, offset, event id, state) of a key."""
    return world.query(
        "SELECT e.target, e.tenant, e.provider_key, e.partition, e.\"offset\", e.event_id, "
        "s.state::text FROM counterfoil.effect e JOIN counterfoil.effect_state s USING (id) "
        "WHERE e.idempotency_key = %s ORDER BY 1, 2", (key,))


def conflicts_of(world: World, key: str) -> list[tuple[Any, ...]]:
    """(partition, event id, key of its holder) of a key's conflicts."""
    return world.query(
        "SELECT c.partition, c.event_id, e.idempotency_key FROM counterfoil.conflict c "
        "JOIN counterfoil.effect e ON e.id = c.holder WHERE c.idempotency_key = %s "
        "ORDER BY c.partition, c.\"offset\"", (key,))


def poison_of(world: World, key: bytes) -> tuple[str, str]:
    """(reason, error) of the poison with this Kafka key: one row, however often it was read."""
    ((reason, error),) = world.query(
        "SELECT reason, error FROM counterfoil.poison WHERE key = %s", (key,))
    return reason, error


def requests_of(provider: Provider, key: str) -> list[Any]:
    return [request for request in provider.requests() if request.key == key]


def positions(world: World) -> list[int]:
    return [offset for (offset,) in world.query(
        "SELECT next_offset FROM counterfoil.intake_position WHERE topic = %s ORDER BY partition",
        (world.topic,))]


def ends(world: World) -> list[int]:
    """Where each partition ends."""
    found = [0] * len(world.broker.partitions(world.topic))
    for message in world.messages():
        found[message.partition] = message.offset + 1
    return found


class Digest(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data: bytes) -> bytes:
    hashed = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    hashed.restype, hashed.argtypes = Digest, [ctypes.c_char_p, ctypes.c_size_t]
    digest = hashed(data, len(data))
    return digest.high.to_bytes(8, "big") + digest.low.to_bytes(8, "big")


def assert_charged_once(world: World, key: str, cents: int) -> None:
    seen_requests = [(r.status, r.body) for r in requests_of(world.provider, key)]
    assert seen_requests == [(200, f"amount={cents}&currency=usd&customer=c")], (key, seen_requests)
    assert world.provider.charges_by_key()[key] == 1, key
