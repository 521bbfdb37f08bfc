"""What a relay costs its database: the plans, pages and statements of a backlog, of a table without
statistics, and beside a snapshot that nobody ends. On a server that never vacuums or analyzes."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.tools import health, waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.plans import LIBRARIES, Plan, Plans, passed
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

from .conftest import make_template

SERVER = {"shared_preload_libraries": LIBRARIES, "autovacuum": "off", "fsync": "off",
          "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
          "shared_buffers": "256MB", "max_wal_size": "4GB"}
ROLE = "relay"
MANY = 1_000_000
WRITE = """INSERT INTO counterfoil.outbox (event_id, topic, type, ordering_key, payload)
  SELECT lpad(to_hex(n), 32, '0')::uuid, %s, 'tested', 'key-' || n %% 1000,
    convert_to(rpad(n::text, 100), 'UTF8') FROM generate_series(%s, %s) n"""
FILL = """
INSERT INTO counterfoil.once (scope, key, expires_at) SELECT 'filled', n, now() +
  CASE WHEN n % 20 = 0 THEN '-1 day' ELSE '1 day' END::interval FROM generate_series(1, 50000) n;
INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, size, reason,
    owner) SELECT 'counterfoil.outbox', n - 100000, gen_random_uuid(), n % 2 = 0, n / 2 - 100000, 1,
  'filled', 'nobody' FROM generate_series(1, 40000) n;
"""
BIG = {"outbox", "outbox_dead", "once"}      # tables that may be, or become, so
# Beginnings or parts of the statements that meet these tables.
STATEMENTS = {
    "poll": "unnest($2, $3) g(first, last)",
    "holders": "FROM pg_locks",
    "remove": "DELETE FROM counterfoil.outbox o WHERE",
    "bury": "INSERT INTO counterfoil.outbox_dead",
    "measure": "SELECT (SELECT count(*) FROM  (SELECT o.id FROM counterfoil.outbox",
    "topics": "GROUP BY 1 ORDER BY 1 LIMIT 200",
    "blocked": "SELECT order_hash, row_id FROM counterfoil.outbox_dead",
    "dead_counts": "FROM counterfoil.outbox_dead  WHERE source = $1 AND NOT parked LIMIT",
    "expire": "DELETE FROM counterfoil.once",
}
ROWS_MAX = 25_000     # that pass any node: 10,000 are counted, and as many may be filtered


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres(SERVER) as server:
        server.query(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
        yield server


@pytest.fixture(scope="module")
def template(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_template(postgres, tmp_path_factory.mktemp("template"))


@pytest.fixture
def world(make_world: Callable[..., World], own_broker: Broker) -> World:
    return make_world(own_broker)


def relay_of(world: World, **settings: object) -> Program:
    conninfo = world.postgres.conninfo(world.database)
    return world.relay(conninfo=f"{conninfo} user={ROLE}", **settings)


def write(world: World, count: int, first: int = 1) -> None:
    world.query(WRITE, (world.topic, first, first + count - 1))


def published(world: World) -> int:
    """Also what this broker no longer holds."""
    return sum(high for _, high in world.broker.bounds(world.topic))


def peak(program: Program) -> int:
    """The most resident KiB that it ever had."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


# --- plans ----------------------------------------------------------------------------------------

def never(world: World, count: int) -> None:
    """Nothing is known of the table."""
    write(world, count)


def while_empty(world: World, count: int) -> None:
    with closing(world.connect(autocommit=True)) as connection:
        connection.cursor().execute("VACUUM ANALYZE")
    write(world, count)


def once_drained(world: World, count: int) -> None:
    """Known as many pages that hold nothing."""
    write(world, count)
    world.query("DELETE FROM counterfoil.outbox")
    world.query("ANALYZE")
    write(world, count)


def kinds(plans: list[Plan]) -> Counter[str]:
    return Counter(name for plan in plans for name, part in STATEMENTS.items()
                   if part in plan.statement)


def judge(plan: Plan) -> None:
    for node in plan.nodes():
        where = f"{node} of {plan.statement}"
        assert passed(node) <= ROWS_MAX, where
        assert node["Node Type"] != "Seq Scan" or node["Relation Name"] not in BIG, where


@pytest.mark.parametrize("analyzed", [never, while_empty, once_drained])
def test_no_statement_walks_a_large_table(world: World, analyzed: Callable[[World, int], None]):
    """R26, R30: whatever the planner believes of the tables: no statement reads one from end to end
    and none sorts it; indexes, and no more rows than are asked for."""
    analyzed(world, 100_000)
    world.query(FILL)
    plans = Plans(world.postgres, world.database, ROLE)
    relay = relay_of(world, sweep="500ms")
    relay.allow_errors("row is dead")
    seen: list[Plan] = []
    with closing(world.connect()) as late, late.cursor() as cursor:
        cursor.execute(WRITE, (world.topic, 1_000_000, 1_000_000))
        world.emit(b"x" * 2_000_000, ordering_key="too large")
        relay.start()

        def all_kinds() -> bool:
            seen.extend(plans.read())
            return kinds(seen).keys() == STATEMENTS.keys()
        waiting.until(lambda: all_kinds() and world.outbox() == 0, 30,
                      "all statements, and everything to be published", every=0.2)
        late.commit()
    waiting.until(lambda: published(world) == 100_001, 10, "the late one")
    relay.stop()
    seen += plans.read()
    for plan in seen:
        judge(plan)


# --- a backlog ------------------------------------------------------------------------------------

STATEMENTS_OF_RELAY = """
    SELECT sum(calls) FROM pg_stat_statements JOIN pg_roles r ON r.oid = userid
    WHERE rolname = %s AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@pytest.mark.plain
def test_few_statements_for_many_rows(world: World):
    """R39: a backlog is read and deleted by the thousand. (Rows that come one by one are another
    matter: each is published at once.)"""
    world.query("CREATE EXTENSION pg_stat_statements")
    write(world, 100_000)
    relay_of(world).start()
    waiting.until(lambda: world.outbox() == 0, 60, "the outbox to be empty", every=0.05)
    calls = world.value(STATEMENTS_OF_RELAY, (ROLE,))
    assert calls / 100 <= 4


@pytest.mark.plain
def test_a_large_backlog(world: World):
    """R27, R28: millions of rows, and writers that go on: the backlog falls all the time, in little
    memory; and each row is published once."""
    outbox = Outbox(world)
    write(world, MANY)
    relay = relay_of(world).start()
    left = [MANY]
    with outbox.load(writers=2):
        while left[-1] > MANY / 20:
            time.sleep(1)      # what is measured is what happens in a second
            left.append(MANY + outbox.written() - published(world))
            assert left[-1] < left[-2], left
    outbox.wait_empty()
    assert published(world) == MANY + outbox.written()
    assert peak(relay) < 40 * 1024


# --- a snapshot that is held ----------------------------------------------------------------------

def test_a_snapshot_that_nobody_ends(world: World):
    """R29: deleted rows stay as long as it does. Only a sweep and what measures the backlog walk
    over them, now and then; the other polls touch what they read, before and after the backlog."""
    count = 200_000
    write(world, count)
    plans = Plans(world.postgres, world.database, ROLE)
    with closing(world.connect()) as snapshot:
        snapshot.set_session(isolation_level="REPEATABLE READ")
        snapshot.cursor().execute("SELECT count(*) FROM counterfoil.outbox")
        began = time.monotonic()
        relay = relay_of(world, sweep="1s").start()
        waiting.until(lambda: published(world) == count, 60, "the backlog to be published")
        for n in range(20):
            write(world, 50, 1_000_000 + n * 50)
            waiting.until(lambda: published(world) == count + n * 50 + 50, 10, "a few more")
            waiting.holds(lambda: relay.running, 0.1, "it runs")
        seconds = time.monotonic() - began
        relay.stop()
        snapshot.rollback()
    blocks = defaultdict(list)
    for plan in plans.read():
        (kind,) = kinds([plan]) or ("other",)
        blocks[kind].append(plan.blocks())
    assert len(blocks["poll"]) > 200
    walks = [cost for kind, costs in blocks.items() if kind != "remove"
             for cost in costs if cost > 500]
    assert 0 < len(walks) < 10 + 4 * seconds, (len(walks), seconds)
    assert sorted(blocks["poll"])[len(blocks["poll"]) * 9 // 10] < 100
    # a thousand rows by their ids, each with the lookups of two indexes and its own page
    assert max(blocks["remove"]) < 10_000


# --- what is kept ---------------------------------------------------------------------------------

@pytest.mark.plain
def test_dead_rows_are_kept(world: World):
    """R59: what is old and expired goes, and dead and parked rows never; they are counted."""
    world.query(FILL)
    world.query("UPDATE counterfoil.outbox_dead SET died_at = '1970-01-01', created_at = '1970-01-01'")
    relay = relay_of(world).start()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.once WHERE "
                                      "expires_at < now()") == 0, 10, "what has expired to go")
    waiting.until(lambda: health.metrics(relay).sum("outbox_dead_rows") +
                  health.metrics(relay).sum("outbox_parked_rows") >= 20_000, 10,
                  "dead and parked rows to be counted")
    waiting.holds(lambda: world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 40_000,
                  1, "they are all there")
