"""When things are not fair: the relay and its rival with a snapshot held elsewhere, with a large
backlog, two at once on few keys, and killed."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Callable

from tests.tools import waiting

from .setting import Size
from .stage import Player, Relay, Rival, Stage, drained
from .steady import number_of
from .table import Figure

HELD_ROWS = 200_000
HELD_PATIENCE = 60          # seconds; the rival may not end
LARGE = 2_000_000
KEYS, KEY_ROWS = 50, 200_000
KILL_ROWS, KILL_LEAST = 200_000, 50_000   # too few are gone before one can be killed
KILL_LEASE = "5s"
MEGABYTE = 1e6

MakeOne = Callable[[Stage, int], Player]


def measure_held(stage: Stage, size: Size) -> list[Figure]:
    rows, patience = size.of(HELD_ROWS), max(10.0, size.seconds(HELD_PATIENCE))
    fair = drained(stage, Relay, rows)
    relay = drained(stage, Relay, rows, held=True, patience=patience)
    rival = drained(stage, Rival, rows, held=True, patience=patience)
    return [
        Figure(f"relay_held {stage.name}", relay.rate, "rows/s", fair.rate),
        Figure(f"rival_held {stage.name}", relay.rate, "rows/s", rival.rate),
        Figure(f"rival_held {stage.name}: rows the rival did", rival.rows, "rows", rows),
    ]


def measure_memory(stage: Stage, size: Size) -> list[Figure]:
    rows, name = size.of(LARGE), stage.name
    done = drained(stage, Relay, rows)
    return [
        Figure(f"relay_memory {name}: idle", done.idle_bytes / MEGABYTE, "MB"),
        Figure(f"relay_memory {name}: peak, {rows} rows", done.peak_bytes / MEGABYTE, "MB"),
    ]


# --- books ----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Books:
    lost: int
    twice: int      # messages that were there already
    late: int       # new messages that came after a newer one of their key


def read_books(stage: Stage, topic: str, rows: int, keys: int) -> Books:
    """Of orders 1 to `rows`, whose keys take turns."""
    seen: Counter[int] = Counter()
    newest: dict[int, int] = {}
    late = 0
    for message in stage.broker.consume_all(topic):
        order = number_of(message.value)
        key = order % keys
        if not seen[order] and order < newest.get(key, 0):
            late += 1
        newest[key] = max(order, newest.get(key, 0))
        seen[order] += 1
    return Books(rows - len(seen), seen.total() - len(seen), late)


def _paused(stage: Stage, stack: ExitStack, make: MakeOne, count: int) -> list[Player]:
    """So many of them, who have published before and stand still."""
    stage.backlog.clear()
    stage.backlog.add_one(stage.new_topic())
    players = [stack.enter_context(closing(make(stage, n + 1))) for n in range(count)]
    for player in players:
        player.start()
    stage.wait_empty()
    for player in players:
        player.pause()
    return players


def _together(stage: Stage, make: MakeOne, rows: int) -> Books:
    topic = stage.new_topic()
    with ExitStack() as stack:
        players = _paused(stage, stack, make, 2)
        last = stage.backlog.fill(topic, rows, KEYS)
        for player in players:
            player.go_on()
        assert stage.wait_gone(last), "it did not end"
        for player in players:
            player.stop()
    return read_books(stage, topic, rows, KEYS)


def _killed(stage: Stage, make: MakeOne, rows: int) -> Books:
    """kill -9 when a quarter of it is gone; another one does the rest."""
    topic = stage.new_topic()
    with ExitStack() as stack:
        (player,) = _paused(stage, stack, make, 1)
        last = stage.backlog.fill(topic, rows, KEYS)
        player.go_on()
        waiting.until(lambda: not stage.backlog.has(last - rows * 3 // 4), 60,
                      "a quarter of it to be gone", every=0.001)
        player.kill()
        assert stage.backlog.has(last), "it was done before it could be killed"
        successor = stack.enter_context(closing(make(stage, 1)))
        successor.start()
        assert stage.wait_gone(last), "it did not end"
        successor.stop()
    return read_books(stage, topic, rows, KEYS)


def _relay(stage: Stage, number: int) -> Relay:
    """One that is followed soon when it was killed."""
    return Relay(stage, number, lease=KILL_LEASE)


def measure_books(stage: Stage, size: Size) -> list[Figure]:
    name = stage.name
    rows = size.of(KEY_ROWS)
    relay, rival = _together(stage, Relay, rows), _together(stage, Rival, rows)
    figures = [Figure(f"rival_order {name}: two at once, {KEYS} keys, inversions of {rows}",
                      relay.late, "rows", rival.late)]
    rows = max(KILL_LEAST, size.of(KILL_ROWS))
    relay, rival = _killed(stage, _relay, rows), _killed(stage, Rival, rows)
    return [*figures,
            Figure(f"rival_kill {name}: lost of {rows}", relay.lost, "rows", rival.lost),
            Figure(f"rival_kill {name}: twice of {rows}", relay.twice, "rows", rival.twice),
            Figure(f"rival_kill {name}: inversions of {rows}", relay.late, "rows", rival.late)]
