"""Rows that can never be sent leave the outbox, with a reason, and take what is behind them in
their ordering key along; nobody else waits for them. When they are put back all goes on in order."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import health, libconfig, programs, waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.pgbouncer import Pgbouncer
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

SIZE_LIMIT = 20_000   # message.max.bytes
LARGE = SIZE_LIMIT    # a padding that makes a row too large
DEAD = "row is dead: moved to outbox_dead"
PARKED = "row parked behind a dead one of its key"
SETTLE = """SELECT result FROM counterfoil.outbox_{action}('counterfoil.outbox', %s,
  gen_random_uuid(), 'a test', '{{}}')"""
# Both where it lies and where the judge looks: its payload is short now.
REPAIR = """WITH short AS (UPDATE counterfoil.outbox_dead SET payload = substr(payload, 1, 50)
    WHERE row_id = ANY (%(ids)s) RETURNING event_id, payload)
  UPDATE public.written w SET payload = short.payload FROM short
  WHERE w.event_id = short.event_id"""
DIED_AT = "SELECT died_at FROM counterfoil.outbox_dead WHERE row_id = %s"
PROMPTLY = 2          # seconds for one row, on a busy machine


class Rows(Outbox):
    """The outbox of a world with a relay that takes rows up to SIZE_LIMIT, and its dead rows."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.settings = libconfig.merge(world.settings, {
            "http": {"ready_max_age": "1s"},    # so often are dead rows counted
            "kafka": {"properties": [("bootstrap.servers", world.broker.bootstrap),
                                     ("message.max.bytes", str(SIZE_LIMIT))]}})

    def relay(self, **settings: Any) -> Program:
        relay = super().relay(**settings)
        relay.allow_errors(DEAD)
        return relay

    def write_large(self, key: str, topic: str | None = None) -> int:
        """One row of its first key, as write() names it."""
        (row,) = self.write(1, key=key, keys=1, pad=LARGE, topic=topic)
        return row

    def dead(self, parked: bool = False) -> list[int]:
        return [row for (row,) in self.world.query(
            "SELECT row_id FROM counterfoil.outbox_dead WHERE parked = %s ORDER BY 1", (parked,))]

    def parked(self) -> list[int]:
        return self.dead(parked=True)

    def wait_dead(self, dead: list[int], parked: list[int] | None = None) -> None:
        waiting.until(lambda: self.dead() == sorted(dead) and (
            parked is None or self.parked() == sorted(parked)), 10,
            f"{dead} to be dead and {parked} to be parked")

    def reason(self, row: int) -> str:
        return self.world.value("SELECT reason FROM counterfoil.outbox_dead WHERE row_id = %s", (row,))

    def settle(self, action: str, *rows: int) -> None:
        results = self.world.query(SETTLE.format(action=action), (list(rows),))
        assert {result for (result,) in results} == {"done"}, results

    def repair(self, *rows: int) -> None:
        self.world.query(REPAIR, {"ids": list(rows)})

    def events(self, rows: list[int]) -> set[str]:
        """Of these rows, as they were written."""
        return {event for (event,) in self.world.query(
            "SELECT event_id::text FROM public.written WHERE id = ANY (%s)", (rows,))}

    def wait_counted(self, relay: Program, dead: int, parked: int) -> None:
        """By the metrics."""
        def seen() -> tuple[float, float]:
            metrics = health.metrics(relay)
            return metrics.value("outbox_dead_rows"), metrics.value("outbox_parked_rows")
        waiting.until(lambda: seen() == (dead, parked), 10, f"{dead} dead and {parked} parked rows")


@pytest.fixture
def outbox(world: World) -> Rows:
    return Rows(world)


def values(world: World, key: str) -> list[bytes | None]:
    return [m.value for m in world.messages() if m.header("ce_subject") == key]


# --- what dies, and why ---------------------------------------------------------------------------

def json_headers(size: int) -> str:
    return '{"large": "' + "h" * size + '"}'


def test_rows_that_are_too_large(world: World, outbox: Rows):
    """R6, R57: dead before anything behind them is sent, with their size; neighbours are delivered,
    what is behind them in their keys is parked. Repaired and put back all goes in its order;
    discarded, what was parked goes on without them."""
    large = b"L" * 5_000_000
    repaired = {"ordering_key": "repaired"}
    discarded = {"ordering_key": "discarded"}
    world.emit(large, **repaired)                                        # 1
    world.emit(b"R2", **repaired)
    world.emit(b"D1", headers=json_headers(SIZE_LIMIT), **discarded)     # 3
    for value in (b"D2", b"D3"):
        world.emit(value, **discarded)
    for n in range(20):
        world.emit(b"neighbour", ordering_key=f"key-{n}")
    world.emit(large)                                                    # 26, in nobody's way
    world.emit(b"free")
    world.emit(b"R3", **repaired)                                        # 28
    relay = outbox.relay().start()
    waiting.until(lambda: world.outbox() == 0, 10, "all to be delivered or moved")
    outbox.wait_dead([1, 3, 26], [2, 4, 5, 28])
    assert Counter(m.value for m in world.messages()) == {b"neighbour": 20, b"free": 1}
    line = relay.said(DEAD)[0]
    assert line.level == "error" and line.fields["id"] == "1"
    assert (line.fields["topic"], "message.max.bytes" in line.fields["remedy"]) == (world.topic, True)
    assert 5_000_000 <= int(line.fields["bytes"]) < 5_000_100
    assert outbox.reason(1) == f"{line.fields['bytes']} bytes, more than message.max.bytes = 20000"
    assert "dead row of its ordering key" in outbox.reason(2)

    world.emit(b"R4", **repaired)         # written when its key waits already
    world.emit(b"after")
    outbox.wait_dead([1, 3, 26], [2, 4, 5, 28, 29])
    waiting.until(lambda: world.outbox() == 0, 10, "what is written meanwhile")
    outbox.wait_counted(relay, 3, 5)
    assert relay.said(PARKED)[0].level == "info"

    world.query("UPDATE counterfoil.outbox_dead SET payload = 'R1' WHERE row_id = 1")
    outbox.settle("requeue", 1)
    outbox.settle("discard", 3, 26)
    waiting.until(lambda: world.outbox() == 0 and not outbox.parked(), 10, "the two keys to go on")
    assert values(world, "repaired") == [b"R1", b"R2", b"R3", b"R4"]
    assert values(world, "discarded") == [b"D2", b"D3"]
    assert Counter(m.value for m in world.messages())[b"after"] == 1
    outbox.wait_counted(relay, 0, 0)
    assert relay.said("rows were put back: the outbox is read afresh")
    world.emit(b"R5", **repaired)         # it waits for nothing any more
    waiting.until(lambda: values(world, "repaired")[-1] == b"R5", 5, "the key to flow")


def test_a_large_row_is_dead_within_a_second(world: World, outbox: Rows):
    """R57: and not tried for weeks: from its commit to where it lies."""
    outbox.relay().start()
    for _ in range(3):
        world.emit(b"L" * 5_000_000)
        waiting.until(lambda: world.outbox() == 0, 10, "it to be moved")
    took = world.query("SELECT extract(epoch FROM died_at - created_at)::float "
                       "FROM counterfoil.outbox_dead")
    assert len(took) == 3 and min(seconds for (seconds,) in took) < 1


def test_a_long_key_holds_back_its_rows_too(world: World, outbox: Rows):
    """R6: of a row that is too large its ordering key is not read to the end."""
    long_key = {"ordering_key": "k" * 5000}
    world.emit(b"L" * 5_000_000, **long_key)
    world.emit(b"behind", **long_key)
    world.emit(b"neighbour", ordering_key="other")
    outbox.relay().start()
    waiting.until(lambda: world.outbox() == 0, 10, "all to be delivered or moved")
    outbox.wait_dead([1], [2])
    assert [m.value for m in world.messages()] == [b"neighbour"]
    outbox.settle("discard", 1)
    waiting.until(lambda: len(world.messages()) == 2, 10, "the key to go on")


TOPICS_THAT_CANNOT_BE = {
    "no spaces": "letters, digits", "..": "cannot be named", "x" * 250: "1 to 249 characters",
    "\u00fcber": "letters, digits", "unwanted": "not among relay.topics"}


def test_rows_that_no_broker_is_asked_about(world: World, outbox: Rows):
    """A name that cannot be, a topic that is not wanted, headers that nest too deep: each concerns
    its own rows alone, and what else has their key in another topic."""
    for topic in TOPICS_THAT_CANNOT_BE:
        world.value("SELECT event_id::text FROM counterfoil.emit(topic => %s, type => 't', "
                    "payload => 'x', ordering_key => 'k')", (topic,))
        world.emit(b"y", ordering_key="k")
    world.emit(b"deep", headers='{"a": ' + "[" * 300 + "]" * 300 + "}", ordering_key="deep")
    world.emit(b"behind", ordering_key="deep")
    outbox.relay(topics=[world.topic]).start()
    waiting.until(lambda: world.outbox() == 0, 10, "all to be delivered or moved")
    outbox.wait_dead([1, 3, 5, 7, 9, 11], [12])
    for row, words in zip((1, 3, 5, 7, 9), TOPICS_THAT_CANNOT_BE.values()):
        assert words in outbox.reason(row)
    assert "headers" in outbox.reason(11)
    assert [m.value for m in world.messages()] == [b"y"] * 5


def test_a_partition_that_there_is_not(world: World, outbox: Rows):
    """The row that names it dies when it was alone; those around it pass, what is behind it in its
    key waits."""
    relay = outbox.relay().start()
    outbox.write(20, key="first-")       # the partitions are known
    outbox.wait_empty()
    with closing(world.connect()) as session, session.cursor() as cursor:
        for n in range(60):
            cursor.execute("SELECT id FROM counterfoil.emit(topic => %s, type => 't', payload => %s, "
                           "ordering_key => %s, partition => %s)",
                           (world.topic, str(n), f"key-{n % 7}", {20: 99, 30: 3}.get(n)))
        session.commit()
    waiting.until(lambda: world.outbox() == 0, 10, "all to be delivered or moved")
    behind = [n for n in range(21, 60) if n % 7 == 20 % 7]
    outbox.wait_dead([21 + 20], [21 + n for n in behind])
    assert "no such partition" in outbox.reason(41)

    def seen() -> list[bytes | None]:
        return [m.value for m in world.messages() if m.header("ce_type") == "t"]
    assert sorted(seen()) == sorted(b"%d" % n for n in range(60) if n not in (20, *behind))
    world.query("UPDATE counterfoil.outbox_dead SET partition = NULL WHERE row_id = 41")
    outbox.settle("requeue", 41)
    waiting.until(lambda: len(seen()) == 60, 10, "the key to go on")
    assert values(world, "key-6") == [b"%d" % n for n in range(60) if n % 7 == 6]
    assert len(relay.said(DEAD)) == 1
    # the one that named another partition may pass those of its key
    assert health.metrics(relay).value("outbox_order_violations_total") == 0


def test_when_all_rows_of_a_topic_are_rejected_it_is_the_topic(world: World, outbox: Rows):
    """Nineteen rows in a row die for one reason; then the topic waits, and the others go on."""
    bad = f"{world.topic}-bad"
    world.broker.create_topic(bad)
    for n in range(25):
        world.query("SELECT counterfoil.emit(topic => %s, type => 't', payload => 'x', "
                    "partition => 99, ordering_key => %s)", (bad, f"key-{n}"))
        outbox.write(4)
    relay = outbox.relay().start()
    relay.wait_for("topic blocked", topic=bad, reason="its topic has no such partition")
    waiting.until(lambda: len(outbox.dead()) == 19 and world.outbox() == 6, 10, "nineteen to die")
    outbox.write(500)
    waiting.until(lambda: world.outbox() == 6, 10, "the others to flow")
    waiting.holds(lambda: len(outbox.dead()) == 19, 2, "the rest waits")
    assert health.metrics(relay).value("outbox_blocked_topics") == 1
    world.query("DELETE FROM counterfoil.outbox")
    waiting.until(lambda: health.metrics(relay).value("outbox_blocked_topics") == 0, 10,
                  "the topic to be open")
    outbox.world.query("DELETE FROM counterfoil.outbox_dead")
    outbox.judge(copies=False)


# --- what is behind a dead row --------------------------------------------------------------------

def test_skip(world: World, outbox: Rows):
    """relay.on_dead = skip: what is behind a dead row is published, and nothing parked."""
    outbox.write(20, key="key-", keys=2)
    large = outbox.write_large("key-")
    outbox.write(20, key="key-", keys=2)
    relay = outbox.relay(on_dead="skip").start()
    outbox.wait_dead([large], [])
    outbox.wait_empty()
    outbox.write(20, key="key-", keys=2)
    outbox.wait_empty()
    outbox.judge(copies=False, absent=outbox.events([large]))
    outbox.repair(large)
    outbox.settle("requeue", large)
    outbox.wait_empty()
    assert outbox.events([large]) <= {m.event_id for m in world.messages()}
    outbox.wait_counted(relay, 0, 0)


def test_a_row_that_is_put_back_as_it_was_dies_again(outbox: Rows):
    """R6: and what went back with it is parked again, nothing of the key is sent meanwhile; once it
    is repaired the key is published in order, with what was written meanwhile."""
    large = outbox.write_large("key-")
    behind = outbox.write(10, key="key-", keys=1)
    outbox.relay().start()
    for _ in range(3):
        outbox.wait_dead([large], behind)
        died_at = outbox.world.value(DIED_AT, (large,))
        behind += outbox.write(10, key="key-", keys=1)
        outbox.write(50, key="other-")
        outbox.settle("requeue", large)
        waiting.until(lambda: outbox.world.query(DIED_AT, (large,)) not in ([], [(died_at,)]), 10,
                      "it to die again")
    outbox.wait_dead([large], behind)
    outbox.wait_empty()
    outbox.judge(copies=False, absent=outbox.events([large, *behind]))
    outbox.repair(large)
    outbox.settle("requeue", large)
    outbox.wait_empty()
    outbox.judge(copies=False)
    outbox.again()


def test_two_dead_rows_of_a_key(outbox: Rows):
    """R6: what is behind the second one waits for it too, though the first one is settled."""
    outbox.write(3, key="key-", keys=1)
    first = outbox.write_large("key-")
    between = outbox.write(3, key="key-", keys=1)
    outbox.relay().start()
    outbox.wait_dead([first], between)
    second = outbox.write_large("key-")
    behind = outbox.write(3, key="key-", keys=1)
    outbox.wait_dead([first], between + [second] + behind)   # it waits, and is not judged yet
    outbox.repair(first)
    outbox.settle("requeue", first)
    outbox.wait_dead([second], behind)
    outbox.wait_empty()
    outbox.judge(copies=False, absent=outbox.events([second, *behind]))
    outbox.repair(second)
    outbox.settle("requeue", second)
    outbox.wait_empty()
    outbox.judge(copies=False)
    outbox.again()


def test_a_topic_that_is_blocked_and_has_dead_rows(make_world: Callable[..., World]):
    """R52, R6: the two troubles at once: nothing of the topic is lost or overtaken."""
    with Broker(programs.build_directory(), brokers=2) as broker:
        outbox = Rows(make_world(broker))
        world = outbox.world
        bad = f"{world.topic}-bad"
        broker.create_topic(bad)
        for partition in range(4):
            broker.set_leader(world.topic, partition, 1)
            broker.set_leader(bad, partition, -1)
        relay = outbox.relay(window_rows=800).start()
        large = outbox.write_large("key-", topic=bad)
        behind = outbox.write(5, key="key-", keys=1, topic=bad)
        outbox.wait_dead([large], behind)
        outbox.write(3000, key="others-", keys=50, topic=bad)
        relay.wait_for("topic blocked", topic=bad)
        outbox.repair(large)
        outbox.settle("requeue", large)
        later = outbox.write_large("later-", topic=bad)
        outbox.write(300)
        waiting.until(lambda: outbox.waiting(world.topic) == 0, 10, "the other topic to flow")
        for partition in range(4):
            broker.set_leader(bad, partition, 2)
        outbox.wait_dead([later], [])
        outbox.wait_empty()
        outbox.judge(absent=outbox.events([later]))


# --- putting back while all goes on ---------------------------------------------------------------

class Traffic:
    """Writers that take turns at a few keys, some rows being too large; and someone who repairs and
    puts back, or discards, whatever dies."""

    def __init__(self, outbox: Rows) -> None:
        self.outbox = outbox
        self.discarded: list[int] = []
        self.settled = 0
        self.done = threading.Event()
        self.pool = ThreadPoolExecutor(4)

    def write(self, seed: int) -> None:
        luck = random.Random(seed)
        with closing(self.outbox.world.connect()) as connection:
            while not self.done.wait(0.01):
                large = luck.random() < 0.06
                self.outbox.write_in(connection, 1, key=f"key-{luck.randrange(4)}-", keys=1,
                                     pad=LARGE if large else 10, lock=True)
                connection.commit()

    def settle(self) -> None:
        luck = random.Random(1)
        while not self.done.wait(0.05):
            self.settle_once(luck)

    def settle_once(self, luck: random.Random) -> None:
        for row in self.outbox.dead():
            if luck.random() < 0.25:
                self.discarded.append(row)
                self.outbox.settle("discard", row)
            else:
                self.outbox.repair(row)
                self.outbox.settle("requeue", row)
            self.settled += 1

    @contextmanager
    def flows(self) -> Iterator[None]:
        threads = [self.pool.submit(self.write, seed) for seed in range(3)]
        threads.append(self.pool.submit(self.settle))
        try:
            yield
        finally:
            self.done.set()
            for thread in threads:
                thread.result()
            self.pool.shutdown()

    def finish(self) -> None:
        """Until nothing waits and nothing is dead."""
        luck = random.Random(2)

        def clear() -> bool:
            self.settle_once(luck)
            return self.outbox.world.value("SELECT (SELECT count(*) FROM counterfoil.outbox) + "
                                           "(SELECT count(*) FROM counterfoil.outbox_dead)") == 0
        waiting.until(clear, 30, "all to be settled and published")


@pytest.mark.plain
def test_rows_are_put_back_while_writers_go_on(outbox: Rows):
    """R6: order holds in every key, whatever dies, is parked and put back or discarded, and whoever
    writes meanwhile; nothing is published twice."""
    traffic = Traffic(outbox)
    outbox.relay().start()
    with traffic.flows():
        waiting.until(lambda: traffic.settled >= 25, 40, "rows to die and to be settled")
    traffic.finish()
    outbox.judge(copies=False, absent=outbox.events(traffic.discarded))
    assert outbox.written() > 300


def test_rows_are_put_back_while_owners_die(outbox: Rows):
    """R6, R25: the same with owners that are killed in between: the next one knows the keys that
    wait; order holds in every key, and nothing is lost."""
    traffic = Traffic(outbox)
    relays = [outbox.relay(lease="1s").start() for _ in range(2)]
    with traffic.flows():
        for _ in range(3):
            seen = traffic.settled
            waiting.until(lambda: traffic.settled >= seen + 4, 30, "rows to die and to be settled")
            owner = next(relay for relay in relays if relay.name == outbox.world.value(
                "SELECT split_part(owner, '/', 1) FROM counterfoil.lease"))
            owner.kill()
            owner.start()
    traffic.finish()
    outbox.judge(absent=outbox.events(traffic.discarded))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_putting_back_in_a_long_transaction(outbox: Rows, end: str):
    """R6: nobody else waits for it: neither other keys, nor rows of its key; what dies meanwhile is
    moved afterwards, as what it is."""
    world = outbox.world
    large = outbox.write_large("key-")
    behind = outbox.write(5, key="key-", keys=1)
    outbox.relay(sweep="500ms").start()
    outbox.wait_dead([large], behind)
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute(REPAIR, {"ids": [large]})
        cursor.execute(SETTLE.format(action="requeue"), ([large],))
        late = outbox.write_large("late-")
        behind += outbox.write(5, key="key-", keys=1)
        for _ in range(70 if end == "rollback" else 20):     # for longer than patience lasts
            one = outbox.write(1, key="other-")
            waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.outbox "
                                              "WHERE id = ANY (%s)", (one,)) == 0, PROMPTLY,
                          "a new row", every=0.05)
        assert outbox.dead() == [large]
        getattr(session, end)()
    if end == "commit":
        outbox.wait_dead([late], [])
    else:
        outbox.wait_dead([large, late], behind)
    outbox.wait_empty()
    outbox.judge(copies=False, absent=outbox.events(outbox.dead() + outbox.parked()))


# --- another owner, and for how long --------------------------------------------------------------

@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_next_owner_knows_the_keys_that_wait(outbox: Rows, how: str):
    """R6: of a key with a dead row nothing is published by whoever comes after."""
    large = outbox.write_large("key-")
    behind = outbox.write(5, key="key-", keys=1)
    first, second = outbox.relay(lease="1s"), outbox.relay(lease="1s")
    first.start()
    outbox.wait_dead([large], behind)
    second.start().wait_for("standby")
    getattr(first, how)()
    behind += outbox.write(5, key="key-", keys=1)
    outbox.write(50, key="other-")
    second.wait_for("lease taken")
    outbox.wait_dead([large], behind)
    outbox.wait_empty()
    outbox.judge(absent=outbox.events([large, *behind]))
    outbox.repair(large)
    outbox.settle("requeue", large)
    outbox.wait_empty()
    outbox.judge()
    second.stop()


MOVES = """SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'
  AND application_name = %s AND query LIKE '%%outbox_dead%%'"""
WAITS = "dead rows are still being moved under an earlier lease, and wait for a lock"


@contextmanager
def is_moved(outbox: Rows, relay: Program, row: int) -> Iterator[None]:
    """The relay starts, and has a dead row moved until the block ends, for a person has locked it."""
    with closing(outbox.world.connect()) as person, person.cursor() as cursor:
        cursor.execute("SELECT FROM counterfoil.outbox WHERE id = %s FOR UPDATE", (row,))
        relay.start()
        moves = waiting.until(lambda: outbox.world.query(MOVES, (relay.name,)), 10,
                              "it to be moved")
        yield
        assert outbox.world.query(MOVES, (relay.name,)) == moves, "which nobody has ended"
        person.rollback()
    outbox.wait_dead([row])


def waits(outbox: Rows, owner: Program) -> None:
    """For that, and keeps its lease meanwhile."""
    rows = outbox.world.outbox()
    owner.wait_for("lease taken")
    taken = len(owner.said("lease taken"))
    waiting.holds(lambda: outbox.world.outbox() == rows and not outbox.world.messages(), 2.5,
                  "all to wait")
    assert len(owner.said("lease taken")) == taken


def test_a_dead_row_that_comes_late(outbox: Rows):
    """R6, R12: of an owner that is none any more a row is moved still. The next one waits for it:
    else it would not know of it, and what is behind it in its key would overtake it."""
    large = outbox.write_large("key-")
    first, second = outbox.relay(lease="2s"), outbox.relay(lease="2s")
    with closing(outbox.world.connect()) as session, session.cursor() as cursor:
        with is_moved(outbox, first, large):
            first.freeze()
            behind = outbox.write(5, key="key-", keys=1)
            outbox.write(5, key="other-")
            # after a death this is asked for before any row is: it does not see that one
            cursor.execute("LOCK TABLE counterfoil.suspect")
            second.start()
            waits(outbox, second)
        session.rollback()
    outbox.wait_dead([large], behind)
    outbox.wait_empty()
    outbox.judge(copies=False, absent=outbox.events([large, *behind]))
    assert second.said(WAITS)
    outbox.repair(large)
    outbox.settle("requeue", large)
    outbox.wait_empty()
    outbox.judge(copies=False)
    first.close()


def test_a_dead_row_that_a_lost_connection_brings(outbox: Rows, postgres: Postgres):
    """R6: the same of one owner, whose pooler died: the server does not know that nobody waits for
    its answer."""
    world = outbox.world
    large = outbox.write_large("key-")
    with Pgbouncer(postgres) as pool:
        conninfo = f"{pool.conninfo(world.database)} application_name=relay-1"
        relay = world.relay(conninfo=conninfo, lease="2s")
        relay.allow_errors(DEAD)
        with is_moved(outbox, relay, large):
            pool.kill()
            relay.wait_for("no database")
            behind = outbox.write(5, key="key-", keys=1)
            pool.start()
            relay.wait_for(WAITS)
            waits(outbox, relay)
        outbox.wait_dead([large], behind)
        outbox.wait_empty()
        assert world.messages() == []
        relay.stop()


def test_the_next_owner_does_not_wait_for_who_puts_rows_back(world: World, outbox: Rows):
    """R6: other keys flow meanwhile; his commit puts all in its order."""
    large = outbox.write_large("key-")
    behind = outbox.write(5, key="key-", keys=1)
    relay = outbox.relay().start()
    outbox.wait_dead([large], behind)
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute(REPAIR, {"ids": [large]})
        cursor.execute(SETTLE.format(action="requeue"), ([large],))
        relay.stop()
        relay.start()
        behind += outbox.write(5, key="key-", keys=1)
        outbox.write(5, key="other-")
        waiting.until(lambda: world.outbox() == 5, 10, "the other keys to flow")
        assert not relay.said(WAITS)
        session.commit()
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert outbox.dead() == outbox.parked() == []


def test_nothing_sweeps_dead_rows(outbox: Rows):
    """R59: however old they are and whatever expires: they are counted, they hold their key, and
    they go back when a person says so."""
    world = outbox.world
    large = outbox.write_large("key-")
    behind = outbox.write(5, key="key-", keys=1)
    relay = outbox.relay().start()
    outbox.wait_dead([large], behind)
    relay.stop()
    world.query("UPDATE counterfoil.outbox_dead SET died_at = died_at - interval '10 years', "
                "created_at = created_at - interval '10 years'")
    world.query("SELECT counterfoil.once('webhook', 'old-' || n, keep => '1 ms') "
                "FROM generate_series(1, 1200) n")
    relay.start()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.once") == 0, 10,
                  "what expires to expire")
    behind += outbox.write(5, key="key-", keys=1)
    outbox.wait_dead([large], behind)
    outbox.wait_counted(relay, 1, 10)
    outbox.repair(large)
    outbox.settle("requeue", large)
    outbox.wait_empty()
    outbox.judge(copies=False)


# --- many -----------------------------------------------------------------------------------------

def memory(program: Program) -> int:
    """Resident KiB; not known of a sanitizer, which keeps what was freed."""
    kib = int(Path(f"/proc/{program.pid}/status").read_text().split("VmRSS:")[1].split()[0])
    return 0 if programs.build_directory().name == "asan" else kib


@pytest.mark.plain
def test_thousands_die_at_once(outbox: Rows):
    """R57: the rows among them and behind them are delivered, and memory stays."""
    world = outbox.world
    relay = outbox.relay().start()
    outbox.write(2000, keys=200)
    outbox.wait_empty()
    before = memory(relay)
    with closing(world.connect()) as session:
        for n in range(10):
            outbox.write_in(session, 500, key=f"large-{n}-", keys=500, pad=LARGE)
            outbox.write_in(session, 200, key="key-", keys=200)
        session.commit()
    one = outbox.write(1, key="after-")
    waiting.until(lambda: outbox.world.value("SELECT count(*) FROM counterfoil.outbox "
                                             "WHERE id = ANY (%s)", (one,)) == 0, 15,
                  "the row behind them")
    outbox.wait_empty()
    outbox.wait_counted(relay, 5000, 0)
    assert len(outbox.dead()) == 5000 and len(relay.said(DEAD)) < 20
    assert memory(relay) - before < 8192
    outbox.judge(copies=False, absent=outbox.events(outbox.dead()))
