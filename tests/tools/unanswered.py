"""Statements whose answer is lost with their connection."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager, suppress
from typing import Any, Iterator

import psycopg2

from . import waiting
from .world import World


def cut_off(world: World, statement: str, event: str) -> None:
    """Ends the connection on which this statement waits for that."""
    def waiting_one() -> list[tuple[int]]:
        return world.postgres.query(
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = %s AND query LIKE %s AND wait_event = %s",
            (world.database, statement, event))
    for row in waiting.until(waiting_one, 10, f"{statement} to wait for {event}"):
        world.postgres.query("SELECT pg_terminate_backend(%s)", row)


PROBE = "SELECT pg_logical_emit_message(true, 'probe', '')"


def _wait_unanswered(cursor: Any, conninfo: str) -> None:
    """Until commits do wait: a process of the server's own puts the setting into force."""
    def commit() -> None:
        with suppress(psycopg2.Error), closing(psycopg2.connect(conninfo)) as probe:
            probe.autocommit = True
            probe.cursor().execute(PROBE)
    probes: list[threading.Thread] = []

    def waits() -> list[tuple[int]]:
        if not probes or not probes[-1].is_alive():
            probes.append(threading.Thread(target=commit, daemon=True))
            probes[-1].start()
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE query = %s "
                       "AND wait_event = 'SyncRep'", (PROBE,))
        return cursor.fetchall()
    for row in waiting.until(waits, 10, "commits to wait"):
        cursor.execute("SELECT pg_terminate_backend(%s)", row)
    probes[-1].join(10)


@contextmanager
def unanswered_commits(world: World) -> Iterator[Any]:
    """Commits wait for a standby that does not exist: whoever is cut off meanwhile has committed
    and does not hear of it. Gives a cursor whose own commits do not wait."""
    with closing(psycopg2.connect(world.postgres.conninfo(world.database),
                                  options="-c synchronous_commit=local")) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        cursor.execute("SELECT pg_reload_conf()")
        try:
            _wait_unanswered(cursor, world.postgres.conninfo(world.database))
            yield cursor
        finally:
            cursor.execute("ALTER SYSTEM RESET synchronous_standby_names")
            cursor.execute("SELECT pg_reload_conf()")
