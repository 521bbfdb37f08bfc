"""`counterfoil list`: what waits is among what is pending, and says why; a shadow is told apart."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import libconfig, programs
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def keys(postgres: Postgres, database: str) -> Iterator[Keys]:
    made = Keys(postgres, database)
    yield made
    made.close()


@pytest.fixture
def counterfoil(postgres: Postgres, database: str, tmp_path: Path) -> Run:
    def run(*words: str, **sections: Any) -> "subprocess.CompletedProcess[str]":
        config = tmp_path / "console.conf"
        config.write_text(libconfig.settings(libconfig.merge(
            {"postgres": {"conninfo": postgres.conninfo(database)}}, sections)))
        return programs.run("counterfoil", "--config", str(config), *words)
    return run


def answer(done: "subprocess.CompletedProcess[str]") -> Any:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def test_what_waits_is_pending_too_and_says_why(keys: Keys, counterfoil: Run):
    keys.add("head", "in_flight", serial_key="s", unknown_sends=1, owner=keys.ledger())
    keys.add("next", "pending", serial_key="s", waiting=True)
    keys.add("last", "pending", serial_key="s", waiting=True, due="-1 hour")
    keys.add("aside", "pending", waiting=True, aside="charge", tenant="acme")
    keys.add("again", "retry_wait", serial_key="s", waiting=True, error_class="http 503")
    keys.add("free", "pending")
    keys.add("held", "pending", target="mail")
    keys.query("INSERT INTO counterfoil.target_state (target, held) VALUES ('mail', true)")

    def waits() -> dict[str, tuple[Any, Any]]:
        return {row["key"]: (row["waits_behind"], row["stopped"])
                for row in answer(counterfoil("list", "pending", "--json"))}
    assert waits() == {"next": ("head", None), "last": ("head", None), "aside": (None, None),
                       "free": (None, None), "held": (None, "target")}
    (again,) = answer(counterfoil("list", "retry_wait", "--json"))
    assert (again["waits_behind"], again["error"]) == ("head", "http 503")
    assert {row["target"]: row["waiting"] for row in answer(counterfoil("targets", "--json"))} == \
        {"payments": 5, "mail": 1}
    title, *lines = counterfoil("list", "pending").stdout.splitlines()
    assert title.split() == ["STATE", "KEY", "TARGET", "TENANT", "TRY", "AGE", "WAITS"]
    assert [line for line in lines if " next " in line][0].endswith("  behind head")
    assert [line for line in lines if " held " in line][0].endswith("  target held")
    for scope, name, stopped in (("tenant", "acme", ["aside"]), ("effect", "charge", list(waits()))):
        keys.query("INSERT INTO counterfoil.pause (scope, name) VALUES (%s, %s)", (scope, name))
        assert sorted(key for key, (_, why) in waits().items() if why == scope) == sorted(stopped)
    keys.query("INSERT INTO counterfoil.pause (scope) VALUES ('everything')")
    assert set(why for _, why in waits().values()) == {"everything"}
    assert "behind head, everything paused" in counterfoil("list", "pending").stdout
    assert "It waits behind head, an older key" in answer(counterfoil("show", "next", "--json"))["why"]


def test_pages_of_what_waits_and_of_what_does_not_are_joined(keys: Keys, counterfoil: Run):
    """More than a page of each, and retrying ones between: each pending key once."""
    keys.query(
        "WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode, "
        "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id) SELECT "
        "'t' || n % 3, n::text, 'charge', 'idempotent', n::text, '', '', 'orders', 0, n, n::text "
        "FROM generate_series(1, 4500) n RETURNING id, target, tenant, \"offset\" AS n) "
        "INSERT INTO counterfoil.effect_state (id, target, tenant, state, serial_key, waiting, due_at) "
        "SELECT id, target, tenant, CASE n % 5 WHEN 0 THEN 'retry_wait' ELSE 'pending' END"
        "::counterfoil.state, 's' || n % 7, n % 2 = 0, now() + n % 50 * interval '1 s' FROM e")
    lines = counterfoil("list", "pending", "--jsonl", "--limit", "10000").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert sorted(int(row["key"]) for row in rows) == [n for n in range(1, 4501) if n % 5]
    places = [(row["target"], row["tenant"], row["due_at"], row["id"]) for row in rows]
    assert places == sorted(places)
    assert len(counterfoil("list", "pending", "--jsonl", "--limit", "1234").stdout.splitlines()) == 1234


def test_a_shadow_is_told_apart(keys: Keys, counterfoil: Run):
    """In the list of what is completed, among all, when it is found and when it is shown."""
    keys.add("order:1", "completed", outcome="shadow")
    keys.add("order:2", "completed", outcome="applied", http_status=200)
    for words in (("list", "completed"), ("list",), ("find", "order:")):
        rows = answer(counterfoil(*words, "--json"))
        assert {(row["key"], row["state"], row["shadow"]) for row in rows} == \
            {("order:1", "completed", True), ("order:2", "completed", False)}
        states = {line.split()[1]: line.split()[0] for line in counterfoil(*words).stdout.splitlines()}
        assert (states["order:1"], states["order:2"]) == ("shadow", "completed"), words
    assert "state            shadow for 10m" in counterfoil("show", "order:1").stdout
    assert [answer(counterfoil("show", key, "--json"))["shadow"]
            for key in ("order:1", "order:2")] == [True, False]
