"""The commands that order something of one key: replay with a new key, resolve, cancel, dead-letter,
take-over, note, erase."""

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
SURE = ("--yes", "--reason", "INC-7")


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


def done(ran: "subprocess.CompletedProcess[str]") -> Any:
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return json.loads(ran.stdout)


def refused(ran: "subprocess.CompletedProcess[str]", code: int = 5) -> str:
    assert (ran.returncode, ran.stdout) == (code, ""), ran
    return json.loads(ran.stderr)["message"]


# command, state that it is for, further columns, the state afterwards
COMMANDS: list[tuple[tuple[str, ...], str, dict[str, Any], str]] = [
    (("replay", "--new-key"), "dead", {}, "pending"),
    (("replay", "--new-key"), "uncertain", {"unknown_sends": 1}, "pending"),
    (("replay",), "uncertain", {"unknown_sends": 1, "window": "-1 hour"}, "pending"),
    (("resolve", "--happened"), "uncertain", {"unknown_sends": 1}, "completed"),
    (("resolve", "--did-not-happen"), "uncertain", {"unknown_sends": 1}, "dead"),
    (("cancel",), "pending", {}, "cancelled"),
    (("cancel",), "retry_wait", {"unknown_sends": 1}, "uncertain"),
    (("dead-letter",), "retry_wait", {}, "dead"),
    (("take-over",), "in_flight", {"unknown_sends": 1}, "retry_wait"),
    (("note",), "completed", {}, "completed"),
    (("erase",), "completed", {}, "completed"),
]


def test_each_command(keys: Keys, counterfoil: Run):
    """A dry run tells what would come of it and leaves no trace; then it is done, and audited."""
    for n, (words, state, columns, to) in enumerate(COMMANDS):
        key = f"order:{n}"
        keys.add(key, state, **columns)
        audited = len(keys.audit())
        would = done(counterfoil(words[0], key, *words[1:], "--dry-run", "--json"))
        assert (would["to_state"], would["operation"]) == (to, None), words
        assert (keys.state(key), len(keys.audit())) == (state, audited), words
        did = done(counterfoil(words[0], key, *words[1:], *SURE, "--json"))
        assert (did["result"], did["from_state"], did["to_state"], did["detail"]) == \
            ("done", state, to, would["detail"]), words
        assert keys.state(key) == to
        audit = keys.audit()[-1]
        assert (audit["operation"], audit["reason"], audit["action"]) == \
            (did["operation"], "INC-7", did["action"])
    for n, (words, state, _, _) in enumerate(COMMANDS):
        if words[0] in ("note", "replay"):
            continue
        wrong = "completed" if state != "completed" else "pending"
        keys.add(f"not:{n}", wrong)
        assert refused(counterfoil(words[0], f"not:{n}", *words[1:], *SURE, "--json")), words
        assert keys.state(f"not:{n}") == wrong
    assert "no key" in refused(counterfoil("cancel", "order:99", *SURE, "--json"), 4)


def test_in_words(keys: Keys, counterfoil: Run):
    keys.add("order:1", "uncertain", unknown_sends=1)
    assert counterfoil("resolve", "order:1", "--happened", *SURE).stdout == \
        "order:1: uncertain -> completed, it counts as completed\n"
    assert counterfoil("note", "order:1", "--dry-run").stdout == \
        "order:1: would go completed, it is kept with the key\n"


@pytest.mark.parametrize("words, missing", [
    (("cancel",), "--reason"), (("dead-letter",), "--reason"), (("note",), "--reason"),
    (("erase",), "--reason"), (("resolve", "--happened"), "--reason"),
    (("replay", "--new-key"), "--reason"),
    (("resolve",), "--did-not-happen"), (("resolve", "--happened", "--did-not-happen"), "say"),
    (("resolve", "--did-not-happen", "--provider-id", "x"), "--provider-id goes with"),
    (("replay", "--force"), "--force goes with"), (("erase", "--key", "x"), "too many")])
def test_what_has_to_be_said(keys: Keys, counterfoil: Run, words: tuple[str, ...], missing: str):
    keys.add("order:1", "uncertain", unknown_sends=1)
    assert missing in refused(counterfoil(words[0], "order:1", *words[1:], "--yes", "--json"), 2)
    assert "say --yes" in counterfoil("take-over", "order:1").stderr
    assert keys.audit() == [] and keys.state("order:1") == "uncertain"


def test_force_is_a_word_of_its_own(keys: Keys, counterfoil: Run):
    """L35: a replay of what is completed says so and ends with 5; with --force it is made again."""
    keys.add("order:1", "completed", http_status=200, provider_id="ch_1")
    for more in ((), ("--new-key",)):
        assert "already completed" in refused(counterfoil("replay", "order:1", *more, *SURE, "--json"))
    assert [row["result"] for row in keys.audit()] == ["already"]
    did = done(counterfoil("replay", "order:1", "--new-key", "--force", *SURE, "--json"))
    assert did["action"] == "force" and "order:1~r1" in did["detail"]
    assert keys.state("order:1") == "completed" and keys.state("order:1~r1") == "pending"
    shown = done(counterfoil("show", "order:1", "--json"))
    assert shown["replayed_as"] == "order:1~r1" and "done again" in shown["why"]
    copy = done(counterfoil("show", "order:1~r1", "--json"))
    assert (copy["replay_of"], copy["key_no"]) == ("order:1", 1)
    assert copy["request"]["idempotency_key"] == "order:1~r1"
    assert "repeats          order:1" in counterfoil("show", "order:1~r1").stdout


def test_what_was_decided_is_shown_and_found(keys: Keys, counterfoil: Run):
    keys.add("order:1", "uncertain", unknown_sends=1)
    counterfoil("note", "order:1", "--yes", "--reason", "asked them: \x1b[31mpaid")
    counterfoil("resolve", "order:1", "--happened", "--provider-id", "ch_77", *SURE)
    shown = done(counterfoil("show", "order:1", "--json"))
    assert (shown["state"], shown["resolution"], shown["provider_id"]) == \
        ("completed", "it happened", "ch_77")
    assert "A person found out that it happened, its id is ch_77." in shown["why"]
    assert "Note: asked them" in shown["why"]
    assert "\x1b" not in counterfoil("show", "order:1").stdout
    (found,) = done(counterfoil("find", "ch_77", "--json"))
    assert (found["key"], found["matched"]) == ("order:1", "provider id")
    keys.add("order:2", "uncertain", unknown_sends=1)
    counterfoil("resolve", "order:2", "--did-not-happen", *SURE)
    assert "decided          it did not happen" in counterfoil("show", "order:2").stdout


def test_which_key_is_meant(keys: Keys, counterfoil: Run):
    for target in ("mail", "payments"):
        keys.add("order:1", "completed", target=target, body={"n": 1})
    assert "2 keys of this name" in refused(counterfoil("erase", "--key", "order:1", *SURE, "--json"))
    done(counterfoil("erase", "--key", "order:1", "--target", "mail", *SURE, "--json"))
    assert keys.query("SELECT target FROM counterfoil.effect JOIN counterfoil.effect_request "
                      "USING (id)") == [("payments",)]


def test_read_only_and_rights(postgres: Postgres, database: str, keys: Keys, counterfoil: Run):
    """Who may not replay may not do any of this either."""
    role = f"reader_{database}"
    keys.query(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA counterfoil TO {role}; "
               f"GRANT SELECT ON ALL TABLES IN SCHEMA counterfoil TO {role}")
    reader = {"postgres": {"conninfo": postgres.conninfo(database, role)}}
    try:
        for n, (words, state, columns, _) in enumerate(COMMANDS):
            keys.add(f"order:{n}", state, **columns)
            ran = (words[0], f"order:{n}", *words[1:], *SURE, "--json")
            assert "permission denied" in refused(counterfoil(*ran, **reader), 77), words
            assert refused(counterfoil(*ran, console={"read_only": True}), 77)
            assert keys.state(f"order:{n}") == state
        assert keys.audit() == []
    finally:
        keys.query(f"DROP OWNED BY {role}; DROP ROLE {role}")
