"""`counterfoil outbox` and its parts: what they tell, what they do, and how they end."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import libconfig, programs
from tests.tools.dead import Dead
from tests.tools.postgres import Postgres

Done = "subprocess.CompletedProcess[str]"
Run = Callable[..., Done]
OK, USAGE, PARTLY, NOT_FOUND, CONFLICT, UNAVAILABLE, PERMISSION, CONFIG = 0, 2, 3, 4, 5, 69, 77, 78
ORDERS = pytest.mark.parametrize("action", ["requeue", "discard"])


@pytest.fixture
def dead(postgres: Postgres, database: str) -> Iterator[Dead]:
    made = Dead(postgres, database)
    yield made
    made.close()


@pytest.fixture
def outbox(postgres: Postgres, database: str, tmp_path: Path) -> Run:
    """`counterfoil outbox ...` against this test's database."""
    def run(*words: str, environment: dict[str, str] | None = None, **sections: Any) -> Done:
        config = tmp_path / "console.conf"
        config.write_text(libconfig.settings(libconfig.merge(
            {"postgres": {"conninfo": postgres.conninfo(database)}}, sections)))
        done = programs.run("counterfoil", "--config", str(config), "outbox", *words,
                            environment=environment)
        assert not programs.SANITIZER.search(done.stderr), done.stderr
        return done
    return run


def answer(done: Done, code: int = OK) -> Any:
    assert (done.returncode, done.stderr) == (code, ""), done
    return json.loads(done.stdout)


def refusal(done: Done, code: int) -> str:
    """Of JSON mode: an object on stderr, nothing on stdout."""
    assert (done.returncode, done.stdout) == (code, ""), done
    error = json.loads(done.stderr)
    assert error["exit"] == code
    return error["message"]


# --- what it tells --------------------------------------------------------------------------------

def test_the_outboxes(dead: Dead, outbox: Run):
    dead.key(parked=3)
    dead.add("public.outboxevent", row="(1)")
    dead.relay("relay-1", backlog=57, oldest="3 s", blocked=1, rate=92.04, seen="1 s")
    dead.relay("relay-2", role="standby", seen="2 s")
    own, mapped = answer(outbox("--json"))
    assert {name: own[name] for name in ("source", "backlog", "oldest_seconds", "dead", "parked",
                                         "blocked_topics", "relays", "relay", "role")} == {
        "source": "counterfoil.outbox", "backlog": 57, "oldest_seconds": 3, "dead": 1, "parked": 3,
        "blocked_topics": 1, "relays": 2, "relay": "relay-1", "role": "owner"}
    assert own["relay_seen_seconds"] >= 1
    assert (mapped["source"], mapped["dead"], mapped["backlog"], mapped["relay"]) == (
        "public.outboxevent", 1, None, None)
    assert answer(outbox("public.outboxevent", "--json"))[0]["source"] == "public.outboxevent"
    title, first, second = outbox().stdout.splitlines()
    assert title.split() == ["OUTBOX", "BACKLOG", "OLDEST", "DEAD", "PARKED", "BLOCKED", "RELAY",
                             "ROLE", "SEEN", "RELAYS"]
    assert first.split()[:8] == ["counterfoil.outbox", "57", "3s", "1", "3", "1", "relay-1", "owner"]
    assert second.split()[:7] == ["public.outboxevent", "-", "-", "1", "0", "-", "none"]
    assert refusal(outbox("orders", "--json"), NOT_FOUND) == 'there is no outbox "orders"'


def test_an_outbox_whose_relay_stopped(dead: Dead, outbox: Run):
    """Its last figures are shown, as what they are."""
    dead.relay("relay-1", backlog=57, oldest="3 s", seen="5 min")
    (own,) = answer(outbox("--json"))
    assert (own["backlog"], own["relays"], own["old"]) == (57, 0, True)
    assert own["relay_seen_seconds"] >= 300
    said = outbox().stdout.splitlines()
    assert said[1].split()[:2] == ["counterfoil.outbox", "57"]
    assert said[2].startswith("OLD: no relay of counterfoil.outbox was seen for 5m")
    dead.relay("relay-2", backlog=3, seen="1 s")
    (own,) = answer(outbox("--json"))
    assert (own["backlog"], own["old"]) == (3, False)
    assert len(outbox().stdout.splitlines()) == 2


def test_lists(dead: Dead, outbox: Run):
    first, *parked = dead.key(parked=2, topic="mail", reason="5000123 bytes, more than 1000000")
    second = dead.add(ordering_key=None, died="1 min")
    mapped = dead.add("public.outboxevent", row="(1)", topic="mail", died="2 min")
    rows = answer(outbox("dead", "--json"))
    assert [row["id"] for row in rows] == [second, mapped, first]
    assert {name: rows[2][name] for name in ("source", "state", "topic", "reason", "behind")} == {
        "source": "counterfoil.outbox", "state": "dead", "topic": "mail", "behind": 2,
        "reason": "5000123 bytes, more than 1000000"}
    assert "payload" not in rows[2]
    lines = outbox("parked", "--jsonl").stdout.splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == parked
    for words, ids in ((["--topic", "mail"], [mapped, first]), (["--key", "order-1"], [mapped, first]),
                       (["--source", "public.outboxevent"], [mapped]), (["--limit", "1"], [second]),
                       (["--topic", "none"], [])):
        assert [row["id"] for row in answer(outbox("dead", "--json", *words))] == ids, words
    assert answer(outbox("dead", "--json", "--topic", "none")) == []
    assert outbox("dead", "--topic", "none").stdout == ""


def test_lists_for_people(dead: Dead, outbox: Run):
    hostile = "a\x1b[31m\n\u202e"
    dead.add(topic=hostile, type=hostile, ordering_key=hostile, reason=hostile)
    done = outbox("dead", environment={"LC_ALL": "C.UTF-8"})
    title, row = done.stdout.splitlines()
    assert title.split() == ["ID", "OUTBOX", "TOPIC", "TYPE", "KEY", "AGE", "SIZE", "BEHIND", "REASON"]
    assert row.count("a\\u001b[31m\\n\\u202e") == 4
    assert outbox("show", "1").stdout.count("a\\u001b[31m\\n\\u202e") == 4


def test_show(dead: Dead, outbox: Run):
    row, *parked = dead.key(parked=2, payload=b'{"order_id":7}', headers='{"tenant": "acme"}',
                            message_key=b"\0\1")
    text = outbox("show", str(row)).stdout
    for words in ("dead for", "reason       a test", "headers, ", '"tenant": "acme"',
                  'payload, 14 B:\n  {\n    "order_id": 7\n  }\n', "message key, 2 B:\n  \\u0000\\u0001",
                  f"of its key   {parked[0]}  parked"):
        assert words in text, text
    assert f"waits behind {row}  dead" in outbox("show", str(parked[0])).stdout
    (shown,) = answer(outbox("show", str(row), "--json"))
    assert shown["payload"] == '{"order_id":7}' and not shown["payload_cut"]
    assert [other["id"] for other in shown["of_its_key"]] == parked
    large = dead.add(payload=b"x" * 100_000)
    (shown,) = answer(outbox("show", str(large), "--json"))
    assert (len(shown["payload"]), shown["payload_size"], shown["payload_cut"]) == (65536, 100_000, True)
    assert len(outbox("show", str(large)).stdout) < 70_000
    none = dead.add(payload=None)
    assert "no payload: a tombstone" in outbox("show", str(none)).stdout
    mapped = dead.add("public.outboxevent", row="(1,abc)")
    assert "the row as text, 7 B:\n  (1,abc)" in outbox("show", str(mapped)).stdout
    assert "no dead or parked row 999" in refusal(outbox("show", "999", "--json"), NOT_FOUND)


# --- what it does ---------------------------------------------------------------------------------

def test_requeue(dead: Dead, outbox: Run):
    row, *parked = dead.key(parked=2)
    dry = answer(outbox("requeue", str(row), "--dry-run", "--json"))
    assert (dry["done"], dry["dry_run"], dry["operation"]) == (1, True, None)
    assert dead.rows() == [row, *parked] and dead.audit() == []
    words = ("requeue", str(row), "--yes", "--reason", "INC-3321")
    told = answer(outbox(*words, "--json"))
    assert told["rows"] == [{"id": row, "event_id": told["rows"][0]["event_id"], "result": "done",
                             "detail": "it goes back to the outbox; 2 rows parked behind it go back",
                             "behind": 2}]
    assert dead.rows() == [] and dead.waiting() == [row, *parked]
    (audit,) = dead.audit()
    assert (audit["operation"], audit["about"], audit["action"], audit["reason"]) == (
        told["operation"], "outbox counterfoil.outbox", "requeue", "INC-3321")
    assert audit["claims"]["program"].startswith("counterfoil ")
    (again,) = answer(outbox(*words, "--json"))["rows"]
    assert (again["result"], again["detail"]) == ("already", "it is in the outbox")
    assert "no such dead row" in refusal(outbox("requeue", "999", "--yes", "--reason", "r", "--json"),
                                         NOT_FOUND)


def test_discard(dead: Dead, outbox: Run):
    row, *parked = dead.key(parked=2)
    done = outbox("discard", str(row), "--yes", "--reason", "INC-3321")
    assert (done.returncode, done.stderr) == (OK, "")
    assert done.stdout == f"row {row}: done, it is dropped for good; 2 rows parked behind it go back\n"
    assert dead.rows() == [] and dead.waiting() == parked


def test_partly(dead: Dead, outbox: Run):
    row, parked, _ = dead.key(parked=2)
    other = dead.add()
    done = outbox("requeue", str(other), "999", str(parked), "--yes", "--reason", "r")
    assert (done.returncode, done.stderr) == (PARTLY, "")
    assert done.stdout.splitlines() == [
        f"row {parked}: refused, it waits behind row {row}, which is dead: settle that one",
        f"row {other}: done, it goes back to the outbox",
        "row 999: missing, there is no such dead row"]
    done = outbox("requeue", "999", str(parked), "--yes", "--reason", "r")
    assert done.returncode == CONFLICT and len(done.stdout.splitlines()) == 2
    assert done.stderr.startswith(f"counterfoil: row {parked}, and the others likewise: it waits")


@ORDERS
def test_all(dead: Dead, outbox: Run, action: str):
    ids = [dead.add(topic="mail", ordering_key=f"order-{n}") for n in range(3)]
    other = dead.add(topic="orders")
    words = (action, "--all", "--topic", "mail", "--json")
    dry = answer(outbox(*words, "--dry-run"))
    assert [row["id"] for row in dry["rows"]] == ids
    order = (*words, "--yes", "--reason", "INC-1")
    assert "--expect" in refusal(outbox(*order), USAGE)
    assert refusal(outbox(*order, "--expect", "4"), CONFLICT) == "3 rows, and not the 4 expected"
    assert len(dead.rows()) == 4
    assert answer(outbox(*order, "--expect", "3"))["done"] == 3
    assert dead.rows() == [other]
    assert refusal(outbox(*order, "--expect", "0"), NOT_FOUND) == "there is no such dead row"


def test_the_outbox_is_found_or_has_to_be_said(dead: Dead, outbox: Run):
    dead.add("public.a", row_id=1, row="(1)")
    dead.add("public.b", row_id=1, row="(1)")
    dead.add("public.b", row_id=2, row="(2)")
    words = ("discard", "--yes", "--reason", "r", "--json")
    for asked in ([*words, "1"], [*words, "--all", "--expect", "3"]):
        message = refusal(outbox(*asked), CONFLICT)
        assert "public.a" in message and "public.b" in message and "--source" in message
    assert answer(outbox(*words, "2"))["source"] == "public.b"
    assert answer(outbox(*words, "1", "--source", "public.b"))["done"] == 1
    assert answer(outbox(*words, "--all", "--expect", "1"))["source"] == "public.a"


@ORDERS
@pytest.mark.parametrize("words, message", [
    ([], "say which rows"), (["1"], "say --yes"), (["1", "--yes"], "say --reason"),
    (["1", "--yes", "--reason", ""], "say --reason"), (["one"], "say --yes"),
    (["one", "--dry-run"], 'what is "one"?'), (["-1", "--dry-run"], "what is -1?"),
    (["1", "--all", "--dry-run"], "either --all, or ids"),
    (["1", "--topic", "t", "--dry-run"], "go with --all"),
    (["--all", "--yes", "--reason", "r"], "--all needs --expect"),
    (["--all", "--expect", "few", "--dry-run"], "what is few?")])
def test_wrong_usage(outbox: Run, action: str, words: list[str], message: str):
    done = outbox(action, *words)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert message in done.stderr and "usage: counterfoil outbox requeue|discard" in done.stderr
    assert message in refusal(outbox(action, "--json", *words), USAGE)


@pytest.mark.parametrize("words", [["dead", "1"], ["show"], ["show", "x"], ["--yes"], ["a", "b"],
                                   ["dead", "--limit", "0"], ["dead", "--yes"]])
def test_wrong_usage_of_what_only_tells(outbox: Run, words: list[str]):
    assert outbox(*words).returncode == USAGE


def test_help(outbox: Run):
    for words in ([], ["dead"], ["parked"], ["show"], ["requeue"], ["discard"]):
        done = outbox(*words, "--help")
        assert (done.returncode, done.stderr) == (OK, "") and done.stdout.startswith("usage: ")


@ORDERS
def test_read_only_and_not_permitted(dead: Dead, outbox: Run, postgres: Postgres, database: str,
                                     action: str):
    row = dead.add()
    words = (action, str(row), "--yes", "--reason", "r", "--json")
    assert "read_only" in refusal(outbox(*words, console={"read_only": True}), PERMISSION)
    assert answer(outbox(action, str(row), "--dry-run", "--json", console={"read_only": True}))["done"]
    dead.query("DROP ROLE IF EXISTS viewer; CREATE ROLE viewer LOGIN; GRANT USAGE ON SCHEMA counterfoil"
               " TO viewer; GRANT SELECT ON ALL TABLES IN SCHEMA counterfoil TO viewer")
    try:
        viewer = {"conninfo": postgres.conninfo(database) + " user=viewer"}
        assert "permission denied" in refusal(outbox(*words, postgres=viewer), PERMISSION)
    finally:
        dead.query("DROP OWNED BY viewer; DROP ROLE viewer")
    assert dead.rows() == [row]


def test_no_database_and_no_configuration(outbox: Run, tmp_path: Path):
    nowhere = {"conninfo": f"host={tmp_path} dbname=nothing"}
    for words in (["--json"], ["dead", "--json"], ["show", "1", "--json"],
                  ["requeue", "1", "--yes", "--reason", "r", "--json"]):
        refusal(outbox(*words, postgres=nowhere), UNAVAILABLE)
        assert outbox(*words, console={"nothing": 1}).returncode == CONFIG


@pytest.mark.plain
def test_many_at_once(dead: Dead, outbox: Run):
    """Ten thousand in one operation, with a console that waits for no query longer than a moment."""
    dead.query("INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, topic,"
               " type, ordering_key, created_at, size, reason, owner) SELECT 'counterfoil.outbox', n,"
               " gen_random_uuid(), false, n, 'mail', 't', n::text, now(), 1, 'r', 'relay-1'"
               " FROM generate_series(1, 10001) n")
    words = ("requeue", "--all", "--yes", "--reason", "r", "--json")
    short = {"console": {"statement_timeout": "100ms"}}
    assert "more than 10000 rows" in refusal(outbox(*words, "--expect", "10001", **short), CONFLICT)
    dead.query("DELETE FROM counterfoil.outbox_dead WHERE row_id = 10001")
    assert answer(outbox(*words, "--expect", "10,000", **short))["done"] == 10_000
    assert dead.rows() == []


def test_events_of_one_id_are_told_apart(dead: Dead, outbox: Run):
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    dead.add(row_id=1, event_id=one, died="2 min")
    dead.add(row_id=1, event_id=two, died="1 min")
    assert [row["event_id"] for row in answer(outbox("show", "1", "--json"))] == [one, two]
