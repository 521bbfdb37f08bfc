"""How tests are dealt out to the workers (tests/run): each by itself, for each may be run by itself.
Those that share something of their module, a server or a topic, stay together."""

from __future__ import annotations

import pytest

# Modules whose tests last longest are begun first: nothing is left to wait for in the end.
FIRST = ("test_expiry", "test_relay_suspects", "test_kafka", "test_kafka_ledger", "test_kill",
         "test_modes", "test_intake_processes", "test_crash_points", "test_mail", "test_bulk")


def module(item: pytest.Item) -> str:
    return item.module.__name__.rpartition(".")[2]


def shares(item: pytest.Item) -> bool:
    """Has its module a fixture for more than one test?"""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    return any(each.scope != "function" and each.baseid.endswith(".py")
               for named in definitions for each in named)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if shares(item):
            item.add_marker(pytest.mark.xdist_group(module(item)))
    items.sort(key=lambda item: FIRST.index(module(item)) if module(item) in FIRST else len(FIRST))
