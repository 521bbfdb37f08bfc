"""The broker that users have: what the stand-in cannot show, or only claims.

One Apache Kafka for all tests, and a second one for those that stop, kill or freeze it. Where none
can be had, every test here is skipped, with the reason."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from tests.tools import programs, waiting
from tests.tools.broker import Message
from tests.tools.kafka import Kafka, Unavailable
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

from .intake import Sender, keys, positions
from .orders_to_intake import ordered

pytestmark = pytest.mark.plain

MakeWorld = Callable[..., World]
ORDER = b'{"order_id":%d,"customer_id":"c","total_cents":100}'
ORDER_PLACED = ("ce_type", b"order.placed")


# Everybody may do everything with what has no rules.
RULES = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
         "allow.everyone.if.no.acl.found": "true"}


@contextmanager
def a_kafka(**options: Any) -> Iterator[Kafka]:
    try:
        kafka = Kafka(**options)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with kafka:
        yield kafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """The common one."""
    with a_kafka(settings=RULES) as broker:
        yield broker


@pytest.fixture(scope="module")
def mortal() -> Iterator[Kafka]:
    """One that may be stopped, killed and frozen, and is left running."""
    with a_kafka() as broker:
        yield broker


def properties(kafka: Kafka, **more: str) -> dict[str, Any]:
    """Settings of a world: librdkafka's, with _ for the dots."""
    return {"kafka": {"properties": [("bootstrap.servers", kafka.bootstrap), *(
        (name.replace("_", "."), value) for name, value in more.items())]}}


# --- events of the outbox's writers, each one a charge --------------------------------------------

OF_EVENTS = {"on": {"type": "tested"}, "key": "event:${event_id}",
             "request": {"body": "amount=1&n=${/n}"}}


GENTLY = {"writers": 6, "rows": 1, "pause": 0.05}


def written(world: World) -> set[str]:
    return {f"event:{event}" for (event,) in world.query("SELECT event_id FROM public.written")}


def assert_each_charged_once(world: World) -> None:
    """Every event that was committed, and nothing else."""
    charges = world.provider.charges_by_key()
    assert set(charges) == written(world)
    assert world.duplicated() == {}
    assert world.states() == {"completed": len(charges)}


def progress(seen: Callable[[], int], more: int = 30) -> None:
    """Waits until so many more are there."""
    before = seen()
    waiting.until(lambda: seen() >= before + more, 30, f"{more} more than {before}")


# --- the whole way --------------------------------------------------------------------------------

def test_the_whole_way_from_orders_to_charges(kafka: Kafka, make_world: MakeWorld):
    """Two relays, two ledgers: each order is charged once, and again not when it comes again."""
    world = make_world(kafka)
    world.start(relays=2, ledgers=2)
    world.place(world.orders(300))
    world.wait_drained()
    assert (world.lost(), world.duplicated()) == ([], {})
    assert world.states() == {"completed": 300}
    assert kafka.count(world.topic) == 300
    world.run_twice()
    for program in world.programs:
        program.stop()


def test_a_broker_that_restarts_under_load(mortal: Kafka, make_world: MakeWorld):
    """R11, R2, R53: stopped and killed while events are written, sent, read and charged: no program
    ends, nothing is lost, sent twice, out of order or charged twice."""
    world = make_world(mortal, effect=OF_EVENTS)
    outbox = Outbox(world)
    programs = [outbox.relay(window_rows=800), world.ledger(), world.ledger()]
    for program in programs:
        program.start()
    pids = [program.pid for program in programs]
    with outbox.load(**GENTLY):
        for how in ("stop", "kill"):
            progress(lambda: len(world.provider.charges()))
            getattr(mortal, how)()
            progress(outbox.written)
            mortal.start()
        progress(lambda: len(world.provider.charges()))
    world.wait_drained()
    outbox.judge(copies=False)
    assert_each_charged_once(world)
    assert [program.pid for program in programs if program.running] == pids
    world.run_twice()
    for program in programs:
        program.stop()


def test_a_broker_that_hangs(mortal: Kafka, make_world: MakeWorld):
    """R10, R32: frozen with requests under way, longer than these wait for their answers: they are
    sent again, the broker knows them again, and no transaction is open meanwhile."""
    world = make_world(mortal, settings=properties(
        mortal, request_timeout_ms="1000", socket_timeout_ms="1000"))
    outbox = Outbox(world)
    relay = outbox.relay(window_rows=800).start()
    for _ in range(2):
        outbox.write(2000, keys=40)
        progress(lambda: -world.outbox(), 100)
        mortal.freeze()
        outbox.write(2000, keys=40)
        waiting.holds(lambda: relay.running and world.query(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s "
            "AND state LIKE 'idle in transaction%%' AND now() - xact_start > '500ms'",
            (relay.name,)) == [(0,)], 2.5, "it waits, without a transaction")
        mortal.thaw()
        outbox.wait_empty()
    outbox.judge(copies=False)
    assert not relay.said("the producer failed")


def cut_power(kafka: Kafka, topic: str) -> set[str]:
    """kill -9 of the broker, and the second half of each partition never reached the disk. The
    events that are gone."""
    before = {message.event_id for message in kafka.consume_all(topic)}
    partitions = kafka.partitions(topic)
    kafka.kill()
    for partition in partitions:
        batches = kafka.batches(topic, partition)
        cut = batches[len(batches) // 2]
        with open(cut.file, "r+b") as file:
            file.truncate(cut.at)
    kafka.start()
    return before - {message.event_id for message in kafka.consume_all(topic)}


def test_a_producer_that_the_broker_no_longer_believes(mortal: Kafka, make_world: MakeWorld):
    """R48: a broker that lost its tail meets sequence numbers out of order, which is the producer's
    death: another takes its place, and all that was not acknowledged before arrives, in order."""
    world = make_world(mortal)
    outbox = Outbox(world)
    relay = outbox.relay(window_rows=800).start()
    pid = relay.pid
    for _ in range(10):
        outbox.write(20, keys=40)
        outbox.wait_empty()
    gone = cut_power(mortal, world.topic)
    assert gone
    outbox.write(300, keys=40)
    outbox.wait_empty()
    said = relay.wait_for("the producer failed").fields["reason"]
    assert "sequence" in said.lower()
    assert relay.running and relay.pid == pid
    world.query("DELETE FROM public.written WHERE event_id = ANY (%s::uuid[])", (list(gone),))
    outbox.judge()
    outbox.again()


# --- producing ------------------------------------------------------------------------------------

def test_stopped_and_killed_under_load(kafka: Kafka, make_world: MakeWorld):
    """R56: after a clean stop nothing comes twice, after a kill nothing is missing."""
    outbox = Outbox(make_world(kafka))
    relay = outbox.relay(window_rows=800, lease="1s").start()
    with outbox.load():
        for _ in range(2):
            progress(outbox.written, 300)
            relay.stop()
            relay.start()
    outbox.wait_empty()
    outbox.judge(copies=False)
    with outbox.load():
        for _ in range(2):
            progress(outbox.written, 300)
            relay.kill()
            relay.start()
    outbox.wait_empty()
    outbox.judge()


@pytest.mark.parametrize("chosen, expected", [
    ({}, "lz4"), ({"compression_codec": "zstd"}, "zstd"), ({"compression_type": "gzip"}, "gzip"),
    ({"compression_codec": "snappy"}, "snappy"), ({"compression_codec": "none"}, "none")])
def test_batches_are_compressed(kafka: Kafka, make_world: MakeWorld, chosen: dict[str, str],
                                expected: str):
    """R50: by what the segment files say: lz4 unless the user chose."""
    world = make_world(kafka, settings=properties(kafka, **chosen))
    outbox = Outbox(world)
    outbox.write(200, pad=500)
    outbox.relay().start()
    outbox.wait_empty()
    outbox.judge(copies=False)
    codecs = {batch.codec for partition in kafka.partitions(world.topic)
              for batch in kafka.batches(world.topic, partition)}
    assert codecs == {expected}


def test_partitions_are_those_of_a_java_producer(kafka: Kafka, make_world: MakeWorld):
    """R51: the very Java client, with the same keys, chooses the same partitions."""
    keys = ["a", "abc", "order-1", "Grüße", "ключ", "鍵" * 40, "\u00a0", "🔑", "x" * 1000,
            *(f"customer-{n * 7919}" for n in range(300))]
    world = make_world(kafka, partitions=15)
    theirs = f"{world.topic}-java"
    kafka.create_topic(theirs, 15)
    subprocess.run(
        kafka.java("-Dfile.encoding=UTF-8", "org.apache.kafka.tools.ConsoleProducer",
                   "--bootstrap-server", kafka.bootstrap, "--topic", theirs,
                   "--property", "parse.key=true"),
        input="".join(f"{key}\tvalue\n" for key in keys).encode(), check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    outbox = Outbox(world)
    world.query("SELECT counterfoil.emit(topic => %s, type => 'tested', payload => 'value', "
                "ordering_key => k) FROM unnest(%s) k", (world.topic, keys))
    outbox.relay().start()
    outbox.wait_empty()
    ours = {message.header("ce_subject"): message.partition for message in world.messages()}
    java = {message.key.decode(): message.partition for message in world.messages(theirs)}
    assert set(java) == set(keys) and len(set(java.values())) == 15
    assert ours == java


DEAD = "row is dead: moved to outbox_dead"
REQUEUE = """SELECT result FROM counterfoil.outbox_requeue('counterfoil.outbox', %s,
  gen_random_uuid(), 'a test', '{}')"""


def dead_rows(world: World, parked: bool = False) -> list[int]:
    return [row for (row,) in world.query("SELECT row_id FROM counterfoil.outbox_dead "
                                          "WHERE parked = %s ORDER BY 1", (parked,))]


def requeue(world: World, rows: list[int]) -> None:
    assert {result for (result,) in world.query(REQUEUE, (rows,))} == {"done"}


def test_a_row_that_the_broker_finds_too_large(kafka: Kafka, make_world: MakeWorld):
    """R57, R6: the topic's own limit is lower than ours: of all the rows of its batch only that one
    dies, the others pass, but for those behind it in its key; when the limit is raised it is put
    back, and they pass in their order."""
    world = make_world(kafka)
    outbox = Outbox(world)
    kafka.configure_topic(world.topic, max__message__bytes="10000")
    world.settings = properties(kafka, compression_codec="none")
    outbox.write(150, key="before-", pad=300)
    outbox.write(1, key="large-", keys=1, pad=300)
    (large,) = outbox.write(1, key="large-", keys=1, pad=20_000)
    behind = outbox.write(5, key="large-", keys=1, pad=300)
    outbox.write(150, key="after-", pad=300)
    relay = outbox.relay()
    relay.allow_errors(DEAD)
    relay.start()
    waiting.until(lambda: world.outbox() == 0, 30, "all but the large one to pass")
    assert (dead_rows(world), dead_rows(world, parked=True)) == ([large], behind)
    reason = world.value("SELECT reason FROM counterfoil.outbox_dead WHERE NOT parked")
    assert "Message size too large" in reason and relay.said(DEAD)[0].fields["reason"] == reason
    kafka.configure_topic(world.topic)
    requeue(world, [large])
    outbox.wait_empty()
    outbox.judge()
    outbox.again()


def test_rows_that_the_broker_rejects_one_after_the_other(kafka: Kafka, make_world: MakeWorld):
    """Nineteen die, then it is the topic: it alone waits, and goes on when the trouble is over."""
    world = make_world(kafka)
    outbox = Outbox(world)
    bad = f"{world.topic}-bad"
    kafka.create_topic(bad, 2)
    kafka.configure_topic(bad, max__message__bytes="10000")
    world.settings = properties(kafka, compression_codec="none")
    outbox.write(25, keys=25, pad=20_000, topic=bad)
    outbox.write(100)
    relay = outbox.relay()
    relay.allow_errors(DEAD)
    relay.start()
    waiting.until(lambda: len(dead_rows(world)) == 19 and world.outbox() == 6, 30, "nineteen to die")
    outbox.write(500)
    waiting.until(lambda: world.outbox() == 6, 20, "the others to flow")
    waiting.holds(lambda: len(dead_rows(world)) == 19, 2, "nobody else dies")
    kafka.configure_topic(bad)
    waiting.until(lambda: world.outbox() == 0, 40, "the topic to go on")
    requeue(world, dead_rows(world))
    outbox.wait_empty()
    outbox.judge()


# --- topics in trouble ----------------------------------------------------------------------------

def assert_others_flow(outbox: Outbox, but: str) -> None:
    for _ in range(3):
        outbox.write(500)
        waiting.until(lambda: outbox.waiting(outbox.world.topic) == 0, 20, "the others to pass")
    assert outbox.waiting(but) > 0
    assert outbox.world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 0


def test_a_topic_that_is_missing(kafka: Kafka, make_world: MakeWorld):
    """R52: its rows wait, those of others do not; when it is there they follow, in order."""
    world = make_world(kafka)
    outbox = Outbox(world)
    missing = f"{world.topic}-missing"
    relay = outbox.relay().start()
    outbox.write(50, topic=missing)
    with outbox.load(topics=[None, missing], pause=0.05):
        relay.wait_for("topic blocked", topic=missing)
        assert_others_flow(outbox, missing)
        kafka.create_topic(missing, 2)
        relay.wait_for("topic open again", timeout=40, topic=missing)
    outbox.wait_empty()
    outbox.judge(copies=False)
    outbox.again()


@pytest.mark.parametrize("operation", ["Write", "All"])
def test_a_topic_that_is_not_for_us(kafka: Kafka, make_world: MakeWorld, operation: str):
    """R52: denied, to be written to or at all: the topic waits, all others flow, and no row is
    blamed; when it is allowed its rows follow, in order."""
    world = make_world(kafka, settings=properties(kafka, topic_metadata_refresh_interval_ms="1000"))
    outbox = Outbox(world)
    denied = f"{world.topic}-denied"
    kafka.create_topic(denied, 2)
    who = ("User:ANONYMOUS", "--topic", denied)
    kafka.acl("add", "--deny-principal", *who, "--operation", operation)
    if operation != "All":      # a topic with rules is for those who have one
        kafka.acl("add", "--allow-principal", *who, "--operation", "All")
    relay = outbox.relay().start()
    outbox.write(50, topic=denied)
    outbox.write(50)
    line = relay.wait_for("topic blocked", topic=denied)
    assert "authorization failed" in line.fields["reason"]
    assert_others_flow(outbox, denied)
    outbox.write(50, topic=denied)
    kafka.acl("remove", "--deny-principal", *who, "--operation", operation)
    relay.wait_for("topic open again", timeout=40, topic=denied)
    outbox.wait_empty()
    outbox.judge()


# --- partitions and topics that come and go -------------------------------------------------------

def judge_moved_keys(outbox: Outbox, copies: bool) -> None:
    """Everything arrived, once unless there may be copies; a key that moved has all its earlier rows
    where it was before, all its later ones where it is now, each in order."""
    rows = dict(outbox.world.query("SELECT event_id::text, id FROM public.written"))
    messages = outbox.world.messages()
    first = {message.event_id: message for message in reversed(messages)}
    assert first.keys() == rows.keys()
    assert copies or len(messages) == len(first)
    places: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for message in reversed(first.values()):
        places[message.header("ce_subject")][message.partition].append(rows[message.event_id])
    assert any(len(partitions) == 2 for partitions in places.values())
    for key, partitions in places.items():
        assert len(partitions) <= 2, f"{key} in {sorted(partitions)}"
        joined = [row for there in sorted(partitions.values()) for row in there]
        assert joined == sorted(joined), f"{key} out of order: {dict(partitions)}"


def test_partitions_that_are_added_under_load(kafka: Kafka, make_world: MakeWorld):
    """R55: keys move and keep their order; the ledger reads the new partitions from their beginning,
    though it learns of them when much stands there already."""
    world = make_world(kafka, partitions=12, effect=OF_EVENTS,
                       settings=properties(kafka, topic_metadata_refresh_interval_ms="1000"))
    outbox = Outbox(world)
    relay, ledger = outbox.relay(window_rows=800).start(), world.ledger().start()
    with outbox.load(**GENTLY):
        progress(lambda: len(world.provider.charges()), 60)
        ledger.freeze()
        kafka.add_partitions(world.topic, 24)
        outbox.write(3000, keys=200)
        line = relay.wait_for("the topic's number of partitions changed")
        assert (line.level, line.fields["before"], line.fields["now"]) == ("warn", "12", "24")
        said = [line.msg for line in relay.log()
                if line.fields.get("topic") == world.topic]    # it drains first
        assert "topic blocked" in said[0] and "keys move" in said[1], said
        relay.wait_for("topic open again")
        waiting.until(lambda: sum(high for _, high in kafka.bounds(world.topic)[12:]) >= 20, 20,
                      "events in the new partitions")
        ledger.thaw()
        ledger.wait_for("partitions assigned", count=24)
        progress(lambda: len(world.provider.charges()), 60)
    world.wait_drained()
    # what it had to drop while the topic was blocked may have been on its way already
    judge_moved_keys(outbox, any("will be sent again" in line.msg for line in relay.log()))
    assert_each_charged_once(world)
    world.run_twice()


def test_a_topic_that_is_made_anew(kafka: Kafka, make_world: MakeWorld):
    """Deleted under load and made again: the rows wait, the positions are behind its end: an alarm,
    and it is read from its beginning."""
    world = make_world(kafka, effect=OF_EVENTS,
                       settings=properties(kafka, topic_metadata_refresh_interval_ms="500"))
    outbox = Outbox(world)
    relay, ledger = outbox.relay(sweep="500ms").start(), world.ledger().start()
    outbox.write(400, keys=50)
    world.wait_drained()
    kafka.delete_topic(world.topic)
    outbox.write(40, keys=50)
    ledger.wait_for("partitions revoked")
    kafka.create_topic(world.topic, 4)
    outbox.wait_empty()
    waiting.until(lambda: len(world.provider.charges()) == 440, 30, "the new events' charges")
    ledger.wait_for("position out of range", meaning="the topic was made anew, or has lost its end")
    world.wait_drained()
    assert_each_charged_once(world)
    relay.stop()
    relay.start()
    world.run_twice()
    relay.stop()
    ledger.stop(timeout=15)


# --- consuming ------------------------------------------------------------------------------------

class Offsets:
    """Looks at a group's committed offsets all the time, until the block ends."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        self.kafka = kafka
        self.group = group
        self.topic = topic
        self.last: list[int] = []
        self.looks = 0
        self.went_back: list[tuple[list[int], list[int]]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            try:
                now = self.kafka.committed(self.group, self.topic)
            except KafkaException:
                continue
            if any(new < old for new, old in zip(now, self.last)):
                self.went_back.append((self.last, now))
            self.last = now
            self.looks += 1

    def wait_shown(self) -> None:
        """Until all that stands in the topic is committed."""
        waiting.until(lambda: self.last == [high for _, high in self.kafka.bounds(self.topic)], 20,
                      "the last offsets to be committed")

    def __enter__(self) -> "Offsets":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def take_over(world: World, ledgers: list[Program], away: Program) -> None:
    """Waits until the others have all partitions."""
    others = [ledger for ledger in ledgers if ledger is not away and ledger.running]

    def assigned() -> int:
        return sum(int(ledger.said("partitions assigned")[-1].fields["count"]) for ledger in others)
    waiting.until(lambda: assigned() == 4, 20, "the others to have all partitions")
    progress(lambda: len(world.provider.charges()))


def test_ledgers_that_join_and_leave_under_load(kafka: Kafka, make_world: MakeWorld):
    """L49, L51: one joins, leaves, is killed, is frozen until it is thrown out and wakes: no offset
    that was committed goes back, no event is missing, none is charged twice."""
    world = make_world(kafka, effect=OF_EVENTS, settings={"ledger": {"lease": "1s"}})
    outbox = Outbox(world)
    outbox.relay().start()
    ledgers = [world.ledger(), world.ledger()]
    first, second = ledgers
    first.start()
    with Offsets(kafka, f"{world.topic}-ledger", world.topic) as offsets:
        with outbox.load(**GENTLY):
            for leave in (second.stop, second.kill, second.freeze):
                second.start()
                progress(lambda: len(world.provider.charges()))
                leave()
                take_over(world, ledgers, second)
            second.thaw()
            progress(lambda: len(world.provider.charges()), 100)
        world.wait_drained()
        offsets.wait_shown()
    assert offsets.looks > 20 and offsets.went_back == []
    outbox.judge()
    assert_each_charged_once(world)
    assert second.running
    world.run_twice()


def test_a_ledger_that_hangs_in_its_transaction(kafka: Kafka, make_world: MakeWorld):
    """L49: thrown out of the group between its first statement and its commit: the locks that it
    holds on its positions are given back within seconds, whether it wakes or not; the other goes on
    where it was, and no offset that was committed goes back."""
    world = make_world(kafka)
    hangs, other = world.ledger().start(), world.ledger()
    sender = Sender(world)
    for partition in range(4):
        sender.order(partition, partition=partition)
    sender.drain()
    with Offsets(kafka, f"{world.topic}-ledger", world.topic) as offsets:
        with closing(world.connect()) as session:
            session.cursor().execute("LOCK TABLE counterfoil.unmatched IN EXCLUSIVE MODE")
            sender.send(b"{}", "nobody.asked")
            sender.order(4)
            sender.flush()
            waiting.until(lambda: world.value(
                "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = "
                "'counterfoil.unmatched'::regclass"), 20, "its transaction to be under way")
            hangs.freeze()
        other.start()
        sender.order(5)
        sender.flush()
        waiting.until(lambda: world.state("order:5:charge") == "completed", 40, "the other to go on")
        hangs.thaw()
        hangs.wait_for("database away", part="intake")
        sender.drain()
        offsets.wait_shown()
    assert offsets.went_back == []
    assert world.provider.charges_by_key() == {f"order:{n}:charge": 1 for n in range(6)}
    world.run_twice()


NOON = int(time.time() - 3600) * 1000     # a time in ms, and as ledger.start says it
NOON_TEXT = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON / 1000))


@pytest.mark.parametrize("start, performed", [
    ("latest", set()), (NOON_TEXT, {2, 3, 6, 7}), ("earliest", set(range(1, 8)))],
    ids=["latest", "time", "earliest"])
def test_where_a_topic_begins(kafka: Kafka, make_world: MakeWorld, start: str, performed: set[int]):
    """ledger.start: of what stands in the topic all, nothing, or what is not older; of what comes
    afterwards all, in every partition."""
    world = make_world(kafka, partitions=5, settings={"ledger": {"start": start}})
    history = [      # order, partition, minutes from noon; one partition is empty
        (1, 0, -2), (2, 0, 0), (3, 0, 1), (4, 1, -2), (5, 1, -1), (6, 2, 1), (7, 3, 3)]
    for order, partition, minutes in history:
        kafka.produce_at(world.topic, NOON + minutes * 60_000, ORDER % order, partition,
                         [ORDER_PLACED])
    ledger = world.ledger().start()
    begun = world.query("SELECT partition, next_offset FROM counterfoil.intake_position")
    assert len(begun) == 5
    new = range(11, 16)
    for order in new:
        kafka.produce_at(world.topic, NOON + 600_000, ORDER % order, order % 5, [ORDER_PLACED])
    world.wait_drained()
    expected = {f"order:{order}:charge": 1 for order in performed | set(new)}
    assert world.provider.charges_by_key() == expected
    before = {**world.effects_seen(), **world.records_seen()}
    ledger.stop(timeout=15)
    for partition, offset in begun:
        world.query("UPDATE counterfoil.intake_position SET next_offset = %s WHERE partition = %s",
                    (offset, partition))
    ledger.start()
    world.wait_drained()
    assert {**world.effects_seen(), **world.records_seen()} == before
    assert ledger.said("topic begun") == []


def test_messages_that_expired_before_they_were_read(kafka: Kafka, make_world: MakeWorld):
    """Retention is faster than the ledger: an alarm that says so, and it goes on with what is
    there."""
    world = make_world(kafka, partitions=2)
    world.start(relays=1, ledgers=1)
    (ledger,) = world.ledgers
    world.place(world.orders(40))
    world.wait_drained()
    ledger.stop(timeout=15)
    world.place(world.orders(40, first=41))
    waiting.until(lambda: world.outbox() == 0, 20, "all to be published")
    kafka.expire(world.topic)
    world.place(world.orders(40, first=81))
    waiting.until(lambda: world.outbox() == 0, 20, "all to be published")
    ledger.start()
    waiting.until(lambda: len(world.provider.charges()) == 80, 30, "what is there to be charged")
    world.wait_drained()
    ledger.wait_for("position out of range",
                    meaning="messages were deleted before they were read")
    assert world.lost() == list(range(41, 81)) and world.duplicated() == {}
    world.run_twice()


def test_transactions_of_another_producer(kafka: Kafka, make_world: MakeWorld):
    """What was aborted is not performed, what was committed is, and the marks of transactions,
    which take offsets, are no messages that are missing."""
    world = make_world(kafka)
    ledger = world.ledger().start()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2,
                         "transactional.id": world.topic})
    producer.init_transactions(30)
    for n, end in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        for order in range(n * 20, n * 20 + 20):
            producer.produce(world.topic, ORDER % order, partition=order % 4,
                             headers=[ORDER_PLACED, ("ce_id", b"event-%d" % order)])
        producer.flush(30)
        end(30)
    committed = {f"order:{order}:charge" for n in (0, 2, 4) for order in range(n * 20, n * 20 + 20)}
    waiting.until(lambda: world.states() == {"completed": 60}, 30, "the committed to be charged")
    assert world.provider.charges_by_key() == dict.fromkeys(committed, 1)
    before = {**world.effects_seen(), **world.records_seen()}
    world.rewind()
    kafka.produce_at(world.topic, int(time.time() * 1000), ORDER % 1000, 3, [ORDER_PLACED])
    waiting.until(lambda: world.state("order:1000:charge") == "completed", 30, "what came last")
    after = {**world.effects_seen(), **world.records_seen()}
    assert world.provider.charges_by_key() == dict.fromkeys([*committed, "order:1000:charge"], 1)
    assert after["effects"][:60] == before["effects"] and after["states"][:60] == before["states"]
    assert not ledger.said("position out of range")


# --- from where on, and how much at once -------------------------------------------------------------

def test_a_topic_that_is_made_later_begins_at_its_beginning(kafka: Kafka, make_world: MakeWorld):
    """With ledger.start = latest: of what was there nothing is performed, of a topic that was not
    there yet all, also what was sent before the ledger had a partition of it."""
    world = make_world(kafka, settings={**properties(kafka, topic_metadata_refresh_interval_ms="1000"),
                                        "ledger": {"start": "latest"}})
    later = f"{world.topic}-later"
    world.effects.append({**world.effects[0], "name": "later", "key": "later:${/order_id}",
                          "on": {"topic": later, "type": "order.placed"}})
    now = int(time.time() * 1000)
    kafka.produce_at(world.topic, now, ORDER % 1, 0, [ORDER_PLACED])
    ledger = world.ledger().start()
    ledger.wait_for("topic not there yet", topic=later)
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.topic_awaited") == 1, 10,
                  "it to be noted")
    ledger.freeze()                           # so that it is not there while the topic begins
    kafka.create_topic(later, 2)
    for n in range(10):
        kafka.produce_at(later, now, ORDER % n, n % 2, [ORDER_PLACED])
    ledger.thaw()
    kafka.produce_at(world.topic, now, ORDER % 2, 0, [ORDER_PLACED])
    waiting.until(lambda: len(keys(world)) == 11, 40, "all of it")
    assert set(keys(world)) == {"order:2:charge", *(f"later:{n}" for n in range(10))}
    assert not world.value("SELECT count(*) FROM counterfoil.topic_awaited")
    assert world.query("SELECT partition, since FROM counterfoil.reach WHERE topic = %s AND "
                       "partition = 0", (world.topic,)) == [(0, 1)], "what is before is not known"
    world.wait_drained()
    assert ordered(world, "redeliver", "--topic", world.topic, "--from", "2020-01-01T00:00:00Z",
                   "--apply") == "1 event read again: 1 duplicate, 0 new"


def test_a_time_is_asked_of_the_brokers(kafka: Kafka, make_world: MakeWorld):
    """From a time on, up to a time, and back to a time."""
    world = make_world(kafka, partitions=2)
    world.ledger().start()
    for n in range(20):
        kafka.produce_at(world.topic, NOON + n * 60_000, ORDER % n, n % 2, [ORDER_PLACED])
    world.wait_drained()
    before, seen = positions(world), world.effects_seen()

    def minute(n: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON / 1000 + n * 60))
    assert ordered(world, "redeliver", "--topic", world.topic, "--from", minute(5)).startswith(
        "15 events read again: 15 duplicates, 0 new")
    assert ordered(world, "redeliver", "--topic", world.topic, "--from", minute(5), "--to",
                   minute(9)).startswith("4 events read again: 4 duplicates, 0 new")
    assert ordered(world, "rewind", world.topic, "--to", minute(16)) == \
        "2 partitions went back, by 4 offsets in sum"
    waiting.until(lambda: positions(world) == before, 20, "all to be read again")
    world.wait_drained()
    assert world.effects_seen() == seen


def highest(pid: int) -> int:
    """MiB of memory that it had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def test_large_messages_fill_a_batch_by_their_size(kafka: Kafka, make_world: MakeWorld):
    """Forty that wait, of nine tenths of a megabyte each, with three effects: batches are bounded in
    bytes, and so is what the ledger takes."""
    world = make_world(kafka, partitions=2, effect={"delay": "1h"})
    for name in ("second", "third"):
        world.effects.append({**world.effects[0], "name": name, "key": f"{name}:${{/order_id}}"})
    filling = b"x" * 900_000
    for n in range(40):
        kafka.produce_at(world.topic, int(time.time() * 1000),
                         b'{"order_id": %d, "customer_id": "c", "total_cents": 1, "filling": "%s"}'
                         % (n, filling), n % 2, [ORDER_PLACED])
    ledger = world.ledger().start()
    waiting.until(lambda: len(keys(world)) == 120, 60, "all to be taken in")
    most = highest(ledger.pid)
    assert programs.sanitized() or most < 160, f"{most} MiB"
