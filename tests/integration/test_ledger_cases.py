"""What has happened to other programs that do work on behalf of messages: long calls, locks that
outlive their holder or live shorter, poolers, wrong clocks, deployments.

Most tests begin with a copy of a database whose keys are pending, every second one of mode
at_most_once."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import programs, waiting
from tests.tools.bench import (announce, attempts_of, charges_of, key_name, key_of, outcomes_of,
                               requests_of, same_bytes, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.clock import Clock
from tests.tools.crash.scene import open_target, send_to_own_provider
from tests.tools.endpoints import Endpoints
from tests.tools.libconfig import merge
from tests.tools.pgbouncer import Pgbouncer
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

TAKEN = "cases_taken"
ORDERS = list(range(1, 501))
LEASE = 1.0
POLL = 4.0               # the longest that a consumer may be silent
TEN_MINUTES = 600
PATIENT = {"timeout": "30s"}
Settle = Callable[..., World]
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
          shared_broker: Broker) -> Iterator[str]:
    """A database in which nobody has done anything yet; the target is held."""
    postgres.create_database(TAKEN, template)
    shared_broker.create_topic(TAKEN)
    with ExitStack() as stack:
        world = World(tmp_path_factory.mktemp("taken"), postgres, TAKEN, shared_broker, TAKEN)
        stack.callback(world.close)
        world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                    "VALUES ('payments', true, 'a person')")
        announce(world, ORDERS)
        world.ledger().start(ready=False)
        waiting.until(lambda: world.states() == {"pending": len(ORDERS)}, 30, "the orders")
        world.ledgers[0].stop()
        world.query("UPDATE counterfoil.effect SET mode = 'at_most_once' WHERE id IN (SELECT id "
                    "FROM counterfoil.effect WHERE event_id ~ '[02468]$')")
    yield TAKEN
    postgres.drop_database(TAKEN)


@pytest.fixture
def settle(taken: str, tmp_path: Path, postgres: Postgres, shared_broker: Broker,
           request: pytest.FixtureRequest) -> Iterator[Settle]:
    """A world with the first `count` of these orders; nothing is started but the provider."""
    worlds: list[World] = []

    def make(count: int, lease: float = LEASE, settings: dict[str, Any] | None = None,
             **options: Any) -> World:
        database = f"cases_{next(numbers)}"
        postgres.create_database(database, taken)
        world = World(tmp_path, postgres, database, shared_broker, taken, settings=merge(
            {"ledger": {"lease": f"{lease:g}s", "group": database}, "log": {"level": "debug"}},
            settings or {}), **options)
        worlds.append(world)
        request.node.worlds = worlds
        for table in ("effect_state", "effect_request", "effect"):      # they refer to it
            world.query(f"DELETE FROM counterfoil.{table} WHERE id IN (SELECT id FROM "
                        "counterfoil.effect WHERE NOT idempotency_key = ANY (%s))",
                        ([key_name(n) for n in ORDERS[:count]],))
        send_to_own_provider(world)
        return world
    yield make
    for world in worlds:
        world.close()
        postgres.drop_database(world.database)
        assert not world.complaints(), "\n".join(["in the logs:", *world.complaints()])


def start(world: World, ledgers: int = 1) -> None:
    """Ledgers that have their leases, and may send."""
    for _ in range(ledgers):
        world.ledger().start(ready=False)
    for ledger in world.ledgers:
        ledger.wait_for("lease taken")
    open_target(world)


def in_flight(world: World, count: int) -> None:
    """Waits until so many may have been sent."""
    waiting.until(lambda: world.value(
        "SELECT count(*) FROM counterfoil.effect_state WHERE state = 'in_flight' "
        "AND sent_at IS NOT NULL") == count, 20, f"{count} calls")


def due(world: World, orders: list[int], later: str) -> None:
    """They are to be sent so much later than now."""
    world.query("UPDATE counterfoil.effect_state SET due_at = now() + %s::interval WHERE id IN "
                "(SELECT id FROM counterfoil.effect WHERE idempotency_key = ANY (%s))",
                (later, [key_name(n) for n in orders]))


def called(world: World, *orders: int) -> None:
    for order in orders:
        waiting.until(lambda n=order: requests_of(world, n), 20, f"the request of order {order}")


def owner_of(world: World, order: int) -> Program:
    name = world.value("SELECT name FROM counterfoil.instance WHERE id = %s",
                       (wait_state(world, order, "in_flight").owner,))
    (owner,) = [ledger for ledger in world.ledgers if name.startswith(f"{ledger.name}/")]
    return owner


def assert_once(world: World, orders: list[int]) -> None:
    """One claim, one request, one charge each."""
    assert Counter((key_of(world, n).state, key_of(world, n).tries) for n in orders) == {
        ("completed", 1): len(orders)}
    asked = Counter(request.key for request in world.provider.requests())
    charged = world.provider.charges_by_key()
    assert [(asked[key_name(n)], charged[key_name(n)]) for n in orders] == [(1, 1)] * len(orders)


# --- keys that cannot be moved --------------------------------------------------------------------

def test_keys_that_cannot_be_moved_hide_no_others(settle: Settle):
    """L8: more than a page of them stand before the others, locked by somebody: those behind are
    taken over all the same, and the first ones once they can be."""
    world = settle(len(ORDERS))
    first = world.value("SELECT array_agg(id) FROM (SELECT id FROM counterfoil.effect_state "
                        "ORDER BY id LIMIT 450) first")
    world.query("UPDATE counterfoil.effect_state SET state = 'in_flight', owner = 0, epoch = 1, "
                "tries = 1, deadline = now() + interval '1 hour'")
    with world.postgres.connect(world.database, autocommit=False) as locker:
        locker.cursor().execute("SELECT FROM counterfoil.effect_state WHERE id = ANY (%s) "
                                "FOR UPDATE", (first,))
        world.ledger().start(ready=False)
        waiting.until(lambda: world.states()["retry_wait"] == len(ORDERS) - len(first), 10,
                      "the others to be taken over")
        locker.rollback()
    waiting.until(lambda: world.states() == {"retry_wait": len(ORDERS)}, 10, "all of them")
    assert world.value("SELECT max(attempts) FROM counterfoil.effect_state") == 0


# --- calls that take long -------------------------------------------------------------------------

def test_a_call_that_outlives_leases_and_polls(make_world: Callable[..., World]):
    """L9, L46, L48: it takes four leases, and longer than a consumer may be silent. Nobody takes it
    over, the group stays as it is, and others, one of them refused, are not held up."""
    world = make_world(target=PATIENT, settings={
        "ledger": {"lease": f"{LEASE:g}s"}, "log": {"level": "debug"}})
    world.settings["kafka"] = {"properties": [
        ("bootstrap.servers", world.broker.bootstrap), ("max.poll.interval.ms", f"{POLL * 1e3:g}")]}
    world.broker.create_topic(f"{world.topic}.dlq")
    world.start(ledgers=2)
    slow, refused, quick = list(range(1, 21)), 21, list(range(22, 42))
    world.provider.fault("pass", key="^order:([1-9]|1[0-9]|20):", delay=POLL + 0.5)
    world.provider.fault("status", key=f"^{key_name(refused)}$", status=400)
    announce(world, slow)
    called(world, *slow)
    groups = [ledger.said("partitions") for ledger in world.ledgers]
    announce(world, [refused, *quick])
    wait_finished(world, [refused, *quick])
    assert world.states()["in_flight"] == len(slow)
    wait_finished(world, slow)
    assert_once(world, slow + quick)
    assert key_of(world, refused).state == "dead"
    assert len(world.provider.requests()) == len(slow) + len(quick) + 1
    assert {(key_of(world, n).takeovers, key_of(world, n).epoch) for n in slow} == {(0, 1)}
    assert [ledger.said("partitions") for ledger in world.ledgers] == groups, "a rebalance"
    world.run_copies()


# --- locks ----------------------------------------------------------------------------------------

def test_what_a_dead_ledger_left_is_shown_as_stale(settle: Settle):
    """L11: nobody is there who could take it over: it is listed as soon as that should have been
    done."""
    world = settle(2, target=PATIENT)
    config = str(world.write_configuration())

    def listed() -> list[str]:
        done = programs.run("counterfoil", "--config", config, "list", "stale", "--json")
        assert done.returncode == 0, done.stderr
        return sorted(row["key"] for row in json.loads(done.stdout))
    world.provider.fault("hang")
    start(world)
    called(world, 1, 2)
    assert listed() == []
    world.ledgers[0].kill()
    waiting.until(lambda: world.value("SELECT max(until) < now() - interval '2 s' "
                                      "FROM counterfoil.instance"), 10, "the end of its lease")
    assert listed() == [key_name(1), key_name(2)] and world.states() == {"in_flight": 2}


@pytest.mark.parametrize("statement", ["claim", "take-over"])
def test_a_serialisation_failure_leaves_no_lock(settle: Settle, statement: str):
    """L61: the database takes it back. It is tried again, and then nothing is owned
    any more."""
    world, orders = settle(20), ORDERS[:20]
    moment = {"claim": "NEW.state = 'in_flight' AND OLD.state <> 'in_flight'",
              "take-over": "NEW.takeovers > OLD.takeovers"}[statement]
    if statement == "take-over":
        world.query("UPDATE counterfoil.effect_state SET state = 'in_flight', owner = 0, "
                    "epoch = 1, deadline = now()")
    world.postgres.psql(f"""
        CREATE SEQUENCE public.refusals;
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF nextval('public.refusals') = 1 THEN
            RAISE EXCEPTION 'not this time' USING ERRCODE = 'serialization_failure'; END IF;
          RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON counterfoil.effect_state FOR EACH ROW
          WHEN ({moment}) EXECUTE FUNCTION public.refuse()""", world.database)
    start(world)
    world.ledgers[0].allow_errors("(claim|sweep) refused.*not this time")
    wait_finished(world, orders)
    assert_once(world, orders)
    assert world.value("SELECT last_value FROM public.refusals") > 1
    assert world.query("SELECT 1 FROM counterfoil.effect_state WHERE owner IS NOT NULL") == []


def test_stopped_for_longer_than_its_lease(settle: Settle):
    """L5, L6: in the midst of its calls, one of each mode. Another one does what may be done again;
    what the stopped one then hears is evidence, or ends an uncertainty."""
    world = settle(4, target=PATIENT)
    once, resent, natural = 2, 4, 3                 # and the first is idempotent
    for order, change in ((natural, "mode = 'natural'"), (resent, "resend = true")):
        world.query(f"UPDATE counterfoil.effect SET {change} WHERE idempotency_key = %s",
                    (key_name(order),))
    world.provider.fault("pass", times=4, delay_answer=1.5)
    start(world)
    stopped = world.ledgers[0]
    called(world, 1, 2, 3, 4)
    stopped.freeze()
    world.ledger().start(ready=False)
    wait_finished(world, [1, 2, 3, 4])
    assert [key_of(world, n).state for n in (1, once, natural, resent)] == [
        "completed", "uncertain", "completed", "completed"]
    before = {n: key_of(world, n) for n in (1, natural, resent)}
    stopped.thaw()
    wait_state(world, once, "completed")
    for order, key in before.items():
        stopped.wait_for("late result kept as evidence", id=key.id)
        assert key_of(world, order) == key and len(requests_of(world, order)) == 2
        assert same_bytes(requests_of(world, order))
    assert len(requests_of(world, once)) == charges_of(world, once) == 1
    assert [a.outcome for a in attempts_of(world, once)] == ["lost", "applied"]


# --- a pooler, and a database that restarts -------------------------------------------------------

def test_through_a_pooler(settle: Settle, postgres: Postgres):
    """L18: through pgbouncer in transaction mode; the database restarts in the middle of calls, and
    the pooler is killed. Nothing is sent twice, for no lock lives in a session."""
    world, orders = settle(40, lease=30, target=PATIENT), ORDERS[:40]
    due(world, orders[20:], "1 hour")
    world.provider.freeze()
    with Pgbouncer(postgres, default_pool_size=8) as pool:
        for _ in range(2):
            world.ledger(conninfo=pool.conninfo(world.database)).start(ready=False)
        for ledger in world.ledgers:
            ledger.wait_for("lease taken")
        open_target(world)
        in_flight(world, 20)
        postgres.restart("immediate")
        world.provider.thaw()
        wait_finished(world, orders[:20])
        world.provider.freeze()
        due(world, orders[20:], "0")
        in_flight(world, 20)
        pool.kill()
        world.provider.thaw()
        pool.start()
        wait_finished(world, orders)
        for ledger in world.ledgers:
            ledger.stop()
    assert_once(world, orders)


# At the end of a transaction, whatever it set for itself; a sequence keeps what is rolled back too.
LAX = """CREATE FUNCTION public.lax() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF current_setting('synchronous_commit') <> 'on' THEN
        PERFORM nextval('public.lax_' || TG_TABLE_NAME); END IF;
      PERFORM nextval('public.seen_' || TG_TABLE_NAME); RETURN NULL; END $$;
    DO $$ DECLARE t regclass; name text; BEGIN
      FOR t, name IN SELECT oid, relname FROM pg_class
          WHERE relnamespace = 'counterfoil'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('CREATE SEQUENCE public.lax_%1$s; CREATE SEQUENCE public.seen_%1$s', name);
        EXECUTE format('CREATE CONSTRAINT TRIGGER lax AFTER INSERT OR UPDATE OR DELETE ON %s '
          'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.lax()', t);
      END LOOP; END $$"""


def test_what_is_committed_is_durable(make_world: Callable[..., World]):
    """Commits are not, by the database's default: every transaction of a ledger that writes asks
    for it."""
    world = make_world(target={"timeout": "1s"}, effect={
        "retry": {"first": "20ms", "max": "100ms", "attempts": 3}},
        settings={"ledger": {"lease": f"{LEASE:g}s"}})
    world.query(f"ALTER DATABASE {world.database} SET synchronous_commit = off")
    world.postgres.psql(LAX, world.database)
    for name, fault in {1: {"kind": "hang"}, 2: {"status": 402}, 3: {"status": 503, "times": 1},
                        4: {"status": 429, "times": 1}, 5: {"status": 401, "times": 1}}.items():
        world.provider.fault(**{"kind": "status", "key": f":{name}:", **fault})
    world.start(relays=0, ledgers=2)
    for ledger in world.ledgers:
        ledger.allow_errors("target held")
    world.broker.produce(world.topic, b"no JSON", headers=[("ce_type", b"order.placed")])
    announce(world, range(1, 40))
    announce(world, range(6, 9), customer_id="another", headers=[("ce_id", b"another")])
    called(world, 1)
    owner_of(world, 1).kill()

    def ended() -> bool:
        world.query("UPDATE counterfoil.target_state SET probe_at = now() WHERE held "
                    "AND set_config('synchronous_commit', 'on', true) = 'on'")
        return world.unfinished() == 0 and len(world.query("SELECT 1 FROM counterfoil.poison")) > 0
    waiting.until(ended, 30, "everything to end", every=0.1)
    called_at = dict(world.query("SELECT sequencename, last_value FROM pg_sequences "
                                 "WHERE schemaname = 'public' AND last_value IS NOT NULL"))
    written = {"effect", "effect_state", "effect_request", "attempt", "poison", "conflict",
               "outbox", "intake_position", "instance", "target_state"}
    assert {f"seen_{table}" for table in written} <= set(called_at)
    assert [name for name in called_at if name.startswith("lax_")] == []


# --- clocks ---------------------------------------------------------------------------------------

def test_hosts_whose_clocks_are_wrong(settle: Settle, tmp_path: Path):
    """L19: one ledger is ten minutes ahead, one ten behind, one is set in the midst of its calls.
    Calls of several leases stay whose they are; a dead one's are taken over as ever."""
    world = settle(14, target={**PATIENT, "concurrency": 4})
    clocks = []
    for n, seconds in enumerate((TEN_MINUTES, -TEN_MINUTES, 0)):
        (tmp_path / f"clock-{n}").mkdir()
        clocks.append(Clock(tmp_path / f"clock-{n}", seconds))
        world.ledger().command = clocks[-1].command
        world.ledgers[-1].start(ready=False)
    for ledger in world.ledgers:
        ledger.wait_for("lease taken")
    hanging = [world.provider.fault("hang", times=1, apply=True, key=f":{n}:") for n in (13, 14)]
    due(world, [13, 14], "1 hour")
    world.provider.fault("pass", delay=2.5 * LEASE, times=12)
    open_target(world)
    in_flight(world, 12)
    for seconds in (TEN_MINUTES, -TEN_MINUTES):
        clocks[2].set(seconds)
        waiting.holds(lambda: world.states()["in_flight"] == 12, LEASE, "12 calls")
    wait_finished(world, range(1, 13))
    assert_once(world, list(range(1, 13)))
    due(world, [13, 14], "0")
    waiting.until(lambda: all(map(world.provider.met, hanging)), 10, "the calls")
    owners = {owner_of(world, 13), owner_of(world, 14)}
    for owner in owners:
        owner.kill()
    killed = time.time()
    for order, state in ((13, "completed"), (14, "uncertain")):
        key = wait_state(world, order, state)
        assert key.takeovers == 1 and charges_of(world, order) == 1
        assert LEASE / 2 < key.state_since.timestamp() - killed <= LEASE + 2


# --- a deployment ---------------------------------------------------------------------------------

@pytest.fixture
def places(tmp_path: Path) -> Iterator[Endpoints]:
    made = Endpoints(tmp_path / "places")
    yield made
    made.close()


def test_asked_to_stop_in_the_midst_of_calls(settle: Settle):
    """L52: nothing more is begun; what is under way is finished and recorded, and the lease given
    back. The next one does the rest."""
    world, orders = settle(20, target={"concurrency": 5}), ORDERS[:20]
    world.provider.fault("pass", times=5, delay=0.7)
    start(world)
    ledger = world.ledgers[0]
    waiting.until(lambda: len(world.provider.requests()) == 5, 10, "the calls")
    ledger.terminate()
    assert ledger.wait(10) == 0
    assert world.states() == {"completed": 5, "pending": 15}
    assert len(world.provider.requests()) == 5
    assert world.query("SELECT 1 FROM counterfoil.instance WHERE until > now()") == []
    ledger.start(ready=False)
    wait_finished(world, orders)
    assert_once(world, orders)


def test_asked_to_stop_with_calls_that_do_not_end(settle: Settle, places: Endpoints):
    """L52: of those that are still being connected nothing was sent, so they go back at once; the
    others may have been, and are what that means in their mode."""
    world = settle(4, lease=30, target={**PATIENT, "connect_timeout": "30s"},
                   settings={"general": {"drain_timeout": "1s"}})
    world.query("UPDATE counterfoil.effect_request SET url = %s WHERE id IN (SELECT id FROM "
                "counterfoil.effect WHERE idempotency_key = ANY (%s))",
                (places.urls["mute"], [key_name(3), key_name(4)]))
    world.provider.fault("hang", apply=True)
    start(world)
    called(world, 1, 2)
    in_flight(world, 4)
    world.ledgers[0].terminate()
    assert world.ledgers[0].wait(10) == 0
    for order in (3, 4):
        key = key_of(world, order)
        assert (key.state, key.owner, key.attempts, key.unknown_sends) == ("pending", None, 0, 0)
        assert key.first_sent_at is None and outcomes_of(world, order) == ["aborted"]
    assert [(key_of(world, n).state, key_of(world, n).unknown_sends) for n in (1, 2)] == [
        ("retry_wait", 1), ("uncertain", 1)]
    world.provider.clear()
    world.ledgers[0].start(ready=False)
    wait_state(world, 1, "completed")
    assert [len(requests_of(world, n)) for n in (1, 2)] == [2, 1]
    assert same_bytes(requests_of(world, 1)) and charges_of(world, 1) == charges_of(world, 2) == 1


# --- dead letters ---------------------------------------------------------------------------------

def test_large_events_die_while_the_broker_is_away(make_world: Callable[..., World],
                                                   own_broker: Broker):
    """L36, L45: their letters are on record with them, and arrive when it is back; each fits
    through Kafka, if need be without its value."""
    world = make_world(own_broker, effect={"request": {"body": None}})
    own_broker.create_topic(f"{world.topic}.dlq")
    world.start()
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")
    world.ledgers[0].wait_for("target is held")
    sizes = {f"event-{n}": size for n, size in enumerate([10, 1000, 900_000, 995_000], 1)}
    for n, size in enumerate(sizes.values(), 1):
        value = json.dumps({"order_id": n, "pad": ""})
        value = value.replace('""', f'"{"x" * (size - len(value))}"')
        own_broker.produce(world.topic, value.encode(), b"k", [
            ("ce_id", b"event-%d" % n), ("ce_type", b"order.placed")])
    own_broker.flush()
    waiting.until(lambda: world.states() == {"pending": len(sizes)}, 10, "the orders")
    world.provider.fault("status", status=402)
    own_broker.down()
    open_target(world)
    waiting.until(lambda: world.states() == {"dead": len(sizes)}, 10, "the keys to be dead")
    assert world.outbox() == len(sizes)
    own_broker.up()
    waiting.until(lambda: world.outbox() == 0, 30, "the letters to leave")
    letters = {letter.header("cf-event-id"): letter
               for letter in world.messages(f"{world.topic}.dlq")}
    assert letters.keys() == sizes.keys()
    for event, letter in letters.items():
        omitted = letter.header("cf-value-omitted") is not None
        assert omitted == (sizes[event] > 990_000) and omitted == (not letter.value)


# --- HTTP -----------------------------------------------------------------------------------------

def test_a_server_that_would_rather_speak_http_2(settle: Settle, places: Endpoints):
    """L22: it is offered HTTP/1.1 alone, which has no message that ends a connection under way."""
    world = settle(2, target={"ca_file": places.ca_files["tls"]})
    world.query("UPDATE counterfoil.effect_request SET url = %s", (places.urls["tls"],))
    start(world)
    wait_finished(world, [1, 2])
    assert world.states() == {"completed": 2}
    assert [(protocol, b" HTTP/1.1\r\n" in said) for protocol, said in places.spoken] == [
        ("http/1.1", True)] * 2
