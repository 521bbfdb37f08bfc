"""Where intake goes on: positions that go back, a database of yesterday, calls that are longer than the
group's patience."""

from __future__ import annotations

from contextlib import closing
from typing import Callable

from tests.tools import waiting
from tests.tools.postgres import Postgres
from tests.tools.world import World

from .intake import PARTITIONS, Sender, conflicts_of, keys, positions
from .orders_to_intake import answer, counterfoil, ordered, queue, wait_end, waits

MakeWorld = Callable[..., World]


def test_positions_go_back(make_world: MakeWorld):
    """Ledgers that have nothing to read notice it and read again; nothing happens twice. Forward, and
    further back than keys are known, they do not go."""
    world = make_world()
    world.start(relays=0, ledgers=2)
    sender = Sender(world)
    for n in range(100):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    before, seen = positions(world), world.effects_seen()
    places = answer(counterfoil(world, "rewind", world.topic, "--json"))
    assert [(p["next_offset"], p["known_from"]) for p in places] == [(25, 0)] * PARTITIONS

    for to, back in (("10", 60), ("earliest", 100)):
        detail = ordered(world, "rewind", world.topic, "--to", to)
        assert detail == f"4 partitions went back, by {back} offsets in sum"
        waiting.until(lambda: positions(world) == before, 20, "all to be read again")
        world.wait_drained()
        assert world.effects_seen() == seen
    assert ordered(world, "rewind", world.topic, "--to", 5, "--partition", 2) == \
        "1 partitions went back, by 20 offsets in sum"
    waiting.until(lambda: positions(world) == before, 20, "all to be read again")
    assert "not moved forward" in ordered(world, "rewind", world.topic, "--to", 500, ends="failed")
    world.query("INSERT INTO counterfoil.reach VALUES (%s, 1, 12)", (world.topic,))
    detail = ordered(world, "rewind", world.topic, "--to", 10, ends="failed")
    assert "would run as if it were new" in detail and "partition 1 from offset 12" in detail
    assert positions(world) == before and world.effects_seen() == seen
    ordered(world, "rewind", world.topic, "--to", 10, "--force")
    waiting.until(lambda: positions(world) == before, 20, "all to be read again")
    world.wait_drained()
    assert world.effects_seen() == seen
    assert counterfoil(world, "rewind", world.topic, "--to", "10", "--yes").returncode == 2
    assert counterfoil(world, "rewind", "unheard").returncode == 4
    assert world.value("SELECT count(*) FROM counterfoil.audit WHERE action = 'rewind' "
                       "AND reason = 'a test'") == 6


def test_positions_go_back_under_load(make_world: MakeWorld):
    """A consumer that is writing meanwhile finds its position gone, and goes back too."""
    world = make_world(effect={"delay": "1h"})
    world.start(relays=0, ledgers=1)
    sender = Sender(world)
    for n in range(4000):
        sender.order(n, partition=n % PARTITIONS)
        if n == 2000:
            sender.flush()
            waiting.until(lambda: len(keys(world)) > 500, 20, "a part to be taken in")
            operation = queue(world, "rewind", {"topic": world.topic, "to_offset": 100})
    sender.flush()
    waiting.until(lambda: world.value("SELECT state FROM counterfoil.operation WHERE id = %s",
                                      (operation,)) == "done", 20, "positions to go back")
    waiting.until(lambda: world.unread() == 0, 30, "all to be taken in")
    assert len(keys(world)) == 4000 and not conflicts_of(world, "order:1:charge")


def test_keys_that_are_forgotten_in_the_same_moment(make_world: MakeWorld):
    """Whoever forgets keys holds the positions meanwhile; behind that they do not go back."""
    world = make_world()
    world.start(relays=0)
    sender = Sender(world)
    for n in range(20):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    before = positions(world)
    with closing(world.connect()) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM counterfoil.intake_position FOR SHARE")
        number = queue(world, "rewind", {"topic": world.topic, "to_offset": 1})
        waiting.until(lambda: waits(world), 20, "the order to wait")
        cursor.execute("INSERT INTO counterfoil.reach VALUES (%s, 2, 4)", (world.topic,))
        other.commit()
    state, detail = wait_end(world, number)
    assert state == "failed" and "partition 2 from offset 4" in detail
    assert positions(world) == before


def test_a_database_of_yesterday(make_world: MakeWorld, postgres: Postgres):
    """Restored from a copy: what it lacks is read again, and sent again with the same key."""
    world = make_world()
    world.start(relays=0)
    (ledger,) = world.ledgers
    sender = Sender(world)
    for n in range(20):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    ledger.stop()
    copy = f"{world.database}_yesterday"
    postgres.create_database(copy, world.database)
    ledger.start()
    for n in range(20, 40):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    ledger.stop()
    assert len(world.provider.charges()) == 40
    postgres.drop_database(world.database)
    postgres.query(f"ALTER DATABASE {copy} RENAME TO {world.database}")
    ledger.start()
    world.wait_drained()
    assert len(keys(world)) == 40 and world.duplicated() == {}
    assert len(world.provider.charges()) == 40, "the provider knows the keys"


def test_a_call_longer_than_the_groups_patience(make_world: MakeWorld):
    """L48: calls hold up no poll, so there is no rebalance, and what comes meanwhile is taken in."""
    world = make_world(target={"timeout": "10s"})
    world.settings = {"kafka": {"properties": [
        ("bootstrap.servers", world.broker.bootstrap), ("max.poll.interval.ms", "3500")]}}
    world.provider.fault("pass", delay_answer=5, times=1)
    ledger = world.ledger().start()
    sender = Sender(world)
    sender.order("slow")
    sender.flush()
    waiting.until(lambda: world.state("order:slow:charge") == "in_flight", 10, "the call")
    for n in range(10):
        sender.order(n)
    sender.drain()
    assert world.states() == {"completed": 11} and world.duplicated() == {}
    assert len(ledger.said("partitions assigned")) == 1 and not ledger.said("partitions revoked")
    assert len(world.provider.requests()) == 11
