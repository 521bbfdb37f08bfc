"""Ways to the crash points of a relay."""

from __future__ import annotations

from collections import Counter

from .. import waiting
from .scene import ORDERS, Scene

LATER = 2             # orders that come after the crash


class Publish(Scene):
    """A relay that finds orders in the outbox; there is a ledger too."""

    program = "relay"
    topic = ""
    kafka = (("linger.ms", "100"),)           # a delivery is reported long after its row was sent
    end = {"completed": ORDERS + LATER}
    charged = ORDERS + LATER

    def prepare(self) -> None:
        self.world.ledger().start(ready=False)
        self.world.place(self.world.orders(ORDERS))

    def note(self) -> None:
        self.kept = {event for (event,) in self.world.query(
            "SELECT event_id::text FROM counterfoil.outbox")}
        assert self.kept | self.events() == self.ordered(), "neither in the outbox nor published"

    def resume(self) -> None:
        self.world.place(self.world.orders(LATER, ORDERS + 1))

    def judge(self) -> None:
        messages = self.world.messages()
        copies = Counter(message.event_id for message in messages)
        assert set(copies) == self.ordered()
        assert len({message.content() for message in messages}) == len(copies), "other bytes"
        repeated = {event for event, count in copies.items() if count > 1}
        assert repeated <= self.kept, "a deleted row was published again"

    def again(self) -> None:
        before = self.world.effects_seen()
        self.world.publish_again()
        self.world.wait_drained()
        assert self.world.effects_seen() == before

    def ordered(self) -> set[str]:
        return {event for (event,) in self.world.query("SELECT event_id::text FROM public.orders")}

    def events(self) -> set[str | None]:
        return {message.event_id for message in self.world.messages()}

    @property
    def published(self) -> int:
        return len(self.events())

    @property
    def ownership(self) -> str:
        owner = self.world.query("SELECT owner FROM counterfoil.lease")
        return "left behind" if owner and owner[0][0] else "given back" if owner else "not taken"

    @property
    def warned(self) -> bool:
        """Of possible duplicates, by the next owner."""
        return any(relay.said("the owner before did not stop cleanly")
                   for relay in self.world.relays)


class PublishAfterDeath(Publish):
    """The owner before did not stop cleanly: what may have been in its hands goes on record, and the
    record goes when that has passed."""

    def prepare(self) -> None:
        super().prepare()
        self.world.query("INSERT INTO counterfoil.lease (name, owner, token, until, length) VALUES "
                         "('relay', 'another', 1, clock_timestamp(), interval '1 second')")

    def judge(self) -> None:
        super().judge()
        waiting.until(lambda: self.recorded == 0, 10, "the record to be erased")

    @property
    def recorded(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.suspect")


class PublishUnfit(Publish):
    """One more row can never be sent: it is moved to the dead ones."""

    errors = ("row is dead: moved to outbox_dead",)

    def prepare(self) -> None:
        super().prepare()
        self.world.query("SELECT counterfoil.emit(topic => 'no topic', type => 'unfit', "
                         "payload => '{}')")

    def judge(self) -> None:
        super().judge()
        waiting.until(lambda: self.dead == 1, 10, "the row to be moved")

    def note(self) -> None:
        """It is in one table or the other."""
        assert self.dead + self.unfit == 1
        self.kept = self.ordered()

    @property
    def dead(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.outbox_dead")

    @property
    def unfit(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.outbox WHERE type = 'unfit'")


class PublishThenStop(Publish):
    """The relay is asked to stop when all is done."""

    def provoke(self) -> None:
        waiting.until(lambda: self.outbox == 0, 30, "the outbox to be empty")
        self.victim.terminate()


class PublishCut(Publish):
    """The server ends the relay's sessions, and it gives its producer up."""

    def provoke(self) -> None:
        self.victim.wait_for("lease taken")
        self.world.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                         "WHERE datname = current_database() AND application_name = %s",
                         (self.victim.name,))


class PublishBesideAnother(Publish):
    """Another relay stands by, and takes over."""

    def prepare(self) -> None:
        self.world.ledger().start(ready=False)

    def provoke(self) -> None:
        self.victim.wait_for("lease taken")
        self.others = [self.one_more().start(ready=False)]
        self.others[0].wait_for("standby")
        self.world.place(self.world.orders(ORDERS))

    def note(self) -> None:
        super().note()
        self.kept = self.ordered()            # the other may have gone on before we looked
