"""What a person may do to a key from the screen besides a replay: what is uncertain, stale, waiting
or completed."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from tests.screens.conftest import golden
from tests.tools.keys import Keys
from tests.tools.terminal import Terminal

Console = Callable[..., Terminal]
TO_KEY = ["2", "x"]


def only(keys: Keys) -> dict[str, Any]:
    return keys.value("SELECT to_jsonb(s) FROM counterfoil.effect_state s ORDER BY id LIMIT 1")


# --- the menus --------------------------------------------------------------------------------------

MENUS: list[tuple[str, str, dict[str, Any]]] = [
    ("uncertain-open", "uncertain", {"unknown_sends": 2, "first_sent": "3 hours", "window": "-21 hours"}),
    ("uncertain-closed", "uncertain", {"unknown_sends": 2, "first_sent": "30 hours",
                                       "window": "6 hours"}),
    ("uncertain-once", "uncertain", {"unknown_sends": 1, "mode": "at_most_once"}),
    ("dead-stored", "dead", {"stored": True, "first_sent": "3 hours", "window": "-21 hours"}),
    ("completed", "completed", {}),
    ("retrying", "retry_wait", {"due": "-1 hour"}),
    ("stale", "in_flight", {"unknown_sends": 1, "deadline": "1 min"}),
    ("stale-once", "in_flight", {"unknown_sends": 1, "deadline": "1 min", "mode": "at_most_once"}),
]


@pytest.mark.parametrize("name, state, columns", MENUS, ids=[name for name, _, _ in MENUS])
def test_a_menu(frozen: Keys, stopped: Console, name: str, state: str, columns: dict[str, Any]):
    """Only what this state allows, and what would come of it."""
    frozen.add("order:1:charge", state, **columns)
    screen = stopped().press(*TO_KEY)
    begin = next(n for n, line in enumerate(screen.split("\n")) if "what to do with" in line)
    golden(f"menu-{name}", "\n".join(screen.split("\n")[begin:begin + 8]) + "\n")


@pytest.mark.parametrize("width,height", [(100, 30), (80, 24), (60, 16)])
def test_the_dialogs_with_a_second_field(frozen: Keys, stopped: Console, width: int, height: int):
    frozen.add("order:1:charge", "uncertain", unknown_sends=2, first_sent="3 hours",
               window="-21 hours")
    terminal = stopped(width, height)
    golden(f"happened-{width}x{height}", terminal.press(*TO_KEY, "c"))
    golden(f"new-key-{width}x{height}", terminal.press("Escape", "x", "k"))


# --- what is uncertain ------------------------------------------------------------------------------

def test_it_happened(keys: Keys, console: Console):
    """c: with a reason, and the provider's id if one knows it."""
    keys.add("order:1", "uncertain", unknown_sends=1, epoch=3)
    terminal = console()
    screen = terminal.press(*TO_KEY, "c")
    assert "[> Cancel <]" in screen and "It counts as completed." in screen
    screen = terminal.press("Tab", "Enter")
    assert "A reason is needed" in screen and keys.audit() == []
    terminal.text("INC-7")
    terminal.press("Tab")
    terminal.text("ch_77 q")
    terminal.press("BSpace", "BSpace", "Enter")
    assert "completed: order:1" in terminal.press("Enter")
    row, (audit,) = only(keys), keys.audit()
    assert (row["state"], row["provider_id"], row["resolution"]) == \
        ("completed", "ch_77", "it happened")
    assert (audit["action"], audit["reason"]) == ("it happened", "INC-7")


def test_it_did_not_happen(keys: Keys, console: Console):
    """f: then it is dead, and replayed like any other."""
    keys.add("order:1", "uncertain", unknown_sends=1, epoch=3)
    terminal = console()
    terminal.press(*TO_KEY, "f", "BTab")
    terminal.text("they know nothing of it")
    assert "dead: order:1" in terminal.press("Enter", "Enter")
    assert (only(keys)["state"], only(keys)["unknown_sends"]) == ("dead", 0)
    assert "SAFE: it was not applied" in terminal.press("x")


def test_the_same_key_after_its_window(keys: Keys, console: Console):
    """REFUSED in the menu, and by the database whatever is pressed."""
    keys.add("order:1", "uncertain", unknown_sends=1, first_sent="2 hours", window="1 hour")
    terminal = console()
    assert "REFUSED: it would happen as if new" in terminal.press(*TO_KEY)
    screen = terminal.press("r")
    assert "it would execute again as if new" in " ".join(screen.replace("│", " ").split())
    terminal.press("Tab", "Enter")
    assert only(keys)["state"] == "uncertain" and keys.audit() == []


@pytest.mark.parametrize("state, columns, words", [
    ("uncertain", {"unknown_sends": 1}, "replayed with a new key: order:1"),
    ("completed", {}, "replayed with a new key: order:1")])
def test_what_may_happen_twice_is_confirmed_by_a_word(keys: Keys, console: Console, state: str,
                                                      columns: dict[str, Any], words: str):
    """A reason and the word; neither Enter nor anything else that is a habit will do."""
    keys.add("order:1", state, epoch=3, **columns)
    terminal = console()
    terminal.press(*TO_KEY, "k", "Tab", "Tab")
    terminal.text("INC-7")
    screen = terminal.press("Enter", "Enter")
    assert 'To confirm it, type "twice".' in screen and keys.audit() == []
    terminal.text("twic")
    assert 'type "twice"' in terminal.press("Enter", "Enter") and keys.audit() == []
    terminal.text("e")
    assert words in terminal.press("Enter", "Enter")
    assert [row["result"] for row in keys.audit()] == ["done"]
    if state == "completed":
        assert (only(keys)["state"], keys.state("order:1~r1")) == ("completed", "pending")
    else:
        assert (only(keys)["state"], only(keys)["key_no"]) == ("pending", 1)


def test_a_new_key_of_a_dead_one_needs_a_reason_only(keys: Keys, console: Console):
    keys.add("order:1", "dead", stored=True)
    terminal = console()
    assert "REFUSED: its error is stored for the key" in terminal.press(*TO_KEY)
    terminal.press("k", "Tab", "Tab")
    terminal.text("INC-7")
    assert "replayed with a new key: order:1" in terminal.press("Enter", "Enter")
    assert only(keys)["key_no"] == 1


# --- the other states -------------------------------------------------------------------------------

def test_a_completed_key_says_that_there_is_nothing_to_do(keys: Keys, console: Console):
    keys.add("order:1", "completed", http_status=200, provider_id="ch_1")
    terminal = console()
    screen = " ".join(terminal.press(*TO_KEY, "r").replace("│", " ").split())
    assert "Already completed, http 200, the provider's id is ch_1: nothing is sent again" in screen
    terminal.press("Tab", "Enter")
    assert keys.audit() == []


def test_a_stale_key_is_taken_over(keys: Keys, console: Console):
    keys.add("order:1", "in_flight", unknown_sends=1, mode="at_most_once", deadline="1 min",
             sent="2 min", epoch=3)
    terminal = console()
    assert "at_most_once: becomes uncertain" in terminal.press(*TO_KEY)
    assert "never sent again by itself" in " ".join(terminal.press("t").replace("│", " ").split())
    assert "taken over: order:1" in terminal.press("Tab", "Enter")
    assert (only(keys)["state"], only(keys)["epoch"]) == ("uncertain", 4)


def test_a_key_in_flight_is_left_alone(keys: Keys, console: Console):
    keys.add("order:1", "in_flight", unknown_sends=1, owner=keys.ledger())
    terminal = console()
    assert "in flight: an attempt is running" in terminal.press(*TO_KEY)
    assert "TAKE OVER" not in terminal.press("t") and keys.audit() == []


@pytest.mark.parametrize("letter, words, state", [("w", "withdrawn: order:1", "cancelled"),
                                                  ("d", "given up: order:1", "dead")])
def test_what_waits_is_taken_back(keys: Keys, console: Console, letter: str, words: str, state: str):
    keys.add("order:1", "retry_wait", due="-1 hour")
    terminal = console()
    terminal.press(*TO_KEY, letter, "BTab")
    terminal.text("INC-7")
    assert words in terminal.press("Enter", "Enter")
    assert only(keys)["state"] == state


def test_a_note_is_part_of_the_story(keys: Keys, console: Console):
    keys.add("order:1", "dead")
    terminal = console()
    terminal.press("2", "Enter", "x", "n", "BTab")
    terminal.text("they look into it")
    assert "noted at order:1" in terminal.press("Enter", "Enter")
    assert "Note: they look into it" in terminal.press("R")
    assert only(keys)["epoch"] == 0


def test_what_was_typed_ahead_decides_nothing(keys: Keys, console: Console):
    keys.add("order:1", "uncertain", unknown_sends=1)
    terminal = console()
    terminal.press(*TO_KEY)
    terminal.type("k", "Tab", "Enter", "f", "Tab", "Enter")
    assert "[> Cancel <]" in terminal.sync()
    assert keys.audit() == [] and only(keys)["state"] == "uncertain"
