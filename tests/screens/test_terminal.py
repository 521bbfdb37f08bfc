"""The terminal's manners: taken and given back whole, whatever is in the data and whatever happens.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.tools import waiting
from tests.tools.keys import Keys
from tests.tools.terminal import Terminal, screens_program

Console = Callable[..., Terminal]
Config = Callable[..., Path]
NASTY = "a\r\n\tb\x1b[31m\u202e\u200b\ufe0f\u00adc"


@pytest.fixture
def shell(config: Config) -> Iterator[Callable[..., Terminal]]:
    """A shell in a terminal, from which the console is started by hand."""
    opened: list[Terminal] = []

    def start() -> Terminal:
        terminal = Terminal(["sh"], environment={"PS1": "ready> ", "ENV": None})
        opened.append(terminal)
        terminal.wait(r"^ready>$")
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def run_console(terminal: Terminal, config: Path) -> None:
    terminal.text(f"{screens_program()} --config {config}")
    terminal.type("Enter")
    terminal.wait(r"\[1 Overview\]")
    terminal.synced = 0
    terminal.sync()


def assert_sane(terminal: Terminal) -> None:
    """The shell has its terminal back: modes, cursor, screen, and what is typed is seen."""
    terminal.wait(r"^ready>$")
    assert "Overview" not in terminal.screen()
    assert terminal._ask("#{cursor_flag} #{alternate_on} #{mouse_any_flag} #{keypad_cursor_flag}") \
        == "1 0 0 0"
    terminal.text("stty -a | tr ';' '\\n' | tr ' ' '\\n' | grep -xE -e '-?(icanon|echo|isig|icrnl|opost)'")
    terminal.type("Enter")
    screen = terminal.wait(r"^(ready> )?-?icrnl$[\s\S]*^ready>$")
    modes = [word for word in re.split(r"\n|ready> ", screen) if word.lstrip("-") in
             ("icanon", "echo", "isig", "icrnl", "opost")]
    assert sorted(modes) == ["echo", "icanon", "icrnl", "isig", "opost"]


# --- what is in the data --------------------------------------------------------------------------

def test_nothing_from_outside_moves_the_cursor(keys: Keys, console: Console):
    """C1: the columns stand where they stand, and what is invisible is seen."""
    keys.add(f"order:{NASTY}", error_class=f"http {NASTY}", since="10 min 30 s")
    keys.add("order:plain", error_class="http 503", since="11 min 30 s")
    terminal = console(140, 24)
    screen = terminal.press("2")
    plain, nasty = [line for line in screen.split("\n") if line[2:6] == "dead"]
    assert "a\\r\\n\\tb\\u001b[31m\\u202e\\u200b\\ufe0f\\u00adc" in nasty
    assert nasty.index("10m 30s") == plain.index("11m 30s")
    assert nasty.index("payments") == plain.index("payments")
    screen = terminal.press("j", "Enter")
    assert "Idempotency-Key: order:a\\r\\n\\tb\\u001b[31m" in screen


def test_bytes_that_are_no_text(keys: Keys, console: Console):
    keys.add("order:1", body=b"\xff\x00\x1b[31m\xc2\x9b\r\nnext")
    terminal = console()
    screen = terminal.press("2", "Enter")
    assert "\\xff\\u0000\\u001b[31m\\u009b\\r\n  next\n" in screen


def test_wide_characters_take_two_columns(keys: Keys, console: Console):
    """C4"""
    keys.add("order:世蓮😀", since="10 min 30 s")
    keys.add("order:plain", since="11 min 30 s")
    terminal = console()
    terminal.press("2")
    plain, wide = [line for line in terminal.screen().split("\n") if line[2:6] == "dead"]
    # the same cell; in the captured text a wide character is one
    assert "order:世蓮😀 " in wide
    assert wide.index("10m 30s") + 3 == plain.index("11m 30s")


def test_a_big_body_is_shown_in_part(keys: Keys, console: Console):
    keys.add("order:1", body={"items": ["x" * 50] * 200000})
    terminal = console()
    terminal.press("2")
    assert "10.1 MiB  json" in terminal.press("Enter")
    assert "... 10.0 MiB more" in terminal.press("G")


# --- which terminal -------------------------------------------------------------------------------

def judge(terminal: Terminal) -> tuple[int, str]:
    status = terminal.status()
    def said() -> str:
        # a dead pane says so itself, after it has scrolled by a line
        seen = terminal.tmux("capture-pane", "-p", "-t", "a", "-S", "-")
        return "".join(line for line in seen.split("\n") if line and "Pane is dead" not in line)
    return status, waiting.until(said, 5, "what it said to be read")  # tmux may learn of its end first


def test_an_unknown_terminal_is_one_line(console: Console):
    """C15"""
    status, said = judge(console(100, 10, {"TERM": "nosuch"}, ready=False))
    assert status == 69
    assert said == ('counterfoil: this machine does not know the terminal TERM="nosuch": try TERM='
                    'xterm-256color, or install ncurses-term')


@pytest.mark.parametrize("term", [None, ""])
def test_no_terminal_type(console: Console, term: str | None):
    status, said = judge(console(100, 10, {"TERM": term}, ready=False))
    assert status == 69 and "TERM is not set" in said


def test_a_terminal_that_cannot_place_its_cursor(console: Console):
    """C16"""
    status, said = judge(console(100, 10, {"TERM": "dumb"}, ready=False))
    assert status == 69
    assert "\"dumb\" cannot place its cursor" in said and "`counterfoil list`" in said


def test_a_pipe_is_refused(config: Config):
    """C16"""
    done = subprocess.run([str(screens_program()), "--config", str(config())],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (69, "")
    assert "`counterfoil list`" in done.stderr and done.stderr.count("\n") == 1


def test_a_wrong_configuration_is_said_before_the_screen(shell: Callable[..., Terminal],
                                                         tmp_path: Path):
    terminal = shell()
    terminal.text(f"{screens_program()} --config {tmp_path}/none; echo status $?")
    terminal.type("Enter")
    screen = terminal.wait(r"^status 78$")
    assert "none" in screen


# --- its size, its locale, its colours ------------------------------------------------------------

def test_it_takes_the_size_that_there_is(keys: Keys, console: Console):
    """C19: exported LINES and COLUMNS freeze nothing."""
    terminal = console(80, 24, {"LINES": "10", "COLUMNS": "40"})
    assert terminal.title().endswith(" 80x24")
    terminal.resize(100, 30)
    # tmux lets a second resize wait; a sync is answered in the size of its moment
    waiting.until(lambda: terminal.sync() and terminal.title().endswith(" 100x30"), 10,
                  "the new size")
    assert len(terminal.screen().split("\n")[2]) == 100


def test_too_small_says_so_and_goes_on(keys: Keys, console: Console):
    """C11"""
    terminal = console(40, 10)
    assert terminal.screen() == "counterfoil needs 60x16\nthis is 40x10\nq quits\n"
    terminal.resize(80, 24)
    terminal.wait(r"\[1 Overview\]")
    terminal.type("q")
    assert terminal.status() == 0


def test_lc_ctype_alone_gives_unicode(console: Console):
    """C7"""
    assert "──" in console(80, 24, {"LC_ALL": None, "LC_CTYPE": "C.UTF-8"}).screen()


@pytest.mark.parametrize("environment", [
    {"LC_ALL": "C"}, {"LC_ALL": "no_SUCH.UTF-8"}, {"LC_ALL": None, "LANG": None}])
def test_any_other_locale_has_plain_borders(console: Console, environment: dict[str, str | None]):
    """C7"""
    screen = console(80, 24, environment).screen()
    assert "--------" in screen and screen.isascii()


def test_no_color(keys: Keys, console: Console):
    """C5 C6: colours are the terminal's own, none with NO_COLOR, and nothing is told by one alone."""
    keys.add("order:1", "uncertain", unknown_sends=1)
    coloured = console(80, 24, {"NO_COLOR": ""})
    assert "\x1b[31m" in coloured.colours() or ";31m" in coloured.colours()
    assert "\x1b[4" not in coloured.colours().replace("\x1b[49m", "")    # no background of ours
    plain = console(80, 24, {"NO_COLOR": "1"})
    for code in ("\x1b[3", ";3", "\x1b[4", "38;", "48;"):
        assert code not in plain.colours().replace("\x1b[39m", "").replace("\x1b[49m", "")
    def below_the_clock(terminal: Terminal) -> str:
        return terminal.screen().split("\n", 1)[1]
    assert below_the_clock(plain) == below_the_clock(coloured)
    assert "uncertain  !!" in plain.screen()


# --- keys -----------------------------------------------------------------------------------------

def test_escape_is_quick(keys: Keys, console: Console):
    """C17: 150 ms, of which 100 are there to tell it from an arrow that comes in pieces."""
    keys.add("order:1")
    terminal = console()
    terminal.press("2", "x")
    assert "what to do with" in terminal.screen()
    took = []
    for _ in range(5):
        begin = time.monotonic()
        terminal.type("Escape")
        waiting.until(lambda: "what to do with" not in terminal.screen(), 2, "the menu to go",
                      every=0.005)
        took.append(time.monotonic() - begin)
        terminal.press("x")
    # three programs of tmux are started on the way: the quickest says what the console needs
    assert min(took) < 0.15, took


def test_an_arrow_in_pieces_is_an_arrow(keys: Keys, console: Console):
    keys.add("order:1", since="2 min")
    keys.add("order:2", since="1 min")
    terminal = console(80, 24, None, console={"escape_delay": "500ms"})
    terminal.press("2")
    terminal.type("Escape")
    terminal.text("OB")
    screen = terminal.sync()
    assert "> dead !        order:1 " in screen and "[2 Keys]" in screen


def test_what_is_pasted_is_no_command(keys: Keys, console: Console):
    keys.add("order:1")
    terminal = console()
    before = terminal.press("2")
    terminal.paste("xr\t\rqQ")
    assert terminal.sync().split("\n")[1:] == before.split("\n")[1:]    # but for the clock
    terminal.press("/")
    terminal.paste("order\n:1\x1b")
    assert "│ order:1 " in terminal.sync()
    assert keys.audit() == []


def test_the_mouse_is_left_to_the_terminal(console: Console):
    """C21"""
    terminal = console(ready=False)
    terminal.record()
    terminal.sync()
    terminal.press("2", "?", "q", "C-l")
    assert b"?1000h" not in terminal.raw.read_bytes()


# --- the end --------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "SEGV", "ABRT"])
def test_a_signal_leaves_a_sane_terminal(keys: Keys, config: Config,
                                         shell: Callable[..., Terminal], name: str):
    """C12"""
    terminal = shell()
    run_console(terminal, config())
    child = subprocess.run(["pgrep", "-P", str(terminal.pid)], capture_output=True, text=True,
                           check=True).stdout.strip()
    os.kill(int(child), getattr(signal, f"SIG{name}"))
    terminal.wait(r"ready>$")
    terminal.type("Enter")
    assert_sane(terminal)


@pytest.mark.parametrize("keys_", [["q"], ["Q"], ["C-c"], ["2", "Enter", "q", "q"]])
def test_quitting(keys: Keys, config: Config, shell: Callable[..., Terminal], keys_: list[str]):
    keys.add("order:1")
    terminal = shell()
    run_console(terminal, config())
    terminal.press(*keys_[:-1]) if keys_[:-1] else None
    terminal.type(keys_[-1])
    assert_sane(terminal)
    terminal.text("clear; echo status $?")


def test_suspend_and_come_back(keys: Keys, config: Config, shell: Callable[..., Terminal]):
    """C18"""
    for n in range(5):
        keys.add(f"order:{n}", since=f"{n + 1} min")
    terminal = shell()
    run_console(terminal, config())
    before = terminal.press("2", "j", "j")
    assert "> dead !        order:2 " in before
    terminal.type("C-z")
    terminal.wait(r"Stopped|suspended")
    terminal.type("Enter")
    assert_sane(terminal)
    terminal.text("fg")
    terminal.type("Enter")
    terminal.wait(r"\[2 Keys\]")
    assert "> dead !        order:2 " in terminal.sync()
    assert "> dead !        order:1 " in terminal.press("j")


def test_the_end_of_the_terminal_is_the_end(console: Console, keys: Keys):
    """C13 C14: no process and no connection is left behind."""
    terminal = console()
    pid = terminal.pid
    alive = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counterfoil'"
    assert keys.value(alive) == 1
    terminal.tmux("kill-server")
    waiting.until(lambda: not Path(f"/proc/{pid}").exists(), 2, "the console to end")
    waiting.until(lambda: keys.value(alive) == 0, 2, "its connection to go")


def test_stderr_is_not_drawn_over_the_screen(keys: Keys, config: Config,
                                             shell: Callable[..., Terminal]):
    """C20: what libraries and the log say comes when the screen is left."""
    keys.query("CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN "
               "RAISE NOTICE 'foreign text'; RETURN clock_timestamp(); END $$")
    keys.query(f'ALTER DATABASE "{keys.database}" SET search_path = public, pg_catalog')
    terminal = shell()
    run_console(terminal, config(log={"level": "debug"}))
    assert "foreign" not in terminal.press("2")
    terminal.type("q")
    assert "foreign text" in terminal.wait(r"^ready>$")
