"""The database is slow, locked, away, or another one than was thought."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Callable

import pytest

from tests.tools import waiting
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.terminal import Terminal

Console = Callable[..., Terminal]
DEAD = ["2", *["]"] * 6]


@pytest.fixture
def away(postgres: Postgres):
    """A database that a test may stop; it runs again afterwards."""
    yield postgres
    if postgres.process is None:
        postgres.start()


def test_lost_and_back_on_the_same_row(keys: Keys, console: Console, away: Postgres):
    """C48 C49: a banner, old data and their age, nothing changes anything; then the same row."""
    for n in range(1, 6):
        keys.add(f"order:{n}", since=f"{n} min")
    terminal = console(80, 24, None, console={"refresh": "500ms"})
    assert "> dead !        order:3 " in terminal.press(*DEAD, "j", "j")
    away.stop()
    screen = terminal.wait(r"no connection, trying again: ")
    assert "OLD DATA" in screen and "> dead !        order:3 " in screen
    assert "there is no connection: nothing can be changed now" in terminal.press("x")
    assert "replay" not in terminal.press("r").lower()
    # the keys answer, the tabs and the help work, and it does not end
    assert "MOVE" in terminal.press("Escape", "?")
    terminal.press("Escape")
    terminal.wait(r"OLD DATA [2-9]s")
    away.start()
    screen = terminal.wait(r"LIVE")
    assert "no connection" not in terminal.sync()
    assert "> dead !        order:3 " in terminal.screen()


def test_it_dims_what_is_old(keys: Keys, console: Console, away: Postgres):
    keys.add("order:1")
    terminal = console()
    terminal.press("2")
    away.stop()
    terminal.wait("no connection")
    row = [line for line in terminal.colours().split("\n") if "order-1" in line or "orders[4]" in line]
    assert all("\x1b[2m" in line for line in row) and row


def test_it_opens_without_a_database(console: Console, away: Postgres, template: str):
    """And shows what there is as soon as there is one."""
    console_ = console(80, 24, None, ready=False, postgres={
        "conninfo": "host=/nonexistent dbname=shop", "connect_timeout": "500ms"})
    screen = console_.wait("no connection, trying again: .*/nonexistent")
    assert "NO DATA" in screen and "[1 Overview]" in screen
    console_.type("q")
    assert console_.status() == 0


def test_the_keyboard_answers_while_a_query_runs(keys: Keys, console: Console):
    """C51: a query over its time is cancelled by the server, and said to be."""
    keys.add("order:1")
    terminal = console(80, 24, None, console={"refresh": "500ms", "statement_timeout": "1s"})
    terminal.press("2")
    with closing(keys.postgres.connect(keys.database, autocommit=False)) as blocker:
        blocker.cursor().execute("LOCK TABLE counterfoil.effect_state IN ACCESS EXCLUSIVE MODE")
        waiting.until(lambda: keys.value("SELECT count(*) FROM pg_locks WHERE NOT granted"), 5,
                      "a query to wait")
        begin = time.monotonic()
        terminal.type("?")
        waiting.until(lambda: "MOVE" in terminal.screen(), 2, "the help", every=0.005)
        assert time.monotonic() - begin < 0.5      # of it, tmux takes most
        terminal.type("Escape")
        terminal.wait("a query took longer than 1s and was cancelled")
        terminal.wait("OLD DATA")
    terminal.wait("LIVE")
    waiting.until(lambda: "query took" not in terminal.screen(), 5, "it to be well")
    assert "order:1" in terminal.screen()


def test_no_schema(postgres: Postgres, keys: Keys, console: Console):
    keys.query("ALTER SCHEMA counterfoil RENAME TO elsewhere")
    terminal = console()
    assert "the database has no schema counterfoil: run `counterfoil migrate`" in terminal.screen()
    keys.query("ALTER SCHEMA elsewhere RENAME TO counterfoil")
    terminal.wait("RELAY")


def test_an_older_schema(keys: Keys, console: Console):
    keys.query("DELETE FROM counterfoil.migration WHERE version >= 3")
    assert "is at migration 2, and" in console().screen()


def test_ages_are_the_databases(keys: Keys, console: Console):
    """C47: a key that seems to come from the future is new, and no clock of ours is asked."""
    keys.add("order:1", since="-5 min")
    keys.add("order:2", since="3 h")
    screen = console().press("2")
    assert "  0s" in [line for line in screen.split("\n") if "order:1 " in line][0]
    assert "3h 00m" in screen


def test_estimates_are_marked(keys: Keys, console: Console):
    """C44: beyond the cap a number is open, and what has no index an estimate."""
    for n in range(150):
        keys.add(f"order:{n}", "completed" if n % 4 == 0 else "dead")
    keys.query("ANALYZE counterfoil.effect_state")
    screen = console(80, 24, None, console={"count_cap": 100}).screen()
    counts = {line[:11].strip(): line[12:26] for line in screen.split("\n")}
    assert "100+" in counts["dead"] and "~" in counts["completed"]


def test_completed_keys_among_many_others(keys: Keys, console: Console):
    """The search is made in slices that grow, and says how far it went."""
    keys.query(
        "WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode, "
        "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id) SELECT "
        "'payments', 'order:' || n, 'charge', 'idempotent', 'order:' || n, '', '', 'orders', 0, n, "
        "'e' || n FROM generate_series(1, 30000) n RETURNING id, target, tenant, \"offset\" AS n) "
        "INSERT INTO counterfoil.effect_state (id, target, tenant, state) "
        "SELECT id, target, tenant, CASE WHEN n % 5000 = 0 THEN 'completed' ELSE 'dead' "
        "END::counterfoil.state FROM e")
    terminal = console(100, 24, None, console={"slice": "10s", "statement_timeout": "20s"})
    screen = terminal.press("2", *["]"] * 7)
    found = [line[2:].split()[1] for line in screen.split("\n") if line[2:13] == "completed  "]
    assert found == [f"order:{n}" for n in (30000, 25000, 20000, 15000)]
    assert "of the 20,000 looked at" in screen
