"""An event is told by its own id too: a key template that was changed makes no second effect of it."""

from __future__ import annotations

from typing import Any, Callable

from tests.tools.world import World

from .intake import Sender, conflicts_of, keys

MakeWorld = Callable[..., World]
OTHER_TEMPLATE = "order:${/order_id}:charge:v2"


def with_key(world: World, template: str) -> None:
    (ledger,) = world.ledgers
    ledger.stop()
    world.effects[0]["key"] = template
    config: dict[str, Any] = world.configuration()
    config["kafka"]["properties"] += world.broker.group_properties
    ledger.configure(config)
    ledger.start()


def test_another_key_template_makes_no_second_effect(make_world: MakeWorld):
    """The same event is a duplicate, with other content a conflict; events without an id of their own
    are told by their place, and ids of two sources are two."""
    world = make_world()
    sender = Sender(world)
    for order in ("a", "b"):                        # in one batch
        sender.order(order, event_id="twice")
    sender.flush()
    world.start()
    known = sender.order("known", 5)
    for source in (b"/shop/a", b"/shop/b"):
        sender.order(f"of-{source[-1]:c}", event_id="one-id", headers=(("ce_source", source),))
    sender.drain()
    assert conflicts_of(world, "order:b:charge") == [(0, "twice", "order:a:charge")]
    before = world.effects_seen()
    with_key(world, OTHER_TEMPLATE)
    sender.repeat()
    sender.drain()
    assert world.effects_seen() == before, "the copies are duplicates"

    other = sender.order("known", 6, event_id=known)
    assert other == known
    placeless = sender.order("placeless", 7, event_id=None)
    sender.order("new", 8)
    sender.drain()
    assert placeless is None
    assert set(keys(world)) == {"order:a:charge", "order:known:charge", "order:of-a:charge", "order:of-b:charge", "order:placeless:charge:v2", "order:new:charge:v2"}
    assert conflicts_of(world, "order:known:charge:v2") == [(0, known, "order:known:charge")]
    assert world.provider.charges_by_key()["order:known:charge"] == 1
