"""What goes wrong in the shop's minute: a seeded plan, and how each thing is done and undone."""

from __future__ import annotations

import random
import time
from typing import Callable

from tests.tools.mailer import CLOSE, DROP, HANG, Mailer
from tests.tools.programs import Program
from tests.tools.world import World

EVERY = 5.0            # seconds between two incidents
RESTART_AFTER = 2.0    # a killed program
FROZEN = 8.0
ALWAYS = ["kill_relay", "kill_ledger", "freeze_relay", "freeze_ledger", "unavailable", "hang",
          "restart_postgres", "cut_mail"]
ON_A_REAL_KAFKA = ["restart_kafka"]     # the stand-in would lose all that it has
SOMETIMES = ["kill_relay", "kill_ledger", "reset", "late", "hang", "restart_postgres",
             "cut_mail"]


def plan(seed: int, seconds: float, real: bool = False) -> list[str]:
    """One incident for each tick but the last: every kind at least once, in a seeded order."""
    dice = random.Random(f"incidents {seed}")
    slots = int(seconds / EVERY) - 1
    always = ALWAYS + (ON_A_REAL_KAFKA if real else [])
    chosen = always + [dice.choice(SOMETIMES) for _ in range(slots - len(always))]
    dice.shuffle(chosen)
    return chosen[:slots]


class Incidents:
    """`begin` makes one happen and tells it; `poll` does what is due afterwards. Used by the thread
    that starts the programs, for they end with it."""

    def __init__(self, world: World, mailer: Mailer, seed: int) -> None:
        self.world = world
        self.mailer = mailer
        self.crashes: list[str] = []     # of programs that ended without being told
        self._dice = random.Random(f"victims {seed}")
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._notes: list[str] = []
        self._down: set[str] = set()     # killed by us and not yet started again
        self._lost_lease: tuple[str, float] | None = None
        self._kafka_down: float | None = None    # since when

    def begin(self, kind: str) -> str:
        return getattr(self, f"_{kind}")()

    def notes(self) -> str:
        """What followed from earlier incidents, since the last question."""
        notes, self._notes = self._notes, []
        return "; ".join(notes)

    def poll(self) -> None:
        now = time.monotonic()
        due = [action for when, action in self._due if when <= now]
        self._due = [(when, action) for when, action in self._due if when > now]
        for action in due:
            action()
        self._watch_lease()
        self._watch_kafka()
        for program in self.world.programs:
            if program.name not in self._down and not program.running:
                self.crashes.append(f"{program.name} ended by itself, status "
                                    f"{program.process.poll()}, see {program.log_path}")
                program.start(ready=False)

    def settle(self) -> None:
        """Undoes everything that is still under way."""
        for _, action in self._due:
            action()
        self._due = []
        self.world.provider.clear()
        self.mailer.behave()
        if self._kafka_down is not None:
            self.world.broker.wait_served()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + seconds, action))

    # --- whom it meets ----------------------------------------------------------------------------

    def _healthy(self, programs: list[Program]) -> list[Program]:
        return [p for p in programs if p.name not in self._down and not p.frozen] or programs

    def _publishing(self) -> Program:
        """The relay that holds the lease: the other one only waits."""
        owner = self._lease_owner()
        for relay in self._healthy(self.world.relays):
            if owner.startswith(f"{relay.name}/"):
                return relay
        return self._dice.choice(self._healthy(self.world.relays))

    def _lease_owner(self) -> str:
        found = self.world.query("SELECT owner FROM counterfoil.lease "
                                 "WHERE until > clock_timestamp() ORDER BY until DESC LIMIT 1")
        return found[0][0] if found else ""

    def _in_flight(self, ledger: Program) -> int:
        return self.world.value(
            "SELECT count(*) FROM counterfoil.effect_state s JOIN counterfoil.instance i "
            "ON i.id = s.owner WHERE s.state = 'in_flight' AND i.name LIKE %s",
            (f"{ledger.name}/%",))

    def _watch_lease(self) -> None:
        if self._lost_lease is None:
            return
        before, since = self._lost_lease
        owner = self._lease_owner()
        if owner and owner != before:
            name = owner.split("/")[0]
            what = "was back" if before.startswith(f"{name}/") else "took over"
            self._notes.append(f"{name} {what} in {time.monotonic() - since:.1f} s")
            self._lost_lease = None

    def _watch_kafka(self) -> None:
        if self._kafka_down is not None and self.world.broker.serves():
            self._notes.append(f"Kafka was back in {time.monotonic() - self._kafka_down:.1f} s")
            self._kafka_down = None

    # --- what happens -----------------------------------------------------------------------------

    def _kill(self, program: Program, told: str) -> str:
        self._down.add(program.name)
        program.thaw()
        program.kill()

        def start() -> None:
            program.start(ready=False)
            self._down.discard(program.name)
        self._later(RESTART_AFTER, start)
        return told

    def _freeze(self, program: Program, told: str) -> str:
        def thaw() -> None:
            if program.frozen:      # it may have been killed meanwhile
                program.thaw()
        program.freeze()
        self._later(FROZEN, thaw)
        return told

    def _kill_relay(self) -> str:
        relay = self._publishing()
        self._lost_lease = (self._lease_owner(), time.monotonic())
        return self._kill(relay, f"kill -9 {relay.name}")

    def _freeze_relay(self) -> str:
        relay = self._publishing()
        self._lost_lease = (self._lease_owner(), time.monotonic())
        return self._freeze(relay, f"{relay.name} SIGSTOP {FROZEN:.0f} s")

    def _kill_ledger(self) -> str:
        ledger = self._dice.choice(self._healthy(self.world.ledgers))
        return self._kill(ledger, f"kill -9 {ledger.name} ({self._in_flight(ledger)} in flight)")

    def _freeze_ledger(self) -> str:
        ledger = self._dice.choice(self._healthy(self.world.ledgers))
        told = f"{ledger.name} SIGSTOP {FROZEN:.0f} s ({self._in_flight(ledger)} in flight)"
        return self._freeze(ledger, told)

    def _unavailable(self) -> str:
        seconds = self._dice.randrange(4, 9)
        self.world.provider.fault("status", status=503, seconds=seconds,
                                  body='{"error":"maintenance"}')
        return f"provider answers 503 for {seconds} s"

    def _hang(self) -> str:
        count = self._dice.randrange(10, 40)
        for apply in (False, True):
            self.world.provider.fault("hang", apply=apply, times=count // 2, share=0.5)
        return f"provider does not answer {count // 2 * 2} requests, half of them charged"

    def _reset(self) -> str:
        count = self._dice.randrange(10, 40)
        self.world.provider.fault("reset", apply=True, times=count)
        return f"provider charges {count} times and resets the connection"

    def _late(self) -> str:
        count = self._dice.randrange(5, 20)
        self.world.provider.fault("pass", delay=4, times=count)
        return f"provider charges {count} times after the client has given up"

    def _cut_mail(self) -> str:
        """Behind the end of a message nobody knows any more, before it nothing has happened."""
        before, behind = self._dice.randrange(4, 12), self._dice.randrange(3, 9)
        self.mailer.once = {
            "rcpt": [self._dice.choice([CLOSE, HANG]) for _ in range(before)],
            "data": [self._dice.choice([CLOSE, DROP, HANG]) for _ in range(behind)]}
        return f"mail server cut off {before} times before DATA, {behind} times after it"

    def _restart_postgres(self) -> str:
        mode = self._dice.choice(["fast", "immediate"])
        started = time.monotonic()
        self.world.postgres.restart(mode)
        return f"PostgreSQL restarted ({mode}) in {time.monotonic() - started:.1f} s"

    def _restart_kafka(self) -> str:
        how = self._dice.choice(["stop", "kill"])
        self._kafka_down = time.monotonic()
        getattr(self.world.broker, how)()
        self.world.broker.launch()
        return "Kafka restarted" if how == "stop" else "kill -9 Kafka"
