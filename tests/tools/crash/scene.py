"""What all scenes have: the play, its stage, and the facts that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .. import waiting
from ..programs import Program
from ..world import World

ORDERS = 6
POISON = 1            # messages of the ledgers' topic beside those of the orders
PARTITIONS = 4
TOPIC = "crash-points"

# Databases that scenes begin with: as it comes; with orders that are on the topic; with their keys,
# the target being held.
FRESH, PUBLISHED, TAKEN = "counterfoil_template", "crash_published", "crash_taken"


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


# --- the databases that scenes begin with ---------------------------------------------------------

def send_to_own_provider(world: World) -> None:
    """Requests were frozen at intake, with the address of the provider of that world."""
    world.query("UPDATE counterfoil.effect_request SET url = regexp_replace(url, "
                "'^http://[^/]*', %s)", (world.provider.url,))


def hold_target(world: World) -> None:
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")


def open_target(world: World) -> None:
    world.query("DELETE FROM counterfoil.target_state")
