"""Everything at once: PostgreSQL, Kafka, the provider, relays, ledgers and a shop; and the judge's
questions about what came of it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any, Callable, Iterable

from . import libconfig, programs, waiting
from .broker import Client, Message
from .postgres import Postgres
from .programs import Program
from .provider import Provider
from .shop import Order, Shop

SECRET = "sk_test_of_the_harness"
PATIENT = {"failures": 0, "ratio": 0}         # a breaker that never opens
UNFINISHED = ("pending", "in_flight", "retry_wait")
CHARGE = {
    "name": "charge",
    "target": "payments",
    "mode": "idempotent",
    "key": "order:${/order_id}:charge",
    "request": {"method": "POST", "path": "/v1/charges",
                "content_type": "application/x-www-form-urlencoded",
                "body": "amount=${/total_cents}&currency=usd&customer=${/customer_id}"},
    "retry": {"strategy": "exponential", "first": "100ms", "max": "1s", "attempts": 12},
    "retention": "forever",
}


class World:
    """One database, one topic, one provider. `effect`, `target` and `settings` change the
    configuration; see configuration()."""

    def __init__(self, directory: Path, postgres: Postgres, database: str, broker: Client,
                 topic: str = "orders", *, effect: dict[str, Any] | None = None,
                 target: dict[str, Any] | None = None, settings: dict[str, Any] | None = None,
                 provider: dict[str, Any] | None = None) -> None:
        self.directory = directory
        self.postgres = postgres
        self.database = database
        self.broker = broker
        self.topic = topic
        self.shop = Shop(topic)
        self.provider = Provider(directory / "provider",
                                 **{"authorization": f"Bearer {SECRET}", **(provider or {})})
        self.provider.start()
        (directory / "secret").write_text(SECRET + "\n")
        charge = {**deepcopy(CHARGE), "on": {"topic": topic, "type": "order.placed"}}
        self.effects = [libconfig.merge(charge, effect or {})]
        self.targets = [libconfig.merge(
            {"name": "payments", "url": self.provider.url, "profile": "stripe-v1",
             "secret_file": str(directory / "secret"), "auth": "Bearer ${secret}",
             "connect_timeout": "1s", "timeout": "2s", "concurrency": 50, "breaker": PATIENT},
            target or {})]
        self.settings = settings or {}
        self.relays: list[Program] = []
        self.ledgers: list[Program] = []

    # --- making it --------------------------------------------------------------------------------

    def configuration(self) -> dict[str, Any]:
        """The file of all programs; `effects`, `targets` and `settings` may be changed before a
        program is made."""
        return libconfig.merge({
            "general": {"environment": "test", "drain_timeout": "10s"},
            "postgres": {"conninfo": self.postgres.conninfo(self.database)},
            "kafka": {"properties": [("bootstrap.servers", self.broker.bootstrap)]},
            "relay": {"lease": "3s", "sweep": "1s"},
            "ledger": {"group": f"{self.topic}-ledger", "start": "earliest", "lease": "3s"},
            "http": {"relay": "127.0.0.1:0", "ledger": "127.0.0.1:0"},
            "log": {"level": "info"},
            "targets": self.targets,
            "effects": self.effects,
        }, self.settings)

    def write_configuration(self) -> Path:
        path = self.directory / "counterfoil.conf"
        path.write_text(libconfig.settings(self.configuration()))
        return path

    def migrate(self) -> None:
        done = programs.run("counterfoil", "--config", str(self.write_configuration()), "migrate")
        if done.returncode:
            raise programs.Unexpected(f"counterfoil migrate: {done.returncode}\n{done.stderr}")
        with closing(self.connect()) as connection:
            self.shop.create_table(connection)

    def relay(self, **settings: Any) -> Program:
        """One more relay, not started; `settings` are of its section."""
        return self._program("counterfoil-relay", "relay", self.relays, settings)

    def ledger(self, **settings: Any) -> Program:
        return self._program("counterfoil-ledger", "ledger", self.ledgers, settings)

    def _program(self, program: str, part: str, others: list[Program],
                 settings: dict[str, Any]) -> Program:
        config = libconfig.merge(self.configuration(), {part: settings})
        if part == "ledger":
            config["kafka"]["properties"] = [*config["kafka"]["properties"],
                                             *self.broker.group_properties]
        made = Program(program, f"{part}-{len(others) + 1}", self.directory, config)
        others.append(made)
        return made

    def start(self, relays: int = 1, ledgers: int = 1) -> "World":
        """That many of each, ready."""
        made = [self.relay() for _ in range(relays)] + [self.ledger() for _ in range(ledgers)]
        for program in made:
            program.start(ready=False)
        for program in made:
            program.wait_for("ready")
        return self

    @property
    def programs(self) -> list[Program]:
        return self.relays + self.ledgers

    def close(self) -> None:
        for program in self.programs:
            program.close()
        self.provider.stop()

    # --- using it ---------------------------------------------------------------------------------

    def connect(self, autocommit: bool = False) -> Any:
        return self.postgres.connect(self.database, autocommit)

    def query(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self.postgres.query(sql, parameters, self.database)

    def value(self, sql: str, parameters: Any = None) -> Any:
        return self.postgres.value(sql, parameters, self.database)

    def place(self, orders: Iterable[Order]) -> list[str]:
        """Orders, each in its own transaction; the ids of their events."""
        events = []
        with closing(self.connect()) as connection:
            for order in orders:
                events.append(self.shop.place(connection, order))
                connection.commit()
        return events

    @staticmethod
    def orders(count: int, first: int = 1) -> list[Order]:
        return [Order(n, f"customer-{n % 97}", 100 + n) for n in range(first, first + count)]

    def emit(self, payload: bytes | None, event_type: str = "order.placed",
             **arguments: Any) -> str:
        """Any event at all, through counterfoil.emit with further named arguments; its id."""
        named = "".join(f", {name} => %({name})s" for name in arguments)
        return self.value(
            "SELECT event_id::text FROM counterfoil.emit(topic => %(topic)s, type => %(type)s, "
            f"payload => %(payload)s::bytea{named})",
            {"topic": self.topic, "type": event_type, "payload": payload, **arguments})

    # --- the judge --------------------------------------------------------------------------------

    def messages(self, topic: str | None = None) -> list[Message]:
        return self.broker.consume_all(topic or self.topic)

    def outbox(self) -> int:
        return self.value("SELECT count(*) FROM counterfoil.outbox")

    def states(self) -> Counter[str]:
        """How many keys are in each state."""
        return Counter(dict(self.query(
            "SELECT state::text, count(*) FROM counterfoil.effect_state GROUP BY state")))

    def state(self, key: str) -> str | None:
        """The state of one idempotency key."""
        found = self.query(
            "SELECT s.state::text FROM counterfoil.effect e JOIN counterfoil.effect_state s "
            "USING (id) WHERE e.idempotency_key = %s", (key,))
        return found[0][0] if found else None

    def unread(self) -> int:
        """Messages of the topic that no ledger has taken in."""
        taken = dict(self.query("SELECT partition, next_offset FROM counterfoil.intake_position "
                                "WHERE topic = %s", (self.topic,)))
        return sum(max(0, high - max(low, taken.get(partition, 0)))
                   for partition, (low, high) in enumerate(self.broker.bounds(self.topic)))

    def unfinished(self) -> int:
        return sum(count for state, count in self.states().items() if state in UNFINISHED)

    def drained(self) -> bool:
        """Nothing is on its way any more."""
        return self.outbox() == 0 and self.unread() == 0 and self.unfinished() == 0

    def wait_drained(self, timeout: float = 60) -> None:
        def described() -> bool:
            return self.drained()
        try:
            waiting.until(described, timeout, "everything to drain", every=0.1)
        except waiting.Late as late:
            raise waiting.Late(f"{late}: outbox {self.outbox()}, unread {self.unread()}, "
                               f"keys {dict(self.states())}") from None

    def lost(self) -> list[int]:
        """Orders that were committed and not charged."""
        charged = self.provider.charges_by_key()
        with closing(self.connect()) as connection:
            committed = self.shop.committed(connection)
        return sorted(n for n in committed if charged[Order(n, "", 0).key] == 0)

    def duplicated(self) -> dict[str | None, int]:
        """Keys that were charged more than once."""
        return {key: n for key, n in self.provider.charges_by_key().items() if n > 1}

    def complaints(self) -> list[str]:
        """Of all programs; see Program.complaints()."""
        found = [complaint for program in self.programs for complaint in program.complaints()]
        log = self.provider.directory / "provider.log"
        if log.exists() and "Traceback" in log.read_text():
            found.append(f"the provider itself failed: {log}")
        return found

    # --- twice ------------------------------------------------------------------------------------

    def effects_seen(self) -> dict[str, Any]:
        """What must not change when the same events come again."""
        return {
            "charges": [(charge.id, charge.key) for charge in self.provider.charges()],
            "requests": len(self.provider.requests()),
            "effects": self.query("SELECT id, target, tenant, idempotency_key, provider_key, "
                                  "fingerprint, topic, partition, \"offset\", event_id "
                                  "FROM counterfoil.effect ORDER BY id"),
            "states": self.query("SELECT id, state::text, epoch, tries, attempts, unknown_sends, "
                                 "outcome, http_status, provider_id, completed_at "
                                 "FROM counterfoil.effect_state ORDER BY id"),
            "attempts": self.query("SELECT effect_id, n, epoch, outcome, http_status, late "
                                   "FROM counterfoil.attempt ORDER BY effect_id, n, recorded_at"),
        }

    def records_seen(self) -> dict[str, Any]:
        """What hangs on a message's own offset: a rewind must not change it, a second copy of a
        message is another message."""
        return {
            "poison": self.query("SELECT topic, partition, \"offset\", hash, reason "
                                 "FROM counterfoil.poison ORDER BY 1, 2, 3"),
            "conflicts": self.query("SELECT topic, partition, \"offset\", effect, idempotency_key, "
                                    "holder FROM counterfoil.conflict ORDER BY 1, 2, 3, 4"),
        }

    def rewind(self) -> None:
        """Has every ledger read the topic from its beginning again."""
        for ledger in self.ledgers:
            ledger.stop()
        self.query("UPDATE counterfoil.intake_position SET next_offset = 0 WHERE topic = %s",
                   (self.topic,))
        for ledger in self.ledgers:
            ledger.start(ready=False)
        for ledger in self.ledgers:
            ledger.wait_for("ready")

    def publish_again(self) -> None:
        """Publishes every message of the topic once more, byte for byte."""
        self.broker.publish_again(self.messages())

    def run_twice(self, timeout: float = 60) -> None:
        """The same events come again, as copies and by a rewind: the world must look as if they
        had come once. Call it when everything is drained and the ledgers run."""
        self.run_copies(timeout)
        self._again(self.rewind, lambda: {**self.effects_seen(), **self.records_seen()}, timeout)

    def run_copies(self, timeout: float = 60) -> None:
        """The quicker half of run_twice(): no ledger is stopped."""
        self._again(self.publish_again, self.effects_seen, timeout)

    def _again(self, repeat: Callable[[], None], look: Callable[[], dict[str, Any]],
               timeout: float) -> None:
        before = look()
        repeat()
        self.wait_drained(timeout)
        after = look()
        for what, was in before.items():
            assert after[what] == was, f"{what} changed when the same events came again"
