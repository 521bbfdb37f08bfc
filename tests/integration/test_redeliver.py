"""Events that were taken in are read again: by an order that looks them up, by positions that go back,
and by a database that is younger than its topic."""

from __future__ import annotations

import time
from typing import Any, Callable

import pytest

from tests.tools import waiting
from tests.tools.kafka import Kafka
from tests.tools.postgres import Postgres
from tests.tools.world import World

from .intake import ORDER, PARTITIONS, Sender, conflicts_of, keys, positions
from .orders_to_intake import ORDERED, answer, counterfoil, operations, ordered, queue
from .test_kafka import NOON, NOON_TEXT, ORDER_PLACED, kafka                   # noqa: F401

MakeWorld = Callable[..., World]


def forget(world: World, key: str) -> None:
    """As a database does that lost it."""
    world.query("WITH e AS (DELETE FROM counterfoil.effect WHERE idempotency_key = %s RETURNING id), "
                "s AS (DELETE FROM counterfoil.effect_state WHERE id IN (SELECT id FROM e)) "
                "DELETE FROM counterfoil.effect_request WHERE id IN (SELECT id FROM e)", (key,))


def test_what_was_taken_in_is_known(make_world: MakeWorld):
    """All are duplicates and positions stay; one that is missing is told, and recorded only by an order
    that says so, with the same key."""
    world = make_world()
    world.start(relays=0)
    sender = Sender(world)
    for n in range(200):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    before, seen = positions(world), world.effects_seen()
    assert ordered(world, "redeliver", "--topic", world.topic, "--last", 1000) == \
        "200 events read again: 200 duplicates, 0 new"
    assert ordered(world, "redeliver", "--topic", world.topic, "--last", 40) == \
        "40 events read again: 40 duplicates, 0 new"
    assert (positions(world), world.effects_seen()) == (before, seen)

    forget(world, "order:150:charge")
    detail = ordered(world, "redeliver", "--topic", world.topic, "--last", 1000, ends="failed")
    assert detail == ("200 events read again: 199 duplicates, 1 new; the first new key: "
                      "order:150:charge; nothing was recorded: --apply does that")
    assert len(keys(world)) == 199
    detail = ordered(world, "redeliver", "--topic", world.topic, "--last", 1000, "--apply")
    assert detail.startswith("200 events read again: 199 duplicates, 1 new and recorded")
    world.wait_drained()
    assert len(keys(world)) == 200 and world.duplicated() == {} and positions(world) == before
    for words in (["--last", "5"], ["--topic", "t"], ["--topic", "t", "--to", NOON_TEXT],
                  ["--topic", "t", "--last", "5", "--from", NOON_TEXT]):
        assert counterfoil(world, "redeliver", *words, *ORDERED).returncode == 2
    assert counterfoil(world, "redeliver", "--topic", world.topic, "--from", "noon",
                       *ORDERED).returncode == 2
    assert "nothing of it has been taken in" in ordered(
        world, "redeliver", "--topic", "unheard", "--last", 5, ends="failed")


def test_an_order_outlives_its_ledger(make_world: MakeWorld):
    """kill -9 of who reads again: another one goes on where it was, and the figures are whole."""
    world = make_world(effect={"delay": "1h"}, settings={"ledger": {"lease": "1s", "batch": 20}})
    ledgers = [world.ledger().start(), world.ledger().start()]
    sender = Sender(world)
    for n in range(3000):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    waiting.until(lambda: len(keys(world)) == 3000, 30, "all to be taken in")
    operation = queue(world, "redeliver", {"topic": world.topic, "last": 3000, "apply": False})
    name = waiting.until(lambda: world.query(
        "SELECT i.name FROM counterfoil.operation o JOIN counterfoil.instance i ON i.id = o.owner "
        "WHERE o.id = %s AND o.done > 0", (operation,)), 20, "a part")[0][0]
    for ledger in ledgers:
        if name.startswith(ledger.name):
            ledger.kill()
    waiting.until(lambda: operations(world)[-1][1] not in ("queued", "running"), 30, "its end")
    assert operations(world)[-1] == ("redeliver", "done",
                                     "3000 events read again: 3000 duplicates, 0 new")
    assert world.query("SELECT total, done FROM counterfoil.operation") == [(3000, 3000)]


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
    world.run_twice()


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


def test_a_time_is_asked_of_the_brokers(kafka: Kafka, make_world: MakeWorld):          # noqa: F811
    """From a time on, up to a time, and back to a time."""
    world = make_world(kafka, partitions=2)
    world.ledger().start()
    for n in range(20):
        kafka.produce_at(world.topic, NOON + n * 60_000, ORDER % b"%d" % n, n % 2, [ORDER_PLACED])
    world.wait_drained()
    before, seen = positions(world), world.effects_seen()

    def minute(n: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON / 1000 + n * 60))
    assert ordered(world, "redeliver", "--topic", world.topic, "--from", minute(5)).startswith(
        "15 events read again: 15 duplicates, 0 new")
    assert ordered(world, "redeliver", "--topic", world.topic, "--from", minute(5), "--to",
                   minute(9)).startswith("4 events read again: 4 duplicates, 0 new")
    assert ordered(world, "rewind", world.topic, "--to", minute(16)) == \
        "2 partitions went back, by 4 offsets in sum"
    waiting.until(lambda: positions(world) == before, 20, "all to be read again")
    world.wait_drained()
    assert world.effects_seen() == seen


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
    world.run_twice()
