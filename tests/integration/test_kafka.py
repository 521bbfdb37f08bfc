"""The broker that users have: what the stand-in cannot show of a relay, or only claims.

One Apache Kafka for all tests, and a second one for those that stop, kill or freeze it."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from typing import Iterator

import pytest

from tests.tools import waiting
from tests.tools.broker import Message
from tests.tools.kafka import Kafka
from tests.tools.outbox import Outbox
from tests.tools.world import World

from .intake import keys
from .real_kafka import (GENTLY, OF_EVENTS, MakeWorld, a_kafka, assert_each_charged_once,  # noqa: F401
                         kafka, progress, properties, written)

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def mortal() -> Iterator[Kafka]:
    """One that may be stopped, killed and frozen, and is left running."""
    with a_kafka() as broker:
        yield broker


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
