"""Brokers, servers, connections, leases and relays that fail: nothing is lost, nobody deletes what
he does not own, and what failed goes on by itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.tools import programs, waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

POLL = "FROM counterfoil.outbox o WHERE o.id > $1"
PRODUCE, INIT_PRODUCER_ID = 0, 22     # Kafka's API keys
NONE, MESSAGE_TOO_LARGE = 0, 10       # and error codes
CLUSTER_AUTHORIZATION_FAILED, OUT_OF_ORDER_SEQUENCE_NUMBER = 31, 45
INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID = 47, 59
ALL_IN_FLIGHT = 200                   # more requests than a producer has under way
TAKE_OVER = """UPDATE counterfoil.lease SET owner = 'someone/else/1', token = token + 1,
  until = clock_timestamp() + '1 hour', length = '1 hour' WHERE name = 'relay'"""
GIVE_BACK = "UPDATE counterfoil.lease SET until = clock_timestamp() WHERE owner = 'someone/else/1'"


@pytest.fixture
def outbox(own_broker: Broker, make_world: Callable[..., World]) -> Outbox:
    """A world whose broker takes its time, so that much is in flight at any moment."""
    own_broker.set_round_trip(10)
    world = make_world(own_broker)
    world.settings = {"kafka": {"properties": [("bootstrap.servers", own_broker.bootstrap),
                                               ("reconnect.backoff.max.ms", "200")]}}
    return Outbox(world)


def settle(outbox: Outbox, broker: Broker, again: bool = True) -> None:
    """Everything arrives, as the judge wants it; and once more with the same ids."""
    broker.set_round_trip(0)
    outbox.wait_empty()
    outbox.judge()
    if again:
        outbox.again()


def owner_of(outbox: Outbox) -> Program:
    name = outbox.world.value("SELECT split_part(owner, '/', 1) FROM counterfoil.lease")
    return next(relay for relay in outbox.world.relays if relay.name == name)


def token(outbox: Outbox) -> int:
    return outbox.world.value("SELECT token FROM counterfoil.lease WHERE name = 'relay'")


def reads_past(outbox: Outbox, last: int) -> bool:
    """Was the last of the rows fetched? By the position of a later poll."""
    return any(f"$1 = '{last}'" in poll for poll in outbox.statements(POLL))


# --- the broker -----------------------------------------------------------------------------------

def test_a_broker_that_restarts_amidst_it(outbox: Outbox, own_broker: Broker):
    """R11: down and up with a window full of rows, twice: all arrive, in order."""
    relay = outbox.relay(window_rows=800).start()
    pid = relay.pid
    for _ in range(2):
        outbox.write(2000, keys=40)
        outbox.wait_amidst()
        own_broker.down()
        outbox.write(300, keys=40)
        waiting.holds(lambda: relay.running and outbox.world.outbox() >= 300, 0.5,
                      "the relay waits")
        own_broker.up()
    settle(outbox, own_broker)
    assert relay.running and relay.pid == pid
    assert relay.said("kafka is in trouble")


def memory(program: Program) -> int:
    """Resident KiB."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def grown(program: Program, before: int) -> int:
    """By how many KiB; not known of a sanitizer, which keeps what was freed."""
    return 0 if programs.build_directory().name == "asan" else memory(program) - before


def test_a_long_outage_of_the_broker(outbox: Outbox, own_broker: Broker):
    """R53, R31, R32: while the broker is away memory stays, the database is not asked and no
    transaction is open; afterwards everything drains."""
    world = outbox.world
    outbox.log_statements()
    relay = outbox.relay(window_rows=2000, window_bytes="2MiB").start()
    outbox.write(100)
    outbox.wait_empty()
    own_broker.down()
    outbox.write(5000, pad=1000, keys=50)
    relay.wait_for("kafka is in trouble")
    polls: list[int] = [0]

    def full() -> bool:
        polls.append(len(outbox.statements(POLL)))
        return 0 < polls[-2] == polls[-1]
    waiting.until(full, 10, "the window to be full", every=0.2)
    before = memory(relay)
    for _ in range(2):
        outbox.write(10_000, pad=1000, keys=50)
        assert len(outbox.statements(POLL)) == polls[-1]
        assert world.query(
            "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in%%' OR "
            "clock_timestamp() - xact_start > '1 s') FROM pg_stat_activity "
            "WHERE application_name = %s", (relay.name,)) == [(2, 0)]
    assert grown(relay, before) < 1024
    assert len(relay.said("kafka is in trouble")) == 1
    own_broker.up()
    settle(outbox, own_broker, again=False)
    assert grown(relay, before) < 4096


def heal(broker: Broker) -> None:
    """Ends the errors that are ordered. Behind closed connections: this broker does not look at
    sequence numbers, and would take the second of two requests whose first it failed."""
    broker.down()
    broker.fail_requests(PRODUCE, NONE, NONE)
    broker.up()


@pytest.mark.parametrize("error", [OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH])
def test_a_producer_that_is_dead(outbox: Outbox, own_broker: Broker, error: int):
    """R48: after a fatal error another producer takes its place within seconds; all arrives in
    order, no row is blamed, and the process is the same."""
    relay = outbox.relay().start()
    pid = relay.pid
    with outbox.load(writers=3, rows=100):      # rows are handed over while it dies
        outbox.write(1500, keys=40)
        outbox.wait_amidst()
        own_broker.fail_requests(PRODUCE, ALL_IN_FLIGHT, error)
        relay.wait_for("the producer failed")
    heal(own_broker)
    outbox.wait_empty(5)
    settle(outbox, own_broker)
    assert relay.running and relay.pid == pid
    assert not relay.said("row is dead")


def test_a_producer_that_is_not_let_in(outbox: Outbox, own_broker: Broker):
    """R48: denied from the beginning it is made again and again, until it is let in."""
    own_broker.fail_requests(INIT_PRODUCER_ID, ALL_IN_FLIGHT, CLUSTER_AUTHORIZATION_FAILED)
    outbox.write(100)
    relay = outbox.relay().start()
    relay.wait_for("the producer failed")
    waiting.holds(lambda: relay.running and outbox.world.outbox() == 100, 2, "it goes on trying")
    own_broker.fail_requests(INIT_PRODUCER_ID, NONE, NONE)
    settle(outbox, own_broker)
    assert not relay.said("row is dead")


def test_a_broker_that_forgot_the_producer(outbox: Outbox, own_broker: Broker):
    """R48: the client gets a new epoch by itself; all arrives in order."""
    relay = outbox.relay(window_rows=800).start()
    outbox.write(1500, keys=40)
    outbox.wait_amidst()
    own_broker.fail_requests(PRODUCE, ALL_IN_FLIGHT, UNKNOWN_PRODUCER_ID)
    waiting.holds(lambda: relay.running and outbox.world.outbox(), 0.5, "nothing more is taken")
    heal(own_broker)
    settle(outbox, own_broker)
    assert not relay.said("row is dead")


def test_a_batch_that_the_broker_rejects_condemns_nobody(outbox: Outbox, own_broker: Broker):
    """Rows that failed in company are tried alone, and pass."""
    outbox.write(200, keys=200)
    own_broker.fail_requests(PRODUCE, 1, MESSAGE_TOO_LARGE)
    relay = outbox.relay(window_rows=800).start()
    settle(outbox, own_broker, again=False)
    assert relay.wait_for("topic blocked").fields["reason"] and relay.said("topic open again")
    assert not relay.said("row is dead")
    assert outbox.world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 0


# --- the lease ------------------------------------------------------------------------------------

@pytest.mark.parametrize("lease", [True, False], ids=["of the lease", "of the outbox"])
def test_a_connection_of_the_owner_is_ended(outbox: Outbox, own_broker: Broker, lease: bool):
    """R12: the server ends a connection of the owner under load: it stops at once, it or the other
    goes on, and no row is deleted by two."""
    outbox.witness()
    relays = [outbox.relay(lease="1s", window_rows=800).start() for _ in range(2)]
    with outbox.load():
        for _ in range(3):
            outbox.write(500, keys=40)
            before, owner = token(outbox), owner_of(outbox)
            lost = len(owner.said("lease lost"))
            outbox.terminate(owner, lease)
            waiting.until(lambda: len(owner.said("lease lost")) > lost, 5, "it to notice")
            waiting.until(lambda: token(outbox) > before, 5, "a new term")
    settle(outbox, own_broker)
    assert outbox.usurped() == []
    assert all(relay.running for relay in relays)


@pytest.mark.parametrize("ended", ["lease", "outbox", "neither"])
def test_who_lost_the_lease_sends_nothing_more(outbox: Outbox, own_broker: Broker, ended: str):
    """R12: what waits in the producer when the lease is gone is purged, before anything else: it
    never reaches the broker, not even when that comes back."""
    world = outbox.world
    outbox.log_statements()
    relay = outbox.relay(lease="1s").start()
    outbox.write(50)
    outbox.wait_empty()
    own_broker.set_round_trip(0)
    sent = own_broker.count(world.topic)
    own_broker.down()
    ids = outbox.write(500)
    waiting.until(lambda: reads_past(outbox, ids[-1]), 5, "all to be handed to the producer")
    world.query(TAKE_OVER)
    if ended != "neither":
        outbox.terminate(relay, lease=ended == "lease")
    assert relay.wait_for("lease lost").fields["in_flight"] == "500"
    relay.wait_for("standby", owner="someone/else/1")
    polls = len(outbox.statements(POLL))
    own_broker.up()
    waiting.holds(lambda: own_broker.count(world.topic) == sent, 1, "nothing is sent")
    # one may have been on its way when the lease went; an owner would have sent dozens
    assert len(outbox.statements(POLL)) <= polls + 1 and world.outbox() == 500
    world.query(GIVE_BACK)
    relay.wait_for("the owner before did not stop cleanly", before="someone/else/1")
    outbox.wait_empty()
    outbox.judge(copies=False)


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_another_takes_over_when_the_owner_is_silent(outbox: Outbox, own_broker: Broker, how: str):
    """R12, R15: killed or stopped under load: after the lease the other owns it; the zombie that
    wakes deletes nothing and nothing is lost."""
    outbox.witness()
    for _ in range(2):
        outbox.relay(lease="1s", window_rows=800).start()
    with outbox.load():
        for _ in range(2):
            outbox.write(1000, keys=40)
            outbox.wait_amidst()
            before, owner = token(outbox), owner_of(outbox)
            getattr(owner, how)()
            waiting.until(lambda: token(outbox) > before, 5, "the other to take over")
            assert owner_of(outbox) is not owner
            if how == "kill":
                owner.start()
            else:
                owner.thaw()
                owner.wait_for("lease lost", reason="it could not be renewed in time")
            owner.wait_for("standby")
    settle(outbox, own_broker)
    assert outbox.usurped() == []


def test_the_deletion_of_a_former_owner_deletes_nothing(outbox: Outbox, own_broker: Broker):
    """R12, R15: a deletion sent while the lease was held, and run when it is another's."""
    world = outbox.world
    own_broker.set_round_trip(0)
    outbox.witness()
    outbox.write(100)
    former, other = [outbox.relay(lease="1s") for _ in range(2)]
    with outbox.deletions_wait():
        former.start()
        waiting.until(lambda: outbox.waits_to_delete(former), 10, "its deletion to wait")
        former.freeze()
        other.start().wait_for("lease taken")
        waiting.until(lambda: outbox.waits_to_delete(other), 10, "the other's to wait behind it")
    outbox.wait_empty()
    assert outbox.usurped() == []
    former.thaw()
    former.wait_for("lease lost")
    outbox.judge()
    assert own_broker.count(world.topic) == 200


def test_a_locked_outbox_does_not_cost_the_lease(outbox: Outbox, own_broker: Broker):
    """Whoever locks the table stops the reading; the lease goes on, on its own connection."""
    world = outbox.world
    relays = [outbox.relay(lease="1s").start() for _ in range(2)]
    outbox.write(100)
    outbox.wait_empty()
    before = token(outbox)
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute("LOCK TABLE counterfoil.outbox IN ACCESS EXCLUSIVE MODE")
        outbox.write_in(session, 100)
        waiting.holds(lambda: token(outbox) == before and world.value(
            "SELECT until > clock_timestamp() FROM counterfoil.lease"), 2.5, "the lease is held")
        session.commit()
    settle(outbox, own_broker)
    assert token(outbox) == before
    assert not any(relay.said("lease lost") for relay in relays)


# --- the database ---------------------------------------------------------------------------------

def test_a_server_that_stops_and_starts(outbox: Outbox, own_broker: Broker):
    """Cleanly, in a hurry, or killed, with rows in flight: the relay goes on by itself."""
    postgres = outbox.world.postgres
    relay = outbox.relay(lease="1s", window_rows=800).start()
    pid = relay.pid
    for stop in (postgres.stop, lambda: postgres.stop("immediate"), postgres.kill):
        outbox.write(1500, keys=40)
        outbox.wait_amidst()
        noticed = len(relay.said("no database"))
        stop()
        waiting.until(lambda: len(relay.said("no database")) > noticed, 10, "it to notice")
        postgres.start()
        outbox.write(10)
        outbox.wait_empty()
    settle(outbox, own_broker)
    assert relay.running and relay.pid == pid
    assert relay.said("another run of the server")


def replace(cursor: Any, world: World) -> tuple[set[str], set[str]]:
    """All rows are gone and other events have their ids, as when a server that crashed gives out
    again what asynchronous commits had. The ids of both sets of events."""
    cursor.execute("DELETE FROM counterfoil.outbox RETURNING id, event_id::text")
    gone = dict(cursor.fetchall())
    cursor.execute(
        "INSERT INTO counterfoil.outbox (id, topic, type, payload, ordering_key) OVERRIDING SYSTEM "
        "VALUE SELECT id, %s, 'tested', 'other', 'other' FROM unnest(%s) id ORDER BY id "
        "RETURNING event_id::text", (world.topic, sorted(gone)))
    return set(gone.values()), {event for (event,) in cursor.fetchall()}


def test_ids_given_out_again_while_their_deletion_waits(outbox: Outbox, own_broker: Broker):
    """The rows that were published are gone before they are deleted, and others have their ids:
    these are not deleted, but published."""
    world = outbox.world
    own_broker.set_round_trip(0)
    outbox.write(40)
    relay = outbox.relay(sweep="300ms")
    with outbox.deletions_wait() as cursor:
        relay.start()
        waiting.until(lambda: outbox.waits_to_delete(relay) and
                      own_broker.count(world.topic) == 40, 10, "its deletion to wait")
        before, after = replace(cursor, world)
        cursor.connection.commit()
    outbox.wait_empty(10)
    assert {message.event_id for message in world.messages()} == before | after
    assert relay.said("published rows were not there to be deleted")


def test_ids_given_out_again_while_they_are_in_flight(outbox: Outbox, own_broker: Broker):
    """The same while the broker is away: what is in flight under an id means nothing any more."""
    world = outbox.world
    outbox.log_statements()
    relay = outbox.relay(sweep="300ms").start()
    own_broker.down()
    ids = outbox.write(40)
    waiting.until(lambda: reads_past(outbox, ids[-1]), 5, "all to be handed to the producer")
    with closing(world.connect()) as session, session.cursor() as cursor:
        before, after = replace(cursor, world)
        session.commit()
    relay.wait_for("an id in flight belongs to another event now")
    own_broker.up()
    outbox.wait_empty(10)
    published = {message.event_id for message in world.messages()}
    assert after <= published <= before | after
