"""The books: what the shop, the broker and the provider each recorded, held against each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass

from tests.tools.broker import Message
from tests.tools.shop import Order
from tests.tools.world import World


@dataclass
class Books:
    orders: int
    published: int           # messages
    extra: int               # copies of events that were there already
    requests: int
    repeats: int             # requests with a key that was sent before
    charges: int
    lost: int
    duplicated: int
    faults: list[str]        # everything that does not balance, in words

    def lines(self) -> list[str]:
        """As they are printed."""
        return [
            f"orders committed          {self.orders:>7,}",
            f"events published          {self.published:>7,}   "
            f"({self.extra:,} published twice: allowed, absorbed)",
            f"charges requested         {self.requests:>7,}   "
            f"({self.repeats:,} repeats, same key, same bytes)",
            f"charges made by provider  {self.charges:>7,}   "
            f"lost {self.lost}  duplicated {self.duplicated}",
        ]


def _some(items: set[object] | list[object]) -> str:
    """The first few, so that one knows where to look."""
    shown = sorted(map(str, items))
    return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")


def balance(world: World, remembered: dict[int, Order], messages: list[Message]) -> Books:
    """`remembered`: what the shop's commits were answered for; `messages`: the topic, read along."""
    faults: list[str] = []
    with closing(world.connect()) as connection:
        committed = world.shop.committed(connection)
    _compare(faults, "orders", set(committed), set(remembered), "in the table but unknown to the "
             "shop", "of answered commits that are not in the table")
    extra = _check_events(faults, set(committed.values()), messages)
    repeats, requests = _check_requests(faults, world, remembered)
    charges, lost, duplicated = _check_charges(faults, world, remembered)
    _check_ledger(faults, world, len(committed))
    return Books(len(committed), len(messages), extra, requests, repeats, charges, lost, duplicated,
                 faults)


def _compare(faults: list[str], what: str, found: set[object], expected: set[object], surplus: str,
             missing: str) -> None:
    if more := found - expected:
        faults.append(f"{len(more)} {what} {surplus}: {_some(more)}")
    if fewer := expected - found:
        faults.append(f"{len(fewer)} {what} {missing}: {_some(fewer)}")


def _check_events(faults: list[str], committed: set[str], messages: list[Message]) -> int:
    """Each committed event is there, nothing else is, and copies are copies."""
    contents: dict[str | None, set[object]] = defaultdict(set)
    for message in messages:
        contents[message.event_id].add(message.content())
    _compare(faults, "events", set(contents), committed, "published that were never committed",
             "committed and never published")
    if unlike := [event for event, seen in contents.items() if len(seen) > 1]:
        faults.append(f"{len(unlike)} events published again in other bytes: {_some(unlike)}")
    return len(messages) - len(contents)


def _check_requests(faults: list[str], world: World, orders: dict[int, Order]) -> tuple[int, int]:
    """Every request is the one that its order asks for, however often it came."""
    requests = world.provider.requests()
    expected = {order.key: f"amount={order.total_cents}&currency=usd&customer={order.customer}"
                for order in orders.values()}
    strange = {r.key for r in requests if r.key not in expected}
    changed = {r.key for r in requests if expected.get(r.key, r.body) != r.body}
    if strange:
        faults.append(f"{len(strange)} keys requested that no order has: {_some(strange)}")
    if changed:
        faults.append(f"{len(changed)} keys requested in other bytes: {_some(changed)}")
    return len(requests) - len({r.key for r in requests}), len(requests)


def _check_charges(faults: list[str], world: World,
                   orders: dict[int, Order]) -> tuple[int, int, int]:
    charged: Counter[str | None] = world.provider.charges_by_key()
    lost = [order.key for order in orders.values() if charged[order.key] == 0]
    duplicated = [key for key, times in charged.items() if times > 1]
    unknown = set(charged) - {order.key for order in orders.values()}
    for wrong, what in ((lost, "orders not charged"), (duplicated, "keys charged more than once"),
                        (unknown, "charges without an order")):
        if wrong:
            faults.append(f"{len(wrong)} {what}: {_some(wrong)}")
    return charged.total(), len(lost), len(duplicated)


def _check_ledger(faults: list[str], world: World, orders: int) -> None:
    states = world.states()
    if left := world.outbox():
        faults.append(f"{left} events still in the outbox")
    for state, count in sorted(states.items()):
        if state != "completed":
            faults.append(f"{count} keys {state} in the ledger")
    if states["completed"] != orders:
        faults.append(f"{states['completed']} keys completed in the ledger for {orders} orders")
