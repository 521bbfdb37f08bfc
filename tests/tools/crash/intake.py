"""Ways to the crash points of a ledger that takes in."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from .. import waiting
from .scene import (ORDERS, PARTITIONS, POISON, PUBLISHED, TAKEN, TOPIC, Scene, open_target,
                    send_to_own_provider)


class Consume(Scene):
    """A ledger that has never read its topic."""

    database = PUBLISHED

    def note(self) -> None:
        self.before = self.taken
        assert self.before == self.effects + self.poison, "positions and rows do not agree"

    def drain(self) -> None:
        self.wait_taken()
        super().drain()

    def wait_taken(self) -> None:
        waiting.until(lambda: self.taken == ORDERS + POISON, 60, "all to be taken in", 0.1)

    def judge(self) -> None:
        assert (self.effects, self.poison) == (ORDERS, POISON)
        records = [line.fields for line in self.victim.said("recorded") if line.msg == "recorded"]
        assert {record["duplicates"] for record in records} <= {"0"}
        assert sum(int(record["messages"]) for record in records) == ORDERS + POISON - self.before

    def again(self) -> None:
        before = {**self.world.effects_seen(), **self.world.records_seen()}
        self.world.rewind()
        self.wait_taken()
        self.world.wait_drained()
        assert {**self.world.effects_seen(), **self.world.records_seen()} == before

    @property
    def positions(self) -> int:
        """Partitions that have one."""
        return self.world.value("SELECT count(*) FROM counterfoil.intake_position")

    @property
    def taken(self) -> int:
        """Messages that are not to be read again."""
        return self.world.value("SELECT coalesce(sum(greatest(next_offset, 0)), 0)::int "
                                "FROM counterfoil.intake_position")

    @property
    def effects(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.effect")

    @property
    def poison(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.poison")

    @property
    def shown(self) -> int:
        """Messages that are taken in by the offsets in Kafka."""
        group = self.world.configuration()["ledger"]["group"]
        with closing(Consumer({"bootstrap.servers": self.world.broker.bootstrap,
                               "group.id": group, "log_level": 2})) as member:
            found = member.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)], 10)
        return sum(max(0, position.offset) for position in found)


class ConsumeBesideAnother(Consume):
    """Another ledger is in the group, and is given the partitions."""

    def provoke(self) -> None:
        self.others = [self.one_more().start(ready=False)]

    def judge(self) -> None:
        assert (self.effects, self.poison) == (ORDERS, POISON)


class ConsumeNewPartition(Consume):
    """A partition without a position, in a topic that has been begun."""

    database = TAKEN

    def prepare(self) -> None:
        send_to_own_provider(self.world)
        open_target(self.world)
        self.world.query("DELETE FROM counterfoil.intake_position WHERE (topic, partition) IN ("
                         "SELECT topic, partition FROM counterfoil.intake_position "
                         "ORDER BY next_offset DESC LIMIT 1)")

    def note(self) -> None:
        assert (self.effects, self.poison) == (ORDERS, POISON)

    def judge(self) -> None:
        assert (self.effects, self.poison, self.taken) == (ORDERS, POISON, ORDERS + POISON)
