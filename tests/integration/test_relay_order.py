"""Nothing committed is skipped, nothing overtakes its key, nothing is published without need."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, Callable

import pytest

from tests.tools import waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.world import World

POLL = "FROM counterfoil.outbox o WHERE o.id > $1"
HOLDERS = "FROM pg_locks"
NO_SWEEP = "10m"      # what is found is not found by a sweep
PROMPTLY = 5          # seconds; far from NO_SWEEP, and patient with a busy machine
NONE, UNKNOWN_TOPIC = 0, 3    # Kafka's error codes
NO_DELETION = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
CREATE TRIGGER refused BEFORE DELETE ON counterfoil.outbox EXECUTE FUNCTION public.refuse();
"""


# --- gaps -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("prepared", [False, True])
def test_a_lower_id_that_commits_later_is_found_at_once(world: World, prepared: bool):
    """R1: T1 draws an id and holds its transaction, T2 draws the next and is published; when T1
    commits, also as a prepared transaction, its row follows without a sweep."""
    outbox = Outbox(world)
    outbox.relay(sweep=NO_SWEEP).start()
    outbox.write()
    outbox.wait_empty()
    with closing(world.connect()) as first:
        first.autocommit = True
        with first.cursor() as cursor:
            cursor.execute("BEGIN")
            (late,) = outbox.write_in(first, key="late-")
            if prepared:
                cursor.execute(f"PREPARE TRANSACTION '{world.database}'")
            for _ in range(3):    # the position moves far past it
                assert outbox.write(50)[0] > late
                outbox.wait_empty()
            cursor.execute(f"COMMIT PREPARED '{world.database}'" if prepared else "COMMIT")
    waiting.until(lambda: world.broker.count(world.topic) == 152, PROMPTLY, "the late row")
    outbox.wait_empty()
    outbox.judge(copies=False)
    outbox.again()


def test_a_rolled_back_id_costs_nothing(world: World):
    """R1: once its writer is gone, nobody asks for the id of a rollback any more; what is written
    meanwhile does not wait for it."""
    outbox = Outbox(world)
    outbox.log_statements()
    outbox.relay(sweep=NO_SWEEP).start()
    outbox.write()
    with closing(world.connect()) as session:
        (gone,) = outbox.write_in(session)
        outbox.write(20)
        outbox.wait_empty()
        waiting.until(lambda: outbox.statements(HOLDERS), PROMPTLY, "the gap to be noticed")
        assert f"'{{{gone}}}'" in outbox.statements(POLL)[-1]
        session.rollback()
    waiting.until(lambda: f"'{{{gone}}}'" not in outbox.statements(POLL)[-1], PROMPTLY,
                  "the gap to be dropped")
    listed, polled = len(outbox.statements(HOLDERS)), len(outbox.statements(POLL))
    waiting.until(lambda: len(outbox.statements(POLL)) > polled + 10, 10, "more polls")
    assert len(outbox.statements(HOLDERS)) == listed
    outbox.judge(copies=False)


def test_long_transactions_elsewhere_delay_nothing(world: World):
    """R4: writing transactions of another table and of another database stay open meanwhile, and
    so does an old snapshot."""
    outbox = Outbox(world)
    outbox.relay(sweep=NO_SWEEP).start()
    with closing(world.connect()) as here, closing(world.connect()) as snapshot, \
            closing(world.postgres.connect(autocommit=False)) as elsewhere:
        here.cursor().execute("INSERT INTO orders VALUES (1, 'c', 1, gen_random_uuid())")
        elsewhere.cursor().execute("CREATE TABLE public.elsewhere (n int)")
        snapshot.set_session(isolation_level="REPEATABLE READ")
        snapshot.cursor().execute("SELECT count(*) FROM counterfoil.outbox")
        for _ in range(5):
            outbox.write(20)
            outbox.wait_empty(PROMPTLY)
    outbox.judge(copies=False)


def test_sixteen_writers(world: World):
    """R2: 16 writers that pause before they commit or roll back: what is published is what was
    committed, each key by id; found without a sweep."""
    outbox = Outbox(world)
    outbox.relay(sweep=NO_SWEEP).start()

    def write(writer: int) -> None:
        with closing(world.connect()) as connection, connection.cursor() as cursor:
            for n in range(40):
                if n % 4 == 0:      # a key that all write to, one after the other
                    outbox.write_in(connection, 2, key=f"shared-{writer % 3}-", keys=1, lock=True)
                outbox.write_in(connection, 1 + (writer + n) % 8, key=f"own-{writer}-", keys=2)
                cursor.execute("SELECT pg_sleep(random() * 0.03 * (random() > 0.5)::int)")
                if (writer + n) % 5 == 0:
                    connection.rollback()
                else:
                    connection.commit()

    with ThreadPoolExecutor(16) as writers:
        list(writers.map(write, range(16)))
    assert outbox.written() > 2000
    waiting.until(lambda: world.outbox() == 0, PROMPTLY, "the outbox to be empty")
    outbox.judge(copies=False)
    outbox.again()


@pytest.fixture
def backlog(own_broker: Broker, make_world: Callable[..., World]) -> Callable[[str], Outbox]:
    """A world whose relay reads a few rows at a time, the sweep too, amidst many rows of a topic
    that its broker does not know for now."""
    world = make_world(own_broker)
    world.settings = {"kafka": {"properties": [
        ("bootstrap.servers", own_broker.bootstrap), ("topic.metadata.refresh.interval.ms", "1000"),
        ("topic.metadata.propagation.max.ms", "100")]}}
    own_broker.create_topic(f"{world.topic}-bad", 4)
    own_broker.command("topic-error", f"{world.topic}-bad", UNKNOWN_TOPIC)

    def start(sweep: str) -> Outbox:
        outbox = Outbox(world)
        relay = outbox.relay(sweep=sweep, batch=20).start()
        outbox.write(2000, topic=f"{world.topic}-bad")
        relay.wait_for("topic blocked", topic=f"{world.topic}-bad")
        return outbox
    return start


@pytest.mark.parametrize("sweep", ["100ms", NO_SWEEP])
def test_a_late_transaction_on_both_sides_of_a_cursor(backlog: Callable[[str], Outbox],
                                                      sweep: str):
    """R1, R2: its rows lie before and behind the place where the sweep, or the reading of a topic
    that catches up, has come to: the first of them is published first."""
    outbox = backlog(sweep)
    world, bad = outbox.world, f"{outbox.world.topic}-bad"

    def left() -> int:
        return outbox.waiting(bad if healed else world.topic)
    healed = False
    with ExitStack() as stack:
        late = [stack.enter_context(closing(world.connect())) for _ in range(20)]
        for _ in range(30):     # amidst the rows of others
            for n, connection in enumerate(late):
                outbox.write_in(connection, key=f"late-{n}-", keys=1, topic=bad if n > 5 else None)
            outbox.write(60, topic=bad)
        for n, connection in enumerate(late):
            if n == 5:
                world.broker.command("topic-error", bad, NONE)
                waiting.until(lambda: outbox.waiting(bad) < 3700, 40, "it to catch up", every=0.001)
                healed = True
            connection.commit()
            before = left()     # some of it has gone by the next one
            waiting.until(lambda rows=before: left() < rows or rows == 0, 20, "progress", every=0.001)
    outbox.wait_empty()
    outbox.judge(copies=False)


# --- stopping -------------------------------------------------------------------------------------

def slow(broker: Broker, make_world: Callable[..., World]) -> Outbox:
    """A world whose broker takes its time, so that much is in flight at any moment."""
    broker.set_round_trip(10)
    return Outbox(make_world(broker))


def test_a_clean_stop_under_load_publishes_nothing_twice(own_broker: Broker,
                                                        make_world: Callable[..., World]):
    """R56: SIGTERM: what is in flight is delivered and deleted, exit 0; then what is published is
    exactly what is gone from the outbox, and the next run adds the rest."""
    outbox = slow(own_broker, make_world)
    world = outbox.world
    relay = outbox.relay(window_rows=800)
    relay.start()
    with outbox.load(writers=3, rows=8):
        for _ in range(3):
            outbox.wait_amidst()
            relay.terminate()
            assert relay.wait() == 0
            messages = world.messages()
            gone = {event for (event,) in world.query(
                "SELECT event_id::text FROM written EXCEPT "
                "SELECT event_id::text FROM counterfoil.outbox")}
            assert {message.event_id for message in messages} == gone
            assert len(messages) == len(gone)
            assert not relay.said("drain timeout")
            outbox.write(600)
            relay.start()
            relay.wait_for("lease taken", timeout=2)    # it was given back
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert not relay.said("the owner before")


def test_a_rolling_restart_publishes_nothing_twice(own_broker: Broker,
                                                   make_world: Callable[..., World]):
    """R17, R21, R56: of two relays one publishes; each is restarted in turn, under load."""
    outbox = slow(own_broker, make_world)
    relays = [outbox.relay(window_rows=800) for _ in range(2)]
    for relay in relays:
        relay.start()
    with outbox.load(writers=3, rows=8):
        for relay in relays * 2:
            outbox.wait_amidst()
            relay.stop()
            relay.start()
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert not any(relay.said("the owner before") for relay in relays)


@pytest.mark.plain
def test_a_kill_loses_nothing(own_broker: Broker, make_world: Callable[..., World]):
    """R56, R25: SIGKILL under load, again and again: no loss, and duplicates within the window."""
    outbox = slow(own_broker, make_world)
    relay = outbox.relay(window_rows=800, lease="1s")
    relay.start()
    kills = 3
    with outbox.load(writers=3, rows=8):
        for _ in range(kills):
            outbox.wait_amidst()
            relay.kill()
            outbox.write(600)
            relay.start()
            relay.wait_for("the owner before did not stop cleanly")
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    first = outbox.judge()
    assert own_broker.count(outbox.world.topic) - len(first) <= kills * 2 * 800
    outbox.again()


def test_duplicates_stay_within_what_is_announced(world: World):
    """R25: a kill at the worst moment: as much is published as can be, and nothing deleted."""
    outbox = Outbox(world)
    outbox.write(1000)
    relay = outbox.relay(window_rows=100, lease="1s")
    relay.allow_errors("the database refused a statement.*statement=delete")
    world.query(NO_DELETION)
    relay.start()
    waiting.until(lambda: world.broker.count(world.topic) > 150, 10, "more than the window")
    relay.kill()
    world.query("DROP TRIGGER refused ON counterfoil.outbox")
    relay.start()
    line = relay.wait_for("the owner before did not stop cleanly")
    outbox.wait_empty()
    outbox.judge()
    assert 150 < world.broker.count(world.topic) - 1000 <= int(line.fields["at_most"])


def test_a_row_published_again_is_the_same_to_the_byte(world: World):
    """R23: killed between publishing and deleting: key, value, headers and partition are those of
    the first time."""
    outbox = Outbox(world)
    rows = 40
    for n in range(rows):
        world.emit(None if n % 5 == 0 else b"\x00 payload %d" % n,
                   **({"ordering_key": f"k{n % 7}"} if n % 3 else {}),
                   **({"headers": '{"a": 1.50, "b": {"x": null, "a": [1]}, "c": "\u20ac"}'}
                      if n % 2 else {}),
                   **({"partition": 2} if n % 11 == 0 else {}))
    relay = outbox.relay(lease="1s")
    with outbox.deletions_wait():
        relay.start()
        waiting.until(lambda: world.broker.count(world.topic) == rows and
                      outbox.waits_to_delete(relay), 10, "the first time, and its deletion to wait")
        relay.kill()
        outbox.terminate(relay)     # else the server goes on with what it was sent
    assert world.outbox() == rows
    relay.start()
    outbox.wait_empty()
    copies = Counter(message.content() for message in world.messages())
    assert len(copies) == rows and set(copies.values()) == {2}
    assert len({message.event_id for message in world.messages()}) == rows
