"""The lists of keys on the screen: what waits is among what is pending, and a shadow is told apart."""

from __future__ import annotations

import re
from typing import Callable

from tests.screens.conftest import golden
from tests.tools.dead import Dead
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.terminal import Terminal

Console = Callable[..., Terminal]


def seed(keys: Keys) -> None:
    keys.add("order:1:charge", "in_flight", serial_key="s", unknown_sends=1, owner=keys.ledger())
    for n in (2, 3):
        keys.add(f"order:{n}:charge", "pending", serial_key="s", waiting=True, since=f"{9 - n} min")
    keys.add("order:4:charge", "pending", waiting=True, aside="charge", since="1 hour")
    keys.add("order:5:mail", "pending", target="mail", since="5 s")
    keys.query("UPDATE counterfoil.effect SET effect = 'mail' WHERE idempotency_key LIKE '%mail'")
    keys.query("INSERT INTO counterfoil.pause (scope, name) VALUES ('effect', 'charge')")
    keys.add("order:6:charge", "completed", outcome="shadow")
    keys.add("order:7:charge", "completed", outcome="applied", http_status=200)


def test_what_waits_and_what_is_a_shadow(frozen: Keys, postgres: Postgres, stopped: Console):
    """The count and the list are of the same keys, and the oldest is one that waits."""
    seed(frozen)
    terminal = stopped(100, 30)
    assert re.search(r"pending +4 +1h 00m", terminal.screen())
    screen = terminal.press("2", "]")
    assert "[pending 4]" in screen and "1-4 of 4" in screen
    golden("waiting-100x30", screen)
    golden("shadow", terminal.press(*["]"] * 6))
    assert "shadow for 10m 00s" in terminal.press("j", "Enter")
    dead = Dead(postgres, frozen.database, frozen.at)
    dead.add()
    dead.close()
    screen = terminal.press("4", "t")
    assert "SINCE" in screen and "03-14 13:52:31" in screen
    terminal.press("2", "t", *["]"] * 7, "j", "Enter")
    terminal.resize(60, 16)
    terminal.press("Escape")
    golden("waiting-60x16", terminal.press(*["["] * 6))
