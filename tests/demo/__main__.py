"""python3 -m tests.demo: SEED chooses the orders and the incidents, KEEP=1 keeps the directory,
KAFKA=real takes an Apache Kafka, and restarts it too.

Exit 0: the books balance. 1: they do not, or something did not work at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.demo import books, incidents, mail, traffic
from tests.demo.screen import Screen
from tests.tools import programs, waiting
from tests.tools.broker import Broker, Follower
from tests.tools.kafka import Kafka, Unavailable
from tests.tools.mailer import Mailer
from tests.tools.postgres import Postgres
from tests.tools.programs import Unexpected, build_directory
from tests.tools.world import World

ORDERS = 3000
SECONDS = 60
LEASE = "4s"
DRAIN_TIMEOUT = 90
SHOWN = 3                # uncertain mails


class Failed(Exception):
    """The demo could not be held; the text says why."""


def build(screen: Screen) -> None:
    """Quiet, unless it fails."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    target = Path(os.path.relpath(build_directory()))
    if os.environ.get("SAN"):       # make adds the last part by itself
        target = target.parent
    started = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", f"-j{os.cpu_count() or 1}",
                           f"BUILD={target}", "programs", "tools"],
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise Failed(f"the build failed:\n{done.stdout.decode(errors='replace')}")
    screen.say(f"building ... {time.monotonic() - started:.0f} s")


class Demo:
    def __init__(self, seed: int, directory: Path, stack: ExitStack, screen: Screen) -> None:
        self.seed = seed
        self.real_kafka = os.environ.get("KAFKA") == "real"
        self.screen = screen
        self.directory = directory
        self.stack = stack
        self.world: World | None = None
        self.mailer = Mailer()
        self.follower: Follower | None = None
        self.traffic: traffic.Traffic | None = None

    # --- setting up -------------------------------------------------------------------------------

    def set_up(self) -> None:
        with self.screen.timed("[1/5] PostgreSQL") as parts:
            postgres = Postgres()
            self.stack.callback(self._close_postgres, postgres)
            postgres.start()
            postgres.create_database("shop")
            parts.append(f" {postgres.value('SHOW server_version_num')[:2]}, private, socket only")
        broker = self._broker()
        broker.create_topic("orders", 4)
        self.follower = Follower(broker.bootstrap, "orders")
        self.stack.callback(self.follower.close)
        with self.screen.timed("[3/5] payments provider (honours keys), mail server (does not)"):
            self.mailer.think = (0.01, 0.1)
            self.stack.enter_context(self.mailer)
            self.world = self._world(postgres, broker)
            self.stack.callback(self.world.close)
        with self.screen.timed("[4/5] counterfoil migrate") as parts:
            self.world.migrate()
            parts.append(f": {self.world.value('SELECT count(*) FROM counterfoil.migration')} "
                         "migrations")
        with self.screen.timed("[5/5] relay-1 relay-2 ledger-1 ledger-2 ready"):
            self.world.start(relays=2, ledgers=2)

    def _broker(self) -> Broker | Kafka:
        if self.real_kafka:
            with self.screen.timed("[2/5] Apache Kafka") as parts:
                broker = Kafka()
                self.stack.callback(broker.close)
                self.stack.callback(shutil.copy, broker.log, self.directory / "kafka.log")
                parts.append(f" {broker.version} (one broker, 4 partitions)")
        else:
            with self.screen.timed("[2/5] Kafka stand-in (librdkafka mock: 4 partitions, memory "
                                   "only)"):
                broker = Broker(build_directory())
                self.stack.callback(broker.close)
        return broker

    def _world(self, postgres: Postgres, broker: Broker | Kafka) -> World:
        world = World(
            self.directory, postgres, "shop", broker, "orders",
            # A person is not asked during the demo: attempts enough for every outage in it.
            effect={"retry": {"first": "200ms", "max": "2s", "attempts": 100}},
            target={"concurrency": 40},
            settings={"general": {"environment": "demo"}, "relay": {"lease": LEASE},
                      "ledger": {"lease": LEASE}},
            provider={"think": [0.02, 0.6]})
        world.effects.append(mail.effect(world.topic))
        world.targets.append(mail.target(self.mailer.url))
        return world

    def _close_postgres(self, postgres: Postgres) -> None:
        postgres.stop("immediate")
        if postgres.log.exists():
            shutil.copy(postgres.log, self.directory / "postgresql.log")
        postgres.close()

    # --- the minute -------------------------------------------------------------------------------

    def run(self) -> bool:
        """The minute, the drain and the books; true when they balance."""
        self.traffic = traffic.Traffic(self.world, traffic.plan(self.seed, ORDERS, SECONDS))
        self.stack.callback(self.traffic.stop)
        happening = incidents.Incidents(self.world, self.mailer, self.seed)
        self.screen.say(f"shop: {ORDERS:,} orders in {SECONDS} s, each one a charge and a mail; "
                        f"something breaks every {incidents.EVERY:.0f} s")
        self.traffic.start()
        self.screen.open(*self._console())
        self._minute(happening)
        faults = self._drain(happening)
        self.screen.close()
        return self._close_books(faults + happening.crashes)

    def _console(self) -> tuple[Path, Path, Path]:
        """Program, configuration, and where it complains."""
        return (build_directory() / "counterfoil", self.world.write_configuration(),
                self.directory / "console.log")

    def _minute(self, happening: incidents.Incidents) -> None:
        started = time.monotonic()
        planned = incidents.plan(self.seed, SECONDS, self.real_kafka)
        for tick in range(1, int(SECONDS / incidents.EVERY) + 1):
            while time.monotonic() < started + tick * incidents.EVERY:
                happening.poll()
                self.screen.poll()
                if self.traffic.failure:
                    return
                time.sleep(0.05)
            self._tell(tick, happening.begin(planned[tick - 1]) if tick <= len(planned) else "",
                       happening.notes())

    def _tell(self, tick: int, event: str, notes: str) -> None:
        ordered = len(self.traffic.committed)
        charged = len(self.world.provider.charges())
        what = "; ".join(filter(None, [notes and f"({notes})", event]))
        self.screen.say(f"t={tick * incidents.EVERY:02.0f} orders {ordered:<5} "
                        f"charged {charged:<5} mailed {len(self.mailer.mails):<5} "
                        f"lag {max(0, ordered - charged):<4} {what}".rstrip())

    def _drain(self, happening: incidents.Incidents) -> list[str]:
        """Everything is put right and left to finish; what did not."""
        faults = []
        with self.screen.timed("drain"):
            happening.settle()
            try:
                waiting.until(lambda: self.traffic.done, DRAIN_TIMEOUT, "the shop to finish")
                self.world.wait_drained(DRAIN_TIMEOUT)
            except waiting.Late as late:
                faults.append(str(late))
            happening.poll()
            for program in self.world.programs:
                try:
                    program.stop()
                except Unexpected as unexpected:
                    faults.append(str(unexpected).splitlines()[0])
        if self.traffic.failure:
            faults.append(f"the shop failed: {self.traffic.failure!r}")
        return faults

    def _close_books(self, faults: list[str]) -> bool:
        waiting.until(lambda: len(self.follower.messages) >= self.world.broker.count("orders"), 30,
                      "the reader of the topic")
        account = books.balance(self.world, self.traffic.committed, self.follower.messages,
                                self.mailer.mails)
        for line in account.lines():
            self.screen.say(line)
        faults += account.faults
        faults += [c for c in self.world.complaints() if "Sanitizer" in c or "runtime error" in c]
        for fault in faults:
            self.screen.say(f"  unbalanced: {fault}")
        if account.mails.uncertain:
            self._list_uncertain()
        self.screen.say(f"RESULT {'unbalanced' if faults else 'ok'}")
        if account.mails.uncertain:
            self.screen.offer(f"{account.mails.uncertain} uncertain mails wait for you.",
                              *self._console())
        return not faults

    def _list_uncertain(self) -> None:
        """What waits for a person, and how that one sees it."""
        told = programs.run("counterfoil", "--config", str(self.world.write_configuration()),
                            "list", "uncertain", "--limit", str(SHOWN))
        self.screen.say(f"$ counterfoil list uncertain --limit {SHOWN}")
        for line in (told.stdout or told.stderr).splitlines():
            self.screen.say(f"  {line}")


def hold(seed: int) -> bool:
    keep = os.environ.get("KEEP", "") not in ("", "0")
    screen = Screen()
    build(screen)
    directory = Path(tempfile.mkdtemp(prefix="counterfoil-demo.", dir="."))
    with ExitStack() as stack:
        stack.callback(screen.close)
        if keep:
            stack.callback(screen.say, f"kept: {directory}")
        else:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        screen.say(f"demo seed {seed}  dir {directory}  "
            f"({'kept' if keep else 'removed at the end; KEEP=1 keeps it'})")
        demo = Demo(seed, directory.resolve(), stack, screen)
        demo.set_up()
        return demo.run()


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupted(number: int, _frame: object) -> None:
    """Leaves by way of the cleaning up, which a second signal does not interrupt."""
    for end in ENDS:
        signal.signal(end, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    for end in ENDS:
        signal.signal(end, interrupted)
    seed = os.environ.get("SEED") or "42"
    if not seed.isdigit():
        print("SEED is a number", file=sys.stderr)
        return 2
    if os.environ.get("KAFKA", "") not in ("", "real"):
        print("KAFKA is real, or not set", file=sys.stderr)
        return 2
    try:
        return 0 if hold(int(seed)) else 1
    except (Failed, Unavailable, Unexpected, waiting.Late, RuntimeError, OSError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
