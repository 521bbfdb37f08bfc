"""The Kafka of the tests: librdkafka's mock cluster in a process of its own, and what a test does
with it as a client. A wrapper of another Kafka gives the same methods."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, Sequence

from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException,
                             Producer, TopicPartition)

from . import children

# No header without a value: this version of confluent_kafka frees None itself when it meets one.
Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class Message:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = field(default=())

    def header(self, name: str) -> str | None:
        """The last header of that name, as a consumer should read it."""
        for known, value in reversed(self.headers):
            if known == name:
                return value.decode()
        return None

    @property
    def event_id(self) -> str | None:
        return self.header("ce_id")

    def content(self) -> tuple[object, ...]:
        """All that must be the same when an event is published again."""
        return (self.topic, self.partition, self.key, self.value, self.headers)


def _message(raw: object) -> Message:
    return Message(raw.topic(), raw.partition(), raw.offset(), raw.key(), raw.value(),
                   tuple(raw.headers() or ()))


class Client:
    """Producing and reading, through the bootstrap address alone."""

    group_properties: Sequence[tuple[str, str]] = ()   # for the consumers of a group on this Kafka

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._producer: Producer | None = None

    def _consumer(self, **settings: object) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": "tests-reader",
                         "enable.auto.commit": False, "fetch.wait.max.ms": 20, "log_level": 2,
                         **settings})

    @staticmethod
    def _partitions(consumer: Consumer, topic: str) -> list[int]:
        """Asked by the consumer that is to read: it then knows the leaders and need not wait."""
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return sorted(known.partitions)

    def partitions(self, topic: str) -> list[int]:
        consumer = self._consumer()
        try:
            return self._partitions(consumer, topic)
        finally:
            consumer.close()

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        """Where each partition begins and ends."""
        consumer = self._consumer()
        try:
            return [consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
                    for partition in self._partitions(consumer, topic)]
        finally:
            consumer.close()

    def count(self, topic: str) -> int:
        """How many messages the topic holds."""
        return sum(high - low for low, high in self.bounds(topic))

    def consume_all(self, topic: str, timeout: float = 30) -> list[Message]:
        """Every message that stands in the topic now, by partition and offset."""
        consumer = self._consumer(**{"enable.partition.eof": True})
        try:
            open_ends = set(self._partitions(consumer, topic))
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in open_ends])
            messages: list[Message] = []
            while open_ends:
                raw = consumer.poll(timeout)
                if raw is None:
                    raise TimeoutError(f"topic {topic}: nothing for {timeout} s, "
                                       f"partitions {sorted(open_ends)} not read to their end")
                if raw.error() is None:
                    messages.append(_message(raw))
                elif raw.error().code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(raw.partition())
            return sorted(messages, key=lambda m: (m.partition, m.offset))
        finally:
            consumer.close()

    def produce(self, topic: str, value: bytes | None, key: bytes | None = None,
                headers: Headers = (), partition: int | None = None) -> None:
        """Hands one message over; `flush` waits for all of them."""
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5,
                                       "enable.idempotence": True, "log_level": 2})
        where = {} if partition is None else {"partition": partition}
        self._producer.produce(topic, value=value, key=key, headers=list(headers), **where)
        self._producer.poll(0)

    def flush(self, timeout: float = 30) -> None:
        if self._producer is not None and self._producer.flush(timeout):
            raise TimeoutError(f"{len(self._producer)} messages are not acknowledged")

    def publish_again(self, messages: Iterable[Message]) -> None:
        """The very same messages once more, each to its own partition."""
        for message in messages:
            self.produce(message.topic, message.value, message.key, message.headers,
                         message.partition)
        self.flush()


class Broker(Client):
    """The mock cluster. It ends with its stdin, so with us."""

    # Every rebalance of the mock lasts a session's time less a second, and a killed member costs
    # several; but the first one lasts 3 s, which a session must outlive. A fetch waits for its
    # whole time whatever arrives meanwhile.
    group_properties = (("session.timeout.ms", "3500"), ("heartbeat.interval.ms", "500"),
                        ("fetch.wait.max.ms", "50"))

    def __init__(self, build: str | Path | None = None, brokers: int = 1,
                 partitions: int = 4) -> None:
        build = build or os.environ.get("BUILD", "build")
        self.process = children.spawn(
            [f"{build}/tests/tools/mock-broker", "--brokers", str(brokers),
             "--partitions", str(partitions)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._lock = threading.Lock()
        word, _, bootstrap = self.process.stdout.readline().strip().partition(" ")
        if word != "bootstrap":
            raise RuntimeError("the mock broker did not start")
        super().__init__(bootstrap)

    def command(self, *words: object) -> None:
        """One command of mock-broker; an error it answers is raised."""
        with self._lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"mock-broker: {' '.join(map(str, words))}: {answer or 'gone'}")

    def create_topic(self, name: str, partitions: int = 4) -> None:
        self.command("topic", name, partitions)

    def down(self, broker: int = 1) -> None:
        self.command("down", broker)

    def up(self, broker: int = 1) -> None:
        self.command("up", broker)

    def fail_requests(self, api: int, times: int, error: int, broker: int = 0) -> None:
        """The next `times` requests of that Kafka API are answered with the error; 0 times: none
        any more. `broker`: those to that one, which no longer end before.

        The mock does not look at sequence numbers: after a Produce request that it failed it takes
        the next one that was under way, and the client, which trusts brokers to refuse that, counts
        the first as done. So fail all that are under way, or let the producer have one only
        (max.in.flight.requests.per.connection)."""
        if broker:
            self.command("errors-of", broker, api, times, error)
        else:
            self.command("errors", api, times, error)

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        self.command("leader", topic, partition, broker)

    def set_round_trip(self, milliseconds: int, broker: int = 1) -> None:
        self.command("rtt", broker, milliseconds)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections stay, and nothing comes."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.process.stdin.close()
        children.end(self.process)
        self.process.stdout.close()

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Follower(Client):
    """Reads a topic along, from its beginning, in a thread of its own; keeps what it read even
    when the broker drops it."""

    def __init__(self, bootstrap: str, topic: str, from_end: bool = False) -> None:
        super().__init__(bootstrap)
        self.messages: list[Message] = []
        self._stop = threading.Event()
        self._consumer_handle = self._consumer()
        start = OFFSET_END if from_end else OFFSET_BEGINNING
        self._consumer_handle.assign(
            [TopicPartition(topic, p, start)
             for p in self._partitions(self._consumer_handle, topic)])
        self._thread = threading.Thread(target=self._follow, name=f"follow {topic}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.is_set():
            raw = self._consumer_handle.poll(0.1)
            if raw is not None and raw.error() is None:
                self.messages.append(_message(raw))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer_handle.close()
