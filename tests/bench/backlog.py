"""The outbox, filled with orders of 300 to 400 bytes a row; order.h makes the same in C."""

from __future__ import annotations

from typing import Any

# A row: number, payload, ordering key, type and headers. The note is noise, as in base64 and ids.
MAKE = """
CREATE SCHEMA bench;
CREATE UNLOGGED TABLE bench.backlog AS
SELECT n, 'order.placed' AS type, 'order-' || n AS ordering_key,
       convert_to(format('{"order_id":%%s,"customer_id":"customer-%%s","total_cents":%%s,'
                         '"currency":"usd","note":"%%s"}', n, n %% 997, 100 + n %% 90000,
                         left(h || md5(h) || md5(h || 'b') || md5(h || 'c') || md5(h || 'd')
                              || md5(h || 'e') || md5(h || 'f'), 127 + n %% 80)), 'UTF8')
         AS payload,
       jsonb_build_object('tenant', 'tenant-' || n %% 31,
                          'cf-idempotency-key', 'order:' || n || ':charge') AS headers
FROM generate_series(1, %s) n, LATERAL (SELECT md5(n::text) AS h) noise
"""
# `keys`: that many ordering keys take turns; NULL: each row has its own. In the order of `n`, for a
# scan of a table goes from its beginning here (synchronize_seqscans is off).
FILL = """
INSERT INTO counterfoil.outbox (topic, type, ordering_key, payload, headers)
SELECT %(topic)s, type, coalesce('key-' || n %% %(keys)s::int, ordering_key), payload, headers
FROM bench.backlog LIMIT %(rows)s
"""


class Backlog:
    def __init__(self, connection: Any, rows: int) -> None:
        """`rows`: different ones; a larger backlog has them several times."""
        self._rows = rows
        self._cursor = connection.cursor()
        self._cursor.execute(MAKE, (rows,))
        self._cursor.execute("ANALYZE bench.backlog")

    def _value(self, sql: str, *parameters: object) -> Any:
        self._cursor.execute(sql, parameters)
        return self._cursor.fetchone()[0]

    def _insert(self, topic: str, rows: int, keys: int | None = None) -> None:
        self._cursor.execute(FILL, {"topic": topic, "rows": rows, "keys": keys})

    def add_one(self, topic: str) -> None:
        self._insert(topic, 1)

    def clear(self) -> None:
        self._cursor.execute("TRUNCATE counterfoil.outbox")

    def fill(self, topic: str, rows: int, keys: int | None = None) -> int:
        """Empties and fills the outbox; the highest id in it. The same work lies before whoever
        drains it: everything is written, counted and seen."""
        self.clear()
        for begun in range(0, rows, self._rows):
            self._insert(topic, min(self._rows, rows - begun), keys)
        for statement in ("VACUUM ANALYZE counterfoil.outbox", "CHECKPOINT"):
            self._cursor.execute(statement)
        return self._value("SELECT max(id) FROM counterfoil.outbox")

    def has(self, row: int) -> bool:
        return self._value("SELECT EXISTS (SELECT FROM counterfoil.outbox WHERE id = %s)", row)

    def has_after(self, row: int) -> bool:
        return self._value("SELECT EXISTS (SELECT FROM counterfoil.outbox WHERE id > %s)", row)

    def count(self) -> int:
        return self._value("SELECT count(*) FROM counterfoil.outbox")

    def row_size(self) -> tuple[int, int]:
        """Least and most bytes of a row."""
        self._cursor.execute("SELECT min(n), max(n) FROM (SELECT length(payload) + length(type) "
                             "+ length(ordering_key) + pg_column_size(headers) AS n "
                             "FROM bench.backlog) sizes")
        return self._cursor.fetchone()
