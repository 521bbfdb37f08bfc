"""The console's commands, and the SQL functions by which a person changes a key."""

from __future__ import annotations

import json
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import psycopg2
import psycopg2.errors
import pytest

from tests.tools import libconfig, programs, waiting
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.world import World

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OPERATION = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def keys(postgres: Postgres, database: str) -> Iterator[Keys]:
    made = Keys(postgres, database)
    yield made
    made.close()


@pytest.fixture
def counterfoil(postgres: Postgres, database: str, tmp_path: Path) -> Run:
    """A command against this test's database; `sections` are of the configuration."""
    def run(*words: str, environment: dict[str, str] | None = None,
            **sections: Any) -> "subprocess.CompletedProcess[str]":
        config = tmp_path / "console.conf"
        config.write_text(libconfig.settings(libconfig.merge(
            {"postgres": {"conninfo": postgres.conninfo(database)}}, sections)))
        return programs.run("counterfoil", "--config", str(config), *words,
                            environment=environment)
    return run


def answer(done: "subprocess.CompletedProcess[str]") -> Any:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def refusal(done: "subprocess.CompletedProcess[str]", code: int) -> str:
    """Of JSON mode: an object on stderr, nothing on stdout."""
    assert (done.returncode, done.stdout) == (code, ""), done
    error = json.loads(done.stderr)
    assert error["exit"] == code
    return error["message"]


# --- list -----------------------------------------------------------------------------------------

def test_list_each_state(keys: Keys, counterfoil: Run):
    keys.ledger()
    expected = {"pending": ["p"], "in_flight": ["s", "f"], "stale": ["s"], "retry_wait": ["r"],
                "uncertain": ["u"], "dead": ["d2", "d1"], "completed": ["c"], "cancelled": ["x"]}
    keys.add("p", "pending")
    keys.add("f", "in_flight", unknown_sends=1)
    keys.add("s", "in_flight", unknown_sends=1, deadline="1 min", since="5 min")
    keys.add("r", "retry_wait")
    keys.add("u", "uncertain", unknown_sends=1)
    keys.add("d1", "dead", since="9 min")
    keys.add("d2", "dead", since="8 min")
    keys.add("c", "completed")
    keys.add("x", "cancelled")
    for state, names in expected.items():
        rows = answer(counterfoil("list", state, "--json"))
        assert sorted(row["key"] for row in rows) == sorted(names), state
    assert [row["key"] for row in answer(counterfoil("list", "dead", "--json"))] == ["d2", "d1"]
    everything = answer(counterfoil("list", "--json"))
    assert [row["key"] for row in everything] == ["x", "c", "d2", "d1", "u", "r", "s", "f", "p"]
    assert answer(counterfoil("list", "retrying", "--json"))[0]["state"] == "retry_wait"
    (row,) = answer(counterfoil("list", "completed", "--json"))
    assert row["target"] == "payments" and row["topic"] == "orders" and row["age_seconds"] >= 600


def test_list_pages_are_joined(keys: Keys, counterfoil: Run):
    """More keys than a page, rare ones among many: each once, in order."""
    keys.query(
        "WITH e AS (INSERT INTO counterfoil.effect (target, tenant, idempotency_key, effect, mode, "
        "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id) SELECT "
        "'t' || n % 3, '', n::text, 'charge', 'idempotent', n::text, '', '', 'orders', 0, n, n::text "
        "FROM generate_series(1, 45000) n RETURNING id, target, tenant, \"offset\" AS n) "
        "INSERT INTO counterfoil.effect_state (id, target, tenant, state, due_at, state_since) "
        "SELECT id, target, tenant, CASE WHEN n % 15000 = 1 THEN 'pending' WHEN n % 15000 = 2 THEN "
        "'completed' WHEN n % 20 = 0 THEN 'dead' ELSE 'retry_wait' END::counterfoil.state, "
        "now() + n * interval '1 s', now() - n / 7 * interval '1 s' FROM e")
    lines = counterfoil("list", "dead", "--jsonl", "--limit", "5000").stdout.splitlines()
    seen = [(json.loads(line)["since"], json.loads(line)["id"]) for line in lines]
    assert len(seen) == 2250 and seen == sorted(set(seen), reverse=True)
    assert len(answer(counterfoil("list", "dead", "--json", "--limit", "1234"))) == 1234
    pending = answer(counterfoil("list", "pending", "--json"))
    assert sorted(int(row["key"]) for row in pending) == [1, 15001, 30001]
    completed = answer(counterfoil("list", "completed", "--json"))
    assert [int(row["key"]) for row in completed] == [30002, 15002, 2]


def test_list_for_people(keys: Keys, counterfoil: Run):
    keys.add("order:a\x1b[31m\n\u202e", since="3 h", error_class="http 503")
    keys.add("order:世", since="2 min 10 s")
    done = counterfoil("list", "dead", environment={"LC_ALL": "C.UTF-8"})
    assert (done.returncode, done.stderr) == (0, "")
    title, first, second = done.stdout.splitlines()
    assert title.split() == ["STATE", "KEY", "TARGET", "TRY", "AGE", "ERROR"]
    assert "order:世" in first and "2m 1" in first
    assert "order:a\\u001b[31m\\n\\u202e" in second and "3h 00m" in second
    assert counterfoil("list", "dead", environment={"LC_ALL": "C"}).stdout.isascii()
    assert counterfoil("list", "cancelled").stdout == ""


# --- show and find --------------------------------------------------------------------------------

def test_show(keys: Keys, counterfoil: Run):
    keys.add("order:1", tenant="acme", subject="order-1", event_id="ev-1", body={"a": 1},
             tries=2, error_class="http 402", outcome="refused", http_status=402, attempts=[
                 {"outcome": "not_sent", "error": "connect timeout"},
                 {"outcome": "refused", "http_status": 402, "response_body": b"\xff\x00",
                  "response_head": b"HTTP/1.1 402 No\r\n", "provider_id": "ch_1"}])
    key = answer(counterfoil("show", "order:1", "--json"))
    assert (key["key"], key["tenant"], key["state"], key["subject"], key["event_id"]) == \
        ("order:1", "acme", "dead", "order-1", "ev-1")
    assert key["request"]["idempotency_key"] == "acme:order:1"
    assert key["request"]["body"] == '{"a":1}' and key["request"]["body_cut"] is False
    assert [attempt["outcome"] for attempt in key["attempts"]] == ["refused", "not_sent"]
    assert key["response"]["body_base64"] == "/wA=" and key["response"]["body_size"] == 2
    assert "The provider said no: http 402" in key["why"]
    assert answer(counterfoil("show", str(key["id"]), "--json"))["key"] == "order:1"
    words = counterfoil("show", "order:1").stdout
    assert "acme:order:1" in words and "connect timeout" in words and '"a": 1' in words


def test_show_what_stops_a_key(keys: Keys, counterfoil: Run):
    keys.add("order:1", "pending", tenant="acme", waiting=True, aside="charge")
    keys.add("order:2", "pending", waiting=True, serial_key="s")

    def why(key: str) -> str:
        return answer(counterfoil("show", key, "--json"))["why"]

    assert why("order:1").startswith("Recorded, and not sent yet; due now.")
    assert "It waits behind an older key of the same serial key." in why("order:2")
    for scope, name, words in (("everything", "", "--all"), ("effect", "charge", "--effect charge"),
                               ("tenant", "acme", "--tenant acme")):
        keys.query("INSERT INTO counterfoil.pause (scope, name) VALUES (%s, %s)", (scope, name))
        assert f"`counterfoil resume {words}`" in why("order:1")
    assert "--all" in why("order:2") and "--tenant" not in why("order:2")


def test_show_a_big_body(keys: Keys, counterfoil: Run):
    keys.add("order:1", body=b"[" + b"1," * 500000 + b"1]")
    request = answer(counterfoil("show", "order:1", "--json"))["request"]
    assert (len(request["body"]), request["body_size"], request["body_cut"]) == \
        (65536, 1000003, True)


def test_which_key_is_meant(keys: Keys, counterfoil: Run):
    keys.add("order:1", target="mail")
    keys.add("order:1", target="payments", tenant="a")
    keys.add("order:1", target="payments", tenant="b")
    assert "3 keys of this name" in refusal(counterfoil("show", "order:1", "--json"), 5)
    assert "2 keys" in refusal(counterfoil("show", "order:1", "--target", "payments", "--json"), 5)
    one = answer(counterfoil("show", "order:1", "--target", "payments", "--tenant", "b", "--json"))
    assert one["tenant"] == "b"
    assert answer(counterfoil("show", "order:1", "--target", "mail", "--json"))["target"] == "mail"
    assert "no key" in refusal(counterfoil("show", "order:9", "--json"), 4)
    assert "no key" in refusal(counterfoil("show", "123456", "--json"), 4)


def test_find(keys: Keys, counterfoil: Run):
    keys.add("order:1:charge", subject="customer-7", event_id="ev-1",
             attempts=[{"outcome": "applied", "provider_id": "ch_7"}])
    keys.add("order:1:mail", subject="order:1", event_id="ev-2")
    keys.add("order:2:charge", event_id="order:1:charge")
    offset = keys.offset

    def found(text: str) -> dict[str, str]:
        return {row["key"]: row["matched"] for row in answer(counterfoil("find", text, "--json"))}
    assert found("order:1") == {"order:1:charge": "key prefix", "order:1:mail": "key prefix, subject"}
    assert found("order:1:charge") == {"order:1:charge": "key", "order:2:charge": "event"}
    assert found("customer-7") == {"order:1:charge": "subject"}
    assert found("ch_7") == {"order:1:charge": "provider id"}
    assert found(f"orders[4]@{offset}") == {"order:2:charge": "offset"}
    assert "MATCHED" in counterfoil("find", "ch_7").stdout
    assert "nothing" not in refusal(counterfoil("find", "order:3", "--json"), 4)
    for text in ("%", "order:_", "orders[4]@1", "'", "\\"):
        assert counterfoil("find", text).returncode == 4
    assert counterfoil("find", "").returncode == 2


# --- replay ---------------------------------------------------------------------------------------

def test_replay(keys: Keys, counterfoil: Run):
    keys.add("order:1", epoch=3)
    would = answer(counterfoil("replay", "order:1", "--dry-run", "--json"))
    assert (would["result"], would["dry_run"], would["to_state"]) == ("done", True, "pending")
    assert keys.state("order:1") == "dead" and keys.audit() == []
    done = answer(counterfoil("replay", "order:1", "--yes", "--reason", "INC-3321 über", "--json",
                              environment={"SSH_CONNECTION": "10.0.4.7 5 10.0.0.1 22"}))
    (audit,) = keys.audit()
    assert (done["result"], done["from_state"], done["to_state"]) == ("done", "dead", "pending")
    assert (audit["operation"], audit["reason"], audit["who"], audit["claims"]["address"]) == \
        (done["operation"], "INC-3321 über", "postgres", "10.0.4.7")
    assert keys.state("order:1") == "pending"


def test_replay_asks_for_yes(keys: Keys, counterfoil: Run):
    keys.add("order:1")
    assert "say --yes" in counterfoil("replay", "order:1").stderr
    assert "say --yes" in refusal(counterfoil("replay", "order:1", "--json"), 2)
    assert keys.audit() == []


@pytest.mark.parametrize("state,columns,words,result", [
    ("completed", {}, "already completed", "already"),
    ("uncertain", {"unknown_sends": 1, "window": "1 min"}, "execute again as if new", "refused"),
    ("in_flight", {"unknown_sends": 1}, "take it over", "refused"),
    ("cancelled", {}, "it was cancelled", "refused"),
    ("pruned", {}, "only its key is kept", "refused"),
    ("dead", {"method": None}, "never rendered", "refused"),
])
def test_replay_that_changes_nothing(keys: Keys, counterfoil: Run, state: str,
                                     columns: dict[str, Any], words: str, result: str):
    """L35: the exit code and the audit say so, and the key is as it was."""
    keys.add("order:1", state, **columns)
    before = keys.query("SELECT to_jsonb(s) FROM counterfoil.effect_state s")
    assert words in refusal(counterfoil("replay", "order:1", "--yes", "--json"), 5)
    assert words in counterfoil("replay", "order:1", "--yes", "--reason", "again").stderr
    assert keys.query("SELECT to_jsonb(s) FROM counterfoil.effect_state s") == before
    assert [(row["result"], row["from_state"], row["to_state"], row["after"])
            for row in keys.audit()] == [(result, state, state, None)] * 2


def test_a_key_past_its_time_is_refused(keys: Keys, counterfoil: Run):
    keys.add("order:1")
    keys.query("UPDATE counterfoil.effect SET not_after = now() - interval '1 s'")
    assert "given up again" in refusal(counterfoil("replay", "order:1", "--yes", "--json"), 5)


# --- errors ---------------------------------------------------------------------------------------

def test_errors_of_json_mode_are_json(postgres: Postgres, keys: Keys, counterfoil: Run):
    """C57"""
    away = {"postgres": {"conninfo": "host=/nonexistent dbname=shop"}}
    assert "/nonexistent" in refusal(counterfoil("list", "--json", **away), 69)
    assert "cannot connect" in counterfoil("list", **away).stderr
    assert "unknown key" in refusal(counterfoil("list", "--json", console={"colour": "red"}), 78)
    assert "there is no state" in refusal(counterfoil("list", "deadish", "--json"), 2)
    for words in (["list", "--limit", "0"], ["list", "--limit", "1x"], ["list", "--yes"],
                  ["list", "dead", "more"], ["show"], ["find"], ["replay"], ["show", "a", "b"],
                  ["list", "--nonsense"], ["show", "a", "--limit", "1"]):
        done = counterfoil(*words)
        assert done.returncode == 2 and "usage: counterfoil" in done.stderr, words
        assert done.stdout == ""
    for command in ("list", "show", "find", "replay"):
        assert counterfoil(command, "--help").stdout.startswith(f"usage: counterfoil {command}")
    keys.query("DELETE FROM counterfoil.migration WHERE version >= 4")
    assert "run `counterfoil migrate`" in refusal(counterfoil("list", "--json"), 78)


def test_a_role_that_may_not(postgres: Postgres, database: str, keys: Keys, counterfoil: Run):
    """No right beyond reading: nothing is changed, by no way; and who has none at all reads nothing.
    """
    role = f"reader_{database}"
    keys.query(f"CREATE ROLE {role} LOGIN")
    keys.query(f"GRANT USAGE ON SCHEMA counterfoil TO {role}")
    try:
        reader = {"postgres": {"conninfo": postgres.conninfo(database, role)}}
        assert counterfoil("list", "--json", **reader).returncode == 77
        keys.query(f"GRANT SELECT ON ALL TABLES IN SCHEMA counterfoil TO {role}")
        keys.add("order:1")
        assert len(answer(counterfoil("list", "--json", **reader))) == 1
        assert "permission denied" in refusal(
            counterfoil("replay", "order:1", "--yes", "--json", **reader), 77)
        assert keys.state("order:1") == "dead" and keys.audit() == []
    finally:
        keys.query(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_who_is_the_login_and_not_the_owner(postgres: Postgres, database: str, keys: Keys,
                                            counterfoil: Run):
    role = f"operator_{database}"
    keys.query(f"CREATE ROLE {role} LOGIN")
    keys.query(f"GRANT USAGE ON SCHEMA counterfoil TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA "
               f"counterfoil TO {role}; GRANT EXECUTE ON FUNCTION counterfoil.replay TO {role}")
    try:
        keys.add("order:1")
        operator = {"postgres": {"conninfo": postgres.conninfo(database, role)}}
        assert answer(counterfoil("replay", "order:1", "--yes", "--json", **operator))["result"] == \
            "done"
        assert keys.audit()[0]["who"] == role
        with closing(psycopg2.connect(postgres.conninfo(database, role))) as connection:
            for sql in ("UPDATE counterfoil.audit SET who = 'nobody'", "DELETE FROM counterfoil.audit",
                        "UPDATE counterfoil.effect_state SET state = 'dead'"):
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    connection.cursor().execute(sql)
                connection.rollback()
    finally:
        keys.query(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_read_only_configuration(keys: Keys, counterfoil: Run):
    keys.add("order:1")
    read_only = {"console": {"read_only": True}}
    assert refusal(counterfoil("replay", "order:1", "--yes", "--json", **read_only), 77)
    assert answer(counterfoil("replay", "order:1", "--dry-run", "--json", **read_only))
    assert keys.state("order:1") == "dead"


def test_the_session_may_not_write_by_itself(keys: Keys, counterfoil: Run):
    """What the commands ask is asked in read-only transactions; only an order says otherwise."""
    keys.query("CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN "
               "DELETE FROM counterfoil.audit; RETURN clock_timestamp(); END $$")
    keys.query(f'ALTER DATABASE "{keys.database}" SET search_path = public, pg_catalog')
    assert "read-only transaction" in counterfoil("list").stderr


# --- the functions --------------------------------------------------------------------------------

def replay(keys: Keys, effect: int, epoch: int = 0, state: str = "dead",
           operation: str = OPERATION) -> tuple[Any, ...]:
    ((verdict),) = keys.query(
        "SELECT result, action, detail, from_state::text, to_state::text FROM counterfoil.replay("
        "%s, %s, %s, %s, 'why', '{}')", (effect, epoch, state, operation))
    return verdict


def test_the_same_operation_is_done_once(keys: Keys):
    effect, other = keys.add("order:1"), keys.add("order:2")
    first = replay(keys, effect)
    assert first[0] == "done"
    keys.query("UPDATE counterfoil.effect_state SET state = 'dead' WHERE id = %s", (effect,))
    assert replay(keys, effect) == first        # whatever has become of the key since
    assert len(keys.audit()) == 1 and keys.state("order:1") == "dead"
    with pytest.raises(psycopg2.errors.UniqueViolation):
        replay(keys, other)
    assert keys.state("order:2") == "dead"


def test_what_is_no_longer_as_it_was_shown(keys: Keys):
    effect = keys.add("order:1", epoch=7)
    for epoch, state in ((6, "dead"), (8, "dead"), (7, "pending"), (7, "completed")):
        assert replay(keys, effect, epoch, state, str(uuid.uuid4()))[0] == "changed"
    assert replay(keys, effect + 1, 7, "dead")[0] == "missing"
    assert keys.state("order:1") == "dead"
    assert replay(keys, effect, 7)[0] == "done"


def test_two_people_at_once(keys: Keys, postgres: Postgres):
    """Each has an operation of their own: one is carried out, the other told that it changed."""
    effect = keys.add("order:1")

    def order() -> str:
        with closing(postgres.connect(keys.database)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT result FROM counterfoil.replay(%s, 0, 'dead', %s, '', '{}')",
                           (effect, str(uuid.uuid4())))
            return cursor.fetchone()[0]
    with closing(postgres.connect(keys.database, autocommit=False)) as gate, \
            ThreadPoolExecutor(4) as pool:
        gate.cursor().execute("SELECT FROM counterfoil.effect_state FOR UPDATE")
        running = [pool.submit(order) for _ in range(4)]
        waiting.until(lambda: keys.value("SELECT count(*) FROM pg_stat_activity WHERE "
                                         "wait_event_type = 'Lock'") == 4, 10, "all to wait")
        gate.rollback()
        assert sorted(one.result() for one in running) == ["changed", "changed", "changed", "done"]
    assert keys.value("SELECT replays FROM counterfoil.effect_state") == 1
    assert sorted(row["result"] for row in keys.audit()) == \
        ["changed", "changed", "changed", "done"]


@pytest.mark.parametrize("since,kept", [("47 hours", True), ("49 hours", False)])
def test_the_window_begins_anew_only_when_it_is_over_for_certain(keys: Keys, since: str, kept: bool):
    """A window of 24 h: nothing was sent for twice as long, or the old one stands."""
    effect = keys.add("order:1", since=since, first_sent="50 hours", window="26 hours")
    assert replay(keys, effect)[0] == "done"
    ((first, until),) = keys.query(
        "SELECT first_sent_at IS NOT NULL, window_until IS NOT NULL FROM counterfoil.effect_state")
    assert (first, until) == (kept, kept)


def test_an_order_is_durable(keys: Keys):
    """Also where the server's default is not to wait."""
    effect = keys.add("order:1")
    with closing(keys.postgres.connect(keys.database, autocommit=False)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SELECT result FROM counterfoil.replay(%s, 0, 'dead', %s, '', '{}')",
                       (effect, OPERATION))
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)


# --- with a ledger at work ------------------------------------------------------------------------

def test_a_replayed_key_is_charged_once(world: World):
    """C30 C31: the same key, a number for each attempt, the earlier ones stand, one charge; and what
    was completed is left alone."""
    world.migrate()
    (order,) = world.orders(1)
    world.provider.fault("status", status=404, times=2)
    world.start()
    world.place([order])
    config = str(world.write_configuration())

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return programs.run("counterfoil", "--config", config, *words)
    waiting.until(lambda: world.state(order.key) == "dead", 20, "the first no")
    assert run("replay", order.key, "--yes").returncode == 0
    waiting.until(lambda: world.value("SELECT replays = 1 AND state = 'dead' FROM "
                                      "counterfoil.effect_state"), 20, "the second no")
    assert run("replay", order.key, "--yes", "--reason", "once more").returncode == 0
    waiting.until(lambda: world.state(order.key) == "completed", 20, "the yes")
    again = run("replay", order.key, "--yes", "--json")
    assert again.returncode == 5 and "already completed" in again.stderr
    assert world.duplicated() == {} and world.lost() == []
    assert [request.key for request in world.provider.requests()] == [order.key] * 3
    shown = json.loads(run("show", order.key, "--json").stdout)
    assert [attempt["n"] for attempt in shown["attempts"]] == [3, 2, 1]
    assert [row["result"] for row in shown["audit"]] == ["already", "done", "done"]
    # one dead letter for each death
    assert world.value("SELECT count(*) FROM counterfoil.effect_state") == 1
