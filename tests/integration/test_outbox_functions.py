"""outbox_requeue() and outbox_discard(): what goes back, in which order, and against a relay that
buries rows at the same time."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Callable, Iterator

import psycopg2
import psycopg2.errors
import psycopg2.extras
import pytest

from tests.tools import waiting
from tests.tools.postgres import Postgres

pytestmark = pytest.mark.plain

OWN = "counterfoil.outbox"
MAPPED = "public.outboxevent"
KEY = 4711  # an order hash

# as a relay does it: only at the generation that it knows, and never waiting for who puts rows back
BURY = """
WITH held AS MATERIALIZED (SELECT FROM counterfoil.outbox_source
    WHERE name = 'counterfoil.outbox' AND generation = %(generation)s FOR SHARE SKIP LOCKED),
  gone AS (DELETE FROM counterfoil.outbox o WHERE o.id = ANY (%(ids)s) AND EXISTS (SELECT FROM held)
    RETURNING o.*)
INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, topic, type,
  ordering_key, partition, message_key, payload, headers, created_at, size, reason, owner)
SELECT 'counterfoil.outbox', id, event_id, %(parked)s, %(hash)s, topic, type, ordering_key, partition,
  message_key, payload, headers, created_at, 1, 'a test', 'relay-1' FROM gone RETURNING row_id"""

# the same of a mapped table, whose whole row is kept as text
BURY_MAPPED = """
WITH gone AS ({take})
INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, topic, row, size,
  reason, owner)
SELECT 'public.outboxevent', seq, id, %(parked)s, %(hash)s, 'orders', row, 1, 'a test', 'relay-1'
FROM gone RETURNING row_id"""

CONTENT = """event_id, topic, type, ordering_key, partition, message_key, payload, headers::text,
  to_char(created_at, 'YYYY-MM-DD HH24:MI:SS.US')"""


class Outbox:
    """What a test says to the database, each statement a transaction of its own."""

    def __init__(self, connection: Any) -> None:
        self.cursor = connection.cursor()

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        self.cursor.execute(sql, parameters or None)
        found = self.cursor.fetchall()
        return [row[0] for row in found] if len(self.cursor.description) == 1 else found

    def value(self, sql: str, *parameters: Any) -> Any:
        (value,) = self.rows(sql, *parameters)
        return value

    def run(self, sql: str, *parameters: Any) -> None:
        self.cursor.execute(sql, parameters or None)

    def insert(self, key: str | None = "order-1", payload: bytes = b"{}", event: str = "") -> int:
        return self.value("INSERT INTO counterfoil.outbox (event_id, topic, type, ordering_key, payload)"
                          " VALUES (%s, 'orders', 'order.placed', %s, %s) RETURNING id",
                          event or str(uuid.uuid4()), key, payload)

    def bury(self, *ids: int, parked: bool = False, order_hash: int | None = KEY) -> list[int]:
        self.cursor.execute(BURY, {"ids": list(ids), "parked": parked, "hash": order_hash,
                                   "generation": self.generation()})
        return sorted(row[0] for row in self.cursor.fetchall())

    def key(self, parked: int = 2) -> list[int]:
        """A dead row and some parked behind it."""
        ids = [self.insert(payload=b"%d" % n) for n in range(parked + 1)]
        assert self.bury(ids[0]) == ids[:1] and self.bury(*ids[1:], parked=True) == ids[1:]
        return ids

    def settle(self, action: str, *ids: int, source: str = OWN, operation: str = "",
               dry_run: bool = False) -> list[tuple[int, str, int]]:
        return self.rows(f"SELECT row_id, result, behind FROM counterfoil.outbox_{action}"
                         "(%s, %s, %s, 'INC-1', '{\"user\": \"test\"}', %s)", source, list(ids),
                         operation or str(uuid.uuid4()), dry_run)

    def requeue(self, *ids: int, **how: Any) -> list[tuple[int, str, int]]:
        return self.settle("requeue", *ids, **how)

    def discard(self, *ids: int, **how: Any) -> list[tuple[int, str, int]]:
        return self.settle("discard", *ids, **how)

    def details(self, action: str, *ids: int, source: str = OWN, dry_run: bool = True) -> list[str]:
        return self.rows(f"SELECT detail FROM counterfoil.outbox_{action}(%s, %s, %s, '', '{{}}', %s)",
                         source, list(ids), str(uuid.uuid4()), dry_run)

    def waiting(self) -> list[int]:
        return self.rows("SELECT id FROM counterfoil.outbox ORDER BY id")

    def dead(self) -> list[tuple[int, bool]]:
        return self.rows("SELECT row_id, parked FROM counterfoil.outbox_dead ORDER BY row_id, event_id")

    def generation(self, source: str = OWN) -> int:
        return self.value("SELECT generation FROM counterfoil.outbox_source WHERE name = %s", source)

    def audit(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT about, action, result, detail, reason, before, after"
                         " FROM counterfoil.audit ORDER BY id")


@pytest.fixture
def connect(postgres: Postgres, database: str) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def connect(autocommit: bool = True) -> Any:
        made.append(postgres.connect(database, autocommit=autocommit))
        psycopg2.extras.register_uuid(conn_or_curs=made[-1])
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


@pytest.fixture
def outbox(connect: Callable[..., Any]) -> Outbox:
    return Outbox(connect())


# --- what goes back -------------------------------------------------------------------------------

@pytest.mark.parametrize("payload", [None, b"", b"a\0b\xff\x80", b"x" * 300_000],
                         ids=["null", "empty", "zeros", "large"])
@pytest.mark.parametrize("key", [None, "", "k\u00fc\u200b\"',(){}\\"], ids=["none", "empty", "odd"])
def test_a_row_comes_back_as_it_was(outbox: Outbox, payload: bytes | None, key: str | None):
    """R61, R62, R64: through outbox_dead and back, every column has the same bytes."""
    outbox.run("""INSERT INTO counterfoil.outbox (topic, type, ordering_key, partition, message_key,
        payload, headers, created_at) VALUES ('orders', E't\\\\x\\n', %s, 3, %s, %s,
        '{"a": "\\u00e9,()\\"", "n": 12345678901234567890.10, "o": {"b": null}}',
        '2026-05-04 03:02:01.123456+02')""", key, payload, payload)
    before = outbox.rows(f"SELECT id, {CONTENT} FROM counterfoil.outbox")
    (row,) = outbox.waiting()
    assert outbox.bury(row, order_hash=None) == [row] and outbox.waiting() == []
    assert outbox.requeue(row) == [(row, "done", 0)]
    after = outbox.rows(f"SELECT id, {CONTENT} FROM counterfoil.outbox")
    assert [[bytes(c) if isinstance(c, memoryview) else c for c in r] for r in after] == (
        [[bytes(c) if isinstance(c, memoryview) else c for c in r] for r in before])
    assert outbox.dead() == []


def test_a_dead_row_takes_what_is_parked_along(outbox: Outbox):
    """R6: the rows behind it go back with it, all under their old ids."""
    ids = outbox.key(parked=3)
    other = outbox.insert("order-2")
    outbox.bury(other, order_hash=1)
    generation = outbox.generation()
    assert outbox.details("requeue", ids[0]) == [
        "it goes back to the outbox; 3 rows parked behind it go back"]
    assert outbox.requeue(ids[0]) == [(ids[0], "done", 3)]
    assert outbox.waiting() == ids
    assert outbox.dead() == [(other, False)]
    assert outbox.generation() == generation + 1


def test_keys_are_apart(outbox: Outbox):
    first = outbox.key()
    ids = [outbox.insert("order-2") for _ in range(2)]
    outbox.bury(ids[0], order_hash=1)
    outbox.bury(ids[1], parked=True, order_hash=1)
    none = [outbox.insert(None) for _ in range(2)]
    outbox.bury(*none, order_hash=None)
    assert outbox.requeue(ids[0], none[1]) == [(ids[0], "done", 1), (none[1], "done", 0)]
    assert outbox.waiting() == ids + none[1:]
    assert outbox.dead() == [(first[0], False), (first[1], True), (first[2], True), (none[0], False)]


def test_a_parked_row_does_not_go_alone(outbox: Outbox):
    dead, parked, last = outbox.key()
    assert outbox.requeue(parked) == [(parked, "refused", 0)]
    assert outbox.details("requeue", parked) == [
        f"it waits behind row {dead}, which is dead: settle that one"]
    assert outbox.waiting() == [] and len(outbox.dead()) == 3
    assert outbox.requeue(parked, dead) == [(dead, "done", 1), (parked, "done", 0)]
    assert outbox.waiting() == [dead, parked, last]


def test_parked_rows_without_a_dead_one_go(outbox: Outbox):
    ids = [outbox.insert() for _ in range(3)]
    outbox.bury(*ids, parked=True)
    assert outbox.requeue(ids[1]) == [(ids[1], "done", 2)]
    assert outbox.waiting() == ids


def test_what_is_parked_waits_for_the_last_dead_row_of_its_key(outbox: Outbox):
    """A key has several dead rows where rows were skipped for a while, or were in flight together."""
    ids = [outbox.insert() for _ in range(5)]
    outbox.bury(ids[0], ids[2])
    outbox.bury(ids[1], ids[3], ids[4], parked=True)
    assert outbox.details("requeue", ids[0]) == [
        f"it goes back to the outbox; what is parked waits for row {ids[2]} of its key, which is dead too"]
    assert outbox.requeue(ids[0]) == [(ids[0], "done", 0)]
    assert outbox.waiting() == [ids[0]]
    assert outbox.discard(ids[2]) == [(ids[2], "done", 3)]
    assert outbox.waiting() == [ids[0], ids[1], ids[3], ids[4]]
    assert outbox.dead() == []


def test_all_dead_rows_of_a_key_at_once(outbox: Outbox):
    ids = [outbox.insert() for _ in range(4)]
    outbox.bury(ids[0], ids[2])
    outbox.bury(ids[1], ids[3], parked=True)
    assert outbox.requeue(ids[2], ids[0]) == [(ids[0], "done", 2), (ids[2], "done", 0)]
    assert outbox.waiting() == ids and outbox.dead() == []


def test_a_discarded_row_is_gone_and_what_was_parked_goes_on(outbox: Outbox):
    """R59: only a person's order takes a dead row away, and the audit keeps which one it was."""
    dead, *parked = outbox.key()
    event = outbox.value("SELECT event_id FROM counterfoil.outbox_dead WHERE row_id = %s", dead)
    assert outbox.details("discard", dead) == [
        "it is dropped for good; 2 rows parked behind it go back"]
    assert outbox.discard(dead) == [(dead, "done", 2)]
    assert outbox.waiting() == parked and outbox.dead() == []
    ((about, action, result, _, reason, before, _),) = outbox.audit()
    assert (about, action, result, reason) == ("outbox " + OWN, "discard", "done", "INC-1")
    (row,) = before["rows"]
    assert (row["row_id"], row["event_id"], row["reason"]) == (dead, str(event), "a test")
    assert not {"payload", "headers", "message_key", "row"} & set(row)
    assert before["asked"] == [dead]


def test_a_parked_row_can_be_discarded_by_itself(outbox: Outbox):
    dead, first, second = outbox.key()
    assert outbox.discard(first) == [(first, "done", 0)]
    assert outbox.waiting() == [] and outbox.dead() == [(dead, False), (second, True)]


def test_what_is_not_there(outbox: Outbox):
    row = outbox.insert()
    assert outbox.requeue(row, 999) == [(row, "already", 0), (999, "missing", 0)]
    assert outbox.discard(row, 999) == [(row, "missing", 0), (999, "missing", 0)]
    assert outbox.requeue(row, source="public.nothing") == [(row, "missing", 0)]
    assert outbox.waiting() == [row] and outbox.generation() == 1


@pytest.mark.parametrize("ids", [[], [1, None], list(range(10_001))])
def test_what_cannot_be_asked(outbox: Outbox, ids: list[Any]):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="between 1 and 10000 rows"):
        outbox.requeue(*ids)


# --- ids and events that others have meanwhile -----------------------------------------------------

def test_an_id_that_was_handed_out_again(outbox: Outbox):
    """Then the row has a new id, and what was parked behind it stays behind it."""
    dead, first, second = outbox.key()
    outbox.run("INSERT INTO counterfoil.outbox (id, topic, type) OVERRIDING SYSTEM VALUE VALUES"
               " (%s, 'orders', 'other')", first)
    (detail,) = outbox.details("requeue", dead, dry_run=False)
    assert detail == "it goes back to the outbox; 2 rows parked behind it go back"
    assert outbox.rows("SELECT id, convert_from(payload, 'UTF8') FROM counterfoil.outbox"
                       " WHERE payload IS NOT NULL ORDER BY id") == [
        (dead, "0"), (second + 1, "1"), (second + 2, "2")]


def test_two_events_of_one_id(outbox: Outbox):
    one = outbox.insert(None, b"1")
    outbox.bury(one, order_hash=None)
    outbox.run("SELECT setval('counterfoil.outbox_id_seq', %s, false)", one)
    assert outbox.insert(None, b"2") == one
    outbox.bury(one, order_hash=None)
    assert sorted(outbox.details("requeue", one, dry_run=False)) == [
        "it goes back to the outbox",
        f"it goes back to the outbox; its id is {one + 1} now, another event has the old one"]
    assert outbox.waiting() == [one, one + 1] and outbox.dead() == []


def test_an_id_that_would_be_handed_out_again(outbox: Outbox):
    """Behind a sequence that was set back, a row with its old id would fail somebody's INSERT later."""
    dead, first, second = outbox.key()
    outbox.run("SELECT setval('counterfoil.outbox_id_seq', %s)", dead)
    assert outbox.requeue(dead) == [(dead, "done", 2)]
    assert outbox.waiting() == [dead, first, second]
    assert outbox.insert() == second + 1


@pytest.mark.parametrize("order_hash", [None, KEY])
def test_the_same_event_again_is_one(outbox: Outbox, order_hash: int | None):
    event = str(uuid.uuid4())
    row = outbox.insert(event=event)
    outbox.bury(row, order_hash=order_hash)
    again = outbox.insert(event=event)
    assert outbox.details("requeue", row) == [
        f"its event is in the outbox already, as row {again}: only the copy is dropped"]
    assert outbox.requeue(row) == [(row, "done", 0)]
    assert outbox.waiting() == [again] and outbox.dead() == []


def test_the_event_with_other_content_refuses_the_whole_key(outbox: Outbox):
    event = str(uuid.uuid4())
    ids = [outbox.insert(), outbox.insert(event=event), outbox.insert()]
    outbox.bury(ids[0])
    outbox.bury(*ids[1:], parked=True)
    again = outbox.insert(payload=b"other", event=event)
    # not asked for, it shows when it is its turn; asked for, it is known before
    assert outbox.requeue(ids[0]) == [(ids[0], "refused", 0)]
    assert outbox.requeue(*ids) == [(row, "refused", 0) for row in ids]
    words = f"in the outbox again with other content, as row {again}: only one can be sent"
    assert outbox.details("requeue", *ids) == [
        "another row of its key cannot go back: settle that one", f"its event is {words}",
        "another row of its key cannot go back: settle that one"]
    assert outbox.details("requeue", ids[0], dry_run=False) == [f"the event of row {ids[1]} is {words}"]
    assert outbox.waiting() == [again] and len(outbox.dead()) == 3 and outbox.generation() == 1
    # it is settled by dropping the copy
    assert outbox.discard(ids[1]) == [(ids[1], "done", 0)]
    assert outbox.requeue(ids[0]) == [(ids[0], "done", 1)]
    assert outbox.waiting() == [ids[0], ids[2], again]


# --- an operation ----------------------------------------------------------------------------------

def test_the_same_operation_gets_its_first_answer(outbox: Outbox):
    dead, parked, _ = outbox.key()
    operation = str(uuid.uuid4())
    first = outbox.requeue(dead, parked, 999, operation=operation)
    assert first == [(dead, "done", 1), (parked, "done", 0), (999, "missing", 0)]
    generation = outbox.generation()
    outbox.bury(dead)
    assert outbox.requeue(dead, parked, 999, operation=operation) == first
    assert outbox.dead() == [(dead, False)] and outbox.generation() == generation
    ((_, _, result, detail, _, _, after),) = outbox.audit()
    assert (result, detail) == ("partly", "3 rows: 2 done")
    assert [row["result"] for row in after] == ["done", "done", "missing"]
    with pytest.raises(psycopg2.errors.UniqueViolation, match="about something else"):
        outbox.requeue(dead, operation=operation)
    with pytest.raises(psycopg2.errors.UniqueViolation, match="about something else"):
        outbox.discard(dead, parked, 999, operation=operation)


def test_a_dry_run_writes_nothing_and_needs_no_right_to(outbox: Outbox):
    dead, *_ = outbox.key()
    outbox.run("SET default_transaction_read_only = on")
    assert outbox.requeue(dead, dry_run=True) == [(dead, "done", 2)]
    assert outbox.discard(dead, dry_run=True) == [(dead, "done", 2)]
    outbox.run("SET default_transaction_read_only = off")
    assert outbox.waiting() == [] and outbox.audit() == [] and outbox.generation() == 1


def test_a_rollback_leaves_everything(outbox: Outbox, connect: Callable[..., Any]):
    dead, *_ = outbox.key()
    other = connect(autocommit=False)
    assert Outbox(other).requeue(dead) == [(dead, "done", 2)]
    other.rollback()
    assert outbox.waiting() == [] and len(outbox.dead()) == 3
    assert outbox.audit() == [] and outbox.generation() == 1


def test_repeatable_read_is_refused(outbox: Outbox, connect: Callable[..., Any]):
    dead, *_ = outbox.key()
    other = connect()
    other.set_session(isolation_level="REPEATABLE READ")
    with pytest.raises(psycopg2.errors.ActiveSqlTransaction, match="READ COMMITTED"):
        Outbox(other).requeue(dead)


def test_only_whom_it_was_granted(outbox: Outbox):
    """SECURITY DEFINER: with the right to the function, and none to any table."""
    dead, *_ = outbox.key()
    outbox.run("DROP ROLE IF EXISTS operator; CREATE ROLE operator;"
               " GRANT USAGE ON SCHEMA counterfoil TO operator; SET ROLE operator")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        outbox.requeue(dead)
    outbox.run("RESET ROLE; GRANT EXECUTE ON FUNCTION counterfoil.outbox_requeue TO operator;"
               " SET ROLE operator; SET search_path = pg_temp")
    assert outbox.requeue(dead) == [(dead, "done", 2)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        outbox.discard(dead)
    outbox.run("RESET ROLE; DROP OWNED BY operator; DROP ROLE operator")


# --- beside a relay --------------------------------------------------------------------------------

def wait_for_lock(outbox: Outbox) -> None:
    waiting.until(lambda: outbox.value("SELECT count(*) = 1 FROM pg_stat_activity WHERE"
                                       " datname = current_database() AND wait_event_type = 'Lock'"),
                  20, "it to wait for the lock")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_is_being_buried_goes_back_too(outbox: Outbox, connect: Callable[..., Any], end: str):
    """A relay that is parking a row just now is waited for: its row is not left behind."""
    dead, *_ = outbox.key(parked=0)
    late = outbox.insert()
    relay = connect(autocommit=False)
    assert Outbox(relay).bury(late, parked=True) == [late]
    person = Outbox(connect())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(person.requeue, dead)
        wait_for_lock(outbox)
        getattr(relay, end)()
        assert answer.result(20) == [(dead, "done", 1 if end == "commit" else 0)]
    assert outbox.waiting() == [dead, late] and outbox.dead() == []


def test_nothing_is_buried_behind_its_back(outbox: Outbox, connect: Callable[..., Any]):
    """While rows go back, and at the old generation afterwards, a relay buries nothing, and does not
    wait either."""
    dead, *_ = outbox.key(parked=0)
    late = outbox.insert()
    person = connect(autocommit=False)
    assert Outbox(person).requeue(dead) == [(dead, "done", 0)]
    relay = Outbox(connect())
    relay.run("SET lock_timeout = '1s'")
    old = {"ids": [late], "parked": True, "hash": KEY, "generation": relay.generation()}
    relay.cursor.execute(BURY, old)
    assert relay.cursor.fetchall() == []
    person.commit()
    relay.cursor.execute(BURY, old)
    assert relay.cursor.fetchall() == []
    assert outbox.waiting() == [dead, late]
    assert relay.bury(late, parked=True) == [late]


def test_two_persons_at_once(outbox: Outbox, connect: Callable[..., Any]):
    dead, *parked = outbox.key()
    first = connect(autocommit=False)
    assert Outbox(first).requeue(dead) == [(dead, "done", 2)]
    second = Outbox(connect())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(second.requeue, dead)
        wait_for_lock(outbox)
        first.commit()
        assert answer.result(20) == [(dead, "already", 0)]
    assert outbox.waiting() == [dead, *parked]


def test_an_event_that_is_being_emitted(outbox: Outbox, connect: Callable[..., Any]):
    event = str(uuid.uuid4())
    row = outbox.insert(event=event)
    outbox.bury(row)
    application = connect(autocommit=False)
    again = Outbox(application).insert(event=event)
    person = Outbox(connect())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(person.requeue, row)
        wait_for_lock(outbox)
        application.commit()
        assert answer.result(20) == [(row, "done", 0)]
    assert outbox.waiting() == [again] and outbox.dead() == []


def test_many_keys_at_once(outbox: Outbox):
    """Ten thousand rows are put back in one transaction, in seconds."""
    outbox.run("INSERT INTO counterfoil.outbox (topic, type, ordering_key) SELECT 'orders', 't', n::text"
               " FROM generate_series(1, 12000) n")
    outbox.run("""WITH gone AS (DELETE FROM counterfoil.outbox RETURNING *)
        INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, order_hash, topic, type,
          ordering_key, size, reason, owner, created_at)
        SELECT 'counterfoil.outbox', id, event_id, id > 10000, CASE WHEN id > 10000 THEN id - 10000 ELSE
          id END, topic, type, ordering_key, 1, '', '', created_at FROM gone""")
    outbox.run("SET statement_timeout = '30s'")
    answer = outbox.requeue(*range(1, 10_001))
    assert {result for _, result, _ in answer} == {"done"}
    assert sum(behind for _, _, behind in answer) == 2000
    assert outbox.waiting() == list(range(1, 12_001)) and outbox.dead() == []


# --- mapped tables ---------------------------------------------------------------------------------

ODD = r"""'{"n": 1e400, "k": [1, 2.50]}', E'a,(b)\\"c\n', '\x00ff', ARRAY['x', NULL, '{,}'],
  '2026-05-04 03:02:01.123456+02', 0.1, NULL"""
COLUMNS = "payload, note, body, tags, happened, ratio, nothing"


@pytest.fixture(params=["delete", "timestamptz", "boolean NOT NULL DEFAULT false"])
def mapped(request: pytest.FixtureRequest, outbox: Outbox) -> Outbox:
    """A table as others have it, its names in need of quotes, with a column that is computed."""
    mark = "" if request.param == "delete" else f', "Sent" {request.param}'
    outbox.run(f"""CREATE TABLE public.outboxevent (seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        gone int, payload jsonb, note text, body bytea, tags text[], happened timestamptz,
        ratio float8, nothing text, length int GENERATED ALWAYS AS (octet_length(note)) STORED,
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), who text DEFAULT 'x'{mark});
        ALTER TABLE public.outboxevent DROP COLUMN gone""")
    outbox.run("INSERT INTO counterfoil.outbox_source (name, relation, id_column, event_id_column,"
               " mark_column) VALUES ('public.outboxevent', 'public.outboxevent', 'seq', 'id', %s)",
               "Sent" if mark else None)
    outbox.mark = request.param
    return outbox


def bury_mapped(outbox: Outbox, *ids: int, parked: bool = False) -> None:
    """The row's text is of before the mark."""
    if outbox.mark == "delete":
        take = "DELETE FROM public.outboxevent o WHERE seq = ANY (%(ids)s) RETURNING seq, id, o::text AS row"
    else:
        value = "true" if outbox.mark.startswith("boolean") else "clock_timestamp()"
        take = (f'UPDATE public.outboxevent o SET "Sent" = {value} FROM (SELECT p.seq AS s, p::text AS row'
                " FROM public.outboxevent p) b WHERE o.seq = b.s AND seq = ANY (%(ids)s)"
                " RETURNING o.seq, o.id, b.row")
    outbox.cursor.execute(BURY_MAPPED.format(take=take), {"ids": list(ids), "parked": parked, "hash": KEY})
    assert sorted(row[0] for row in outbox.cursor.fetchall()) == sorted(ids)


def mapped_key(outbox: Outbox, count: int = 3) -> list[int]:
    ids = [outbox.value(f"INSERT INTO public.outboxevent ({COLUMNS}) VALUES ({ODD}) RETURNING seq")
           for _ in range(count)]
    bury_mapped(outbox, ids[0])
    if ids[1:]:
        bury_mapped(outbox, *ids[1:], parked=True)
    return ids


def mapped_rows(outbox: Outbox) -> list[str]:
    """Those that wait to be published, each as its text."""
    pending = {"delete": "true", "timestamptz": '"Sent" IS NULL'}.get(outbox.mark, 'NOT "Sent"')
    return outbox.rows(f"SELECT o::text FROM public.outboxevent o WHERE {pending} ORDER BY seq")


def test_a_row_of_a_mapped_table_comes_back_as_it_was(mapped: Outbox):
    """R65: cast back from its text; a number that no float holds stays what it was."""
    mapped.run(f"INSERT INTO public.outboxevent ({COLUMNS}) VALUES ({ODD}), ({ODD})")
    before = mapped_rows(mapped)
    bury_mapped(mapped, 1)
    bury_mapped(mapped, 2, parked=True)
    assert mapped_rows(mapped) == []
    assert mapped.requeue(1, source=MAPPED) == [(1, "done", 1)]
    assert mapped_rows(mapped) == before and mapped.dead() == []
    assert (mapped.generation(MAPPED), mapped.generation()) == (2, 1)


def test_a_discarded_row_of_a_mapped_table(mapped: Outbox):
    ids = mapped_key(mapped)
    assert mapped.discard(ids[0], source=MAPPED) == [(ids[0], "done", 2)]
    assert len(mapped_rows(mapped)) == 2 and mapped.dead() == []


def test_a_marked_row_that_is_gone_is_put_in_again(mapped: Outbox):
    mapped.run(f"INSERT INTO public.outboxevent ({COLUMNS}) VALUES ({ODD})")
    before = mapped_rows(mapped)
    bury_mapped(mapped, 1)
    mapped.run("DELETE FROM public.outboxevent")
    assert mapped.requeue(1, source=MAPPED) == [(1, "done", 0)]
    assert mapped_rows(mapped) == before


def test_a_mapped_id_that_was_handed_out_again(mapped: Outbox):
    dead, parked = mapped_key(mapped, 2)
    mapped.run("DELETE FROM public.outboxevent")
    mapped.run("INSERT INTO public.outboxevent (seq) OVERRIDING SYSTEM VALUE VALUES (%s)", dead)
    assert mapped.details("requeue", dead, source=MAPPED, dry_run=False) == [
        "it goes back to the outbox; 1 row parked behind it goes back;"
        f" its id is {parked + 1} now, another event has the old one"]
    assert mapped.rows("SELECT seq FROM public.outboxevent ORDER BY 1") == [dead, parked + 1, parked + 2]


def test_a_mapped_event_that_is_there_again(mapped: Outbox):
    (dead,) = mapped_key(mapped, 1)
    event = mapped.value("SELECT event_id FROM counterfoil.outbox_dead")
    mapped.run("DELETE FROM public.outboxevent")
    mapped.run(f"INSERT INTO public.outboxevent (id, {COLUMNS}) VALUES (%s, {ODD})", event)
    again = mapped_rows(mapped)
    assert mapped.details("requeue", dead, source=MAPPED, dry_run=False) == [
        "its event is in the table already: only the copy is dropped"]
    assert mapped_rows(mapped) == again and mapped.dead() == []


def test_a_mapped_event_that_is_there_again_with_other_content(mapped: Outbox):
    (dead,) = mapped_key(mapped, 1)
    event = mapped.value("SELECT event_id FROM counterfoil.outbox_dead")
    mapped.run("DELETE FROM public.outboxevent")
    mapped.run("INSERT INTO public.outboxevent (id) VALUES (%s)", event)
    assert mapped.details("requeue", dead, source=MAPPED, dry_run=False) == [
        f"the event of row {dead} is in the table again with other content, as row {dead + 1}:"
        " only one can be sent"]
    assert mapped.dead() == [(dead, False)]


@pytest.mark.parametrize("change, words", [
    ("ADD COLUMN more int", "malformed record literal"),
    ("ADD UNIQUE (ratio)", "row 1 would have a value that another row of the table has"),
    ("ADD CHECK (ratio > 1) NOT VALID", "violates check constraint"),
    ("RENAME TO elsewhere", "does not exist")])
def test_a_mapped_table_that_does_not_take_it_back(mapped: Outbox, change: str, words: str):
    (dead,) = mapped_key(mapped, 1)
    mapped.run("DELETE FROM public.outboxevent; INSERT INTO public.outboxevent (ratio) VALUES (0.1)")
    mapped.run(f"ALTER TABLE public.outboxevent {change}")
    (detail,) = mapped.details("requeue", dead, source=MAPPED, dry_run=False)
    assert words in detail
    assert mapped.dead() == [(dead, False)] and mapped.generation(MAPPED) == 1
    ((_, _, result, told, *_),) = mapped.audit()
    assert (result, told) == ("refused", detail)


@pytest.mark.parametrize("mark", [None, "sent"])
def test_a_mapped_row_without_an_event_id(outbox: Outbox, mark: str | None):
    """It is dead for that, under an id of zeros, and goes back as it was: repaired, or to be mended."""
    outbox.run("CREATE TABLE public.events (seq bigint PRIMARY KEY, id uuid, sent timestamptz)")
    outbox.run("INSERT INTO counterfoil.outbox_source (name, relation, id_column, event_id_column,"
               " mark_column) VALUES ('public.events', 'public.events', 'seq', 'id', %s)", mark)
    outbox.run("INSERT INTO counterfoil.outbox_dead (source, row_id, event_id, parked, row, size, reason,"
               " owner) SELECT 'public.events', n, '00000000-0000-0000-0000-000000000000', false,"
               " '(' || n || ',,)', 1, 'no event id', 'relay-1' FROM generate_series(1, 2) n")
    if mark:
        outbox.run("INSERT INTO public.events VALUES (1, NULL, now()), (2, NULL, now())")
    else:
        outbox.run("INSERT INTO public.events VALUES (2)")     # put back by hand meanwhile
    assert outbox.requeue(1, 2, source="public.events") == [(1, "done", 0), (2, "done", 0)]
    assert outbox.rows("SELECT seq, id, sent FROM public.events ORDER BY 1") == [
        (1, None, None), (2, None, None)]
