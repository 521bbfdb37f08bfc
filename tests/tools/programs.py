"""One of our programs under test: started with a generated configuration, watched by its log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import children, libconfig, waiting

FIELD = re.compile(r'([A-Za-z_][\w.-]*)=("(?:[^"\\]|\\.)*"|\S*)')
SANITIZER = re.compile(r"(Address|Leak|UndefinedBehavior|Thread)Sanitizer|: runtime error: ")


def build_directory() -> Path:
    """Where the programs are: BUILD, or the sanitizer build inside it with SAN=1."""
    build = Path(os.environ.get("BUILD", "build"))
    if os.environ.get("SAN") and build.name != "asan":
        build /= "asan"
    return build.resolve()


def sanitized() -> bool:
    return build_directory().name == "asan"


@dataclass
class Line:
    """One line of a log; `fields` are the texts, unescaped."""

    text: str
    fields: dict[str, str]

    @property
    def level(self) -> str:
        return self.fields.get("level", "")

    @property
    def msg(self) -> str:
        return self.fields.get("msg", "")


def parse_line(text: str) -> Line:
    fields = {}
    for name, value in FIELD.findall(text):
        fields[name] = json.loads(value, strict=False) if value.startswith('"') else value
    return Line(text, fields)


class Unexpected(AssertionError):
    """A program said or did what it should not."""


class Program:
    """`program` is counterfoil-relay or counterfoil-ledger; `name` is this one's: relay-1."""

    def __init__(self, program: str, name: str, directory: Path, config: dict[str, Any],
                 environment: dict[str, str] | None = None) -> None:
        self.program = program
        self.name = name
        self.config = directory / f"{name}.conf"
        self.log_path = directory / f"{name}.log"
        self.environment = environment or {}
        self.command: list[str] = []    # that becomes the program
        self.process: subprocess.Popen[bytes] | None = None
        self.frozen = False
        self._started_at = 0      # where the log of the present run begins
        self._crash = ""
        self._allowed: list[str] = []
        self.configure(config)

    def configure(self, config: dict[str, Any]) -> None:
        """Writes the file anew; a running program does not notice."""
        named = libconfig.merge(config, {"general": {"instance": self.name}})
        self.config.write_text(libconfig.settings(named))

    # --- life -------------------------------------------------------------------------------------

    def start(self, ready: bool = True, timeout: float = 30) -> "Program":
        """Starts it and waits until it says that it is ready, unless told not to."""
        assert not self.running, f"{self.name} runs already"
        self._started_at = self.log_path.stat().st_size if self.log_path.exists() else 0
        environment = {"ASAN_OPTIONS": "detect_leaks=1:exitcode=99",
                       "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
                       **os.environ, **self.environment}
        build = build_directory()
        if self._crash:
            build /= "crash"
            environment["COUNTERFOIL_CRASH"] = self._crash
        with open(self.log_path, "ab") as log:
            self.process = children.spawn(
                [*self.command, str(build / self.program), "--config", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        if ready:
            self.wait_for("ready", timeout)
        return self

    def crash_at(self, point: str) -> None:
        """From its next start on it is the build that kills itself at this point (include/crash.h),
        "claim.sent" or, at the third passing, "claim.sent:3", or when something with "x" in it passes,
        "row.encode=x"; "": the usual one again."""
        self._crash = point

    def wait_crash(self, timeout: float = 30) -> None:
        """Waits until it has killed itself there."""
        status = self.wait(timeout)
        said = "crash point " + re.split("[:=]", self._crash)[0]
        if status != -signal.SIGKILL or all(line.text != said for line in self.log()):
            raise Unexpected(f"{self.name} ended with status {status} and not at {self._crash}\n"
                             f"{self.tail()}")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self.frozen = False

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    def terminate(self) -> None:
        """Asks it to stop, and does not wait."""
        self.process.terminate()

    def wait(self, timeout: float = 30) -> int:
        """Its exit status, once it has ended."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Unexpected(f"{self.name} did not end within {timeout} s\n{self.tail()}") from None

    def stop(self, timeout: float = 30) -> None:
        """A clean stop, which must succeed."""
        if not self.running:
            return
        if self.frozen:
            self.thaw()
        self.terminate()
        status = self.wait(timeout)
        if status != 0:
            raise Unexpected(f"{self.name} ended with status {status}\n{self.tail()}")

    def close(self) -> None:
        """Ends it in any state."""
        if self.running:
            self.kill()

    # --- log --------------------------------------------------------------------------------------

    def log(self, whole: bool = False) -> list[Line]:
        """The lines of the present (or last) run; of all runs with `whole`."""
        if not self.log_path.exists():
            return []
        with open(self.log_path, "rb") as file:
            file.seek(0 if whole else self._started_at)
            return [parse_line(text) for text in file.read().decode(errors="replace").splitlines()]

    def tail(self, lines: int = 30) -> str:
        return "\n".join(line.text for line in self.log()[-lines:])

    def said(self, msg: str, **fields: object) -> list[Line]:
        """The lines of this run whose message is or begins with `msg`, with these fields."""
        wanted = {name: str(value) for name, value in fields.items()}
        return [line for line in self.log()
                if line.msg.startswith(msg) and wanted.items() <= line.fields.items()]

    def wait_for(self, msg: str, timeout: float = 30, **fields: object) -> Line:
        """Waits until it says so; fails at once when it ends instead."""
        def look() -> list[Line]:
            running = self.running
            found = self.said(msg, **fields)
            if not found and not running:
                raise Unexpected(f"{self.name} ended with status {self.process.poll()} before it "
                                 f"said {msg!r}\n{self.tail()}")
            return found
        try:
            return waiting.until(look, timeout, f"{self.name} to say {msg!r}")[0]
        except waiting.Late as late:
            raise waiting.Late(f"{late}\n{self.tail()}") from None

    # --- judgement --------------------------------------------------------------------------------

    def allow_errors(self, *patterns: str) -> None:
        """Error lines that this test expects: regular expressions, of the line."""
        self._allowed += patterns

    def complaints(self) -> list[str]:
        """What must not be in a log: error lines that no one expected, and a sanitizer's reports."""
        found = []
        for line in self.log(whole=True):
            unexpected = line.level == "error" and not any(
                re.search(pattern, line.text) for pattern in self._allowed)
            if unexpected or SANITIZER.search(line.text):
                found.append(f"{self.name}: {line.text}")
        return found


def run(program: str, *arguments: str, environment: dict[str, str] | None = None,
        timeout: float = 60, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end: commands of the console, wrong arguments, bad configuration."""
    return subprocess.run([str(build_directory() / program), *arguments], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, **(environment or {})}, timeout=timeout, check=False,
                          **options)
