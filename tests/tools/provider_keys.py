"""How a payments provider honours idempotency keys: pure, no clock and no network."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from enum import Enum


@dataclass
class Request:
    n: int                      # numbered by arrival
    connection: int
    nth: int                    # on its connection, from 1
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    digest: str = ""

    def take_body(self, body: bytes) -> None:
        self.body = body
        self.digest = hashlib.sha256(body).hexdigest()

    def header(self, name: str) -> str | None:
        for known, value in self.headers:
            if known.lower() == name.lower():
                return value
        return None


def is_signed(request: Request, secret: str, now: float, tolerance: float = 300) -> bool:
    """As a receiver of Standard Webhooks looks at a message."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    values = [request.header(name) for name in names]
    if None in values or sum(name.lower() in names for name, _ in request.headers) != len(names):
        return False
    name, timestamp, signatures = values
    if "." in name or not timestamp.isdecimal() or abs(now - int(timestamp)) > tolerance:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    digest = hmac.digest(key, f"{name}.{timestamp}.".encode() + request.body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}" in signatures.split(" ")


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""


@dataclass
class Profile:
    """What the provider promises about keys."""

    header: str = "Idempotency-Key"   # "": there are no keys, every request executes
    honours: bool = True              # False: keys are seen and mean nothing, the same
    window: float = 86400             # seconds for which a key is remembered, from its first request
    stores: str = "all"               # all | 2xx | none: which answers are kept and given again
    in_progress: int = 409
    mismatch: int = 400
    success: int = 200
    authorization: str = ""           # the value required, "" asks for none
    signing_secret: str = ""          # "whsec_...", with which every request must be signed


class Verdict(Enum):
    EXECUTE = "execute"
    REPLAY = "replay"
    IN_PROGRESS = "in progress"
    MISMATCH = "mismatch"


@dataclass
class _Known:
    since: float
    content: tuple[str, str, str]
    answer: Answer | None = None      # None: in progress


class Keys:
    """The keys that the provider remembers."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._known: dict[str, _Known] = {}

    def key(self, request: Request) -> str | None:
        return request.header(self.profile.header) if self.profile.header else None

    def begin(self, request: Request, now: float) -> tuple[Verdict, Answer | None]:
        """What is to be done with a request; EXECUTE must be followed by finish()."""
        key = self.key(request)
        if key is None or not self.profile.honours:
            return Verdict.EXECUTE, None
        known = self._known.get(key)
        content = (request.method, request.path, request.digest)
        if known is None or (known.answer and now - known.since > self.profile.window):
            self._known[key] = _Known(now, content)
            return Verdict.EXECUTE, None
        if known.content != content:
            return Verdict.MISMATCH, None
        if known.answer is None:
            return Verdict.IN_PROGRESS, None
        return Verdict.REPLAY, known.answer

    def finish(self, request: Request, answer: Answer) -> bool:
        """Ends an execution; true when the answer is kept for the key."""
        key = self.key(request)
        if key is None or not self.profile.honours:
            return False
        if self.profile.stores == "none" or (self.profile.stores == "2xx"
                                             and not 200 <= answer.status <= 299):
            del self._known[key]
            return False
        self._known[key].answer = answer
        return True

    def keep(self, request: Request, answer: Answer, since: float) -> None:
        """A kept answer from the record, or one that was decided without executing."""
        key = self.key(request)
        if key is not None:
            self._known[key] = _Known(since, (request.method, request.path, request.digest), answer)

    def forget(self) -> None:
        """The window of every key that is not in progress ends now."""
        self._known = {k: v for k, v in self._known.items() if v.answer is None}
