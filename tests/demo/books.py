"""The books: what the shop, the broker, the provider and the mail server each recorded, held against
each other and the ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass

from tests.tools.broker import Message
from tests.tools.mailer import Mail
from tests.tools.shop import Order
from tests.tools.world import World

from . import mail


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
    mails: "Mails"
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
            f"mails taken by the server {self.mails.taken:>7,}   "
            f"lost {self.mails.lost}  duplicated {self.mails.duplicated}",
            f"mails uncertain           {self.mails.uncertain:>7,}   "
            f"a person decides: cut off in the act; {self.mails.arrived:,} arrived",
        ]


@dataclass
class Mails:
    """Each is once at the server; or uncertain, and there once or not at all."""

    taken: int               # by the server, those too whose sender never heard of it
    lost: int
    duplicated: int
    uncertain: int
    arrived: int             # of the uncertain ones


def _some(items: set[object] | list[object]) -> str:
    """The first few, so that one knows where to look."""
    shown = sorted(map(str, items))
    return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")


def balance(world: World, remembered: dict[int, Order], messages: list[Message],
            mails: list[Mail]) -> Books:
    """`remembered`: what the shop's commits were answered for; `messages`: the topic, read along;
    `mails`: what the mail server has taken."""
    faults: list[str] = []
    with closing(world.connect()) as connection:
        committed = world.shop.committed(connection)
    _compare(faults, "orders", set(committed), set(remembered), "in the table but unknown to the "
             "shop", "of answered commits that are not in the table")
    extra = _check_events(faults, set(committed.values()), messages)
    repeats, requests = _check_requests(faults, world, remembered)
    charges, lost, duplicated = _check_charges(faults, world, remembered)
    post = _check_mails(faults, world, remembered, mails)
    _check_ledger(faults, world, len(committed))
    return Books(len(committed), len(messages), extra, requests, repeats, charges, lost, duplicated,
                 post, faults)


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


def _check_mails(faults: list[str], world: World, orders: dict[int, Order],
                 mails: list[Mail]) -> Mails:
    uncertain = {key for key, state in _keys(world, "mail").items() if state == "uncertain"}
    taken: Counter[int | None] = Counter(map(mail.number_of, mails))
    lost = [n for n, order in orders.items() if not taken[n] and mail.key(order) not in uncertain]
    duplicated = [n for n, times in taken.items() if times > 1]
    unknown = set(taken) - set(orders)
    changed = {n for n, one in zip(map(mail.number_of, mails), mails)
               if n in orders and not mail.is_meant(one, orders[n])}
    for wrong, what in ((lost, "orders without their mail, and nobody is told"),
                        (duplicated, "orders with more than one mail"),
                        (unknown, "mails without an order"), (changed, "mails in other words")):
        if wrong:
            faults.append(f"{len(wrong)} {what}: {_some(wrong)}")
    return Mails(len(mails), len(lost), len(duplicated), len(uncertain),
                 sum(taken[n] > 0 for n, order in orders.items() if mail.key(order) in uncertain))


def _keys(world: World, effect: str) -> dict[str, str]:
    """The state of each key of an effect."""
    return dict(world.query("SELECT e.idempotency_key, s.state::text FROM counterfoil.effect e "
                            "JOIN counterfoil.effect_state s USING (id) WHERE e.effect = %s",
                            (effect,)))


def _check_ledger(faults: list[str], world: World, orders: int) -> None:
    if left := world.outbox():
        faults.append(f"{left} events still in the outbox")
    for effect, ends in (("charge", {"completed"}), ("mail", {"completed", "uncertain"})):
        states = Counter(_keys(world, effect).values())
        for state in sorted(states.keys() - ends):
            faults.append(f"{states[state]} keys of {effect} {state} in the ledger")
        if (ended := sum(states[state] for state in ends)) != orders:
            faults.append(f"{ended} keys of {effect} at their end in the ledger for {orders} orders")
