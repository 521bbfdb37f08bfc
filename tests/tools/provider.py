"""The payments provider, seen from a test: starts it, orders faults, and asks what really happened.

The answers of the judge (`requests()`, `charges()`) come from the provider's record, which is
complete even when the process was killed.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import children, journal


@dataclass
class Seen:
    """One request as it reached the provider."""

    n: int
    t: float
    connection: int
    nth: int
    method: str
    path: str
    key: str | None
    headers: list[tuple[str, str]]
    body: str                     # as latin-1, at most 64 KiB
    digest: str
    length: int
    applied: bool = False         # whether a charge was made for it
    replayed: bool = False
    decided: bool = False
    status: int | None = None     # None: no answer
    fault: str | None = None
    sent: int | None = None       # bytes of a huge body that left

    def header(self, name: str) -> str | None:
        for known, value in self.headers:
            if known.lower() == name.lower():
                return value
        return None


@dataclass
class Charge:
    n: int                        # of the request that made it
    t: float
    id: str
    key: str | None
    digest: str


def _reserved_port() -> tuple[socket.socket, int]:
    """A port that nobody else is given while the socket lives. Nothing listens on it, so a server
    of ours may, and connections are refused while none does."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved, reserved.getsockname()[1]


class Provider:
    """A provider process on a directory. Settings are those of provider_keys.Profile, and `think`,
    the bounds of the seconds that a charge takes."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._reserved, self.port = _reserved_port()
        self.process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self) -> "Provider":
        """Always on the same port."""
        with open(self.directory / "provider.log", "ab") as log:
            self.process = children.spawn(
                [sys.executable, "-m", "tests.tools.provider_server", str(self.directory.resolve()),
                 str(self.port)],
                cwd=Path(__file__).resolve().parents[2], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        if self.process.stdout.readline().strip() != f"listening {self.port}":
            raise RuntimeError(f"the provider did not start: see {self.directory}/provider.log")
        if self.settings:
            self._order("configure", **self.settings)
        return self

    def _order(self, what: str, **order: Any) -> dict[str, Any]:
        with self._lock:
            self.process.stdin.write(json.dumps({"do": what, **order}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "gone"}
        if "error" in answer:
            raise RuntimeError(f"provider: {what}: {answer['error']}")
        return answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, **settings: Any) -> None:
        self.settings.update(settings)
        self._order("configure", **settings)

    def fault(self, kind: str, **order: Any) -> int:
        """Orders a fault (see provider_faults.Fault); its id."""
        return self._order("fault", kind=kind, **order)["id"]

    def clear(self, fault: int | None = None) -> None:
        """Ends one fault, or all of them."""
        self._order("clear", id=fault)

    def met(self, fault: int) -> int:
        """How many requests the fault has met."""
        return self._order("met", id=fault)["met"]

    def forget_keys(self) -> None:
        """The window of every key ends now."""
        self._order("forget")

    def refuse_connections(self) -> None:
        self._order("close")

    def accept_connections(self) -> None:
        self._order("open")

    def freeze(self) -> None:
        """Requests are taken in by the kernel alone; a fault cannot be ordered meanwhile."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self._gone()

    def stop(self) -> None:
        if self.process is not None:
            children.end(self.process)
            self._gone()

    def _gone(self) -> None:
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None

    def __enter__(self) -> "Provider":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- the judge --------------------------------------------------------------------------------

    def requests(self) -> list[Seen]:
        """Every request that was read, in the order of arrival."""
        seen: dict[int, Seen] = {}
        for record in journal.read(self.directory / "journal"):
            kind = record.pop("kind")
            if kind == "request":
                record["headers"] = [tuple(pair) for pair in record["headers"]]
                seen[record["n"]] = Seen(**record)
            elif kind == "charge":
                seen[record["n"]].applied = True
            elif kind == "decided":
                request = seen[record["n"]]
                request.decided = True
                request.replayed = record["replayed"]
                request.status = record["status"]
                request.fault = record["fault"]
            elif kind == "sent":
                seen[record["n"]].sent = record["bytes"]
        return [seen[n] for n in sorted(seen)]

    def charges(self) -> list[Charge]:
        """Every charge that was made, in order."""
        made = []
        for record in journal.read(self.directory / "journal"):
            if record.pop("kind") == "charge":
                made.append(Charge(**record))
        return made

    def charges_by_key(self) -> Counter[str | None]:
        return Counter(charge.key for charge in self.charges())
