"""Waiting for something to become true: by looking, never by sleeping for a guessed time."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

T = TypeVar("T")


class Late(AssertionError):
    """A condition that did not come true in time."""


def until(condition: Callable[[], T], timeout: float, what: str, every: float = 0.02) -> T:
    """Looks at `condition` until it gives something true, and returns that.

    `what` completes "waited N s for ..."; the last value seen is reported too.
    """
    deadline = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise Late(f"waited {timeout:g} s for {what}; last seen: {seen!r}")
        time.sleep(every)


def holds(condition: Callable[[], object], seconds: float, what: str, every: float = 0.05) -> None:
    """For what must *not* change: asserts that `condition` stays true for that long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = condition()
        if not seen:
            raise AssertionError(f"no longer so: {what}; seen: {seen!r}")
        time.sleep(every)
