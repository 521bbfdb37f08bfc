"""How the console's commands answer: what they end with when something is not there or is already as
it was asked for, and how they write a time."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import libconfig, programs
from tests.tools.dead import Dead
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OK, USAGE, PARTLY, NOT_FOUND, CONFLICT = 0, 2, 3, 4, 5
SURE = "--yes --reason INC-7"


@pytest.fixture
def keys(postgres: Postgres, database: str) -> Iterator[Keys]:
    made = Keys(postgres, database)
    yield made
    made.close()


@pytest.fixture
def dead(postgres: Postgres, database: str) -> Iterator[Dead]:
    made = Dead(postgres, database)
    yield made
    made.close()


@pytest.fixture
def counterfoil(postgres: Postgres, database: str, tmp_path: Path) -> Run:
    def run(line: str, environment: dict[str, str] | None = None,
            **sections: Any) -> "subprocess.CompletedProcess[str]":
        config = tmp_path / "console.conf"
        config.write_text(libconfig.settings(libconfig.merge(
            {"postgres": {"conninfo": postgres.conninfo(database)}}, sections)))
        return programs.run("counterfoil", "--config", str(config), *line.split(),
                            environment=environment)
    return run


def poison(keys: Keys, settlement: str | None = None, topic: str = "orders") -> int:
    return keys.value(
        "INSERT INTO counterfoil.poison (topic, partition, \"offset\", hash, size, reason, error, "
        "sent_at, settled_at, settlement) VALUES (%s, 0, 1, %s, 1, 'key', 'no key', now(), "
        "CASE WHEN %s IS NOT NULL THEN now() END, %s) RETURNING id",
        (topic, settlement or "open", settlement, settlement))


# a command, what it ends with, what it says
ANSWERS: list[tuple[str, int, str]] = [
    # what is not there
    ("show none", NOT_FOUND, 'there is no key "none"'),
    ("show 99999", NOT_FOUND, 'there is no key "99999"'),
    ("find none", NOT_FOUND, "none"),
    ("list nonesuch", USAGE, 'there is no state "nonesuch"'),
    (f"replay none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"resolve none --happened {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"cancel none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"dead-letter none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"take-over none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"note none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"erase none {SURE}", NOT_FOUND, 'there is no key "none"'),
    (f"replay --all --state dead --error none --expect 0 {SURE}", NOT_FOUND, "no such keys"),
    (f"hold --target none {SURE}", NOT_FOUND, "no target of this name"),
    (f"release --target none {SURE}", NOT_FOUND, "no target of this name"),
    (f"pause --effect none {SURE}", NOT_FOUND, 'no effect "none"'),
    (f"resume --effect none {SURE}", NOT_FOUND, 'no effect "none"'),
    ("ops show 99", NOT_FOUND, "there is no operation 99"),
    ("ops pause 99", NOT_FOUND, "there is no such operation"),
    ("outbox none", NOT_FOUND, 'there is no outbox "none"'),
    ("outbox show 99", NOT_FOUND, "there is no dead or parked row 99"),
    (f"outbox requeue 99 {SURE}", NOT_FOUND, "there is no such dead row"),
    (f"outbox discard 98 99 {SURE}", NOT_FOUND, "there is no such dead row"),
    ("poison show 99", NOT_FOUND, "there is no poison 99"),
    (f"poison discard 99 {SURE}", NOT_FOUND, "there is no such poison"),
    (f"poison discard 98 99 {SURE}", NOT_FOUND, "there is no such poison"),
    (f"poison discard --topic none {SURE}", NOT_FOUND, "no poison of this topic"),
    (f"poison replay 99 {SURE}", NOT_FOUND, "there is no such poison"),
    ("poison replay 99 --dry-run", NOT_FOUND, "there is no such poison"),
    ("conflicts show 99", NOT_FOUND, "there is no conflict 99"),
    (f"conflicts settle 99 {SURE}", NOT_FOUND, "there is no such conflict"),
    ("rewind none", NOT_FOUND, "topic none has not been begun"),
    (f"rewind none --to earliest {SURE}", NOT_FOUND, "topic none has not been begun"),
    # what is already so: nothing is done, and that is said
    (f"cancel cancelled {SURE}", OK, "it is cancelled already"),
    (f"dead-letter dead {SURE}", OK, "it is dead already"),
    (f"erase erased {SURE}", OK, "its content is gone already"),
    (f"replay due {SURE}", OK, "it is due already"),
    (f"hold --target held {SURE}", OK, "has held it since"),
    (f"release --target open --force {SURE}", USAGE, "usage"),
    (f"release --target seen {SURE}", OK, "nothing holds it back"),
    (f"pause --all {SURE}", OK, "it has been paused since"),
    ("pause --all --dry-run", OK, "it has been paused since"),
    (f"resume --tenant acme {SURE}", OK, "it is not paused"),
    (f"resume --effect charge {SURE}", OK, "it is not paused"),
    ("ops cancel {cancelled}", OK, "it is cancelled"),
    (f"poison discard {{discarded}} {SURE}", OK, "was settled before: discarded"),
    (f"poison replay {{replayed}} {SURE}", OK, "replayed already"),
    (f"outbox requeue {{row}} {SURE}", OK, "it is in the outbox"),
    # what is otherwise, and stays so
    (f"replay completed {SURE}", CONFLICT, "already completed"),
    (f"replay cancelled {SURE}", CONFLICT, "it was cancelled"),
    (f"resolve completed --happened {SURE}", CONFLICT, "only what is uncertain"),
    (f"cancel completed {SURE}", CONFLICT, "only what waits"),
    (f"take-over due {SURE}", CONFLICT, "only what is in flight"),
    (f"erase due {SURE}", CONFLICT, "it has not ended"),
    (f"poison discard {{replayed}} {SURE}", CONFLICT, "was settled before: replayed"),
    (f"poison replay {{discarded}} {SURE}", CONFLICT, "not by a replay"),
    ("ops pause {cancelled}", CONFLICT, "it is cancelled"),
    # some of each
    (f"poison discard {{open}} 99 {SURE}", PARTLY, "1 discarded"),
    (f"outbox requeue {{dead}} {{row}} {SURE}", OK, "it goes back"),
]


def test_what_is_not_there_and_what_is_already_so(keys: Keys, dead: Dead, counterfoil: Run):
    for state in ("cancelled", "dead", "completed"):
        keys.add(state, state)
    keys.add("due", "pending", target="seen")
    keys.add("erased", "completed", subject="s", attempts=[{"response_body": b"x"}])
    keys.query("INSERT INTO counterfoil.target_state (target, held, held_by, held_since) VALUES "
               "('held', true, 'duty1', now())")
    keys.query("INSERT INTO counterfoil.pause (scope) VALUES ('everything')")
    places = {"open": poison(keys), "discarded": poison(keys, "discarded"),
              "replayed": poison(keys, "replayed"), "dead": dead.add(),
              "row": keys.value("INSERT INTO counterfoil.outbox (topic, type, payload) VALUES "
                                "('t', 't', '') RETURNING id"),
              "cancelled": keys.value(
                  "INSERT INTO counterfoil.operation (operation, kind, state, params, ended_at) "
                  "VALUES (gen_random_uuid(), 'replay', 'cancelled', '{}', now()) RETURNING id")}
    assert counterfoil(f"erase erased {SURE}").returncode == OK
    known = {"effects": [{"name": "charge", "on": {"topic": "orders", "type": "order.placed"},
                          "key": "${/order_id}", "target": "t", "mode": "at_most_once",
                          "request": {"method": "POST", "path": "/"}}],
             "targets": [{"name": "t", "url": "http://127.0.0.1:1", "profile": "plain"}]}
    wrong = []
    for line, code, words in ANSWERS:
        done = counterfoil(line.format(**places), **(known if "--effect" in line else {}))
        said = done.stdout if code in (OK, PARTLY) else done.stderr
        if (done.returncode, words in said) != (code, True):
            wrong.append((line, code, done.returncode, done.stdout, done.stderr))
    assert not wrong, "\n".join(map(str, wrong))
    done = counterfoil(f"cancel cancelled {SURE} --json")
    assert (done.returncode, json.loads(done.stdout)["result"]) == (OK, "already")
    done = counterfoil(f"pause --all {SURE} --json")
    assert (done.returncode, json.loads(done.stdout)["result"]) == (OK, "already")


# --- times ------------------------------------------------------------------------------------------

def test_a_time_is_written_alike_everywhere(keys: Keys, dead: Dead, counterfoil: Run):
    """For people, with its zone; in JSON by RFC 3339."""
    keys.add("order:1", "uncertain", unknown_sends=1, first_sent="1 min", sent="1 min",
             window="-3 days", attempts=[{"outcome": "no_answer"}])
    counterfoil(f"note order:1 {SURE}")
    keys.query("INSERT INTO counterfoil.target_state (target, held, held_by, held_since, "
               "paused_until) VALUES ('held', true, 'duty1', now(), NULL), "
               "('paused', false, NULL, NULL, now() + interval '2 days')")
    keys.query("INSERT INTO counterfoil.pause (scope) VALUES ('everything')")
    row = dead.add()
    lines = ["show order:1", f"poison show {poison(keys, 'discarded')}", f"outbox show {row}",
             "targets", f"hold --target held {SURE}", "pause --all --dry-run", "adopt --dry-run",
             "release --target paused --dry-run", "replay order:1 --dry-run", "migrate --status"]
    for zone, name, environment in (("UTC", "UTC", None), ("local", "CEST|CET|UTC", {
            "TZ": "CET-1CEST,M3.5.0,M10.5.0/3"})):
        for line in lines:
            said = counterfoil(line, environment, console={"zone": zone}).stdout
            times = re.findall(r"\S*\d\d:\d\d\S*", said)
            good = re.findall(rf"\b\d{{4}}-\d\d-\d\d (\d\d:\d\d:\d\d) (?:{name})\b", said)
            assert [time.rstrip(",.:;") for time in times] == good and good, (line, said)
    for line in ("show order:1", "adopt --dry-run", f"outbox show {row}", "targets"):
        said = counterfoil(f"{line} --json").stdout
        times = re.findall(r'"([^"]*\d\d:\d\d:[^"]*)"', re.sub(r'"why":"[^"]*"', "", said))
        assert times and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
                             for time in times), said
