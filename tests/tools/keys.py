"""Keys as the ledger would have left them, written straight into its tables: for tests of what is
shown of them and of what a person may do to them."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any


from .postgres import Postgres

FROZEN = "2026-03-14 14:02:31+00"


class Keys:
    """`at` is the SQL of now: all times are given as intervals before it."""

    def __init__(self, postgres: Postgres, database: str, at: str = "clock_timestamp()") -> None:
        self.postgres = postgres
        self.database = database
        self.at = at
        self.offset = 99000
        self.connection = postgres.connect(database)

    def close(self) -> None:
        self.connection.close()

    def query(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str, parameters: Any = None) -> Any:
        ((only,),) = self.query(sql, parameters)
        return only

    def _ago(self, interval: str | None) -> str:
        return "NULL" if interval is None else f"({self.at} - interval '{interval}')"

    def add(self, key: str, state: str = "dead", *, since: str = "10 min", target: str = "payments",
            tenant: str = "", subject: str | None = None, event_id: str | None = None,
            topic: str = "orders", partition: int = 4, mode: str = "idempotent",
            body: Any = None, method: str | None = "POST", first_sent: str | None = None,
            sent: str | None = None, window: str | None = None, deadline: str = "-1 hour",
            attempts: list[dict[str, Any]] | None = None, due: str = "0", **columns: Any) -> int:
        """Intervals are before now: "-5 min" lies ahead. Its id."""
        self.offset += 1
        body = b"" if body is None else body if isinstance(body, bytes) else \
            json.dumps(body, separators=(",", ":")).encode()
        with self.connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO counterfoil.effect (target, tenant, idempotency_key, effect, mode, "
                "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id, "
                "event_type, subject, created_at) VALUES (%s, %s, %s, 'charge', %s, %s, '\\x00', "
                f"'\\x00', %s, %s, %s, %s, 'order.placed', %s, {self._ago(since)}) RETURNING id",
                (target, tenant, key, mode, f"{tenant}:{key}" if tenant else key, topic, partition,
                 self.offset, event_id or f"event-{self.offset}", subject))
            (effect_id,) = cursor.fetchone()
            values = {"tries": len(attempts or []), "attempts": len(attempts or []), **columns}
            if state == "in_flight":
                values.setdefault("owner", 1)
            names = "".join(f", {name}" for name in values)
            cursor.execute(
                "INSERT INTO counterfoil.effect_state (id, target, tenant, state, state_since, "
                f"first_sent_at, sent_at, window_until, due_at, deadline{names}) VALUES (%s, %s, %s, "
                f"%s, {self._ago(since)}, {self._ago(first_sent)}, {self._ago(sent)}, "
                f"{self._ago(window)}, {self._ago(due)}, "
                f"{self._ago(deadline if state == 'in_flight' else None)}"
                + ", %s" * len(values) + ")",
                (effect_id, target, tenant, state, *values.values()))
            cursor.execute(
                "INSERT INTO counterfoil.effect_request (id, method, url, headers, body) "
                "VALUES (%s, %s, %s, %s, %s)",
                (effect_id, method, method and "https://api.example.com/v1/charges",
                 b"Content-Type: application/json\nX-Order: 20417\n" if method else None, body))
            for n, attempt in enumerate(attempts or [], 1):
                self._add_attempt(cursor, effect_id, n, dict(attempt))
        return effect_id

    def _add_attempt(self, cursor: Any, effect_id: int, n: int, attempt: dict[str, Any]) -> None:
        started = self._ago(attempt.pop("started", "1 min"))
        row = {"n": n, "epoch": n, "owner": 1, "took_us": 212000, "outcome": "refused", **attempt}
        cursor.execute(
            f"INSERT INTO counterfoil.attempt (effect_id, started_at, {', '.join(row)}) "
            f"VALUES (%s, {started}{', %s' * len(row)})", (effect_id, *row.values()))

    def ledger(self, name: str = "ledger-1", alive: bool = True) -> int:
        """A process that has a lease, or had one."""
        return self.value(
            "INSERT INTO counterfoil.instance (program, name, version, started_at, seen_at, until) "
            f"SELECT 'ledger', %s, '0.1.0', {self._ago('4 days')}, {self._ago('1 s')}, "
            f"{self._ago('-1 hour' if alive else '1 min')} RETURNING id", (f"{name}/1f3a90bc/4711",))

    def relay(self, name: str = "relay-1") -> None:
        self.query("INSERT INTO counterfoil.lease (name, owner, token, until, length) VALUES "
                   f"('relay', %s, 1, {self._ago('-10 s')}, '15 s')", (f"{name}/1f3a90bc/4712",))

    def outbox(self, count: int, oldest: str = "3 s") -> None:
        self.query("INSERT INTO counterfoil.outbox (topic, type, payload, created_at) SELECT "
                   f"'orders', 'order.placed', '', {self._ago(oldest)} FROM generate_series(1, %s)",
                   (count,))

    def state(self, key: str) -> str:
        return self.value("SELECT s.state::text FROM counterfoil.effect e JOIN "
                          "counterfoil.effect_state s USING (id) WHERE idempotency_key = %s", (key,))

    def audit(self) -> list[dict[str, Any]]:
        """The audit's rows, oldest first."""
        return [row for (row,) in self.query(
            "SELECT to_jsonb(a) FROM counterfoil.audit a ORDER BY id")]

    def freeze(self) -> None:
        """From the next connection on now() of the console's own statements stands still: a schema
        in front of pg_catalog has another one. Functions that pin their search_path do not see it.
        """
        self.at = f"'{FROZEN}'::timestamptz"
        self.query("CREATE SCHEMA frozen")
        self.query("CREATE FUNCTION frozen.now() RETURNS timestamptz LANGUAGE sql STABLE AS "
                   f"$$ SELECT '{FROZEN}'::timestamptz $$")
        self.query(f'ALTER DATABASE "{self.database}" SET search_path = frozen, pg_catalog, public')


