"""Events whose key stands for something else: listed, told apart, settled by a person, cleared."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any, Callable

from tests.tools import waiting
from tests.tools.world import World

from .intake import Sender
from .orders_to_intake import ORDERED, answer, counterfoil

MakeWorld = Callable[..., World]
OPEN = "SELECT count(*) FROM counterfoil.conflict WHERE settled_at IS NULL"


def trace(n: int) -> tuple[tuple[str, bytes], ...]:
    return (("traceparent", b"00-%032x-%016x-01" % (n, n)),)


def listed(world: World, *words: object) -> list[dict[str, Any]]:
    return answer(counterfoil(world, "conflicts", *words, "--json"))


def shown(world: World, number: object) -> dict[str, Any]:
    return answer(counterfoil(world, "conflicts", "show", number, "--json"))


def in_conflict(world: World, count: int) -> list[dict[str, Any]]:
    waiting.until(lambda: world.value(OPEN) >= count, 20, f"{count} conflicts")
    return listed(world)


def with_rivals(make_world: MakeWorld) -> World:
    """An effect whose URL is of the event, and one that asks for the charge's key."""
    world = make_world()
    charge = world.effects[0]
    world.effects += [
        {**charge, "name": "visit", "key": "visit:${/n}", "on": {"topic": world.topic, "type": "visit"},
         "request": {"path": "/v1/${/where}", "body": "same", "content_type": "text/plain"}},
        {**charge, "name": "rival", "on": {"topic": world.topic, "type": "rival"}}]
    return world.start()


def test_conflicts_are_listed_and_told_apart(make_world: MakeWorld):
    """The newest first; what differs is named, the trace is no difference, and the dead letter is found
    by its id. What was erased or forgotten since is said to be unknown."""
    world = with_rivals(make_world)
    assert listed(world) == [] and "no open conflict" in counterfoil(world, "conflicts").stdout
    sender = Sender(world)
    first = sender.order(1, 1, headers=trace(1))
    sender.send(b'{"n": 7, "where": "here"}', "visit")
    second = sender.order(1, 2, headers=trace(2))
    sender.send(b'{"n": 7, "where": "there"}', "visit")
    sender.send(sender.sent[0].value, "rival")
    sender.drain()
    rival, visit, order = in_conflict(world, 3)
    assert [one["effect"] for one in (rival, visit, order)] == ["rival", "visit", "charge"]
    assert order.items() >= {
        "topic": world.topic, "partition": 0, "event_id": second, "key": "order:1:charge",
        "target": "payments", "tenant": "", "held_by_key": "order:1:charge",
        "held_by_effect": "charge", "held_by_state": "completed", "settled_at": None}.items()
    assert [one["id"] for one in listed(world, "--limit", 1)] == [rival["id"]]
    assert listed(world, "--topic", "another") == []
    assert len(listed(world, "list", "--topic", world.topic)) == 3

    one = shown(world, order["id"])
    assert one["differs"] == "body"
    assert one["same"] == {"method": True, "url": True, "headers": True, "body": False}
    assert one["fingerprint"] != one["held_by_fingerprint"] and len(one["fingerprint"]) == 32
    assert one["held_by_event_id"] == first and one["held_by_url"].endswith("/v1/charges")
    assert shown(world, visit["id"])["differs"] == "url"
    assert shown(world, rival["id"])["differs"] == 'the effect: "charge" holds the key'
    text = counterfoil(world, "conflicts", "show", order["id"]).stdout
    assert f"key          order:1:charge\n" in text and "\ndiffers      body\n" in text
    assert order["dead_letter"] in counterfoil(world, "conflicts").stdout

    letters = waiting.until(lambda: [m for m in world.messages(f"{world.topic}.dlq")
                                     if m.header("cf-event-id") == second], 20, "the dead letter")
    assert [letter.header("ce_id") for letter in letters] == [order["dead_letter"]]

    erased = counterfoil(world, "erase", "order:1:charge", *ORDERED)
    assert erased.returncode == 0, erased.stderr
    assert shown(world, order["id"])["differs"] == "not known: the request that stands is no longer kept"
    world.query("DELETE FROM counterfoil.effect WHERE id = %s", (order["held_by"],))
    assert shown(world, order["id"])["differs"] == "not known: the key that stood there was forgotten"
    assert counterfoil(world, "conflicts", "show", 999).returncode == 4
    for words in (["show"], ["show", "x"], ["what"], ["--key", "k"], ["show", "1", "--topic", "t"]):
        assert counterfoil(world, "conflicts", *words).returncode == 2, words


def test_a_person_settles_them(make_world: MakeWorld):
    """With a reason, once, audited; they leave the list and stay settled when the events come again.
    Nothing is sent."""
    world = with_rivals(make_world)
    sender = Sender(world)
    for cents in range(5):
        sender.order(1, 1 + cents)
    sender.drain()
    fourth, third, second, first = (one["id"] for one in in_conflict(world, 4))
    requests = len(world.provider.requests())
    for words, code in ((["settle", first], 2), (["settle", first, "--yes"], 2), (["settle"], 2),
                        (["settle", "--all", *ORDERED], 2), (["settle", "x", *ORDERED], 2),
                        (["settle", first, "--topic", world.topic, *ORDERED], 2),
                        (["settle", 999, *ORDERED], 4),
                        (["settle", "--topic", "none", *ORDERED], 4),
                        (["settle", "--topic", world.topic, "--expect", 3, *ORDERED], 5)):
        assert counterfoil(world, "conflicts", *words).returncode == code, words
    dry = answer(counterfoil(world, "conflicts", "settle", first, "--dry-run", "--json"))
    assert (dry["done"], dry["dry_run"]) == (1, True) and world.value(OPEN) == 4

    done = answer(counterfoil(world, "conflicts", "settle", first, second, 999, *ORDERED, "--json"), 3)
    assert [(row["id"], row["result"]) for row in done["rows"]] == [
        (first, "done"), (second, "done"), (999, "missing")]
    assert [one["id"] for one in listed(world)] == [fourth, third]
    assert answer(counterfoil(world, "conflicts", "settle", first, *ORDERED, "--json"))["done"] == 0
    one = shown(world, first)
    assert (one["note"], one["settled_by"]) == ("a test", "postgres") and one["settled_at"]
    assert world.query("SELECT action, about, result, reason, after, who, claims ? 'user' "
                       "FROM counterfoil.audit") == [
        ("settle conflicts", f"conflicts of {world.topic}", "done", "a test",
         {"ids": [first, second]}, "postgres", True)]
    text = counterfoil(world, "conflicts", "settle", "--topic", world.topic, "--expect", 2, *ORDERED)
    assert (text.returncode, text.stdout) == (0, "2 settled\n") and listed(world) == []
    world.rewind()
    world.wait_drained()
    assert world.value(OPEN) == 0 and world.value("SELECT count(*) FROM counterfoil.conflict") == 4
    assert len(world.provider.requests()) == requests


def test_the_same_operation_settles_once(make_world: MakeWorld):
    """Asked for again, its answer having been lost, it says what it said; as something else, it is
    refused. Two at once: one of them does it."""
    world = make_world()
    world.query("INSERT INTO counterfoil.conflict (topic, partition, \"offset\", effect, idempotency_key,"
                " target, tenant, holder, event_id, fingerprint) SELECT 't', 0, n, 'e', 'k', 'p', '', 1,"
                " 'e' || n, '' FROM generate_series(1, 3) n")
    settle = ("SELECT id, result FROM counterfoil.settle_conflicts(%s, "
              "'019c7a31-6f0b-7e37-9d4e-3b0a6c1d9e84', 'why', '{}')")
    assert world.query(settle, ([1, 2],)) == [(1, "done"), (2, "done")]
    assert world.query(settle, ([1, 2],)) == [(1, "done"), (2, "done")]
    assert world.query(settle, ([2, 3],)) == [(2, "done"), (3, "already")]
    assert world.value(OPEN) == 1 and world.value("SELECT count(*) FROM counterfoil.audit") == 1
    with closing(world.connect()) as one, closing(world.connect(autocommit=True)) as other:
        race = ("SELECT result FROM counterfoil.settle_conflicts('{3}', gen_random_uuid(), 'why', '{}')")
        first, second = one.cursor(), other.cursor()
        first.execute(race)
        second.execute("SET lock_timeout = '200ms'")
        try:
            second.execute(race)
            raise AssertionError("it did not wait")
        except Exception as error:
            assert "lock timeout" in str(error)
        one.commit()
        second.execute(race)
        assert (first.fetchall(), second.fetchall()) == ([("done",)], [("already",)])
    assert json.loads(counterfoil(world, "conflicts", "show", 3, "--json").stdout)["note"] == "why"
    world.query("CREATE ROLE nobody_special; GRANT USAGE ON SCHEMA counterfoil TO nobody_special")
    with closing(world.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET ROLE nobody_special")
        try:
            cursor.execute(race)
            raise AssertionError("anybody may")
        except Exception as error:
            assert "permission denied for function settle_conflicts" in str(error)
    world.query("DROP OWNED BY nobody_special; DROP ROLE nobody_special")
