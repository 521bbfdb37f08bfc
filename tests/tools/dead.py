"""Dead and parked rows, and what relays say of themselves, as relays would have left them: written
straight into the tables, for tests of what is shown of them and of what a person may do to them."""

from __future__ import annotations

import uuid
from typing import Any

from .postgres import Postgres

OWN = "counterfoil.outbox"


class Dead:
    """`at` is the SQL of now: all times are given as intervals before it."""

    def __init__(self, postgres: Postgres, database: str, at: str = "clock_timestamp()") -> None:
        self.at = at
        self.connection = postgres.connect(database)
        self.last = 0

    def close(self) -> None:
        self.connection.close()

    def query(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def _ago(self, interval: str | None) -> str:
        return "NULL" if interval is None else f"({self.at} - interval '{interval}')"

    def source(self, name: str) -> None:
        self.query("INSERT INTO counterfoil.outbox_source (name, relation, id_column, event_id_column)"
                   " VALUES (%s, %s, 'seq', 'id') ON CONFLICT DO NOTHING", (name, name))

    def add(self, source: str = OWN, *, row_id: int | None = None, event_id: str | None = None,
            parked: bool = False, topic: str = "orders", type: str = "order.placed",
            ordering_key: str | None = "order-1", payload: bytes | None = b"{}",
            died: str = "10 min", created: str = "11 min", reason: str = "a test",
            order_hash: int | None = None, **columns: Any) -> int:
        """Its row's id. Rows of our own outbox have had theirs from its sequence."""
        self.source(source)
        if row_id is None:
            self.last += 1
            row_id = self.last
        if source == OWN:
            self.query("SELECT setval('counterfoil.outbox_id_seq', greatest(%s, (SELECT last_value FROM"
                       " counterfoil.outbox_id_seq)))", (row_id,))
        values = {"source": source, "row_id": row_id, "event_id": event_id or str(uuid.uuid4()),
                  "parked": parked, "order_hash": order_hash, "topic": topic, "type": type,
                  "ordering_key": ordering_key, "payload": payload, "reason": reason, "owner": "relay-1",
                  "size": len(payload or b"") + 20, **columns}
        if values["source"] != OWN:
            values["payload"] = None
        self.query(f"INSERT INTO counterfoil.outbox_dead ({', '.join(values)}, died_at, created_at) VALUES"
                   f" ({', '.join(['%s'] * len(values))}, {self._ago(died)}, {self._ago(created)})",
                   list(values.values()))
        return row_id

    def key(self, parked: int = 1, order_hash: int = 4711, **columns: Any) -> list[int]:
        """A dead row and some parked behind it: their ids."""
        first = self.add(order_hash=order_hash, **columns)
        behind = {**columns, "reason": f"waits behind row {first}"}
        return [first, *(self.add(parked=True, order_hash=order_hash, **behind) for _ in range(parked))]

    def relay(self, name: str, *, source: str = OWN, role: str = "owner", seen: str = "1 s",
              started: str = "4 days 2 hours", oldest: str | None = None, **columns: Any) -> None:
        values = {"owner": f"{name}/1f3a90bc/4712", "name": name, "source": source, "role": role,
                  "version": "0.1.0", "backlog": 0, "in_flight": 0, "batch": 0, "published": 0,
                  "rate": 0, "violations": 0, "blocked": 0, "oldest": oldest, **columns}
        self.query(f"INSERT INTO counterfoil.relay ({', '.join(values)}, started_at, seen_at) VALUES"
                   f" ({', '.join(['%s'] * len(values))}, {self._ago(started)}, {self._ago(seen)})",
                   list(values.values()))

    def topic(self, topic: str, *, source: str = OWN, state: str = "open", pending: int = 0,
              rate: float = 0, oldest: str | None = None, reason: str | None = None,
              since: str | None = None, seen: str = "1 s") -> None:
        self.query("INSERT INTO counterfoil.relay_topic (source, topic, pending, oldest, rate, published,"
                   f" state, reason, since, seen_at) VALUES (%s, %s, %s, %s, %s, 0, %s, %s,"
                   f" {self._ago(since)}, {self._ago(seen)})",
                   (source, topic, pending, oldest, rate, state, reason))

    def rows(self) -> list[int]:
        """The ids of all that is dead or parked."""
        return [row for (row,) in self.query("SELECT row_id FROM counterfoil.outbox_dead ORDER BY 1")]

    def waiting(self) -> list[int]:
        return [row for (row,) in self.query("SELECT id FROM counterfoil.outbox ORDER BY 1")]

    def audit(self) -> list[dict[str, Any]]:
        return [row for (row,) in self.query("SELECT to_jsonb(a) FROM counterfoil.audit a ORDER BY id")]
