"""A steady trickle of orders, 600 a second, and none at all.

relay_latency: from the moment at which a writer heard that its transaction is committed to the one
at which a consumer on this machine, which waits for it, holds the message. This stands for the
acknowledgement: a real Kafka with one replica acknowledges a batch and gives it to consumers at the
same moment, when it is in the log, and to both it is one hop; the consumer, whose last fetch may be
under way just then, is the slower one, so what is shown is an upper bound. How much of it lies
behind the append is shown as well, by the broker's own time of it (in whole milliseconds, so on the
average half of one is taken off). The stand-in lets a consumer wait: nothing is measured on it.

relay_cpu: what that costs of the processor. relay_idle: when nobody writes."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from statistics import mean, quantiles

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.tools import children, waiting
from tests.tools.broker import Client
from tests.tools.programs import build_directory

from .machine import Usage
from .setting import Size
from .stage import Make, Relay, Rival, Stage
from .table import Figure

RATE, WRITERS = 600, 4
SECONDS, WARM_UP = 30, 5
FIRST = 1_000_000   # order that counts
IDLE_SECONDS, SETTLE = 20, 2
NUMBER_AT = len('{"order_id":')


def number_of(payload: bytes) -> int:
    """Of an order."""
    return int(payload[NUMBER_AT:payload.index(b",")])


class Reader:
    """Reads a topic along in a thread of its own and notes when it got each order."""

    def __init__(self, broker: Client, topic: str) -> None:
        self.received: dict[int, tuple[float, float]] = {}   # order: when, and when appended
        self._consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench",
                                   "enable.auto.commit": False, "log_level": 2})
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)
                               for partition in broker.partitions(topic)])
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._done.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now, appended = time.time(), message.timestamp()[1] / 1000 + 0.0005
            self.received.setdefault(number_of(message.value()), (now, appended))

    def close(self) -> None:
        self._done.set()
        self._thread.join()
        self._consumer.close()


@dataclass(frozen=True)
class Trickle:
    events: int
    milliseconds: list[float]   # of each event
    behind_append: float        # of those, on the average
    usage: Usage

    def percentile(self, part: int) -> float:
        return quantiles(self.milliseconds, n=100)[part - 1]

    def processor(self, name: str) -> float:
        """Seconds for a million."""
        return 1e6 * self.usage.processor[name] / self.events


def _commits(stage: Stage, topic: str, first: int, seconds: float) -> dict[int, float]:
    """Runs the writers, from order `first` on; when each was committed."""
    command = [str(build_directory() / "tests/bench/write-orders"), stage.conninfo, topic,
               str(first), str(WRITERS), str(seconds), str(RATE)]
    writers = children.spawn(command, stdout=subprocess.PIPE, text=True)
    lines = writers.communicate(timeout=seconds + 60)[0].splitlines()
    assert writers.returncode == 0, "the writers have failed"
    return {int(order): int(at) / 1e6 for order, at in map(str.split, lines)}


def trickle(stage: Stage, make: Make, seconds: float) -> Trickle:
    topic = stage.new_topic(config={"message.timestamp.type": "LogAppendTime"})
    stage.backlog.fill(topic, 1)
    with closing(make(stage)) as player, closing(Reader(stage.broker, topic)) as reader:
        player.start()
        stage.wait_empty()
        waiting.until(lambda: reader.received, 30, "the first order to be read")
        _commits(stage, topic, 1, WARM_UP)
        meter = stage.meter(player)
        committed = _commits(stage, topic, FIRST, seconds)
        usage = meter.read(time.time())
        waiting.until(lambda: committed.keys() <= reader.received.keys(), 30,
                      "every order to be read")
        player.stop()
    received = reader.received
    return Trickle(len(committed),
                   [1000 * (received[order][0] - at) for order, at in committed.items()],
                   mean(1000 * (received[order][0] - received[order][1]) for order in committed),
                   usage)


def _follower(stage: Stage) -> Rival:
    return Rival(stage, follow=True)


def measure_latency(stage: Stage, size: Size) -> list[Figure]:
    seconds = size.seconds(SECONDS)
    relay, rival = trickle(stage, Relay, seconds), trickle(stage, _follower, seconds)
    name, pace = stage.name, f"{RATE}/s"
    return [
        *(Figure(f"relay_latency {name}: p{part}", relay.percentile(part), "ms",
                 rival.percentile(part), cost=True) for part in (50, 99)),
        Figure(f"relay_latency {name}: behind the append", relay.behind_append, "ms",
               rival.behind_append, cost=True),
        Figure(f"relay_latency {name}: orders", relay.events / seconds, "orders/s", RATE),
        Figure(f"relay_latency {name}: others had", 100 * relay.usage.others, "% of machine"),
        Figure(f"relay_cpu {name}: {pace}", relay.processor("relay"), "s/million",
               rival.processor("rival"), cost=True),
        Figure(f"relay_cpu {name}: {pace}, postgres", relay.processor("postgres"), "s/million",
               rival.processor("postgres"), cost=True),
    ]


def measure_idle(stage: Stage, size: Size) -> list[Figure]:
    seconds = size.seconds(IDLE_SECONDS)
    topic = stage.new_topic()
    stage.backlog.fill(topic, 1)
    with closing(Relay(stage)) as relay:
        relay.start()
        stage.wait_empty()
        time.sleep(size.seconds(SETTLE))
        meter = stage.meter(relay)
        time.sleep(seconds)
        usage = meter.read(time.time())
        relay.stop()
    return [Figure(f"relay_idle {stage.name}", 100 * usage.processor["relay"] / usage.seconds,
                   "% of a core"),
            Figure(f"relay_idle {stage.name}: postgres",
                   100 * usage.processor["postgres"] / usage.seconds, "% of a core")]
