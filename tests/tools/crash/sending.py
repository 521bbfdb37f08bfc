"""Ways to the crash points of a ledger that claims keys and sends their requests."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from .. import waiting
from .scene import ORDERS, TAKEN, Scene, open_target, send_to_own_provider

UNACCOUNTED = """SELECT e.idempotency_key, s.tries, count(a.n) FROM counterfoil.effect e
  JOIN counterfoil.effect_state s USING (id)
  LEFT JOIN counterfoil.attempt a ON a.effect_id = e.id AND NOT a.late
  GROUP BY 1, 2 HAVING count(a.n) <> s.tries"""
PROBE_NOW = "UPDATE counterfoil.target_state SET probe_at = now() WHERE held"


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
