"""The schema: `counterfoil migrate`, and what emit(), once() and uuid7() promise to an application."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import psycopg2
import psycopg2.errors
import pytest

from tests.tools import programs, waiting
from tests.tools.postgres import Postgres

pytestmark = pytest.mark.plain

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = sorted(int(p.name.split("_")[0]) for p in (ROOT / "conf/migrations").glob("*.sql"))
LATEST = NUMBERS[-1]
Migrate = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def migrate(postgres: Postgres, tmp_path: Path) -> Migrate:
    """`counterfoil migrate` against a database: by its name, or by a conninfo."""
    def run(dbname: str, *options: str, conninfo: str = "") -> "subprocess.CompletedProcess[str]":
        config = tmp_path / f"{uuid.uuid4().hex}.conf"
        conninfo = conninfo or postgres.conninfo(dbname)
        config.write_text(f'postgres = {{ conninfo = "{conninfo}"; }};\n')
        return programs.run("counterfoil", "--config", str(config), "migrate", *options)
    return run


@pytest.fixture
def session(postgres: Postgres, database: str) -> Iterator[Any]:
    """A cursor on a migrated database, each statement its own transaction."""
    with closing(postgres.connect(database)) as connection:
        yield connection.cursor()


def one(cursor: Any, sql: str, *parameters: Any) -> Any:
    """The only row; a single column by itself."""
    cursor.execute(sql, parameters or None)
    (row,) = cursor.fetchall()
    return row[0] if len(row) == 1 else row


def dump(postgres: Postgres, dbname: str) -> str:
    done = subprocess.run([str(postgres.bin / "pg_dump"), "--schema-only",
                           postgres.conninfo(dbname)], check=True, capture_output=True, text=True)
    # \restrict and \unrestrict carry a random word
    return re.sub(r"^\\(un)?restrict .*$", "", done.stdout, flags=re.M)


# --- migrate --------------------------------------------------------------------------------------

def test_migrate_from_empty_and_again(postgres: Postgres, migrate: Migrate, empty_database: str):
    first = migrate(empty_database)
    assert (first.returncode, first.stderr) == (0, "")
    *applied, last = first.stdout.splitlines()
    assert [line.split()[:2] for line in applied] == [["applied", str(n)] for n in NUMBERS]
    assert last == f"schema is at {LATEST}"
    before = dump(postgres, empty_database)
    again = migrate(empty_database)
    assert (again.returncode, again.stdout, again.stderr) == (0, f"schema is at {LATEST}\n", "")
    assert dump(postgres, empty_database) == before
    rows = postgres.query("SELECT version, oldest_program FROM counterfoil.migration ORDER BY 1",
                          dbname=empty_database)
    assert [version for version, _ in rows] == NUMBERS


def test_the_programs_need_a_migration_that_exists():
    version = (ROOT / "include/version.h").read_text()
    services = int(re.search(r"#define COUNTERFOIL_SCHEMA +(\d+)", version)[1])
    console = int(re.search(r"#define COUNTERFOIL_CONSOLE_SCHEMA +(\d+)", version)[1])
    assert services <= console == LATEST


def test_two_migrate_at_once(postgres: Postgres, migrate: Migrate, empty_database: str):
    # both wait at the lock, so that neither is early
    with closing(postgres.connect(empty_database, autocommit=False)) as gate:
        gate.cursor().execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('counterfoil.migrate', 0))")
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(migrate, empty_database) for _ in range(2)]
            waiting.until(lambda: postgres.value(
                "SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
                20, "both to wait")
            gate.rollback()
            done = [one.result() for one in running]
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    applied = re.findall(r"^applied (\d+)", done[0].stdout + done[1].stdout, re.M)
    assert sorted(map(int, applied)) == NUMBERS
    assert all(one.stdout.endswith(f"schema is at {LATEST}\n") for one in done)


def test_print_makes_the_same_schema(postgres: Postgres, migrate: Migrate, empty_database: str,
                                     tmp_path: Path):
    printed = programs.run("counterfoil", "--config", "/nonexistent", "migrate", "--print")
    assert (printed.returncode, printed.stderr) == (0, "")
    script = tmp_path / "schema.sql"
    script.write_text(printed.stdout)
    subprocess.run([str(postgres.bin / "psql"), "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1",
                    "-f", str(script), postgres.conninfo(empty_database)],
                   check=True, stdout=subprocess.DEVNULL)
    status = migrate(empty_database, "--status")
    assert status.returncode == 0, status.stdout
    fresh = "printed_against_migrated"
    postgres.create_database(fresh)
    try:
        assert migrate(fresh).returncode == 0
        assert dump(postgres, empty_database) == dump(postgres, fresh)
    finally:
        postgres.drop_database(fresh)


def test_status(postgres: Postgres, migrate: Migrate, empty_database: str):
    missing = migrate(empty_database, "--status")
    assert missing.returncode == 1
    assert [line.split()[2] for line in missing.stdout.splitlines()] == ["missing"] * len(NUMBERS)
    assert postgres.value("SELECT to_regnamespace('counterfoil') IS NULL", dbname=empty_database)
    migrate(empty_database)
    applied = migrate(empty_database, "--status")
    assert applied.returncode == 0
    assert [line.split()[2] for line in applied.stdout.splitlines()] == ["applied"] * len(NUMBERS)
    postgres.query("DELETE FROM counterfoil.migration WHERE version = %s", [LATEST],
                   dbname=empty_database)
    partly = migrate(empty_database, "--status")
    assert partly.returncode == 1
    assert [line.split()[2] for line in partly.stdout.splitlines()] == (
        ["applied"] * (len(NUMBERS) - 1) + ["missing"])


def test_a_migration_that_fails_leaves_nothing(postgres: Postgres, migrate: Migrate,
                                               empty_database: str):
    postgres.query("CREATE SCHEMA counterfoil", dbname=empty_database)
    done = migrate(empty_database)
    assert done.returncode == 1
    assert f'database "{empty_database}"' in done.stderr
    assert "migration 1 (outbox)" in done.stderr and "already exists" in done.stderr
    assert postgres.value("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON "
                          "n.oid = c.relnamespace WHERE nspname = 'counterfoil'",
                          dbname=empty_database) == 0


def test_a_newer_database(postgres: Postgres, migrate: Migrate, empty_database: str):
    migrate(empty_database)
    version = (ROOT / "include/version.h").read_text()
    level = int(re.search(r"#define COUNTERFOIL_PROGRAM +(\d+)", version)[1])
    newer = "INSERT INTO counterfoil.migration VALUES (%s, 'later', %s)"
    postgres.query(newer, [LATEST + 1, level], dbname=empty_database)
    done = migrate(empty_database)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"at {LATEST + 1}, newer than the {LATEST}" in done.stdout
    assert "unknown to Counterfoil" in migrate(empty_database, "--status").stdout
    postgres.query(newer, [LATEST + 2, level + 1], dbname=empty_database)
    done = migrate(empty_database)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"migration {LATEST + 2}" in done.stderr and f"up to {LATEST}:" in done.stderr
    assert "use a newer Counterfoil" in done.stderr


def test_a_database_that_is_not_utf8_is_refused(postgres: Postgres, migrate: Migrate):
    postgres.query("CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        done = migrate("latin1")
        assert done.returncode == 78
        assert 'database "latin1"' in done.stderr
        assert "its encoding is LATIN1, and Counterfoil needs UTF8" in done.stderr
        assert postgres.value("SELECT to_regnamespace('counterfoil') IS NULL", dbname="latin1")
    finally:
        postgres.drop_database("latin1")


def test_errors_name_the_database_and_the_remedy(postgres: Postgres, migrate: Migrate,
                                                 empty_database: str, tmp_path: Path):
    missing = migrate("nowhere")
    assert missing.returncode == 69
    assert 'database "nowhere" does not exist' in missing.stderr
    assert "postgres.conninfo" in missing.stderr
    away = migrate("", conninfo="host=127.0.0.1 port=1 dbname=shop user=u")
    assert away.returncode == 69
    assert 'cannot connect to database "shop" at 127.0.0.1:1: ' in away.stderr
    postgres.query("DROP ROLE IF EXISTS plain")
    postgres.query("CREATE ROLE plain LOGIN")
    denied = migrate("", conninfo=postgres.conninfo(empty_database, user="plain"))
    assert denied.returncode == 77
    assert "permission denied" in denied.stderr and "migrate --print" in denied.stderr
    postgres.query(f'ALTER DATABASE "{empty_database}" SET default_transaction_read_only = on')
    read_only = migrate(empty_database)
    assert read_only.returncode == 69
    assert "read-only" in read_only.stderr
    bad = tmp_path / "bad.conf"
    bad.write_text('postgres = { conninfo = "hots=x"; };\n')
    assert programs.run("counterfoil", "--config", str(bad), "migrate").returncode == 78


def test_wrong_usage():
    for words in (["nonsense"], ["--nonsense"], ["migrate", "more"],
                  ["migrate", "--print", "--status"]):
        done = programs.run("counterfoil", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "usage: counterfoil" in done.stderr
    shown = programs.run("counterfoil", "--help")
    assert shown.returncode == 0 and "migrate" in shown.stdout
    assert programs.run("counterfoil", "--version").stdout.startswith("counterfoil ")


# --- emit -----------------------------------------------------------------------------------------

def payload(cursor: Any, event_id: str) -> bytes | None:
    value = one(cursor, "SELECT payload FROM counterfoil.outbox WHERE event_id = %s", event_id)
    return None if value is None else bytes(value)


def emitted(cursor: Any, third: str, *parameters: Any) -> bytes | None:
    """emit() with this third argument; the bytes that it stored."""
    return payload(cursor, one(cursor, "SELECT event_id FROM counterfoil.emit("
                                       f"'orders', 'order.placed', {third})", *parameters))


AWKWARD = b'{"path":"C:\\\\dir", "x":"\\\\x41", "n":1234567890123456789012345678901234567890,  "a":1}'


def test_emit_keeps_the_bytes_of_text(session: Any):
    literal = AWKWARD.decode().replace("'", "''")
    assert emitted(session, f"'{literal}'") == AWKWARD                # untyped
    assert emitted(session, f"'{literal}'::text") == AWKWARD
    assert emitted(session, f"payload => '{literal}'") == AWKWARD
    assert emitted(session, "'äß漢'") == "äß漢".encode()
    session.execute("PREPARE e AS SELECT event_id FROM "
                    "counterfoil.emit('orders', 'order.placed', $1)")
    assert one(session, "SELECT parameter_types::text FROM pg_prepared_statements") == "{text}"
    assert payload(session, one(session, f"EXECUTE e('{literal}')")) == AWKWARD


def test_emit_of_json_jsonb_and_bytea(session: Any):
    text = AWKWARD.decode()
    assert emitted(session, "%s::json", text) == AWKWARD
    as_jsonb = emitted(session, "%s::jsonb", text)
    assert json.loads(as_jsonb) == json.loads(text) and as_jsonb != AWKWARD
    assert emitted(session, "%s::bytea", psycopg2.Binary(b"\x00\xff\\x41")) == b"\x00\xff\\x41"


def test_emit_tells_null_from_empty(session: Any):
    assert emitted(session, "NULL") is None
    assert emitted(session, "NULL::jsonb") is None
    assert emitted(session, "NULL::bytea") is None
    assert emitted(session, "''") == b""
    assert emitted(session, "''::bytea") == b""


@pytest.mark.parametrize("cast", ["", "::json", "::jsonb", "::bytea"])
def test_emit_returns_id_event_id_created(session: Any, cast: str):
    session.execute(f"SELECT * FROM counterfoil.emit('orders', 'order.placed', '1'{cast})")
    assert [column.name for column in session.description] == ["id", "event_id", "created"]
    (number, event_id, created), = session.fetchall()
    assert created is True
    assert one(session, "SELECT id FROM counterfoil.outbox WHERE event_id = %s", event_id) == number


def test_emit_again_with_the_same_content_is_told(session: Any):
    again = ("SELECT * FROM counterfoil.emit('orders', 'order.placed', %s, 'k', "
             "headers => '{\"a\": 1}', event_id => %s, idempotency_key => 'i', partition => 3)")
    event_id = str(uuid.uuid4())
    first = one(session, again, "content", event_id)
    assert first[1:] == (event_id, True)
    assert one(session, again, "content", event_id) == (first[0], event_id, False)
    assert one(session, "SELECT count(*) FROM counterfoil.outbox") == 1


@pytest.mark.parametrize("change", [
    {"payload": "other"}, {"payload": None}, {"topic": "others"}, {"type": "other"},
    {"ordering_key": "other"}, {"ordering_key": None}, {"headers": '{"a": 2}'}, {"headers": None},
    {"idempotency_key": "other"}, {"idempotency_key": None}, {"partition": 4}, {"partition": None}])
def test_emit_again_with_other_content_is_an_error(session: Any, change: dict[str, Any]):
    content = {"topic": "orders", "type": "order.placed", "payload": "content",
               "ordering_key": "k", "headers": '{"a": 1}', "event_id": str(uuid.uuid4()),
               "idempotency_key": "i", "partition": 3}
    sql = ("SELECT counterfoil.emit(%(topic)s, %(type)s, %(payload)s, %(ordering_key)s, "
           "%(headers)s, %(event_id)s, %(idempotency_key)s, partition => %(partition)s)")
    session.execute(sql, content)
    with pytest.raises(psycopg2.errors.UniqueViolation, match="with other content"):
        session.execute(sql, {**content, **change})
    assert one(session, "SELECT count(*) FROM counterfoil.outbox") == 1


def test_emit_of_an_event_published_meanwhile_is_made_again(session: Any):
    event_id = str(uuid.uuid4())
    sql = "SELECT * FROM counterfoil.emit('orders', 'order.placed', 'x', event_id => %s)"
    first = one(session, sql, event_id)
    session.execute("DELETE FROM counterfoil.outbox")
    again = one(session, sql, event_id)
    assert again[2] is True and again[0] > first[0]


def test_two_emit_the_same_event_at_once(postgres: Postgres, database: str, session: Any):
    """The second waits for the first one's commit, and then says that it is no news."""
    event_id = str(uuid.uuid4())
    sql = "SELECT * FROM counterfoil.emit('orders', 'order.placed', 'x', event_id => %s)"
    with closing(postgres.connect(database, autocommit=False)) as first:
        made = one(first.cursor(), sql, event_id)
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(one, session, sql, event_id)
            wait_for_waiters(postgres, database, 1)
            first.commit()
            assert second.result(20) == (made[0], event_id, False)


def wait_for_waiters(postgres: Postgres, database: str, count: int) -> None:
    waiting.until(lambda: postgres.value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'",
        [database]) == count, 20, f"{count} to wait for a lock")


def test_the_idempotency_key_travels_as_a_header(session: Any):
    def headers(arguments: str) -> Any:
        made = one(session, f"SELECT id FROM counterfoil.emit('o', 't', 'x'{arguments})")
        return one(session, "SELECT headers FROM counterfoil.outbox WHERE id = %s", made)
    assert headers("") is None
    assert headers(", headers => '{\"a\": 1}'") == {"a": 1}
    assert headers(", idempotency_key => 'order:42'") == {"cf-idempotency-key": "order:42"}
    assert headers(", headers => '{\"a\": 1}', idempotency_key => 'k'") == {
        "a": 1, "cf-idempotency-key": "k"}
    for wrong in ("[]", "1", '"x"', "null"):
        with pytest.raises(psycopg2.errors.CheckViolation):
            headers(f", headers => '{wrong}'")


def test_an_empty_ordering_key_is_none(session: Any):
    for key in ("NULL", "''"):
        session.execute(f"SELECT counterfoil.emit('o', 't', 'x', {key})")
    assert one(session, "SELECT count(*) FROM counterfoil.outbox WHERE ordering_key IS NULL") == 2


def test_topic_and_type_are_not_empty(session: Any):
    for topic, kind in (("", "t"), ("o", "")):
        with pytest.raises(psycopg2.errors.CheckViolation):
            session.execute("SELECT counterfoil.emit(%s, %s, 'x')", (topic, kind))
    with pytest.raises(psycopg2.errors.CheckViolation):
        session.execute("SELECT counterfoil.emit('o', 't', 'x', partition => -1)")


def test_emit_lock_serialises_an_ordering_key(postgres: Postgres, database: str, session: Any):
    sql = "SELECT id FROM counterfoil.emit('o', 't', 'x', %s, lock => true)"
    with closing(postgres.connect(database, autocommit=False)) as first:
        made = one(first.cursor(), sql, "k")
        one(session, sql, "another")                   # does not wait
        one(session, sql, None)
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(one, session, sql, "k")
            wait_for_waiters(postgres, database, 1)
            drawn = one(first.cursor(), "SELECT max(id) FROM counterfoil.outbox")
            first.commit()
            # its id was drawn after the lock was held: ids of a key are in the order of commits
            assert second.result(20) > max(drawn, made)


def test_emit_rolls_back_with_its_transaction(postgres: Postgres, database: str, session: Any):
    with closing(postgres.connect(database, autocommit=False)) as connection:
        one(connection.cursor(), "SELECT counterfoil.emit('o', 't', 'x')")
        connection.rollback()
    assert one(session, "SELECT count(*) FROM counterfoil.outbox") == 0


def test_a_plain_insert_works_too(session: Any):
    session.execute("INSERT INTO counterfoil.outbox (topic, type, payload) VALUES ('o', 't', 'x')")
    row = one(session, "SELECT event_id IS NOT NULL, created_at <= clock_timestamp(), "
                       "convert_from(payload, 'UTF8') FROM counterfoil.outbox")
    assert row == (True, True, "x")


def test_emit_heeds_no_search_path_of_the_caller(session: Any):
    session.execute("CREATE SCHEMA mine; CREATE FUNCTION mine.hashtextextended(text, int) RETURNS "
                    "bigint LANGUAGE sql AS 'SELECT 1/0'; "
                    "CREATE FUNCTION mine.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                    "$$ SELECT (1/0)::text::timestamptz $$")
    session.execute("SET search_path = mine, pg_catalog")
    assert one(session, "SELECT created FROM counterfoil.emit('o', 't', 'x', 'k', lock => true)")
    assert one(session, "SELECT counterfoil.once('s', 'k')")


# --- once -----------------------------------------------------------------------------------------

def test_once_is_true_once(session: Any):
    assert one(session, "SELECT counterfoil.once('webhook', 'evt_1')") is True
    assert one(session, "SELECT counterfoil.once('webhook', 'evt_1')") is False
    assert one(session, "SELECT counterfoil.once('webhook', 'evt_2')") is True
    assert one(session, "SELECT counterfoil.once('other', 'evt_1')") is True


def test_once_with_another_fingerprint_is_an_error(session: Any):
    sql = "SELECT counterfoil.once('s', 'k', %s)"
    assert one(session, sql, "f1") is True
    assert one(session, sql, "f1") is False
    for other in ("f2", None):
        with pytest.raises(psycopg2.errors.UniqueViolation, match="another fingerprint"):
            session.execute(sql, (other,))


def test_once_expires(session: Any):
    sql = "SELECT counterfoil.once('s', 'k', %s, keep => %s::interval)"
    assert one(session, sql, "f1", "0 s") is True
    assert one(session, sql, "f2", "1 day") is True       # expired: a new first, a new fingerprint
    assert one(session, sql, "f2", "1 day") is False
    assert one(session, "SELECT expires_at > now() + interval '23 hours' FROM counterfoil.once")
    assert one(session, "SELECT counterfoil.once('s', 'default')")
    assert one(session, "SELECT expires_at - created_at BETWEEN interval '30 days' AND "
                        "interval '30 days 1 minute' FROM counterfoil.once WHERE key = 'default'")


def test_once_is_undone_by_a_rollback(postgres: Postgres, database: str, session: Any):
    with closing(postgres.connect(database, autocommit=False)) as connection:
        assert one(connection.cursor(), "SELECT counterfoil.once('s', 'k')") is True
        connection.rollback()
    assert one(session, "SELECT counterfoil.once('s', 'k')") is True


@pytest.mark.parametrize("end, expected", [("commit", False), ("rollback", True)])
def test_once_waits_for_who_was_first(postgres: Postgres, database: str, session: Any, end: str,
                                      expected: bool):
    with closing(postgres.connect(database, autocommit=False)) as first:
        assert one(first.cursor(), "SELECT counterfoil.once('s', 'k')") is True
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(one, session, "SELECT counterfoil.once('s', 'k')")
            wait_for_waiters(postgres, database, 1)
            getattr(first, end)()
            assert second.result(20) is expected


def test_once_among_many_at_once_has_one_first(postgres: Postgres, database: str):
    crowd, rounds = 8, 20
    start = threading.Barrier(crowd)

    def run(_: int) -> list[bool]:
        with closing(postgres.connect(database)) as connection:
            cursor = connection.cursor()
            said = []
            for number in range(rounds):
                start.wait(30)
                said.append(one(cursor, "SELECT counterfoil.once('s', %s)", str(number)))
            return said

    with ThreadPoolExecutor(crowd) as pool:
        said = list(pool.map(run, range(crowd)))
    assert [sum(column) for column in zip(*said)] == [1] * rounds


# --- uuid7 ----------------------------------------------------------------------------------------

def test_uuid7_is_a_version_7_in_the_order_of_time(session: Any):
    session.execute("SELECT counterfoil.uuid7() FROM generate_series(1, 2000)")
    texts = [row[0] for row in session.fetchall()]
    ids = [uuid.UUID(text) for text in texts]
    assert {one_id.version for one_id in ids} == {7}
    assert {one_id.variant for one_id in ids} == {uuid.RFC_4122}
    assert len(set(ids)) == len(ids)
    # 48 bits of milliseconds and 12 bits below them
    moments = [(one_id.int >> 80) + ((one_id.int >> 64) & 0xfff) / 4096 for one_id in ids]
    assert moments == sorted(moments)
    now = one(session, "SELECT extract(epoch FROM clock_timestamp()) * 1000")
    assert abs(moments[-1] - float(now)) < 60_000
