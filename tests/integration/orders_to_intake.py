"""What the tests of orders to intake share: `counterfoil` beside a world, and its operations."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.tools import programs, waiting
from tests.tools.world import World

ORDERED = ("--yes", "--reason", "a test")


def counterfoil(world: World, *words: object) -> "subprocess.CompletedProcess[str]":
    return programs.run("counterfoil", "--config", str(world.write_configuration()),
                        *(str(word) for word in words))


def answer(done: "subprocess.CompletedProcess[str]", code: int = 0) -> Any:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def operations(world: World) -> list[tuple[Any, ...]]:
    """(kind, state, detail) of each."""
    return world.query("SELECT kind, state, detail FROM counterfoil.operation ORDER BY id")


def ordered(world: World, *words: object, ends: str = "done") -> str:
    """Gives the order and waits for its end; the detail."""
    done = counterfoil(world, *words, *ORDERED)
    kind, state, detail = operations(world)[-1]
    assert state == ends, (kind, state, detail, done.stdout, done.stderr)
    assert done.returncode in (0, 3) and detail in done.stdout
    assert state == "done" or done.returncode == 3
    return detail


def waits(world: World) -> bool:
    """Somebody for a lock."""
    return world.value("SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() "
                       "AND wait_event_type = 'Lock'")


def order(world: World, number: int, action: str) -> str:
    """As a person does; the result."""
    return world.value("SELECT result FROM counterfoil.operation_order(%s, %s, gen_random_uuid(), "
                       "'a test', '{}')", (number, action))


def wait_end(world: World, number: int, timeout: float = 30) -> tuple[str, str]:
    """State and detail."""
    return waiting.until(lambda: world.query(
        "SELECT state, detail FROM counterfoil.operation WHERE id = %s AND ended_at IS NOT NULL",
        (number,)), timeout, "the order's end")[0]


def queue(world: World, kind: str, params: dict[str, Any]) -> int:
    """Gives the order as the command does; nobody waits."""
    return world.value("SELECT counterfoil.order_intake(%s, %s, gen_random_uuid(), 'a test', '{}')",
                       (kind, json.dumps(params)))
