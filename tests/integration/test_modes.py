"""The modes of effects beside `idempotent`: `at_most_once`, for a provider that keeps no keys, with
and without `on_uncertain = "resend"`; and `natural`, PUT and DELETE of a fixed URL.

Most tests share one world; what was done to their keys is done again at the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any, Callable, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, same_bytes, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.unanswered import cut_off, unanswered_commits
from tests.tools.world import World

ATTEMPTS = tools.RETRY["attempts"]
LEASE = 2.0
MARKER = "WITH mine AS MATERIALIZED (SELECT l.id %"
ONCE = {"mode": "at_most_once"}
RESENT = {**ONCE, "on_uncertain": "resend"}
# of its order alone, so that no test waits for another's
PUT = {"mode": "natural", "request": {"method": "PUT", "path": "/v1/put/${/order_id}"}}
DELETE = {"mode": "natural",
          "request": {"method": "DELETE", "path": "/v1/delete/${/order_id}", "body": ""}}
KEYLESS = {"profile": "plain"}
MODES = {"at_most_once": ONCE, "resent": RESENT, "natural": PUT, "idempotent": {}}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("modes"), postgres, template, shared_broker, "modes_bench",
            effects=[effect("once", "legacy", **ONCE),
                     effect("single", "single", **ONCE),
                     effect("safe", "safe", **ONCE),
                     effect("resent", "legacy", **RESENT),
                     effect("put", "legacy", **PUT),
                     effect("delete", "legacy", **DELETE)],
            targets=[{"name": "legacy", **KEYLESS},
                     {"name": "single", "concurrency": 1, **KEYLESS},
                     {"name": "safe", "profile": "safe"}],
            profiles=[{"name": "safe", "safe_503": True, "in_progress": [409], "mismatch": [422]}],
            settings={"ledger": {"lease": f"{LEASE:g}s"}}) as bench:
        bench.world.provider.configure(honours=False)
        bench.world.ledgers[0].allow_errors("dead.*outcome=mismatch")
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()


def meet(bench: Bench, event_type: str, *faults: dict[str, Any]) -> int:
    """An order whose requests meet these faults, one after the other, and then none; it is
    finished."""
    order = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(order)}$", **fault})
    announce(bench.world, [order], event_type)
    wait_finished(bench.world, [order])
    return order


def seen_of(bench: Bench, order: int) -> tuple[str, int, int]:
    """State, requests, charges."""
    world = bench.world
    return (key_of(world, order).state, len(requests_of(world, order)), charges_of(world, order))


# --- at most once: the outcomes -------------------------------------------------------------------

@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
@pytest.mark.parametrize("fault", ["hang", "reset", "close", "cut_headers", "garbage"])
def test_without_an_answer_it_is_never_sent_again(bench: Bench, fault: str, apply: bool):
    """L3, L21: one request ever, whatever became of it; nobody knows, so a person decides."""
    order = meet(bench, "once", {"kind": fault, "apply": apply})
    assert seen_of(bench, order) == ("uncertain", 1, int(apply))
    key = key_of(bench.world, order)
    assert (key.unknown_sends, key.attempts, key.window_until) == (1, 1, None)
    assert outcomes_of(bench.world, order) == ["no_answer"]


def test_a_server_that_hangs_gets_one_request_ever(bench: Bench):
    """L3: nothing that runs out later, a timeout, a lease or a deadline, sends it again."""
    order = meet(bench, "once", {"kind": "hang", "apply": True, "times": None})
    waiting.holds(lambda: seen_of(bench, order) == ("uncertain", 1, 1), 3 * LEASE,
                  "one request, and uncertain")


@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
def test_libcurl_sends_no_second_copy(bench: Bench, apply: bool):
    """L20: a kept connection is closed after its second request was read."""
    provider, warm, order = bench.world.provider, bench.order(), bench.order()
    announce(bench.world, [warm], "single")
    wait_finished(bench.world, [warm])
    (first,) = requests_of(bench.world, warm)
    fault = provider.fault("close", apply=apply, times=1, key=f"^{key_name(order)}$",
                           nth=first.nth + 1)
    announce(bench.world, [order], "single")
    wait_finished(bench.world, [order])
    assert provider.met(fault) == 1, "the connection was not kept"
    assert seen_of(bench, order) == ("uncertain", 1, int(apply))


@pytest.mark.parametrize("status", [302, 303, 408, 500, 502, 503, 504, 507, 520])
def test_a_status_that_says_nothing(bench: Bench, status: int):
    order = meet(bench, "once", {"kind": "status", "status": status, "apply": True})
    assert seen_of(bench, order) == ("uncertain", 1, 1)
    assert key_of(bench.world, order).http_status == status


@pytest.mark.parametrize("status", [301, 307, 400, 402, 404, 405, 409, 410, 413, 422, 451, 501, 505])
def test_a_status_that_is_final(bench: Bench, status: int):
    order = meet(bench, "once", {"kind": "status", "status": status})
    assert seen_of(bench, order) == ("dead", 1, 0)
    assert key_of(bench.world, order).unknown_sends == 0


@pytest.mark.parametrize("status, event_type", [(429, "once"), (421, "once"), (425, "once"),
                                                (503, "safe")])
def test_a_status_that_says_not_done(bench: Bench, status: int, event_type: str):
    """It is certain that it was not, so it is sent again."""
    order = meet(bench, event_type, {"kind": "status", "status": status})
    assert seen_of(bench, order) == ("completed", 2, 1)
    assert key_of(bench.world, order).unknown_sends == 0


@pytest.mark.parametrize("status, state", [(409, "uncertain"), (422, "dead")])
def test_a_status_about_the_key(bench: Bench, status: int, state: str):
    """In progress: a proxy may have made two of this one. Another content: not this one."""
    order = meet(bench, "safe", {"kind": "status", "status": status})
    assert seen_of(bench, order) == (state, 1, 0)


@pytest.mark.parametrize("fault", [{"kind": "cut_body"}, {"kind": "slow_body"},
                                   {"kind": "status", "status": 202, "apply": True}],
                         ids=["cut", "slow", "202"])
def test_whole_headers_are_an_answer(bench: Bench, fault: dict[str, Any]):
    order = meet(bench, "once", fault)
    assert seen_of(bench, order) == ("completed", 1, 1)


def test_what_was_not_sent_is_sent_later(bench: Bench):
    """Connections are refused for a while: no byte has left, and no attempt is used."""
    world, order = bench.world, bench.order()
    world.provider.kill()
    announce(world, [order], "once")
    waiting.until(lambda: "not_sent" in outcomes_of(world, order), 10, "a refused connection")
    world.provider.start()
    wait_finished(world, [order])
    assert seen_of(bench, order) == ("completed", 1, 1)
    key = key_of(world, order)
    assert (key.attempts, key.unknown_sends) == (1, 0) and key.tries > 1
    assert set(outcomes_of(world, order)[:-1]) == {"not_sent"}


# --- at most once, but a second time is fine ------------------------------------------------------

@pytest.mark.parametrize("fault", [{"kind": "hang"}, {"kind": "reset"},
                                   {"kind": "status", "status": 500}], ids=["hang", "reset", "500"])
def test_it_is_sent_again_where_that_was_chosen(bench: Bench, fault: dict[str, Any]):
    """The provider keeps no keys, so it happens twice; and is known of in the end."""
    order = meet(bench, "resent", {**fault, "apply": True})
    assert seen_of(bench, order) == ("completed", 2, 2)
    assert same_bytes(requests_of(bench.world, order))
    key = key_of(bench.world, order)
    assert (key.attempts, key.window_until) == (2, None)


def test_the_attempts_are_counted_where_that_was_chosen(bench: Bench):
    order = meet(bench, "resent", {"kind": "reset", "apply": False, "times": None})
    assert seen_of(bench, order) == ("uncertain", ATTEMPTS, 0)
    assert key_of(bench.world, order).unknown_sends == ATTEMPTS


def test_a_refusal_after_an_unknown_send_is_not_dead(bench: Bench):
    order = meet(bench, "resent", {"kind": "hang", "apply": True},
                 {"kind": "status", "status": 402})
    assert seen_of(bench, order) == ("uncertain", 2, 1)


def test_the_choice_is_frozen(make_world: Callable[..., World]):
    """What is written when a key is recorded holds for it, whatever the file says later."""
    world = make_world(target={"timeout": "1s", **KEYLESS}, effect=ONCE,
                       provider={"honours": False}, settings={"log": {"level": "debug"}})
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")
    world.ledger().start()
    announce(world, [1])
    waiting.until(lambda: world.states() == {"pending": 1}, 10, "the order")
    world.ledgers[0].stop()
    world.effects[0].update(RESENT)
    for order in (1, 2):
        world.provider.fault("hang", times=1, apply=True, key=f"^{key_name(order)}$")
    world.query("UPDATE counterfoil.target_state SET held = false, held_by = NULL")
    world.ledger().start()
    announce(world, [2])
    wait_finished(world, [1, 2])
    assert [(key_of(world, n).state, len(requests_of(world, n))) for n in (1, 2)] == [
        ("uncertain", 1), ("completed", 2)]


# --- natural --------------------------------------------------------------------------------------

@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
@pytest.mark.parametrize("event_type", ["put", "delete"])
@pytest.mark.parametrize("fault", [{"kind": "hang"}, {"kind": "reset"},
                                   {"kind": "status", "status": 500},
                                   {"kind": "status", "status": 502}],
                         ids=["hang", "reset", "500", "502"])
def test_natural_is_sent_again(bench: Bench, event_type: str, fault: dict[str, Any], apply: bool):
    """The very same, without a window; its answer speaks for both."""
    order = meet(bench, event_type, {**fault, "apply": apply})
    assert seen_of(bench, order) == ("completed", 2, 1 + int(apply))
    assert same_bytes(requests_of(bench.world, order))
    key = key_of(bench.world, order)
    assert (key.unknown_sends, key.attempts, key.window_until) == (0, 2, None)


@pytest.mark.parametrize("event_type, status, state", [
    ("put", 304, "completed"), ("delete", 404, "completed"), ("delete", 410, "completed"),
    ("put", 404, "dead"), ("put", 410, "dead"), ("put", 409, "dead"), ("delete", 400, "dead"),
    ("delete", 403, "dead"), ("delete", 301, "dead")])
def test_natural_answers(bench: Bench, event_type: str, status: int, state: str):
    order = meet(bench, event_type, {"kind": "status", "status": status})
    assert seen_of(bench, order) == (state, 1, 0)


def test_natural_without_an_answer_ends_uncertain(bench: Bench):
    order = meet(bench, "put", {"kind": "reset", "apply": False, "times": None})
    assert seen_of(bench, order) == ("uncertain", ATTEMPTS, 0)


def test_what_natural_sends(bench: Bench):
    put, delete = meet(bench, "put"), meet(bench, "delete")
    (request,) = requests_of(bench.world, put)
    assert (request.method, request.path) == ("PUT", f"/v1/put/{put}")
    (request,) = requests_of(bench.world, delete)
    assert (request.method, request.body) == ("DELETE", "")


# --- the marker -----------------------------------------------------------------------------------

Settle = Callable[..., World]


@pytest.fixture
def settle(make_world: Callable[..., World]) -> Settle:
    """A world without a relay whose ledgers run, with short leases and long calls; its provider
    keeps no keys, unless the mode needs them."""
    def make(mode: str = "at_most_once", ledgers: int = 1, lease: float = LEASE,
             **options: Any) -> World:
        keyed = mode == "idempotent"
        world = make_world(
            target={"timeout": "30s", **({} if keyed else KEYLESS), **options.pop("target", {})},
            effect=MODES[mode], provider={"honours": keyed},
            settings={"ledger": {"lease": f"{lease:g}s"}, "log": {"level": "debug"}}, **options)
        for _ in range(ledgers):
            world.ledger().start(ready=False)
        for ledger in world.ledgers:
            ledger.wait_for("lease taken")
        return world
    return make


def called(world: World, order: int) -> None:
    """Waits until the provider has the request."""
    waiting.until(lambda: requests_of(world, order), 20, f"the request of order {order}")


def owner_of(world: World, order: int) -> Program:
    name = world.value("SELECT name FROM counterfoil.instance WHERE id = %s",
                       (wait_state(world, order, "in_flight").owner,))
    (owner,) = [ledger for ledger in world.ledgers if name.startswith(f"{ledger.name}/")]
    return owner


def on_marker(world: World, order: int, action: str) -> None:
    """The database does this when the marker of that key is to be set, from now on."""
    world.postgres.psql(f"""
        CREATE OR REPLACE FUNCTION public.on_marker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF EXISTS (SELECT FROM counterfoil.effect WHERE id = NEW.id
              AND idempotency_key = '{key_name(order)}') THEN {action}; END IF;
          RETURN NEW; END $$;
        CREATE OR REPLACE TRIGGER on_marker BEFORE UPDATE ON counterfoil.effect_state FOR EACH ROW
          WHEN (OLD.state = 'in_flight' AND NEW.state = 'in_flight' AND OLD.sent_at IS NULL
            AND NEW.sent_at IS NOT NULL) EXECUTE FUNCTION public.on_marker()""", world.database)


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_of_the_database_forgets_no_send(settle: Settle, mode: str):
    """Its commits are not durable by default, and nothing else makes them so: what has been sent
    is on record all the same."""
    world = settle(mode, ledgers=0, lease=60)
    world.query(f"ALTER DATABASE {world.database} SET synchronous_commit = off")
    world.query("ALTER SYSTEM SET wal_writer_delay = '10s'")
    world.query("SELECT pg_reload_conf()")
    try:
        world.ledger().start(ready=False).wait_for("lease taken")
        world.provider.fault("hang", apply=True)
        announce(world, [1])
        called(world, 1)
        world.postgres.restart("immediate")
        key = key_of(world, 1)
        assert (key.state, key.unknown_sends) == ("in_flight", 1)
        assert key.first_sent_at is not None
    finally:
        world.query("ALTER SYSTEM RESET wal_writer_delay")
        world.query("SELECT pg_reload_conf()")


def test_nothing_is_sent_before_the_marker(settle: Settle):
    """The claim is there, and the database takes its time with the marker."""
    world = settle(lease=60)
    with world.postgres.connect(world.database) as blocker:
        blocker.cursor().execute("SELECT pg_advisory_lock(7)")
        on_marker(world, 1, "PERFORM pg_advisory_xact_lock(7)")
        announce(world, [1])
        wait_state(world, 1, "in_flight")
        waiting.holds(lambda: not world.provider.requests(), 1, "no request")
        assert key_of(world, 1).unknown_sends == 0
        blocker.cursor().execute("SELECT pg_advisory_unlock(7)")
    assert wait_state(world, 1, "completed").tries == 1
    assert len(requests_of(world, 1)) == 1


def test_a_marker_whose_answer_is_lost_is_taken_back(settle: Settle):
    """It is durable, and the ledger does not hear of it. It knows that it has sent nothing: the key
    is neither sent by that claim nor left uncertain."""
    world = settle(lease=60)
    with world.postgres.connect(world.database) as blocker:
        blocker.cursor().execute("SELECT pg_advisory_lock(7)")
        on_marker(world, 1, "PERFORM pg_advisory_xact_lock(7)")
        announce(world, [1, 2, 3])
        wait_state(world, 1, "in_flight")
        with unanswered_commits(world):
            blocker.cursor().execute("SELECT pg_advisory_unlock(7)")
            cut_off(world, MARKER, "SyncRep")
        wait_finished(world, [1, 2, 3])
    key = key_of(world, 1)
    assert outcomes_of(world, 1) == ["aborted", "applied"]
    assert (key.state, key.unknown_sends, key.attempts) == ("completed", 0, 1)
    assert [len(requests_of(world, n)) for n in (1, 2, 3)] == [1, 1, 1]
    world.run_copies()


def test_a_marker_that_is_refused_stops_no_other(settle: Settle):
    """One key of many cannot be marked: it waits, and is tried again."""
    world = settle(lease=60)
    world.ledgers[0].allow_errors("send markers refused.*not this one")
    on_marker(world, 7, "RAISE EXCEPTION 'not this one' USING ERRCODE = 'data_exception'")
    orders = list(range(1, 21))
    announce(world, orders)
    others = [n for n in orders if n != 7]
    wait_finished(world, others)
    assert [len(requests_of(world, n)) for n in orders] == [int(n != 7) for n in orders]
    waiting.until(lambda: len(attempts_of(world, 7)) >= 2, 10, "it to be tried again")
    first, second = attempts_of(world, 7)[:2]
    assert (second.started_at - first.recorded_at).total_seconds() > 0.9
    world.query("DROP TRIGGER on_marker ON counterfoil.effect_state")
    key = wait_state(world, 7, "completed")
    assert (key.attempts, key.unknown_sends, len(requests_of(world, 7))) == (1, 0, 1)


def test_a_key_that_somebody_acts_on_is_not_waited_for(settle: Settle):
    """Its row is locked when the marker is to be set: it goes back, and the others go on."""
    world = settle(lease=60)
    with world.postgres.connect(world.database) as first, \
            world.postgres.connect(world.database, autocommit=False) as second:
        first.cursor().execute("SELECT pg_advisory_lock(7)")
        on_marker(world, 1, "PERFORM pg_advisory_xact_lock(7)")
        announce(world, [1])
        wait_state(world, 1, "in_flight")
        announce(world, [2, 3])                     # their marker is behind that of the first
        wait_state(world, 2, "in_flight")
        wait_state(world, 3, "in_flight")
        second.cursor().execute("SELECT FROM counterfoil.effect_state WHERE id = %s FOR UPDATE",
                                (key_of(world, 2).id,))
        first.cursor().execute("SELECT pg_advisory_unlock(7)")
        called(world, 3)
        assert not requests_of(world, 2)
        second.rollback()
        assert wait_state(world, 2, "completed").tries > 1
        assert wait_state(world, 3, "completed").tries == 1
    assert [len(requests_of(world, n)) for n in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("mode", ["at_most_once", "idempotent"])
def test_a_result_that_cannot_be_recorded_was_sent(settle: Settle, mode: str):
    """The database refuses all that is said of it, and then the answer to a claim is lost: its key is
    none of those that were claimed and not sent."""
    world = settle(mode, lease=60)
    (ledger,) = world.ledgers
    ledger.allow_errors("results refused", "result cannot be recorded")
    world.postgres.psql("""
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          RAISE EXCEPTION 'not that' USING ERRCODE = 'data_exception'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON counterfoil.attempt FOR EACH ROW
          WHEN (NEW.outcome = 'applied') EXECUTE FUNCTION public.refuse()""", world.database)
    announce(world, [1])
    ledger.wait_for("result cannot be recorded")
    world.query("DROP TRIGGER refuse ON counterfoil.attempt")
    with world.postgres.connect(world.database, autocommit=False) as blocker:
        blocker.cursor().execute("LOCK TABLE counterfoil.pause IN ACCESS EXCLUSIVE MODE")
        ((pid,),) = waiting.until(lambda: world.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE 'WITH RECURSIVE z AS %%'"), 10, "a claim")
        world.query("SELECT pg_terminate_backend(%s)", (pid,))
        blocker.rollback()
    announce(world, [2])
    wait_state(world, 2, "completed")
    waiting.holds(lambda: (key_of(world, 1).state, len(requests_of(world, 1))) == ("in_flight", 1),
                  1, "one request")
    assert key_of(world, 1).unknown_sends == 1


# --- killed and stopped ---------------------------------------------------------------------------

@pytest.mark.parametrize("mode, state, requests", [
    ("at_most_once", "uncertain", 1), ("resent", "completed", 2), ("natural", "completed", 2),
    ("idempotent", "completed", 2)])
@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
def test_a_call_whose_owner_was_killed(settle: Settle, mode: str, state: str, requests: int,
                                       apply: bool):
    """L1: the provider hangs, and the ledger is killed. Within its lease and two seconds more the
    key is uncertain, or sent again where that is no harm or was chosen."""
    world = settle(mode, ledgers=2)
    world.provider.fault("hang", times=1, apply=apply)
    announce(world, [1])
    called(world, 1)
    owner_of(world, 1).kill()
    killed = time.time()
    key = wait_state(world, 1, state)
    assert key.state_since.timestamp() - killed <= LEASE + 2
    assert (key.takeovers, len(requests_of(world, 1))) == (1, requests)
    assert same_bytes(requests_of(world, 1))
    assert outcomes_of(world, 1) == ["lost", "applied"][:requests]
    applied = charges_of(world, 1)
    assert applied == {"uncertain": int(apply), "completed": 1 + int(apply)}[state] or (
        mode == "idempotent" and applied == 1)
    world.run_twice()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "silent"])
def test_a_ledger_that_was_stopped_in_its_call(settle: Settle, answered: bool):
    """L5, L6: for longer than its lease. The key becomes uncertain; what the stopped one knows when
    it goes on ends that, or does not. Nobody sends it again."""
    world = settle(ledgers=2)
    world.provider.fault("pass" if answered else "hang", times=1, apply=True, delay_answer=0.5)
    announce(world, [1])
    called(world, 1)
    stopped = owner_of(world, 1)
    stopped.freeze()
    wait_state(world, 1, "uncertain")
    stopped.thaw()
    if answered:
        assert wait_state(world, 1, "completed").unknown_sends == 0
    else:
        stopped.wait_for("late result kept as evidence")
        assert key_of(world, 1).state == "uncertain"
    assert len(requests_of(world, 1)) == charges_of(world, 1) == 1
    world.run_copies()


def test_a_ledger_that_was_stopped_before_the_marker(settle: Settle):
    """It claimed the key and was stopped for longer than its lease. That its marker was set, late, is
    all that the other one can see; when it goes on it sends nothing."""
    world = settle(ledgers=2)
    with world.postgres.connect(world.database) as blocker:
        blocker.cursor().execute("SELECT pg_advisory_lock(7)")
        on_marker(world, 1, "PERFORM pg_advisory_xact_lock(7)")
        announce(world, [1])
        stopped = owner_of(world, 1)
        waiting.until(lambda: world.postgres.query(
            "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND query LIKE %s "
            "AND wait_event = 'advisory'", (world.database, MARKER)), 10, "the marker")
        stopped.freeze()
        waiting.until(lambda: world.value(
            "SELECT until < clock_timestamp() FROM counterfoil.instance WHERE name LIKE %s",
            (f"{stopped.name}/%",)), 10, "the end of its lease")
        blocker.cursor().execute("SELECT pg_advisory_unlock(7)")
    wait_state(world, 1, "uncertain")
    stopped.thaw()
    stopped.wait_for("late result kept as evidence")
    assert outcomes_of(world, 1) == ["lost", "aborted"]
    assert not requests_of(world, 1)
    world.run_copies()


# --- the books ------------------------------------------------------------------------------------

def test_the_books_balance(settle: Settle):
    """A provider without keys that fails in every way, ledgers that are killed, a database that
    crashes: each key is charged once, or is uncertain, or is dead and was never charged."""
    world = settle(ledgers=3, target={"timeout": "1s", "concurrency": 20})
    world.broker.create_topic(f"{world.topic}.dlq")
    world.relay().start()
    world.query(f"ALTER DATABASE {world.database} SET synchronous_commit = off")
    world.provider.configure(think=(0, 0.05))
    for kind in ("hang", "reset", "close", "cut_headers"):
        world.provider.fault(kind, share=0.03, apply=True)
        world.provider.fault(kind, share=0.03, apply=False)
    world.provider.fault("status", status=500, share=0.05, apply=True)
    world.provider.fault("status", status=429, share=0.05)
    world.provider.fault("status", status=402, share=0.05)
    orders, chance = list(range(1, 601)), random.Random(7)
    announce(world, orders)
    for done in range(50, 400, 50):
        waiting.until(lambda: len(world.provider.requests()) >= done, 60, f"{done} requests")
        victim = chance.choice(world.ledgers)
        victim.kill()
        if done % 150 == 0:
            world.postgres.restart("immediate")
        victim.start(ready=False)
    wait_finished(world, orders, timeout=90)
    charges, states = world.provider.charges_by_key(), Counter[tuple[str, int]]()
    for order in orders:
        states[key_of(world, order).state, charges[key_name(order)]] += 1
    assert set(states) <= {("completed", 1), ("uncertain", 0), ("uncertain", 1), ("dead", 0)}, states
    assert all(states[one] > 0 for one in [("completed", 1), ("uncertain", 0), ("uncertain", 1)])
    world.provider.clear()
    world.run_twice()


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(bench: Bench):
    """Every event of the tests above comes again, as a copy and by a rewind."""
    bench.world.wait_drained()
    bench.world.run_twice()
