"""What a person may do to a key from the screen, and what no key press does."""

from __future__ import annotations

from contextlib import closing
from typing import Callable

import pytest

from tests.tools import waiting
from tests.tools.keys import Keys
from tests.tools.terminal import Terminal

Console = Callable[..., Terminal]
DEAD = ["2", *["]"] * 6]


def test_enter_alone_changes_nothing(keys: Keys, console: Console):
    """C26: the dialog starts on Cancel."""
    keys.add("order:1", epoch=3)
    terminal = console()
    screen = terminal.press(*DEAD, "x", "r")
    assert "[> Cancel <]" in screen and "It runs again with the same key." in screen
    screen = terminal.press("Enter")
    assert "Cancel" not in screen and "> dead !        order:1 " in screen
    assert keys.state("order:1") == "dead" and keys.audit() == []


def test_four_keys_replay(keys: Keys, console: Console):
    """C26 C41"""
    keys.add("order:1", epoch=3, tries=5, attempts=[], error_class="http 503",
             outcome="server_error", http_status=503, throttled=2, stalled=1)
    terminal = console()
    terminal.press(*DEAD, "x", "r", "Tab")
    screen = terminal.press("Enter")
    assert "replayed order:1" in screen and "no dead keys" in screen
    ((row,),) = keys.query("SELECT to_jsonb(s) FROM counterfoil.effect_state s")
    assert (row["state"], row["epoch"], row["tries"], row["attempts"], row["replays"],
            row["throttled"], row["stalled"], row["error_class"], row["outcome"]) == \
        ("pending", 4, 5, 0, 1, 0, 0, "", None)
    (audit,) = keys.audit()
    assert (audit["action"], audit["result"], audit["from_state"], audit["to_state"],
            audit["who"], audit["reason"]) == \
        ("replay", "done", "dead", "pending", "postgres", None)
    assert audit["claims"]["user"] and audit["claims"]["program"].startswith("counterfoil ")
    assert (audit["before"]["epoch"], audit["after"]["epoch"]) == (3, 4)


def test_many_enters_are_one_replay(keys: Keys, console: Console):
    """C29"""
    keys.add("order:1", epoch=3)
    keys.add("order:2", epoch=3)
    terminal = console()
    terminal.press(*DEAD, "x", "r", "Tab")
    terminal.type("Enter", "Enter", "Enter")
    terminal.sync()
    (audit,) = keys.audit()
    assert audit["idempotency_key"] == "order:2"
    assert keys.value("SELECT sum(replays) FROM counterfoil.effect_state") == 1


def test_what_was_typed_ahead_is_dropped(keys: Keys, console: Console):
    keys.add("order:1")
    terminal = console()
    terminal.press(*DEAD)
    terminal.type("x", "r", "Tab", "Enter")
    assert "[> Cancel <]" in terminal.sync()
    assert keys.audit() == []


def test_letters_in_a_dialog_are_text(keys: Keys, console: Console):
    """With a reason, in any letters; Q and q quit nothing there."""
    keys.add("order:1")
    terminal = console()
    terminal.press(*DEAD, "x", "r", "BTab")
    terminal.text("INC-1: Qualität q")
    assert "[INC-1: Qualität q" in terminal.sync()
    terminal.press("BSpace", "BSpace")
    terminal.paste("\nstill 3 €")
    assert "[INC-1: Qualitätstill 3 €" in terminal.sync()
    terminal.press("BTab", "q", "Q", "x", "Enter")
    (audit,) = keys.audit()
    assert audit["reason"] == "INC-1: Qualitätstill 3 €qQx"


def test_what_is_typed_on_a_button_is_the_reason(keys: Keys, console: Console):
    """Before Tab as well as behind it; and Enter still presses the button that has the focus."""
    keys.add("order:1")
    terminal = console()
    terminal.press(*DEAD, "x", "r")
    terminal.text("INC-9 ")
    screen = terminal.sync()
    assert "[INC-9 " in screen and "[> Cancel <]" in screen
    terminal.press("Enter")
    assert keys.audit() == []
    terminal.press("x", "r")
    terminal.text("INC-9 ")
    assert "[INC-9 " in terminal.press("Tab")
    terminal.text("again")
    terminal.press("Enter")
    (audit,) = keys.audit()
    assert audit["reason"] == "INC-9 again"


def test_no_single_key_changes_anything(keys: Keys, console: Console):
    keys.add("order:1")
    terminal = console()
    terminal.press(*DEAD)
    for key in "rRdDcCnNfFeEsSaAuUhHtT ":
        terminal.text(key)
    terminal.type("C-r", "C-d", "C-x", "F5", "Delete")
    terminal.sync()
    assert keys.state("order:1") == "dead" and keys.audit() == []


@pytest.mark.parametrize("state,columns,words", [
    ("in_flight", {"unknown_sends": 1}, "in flight: an attempt is running"),
    ("cancelled", {}, "cancelled: it was withdrawn"),
    ("pruned", {}, "finished long ago"),
])
def test_states_that_only_take_a_note(keys: Keys, console: Console, state: str,
                                        columns: dict[str, int], words: str):
    keys.ledger()
    keys.add("order:1", state, **columns)
    terminal = console()
    screen = terminal.press("2", "x")
    assert words in screen and "n  note" in screen
    assert "replay" not in terminal.press("r").lower()
    assert keys.audit() == []


@pytest.mark.parametrize("state", ["pending", "retry_wait"])
def test_run_a_waiting_key_now(keys: Keys, console: Console, state: str):
    keys.add("order:1", state, due="-1 hour", epoch=3, attempts=[], tries=1)
    terminal = console()
    assert "r  run now" in terminal.press("2", "x")
    assert "It is due now." in terminal.press("r")
    assert "due now: order:1" in terminal.press("Tab", "Enter")
    assert keys.query("SELECT state::text, epoch, due_at <= now() FROM counterfoil.effect_state") \
        == [(state, 4, True)]


def test_a_key_that_was_never_rendered_is_refused(keys: Keys, console: Console):
    keys.add("order:1", method=None, outcome="unrendered", error_class="unrendered")
    terminal = console()
    screen = terminal.press(*DEAD, "x", "r")
    assert "! Its request was never rendered: there is nothing to send." in screen
    terminal.press("Tab", "Enter")
    assert keys.state("order:1") == "dead" and keys.audit() == []


def test_a_key_that_moved_meanwhile_is_left_alone(keys: Keys, console: Console):
    """Between the dialog and its answer somebody else was quicker."""
    effect = keys.add("order:1", epoch=3)
    terminal = console()
    terminal.press(*DEAD, "x", "r", "Tab")
    keys.query("UPDATE counterfoil.effect_state SET state = 'completed', epoch = 5 WHERE id = %s",
               (effect,))
    screen = terminal.press("Enter")
    assert "! It is completed by now." in screen
    assert "[  Cancel  ]" in screen or "[> Cancel <]" in screen
    (audit,) = keys.audit()
    assert (audit["result"], audit["from_state"], audit["to_state"], audit["after"]) == \
        ("changed", "completed", "completed", None)
    terminal.press("Enter", "Enter")
    assert len(keys.audit()) == 1


def test_the_bar_follows_the_key(keys: Keys, console: Console):
    """C25: rows above it go, the bar stays on the key, and so does what is done."""
    ids = [keys.add(f"order:{n}", since=f"{n} min") for n in range(1, 11)]
    terminal = console(80, 24, None, console={"refresh": "500ms"})
    assert "> dead !        order:6 " in terminal.press(*DEAD, *["j"] * 5)
    keys.query("UPDATE counterfoil.effect_state SET state = 'completed' WHERE id = ANY (%s)",
               (ids[:3],))
    terminal.wait("1-7 of 7")
    assert "> dead !        order:6 " in terminal.screen()
    for n in range(20, 24):
        keys.add(f"order:{n}", since="10 s")
    terminal.wait("1-11 of 11")
    assert "> dead !        order:6 " in terminal.screen()
    assert "│ order:6 " in terminal.press("x")


def test_the_bar_goes_to_the_neighbour(keys: Keys, console: Console):
    """C25: the key is gone; the menu that was open on it does not act on another."""
    ids = [keys.add(f"order:{n}", since=f"{n} min") for n in range(1, 6)]
    terminal = console(80, 24, None, console={"refresh": "500ms"})
    terminal.press(*DEAD, "j", "j", "x")
    keys.query("UPDATE counterfoil.effect_state SET state = 'completed', epoch = 7 WHERE id = %s",
               (ids[2],))
    screen = terminal.wait("1-4 of 4")
    assert "│ order:3 " in screen
    screen = terminal.press("r")
    assert "! It is completed by now." in screen
    screen = terminal.press("Escape")
    assert "> dead !        order:4 " in screen
    assert keys.value("SELECT sum(replays) FROM counterfoil.effect_state") == 0


def test_a_long_list_is_walked_in_windows(keys: Keys, console: Console):
    """The window is read on and back; the bar's key and its number are right all the way."""
    keys.query(
        "WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode, "
        "provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id) SELECT "
        "'payments', 'order:' || n, 'charge', 'idempotent', 'order:' || n, '', '', 'orders', 0, n, "
        "'e' || n FROM generate_series(1, 1500) n RETURNING id, target, tenant, \"offset\" AS n) "
        "INSERT INTO counterfoil.effect_state (id, target, tenant, state, state_since) "
        "SELECT id, target, tenant, 'dead', now() - n * interval '1 s' FROM e")
    terminal = console()
    terminal.press(*DEAD)
    seen = []
    for _ in range(130):
        screen = terminal.press("NPage")
        (bar,) = [line for line in screen.split("\n") if line.startswith(">")]
        seen.append(int(bar.split("order:")[1].split()[0]))
        if seen[-1] == 1500:
            break
    # every page is a page further, whatever was read meanwhile
    assert seen == sorted(seen) and seen[-1] == 1500
    assert all(later - earlier == 13 for earlier, later in zip(seen, seen[1:-1]))
    assert "1,488-1,500 of 1,500" in terminal.screen()
    for _ in range(130):
        screen = terminal.press("PPage")
        if "> dead !        order:1 " in screen:
            break
    assert "1-13 of 1,500" in screen
    assert "> dead !        order:400 " in terminal.press("G")
    assert "> dead !        order:1 " in terminal.press("g")


def test_read_only(keys: Keys, console: Console):
    keys.add("order:1")
    terminal = console(80, 24, None, console={"read_only": True})
    assert "READ-ONLY" in terminal.screen()
    screen = terminal.press(*DEAD, "x")
    assert "console.read_only is set" in screen
    terminal.press("r", "Tab", "Enter")
    assert keys.audit() == []


def test_the_answer_that_was_lost(keys: Keys, console: Console, postgres):
    """The connection goes while the order waits for a lock: asked for again, it is done once."""
    effect = keys.add("order:1", epoch=3)
    terminal = console()
    terminal.press(*DEAD, "x", "r", "Tab")
    with closing(postgres.connect(keys.database, autocommit=False)) as blocker:
        blocker.cursor().execute("SELECT FROM counterfoil.effect_state WHERE id = %s FOR UPDATE",
                                 (effect,))
        terminal.type("Enter")
        waiting.until(lambda: keys.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1,
                      20, "the order to wait")
        assert "asking the database" in terminal.screen()
        terminal.type("Escape", "q")          # nothing stops what is under way
        assert keys.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                          "WHERE application_name = 'counterfoil'") == 1
        terminal.wait("connection was lost before the answer")
        blocker.rollback()
    terminal.wait("LIVE")
    terminal.press("Enter")
    assert "replayed order:1" in terminal.sync()
    (audit,) = keys.audit()
    assert audit["result"] == "done"
    assert keys.value("SELECT replays FROM counterfoil.effect_state") == 1
