"""What a relay meets outside: wrong clocks, a pooler, a failover, timeouts that others have set, a
broker that hangs, and applications that want nothing to do with it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import health, waiting
from tests.tools.broker import Broker
from tests.tools.clock import Clock
from tests.tools.outbox import Outbox
from tests.tools.pgbouncer import Pgbouncer
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

SHIFT, HOUR = 600, 3600       # seconds
POOL_SIZE = 3                 # fewer than two relays and a writer want
# What the pooler itself sets for whom it serves.
OF_THE_POOLER = {"application_name", "client_encoding", "DateStyle", "IntervalStyle",
                 "standard_conforming_strings", "TimeZone"}
READY_MAX_AGE = {"http": {"ready_max_age": "1s"}}


@pytest.fixture
def outbox(own_broker: Broker, make_world: Callable[..., World]) -> Outbox:
    return Outbox(make_world(own_broker))


def lease(outbox: Outbox) -> tuple[str, int]:
    """The name of the relay that has it, and the token."""
    return outbox.world.query(
        "SELECT split_part(owner, '/', 1), token FROM counterfoil.lease WHERE name = 'relay'")[0]


def relay_at(outbox: Outbox, conninfo: str, **settings: Any) -> Program:
    """Outbox.relay() by another way than the server's own socket."""
    name = f"relay-{len(outbox.world.relays) + 1}"
    return outbox.world.relay(conninfo=f"{conninfo} application_name={name}", **settings)


def owner_of(outbox: Outbox) -> Program:
    name, _ = lease(outbox)
    return next(relay for relay in outbox.world.relays if relay.name == name)


def wait_term(outbox: Outbox, before: int, timeout: float = 10) -> None:
    waiting.until(lambda: lease(outbox)[1] > before, timeout, "a new term of the lease")


def write_through(outbox: Outbox, count: int = 50) -> None:
    """Rows that are written now are soon published."""
    ids = outbox.write(count)
    waiting.until(lambda: outbox.world.value(
        "SELECT count(*) FROM counterfoil.outbox WHERE id = ANY(%s)", (ids,)) == 0, 10,
        "what was written now to be published")


# --- clocks ---------------------------------------------------------------------------------------

def wrong(relay: Program) -> float:
    """By how many seconds its clock was wrong when it wrote the last line of its log."""
    written = datetime.fromisoformat(relay.log()[-1].fields["ts"].replace("Z", "+00:00"))
    return (written - datetime.now(written.tzinfo)).total_seconds()


def test_a_host_whose_clock_is_wrong(outbox: Outbox, tmp_path: Path):
    """R22: of relays ten minutes ahead, ten behind, and with a clock that is set forth and back,
    the one that owns the lease keeps it; and each of them can be the owner."""
    clocks = []
    for n, seconds in enumerate((0, SHIFT, -SHIFT)):
        (tmp_path / str(n)).mkdir()
        clocks.append(Clock(tmp_path / str(n), seconds))
        relay = outbox.relay(lease="2s")
        relay.command = clocks[-1].command
        relay.start()
        assert abs(wrong(relay) - seconds) < 60
    running = list(outbox.world.relays)
    with outbox.load(writers=1):
        for seconds in (0, SHIFT, -SHIFT):
            clocks[0].set(seconds)
            waiting.holds(lambda: lease(outbox) == ("relay-1", 1), 1.3, "the first is the owner")
        while len(running) > 1:
            owner, before = owner_of(outbox), lease(outbox)
            owner.stop()
            running.remove(owner)
            wait_term(outbox, before[1])
            before = lease(outbox)
            waiting.holds(lambda: lease(outbox) == before, 1.3, "another is the owner")
    assert abs(wrong(outbox.world.relays[0]) + SHIFT) < 60
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert not any(relay.said("lease lost") for relay in outbox.world.relays)


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def move(world: World, postgres: Postgres) -> Outbox:
    """Its database is now that server's."""
    world.postgres, world.database = postgres, "postgres"
    world.migrate()
    return Outbox(world)


def test_the_clock_of_the_database_is_set(world: World):
    """R22: forth and back by hours: someone owns the lease soon, also where a dead one's would last
    for hours; nothing is lost and nobody deletes what another owns."""
    server = Postgres()
    clock = Clock(server.home)
    server.command = clock.command
    with server:
        outbox = move(world, server)
        outbox.witness()
        for _ in range(2):
            outbox.relay(lease="1s").start()
        with outbox.load(writers=1):
            for seconds in (HOUR, -HOUR, 0):
                write_through(outbox)
                owner, before = owner_of(outbox), lease(outbox)[1]
                shown = world.value("SELECT clock_timestamp()")
                owner.kill()
                clock.set(seconds)
                waiting.until(lambda: abs(world.value("SELECT clock_timestamp()") - shown) >
                              timedelta(minutes=50), 5, "the server's clock to be another")
                wait_term(outbox, before)
                owner.start()
        outbox.wait_empty()
        outbox.judge()
        assert outbox.usurped() == []
        world.close()


# --- a pooler -------------------------------------------------------------------------------------

def states_of_sessions(pool: Pgbouncer, database: str) -> dict[int, dict[str, Any]]:
    """What is left in the pool's sessions with the server, of which all are asked at once."""
    seen = {}
    with ExitStack() as stack:
        for _ in range(POOL_SIZE):
            cursor = stack.enter_context(closing(pool.connect(database))).cursor()
            cursor.execute("BEGIN")
            cursor.execute(
                "SELECT pg_backend_pid(), current_setting('synchronous_commit'), ARRAY("
                "  SELECT name FROM pg_settings WHERE source = 'session'), ARRAY("
                "  SELECT name FROM pg_prepared_statements UNION ALL"
                "  SELECT pg_listening_channels() UNION ALL"
                "  SELECT locktype FROM pg_locks WHERE locktype = 'advisory'"
                "   AND pid = pg_backend_pid())")
            pid, commit, settings, left = cursor.fetchone()
            seen[pid] = {"commit": commit, "settings": set(settings) - OF_THE_POOLER, "left": left}
    return seen


@pytest.mark.parametrize("ignored", ["", "extra_float_digits,options"])
def test_through_a_pooler(outbox: Outbox, postgres: Postgres, ignored: str):
    """R35: through pgbouncer in transaction mode, as it comes or told to ignore what it does not
    know: publishing, taking over, a server and a pooler that end; and nothing is left in sessions
    that others will have."""
    world = outbox.world
    outbox.witness()
    settings = {"ignore_startup_parameters": ignored} if ignored else {}
    with Pgbouncer(postgres, default_pool_size=POOL_SIZE, **settings) as pool:
        for _ in range(2):
            relay_at(outbox, pool.conninfo(world.database), lease="1s").start()
        with outbox.load(writers=2):
            write_through(outbox, 500)
            owner, before = owner_of(outbox), lease(outbox)[1]
            owner.kill()
            wait_term(outbox, before)
            owner.start()
            for end in (lambda: postgres.restart("immediate"),
                        lambda: (pool.kill(), pool.start())):
                write_through(outbox, 500)
                end()
            write_through(outbox, 500)
            sessions = states_of_sessions(pool, world.database)
        assert len(sessions) == POOL_SIZE
        assert all(seen == {"commit": "on", "settings": set(), "left": []}
                   for seen in sessions.values()), sessions
        outbox.wait_empty()
        outbox.judge()
        assert outbox.usurped() == []
        assert not any(relay.said("the database refused") for relay in world.relays)
        for relay in world.relays:
            relay.stop()
    assert lease(outbox)[0] == ""


# --- failover -------------------------------------------------------------------------------------

def test_a_server_that_becomes_read_only(make_world: Callable[..., World], own_broker: Broker,
                                         postgres: Postgres):
    """R37: it is not ready while the server takes no writes, and goes on by itself when it does;
    the process is the same."""
    outbox = Outbox(make_world(own_broker))
    relay = outbox.relay(lease="1s").start()
    relay.allow_errors("sqlstate=25006")
    health.wait_ready(relay)
    with outbox.load(writers=2):
        for _ in range(2):
            write_through(outbox)
            try:
                postgres.query("ALTER SYSTEM SET default_transaction_read_only = on")
                postgres.query("SELECT pg_reload_conf()")
                waiting.until(lambda: {"database", "lease"} <= set(health.failed(relay)), 10,
                              "it to be not ready")
                waiting.holds(lambda: health.failed(relay), 1, "it stays not ready")
            finally:
                postgres.query("ALTER SYSTEM RESET default_transaction_read_only")
                postgres.query("SELECT pg_reload_conf()")
            health.wait_ready(relay)
    write_through(outbox)
    outbox.judge()
    assert relay.running
    assert relay.said("no database")[-1].fields["remedy"].startswith("name the primary")


def test_a_standby_that_is_promoted(world: World, own_postgres: Postgres):
    """R37: with both hosts in its conninfo it waits while there is a standby only, and goes on with
    that when it is promoted: nothing of what was committed is lost."""
    outbox = move(world, own_postgres)
    with Postgres(standby_of=own_postgres) as standby:
        own_postgres.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own_postgres.query("SELECT pg_reload_conf()")
        relay = relay_at(outbox, f"host={own_postgres.home},{standby.home} user=postgres "
                                 "dbname=postgres", lease="1s").start()
        health.wait_ready(relay)
        with outbox.load(writers=2):
            write_through(outbox, 300)
            own_postgres.stop("immediate")
            world.postgres = standby
            waiting.until(lambda: {"database", "lease"} <= set(health.failed(relay)), 10,
                          "it to be not ready")
            relay.wait_for("no database: rows wait")
            waiting.holds(lambda: health.failed(relay), 1, "it waits for a server that is written")
            standby.query("SELECT pg_promote()")
            health.wait_ready(relay)
            write_through(outbox, 300)
        outbox.wait_empty()
        outbox.judge()
        assert relay.said("another run of the server")
        relay.stop()


# --- timeouts -------------------------------------------------------------------------------------

@pytest.mark.parametrize("setting,seconds", [("idle_in_transaction_session_timeout", 0.3),
                                             ("idle_session_timeout", 4)])
def test_timeouts_of_idle_sessions(outbox: Outbox, setting: str, seconds: float):
    """R33: a server that ends whoever is idle, in a transaction at all or otherwise for longer than
    a third of a lease, ends no relay: neither the owner nor a standby."""
    world = outbox.world
    world.query(f'ALTER DATABASE "{world.database}" SET {setting} = \'{seconds}s\'')
    relays = [outbox.relay(lease="3s").start() for _ in range(2)]
    write_through(outbox)
    waiting.holds(lambda: lease(outbox) == ("relay-1", 1), max(seconds + 1, 2),
                  "the owner is the same")
    write_through(outbox)
    for relay in relays:
        assert not relay.said("lease lost") and not relay.said("no database")
        assert health.metrics(relay).value("db_reconnects_total") == 0
    outbox.judge(copies=False)


# --- a broker that hangs --------------------------------------------------------------------------

def test_a_broker_that_stalls_holds_nothing_up(make_world: Callable[..., World],
                                               own_broker: Broker):
    """R31, R32, R14, R58: it takes connections and answers nothing: whoever wants our tables for
    himself has them at once, writers go on, no row is blamed; no error is said, and yet the relay
    is not ready; when the broker goes on, so does everything."""
    outbox = Outbox(make_world(own_broker, settings=READY_MAX_AGE))
    world = outbox.world
    relay = outbox.relay().start()
    write_through(outbox)
    health.wait_ready(relay)
    tables = [name for (name,) in world.query(
        "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace = 'counterfoil'::regnamespace")]
    with own_broker.frozen(), closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'; SET idle_in_transaction_session_timeout = '2s'")
        session.commit()
        for _ in range(5):
            outbox.write(500)
            for table in tables:
                cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
                session.commit()
            assert world.query("SELECT pid FROM pg_stat_activity WHERE application_name = %s "
                               "AND state LIKE 'idle in%%'", (relay.name,)) == []
        health.wait_failed(relay, "progress", timeout=10)
        assert [line.text for line in relay.log() if line.level in ("warn", "error")] == []
        assert world.outbox() == 2500
    health.wait_ready(relay)
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 0


def test_a_broker_that_hangs_again_and_again(outbox: Outbox, own_broker: Broker):
    """R10: under load: every event arrives, in order, and none twice, for nothing was given up."""
    own_broker.set_round_trip(5)
    relay = outbox.relay().start()
    with outbox.load(writers=3, rows=50):
        for _ in range(4):
            outbox.write(1000, keys=40)
            with own_broker.frozen():
                waiting.holds(lambda: relay.running and outbox.world.outbox() > 0, 1, "it waits")
            outbox.wait_amidst()
    own_broker.set_round_trip(0)
    outbox.wait_empty()
    outbox.judge(copies=False)


def test_no_message_is_given_up_for_its_age(outbox: Outbox):
    """R49: a message that timed out would be a gap in its key. By the client's own report of its
    settings none ever does, of whatever topic, and none may pass another that failed."""
    outbox.world.settings = {"log": {"level": "debug"}, "kafka": {"properties": [
        ("bootstrap.servers", outbox.world.broker.bootstrap), ("debug", "conf")]}}
    relay = outbox.relay().start()
    write_through(outbox)
    said = " ".join(line.fields.get("text", "") for line in relay.said("librdkafka"))
    for setting in ("message.timeout.ms = 0", "enable.idempotence = true",
                    "enable.gapless.guarantee = true", "request.required.acks = -1"):
        assert setting in said, said
    assert "message.timeout.ms = 3" not in said


# --- applications ---------------------------------------------------------------------------------

def test_writers_do_not_notice_the_relay(outbox: Outbox):
    """R34: no trigger, no NOTIFY, and no lock of a writer that is not of its own insert: commits do
    not wait for one another, nor for the relay."""
    world = outbox.world
    outbox.log_statements()
    outbox.relay().start()
    assert world.query("SELECT tgrelid::regclass FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid "
                       "WHERE relnamespace = 'counterfoil'::regnamespace AND NOT tgisinternal") == []
    assert world.query("SELECT evtname FROM pg_event_trigger") == []
    assert world.query("SELECT proname FROM pg_proc WHERE prosrc ~* 'notify' "
                       "AND pronamespace = 'counterfoil'::regnamespace") == []
    with ExitStack() as stack:
        writers = [stack.enter_context(closing(world.connect())) for _ in range(8)]
        for n, writer in enumerate(writers):
            outbox.write_in(writer, 20, key=f"writer-{n}-")
        write_through(outbox, 200)      # the relay goes on beside them
        locks = world.query(
            "SELECT DISTINCT locktype, relation::regclass::text, mode FROM pg_locks "
            "WHERE pid = ANY(%s) AND relation IS DISTINCT FROM 'pg_type'::regclass "
            "AND mode <> 'AccessShareLock'", ([writer.get_backend_pid() for writer in writers],))
        assert {(kind, mode) for kind, _, mode in locks} == {
            ("relation", "RowExclusiveLock"), ("virtualxid", "ExclusiveLock"),
            ("transactionid", "ExclusiveLock")}
        assert {relation for kind, relation, _ in locks if kind == "relation"} == {
            "counterfoil.outbox", "counterfoil.outbox_pkey", "counterfoil.outbox_event_id_key",
            "counterfoil.outbox_id_seq", "written", "written_n_seq"}
        assert world.query("SELECT * FROM pg_locks WHERE NOT granted") == []
        for writer in writers:
            writer.commit()
    outbox.wait_empty()
    assert not outbox.statements("LISTEN") and not outbox.statements("NOTIFY")
    outbox.judge(copies=False)
