"""Keys that were completed long ago, as they look once their requests have gone (request_keep): a
row of effect, of effect_state and of attempt each."""

from __future__ import annotations

from contextlib import closing
from typing import Iterator

from .setting import DATABASE, Bench

FULL = f"{DATABASE}_full"
STEP = 1_000_000
FIRST_ORDER = 1_000_000_000     # no order of a topic has its number

# Ids and times are from before those of the events to come, as time-ordered as those.
EFFECT = """
INSERT INTO counterfoil.effect (id, target, tenant, idempotency_key, effect, mode, provider_key,
  fingerprint, event_hash, topic, partition, "offset", event_id, event_type, subject, created_at,
  event_no)
OVERRIDING SYSTEM VALUE
SELECT n, 'payments', '', k, 'charge', 'idempotent', k, h, h, 'finished', n %% 12, n / 12,
  format('018f%%s-%%s-7000-%%s-%%s', substr(x, 1, 4), substr(x, 5, 4), substr(m, 1, 4), substr(m, 5, 12)),
  'order.placed', 'order-' || o, now() - interval '40 days', 0
FROM generate_series(%(first)s::bigint, %(last)s) n, LATERAL (SELECT n + %(order)s AS o) o,
  LATERAL (SELECT 'order:' || o || ':charge' AS k, lpad(to_hex(n), 8, '0') AS x,
    md5(n::text) AS m, decode(md5(n::text), 'hex') AS h OFFSET 0) v
"""
STATE = """
INSERT INTO counterfoil.effect_state (id, target, tenant, state, epoch, tries, attempts,
  first_sent_at, sent_at, window_until, due_at, outcome, http_status, provider_id, state_since,
  completed_at)
SELECT n, 'payments', '', 'completed', 1, 1, 1, t, t, t + interval '1 day', t, 'applied', 200,
  'ch_' || lpad(n::text, 12, '0'), t, t
FROM generate_series(%(first)s::bigint, %(last)s) n,
  LATERAL (SELECT now() - interval '40 days' AS t) t
"""
ATTEMPT = """
INSERT INTO counterfoil.attempt (effect_id, n, epoch, owner, started_at, took_us, outcome,
  http_status, error, provider_id, provider_key, response_head, response_body, recorded_at)
SELECT n, 1, 1, 1, t, 500, 'applied', 200, NULL, p, 'order:' || n + %(order)s || ':charge',
  convert_to(E'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n', 'UTF8'),
  convert_to('{"id":"' || p || '"}', 'UTF8'), t
FROM generate_series(%(first)s::bigint, %(last)s) n,
  LATERAL (SELECT now() - interval '40 days' AS t, 'ch_' || lpad(n::text, 12, '0') AS p) v
"""
AFTERWARDS = (
    "SELECT setval('counterfoil.effect_id_seq', (SELECT max(id) FROM counterfoil.effect))",
    "VACUUM (ANALYZE, FREEZE) counterfoil.effect", "VACUUM (ANALYZE, FREEZE) counterfoil.effect_state",
    "VACUUM (ANALYZE, FREEZE) counterfoil.attempt", "CHECKPOINT")


def make(bench: Bench, keys: int) -> str:
    """A database that holds so many of them; its name."""
    bench.postgres.create_database(FULL, DATABASE)
    with closing(bench.postgres.connect(FULL, True)) as connection:
        cursor = connection.cursor()
        for first in range(1, keys + 1, STEP):
            for statement in (EFFECT, STATE, ATTEMPT):
                cursor.execute(statement, {"first": first, "last": min(first + STEP - 1, keys),
                                           "order": FIRST_ORDER})
        for statement in AFTERWARDS:
            cursor.execute(statement)
    return FULL


def megabytes(bench: Bench) -> float:
    return bench.postgres.value("SELECT pg_database_size(%s)", (FULL,)) / 1e6
