"""Who owns a key: ledgers that are killed or stopped in the middle of a call, a database that goes
away or refuses, and results that it will not take."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, contextmanager
from typing import Any, Callable, Iterable, Iterator

import psycopg2
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

LEASE = 2.0
Settle = Callable[..., World]

# Keys whose row and attempts do not tell the same story, in one snapshot: each claim that is over
# has its attempt, each attempt that counts is in the budget, the next one is due after the last.
INCONSISTENT = """SELECT e.idempotency_key, s.state::text, s.tries, a.rows, s.attempts, a.used
  FROM counterfoil.effect_state s JOIN counterfoil.effect e USING (id), LATERAL (
    SELECT count(*) AS rows, max(started_at) AS last, count(*) FILTER (WHERE outcome IN
      ('server_error', 'no_answer', 'lost', 'applied', 'refused')) AS used
    FROM counterfoil.attempt WHERE effect_id = s.id AND NOT late) a
  WHERE a.rows <> s.tries - (s.state = 'in_flight')::int OR a.used <> s.attempts
    OR (s.state = 'retry_wait' AND s.due_at < a.last)"""


@pytest.fixture
def settle(make_world: Callable[..., World]) -> Settle:
    """A world without a relay whose ledgers run, with short leases and long calls."""
    def make(ledgers: int = 2, lease: float = LEASE, **options: Any) -> World:
        world = make_world(target={"timeout": "30s"}, settings={
            "ledger": {"lease": f"{lease:g}s"}, "log": {"level": "debug"}}, **options)
        for _ in range(ledgers):
            world.ledger().start(ready=False)
        for ledger in world.ledgers:
            ledger.wait_for("lease taken")
        return world
    return make


def owner_of(world: World, order: int) -> Program:
    """The ledger whose call of this order is in progress."""
    name = world.value("SELECT name FROM counterfoil.instance WHERE id = %s",
                       (wait_state(world, order, "in_flight").owner,))
    (owner,) = [ledger for ledger in world.ledgers if name.startswith(f"{ledger.name}/")]
    return owner


def called(world: World, orders: Iterable[int]) -> None:
    """Waits until the provider has their requests."""
    for order in orders:
        waiting.until(lambda: requests_of(world, order), 20, f"the request of order {order}")


# --- killed ---------------------------------------------------------------------------------------

def test_a_call_whose_owner_was_killed_is_taken_over(settle: Settle):
    """L1: the provider hangs, having charged or not, and the ledger is killed. After its lease
    another one sends the very same request, within two more seconds; there is one charge."""
    world = settle()
    world.provider.fault("hang", key=":1:", times=1, apply=True)
    world.provider.fault("hang", key=":2:", times=1, apply=False)
    announce(world, [1, 2])
    called(world, [1, 2])
    owners = {owner_of(world, 1), owner_of(world, 2)}
    for owner in owners:
        owner.kill()
    killed = time.time()
    if len(owners) == 2:
        world.ledger().start(ready=False)
    for order in (1, 2):
        key = wait_state(world, order, "completed")
        first, second = requests_of(world, order)
        assert second.t - killed <= LEASE + 2
        assert same_bytes([first, second]) and charges_of(world, order) == 1
        assert (key.takeovers, key.epoch, key.attempts, key.unknown_sends) == (1, 3, 2, 0)
        assert [(a.n, a.epoch, a.outcome, a.late) for a in attempts_of(world, order)] == [
            (1, 1, "lost", False), (2, 3, "applied", False)]
    world.run_twice()


def test_a_ledger_that_starts_again_inherits_nothing(settle: Settle):
    """L1, L10: it waits for the end of its own former lease like anyone else."""
    world = settle(ledgers=1)
    world.provider.fault("hang", times=1, apply=True)
    announce(world, [1])
    called(world, [1])
    former = wait_state(world, 1, "in_flight").owner
    world.ledgers[0].kill()
    world.ledgers[0].start(ready=False)
    wait_state(world, 1, "completed")
    ended = world.value("SELECT until FROM counterfoil.instance WHERE id = %s", (former,))
    assert requests_of(world, 1)[1].t >= ended.timestamp()
    assert same_bytes(requests_of(world, 1)) and charges_of(world, 1) == 1


# --- stopped --------------------------------------------------------------------------------------

@pytest.mark.parametrize("fault, evidence", [
    ({"kind": "pass", "delay_answer": 0.5}, ("applied", 200)),
    ({"kind": "hang", "apply": True}, ("no_answer", None))], ids=["answered", "silent"])
def test_a_stopped_ledger_is_late(settle: Settle, fault: dict[str, Any],
                                  evidence: tuple[str, int | None]):
    """L5, L6: it is stopped in its call for longer than its lease, and another one does the work.
    What it knows when it goes on is kept as evidence and changes nothing, a 2xx included."""
    world = settle()
    world.provider.fault(times=1, **fault)
    announce(world, [1])
    called(world, [1])
    stopped = owner_of(world, 1)
    stopped.freeze()
    done = wait_state(world, 1, "completed")
    stopped.thaw()
    stopped.wait_for("late result kept as evidence", id=done.id)
    assert key_of(world, 1) == done, "the late result changed the key"
    lost, late, applied = sorted(attempts_of(world, 1), key=lambda a: (a.n, a.late))
    assert (lost.n, lost.epoch, lost.outcome, lost.late) == (1, 1, "lost", False)
    assert (late.n, late.epoch, late.late) == (1, 1, True)
    assert (late.outcome, late.http_status) == evidence
    assert (applied.n, applied.epoch, applied.outcome, applied.late) == (2, 3, "applied", False)
    assert late.owner == lost.owner != applied.owner
    assert charges_of(world, 1) == 1 and same_bytes(requests_of(world, 1))
    assert len(stopped.said("lease lost")) == 1
    waiting.until(lambda: len(stopped.said("lease taken")) == 2, 10, "a new lease")
    world.run_copies()


def test_a_late_answer_that_it_happened_ends_uncertainty(settle: Settle):
    """L6: no other attempt is allowed, so the take-over had to leave the key uncertain. The stopped
    ledger's answer says what nobody else knows."""
    world = settle(effect={"retry": {"strategy": "none"}})
    world.provider.fault("pass", times=1, delay_answer=0.5)
    announce(world, [1])
    called(world, [1])
    stopped = owner_of(world, 1)
    stopped.freeze()
    assert wait_state(world, 1, "uncertain").unknown_sends == 1
    stopped.thaw()
    key = wait_state(world, 1, "completed")
    assert (key.unknown_sends, key.attempts, key.http_status) == (0, 1, 200)
    assert [(a.outcome, a.late) for a in attempts_of(world, 1)] == [
        ("lost", False), ("applied", True)]
    assert key.provider_id == world.provider.charges()[0].id
    assert len(requests_of(world, 1)) == charges_of(world, 1) == 1
    world.run_copies()


def test_a_late_answer_does_not_end_the_call_of_another(settle: Settle):
    """L5: the stopped one goes on while the other one's call is in progress."""
    world = settle()
    world.provider.fault("pass", times=1, delay_answer=0.5)
    hang = world.provider.fault("hang", times=1)
    announce(world, [1])
    called(world, [1])
    stopped = owner_of(world, 1)
    stopped.freeze()
    waiting.until(lambda: world.provider.met(hang), 20, "the other call")
    stopped.thaw()
    stopped.wait_for("late result kept as evidence")
    key = key_of(world, 1)
    assert (key.state, key.epoch, key.tries) == ("in_flight", 3, 2)
    owner_of(world, 1).kill()
    assert wait_state(world, 1, "completed").tries == 3
    assert [(a.n, a.outcome) for a in attempts_of(world, 1) if not a.late] == [
        (1, "lost"), (2, "lost"), (3, "applied")]
    assert charges_of(world, 1) == 1 and same_bytes(requests_of(world, 1))


# --- attempts are counted where they are recorded -------------------------------------------------

def test_attempts_are_counted_where_they_are_recorded(settle: Settle):
    """L33: the provider answers nothing but 500, and ledgers are killed in their calls. In every
    snapshot the count, the next attempt's time and the attempts' rows agree; and nothing is tried
    for ever."""
    world = settle(effect={"retry": {"strategy": "fixed", "first": "150ms", "attempts": 6}})
    world.provider.fault("status", status=500, delay=0.2)
    orders = list(range(1, 21))
    announce(world, orders)

    def attempted(count: int) -> bool:
        assert world.query(INCONSISTENT) == []
        return world.value("SELECT count(*) FROM counterfoil.attempt") >= count

    def busy() -> Program | None:
        found = world.query(
            "SELECT i.name FROM counterfoil.effect_state s JOIN counterfoil.instance i "
            "ON i.id = s.owner WHERE s.state = 'in_flight' AND i.until > now()")
        names = [name.partition("/")[0] for (name,) in found]
        return next((ledger for ledger in world.ledgers if ledger.name in names), None)
    for count in (15, 50):
        waiting.until(lambda: attempted(count), 20, f"{count} attempts")
        victim = waiting.until(busy, 10, "a call")
        victim.kill()
        victim.start(ready=False)

    def finished() -> bool:
        assert world.query(INCONSISTENT) == []
        return world.states() == {"uncertain": len(orders)}
    waiting.until(finished, 30, "all keys to be uncertain")
    assert world.value("SELECT count(*) FROM counterfoil.attempt WHERE outcome = 'lost'") > 0
    for order in orders:
        assert key_of(world, order).attempts == 6
        assert len(requests_of(world, order)) <= 6 and same_bytes(requests_of(world, order))


# --- a database that only reads -------------------------------------------------------------------

def test_a_database_that_only_reads_performs_nothing(settle: Settle):
    """Claims are refused, though the lease lasts: no request leaves. Then it goes on."""
    world = settle(ledgers=1, lease=60)
    ledger = world.ledgers[0]
    ledger.allow_errors("(claim|sweep) refused.*read-only")
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")
    ledger.wait_for("target is held")
    orders = list(range(1, 11))
    announce(world, orders)
    waiting.until(lambda: world.states() == {"pending": 10}, 10, "the orders")
    with closing(psycopg2.connect(world.postgres.conninfo(world.database),
                                  options="-c default_transaction_read_only=off")) as writer:
        writer.autocommit = True
        cursor = writer.cursor()
        cursor.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        cursor.execute("SELECT pg_reload_conf()")
        try:
            cursor.execute("UPDATE counterfoil.target_state SET held = false, held_by = NULL")
            ledger.wait_for("claim refused")
            waiting.holds(lambda: not world.provider.requests(), 1, "no request")
        finally:
            cursor.execute("ALTER SYSTEM RESET default_transaction_read_only")
            cursor.execute("SELECT pg_reload_conf()")
    wait_finished(world, orders)
    assert_once(world, orders)
    world.run_copies()


# --- a database that goes away --------------------------------------------------------------------

@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("ownership"), postgres, template, shared_broker,
            "ownership_bench",
            effects=[effect("order.placed", "patient", name="charge"), effect("brisk", "brisk")],
            targets=[{"name": "patient", "timeout": "20s", "concurrency": 20},
                     {"name": "brisk", "connect_timeout": "100ms"}],
            settings={"relay": {"lease": "1s"}, "ledger": {"lease": f"{LEASE:g}s",
                                                           "result_wait": "100ms"}}) as bench:
        bench.world.ledgers[0].allow_errors("not this one", "recorded without")
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.thaw()
    opened.world.provider.clear()


def assert_once(world: World, orders: list[int], repeated: bool = False) -> None:
    """Completed and charged once, by one request; or by several, each of which has its claim."""
    tries = dict(world.query(
        "SELECT e.idempotency_key, s.tries FROM counterfoil.effect e "
        "JOIN counterfoil.effect_state s USING (id) "
        "WHERE s.state = 'completed' AND e.idempotency_key = ANY (%s)",
        ([key_name(n) for n in orders],)))
    assert len(tries) == len(orders)
    charges = world.provider.charges_by_key()
    assert {charges[key] for key in tries} == {1}
    requests = Counter(request.key for request in world.provider.requests())
    assert not {key for key in tries if requests[key] > (tries[key] if repeated else 1)}
    assert world.query(INCONSISTENT) == []


def call(bench: Bench, count: int, event_type: str = "order.placed") -> list[int]:
    """Orders whose calls are in progress: the provider answers them once it is thawed."""
    world, orders = bench.world, bench.orders(count)
    world.provider.freeze()
    announce(world, orders, event_type)
    waiting.until(lambda: world.states()["in_flight"] == count, 20, "the calls")
    return orders


@contextmanager
def down(postgres: Postgres) -> Iterator[None]:
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


def test_a_restart_of_the_database_costs_no_call(settle: Settle):
    """L18: the calls in progress go on, and what they come to is recorded afterwards."""
    bench = Bench(settle(ledgers=1, lease=60))
    for mode in ("fast", "immediate"):
        orders = call(bench, 20)
        bench.world.postgres.restart(mode)
        bench.world.provider.thaw()
        wait_finished(bench.world, orders)
        assert_once(bench.world, orders)
        assert {key_of(bench.world, n).tries for n in orders} == {1}
    bench.world.run_copies()


def test_results_outlive_the_lease_and_nothing_is_sent_without_a_claim(settle: Settle):
    """The database is down for longer than a lease. What the calls in progress came to is kept, and
    recorded before anybody takes their keys over; in the meantime nothing is begun."""
    bench = Bench(settle(ledgers=1, lease=5))
    world = bench.world
    early, late = call(bench, 10), bench.orders(5)
    with down(world.postgres):
        announce(world, late)
        world.provider.thaw()
        world.ledgers[0].wait_for("lease lost")
        assert sum(charges_of(world, n) for n in early) == 10
        assert not any(requests_of(world, n) for n in late)
    wait_finished(world, early + late)
    assert_once(world, early + late)
    assert {tuple(outcomes_of(world, n)) for n in early + late} == {("applied",)}
    assert not any(attempt.late for n in early for attempt in attempts_of(world, n))
    world.run_copies()


def test_a_database_that_crashes_again_and_again(bench: Bench):
    """Under load: claims and results are lost on their way. No request is sent that no claim
    accounts for, and every key is charged once."""
    world = bench.world
    world.provider.configure(think=(0, 0.05))
    orders = bench.orders(200)
    before = len(world.provider.charges())
    announce(world, orders)
    for done in (40, 90):
        waiting.until(lambda: len(world.provider.charges()) >= before + done, 30, f"{done} charges")
        world.postgres.restart("immediate")
    wait_finished(world, orders, timeout=40)
    world.provider.configure(think=(0, 0))
    assert_once(world, orders, repeated=True)


# --- statements whose answer is lost --------------------------------------------------------------

CLAIM, RESULTS = "WITH RECURSIVE z AS %", "WITH r AS %"


def test_a_claim_whose_answer_is_lost_is_taken_back(settle: Settle):
    """The claim is committed, and the ledger does not hear of it. It knows that it has sent nothing
    of these keys: they are not taken over as lost, nor do they wait for the end of a lease."""
    world = settle(ledgers=1, lease=60)
    ledger, orders = world.ledgers[0], list(range(1, 11))
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")
    ledger.wait_for("target is held")
    announce(world, orders)
    waiting.until(lambda: world.states() == {"pending": 10}, 10, "the orders")
    with unanswered_commits(world) as cursor:
        cursor.execute("UPDATE counterfoil.target_state SET held = false, held_by = NULL")
        cut_off(world, CLAIM, "SyncRep")
    ledger.wait_for("claims without an answer put back", keys=10)
    wait_finished(world, orders)
    assert_once(world, orders)
    assert {tuple(outcomes_of(world, n)) for n in orders} == {("aborted", "applied")}
    assert {key_of(world, n).attempts for n in orders} == {1}
    world.run_copies()


@pytest.mark.parametrize("committed", [False, True], ids=["rolled-back", "committed"])
def test_a_result_whose_statement_is_lost_is_written_again(bench: Bench, committed: bool):
    """L34: it is recorded once, whether the database had it already or not."""
    world, orders = bench.world, call(bench, 10)
    if committed:
        with unanswered_commits(world):
            world.provider.thaw()
            cut_off(world, RESULTS, "SyncRep")
    else:
        with closing(world.connect()) as connection:
            connection.cursor().execute(
                "SELECT FROM counterfoil.effect_state WHERE id = %s FOR UPDATE",
                (key_of(world, orders[5]).id,))
            world.provider.thaw()
            cut_off(world, RESULTS, "transactionid")
    wait_finished(world, orders)
    assert_once(world, orders)
    for order in orders:
        (attempt,) = attempts_of(world, order)
        assert (attempt.outcome, attempt.late) == ("applied", False)


# --- a database that will not take a result -------------------------------------------------------

def refuse_attempts(world: World, order: int, condition: str) -> None:
    """The database takes no attempt of this key, from now on."""
    world.postgres.psql(f"""
        CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF NEW.effect_id = {key_of(world, order).id} AND {condition} THEN
            RAISE EXCEPTION 'not this one' USING ERRCODE = 'data_exception'; END IF;
          RETURN NEW; END $$;
        CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON counterfoil.attempt
          FOR EACH ROW EXECUTE FUNCTION public.refuse()""", world.database)


def test_an_answer_that_cannot_be_kept_is_recorded_without_it(bench: Bench):
    """One answer of a batch is refused: the others are recorded whole, and that one's outcome."""
    orders = call(bench, 10)
    refuse_attempts(bench.world, orders[3], "NEW.response_body IS NOT NULL")
    bench.world.provider.thaw()
    wait_finished(bench.world, orders)
    assert_once(bench.world, orders)
    kept = [attempts_of(bench.world, n)[0].response_body is not None for n in orders]
    assert kept == [n != orders[3] for n in orders]
    key = key_of(bench.world, orders[3])
    assert (key.outcome, key.http_status, key.provider_id) == ("applied", 200, None)


def test_a_result_that_cannot_be_recorded_stops_no_other(bench: Bench):
    """Nothing of one result is taken. The others are recorded; that key is taken over once it can
    be, and the provider knows it already."""
    world, ledger = bench.world, bench.world.ledgers[0]
    orders = call(bench, 10, "brisk")
    bad, other = orders[3], bench.order()
    refuse_attempts(world, bad, "true")
    world.provider.thaw()
    wait_finished(world, [n for n in orders if n != bad])
    ledger.wait_for("result cannot be recorded", id=key_of(world, bad).id, key=key_name(bad))
    ledger.wait_for("key cannot be moved", id=key_of(world, bad).id, key=key_name(bad))
    announce(world, [other], "brisk")
    wait_finished(world, [other])
    assert key_of(world, bad).state == "in_flight"
    world.query("DROP TRIGGER refuse ON counterfoil.attempt")
    wait_state(world, bad, "completed")
    assert outcomes_of(world, bad) == ["lost", "applied"]
    assert_once(world, [n for n in orders if n != bad] + [other])
    assert_once(world, [bad], repeated=True)


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(bench: Bench):
    """Every event of the tests with a database that fails comes again."""
    bench.world.wait_drained()
    bench.world.run_twice()
