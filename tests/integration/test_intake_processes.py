"""Intake by processes that begin, change and are killed: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
import threading
from typing import Any, Callable

import pytest

from tests.tools import waiting
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

from .intake import (ORDER, PARTITIONS, Sender, conflicts_of, ends, keys, poison_of, positions,
                     requests_of)


# --- where a topic begins -------------------------------------------------------------------------

def test_where_a_topic_begins_is_for_a_person_to_say(make_world: Callable[..., World]):
    """Without ledger.start nothing of a new topic is consumed, and what is known goes on."""
    world = make_world(settings={"ledger": {"start": None}})
    history = f"{world.topic}-history"
    world.broker.create_topic(history, PARTITIONS)
    world.effects.append({**world.effects[0], "name": "late", "key": "late:${/order_id}",
                          "on": {"topic": history, "type": "order.placed"}})
    sender, old = Sender(world), [("ce_type", b"order.placed")]
    world.query("INSERT INTO counterfoil.intake_position SELECT %s, n, -2 FROM "
                "generate_series(0, 3) n", (world.topic,))
    for n in range(20):
        world.broker.produce(history, ORDER % b"%d" % n, None, old, n % PARTITIONS)
    sender.order(1)
    sender.flush()
    ledger = world.ledger()
    ledger.allow_errors("topic not begun")
    ledger.start()
    line = ledger.wait_for("topic not begun", topic=history)
    assert line.level == "error" and "ledger.start" in line.fields["remedy"]
    sender.order(2)
    sender.drain()                                  # the other topic does not wait
    assert set(keys(world)) == {"order:1:charge", "order:2:charge"}
    ledger.stop()

    world.settings = {"ledger": {"start": "latest"}}
    ledger.configure(world_configuration(world))
    ledger.start()
    waiting.until(lambda: world.value("SELECT count(*) = 4 FROM counterfoil.intake_position "
                                      "WHERE topic = %s", (history,)), 10, "the topic to begin")
    world.broker.produce(history, ORDER % b"20", None, old, 1)
    world.broker.flush()
    waiting.until(lambda: world.state("late:20") == "completed", 20, "the new event's effect")
    assert set(keys(world)) == {"order:1:charge", "order:2:charge", "late:20"}
    world.run_twice()


def world_configuration(world: World) -> dict[str, Any]:
    """As World.ledger() makes it."""
    config = world.configuration()
    config["kafka"]["properties"] += world.broker.group_properties
    return config


def test_what_nobody_asked_for_can_be_poison(make_world: Callable[..., World]):
    """ledger.unmatched = poison; and ledger.start = earliest performs what was there."""
    world = make_world(settings={"ledger": {"unmatched": "poison"}})
    sender = Sender(world)
    sender.send(b"x", "never.heard.of", key=b"unmatched")
    sender.send(None, "order.placed", key=b"tombstone", partition=1)
    sender.order(1)
    sender.flush()
    world.start(relays=0)
    sender.drain()
    for key in (b"unmatched", b"tombstone"):
        assert poison_of(world, key) == ("unmatched", "no effect matches this topic and type")
    assert not world.query("SELECT FROM counterfoil.unmatched")
    assert keys(world) == ["order:1:charge"]
    world.run_twice()


# --- another template -----------------------------------------------------------------------------

def test_another_template_does_not_change_what_was_taken_in(make_world: Callable[..., World]):
    """L40: the event comes again while its request is not through yet: it is a duplicate, and the
    request keeps its bytes."""
    world = make_world(effect={"retry": {"attempts": 1000}})
    sender = Sender(world)
    fault = world.provider.fault("status", status=503)
    world.start(relays=0)
    sender.order("L40", 40)
    sender.flush()
    waiting.until(lambda: world.provider.met(fault) >= 2, 20, "some attempts")
    (ledger,) = world.ledgers
    ledger.stop()
    world.effects[0]["request"]["body"] = "price=${/total_cents}"
    world.effects[0]["request"]["path"] = "/v2/charges"
    ledger.configure(world_configuration(world))
    ledger.start()
    sender.repeat()
    waiting.until(lambda: world.unread() == 0, 20, "the copy to be taken in")
    assert world.state("order:L40:charge") not in (None, "completed")
    world.provider.clear()
    world.wait_drained()
    requests = world.provider.requests()
    assert len(requests) > 3
    assert {(r.path, r.body) for r in requests} == {
        ("/v1/charges", "amount=40&currency=usd&customer=c")}
    assert not conflicts_of(world, "order:L40:charge")
    sender.order("new", 41)
    sender.drain()
    assert requests_of(world.provider, "order:new:charge")[0].body == "price=41"
    world.run_twice()


# --- processes that come and go -------------------------------------------------------------------

class Stream:
    """Orders 0, 1, 2 ... to all partitions, from a thread, at a rate, until they are `count` or it
    is stopped."""

    def __init__(self, world: World, count: int, pause: float) -> None:
        self.world = world
        self.count = count
        self.pause = pause
        self.produced = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        world = self.world
        partitions = len(world.broker.partitions(world.topic))
        while self.produced < self.count and not self._stop.wait(self.pause):
            for n in range(self.produced, min(self.produced + 50, self.count)):
                headers = [("ce_type", b"order.placed"), ("ce_id", b"event-%d" % n)]
                world.broker.produce(world.topic, ORDER % b"%d" % n, None, headers, n % partitions)
                self.produced = n + 1
        world.broker.flush()

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def join(self, timeout: float = 60) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.join()

    @property
    def keys(self) -> list[str]:
        return [f"order:{n}:charge" for n in range(self.produced)]


def taken(world: World) -> int:
    return world.value("SELECT count(*) FROM counterfoil.effect")


def assert_whole(world: World, stream: Stream) -> None:
    """Every event has its effect, once; every position is the end."""
    waiting.until(lambda: world.unread() == 0, 60, "all to be taken in")
    assert sorted(keys(world)) == sorted(stream.keys)
    assert positions(world) == ends(world)
    assert world.value("SELECT count(*) FROM counterfoil.effect_state") == len(stream.keys)
    assert world.value("SELECT count(*) FROM counterfoil.effect_request") == len(stream.keys)
    assert not world.query("SELECT FROM counterfoil.conflict")
    assert not world.query("SELECT FROM counterfoil.poison")


def partitions_of(ledger: Program) -> int:
    """How many it has now."""
    last = ledger.said("partitions ")[-1]
    return int(last.fields["count"]) if last.msg == "partitions assigned" else 0


@pytest.mark.plain
def test_ten_ledgers_are_killed_in_the_midst_of_intake(make_world: Callable[..., World]):
    """Eleven share the topic, ten get kill -9 while they read; the last one has it all."""
    world = make_world(partitions=11)
    world.start(relays=0, ledgers=11)
    waiting.until(lambda: all(partitions_of(ledger) == 1 for ledger in world.ledgers), 60,
                  "all to have their share")
    with Stream(world, 2000, 0.05) as stream:
        for ledger in world.ledgers[:10]:
            before = taken(world)
            waiting.until(lambda: taken(world) > before, 20, "intake to go on")
            ledger.kill()
        stream.join()
    assert stream.produced == 2000
    assert_whole(world, stream)
    world.wait_drained()
    assert not world.duplicated() and len(world.provider.charges()) == 2000
    world.ledgers = world.ledgers[10:]
    world.run_twice()


def test_ledgers_join_and_leave_at_random(make_world: Callable[..., World]):
    """L51: the ledger has every key, once."""
    chance = random.Random(51)
    world = make_world(effect={"delay": "1h"})      # intake alone
    world.start(relays=0, ledgers=2)
    with Stream(world, 10_000, 0.02) as stream:
        for how in chance.sample(["kill", "stop"] * 4, 8):
            before = taken(world)
            waiting.until(lambda: taken(world) >= min(before + 800, 10_000), 20, "intake to go on")
            leaves = chance.choice(world.ledgers)
            getattr(leaves, how)()
            leaves.start(ready=False)
        stream.join()
    assert stream.produced == 10_000
    assert_whole(world, stream)


def test_postgresql_is_killed_during_intake(make_world: Callable[..., World], postgres: Postgres):
    world = make_world()
    world.start(relays=0, ledgers=2)
    with Stream(world, 2000, 0.05) as stream:
        for crash in (postgres.kill, lambda: postgres.stop("immediate")):
            before = taken(world)
            waiting.until(lambda: taken(world) > before + 200, 20, "intake to go on")
            crash()
            postgres.start()
        stream.join()
    assert_whole(world, stream)
    world.wait_drained()
    assert not world.duplicated() and len(world.provider.charges()) == 2000
    world.run_twice()


# --- more than can be done ------------------------------------------------------------------------

WAITING = """WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode,
    provider_key, fingerprint, event_hash, topic, partition, "offset", event_id)
  SELECT 'former', 'former:' || n, 'former', 'idempotent', 'former:' || n, '', '', 'former', 0, n, n
  FROM generate_series(1, 100) n RETURNING id)
INSERT INTO counterfoil.effect_state (id, target, tenant) SELECT id, 'former', '' FROM e"""
HOLD = "INSERT INTO counterfoil.target_state (target, held, held_by) VALUES (%s, true, 'duty')"
RELEASE = "UPDATE counterfoil.target_state SET held = false, held_by = NULL"


def test_intake_waits_while_too_much_is_due(make_world: Callable[..., World]):
    """L50: above ledger.due_high nothing more is taken in, below due_low it goes on, and all is done;
    what waits for a target that left the configuration is not counted."""
    world = make_world(settings={"ledger": {"due_high": 20, "due_low": 10, "batch": 5}})
    world.query(WAITING)
    world.query(HOLD, (world.configuration()["targets"][0]["name"],))
    ledger = world.ledger().start()
    sender = Sender(world)

    def recorded() -> int:
        return len([key for key in keys(world) if key.startswith("order:")])
    ledger.wait_for("ready")
    waiting.holds(lambda: not ledger.said("intake paused"), 4, "the hundred others do not count")
    for n in range(30):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    waiting.until(lambda: recorded() == 30, 20, "what comes first")
    ledger.wait_for("intake paused")
    for n in range(30, 400):
        sender.order(n, partition=n % PARTITIONS)
    sender.flush()
    waiting.holds(lambda: recorded() < 400, 2, "intake waits")
    world.query(RELEASE)
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.effect_state "
                                      "WHERE state = 'completed'") == 400, 30, "all to be done")
