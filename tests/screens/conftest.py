"""What every test of a screen can have: a database, keys in it, and the console in a terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.integration.conftest import postgres, template  # noqa: F401  fixtures
from tests.tools import libconfig
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.terminal import Terminal, screens_program

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def database(postgres: Postgres, template: str) -> Iterator[str]:  # noqa: F811
    """Of one name for all, for it stands in the first line."""
    postgres.create_database("ledger", template)
    yield "ledger"
    postgres.drop_database("ledger")


@pytest.fixture
def keys(postgres: Postgres, database: str) -> Iterator[Keys]:  # noqa: F811
    made = Keys(postgres, database)
    yield made
    made.close()


@pytest.fixture
def frozen(keys: Keys) -> Keys:
    """Keys of a database whose now() stands still; take `stopped` for the console as well."""
    keys.freeze()
    return keys


@pytest.fixture
def config(tmp_path: Path, postgres: Postgres, database: str) -> Callable[..., Path]:  # noqa: F811
    """A configuration for this test's database, with these sections besides."""
    def write(**sections: Any) -> Path:
        path = tmp_path / "counterfoil.conf"
        path.write_text(libconfig.settings(libconfig.merge({
            "general": {"environment": "staging"},
            "postgres": {"conninfo": postgres.conninfo(database)},
        }, sections)))
        return path
    return write


@pytest.fixture
def console(config: Callable[..., Path]) -> Iterator[Callable[..., Terminal]]:
    """console(width, height, environment, section={...}): the console, its first screen read."""
    opened: list[Terminal] = []

    def start(width: int = 80, height: int = 24, environment: dict[str, str | None] | None = None,
              ready: bool = True, **sections: Any) -> Terminal:
        terminal = Terminal([str(screens_program()), "--config", str(config(**sections))], width,
                            height, environment)
        opened.append(terminal)
        if ready:
            terminal.sync()
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def stopped(console: Callable[..., Terminal]) -> Callable[..., Terminal]:
    """The same, with a clock that stands: for pictures."""
    def start(width: int = 80, height: int = 24, environment: dict[str, str | None] | None = None,
              **sections: Any) -> Terminal:
        return console(width, height, {"COUNTERFOIL_TEST_CLOCK": "1", **(environment or {})},
                       **sections)
    return start


def golden(name: str, screen: str) -> None:
    """Compares with the picture of that name; UPDATE_GOLDEN=1 draws it anew."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(screen)
    assert path.exists(), f"there is no {path}; UPDATE_GOLDEN=1 makes it"
    assert screen == path.read_text(), f"\n{screen}\nis not {path}"
