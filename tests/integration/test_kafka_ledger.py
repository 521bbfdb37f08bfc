"""The broker that users have, and a ledger that reads from it."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from tests.tools import programs, waiting
from tests.tools.kafka import Kafka
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

from .intake import Sender, keys, positions
from .orders_to_intake import ordered
from .real_kafka import (GENTLY, OF_EVENTS, MakeWorld, assert_each_charged_once,  # noqa: F401
                         kafka, progress, properties)

pytestmark = pytest.mark.plain

ORDER = b'{"order_id":%d,"customer_id":"c","total_cents":100}'
ORDER_PLACED = ("ce_type", b"order.placed")


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
