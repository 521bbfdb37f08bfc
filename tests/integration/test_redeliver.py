"""Events that were taken in are read again by an order that looks each up; orders outlive ledgers."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Callable

from tests.tools import waiting
from tests.tools.world import World

from .intake import PARTITIONS, Sender, conflicts_of, keys, positions
from .orders_to_intake import (ORDERED, counterfoil, operations, order, ordered, queue, wait_end,
                               waits)

TIME = "2026-01-31T08:00:00Z"
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
    assert detail == ("200 events read again: 199 duplicates, 1 new and recorded; the first new key: "
                      "order:150:charge")
    world.wait_drained()
    assert len(keys(world)) == 200 and world.duplicated() == {} and positions(world) == before
    for words in (["--last", "5"], ["--topic", "t"], ["--topic", "t", "--to", TIME],
                  ["--topic", "t", "--last", "5", "--from", TIME]):
        assert counterfoil(world, "redeliver", *words, *ORDERED).returncode == 2
    assert counterfoil(world, "redeliver", "--topic", world.topic, "--from", "noon",
                       *ORDERED).returncode == 2
    assert "nothing of it has been taken in" in ordered(
        world, "redeliver", "--topic", "unheard", "--last", 5, ends="failed")


def test_what_is_before_the_ledger_is_not_read(make_world: MakeWorld):
    """A topic that was begun at its end has a history that was performed elsewhere, or never was to
    be: none of it is missing, and --apply performs none of it."""
    world = make_world(settings={"ledger": {"start": "latest"}})
    sender = Sender(world)
    for n in range(20):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    world.start(relays=0)
    for n in range(20, 32):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    waiting.until(lambda: len(keys(world)) == 12, 20, "what came since")
    for words in ([], ["--apply"]):
        assert ordered(world, "redeliver", "--topic", world.topic, "--last", 1000, *words) == \
            "12 events read again: 12 duplicates, 0 new"
    assert {int(key.split(":")[1]) for key in keys(world)} == set(range(20, 32))


# As expiry does of keys that are old enough.
EXPIRE = """WITH e AS (DELETE FROM counterfoil.effect WHERE topic = %s AND "offset" < %s
    RETURNING id, topic, partition, "offset"),
  r AS (INSERT INTO counterfoil.reach AS r (topic, partition, since)
    SELECT topic, partition, max("offset") + 1 FROM e GROUP BY 1, 2
    ON CONFLICT (topic, partition) DO UPDATE SET since = greatest(r.since, excluded.since)),
  s AS (DELETE FROM counterfoil.effect_state WHERE id IN (SELECT id FROM e))
  DELETE FROM counterfoil.effect_request WHERE id IN (SELECT id FROM e)"""


def test_what_is_forgotten_meanwhile_is_left_out(make_world: MakeWorld):
    """While the order is paused, and while it is under way: it would seem new, and be performed again."""
    world = make_world(settings={"ledger": {"batch": 5}})
    world.start(relays=0)
    sender = Sender(world)
    for n in range(800):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    number = queue(world, "redeliver", {"topic": world.topic, "last": 800, "apply": True})
    waiting.until(lambda: world.value("SELECT done > 20 FROM counterfoil.operation"), 20, "some of it",
                  every=0.002)
    with closing(world.connect()) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE counterfoil.effect_request IN SHARE MODE")
        waiting.until(lambda: waits(world), 20, "it to wait")
        assert order(world, number, "pause") == "done"
    (read,) = world.query("SELECT done, total FROM counterfoil.operation")
    assert 20 < read[0] < read[1] == 800
    world.query(EXPIRE, (world.topic, 120))
    with closing(world.connect()) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE counterfoil.effect_request IN SHARE MODE")
        assert order(world, number, "resume") == "done"
        waiting.until(lambda: waits(world), 20, "it to wait")
        cursor.execute(EXPIRE, (world.topic, 190))
        other.commit()
    state, detail = wait_end(world, number)
    ((done, total),) = world.query("SELECT done, total FROM counterfoil.operation")
    assert done == total and state == "done" and detail == (
        f"{done} events read again: {done} duplicates, 0 new; {800 - done} offsets were left out: "
        "keys of that time were forgotten meanwhile")
    assert done < 800 - 4 * (190 - 120)
    world.wait_drained()
    assert world.duplicated() == {} and len(keys(world)) == 40


def test_cancelled_orders_record_nothing_more(make_world: MakeWorld):
    """What is under way, and waits for the database, is undone."""
    world = make_world()
    world.start(relays=0)
    sender = Sender(world)
    for n in range(40):
        sender.order(n, partition=n % PARTITIONS)
    sender.drain()
    for n in range(10, 20):
        forget(world, f"order:{n}:charge")
    world.query(POISON, (world.topic,))
    for kind, params in (("redeliver", {"topic": world.topic, "last": 40, "apply": True}),
                         ("poison", {"topic": world.topic, "upto": 10_000_000})):
        with closing(world.connect()) as other, other.cursor() as cursor:
            cursor.execute("LOCK TABLE counterfoil.effect_request IN SHARE MODE")
            number = queue(world, kind, params)
            waiting.until(lambda: waits(world), 20, "a slice to wait")
            assert order(world, number, "cancel") == "done"
        waiting.holds(lambda: len(keys(world)) == 30, 0.5, "nothing is recorded")
        assert world.query("SELECT state, done, failed FROM counterfoil.operation WHERE id = %s",
                           (number,)) == [("cancelled", 0, 0)]
    assert not world.query("SELECT FROM counterfoil.poison WHERE settled_at IS NOT NULL")


POISON = """INSERT INTO counterfoil.poison (topic, partition, "offset", hash, size, value, headers, reason,
    error) SELECT %s, 0, 1000000 + n, decode(md5(n::text), 'hex'), octet_length(v), v,
    ('{"ce_type":"order.placed","ce_id":"late-' || n || '"}')::bytea, 'key', 'as it was'
  FROM generate_series(1, 1500) n, LATERAL (SELECT ('{"order_id":"late-' || n ||
    '","customer_id":"c","total_cents":1}')::bytea AS v) v"""


def owner(world: World, operation: int) -> Any:
    """Of an order that is under way: the ledger's name."""
    return world.query("SELECT i.name FROM counterfoil.operation o JOIN counterfoil.instance i "
                       "ON i.id = o.owner WHERE o.id = %s AND o.done > 0 AND o.state = 'running'",
                       (operation,))


def test_orders_outlive_their_ledgers(make_world: MakeWorld):
    """kill -9 of those who carry them out: others go on where they were. Events that are read again are
    counted once each, and messages that were poison become one effect each."""
    world = make_world(effect={"delay": "1h"}, settings={"ledger": {"lease": "1s", "batch": 20}})
    world.start(relays=0)
    sender = Sender(world)
    for n in range(3000):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    waiting.until(lambda: len(keys(world)) == 3000, 30, "all to be taken in")
    for _ in range(2):
        world.ledger().start(ready=False).wait_for("lease taken")
    world.query(POISON, (world.topic,))
    orders = (queue(world, "poison", {"topic": world.topic, "upto": 10_000_000}),
              queue(world, "redeliver", {"topic": world.topic, "last": 3000, "apply": False}))
    for operation in orders:
        name = waiting.until(lambda: owner(world, operation), 20, "a part", every=0.01)[0][0]
        for ledger in world.ledgers:
            if ledger.running and name.startswith(f"{ledger.name}/"):
                ledger.kill()
    waiting.until(lambda: {state for _, state, _ in operations(world)} == {"done"}, 40, "their end")
    assert operations(world)[1] == ("redeliver", "done",
                                    "3000 events read again: 3000 duplicates, 0 new")
    assert world.query("SELECT total, done FROM counterfoil.operation WHERE kind = 'redeliver'") == [
        (3000, 3000)]
    assert len(keys(world)) == len(set(keys(world))) == 4500
    assert not world.query("SELECT FROM counterfoil.poison WHERE settlement IS DISTINCT FROM 'replayed'")
    assert not conflicts_of(world, "order:late-1:charge")
