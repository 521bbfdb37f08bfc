"""Where intake goes on: topics that come later, calls that are longer than the group's patience, and
messages that are large."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

from tests.tools import programs, waiting
from tests.tools.kafka import Kafka
from tests.tools.world import World

from .intake import ORDER, Sender, keys
from .test_kafka import ORDER_PLACED, kafka, properties                        # noqa: F401

MakeWorld = Callable[..., World]


def test_a_topic_that_is_made_later_begins_at_its_beginning(kafka: Kafka, make_world: MakeWorld):  # noqa: F811
    """With ledger.start = latest: of what was there nothing is performed, of a topic that was not
    there yet all, also what was sent before the ledger had a partition of it."""
    world = make_world(kafka, settings={**properties(kafka, topic_metadata_refresh_interval_ms="1000"),
                                        "ledger": {"start": "latest"}})
    later = f"{world.topic}-later"
    world.effects.append({**world.effects[0], "name": "later", "key": "later:${/order_id}",
                          "on": {"topic": later, "type": "order.placed"}})
    now = int(time.time() * 1000)
    kafka.produce_at(world.topic, now, ORDER % b"1", 0, [ORDER_PLACED])
    ledger = world.ledger().start()
    ledger.wait_for("topic not there yet", topic=later)
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.topic_awaited") == 1, 10,
                  "it to be noted")
    ledger.freeze()                           # so that it is not there while the topic begins
    kafka.create_topic(later, 2)
    for n in range(10):
        kafka.produce_at(later, now, ORDER % b"%d" % n, n % 2, [ORDER_PLACED])
    ledger.thaw()
    kafka.produce_at(world.topic, now, ORDER % b"2", 0, [ORDER_PLACED])
    waiting.until(lambda: len(keys(world)) == 11, 40, "all of it")
    assert set(keys(world)) == {"order:2:charge", *(f"later:{n}" for n in range(10))}
    assert not world.value("SELECT count(*) FROM counterfoil.topic_awaited")
    assert world.query("SELECT partition, since FROM counterfoil.reach WHERE topic = %s AND "
                       "partition = 0", (world.topic,)) == [(0, 1)], "what is before is not known"
    world.wait_drained()


def test_a_call_longer_than_the_groups_patience(make_world: MakeWorld):
    """L48: calls hold up no poll, so there is no rebalance, and what comes meanwhile is taken in."""
    world = make_world(target={"timeout": "10s"})
    world.settings = {"kafka": {"properties": [
        ("bootstrap.servers", world.broker.bootstrap), ("max.poll.interval.ms", "3500")]}}
    world.provider.fault("pass", delay_answer=5, times=1)
    ledger = world.ledger().start()
    sender = Sender(world)
    sender.order("slow")
    sender.flush()
    waiting.until(lambda: world.state("order:slow:charge") == "in_flight", 10, "the call")
    for n in range(10):
        sender.order(n)
    sender.drain()
    assert world.states() == {"completed": 11} and world.duplicated() == {}
    assert len(ledger.said("partitions assigned")) == 1 and not ledger.said("partitions revoked")
    assert len(world.provider.requests()) == 11


def highest(pid: int) -> int:
    """MiB of memory that it had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def test_large_messages_fill_a_batch_by_their_size(kafka: Kafka, make_world: MakeWorld):     # noqa: F811
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
