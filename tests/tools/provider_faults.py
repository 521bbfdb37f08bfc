"""The faults that a test can order from the provider: what each means, and whom it meets."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field, fields
from email.utils import formatdate
from typing import Any

from .provider_keys import Answer, Request

# After these, an answer was at least begun: by default the charge has been made.
APPLIED_BY_DEFAULT = {"pass", "cut_headers", "cut_body", "garbage", "slow_body", "huge_body",
                      "bomb"}
KINDS = APPLIED_BY_DEFAULT | {"status", "hang", "reset", "close"}


@dataclass
class Fault:
    """One order. `kind`:

    pass         nothing but the delays
    status       this status, headers and body instead of the answer
    hang         no answer, until the client gives up
    reset close  the connection is reset, or closed, without an answer
    cut_headers  the answer ends within its headers
    cut_body     the answer ends within its body
    garbage      bytes that are no HTTP
    slow_body    the body byte by byte, `interval` seconds apart
    huge_body    a body of `size` bytes, with a length or `chunked`
    bomb         a compressed body that would be `size` bytes
    """

    kind: str
    apply: bool | None = None          # whether the charge is made first
    # whom it meets
    times: int | None = None           # None: until it is cleared
    seconds: float | None = None       # active for so long, from the order on
    path: str = ""                     # prefix
    key: str = ""                      # regular expression
    nth: int | None = None             # only the nth request of a connection
    share: float = 1.0                 # of the requests that it would meet
    # what it does
    delay: float = 0                   # before applying
    delay_answer: float = 0            # after applying
    early: bool = False                # decided before the body is read
    status: int = 500
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""
    retry_after: dict[str, Any] | None = None   # {"seconds": 2, "form": "digits"}, see retry_after()
    store: bool = False                # the fault's answer is kept for the key
    interval: float = 0.1
    size: int = 10 * 1024 ** 3
    chunked: bool = False
    # kept by the provider
    id: int = 0
    met: int = 0
    ordered_at: float = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no such fault: {self.kind}")
        if self.apply is None:
            self.apply = self.kind in APPLIED_BY_DEFAULT
        self._keys = re.compile(self.key)

    def active(self, now: float) -> bool:
        spent = self.times is not None and self.met >= self.times
        late = self.seconds is not None and now - self.ordered_at > self.seconds
        return not spent and not late

    def meets(self, request: Request, key: str | None) -> bool:
        return (request.path.startswith(self.path)
                and self._keys.search(key or "") is not None
                and (self.nth is None or self.nth == request.nth))

    def answer(self) -> Answer:
        headers = [tuple(pair) for pair in self.headers]
        if self.retry_after:
            headers.append(("Retry-After", retry_after(**self.retry_after)))
        return Answer(self.status, headers, self.body)


def retry_after(seconds: float, form: str = "digits") -> str:
    """Every form of the header: seconds, the three HTTP dates, and what is none of them."""
    if form == "digits":
        return str(int(seconds))
    if form == "junk":
        return "in a while"
    when = time.gmtime(time.time() + seconds)
    formats = {"imf": "%a, %d %b %Y %H:%M:%S GMT", "rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
               "asctime": "%a %b %e %H:%M:%S %Y"}
    return time.strftime(formats[form], when)


def http_date() -> str:
    return formatdate(usegmt=True)


class Faults:
    """The orders in force; the first that meets a request is taken."""

    def __init__(self, seed: int = 0) -> None:
        self._orders: list[Fault] = []
        self._random = random.Random(seed)
        self._given = 0

    def order(self, now: float, **order: Any) -> Fault:
        known = {f.name for f in fields(Fault)}
        if unknown := set(order) - known:
            raise ValueError(f"no such property of a fault: {', '.join(sorted(unknown))}")
        self._given += 1
        fault = Fault(**order, id=self._given, ordered_at=now)
        self._orders.append(fault)
        return fault

    def take(self, request: Request, key: str | None, now: float) -> Fault | None:
        for fault in self._orders:
            if (fault.active(now) and fault.meets(request, key)
                    and (fault.share >= 1 or self._random.random() < fault.share)):
                fault.met += 1
                return fault
        return None

    def clear(self, fault_id: int | None = None) -> None:
        self._orders = [f for f in self._orders if fault_id is not None and f.id != fault_id]

    def met(self, fault_id: int) -> int:
        return sum(f.met for f in self._orders if f.id == fault_id)
