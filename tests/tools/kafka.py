"""A real Apache Kafka for the tests: one process in KRaft mode, in a temporary directory, on free
ports of the loopback interface, with the methods of the stand-in in broker.py and a few that only
the real one has.

`python3 -m tests.tools.kafka` starts one by hand, prints its bootstrap address and ends with its
stdin."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from . import children, waiting
from .broker import Client

FETCH = Path(__file__).with_name("fetch-kafka")
START_TIMEOUT = 60
CLUSTER = "Y291bnRlcmZvaWwtdGVzdA"   # 16 bytes in base 64
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
BATCH_HEADER = struct.Struct(">qiibIH")   # base offset, length, epoch, magic, checksum, attributes

# One broker of one node; everything that waits waits as short as may be.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",   # so long a killed one is waited for
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "1000",
}
LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
"""


class Unavailable(Exception):
    """There is no Kafka to be had here; the text says why."""


def fetch() -> str:
    """The class path of a Kafka, downloaded when it is not there."""
    done = subprocess.run([str(FETCH)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or ["no Kafka"])[-1])
    return f"{done.stdout.strip()}/*"


def free_ports(count: int) -> list[int]:
    """Below those that the kernel gives to clients: nobody takes them while the broker is down."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


@dataclass(frozen=True)
class Batch:
    """The head of one batch in a segment file."""

    file: Path
    at: int
    size: int
    offset: int
    codec: str


class Kafka(Client):
    """The broker. It ends with us."""

    group_properties = (("session.timeout.ms", "2000"), ("heartbeat.interval.ms", "300"),
                        ("fetch.wait.max.ms", "50"))

    def __init__(self, settings: dict[str, str] | None = None, quick: bool = True,
                 listener: str = "") -> None:
        """`quick`: soon there, in exchange for speed later. `listener`: one more, with its port."""
        self.class_path = fetch()
        self.version = Path(self.class_path).parent.name.removeprefix("kafka-")
        self.java_options = QUICK if quick else ()
        self.home = Path(tempfile.mkdtemp(prefix="counterfoil-kafka."))
        self.log = self.home / "kafka.log"
        self.logs = self.home / "logs"
        self.process: subprocess.Popen[bytes] | None = None
        self.port, controller = free_ports(2)
        super().__init__(f"127.0.0.1:{self.port}")
        self._admin: AdminClient | None = None
        self._write("log4j2.properties", LOGGING)
        self._write("server.properties", "".join(f"{name}={value}\n" for name, value in {
            **SETTINGS,
            "listeners": ",".join(filter(None, (
                f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://127.0.0.1:{controller}",
                listener))),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.logs), **(settings or {})}.items()))
        try:
            self._format()
            self.start()
        except BaseException:
            self.close()
            raise

    # --- life -------------------------------------------------------------------------------------

    def _write(self, name: str, text: str) -> None:
        (self.home / name).write_text(text)

    def java(self, *arguments: str) -> list[str]:
        """The command that runs one of Kafka's classes."""
        return ["java", "-Xmx512m", *self.java_options,
                f"-Dlog4j2.configurationFile={self.home}/log4j2.properties",
                "-cp", self.class_path, *arguments]

    def _format(self) -> None:
        with open(self.log, "ab") as log:
            subprocess.run(self.java("kafka.tools.StorageTool", "format", "--standalone",
                                     "-t", CLUSTER, "-c", f"{self.home}/server.properties"),
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)

    def start(self) -> None:
        """Until it serves clients."""
        self.launch()
        self.wait_served()

    def wait_served(self) -> None:
        waiting.until(lambda: self.process.poll() is not None or self.serves(), START_TIMEOUT,
                      f"Kafka to serve; see {self.log}", every=0.1)
        if self.process.poll() is not None:
            raise RuntimeError(f"Kafka ended with status {self.process.poll()}:\n"
                               f"{self.log.read_text()[-4000:]}")

    def launch(self) -> None:
        """Starts the process, and does not wait."""
        with open(self.log, "ab") as log:
            self.process = children.spawn(
                self.java("kafka.Kafka", f"{self.home}/server.properties"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def serves(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return bool(AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}
                                    ).list_topics(timeout=5).brokers)
        except (OSError, KafkaException):
            return False

    def stop(self) -> None:
        """A clean stop."""
        children.end(self.process, 60)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    down, up = stop, start

    def restart(self, how: str = "stop") -> None:
        getattr(self, how)()
        self.start()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it in any state and removes everything."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "Kafka":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- topics -----------------------------------------------------------------------------------

    def _ask(self, question: Callable[[AdminClient], dict[object, object]]) -> None:
        """An order to the broker, carried out before this returns."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        for answer in question(self._admin).values():
            answer.result(30)

    def create_topic(self, name: str, partitions: int = 4,
                     config: dict[str, str] | None = None) -> None:
        self._ask(lambda admin: admin.create_topics(
            [NewTopic(name, partitions, 1, config=config or {})]))
        self._wait_led(name, partitions)

    def delete_topic(self, name: str) -> None:
        self._ask(lambda admin: admin.delete_topics([name]))

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask(lambda admin: admin.create_partitions([NewPartitions(topic, total)]))
        self._wait_led(topic, total)

    def _wait_led(self, topic: str, partitions: int) -> None:
        def led() -> bool:
            known = self._admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return sum(partition.leader >= 0 for partition in known) == partitions
        waiting.until(led, 20, f"{partitions} partitions of {topic} to have a leader")

    def configure_topic(self, name: str, **settings: str) -> None:
        """Exactly these settings: min__insync__replicas="1"."""
        config = {key.replace("__", "."): value for key, value in settings.items()}
        self._ask(lambda admin: admin.alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name, set_config=config)]))

    def acl(self, what: str, *words: str) -> None:
        """One rule more or less, where the settings have an authorizer: acl("add",
        "--deny-principal", "User:ANONYMOUS", "--operation", "Write", "--topic", "orders")."""
        subprocess.run(self.java("org.apache.kafka.tools.AclCommand", "--bootstrap-server",
                                 self.bootstrap, f"--{what}", "--force", *words),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

    def expire(self, topic: str) -> None:
        """Has the broker's retention delete what stands in the topic now."""
        self.configure_topic(topic, retention__ms="1")
        waiting.until(lambda: self.count(topic) == 0, 30, f"{topic} to expire")
        self.configure_topic(topic)

    def committed(self, group: str, topic: str) -> list[int]:
        """The group's offset of each partition; negative: none."""
        consumer = self._consumer(**{"group.id": group})
        try:
            wanted = [TopicPartition(topic, p) for p in self._partitions(consumer, topic)]
            return [found.offset for found in consumer.committed(wanted, timeout=10)]
        finally:
            consumer.close()

    def produce_at(self, topic: str, milliseconds: int, value: bytes, partition: int,
                   headers: Iterable[tuple[str, bytes]] = ()) -> None:
        """One message of that time, acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 2})
        producer.produce(topic, value=value, partition=partition, timestamp=milliseconds,
                         headers=list(headers))
        if producer.flush(30):
            raise TimeoutError("the message is not acknowledged")

    # --- its files --------------------------------------------------------------------------------

    def segments(self, topic: str, partition: int) -> list[Path]:
        return sorted((self.logs / f"{topic}-{partition}").glob("*.log"))

    def batches(self, topic: str, partition: int) -> list[Batch]:
        """What stands on the disk, in order."""
        found = []
        for file in self.segments(topic, partition):
            data, at = file.read_bytes(), 0
            while at + BATCH_HEADER.size <= len(data):
                offset, length, _, _, _, attributes = BATCH_HEADER.unpack_from(data, at)
                if length == 0:
                    break   # preallocated
                found.append(Batch(file, at, length + 12, offset, CODECS[attributes & 7]))
                at += length + 12
        return found


def main() -> None:
    with Kafka() as kafka:
        print(kafka.bootstrap, flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
