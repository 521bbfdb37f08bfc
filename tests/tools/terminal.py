"""A terminal that a test types into and looks at: tmux, a server of its own for each.

Never by time: after keys comes F12, which the build for these tests answers with `sync-N WxH` in the
title once everything before it is on the screen and no query is under way.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal as signals
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from . import waiting
from .programs import build_directory

BASE = {"LC_ALL": "C.UTF-8", "TERM": "tmux-256color"}
numbers = itertools.count(1)


def screens_program() -> Path:
    """The console with the hooks for these tests."""
    return build_directory() / "tests/tools/counterfoil-screens"


class Terminal:
    """`command` in a terminal of that size. `environment` is added to the little there is; a value
    of None takes a variable away."""

    def __init__(self, command: Sequence[str], width: int = 80, height: int = 24,
                 environment: dict[str, str | None] | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="counterfoil-tmux.", dir="/tmp"))
        self.synced = 0
        self.raw = self.home / "raw"
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.server = {**kept, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color",
                       "TMUX_TMPDIR": str(self.home)}
        merged = {**BASE, **(environment or {})}
        inner = ["env", "-i", *(f"{name}={value}" for name, value in {
            **kept, "TMUX_TMPDIR": str(self.home), **merged}.items() if value is not None)]
        line = " ".join(_quoted(word) for word in [*inner, *command])
        # window-size is set before there is a window but not before the first session: tmux 3.3a
        # crashes otherwise
        self.tmux("start-server", ";", "set", "-s", "exit-empty", "off", ";",
                  "set", "-g", "status", "off", ";",
                  "set", "-g", "default-terminal", "tmux-256color", ";",
                  "set", "-g", "remain-on-exit", "on", ";",
                  "new-session", "-d", "-s", "a", "-x", str(width), "-y", str(height),
                  f"exec {line}", ";", "set", "-w", "window-size", "manual")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-f", "/dev/null", "-L", "test", *arguments],
                              env=self.server, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"tmux {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        try:
            self.tmux("kill-server")
        except RuntimeError:
            pass                    # it has ended by itself
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- typing -----------------------------------------------------------------------------------

    def type(self, *keys: str) -> None:
        """Keys by tmux's names: x, Enter, Tab, BTab, Escape, Down, C-c; all at once."""
        self.tmux("send-keys", "-t", "a", *keys)

    def text(self, text: str) -> None:
        self.tmux("send-keys", "-t", "a", "-l", text)

    def paste(self, text: str) -> None:
        """As a terminal does: between brackets, when they were asked for."""
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p", "-t", "a")

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-t", "a", "-x", str(width), "-y", str(height))

    # --- looking ----------------------------------------------------------------------------------

    def sync(self, timeout: float = 15) -> str:
        """Waits until what was typed is on the screen; the screen."""
        self.synced += 1
        self.type("F12")
        wanted = f"sync-{self.synced} "
        try:
            waiting.until(lambda: self.title().startswith(wanted), timeout, f"title {wanted}")
        except waiting.Late as late:
            raise waiting.Late(f"{late}\n{self.screen()}") from None
        return self.screen()

    def press(self, *keys: str) -> str:
        """Keys one after the other, each with its effect; the screen at the end."""
        screen = ""
        for key in keys:
            self.type(key)
            screen = self.sync()
        return screen

    def title(self) -> str:
        return self._ask("#{pane_title}")

    def screen(self) -> str:
        """What is seen, without blanks at the ends of lines."""
        seen = self.tmux("capture-pane", "-p", "-t", "a")
        return "\n".join(line.rstrip() for line in seen.split("\n")).rstrip("\n") + "\n"

    def colours(self) -> str:
        """The same with the escapes of its attributes."""
        return self.tmux("capture-pane", "-pe", "-t", "a")

    def wait(self, pattern: str, timeout: float = 15) -> str:
        """Waits until the screen holds it; the screen. For what happens without a key."""
        try:
            waiting.until(lambda: re.search(pattern, self.screen(), re.M), timeout,
                          f"the screen to show {pattern!r}")
        except waiting.Late as late:
            raise waiting.Late(f"{late}\n{self.screen()}") from None
        return self.screen()

    def _ask(self, what: str) -> str:
        return self.tmux("display-message", "-p", "-t", "a", what).rstrip("\n")

    @property
    def pid(self) -> int:
        """Of the program, which was started by exec."""
        return int(self._ask("#{pane_pid}"))

    def status(self, timeout: float = 10) -> int:
        """Waits for the program's end; its exit status, or 128 + the signal."""
        def look() -> str:
            # tmux 3.3a now and then misses the end of a child, and looks when it is told again
            os.kill(int(self._ask("#{pid}")), signals.SIGCHLD)
            seen = self._ask("#{pane_dead_status}:#{pane_dead_signal}")
            return "" if seen == ":" else seen
        status, signal = waiting.until(look, timeout, "the program to end").split(":")
        return 128 + int(signal) if signal else int(status)

    def record(self) -> None:
        """From now on everything the program writes goes to `raw` as well."""
        self.tmux("pipe-pane", "-t", "a", f"cat >{self.raw}")


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
