"""A program that kills itself at a crash point (include/crash.h): the ways there, what is seen of
the dead process, and what must hold once it goes on. tests/integration/test_crash_points.py has the
table of the points."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from . import waiting
from .programs import Program
from .world import World

ORDERS = 6
LATER = 2             # orders that come after the crash of a relay
POISON = 1            # messages of the ledgers' topic beside those of the orders
PARTITIONS = 4
TOPIC = "crash-points"

# Databases that scenes begin with: as it comes; with orders that are on the topic; with their keys,
# the target being held.
FRESH, PUBLISHED, TAKEN = "counterfoil_template", "crash_published", "crash_taken"

UNACCOUNTED = """SELECT e.idempotency_key, s.tries, count(a.n) FROM counterfoil.effect e
  JOIN counterfoil.effect_state s USING (id)
  LEFT JOIN counterfoil.attempt a ON a.effect_id = e.id AND NOT a.late
  GROUP BY 1, 2 HAVING count(a.n) <> s.tries"""
PROBE_NOW = "UPDATE counterfoil.target_state SET probe_at = now() WHERE held"


@dataclass(frozen=True)
class Case:
    """`left` is what the dead process leaves, `then` what has come of it in the end: facts, which
    are attributes of the scene, and their values; or a range or a set that they are in."""

    scene: "type[Scene]"
    point: str
    left: dict[str, Any] = field(default_factory=dict, hash=False)
    then: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Of the point, without the number of its passing."""
        return self.point.partition(":")[0]

    def __str__(self) -> str:
        return f"{self.scene.__name__}-{self.point}"


def unread(port: int) -> bool:
    """Has the server at that port connections or bytes that it has not looked at?"""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and not row[4].endswith(":00000000")
               for row in rows)


class Scene:
    """One case while it plays; a way to a point is a subclass. The steps are in play()."""

    program = "ledger"                        # or relay
    database = FRESH                          # copied
    topic = TOPIC                             # "": its own
    lease = 1.5
    target: dict[str, Any] = {}
    provider: dict[str, Any] = {}
    kafka: tuple[tuple[str, str], ...] = ()   # more properties
    errors: tuple[str, ...] = ()              # lines that are expected
    end = {"completed": ORDERS}
    charged: int | None = ORDERS              # None: as it came
    repeatable = False                        # a charge may be made twice

    def __init__(self, case: Case, world: World) -> None:
        self.case = case
        self.world = world
        self.victim = self.one_more()
        self.others: list[Program] = []       # which go on while it is dead

    def one_more(self) -> Program:
        """A program of the kind that is under test; the server knows it by its name."""
        relay = self.program == "relay"
        name = f"{self.program}-{len(self.world.relays if relay else self.world.ledgers) + 1}"
        conninfo = self.world.postgres.conninfo(self.world.database)
        make = self.world.relay if relay else self.world.ledger
        made = make(conninfo=f"{conninfo} application_name={name}")
        made.allow_errors(*self.errors)
        return made

    # --- the play ---------------------------------------------------------------------------------

    def play(self) -> None:
        self.prepare()
        self.crash(self.case.point)
        self.look(self.case.left)
        self.note()
        self.resume()
        self.go_on()
        self.drain()
        self.look(self.case.then)
        assert self.repeatable or self.world.duplicated() == {}
        assert self.charged is None or self.charges == self.charged
        self.judge()
        self.again()

    def prepare(self) -> None:
        """Before the program starts."""

    def crash(self, point: str) -> None:
        """To the point, and until all that it has sent has come to pass."""
        self.victim.crash_at(point)
        self.victim.start(ready=False)
        self.provoke()
        self.victim.wait_crash()
        waiting.until(lambda: self.sessions() == 0, 10, "its sessions to end")
        waiting.until(lambda: not unread(self.world.provider.port), 10, "its requests to be read")

    def sessions(self) -> int:
        return self.world.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = %s", (self.victim.name,))

    def provoke(self) -> None:
        """While it runs, to have it reach the point."""

    def note(self) -> None:
        """What is left of it, beside the facts of the case."""

    def resume(self) -> None:
        """Before it goes on."""

    def go_on(self) -> None:
        """It is started as it usually is, unless another one is there."""
        self.victim.crash_at("")
        if not self.others:
            self.victim.start(ready=False)

    def drain(self) -> None:
        self.wait_end()
        self.world.wait_drained()

    def wait_end(self) -> None:
        """Cheaper to ask for than whether all is drained."""
        try:
            waiting.until(lambda: self.world.states() == self.end, 60, f"keys {self.end}", 0.1)
        except waiting.Late as late:
            raise waiting.Late(f"{late}; keys {dict(self.world.states())}") from None

    def judge(self) -> None:
        """What must hold in the end, whatever the point was."""

    def again(self) -> None:
        """The same events once more."""

    def look(self, facts: dict[str, Any]) -> None:
        for name, expected in facts.items():
            seen = getattr(self, name)
            good = seen in expected if isinstance(expected, (range, set)) else seen == expected
            assert good, f"{name}: {seen!r}, not {expected!r}"

    # --- facts ------------------------------------------------------------------------------------

    @property
    def outbox(self) -> int:
        return self.world.outbox()

    @property
    def requests(self) -> int:
        return len(self.world.provider.requests())

    @property
    def charges(self) -> int:
        return len(self.world.provider.charges())


# --- the relay ------------------------------------------------------------------------------------

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


# --- the ledger takes in --------------------------------------------------------------------------

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


# --- the ledger executes --------------------------------------------------------------------------

def send_to_own_provider(world: World) -> None:
    """Requests were frozen at intake, with the address of the provider of that world."""
    world.query("UPDATE counterfoil.effect_request SET url = regexp_replace(url, "
                "'^http://[^/]*', %s)", (world.provider.url,))


def hold_target(world: World) -> None:
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")


def open_target(world: World) -> None:
    world.query("DELETE FROM counterfoil.target_state")


def count(state: str) -> Any:
    """The fact how many keys are in that state."""
    return property(lambda scene: scene.world.states()[state])


class Perform(Scene):
    """A ledger that finds pending keys."""

    database = TAKEN
    target = {"concurrency": ORDERS}          # nothing is claimed while the keys are in flight
    fault: dict[str, Any] = {}                # of the provider
    lasting = False                           # also for the one who goes on

    pending, in_flight, retry_wait = count("pending"), count("in_flight"), count("retry_wait")
    completed, uncertain, dead = count("completed"), count("uncertain"), count("dead")

    def prepare(self) -> None:
        send_to_own_provider(self.world)
        open_target(self.world)
        if self.fault:
            self.world.provider.fault(**self.fault)

    def note(self) -> None:
        self.asked = self.requests
        rows = self.world.query(
            "SELECT e.idempotency_key, s.state::text, i.until FROM counterfoil.effect e "
            "JOIN counterfoil.effect_state s USING (id) "
            "LEFT JOIN counterfoil.instance i ON i.id = s.owner AND i.name LIKE %s",
            (f"{self.victim.name}/%",))
        self.recorded = {key for key, state, _ in rows if state in ("completed", "dead")}
        self.owned_until: dict[str, datetime] = {key: until for key, _, until in rows if until}

    def resume(self) -> None:
        if self.fault and not self.lasting:
            self.world.provider.clear()

    def drain(self) -> None:
        self.wait_end()

    def followed(self) -> int:
        """Events that are to be in the outbox."""
        return self.dead

    def judge(self) -> None:
        requests = self.world.provider.requests()
        sent = {(r.key, r.method, r.path, tuple(r.headers), r.digest) for r in requests}
        assert len(sent) == len({r.key for r in requests}), "other bytes with the same key"
        for request in requests[self.asked:]:
            assert request.key not in self.recorded, "sent though its result was recorded"
            owned = self.owned_until.get(request.key)
            assert not owned or request.t >= owned.timestamp(), "sent while it was the dead one's"
        assert self.outbox == self.followed(), "one event for each end that has one"
        assert self.world.query(UNACCOUNTED) == []

    @property
    def taken_over(self) -> int:
        return self.world.value("SELECT sum(takeovers)::int FROM counterfoil.effect_state")

    @property
    def ownership(self) -> str:
        """Of the dead process."""
        whole = self.world.query("SELECT until > seen_at + %s * interval '0.9 s' "
                                 "FROM counterfoil.instance WHERE name LIKE %s",
                                 (self.lease, f"{self.victim.name}/%/{self.victim.pid}"))
        return "left behind" if whole and whole[0][0] else "given back" if whole else "not taken"

    @property
    def held(self) -> bool:
        return bool(self.world.query("SELECT 1 FROM counterfoil.target_state WHERE held"))


class PerformThenStop(Perform):
    """It is asked to stop when all is done."""

    def provoke(self) -> None:
        waiting.until(lambda: self.completed == ORDERS, 30, "the keys to be completed")
        self.victim.terminate()


class PerformSlowly(Perform):
    """The calls hang, so that they are in progress all the time. The lease outlasts the first sweep
    of the one who goes on."""

    lease = 4
    fault = {"kind": "hang", "apply": True}


class PerformBesideAnother(Perform):
    """Another ledger has the other half of the keys, with long calls; it takes this half over."""

    target = {"concurrency": ORDERS // 2, "timeout": "10s"}
    provider = {"think": (3, 3)}

    def prepare(self) -> None:
        send_to_own_provider(self.world)

    def provoke(self) -> None:
        self.others = [self.one_more().start(ready=False)]
        for ledger in (self.victim, *self.others):
            ledger.wait_for("target is held")
        open_target(self.world)


class PerformOnce(Perform):
    """At most once, and the provider keeps no keys: what may have been sent is not sent again."""

    provider = {"honours": False}
    mode = "at_most_once"
    charged = None

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect SET mode = %s", (self.mode,))

    def wait_end(self) -> None:
        waiting.until(lambda: self.world.unfinished() == 0, 60, "all keys to be finished", 0.1)

    def judge(self) -> None:
        super().judge()
        known = set(self.world.query("SELECT e.idempotency_key, s.state::text FROM "
                                     "counterfoil.effect e JOIN counterfoil.effect_state s USING (id)"))
        charges = self.world.provider.charges_by_key()
        asked = Counter(request.key for request in self.world.provider.requests())
        for key, state in known:
            assert asked[key] <= 1 and (charges[key], state) in {
                (1, "completed"), (0, "uncertain"), (1, "uncertain"), (0, "dead")}

    @property
    def marked(self) -> int:
        """Keys that may have been sent, says the database."""
        return self.world.value("SELECT sum(unknown_sends)::int FROM counterfoil.effect_state")


class PerformOnceRefused(PerformOnce):
    """The provider refuses; whoever did not hear of it does not know."""

    fault = {"kind": "status", "status": 402}
    lasting = True


class PerformOnceBesideAnother(PerformOnce, PerformBesideAnother):
    provider = {"honours": False, "think": (3, 3)}

    def prepare(self) -> None:
        PerformBesideAnother.prepare(self)
        self.world.query("UPDATE counterfoil.effect SET mode = %s", (self.mode,))


class PerformResent(PerformOnce):
    """At most once, but a second time is fine."""

    repeatable = True

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect SET resend = true")

    def judge(self) -> None:
        Perform.judge(self)
        assert self.completed == ORDERS


class PerformNatural(PerformResent):
    """PUT of a URL of its own."""

    mode = "natural"

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_request SET method = 'PUT', url = url || '/' || id")
        self.world.query("UPDATE counterfoil.effect_state s SET serial_key = r.url "
                         "FROM counterfoil.effect_request r WHERE r.id = s.id")


class PerformInOrder(Perform):
    """One at a time."""

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET serial_key = 'one at a time', "
                         "waiting = id > (SELECT min(id) FROM counterfoil.effect_state)")

    def judge(self) -> None:
        super().judge()
        ordered = [key for (key,) in self.world.query(
            "SELECT idempotency_key FROM counterfoil.effect ORDER BY id")]
        assert [charge.key for charge in self.world.provider.charges()] == ordered
        first = list(dict.fromkeys(r.key for r in self.world.provider.requests()))
        assert first == ordered

    @property
    def waiting(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.effect_state WHERE waiting")


class PerformRefused(Perform):
    """The provider refuses every charge: the keys die."""

    fault = {"kind": "status", "status": 402}
    lasting = True
    end = {"dead": ORDERS}
    charged = 0


class PerformEmitting(Perform):
    """Each completion emits an event."""

    def prepare(self) -> None:
        super().prepare()
        self.world.query(
            "UPDATE counterfoil.effect_request SET emit = convert_to(%s, 'UTF8')",
            ('{"topic":"made","type":"made","headers":{"cf-hops":"1"},"payload":"[\\u0002]"}',))

    def followed(self) -> int:
        return self.completed

    @property
    def owed(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.effect_state WHERE emit_due")


class Owe(PerformEmitting):
    """Keys that a person has completed owe their events."""

    charged = 0

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET state = 'completed', "
                         "completed_at = now(), emit_due = true")

    def drain(self) -> None:
        waiting.until(lambda: self.owed == 0, 30, "nothing to be owed", 0.1)


class PerformRetried(Perform):
    """The provider fails at first."""

    fault = {"kind": "status", "status": 503}


class PerformHeld(Perform):
    """The provider does not know us: the target is held."""

    fault = {"kind": "status", "status": 401}
    errors = ("target held: it refuses us",)

    def resume(self) -> None:
        super().resume()
        self.world.query(PROBE_NOW)

    def judge(self) -> None:
        super().judge()
        waiting.until(lambda: not self.held, 10, "the target to be open")


class PerformAside(Perform):
    """The effect is paused: its keys are put aside."""

    def prepare(self) -> None:
        super().prepare()
        self.world.query("INSERT INTO counterfoil.pause (scope, name) VALUES ('effect', 'charge')")

    def resume(self) -> None:
        super().resume()
        self.world.query("DELETE FROM counterfoil.pause")

    @property
    def aside(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.effect_state "
                                "WHERE waiting AND aside = 'charge'")


class PerformTakenBack(PerformAside):
    """It is paused no more: they are taken back."""

    def prepare(self) -> None:
        Perform.prepare(self)
        self.world.query("UPDATE counterfoil.effect_state SET waiting = true, aside = 'charge'")


class PerformProbed(PerformHeld):
    """The target is held, and the time of a probe has come."""

    fault = {}

    def prepare(self) -> None:
        send_to_own_provider(self.world)
        self.world.query("UPDATE counterfoil.target_state SET held_by = 'system'")
        self.world.query(PROBE_NOW)

    @property
    def probe(self) -> str:
        return "due" if self.world.value("SELECT probe_at <= clock_timestamp() "
                                         "FROM counterfoil.target_state") else "taken"


class PerformPaused(Perform):
    """The provider has had enough for a while."""

    fault = {"kind": "status", "status": 429, "retry_after": {"seconds": 4}}

    def judge(self) -> None:
        super().judge()
        until = self.paused_until()
        assert all(request.t >= until for request in self.world.provider.requests()[self.asked:])

    def paused_until(self) -> float:
        found = self.world.query("SELECT paused_until FROM counterfoil.target_state")
        return found[0][0].timestamp() if found else 0

    @property
    def paused(self) -> bool:
        return self.paused_until() > 0


class PerformUnreachable(Perform):
    """Nobody is there: the breaker opens."""

    target = {"concurrency": ORDERS, "breaker": {"failures": 3, "ratio": 100, "open": "1s"}}

    def prepare(self) -> None:
        super().prepare()
        self.world.provider.refuse_connections()

    def resume(self) -> None:
        super().resume()
        self.world.provider.accept_connections()

    def judge(self) -> None:
        super().judge()
        waiting.until(lambda: self.breaker == "closed", 10, "the breaker to be closed")

    @property
    def breaker(self) -> str:
        found = self.world.query("SELECT CASE WHEN breaker_until > clock_timestamp() THEN 'open' "
                                 "WHEN breaker_until IS NOT NULL THEN 'half open' END "
                                 "FROM counterfoil.target_state")
        return found[0][0] or "closed" if found else "closed"


class PerformTried(PerformUnreachable):
    """It was open, and the time of a trial has come. A trial that nobody ends is over after all that
    it may take."""

    def prepare(self) -> None:
        send_to_own_provider(self.world)
        self.world.query("UPDATE counterfoil.target_state SET held = false, held_by = NULL, "
                         "breaker_until = now() - interval '1 s'")

    def resume(self) -> None:
        Perform.resume(self)


class AfterDeath(Perform):
    """The keys are those of a ledger that died before. The target is held until the next one has
    died too: what it has taken over it could claim again before it hears that it has."""

    died_at: str

    def prepare(self) -> None:
        super().prepare()
        self.crash(self.died_at)
        hold_target(self.world)

    def resume(self) -> None:
        super().resume()
        open_target(self.world)


class TakeOver(AfterDeath):
    """It had claimed them."""

    died_at = "claim.answered"


class TakeOverOnce(AfterDeath, PerformOnce):
    """It had set its marker."""

    died_at = "marker.answered"


class TakeOverUnmarked(TakeOverOnce):
    """It had not yet."""

    died_at = "marker.send"


class TakeOverNatural(AfterDeath, PerformNatural):
    """The provider had answered."""

    died_at = "transfer.answering"


class TakeOverLate(TakeOver):
    """It died when the provider answered, and the provider's window is over."""

    died_at = "transfer.answering"
    end = {"uncertain": ORDERS}
    charged = None

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET window_until = now()")

    def judge(self) -> None:
        super().judge()
        assert self.requests == self.asked, "sent when the provider had forgotten the key"


class Expire(Perform):
    """Keys that have waited for too long."""

    end = {"dead": ORDERS}
    charged = 0

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect SET not_after = now()")


class GoBack(Perform):
    """An order to read everything again."""

    def prepare(self) -> None:
        super().prepare()
        self.ends = self.positions
        self.world.query("SELECT counterfoil.order_intake('rewind', %s, gen_random_uuid(), 'to see', "
                         "'{}')", (f'{{"topic": "{TOPIC}", "to_offset": 0}}',))

    def drain(self) -> None:
        waiting.until(lambda: self.order == "done" and self.positions == self.ends, 30,
                      "everything to be read again", 0.1)
        super().drain()

    @property
    def order(self) -> str:
        return self.world.value("SELECT state FROM counterfoil.operation")

    @property
    def positions(self) -> list[int]:
        return [offset for (offset,) in self.world.query(
            "SELECT next_offset FROM counterfoil.intake_position ORDER BY partition")]

    @property
    def back(self) -> bool:
        return self.positions != self.ends


class Clear(Perform):
    """Keys that were completed long ago, and an audit row as old: a round of expiry. It has two
    steps, of the keys and of its end."""

    charged = 0

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET state = 'completed', "
                         "state_since = now() - interval '5000 days', completed_at = now()")
        self.world.query("INSERT INTO counterfoil.audit (at, about, operation, claims, action, "
                         "result, detail, before) VALUES (now() - interval '5000 days', 'outbox', "
                         "gen_random_uuid(), '{}', 'discard', 'done', '', '{}')")
        self.world.query("UPDATE counterfoil.expiry SET cursor = 0, owner = 0, "
                         "until = clock_timestamp(), next_at = clock_timestamp()")

    def drain(self) -> None:
        self.world.query("UPDATE counterfoil.expiry SET until = clock_timestamp()")
        waiting.until(lambda: self.round == "ended", 30, "the round to end", 0.1)
        super().drain()

    def judge(self) -> None:
        super().judge()
        assert (self.kept, self.audited) == (0, 0)

    @property
    def kept(self) -> int:
        """Requests."""
        return self.world.value("SELECT count(*) FROM counterfoil.effect_request")

    @property
    def audited(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.audit")

    @property
    def round(self) -> str:
        owned, began, ended = self.world.query(
            "SELECT owner <> 0, cursor > 0, next_at > clock_timestamp() + interval '1 min' "
            "FROM counterfoil.expiry")[0]
        return "ended" if ended else "begun" if began else "owned" if owned else "not taken"
