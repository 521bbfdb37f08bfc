"""What a person sees of the demo: its lines, and where there is a terminal the console over them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

WIDTH = 66


class Screen:
    """The demo's voice. While the console has the terminal, lines are held back; they are written
    when it gives the terminal back, by `q` or at the end of the demo."""

    def __init__(self) -> None:
        self.console: subprocess.Popen[bytes] | None = None
        self.held: list[str] = []

    @staticmethod
    def is_terminal() -> bool:
        asked = os.environ.get("CI", "") not in ("", "0")
        return not asked and sys.stdin.isatty() and sys.stdout.isatty()

    def say(self, text: str) -> None:
        self.held.append(text)
        if self.console is None:
            self._write()

    def _write(self) -> None:
        for line in self.held:
            print(line, flush=True)
        self.held.clear()

    @contextmanager
    def timed(self, text: str) -> Iterator[list[str]]:
        """One line, written when its work is done; what the caller appends completes the text."""
        parts = [text]
        started = time.monotonic()
        yield parts
        self.say(f"{''.join(parts) + ' ':.<{WIDTH}} {time.monotonic() - started:.1f} s")

    # --- the console ------------------------------------------------------------------------------

    def open(self, program: Path, config: Path, log: Path) -> None:
        """The console on this terminal, if there is one: `q` ends the watching, not the demo."""
        if not self.is_terminal():
            return
        with open(log, "ab") as errors:
            self.console = subprocess.Popen([str(program), "--config", str(config)], stderr=errors)

    def offer(self, text: str, program: Path, config: Path, log: Path) -> None:
        """Where there is a terminal, waits with what is there to be looked at."""
        while self.is_terminal():
            self.say(f"{text}  c = open the console on them, Enter = clean up and leave")
            if sys.stdin.readline().strip() != "c":
                return
            self.open(program, config, log)
            if self.console is not None:
                self.console.wait()
            self.close()

    def poll(self) -> None:
        """Goes on with the lines once a person has closed the console."""
        if self.console is not None and self.console.poll() is not None:
            self.close()

    def close(self) -> None:
        """Takes the terminal back."""
        if self.console is None:
            return
        if self.console.poll() is None:
            self.console.terminate()
        self.console.wait()
        self.console = None
        self._write()
