"""No statement of the console reads a whole table: each is explained as it really ran, with the
console's own settings and parameters, on tables that were analysed."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

from tests.tools import programs
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.terminal import Terminal

LARGE = {"effect", "effect_state", "effect_request", "attempt", "outbox", "outbox_dead", "audit", "unmatched",
         "conflict"}
STATES = ["pending", "retry_wait", "in_flight", "uncertain", "dead", "cancelled"]
KEYS = 12000
SURE = ["--yes", "--reason", "why"]


def fill(keys: Keys) -> None:
    owner = keys.ledger()
    keys.query(
        "WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode, "
        "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id, subject) "
        "SELECT 'payments', 'order:' || n, 'charge', 'idempotent', 'order:' || n, '', '', 'orders', "
        f"n % 8, n, 'e' || n, 's' || n / 3 FROM generate_series(1, {KEYS}) n "
        "RETURNING id, target, tenant, \"offset\" AS n) INSERT INTO counterfoil.effect_state "
        "(id, target, tenant, state, owner, unknown_sends, deadline, error_class, state_since, "
        "window_until, due_at) SELECT id, target, tenant, s, CASE s WHEN 'in_flight' THEN "
        f"{owner} END, (s IN ('uncertain', 'in_flight'))::int, CASE s WHEN 'in_flight' THEN now() + "
        "n % 7 * interval '1 min' - interval '2 min' END, CASE WHEN s IN ('retry_wait', 'uncertain', "
        "'dead') THEN 'http ' || 400 + n % 20 ELSE '' END, now() - n * interval '1 s', now() + "
        "n * interval '1 s', now() FROM (SELECT *, CASE WHEN n % 2 = 0 THEN 'completed' ELSE "
        "(ARRAY['pending', 'retry_wait', 'in_flight', 'uncertain', 'dead', 'cancelled'])[n / 2 % 6 + 1] "
        "END::counterfoil.state AS s FROM e) e")
    for sql in (
            # a third of what is to be sent waits, in lines of twenty, or put aside
            "UPDATE counterfoil.effect_state SET waiting = true, serial_key = CASE WHEN id % 4 = 0 "
            "THEN 's' || id % 50 END, aside = CASE WHEN id % 4 <> 0 THEN 'charge' END "
            "WHERE state IN ('pending', 'retry_wait') AND id % 3 = 0",
            "INSERT INTO counterfoil.effect_request (id, method, url, body) "
            "SELECT id, 'POST', 'https://x', '{}' FROM counterfoil.effect",
            "INSERT INTO counterfoil.attempt (effect_id, n, epoch, started_at, outcome, provider_id, "
            "response_body) SELECT id, k, k, now(), 'applied', 'ch_' || id, '{}' "
            "FROM counterfoil.effect, generate_series(1, 2) k",
            "INSERT INTO counterfoil.outbox (topic, type, payload) SELECT 't', 't', '' "
            f"FROM generate_series(1, {KEYS})",
            # of three outboxes: dead rows of keys of their own, and keys with many parked ones
            "INSERT INTO counterfoil.outbox_source (name, relation, id_column, event_id_column) VALUES "
            "('public.a', 'public.a', 'id', 'event'), ('public.b', 'public.b', 'id', 'event')",
            "INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, topic, "
            "type, ordering_key, created_at, died_at, size, reason, owner) SELECT (ARRAY["
            "'counterfoil.outbox', 'public.a', 'public.b'])[n % 3 + 1], n + 1000000, gen_random_uuid(), "
            "n % 2 = 0, CASE WHEN n % 2 = 0 THEN n / 100 ELSE n END, 't' || n % 5, 't', 'k' || n, now(), "
            f"now() - n * interval '1 s', 1, 'r', 'relay' FROM generate_series(1, {KEYS * 2}) n",
            "INSERT INTO counterfoil.unmatched SELECT 't' || n % 3, 'y' || n % 5, now() - n * "
            f"interval '1 min', 1, n FROM generate_series(1, {KEYS}) n",
            "INSERT INTO counterfoil.conflict (topic, partition, \"offset\", effect, idempotency_key, target, "
            "tenant, holder, event_id, fingerprint, settled_at) SELECT 't' || n % 9, 0, n, 'charge', "
            "'order:' || n, 'payments', '', n, 'e', '', CASE WHEN n % 2 = 0 THEN now() END "
            f"FROM generate_series(1, {KEYS}) n",
            "INSERT INTO counterfoil.audit (operation, claims, action, effect_id, idempotency_key, "
            "target, tenant, result, detail, from_state, to_state, before) SELECT gen_random_uuid(), "
            "'{}', 'replay', id, '', '', '', 'done', '', 'dead', 'pending', '{}' "
            "FROM counterfoil.effect"):
        keys.query(sql)
    for table in sorted(LARGE | {"instance", "poison"}):
        keys.query(f"VACUUM ANALYZE counterfoil.{table}")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def whole(node: dict[str, Any]) -> bool:
    """Does this node read a large table from end to end? Also an index can be read so: unless the
    index is a partial one of a few rows, or a LIMIT above ends it, there has to be a condition."""
    if node.get("Relation Name") not in LARGE:
        return False
    if node["Node Type"] == "Seq Scan":
        return True
    rows = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return "Index Cond" not in node and "Recheck Cond" not in node and rows > KEYS * 0.9


def test_no_statement_reads_a_whole_table(keys: Keys, config: Callable[..., Path],
                                          console: Callable[..., Terminal], postgres: Postgres):
    fill(keys)
    for name, value in (("session_preload_libraries", "auto_explain"),
                        ("auto_explain.log_min_duration", "0"), ("auto_explain.log_format", "json"),
                        ("auto_explain.log_analyze", "on"),
                        ("auto_explain.log_nested_statements", "on")):
        keys.query(f'ALTER DATABASE "{keys.database}" SET {name} = \'{value}\'')
    begin = postgres.log.stat().st_size
    # more keys than may be counted exactly, so that no count is meant to see them all
    sections = {"console": {"count_cap": 1000, "statement_timeout": "30s", "refresh": "1h"}}
    path = str(config(**sections))
    for state in ["all", "stale", "completed", *STATES]:
        assert programs.run("counterfoil", "--config", path, "list", state).returncode == 0
    for words in (["show", "order:7"], ["show", "7"], ["find", "order:77"], ["find", "s7"],
                  ["find", "ch_7"], ["find", "orders[7]@7"], ["replay", "order:9", "--dry-run"],
                  ["replay", "order:9", "--yes"], ["replay", "order:7", "--new-key", *SURE],
                  ["replay", "order:2", "--new-key", "--force", *SURE],
                  ["resolve", "order:19", "--happened", *SURE],
                  ["resolve", "order:31", "--did-not-happen", *SURE], ["cancel", "order:1", *SURE],
                  ["dead-letter", "order:3", *SURE], ["take-over", "order:29", *SURE],
                  ["note", "order:2", *SURE], ["erase", "order:4", *SURE],
                  ["replay", "--all", "--state", "dead", "--uncertain", "--dry-run"],
                  ["replay", "--all", "--state", "dead", "--error", "http 410", "--topic", "orders",
                   "--key-prefix", "order:1", "--older-than", "1m", "--dry-run"],
                  ["replay", "--all", "--state", "pending", "--state", "retrying", "--dry-run"],
                  ["resolve", "--all", "--happened", "--target", "payments", "--dry-run"],
                  ["ops"], ["ops", "show", "1"], ["ops", "cancel", "1"], ["outbox"], ["outbox", "dead"],
                  ["outbox", "parked", "--source", "public.a"],
                  ["outbox", "dead", "--topic", "t1", "--key", "k1"], ["outbox", "show", "1000001"],
                  ["outbox", "requeue", "1000001", "--dry-run"],
                  ["conflicts"], ["conflicts", "--topic", "t1"], ["conflicts", "show", "7"],
                  ["conflicts", "settle", "1", "2", "3", *SURE],
                  ["conflicts", "settle", "--topic", "t1", "--dry-run"],
                  ["outbox", "discard", "--all", "--topic", "t1", "--source", "public.b", "--dry-run"]):
        programs.run("counterfoil", "--config", path, *words)
    terminal = console(100, 30, **sections)
    terminal.press("Tab", "Tab", "Enter", "j", "Enter", "Escape", "Escape", "2", *["]"] * 9, "[",
                   *["NPage"] * 30, "x", "Escape", "/", "o", "Enter", "Enter", "x", "q", "q", "4", "]", "Enter",
                   "x", "r", "Escape", "Escape", "[", "x", "d", "Escape", "Tab", "Enter")
    with closing(terminal):
        terminal.sync()
    keys.query(f'ALTER DATABASE "{keys.database}" RESET ALL')
    ordered = keys.query("SELECT DISTINCT action FROM counterfoil.audit WHERE result = 'done' AND "
                         "reason = 'why'")
    assert len(ordered) == 10, ordered
    with open(postgres.log, encoding="utf-8") as log:
        log.seek(begin)
        texts = re.findall(r"LOG:  duration: [\d.]+ ms  plan:\n((?:\t.*\n)+)", log.read())
    plans = [json.loads("".join(line[1:] for line in text.splitlines(True))) for text in texts]
    ours = [plan for plan in plans if "counterfoil." in plan["Query Text"]]
    assert len({plan["Query Text"] for plan in ours}) > 25
    read = [(plan["Query Text"], node) for plan in ours for node in nodes(plan["Plan"])
            if whole(node)]
    assert not read, json.dumps(read[0], indent=1)
