"""Which keys are claimed: whose turn it is among tenants, what is paused, what is not due yet, what was
recorded under a former name, and keys that may be what ends a ledger."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, Callable, Iterable, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import programs, waiting
from tests.tools.bench import (Bench, attempts_of, effect, key_name, key_of, requests_of,
                               wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.plans import Plans
from tests.tools.postgres import SUPERUSER, Postgres
from tests.tools.shop import Order
from tests.tools.world import CHARGE, World

LEASE = 2.0
BY_CUSTOMER = {"tenant": "${/customer_id}", "key": "order:${/order_id}:charge"}
MakeWorld = Callable[..., World]

# Keys as intake records them, without an event.
RECORD = """
WITH made AS (
  INSERT INTO counterfoil.effect (target, tenant, idempotency_key, effect, mode, provider_key,
    fingerprint, event_hash, topic, partition, "offset", event_id)
  SELECT %(target)s, %(tenant)s, 'key-' || n, %(effect)s, 'idempotent', 'key-' || n, '', '',
    'by hand', 0, n, 'by hand ' || n
  FROM generate_series(%(first)s, %(first)s + %(count)s - 1) n RETURNING id),
state AS (
  INSERT INTO counterfoil.effect_state (id, target, tenant, due_at)
  SELECT id, %(target)s, %(tenant)s,
    now() - make_interval(secs => %(ago)s) + id * interval '1 microsecond' FROM made)
INSERT INTO counterfoil.effect_request (id, method, url, headers, body)
SELECT id, 'POST', %(url)s, 'Content-Type: text/plain\\012', %(body)s FROM made
"""


def record(world: World, count: int, tenant: str = "", effect: str = "charge", first: int = 1,
           ago: float = 60, body: bytes = b"amount=1", target: str = "payments") -> None:
    world.query(RECORD, {"count": count, "tenant": tenant, "effect": effect, "first": first,
                         "ago": ago, "url": world.provider.url + "/v1/charges", "body": body,
                         "target": target})


def change(world: World, key: str, **columns: Any) -> None:
    changes = ", ".join(f"{name} = %({name})s" for name in columns)
    world.query(f"UPDATE counterfoil.effect_state SET {changes} WHERE id = (SELECT id FROM "
                "counterfoil.effect WHERE idempotency_key = %(key)s)", {**columns, "key": key})


MAY_END_IT = {"state": "retry_wait", "takeovers": 2, "outcome": "lost"}


def command(world: World, *arguments: str, status: int = 0) -> Any:
    """What `counterfoil` says, as JSON."""
    done = programs.run("counterfoil", *arguments, "--json", "--config",
                        str(world.write_configuration()))
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout or done.stderr)


def pause(world: World, *what: str) -> None:
    assert command(world, "pause", *what, "--yes", "--reason", "a test")["result"] == "done"


def resume(world: World, *what: str) -> None:
    assert command(world, "resume", *what, "--yes")["result"] == "done"


def asked(world: World) -> list[str]:
    """The keys of all requests, in their order."""
    return [seen.key for seen in world.provider.requests()]


def announce(world: World, orders: Iterable[int], customer: str, event_type: str,
             event: str = "event", **payload: Any) -> None:
    for n in orders:
        value = {**json.loads(Order(n, customer, 100 + n).payload), **payload}
        world.broker.produce(world.topic, json.dumps(value).encode(), b"%d" % n, [
            ("ce_id", f"{event}-{n}".encode()), ("ce_type", event_type.encode())])
    world.broker.flush()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("claims"), postgres, template, shared_broker, "claims_bench",
            effects=[effect("order", **BY_CUSTOMER), effect("few", "narrow", **BY_CUSTOMER),
                     effect("once", **BY_CUSTOMER, mode="at_most_once"),
                     effect("dated", not_before="${/send_at|}"),
                     effect("delayed", delay="3h")],
            targets=[{"name": "narrow", "concurrency": 10}],
            settings={"ledger": {"lease": f"{LEASE:g}s"},
                      "tenants": [{"name": "heavy", "weight": 3}, {"name": "capped", "cap": 1}]},
            ) as bench:
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.configure(think=(0, 0))
    opened.world.provider.clear()


# --- what a claim costs ---------------------------------------------------------------------------

CLAIM = "WITH RECURSIVE z AS"


@pytest.fixture
def plans(database: str, postgres: Postgres) -> Plans:
    """Of everything that is done in the test's database."""
    postgres.query(f'ALTER ROLE {SUPERUSER} IN DATABASE "{database}" '
                   "SET session_preload_libraries = 'auto_explain'")
    return Plans(postgres, database, SUPERUSER)


def costs(plans: Plans) -> list[int]:
    """The pages that each new claim has looked at."""
    return [plan.blocks() for plan in plans.read() if plan.statement.startswith(CLAIM)]


# --- tenants --------------------------------------------------------------------------------------

@pytest.mark.plain
def test_a_crowd_holds_up_nobody(make_world: MakeWorld, plans: Plans):
    """L58: one tenant has 100,000 due keys, another one gets a single key: it is sent within a second,
    by two slots and a provider that takes its time. Then the crowd's effect is paused: a key of
    another effect, behind all of them, is sent soon, and they are not walked again; resumed, they go
    on in their order."""
    world = make_world(target={"concurrency": 2})
    world.effects = [{**CHARGE, "on": {"topic": world.topic, "type": name}, "name": name}
                     for name in ("charge", "other")]
    world.provider.configure(think=(0.05, 0.05))
    record(world, 100_000, "crowd")
    world.query("VACUUM ANALYZE counterfoil.effect_state")
    world.ledger().start(ready=False)
    waiting.until(lambda: len(asked(world)) > 10, 20, "the crowd")
    record(world, 1, "single", first=200_000, ago=0)
    began = time.monotonic()
    waiting.until(lambda: "key-200000" in asked(world), 5, "the single key")
    assert time.monotonic() - began < 1

    pause(world, "--effect", "charge")
    before = len(asked(world))
    record(world, 1, "crowd", "other", first=200_001, ago=0)
    waiting.until(lambda: "key-200001" in asked(world), 30, "the other effect")
    crowd = [key for key in asked(world) if key != "key-200001"]
    assert len(crowd) <= before + 2
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.effect_state WHERE state = "
                                      "'pending' AND NOT waiting") == 0, 30, "all to be put aside")
    (listed,) = command(world, "pause")
    assert (listed["scope"], listed["name"]) == ("effect", "charge") and listed["keys"] > 99_000
    world.query("VACUUM counterfoil.effect_state")
    costs(plans)
    waiting.holds(lambda: len([k for k in asked(world) if k != "key-200001"]) <= before + 2, 0.5,
                  "nothing of it is sent")
    assert waiting.until(lambda: costs(plans), 5, "claims")[-1] < 200

    resume(world, "--effect", "charge")
    waiting.until(lambda: len(asked(world)) > before + 12, 30, "the crowd again")
    sent = [int(key.removeprefix("key-")) for key in asked(world)]
    sent = [n for n in sent if n < 200_000]
    assert all(b > a - 10 for a, b in pairwise(sent)), "no longer in their order"
    world.ledgers[0].kill()


def test_weights(bench: Bench):
    """Of two tenants that both always have due keys one gets three in its turn, the other one."""
    world = bench.world
    heavy, light = bench.orders(60), bench.orders(60)
    pause(world, "--all")
    announce(world, heavy, "heavy", "few")
    announce(world, light, "light", "few")
    waiting.until(lambda: key_of(world, light[-1]) and key_of(world, heavy[-1]), 20, "all of them")
    world.provider.configure(think=(0.02, 0.02))
    resume(world, "--all")
    wait_finished(world, heavy + light)
    names = {f"heavy~:{key_name(n)}" for n in heavy} | {f"light~:{key_name(n)}" for n in light}
    first = [key.partition("~")[0] for key in asked(world) if key in names][:40]
    assert 24 <= Counter(first)["heavy"] <= 34


def test_a_cap(bench: Bench):
    """No two calls of a tenant with a cap of one are in progress at once, beside those of others."""
    world = bench.world
    capped, others = bench.orders(10), bench.orders(20)
    world.provider.configure(think=(0.04, 0.04))
    announce(world, capped, "capped", "few")
    announce(world, others, "someone", "few")
    wait_finished(world, capped + others)
    begun = sorted(seen.t for seen in world.provider.requests()
                   if seen.key in {f"capped~:{key_name(n)}" for n in capped})
    assert len(begun) == len(capped)
    assert all(b - a >= 0.035 for a, b in pairwise(begun))


# --- pauses ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("what", [["--all"], ["--tenant", "mara"], ["--effect", "order"]],
                         ids=["everything", "tenant", "effect"])
def test_a_pause_stops_claims_and_no_more(bench: Bench, what: list[str]):
    world = bench.world
    running, held, late = bench.orders(3)
    call = world.provider.fault("pass", times=1, delay=0.5)
    announce(world, [running], "mara", "order")
    waiting.until(lambda: world.provider.met(call), 20, "the call")
    pause(world, *what)
    announce(world, [held, late], "mara", "order")
    waiting.until(lambda: key_of(world, late), 20, "the orders to be recorded")
    wait_state(world, running, "completed")
    waiting.holds(lambda: {key_of(world, n).tries for n in (held, late)} == {0}, 1, "they wait")
    (listed,) = command(world, "pause")
    assert (listed["scope"], listed["name"], listed["reason"]) == (
        {"--all": "everything", "--tenant": "tenant", "--effect": "effect"}[what[0]],
        what[1] if len(what) > 1 else "", "a test")
    assert "already" not in command(world, "resume", *what, "--dry-run")["detail"]
    resume(world, *what)
    wait_finished(world, [held, late])
    assert [key_of(world, n).state for n in (running, held, late)] == ["completed"] * 3
    assert command(world, "pause") == []
    assert command(world, "resume", *what, "--yes")["result"] == "already"


def test_a_pause_of_one_is_no_pause_of_others(bench: Bench):
    world = bench.world
    stopped, tenant, other = bench.orders(3)
    pause(world, "--effect", "order")
    pause(world, "--tenant", "nora")
    announce(world, [stopped], "olga", "order")
    announce(world, [tenant], "nora", "once")
    announce(world, [other], "olga", "once")
    wait_state(world, other, "completed")
    waiting.until(lambda: key_of(world, stopped) and key_of(world, tenant), 20, "the others")
    waiting.holds(lambda: {key_of(world, n).tries for n in (stopped, tenant)} == {0}, 0.5, "they wait")
    resume(world, "--effect", "order")
    resume(world, "--tenant", "nora")
    wait_finished(world, [stopped, tenant])


def test_pauses_are_audited(bench: Bench):
    world = bench.world
    rows = world.query("SELECT action, about, result, reason FROM counterfoil.audit "
                       "WHERE about = 'tenant zoe' ORDER BY id")
    assert rows == []
    pause(world, "--tenant", "zoe")
    assert command(world, "pause", "--tenant", "zoe", "--yes")["result"] == "already"
    resume(world, "--tenant", "zoe")
    assert world.query("SELECT action, result, reason FROM counterfoil.audit "
                       "WHERE about = 'tenant zoe' ORDER BY id") == [
        ("pause", "done", "a test"), ("pause", "already", None), ("resume", "done", None)]


def test_a_slip_pauses_nothing(bench: Bench):
    """Neither a name that no effect has, nor an empty one, looks as if something were stopped."""
    world = bench.world
    command(world, "pause", "--effect", "chrge", "--yes", status=4)
    command(world, "pause", "--tenant", "", "--yes", status=2)
    assert world.query("SELECT scope, name FROM counterfoil.pause") == []
    pause(world, "--effect", "chrge", "--force")
    resume(world, "--effect", "chrge")


# --- not due yet ----------------------------------------------------------------------------------

def test_not_before(bench: Bench):
    """The event says when: not sooner; what is past, or nothing, is now; what is no time is dead."""
    world = bench.world
    soon = datetime.now(timezone.utc) + timedelta(seconds=2)
    times = {"rfc": soon.isoformat(), "milliseconds": int(soon.timestamp() * 1000),
             "past": int(soon.timestamp()) - 3600, "none": None, "junk": "tomorrow"}
    orders = dict(zip(times, bench.orders(len(times))))
    for name, n in orders.items():
        announce(world, [n], "pia", "dated", **({"send_at": times[name]} if times[name] else {}))
    wait_finished(world, orders.values())
    for name in ("rfc", "milliseconds"):
        assert requests_of(world, orders[name])[0].t >= soon.timestamp() - 0.002, name
        assert abs(key_of(world, orders[name]).due_at - soon) < timedelta(milliseconds=2)
    for name in ("past", "none"):
        assert requests_of(world, orders[name])[0].t < soon.timestamp(), name
    (born_dead,) = attempts_of(world, orders["junk"])
    assert key_of(world, orders["junk"]).state == "dead"
    assert 'not_before: "tomorrow" is no time' in born_dead.error


def test_four_ledgers_leave_alone_what_is_due_later(bench: Bench):
    """L12: a key that is due in three hours is asked for by nobody; once it is due, once."""
    world, order = bench.world, bench.order()
    beside = [world.ledger(group="beside") for _ in range(3)]
    for ledger in beside:
        ledger.start(ready=False)
    for ledger in beside:
        ledger.wait_for("lease taken")
    announce(world, [order], "quin", "delayed")
    key = waiting.until(lambda: key_of(world, order), 20, "the key")
    assert timedelta(hours=2.9) < key.due_at - datetime.now(timezone.utc) < timedelta(hours=3)
    waiting.holds(lambda: key_of(world, order).tries == 0, 1.5, "nobody claims it")
    assert not requests_of(world, order)
    world.query("UPDATE counterfoil.effect_state SET due_at = now() WHERE id = %s", (key.id,))
    wait_state(world, order, "completed")
    assert len(requests_of(world, order)) == 1 and key_of(world, order).tries == 1
    for ledger in beside:
        ledger.stop()


# --- a renamed target -----------------------------------------------------------------------------

def test_a_renamed_target(make_world: MakeWorld):
    """Keys recorded under a former name are sent, once; an event that comes again, and another one
    for the same key, meet them; new ones stand beside them in one order."""
    world = make_world(effect={"on": {"type": "order"}, "serialize_by": "${/customer_id}"},
                       settings={"ledger": {"lease": f"{LEASE:g}s"}})
    world.relay().start(ready=False)
    first = world.ledger()
    first.start(ready=False)
    announce(world, [1], "rosa", "order")
    wait_state(world, 1, "completed")
    pause(world, "--all")
    announce(world, [2], "rosa", "order")
    waiting.until(lambda: key_of(world, 2), 20, "the key")
    first.stop()

    world.targets[0].update(name="stripe", alias=["payments"])
    world.effects[0]["target"] = "stripe"
    renamed = world.ledger()
    renamed.start(ready=False)
    announce(world, [1, 2], "rosa", "order", event="again")       # duplicates of both
    announce(world, [1], "rosa", "order", event="other", total_cents=7)
    announce(world, [3], "rosa", "order")
    waiting.until(lambda: key_of(world, 3) and
                  world.value("SELECT count(*) FROM counterfoil.conflict"), 20, "the others")
    resume(world, "--all")
    wait_finished(world, [1, 2, 3])
    assert asked(world) == [key_name(n) for n in (1, 2, 3)]
    assert world.query("SELECT target, count(*) FROM counterfoil.effect GROUP BY target") == [
        ("payments", 3)]
    assert world.value("SELECT c.holder FROM counterfoil.conflict c") == key_of(world, 1).id
    world.run_copies()


def test_a_rename_that_was_forgotten_first(make_world: MakeWorld):
    """Its keys were recorded under the new name, until the former one was listed: both are found."""
    world = make_world(effect={"on": {"type": "order"}}, settings={"ledger": {"lease": f"{LEASE:g}s"}})
    pause(world, "--all")
    for name, orders in (("payments", [1]), ("stripe", [2])):
        world.targets[0]["name"] = world.effects[0]["target"] = name
        ledger = world.ledger()
        ledger.start(ready=False)
        announce(world, orders, "sara", "order")
        waiting.until(lambda: key_of(world, orders[0]), 20, "the key")
        ledger.stop()
    world.targets[0]["alias"] = ["payments"]
    world.ledger().start(ready=False)
    announce(world, [1, 2], "sara", "order", event="again")
    announce(world, [3], "sara", "order")
    waiting.until(lambda: key_of(world, 3), 20, "the key")
    resume(world, "--all")
    wait_finished(world, [1, 2, 3])
    assert sorted(asked(world)) == [key_name(n) for n in (1, 2, 3)]
    assert dict(world.query("SELECT idempotency_key, target FROM counterfoil.effect")) == {
        key_name(1): "payments", key_name(2): "stripe", key_name(3): "payments"}
    world.run_copies()


def test_keys_of_a_target_that_has_gone_are_left_alone(make_world: MakeWorld):
    world = make_world(effect={"on": {"type": "order"}}, settings={"ledger": {"lease": f"{LEASE:g}s"}})
    record(world, 1)
    world.targets[0]["name"] = world.effects[0]["target"] = "another"
    world.ledger().start(ready=False)
    announce(world, [1], "tina", "order")
    wait_state(world, 1, "completed")
    assert world.query("SELECT state::text, tries FROM counterfoil.effect_state "
                       "WHERE target = 'payments'") == [("pending", 0)]


# --- an old snapshot ------------------------------------------------------------------------------

def test_a_held_snapshot(make_world: MakeWorld, plans: Plans):
    """L59: while somebody holds an old snapshot what was claimed since stays in the index, thousands of
    entries before the first one that is due. One claim a second walks over them, and no other."""
    world = make_world(target={"concurrency": 4})
    record(world, 20_000)
    with closing(world.connect()) as holder, closing(holder.cursor()) as cursor:
        holder.set_session(isolation_level="REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM counterfoil.effect")
        world.query("UPDATE counterfoil.effect_state SET state = 'completed' WHERE id IN (SELECT id "
                    "FROM counterfoil.effect_state ORDER BY due_at LIMIT 19500)")
        world.ledger().start(ready=False)
        waiting.until(lambda: world.states()["completed"] >= 19_900, 30, "some of them")
        asked_of = costs(plans)
    full = [cost for cost in asked_of if cost > 500]
    assert full and len(asked_of) > 10 * len(full), asked_of
    assert sorted(asked_of)[len(asked_of) // 2] < 400
    waiting.until(lambda: world.states() == {"completed": 20_000}, 60, "all of them")


# --- large bodies ---------------------------------------------------------------------------------

def test_a_claim_takes_no_more_than_it_can_hold(make_world: MakeWorld):
    """Of keys with a body of a mebibyte each a claim takes eight, though it has fifty slots."""
    world = make_world(effect={"on": {"type": "order"}}, settings={"ledger": {"lease": f"{LEASE:g}s"}})
    record(world, 20, body=b"x" * 1024 * 1024)
    world.ledger().start(ready=False)
    waiting.until(lambda: world.states() == {"completed": 20}, 30, "all of them")
    claims = world.query("SELECT count(*) FROM counterfoil.effect_state GROUP BY first_sent_at")
    assert max(count for count, in claims) == 8


def test_all_claims_take_no_more_than_a_process_can_hold(make_world: MakeWorld):
    """Of keys with a body of a mebibyte each 64 are under way, though it has 200 slots: and one claim of
    a target that has none."""
    world = make_world(effect={"on": {"type": "order"}}, target={"timeout": "20s", "concurrency": 200},
                       settings={"ledger": {"lease": f"{LEASE:g}s"}})
    world.targets.append({**world.targets[0], "name": "another"})
    record(world, 80, body=b"x" * 1024 * 1024)
    world.provider.fault("pass", times=64, delay=6, key="^key-[0-9]{1,2}$")
    world.ledger().start(ready=False)
    waiting.until(lambda: world.states()["in_flight"] == 64, 20, "as many as it can hold")
    waiting.holds(lambda: world.states()["in_flight"] == 64, 1, "no more are claimed")
    record(world, 1, first=101, target="another")
    waiting.until(lambda: world.state("key-101") == "completed", 2, "another target's")
    assert world.states()["in_flight"] == 64
    waiting.until(lambda: world.states() == {"completed": 81}, 30, "all of them")


# --- what may end a ledger ------------------------------------------------------------------------

def test_what_ends_its_ledgers_takes_nobody_with_it_for_long(make_world: MakeWorld):
    """A ledger that sends this key is killed, whenever it does. The others that were in flight beside
    it are taken over with it twice; from then on it runs alone, and they are done."""
    world = make_world(effect={"on": {"type": "order"}}, target={"timeout": "10s"},
                       settings={"ledger": {"lease": "1s"}})
    bad, others = 1, list(range(2, 22))
    world.provider.fault("hang", apply=False, key=f"^{key_name(bad)}$")
    world.provider.configure(think=(2, 2))
    ledger = world.ledger()
    ledger.start(ready=False)
    announce(world, [bad, *others], "uma", "order")
    for kills in range(1, 4):
        waiting.until(lambda: len(requests_of(world, bad)) >= kills and (
            kills > 2 or len(asked(world)) >= kills * 21), 30, f"call {kills}")
        if kills > 2:
            beside = world.value("SELECT count(*) FROM counterfoil.effect_state "
                                 "WHERE state = 'in_flight'")
            assert beside == 1
        ledger.kill()
        world.provider.configure(think=(0, 0) if kills >= 2 else (2, 2))
        ledger = world.ledger()
        ledger.start(ready=False)
    world.provider.clear()
    wait_finished(world, [bad, *others], timeout=40)
    assert {key_of(world, n).state for n in (bad, *others)} == {"completed"}
    assert key_of(world, bad).takeovers == 3
    assert max(key_of(world, n).takeovers for n in others) <= 2


def test_nobody_waits_for_what_cannot_be_claimed(make_world: MakeWorld):
    """A key that is to run alone stands behind an uncertain one of its serial key: until that is
    decided nobody makes room for it."""
    world = make_world(effect={"on": {"type": "order"}}, target={"timeout": "10s"},
                       settings={"ledger": {"lease": f"{LEASE:g}s"}})
    record(world, 3)
    change(world, "key-1", state="uncertain", unknown_sends=1, serial_key="ada")
    change(world, "key-2", serial_key="ada", **MAY_END_IT)
    slow = world.provider.fault("pass", times=1, delay=4, key="^key-3$")
    world.ledger().start(ready=False)
    waiting.until(lambda: world.provider.met(slow), 20, "the slow one")
    record(world, 1, first=4)
    waiting.until(lambda: world.state("key-4") == "completed", 10, "the one behind it")
    assert world.state("key-3") == "in_flight" and world.state("key-2") == "retry_wait"
    change(world, "key-1", state="completed", unknown_sends=0)
    waiting.until(lambda: world.states() == {"completed": 4}, 20, "all of them")


def test_what_runs_alone_is_not_overtaken_by_all(make_world: MakeWorld):
    """The rate lets one through a second, and others are due: the next one is kept for it."""
    world = make_world(effect={"on": {"type": "order"}}, target={"rate": "1/s"},
                       settings={"ledger": {"lease": f"{LEASE:g}s"}})
    record(world, 21)
    change(world, "key-21", **MAY_END_IT)
    world.ledger().start(ready=False)
    waiting.until(lambda: world.state("key-21") == "completed", 20, "it")
    assert asked(world).index("key-21") <= 2
