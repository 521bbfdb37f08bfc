"""Several relays of one outbox, killed, stopped, cut off and restarted under load: one owner at a
time, nothing lost, and what comes twice was announced."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Callable

import pytest

from tests.tools import waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

WINDOW = 400
# A lease that was taken from one who had it still.
WITNESS = """
CREATE TABLE public.usurped (token bigint, before text, after text);
CREATE FUNCTION public.note_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF old.owner <> new.owner AND '' NOT IN (old.owner, new.owner)
    AND old.until > clock_timestamp() THEN
    INSERT INTO public.usurped VALUES (new.token, old.owner, new.owner);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER UPDATE ON counterfoil.lease
  FOR EACH ROW EXECUTE FUNCTION public.note_owner();
"""
# Two relays meet in their reports: each has written its own row when it comes to the others'.
LINGER = """
CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$;
CREATE TRIGGER linger BEFORE UPDATE ON counterfoil.relay
  FOR EACH ROW EXECUTE FUNCTION public.linger();
"""


@pytest.fixture
def outbox(own_broker: Broker, make_world: Callable[..., World]) -> Outbox:
    """A world whose broker takes its time, so that much is in flight at any moment."""
    own_broker.set_round_trip(10)
    world = make_world(own_broker)
    world.settings = {"kafka": {"properties": [("bootstrap.servers", own_broker.bootstrap),
                                               ("reconnect.backoff.max.ms", "200")]}}
    return Outbox(world)


def relays_of(outbox: Outbox, count: int, lease: str = "1s") -> list[Program]:
    return [outbox.relay(lease=lease, window_rows=WINDOW).start() for _ in range(count)]


def owner_of(outbox: Outbox) -> Program | None:
    name = outbox.world.value("SELECT split_part(owner, '/', 1) FROM counterfoil.lease "
                              "WHERE name = 'relay'")
    return next((relay for relay in outbox.world.relays if relay.name == name), None)


def token(outbox: Outbox) -> int:
    return outbox.world.value("SELECT token FROM counterfoil.lease WHERE name = 'relay'")


def wait_term(outbox: Outbox, before: int) -> None:
    waiting.until(lambda: token(outbox) > before, 10, "a new term of the lease")


def announced(outbox: Outbox) -> int:
    """How many duplicates the logs speak of: after an owner that did not stop cleanly, and of what
    one had under way when it lost the lease."""
    said = 0
    for relay in outbox.world.relays:
        for line in relay.log(whole=True):
            said += int(line.fields.get("at_most", 0))
            if line.msg == "lease lost":
                said += int(line.fields["in_flight"]) + int(line.fields["not_deleted"])
    return said


def settle(outbox: Outbox, broker: Broker) -> None:
    broker.set_round_trip(0)
    outbox.wait_empty()
    first = outbox.judge()
    assert broker.count(outbox.world.topic) - len(first) <= announced(outbox)


# --- one owner ------------------------------------------------------------------------------------

def kill(outbox: Outbox, relay: Program) -> None:
    relay.kill()
    relay.start(ready=False)


def freeze(outbox: Outbox, relay: Program) -> None:
    """Beyond the lease."""
    before = token(outbox)
    relay.freeze()
    wait_term(outbox, before)
    relay.thaw()


def end_connections(outbox: Outbox, relay: Program) -> None:
    for pid in outbox.backends(relay):
        outbox.world.query("SELECT pg_terminate_backend(%s)", (pid,))


def stop(outbox: Outbox, relay: Program) -> None:
    relay.stop()
    relay.start(ready=False)


@pytest.mark.parametrize("count", [2, 3])
def test_one_owner_whatever_happens(outbox: Outbox, own_broker: Broker, count: int):
    """R12, R15, R25: relays are killed, stopped beyond their lease, cut off and restarted at random:
    the lease is never taken from one who has it, no row is deleted by another than its owner,
    nothing is lost, and duplicates are no more than was announced."""
    world = outbox.world
    world.query(WITNESS)
    outbox.witness()
    chosen = random.Random(count)
    relays_of(outbox, count)
    with outbox.load(writers=2):
        for act in (kill, freeze, end_connections, stop) * 2:
            outbox.write(800, keys=40)
            outbox.wait_amidst()
            victim = owner_of(outbox) if act is freeze or chosen.random() < 0.7 else None
            act(outbox, victim or chosen.choice(world.relays))
    settle(outbox, own_broker)
    assert world.query("SELECT * FROM public.usurped") == []
    assert outbox.usurped() == []
    assert all(relay.running for relay in world.relays)


def test_killed_again_and_again(outbox: Outbox, own_broker: Broker):
    """R25: the same relay, a dozen times under load: each time the duplicates are within what it
    announced, and nothing is lost. (Its lease is ended for it, to save the time.)"""
    world = outbox.world
    (relay,) = relays_of(outbox, 1)
    with outbox.load(writers=2):
        for _ in range(12):
            outbox.write(500, keys=40)
            outbox.wait_amidst()
            relay.kill()
            waiting.until(lambda: not outbox.backends(relay), 10, "the server to notice")
            world.query("UPDATE counterfoil.lease SET until = clock_timestamp()")
            relay.start()
            relay.wait_for("the owner before did not stop cleanly", at_most=2 * WINDOW)
    settle(outbox, own_broker)


# --- no harm to one another -----------------------------------------------------------------------

def deadlocks(outbox: Outbox) -> int:
    return outbox.world.value(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


def test_restarts_of_three(outbox: Outbox, own_broker: Broker):
    """R38, R16: each of three is restarted twice, handing over under load, and each that takes over
    deletes expired rows of once: no deadlock, and nothing is published twice."""
    world = outbox.world
    world.query("SELECT counterfoil.once('retention', n::text, keep => '1 ms') "
                "FROM generate_series(1, 8000) n")
    before = deadlocks(outbox)
    relays = relays_of(outbox, 3, lease="3s")
    with outbox.load(writers=2):
        for relay in relays * 2:
            outbox.write(800, keys=40)
            outbox.wait_amidst()
            relay.stop()
            relay.start()
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert not any(relay.said("the owner before") for relay in relays)
    assert deadlocks(outbox) == before


def test_expired_rows_that_are_taken_again(outbox: Outbox):
    """R38: the application takes expired keys of once again, the latest first, while a relay deletes
    them, the earliest first: neither waits for the other for ever."""
    world = outbox.world
    world.query("SELECT counterfoil.once('retention', n::text, keep => n * interval '1 us') "
                "FROM generate_series(1, 1000) n")
    before = deadlocks(outbox)
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute("SELECT counterfoil.once('retention', '400')")
        relays_of(outbox, 1)
        waiting.until(lambda: world.value(
            "SELECT (SELECT count(*) FROM counterfoil.once) < 1000 OR EXISTS (SELECT FROM "
            "pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%counterfoil.once%%' "
            "AND query NOT LIKE '%%pg_stat_activity%%')"), 10, "the relay to have come to them")
        cursor.execute("SELECT counterfoil.once('retention', '10')")
        session.commit()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.once") == 2, 10,
                  "the other expired rows to go")
    assert deadlocks(outbox) == before


def test_reports_after_a_long_outage(outbox: Outbox):
    """R38: whoever has not been seen for long is forgotten by the others: all of them at once, when
    the database was away for long. No deadlock."""
    world = outbox.world
    before = deadlocks(outbox)
    relays_of(outbox, 3)
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.relay") == 3, 10,
                  "three reports")
    world.query(LINGER)
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute("LOCK TABLE counterfoil.relay IN EXCLUSIVE MODE")
        cursor.execute("UPDATE counterfoil.relay SET seen_at = seen_at - interval '1 hour'")
        waiting.until(lambda: world.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE '%%counterfoil.relay %%'") == 3, 10, "all of them to wait")
        session.commit()
    waiting.until(lambda: world.value(
        "SELECT count(*) FROM counterfoil.relay WHERE seen_at > now() - interval '10 s'") == 3, 10,
        "all of them to be seen again")
    assert deadlocks(outbox) == before


def test_a_poison_row_has_one_schedule(outbox: Outbox, own_broker: Broker):
    """R18, R58: three relays, a row that no broker takes, handovers of every kind, and a broker that
    is away meanwhile: the row is given up once, by one of them, and no other."""
    world = outbox.world
    relays = relays_of(outbox, 3)
    for relay in relays:
        relay.allow_errors("row is dead")
    own_broker.down()
    outbox.write(200, keys=40)
    poison = world.emit(b"x" * 2_000_000, ordering_key="poison")
    for n in range(3):
        world.emit(b"behind %d" % n, ordering_key="poison")
    for act in (kill, freeze, kill):
        before = token(outbox)
        act(outbox, owner_of(outbox))
        wait_term(outbox, before)
    own_broker.up()
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    assert world.query("SELECT event_id::text, parked FROM counterfoil.outbox_dead "
                       "ORDER BY row_id LIMIT 2") == [(poison, False), (
                           world.value("SELECT min(event_id::text) FROM counterfoil.outbox_dead "
                                       "WHERE parked"), True)]
    assert world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 4
    said = [line for relay in relays for line in relay.log(whole=True)
            if line.msg.startswith("row is dead")]
    assert [line.fields["event_id"] for line in said] == [poison]
    outbox.judge()
