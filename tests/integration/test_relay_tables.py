"""Outboxes that were there before us: tables of other shapes, mapped by the configuration; what is
refused, in words; and the dry run."""

from __future__ import annotations

import json
import random
import re
from contextlib import closing
from typing import Any, Callable

import pytest

from tests.tools import programs, waiting
from tests.tools.broker import Message
from tests.tools.programs import Program
from tests.tools.world import World

LOG_MISFIT = "the table does not fit"
PROMPTLY = 10

DEBEZIUM = """
CREATE TABLE public.outboxevent (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
  aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb,
  seq bigint GENERATED ALWAYS AS IDENTITY);
CREATE UNIQUE INDEX ON public.outboxevent (seq);
"""
EVENTS = """
CREATE TABLE public.events (
  seq bigserial PRIMARY KEY, uid uuid NOT NULL DEFAULT gen_random_uuid(), kind text NOT NULL,
  customer int, body text, meta json, happened_at timestamp NOT NULL DEFAULT '2026-01-02 03:04:05.5',
  published_at timestamptz, done boolean NOT NULL DEFAULT false);
"""
INDEX = "CREATE INDEX ON public.events (seq) WHERE "


def debezium(topic: str, **changes: Any) -> dict[str, Any]:
    return {
        "table": "public.outboxevent",
        "columns": {"id": "seq", "event_id": "id", "topic": "", "ordering_key": "aggregateid",
                    "partition": "", "message_key": "", "headers": "", "created_at": ""},
        "topic": topic + ".${aggregatetype}", "headers": "debezium", "pending": "true",
        "after_publish": "delete", "start_after": 0, **changes}


def events(topic: str, **changes: Any) -> dict[str, Any]:
    return {
        "table": "public.events",
        "columns": {"id": "seq", "event_id": "uid", "topic": "", "type": "kind",
                    "ordering_key": "customer", "partition": "", "message_key": "",
                    "payload": "body", "headers": "meta", "created_at": "happened_at"},
        "topic": topic, "pending": "published_at IS NULL", "after_publish": "mark",
        "mark_column": "published_at", "start_after": 0, **changes}


def add_event(world: World, body: str = "b", customer: int = 1, **columns: Any) -> int:
    """A row of public.events; its id."""
    row = {"kind": "k", "body": body, "customer": customer, **columns}
    return world.value(
        f"INSERT INTO public.events ({', '.join(row)}) VALUES ({', '.join('%s' for _ in row)}) "
        "RETURNING seq", list(row.values()))


def published(world: World, count: int, topic: str | None = None) -> list[Message]:
    """So many messages, once they are there; not one more."""
    name = topic or world.topic
    waiting.until(lambda: world.broker.count(name) >= count, PROMPTLY, f"{count} messages in {name}")
    messages = world.messages(name)
    assert len(messages) == count
    return messages


def bodies(messages: list[Message]) -> set[str]:
    return {message.value.decode() for message in messages}


def misfit(relay: Program, *parts: str, again: int = 1) -> str:
    """What the relay says of the table, which must hold these parts; it goes on trying."""
    relay.allow_errors(LOG_MISFIT)
    relay.start(ready=False)
    text = relay.wait_for(LOG_MISFIT).fields["text"]
    for part in parts:
        assert part in text
    return text


def dry_run(world: World, relay: Program) -> tuple[int, list[dict[str, str]], str]:
    """Its exit code, its lines, and what it complains of."""
    done = programs.run("counterfoil-relay", "--config", str(relay.config), "--dry-run")
    return (done.returncode, [programs.parse_line(line).fields for line in done.stdout.splitlines()],
            done.stderr)


# --- published and deleted --------------------------------------------------------------------------

def test_a_table_made_for_debezium(world: World):
    """Its event router's columns, a bigint added, its headers, its topics; rows go once published."""
    world.query(DEBEZIUM)
    topic = world.topic + ".order"
    world.broker.create_topic(topic, 4)
    relay = world.relay(**debezium(world.topic)).start()
    rows = world.query(
        "INSERT INTO public.outboxevent (aggregatetype, aggregateid, type, payload) "
        "SELECT 'order', 'o-' || n % 3, 'OrderCreated', jsonb_build_object('n', n) "
        "FROM generate_series(1, 30) n RETURNING id::text, aggregateid, payload::text, seq")
    waiting.until(lambda: world.value("SELECT count(*) FROM public.outboxevent") == 0, PROMPTLY,
                  "the table to be empty")
    messages = {message.header("id"): message for message in published(world, 30, topic)}
    places: dict[str, list[tuple[int, int, int]]] = {}
    for event, key, payload, seq in rows:
        message = messages[event]
        assert message.headers == (("id", event.encode()), ("eventType", b"OrderCreated"))
        assert message.key == event.encode() and message.value == payload.encode()
        places.setdefault(key, []).append((message.partition, message.offset, seq))
    for key, found in places.items():
        assert len({partition for partition, _, _ in found}) == 1, key
        assert [seq for *_, seq in sorted(found)] == sorted(seq for *_, seq in found), key
    assert world.value("SELECT count(*) FROM counterfoil.lease "
                       "WHERE name = 'relay:public.outboxevent'") == 1
    relay.stop()


def test_a_jsonb_payload_is_its_text(world: World):
    """R65: a jsonb payload is published as PostgreSQL prints it, never parsed and written anew; json
    keeps every byte."""
    world.query(DEBEZIUM)
    texts = ['{"b": 1.10, "a":9007199254740993123, "a": 1e400}', '[1,  2]', '"x\\u00e9\\n"', "null",
             '{"deep": ' + "[" * 90 + "]" * 90 + "}", '{"' + "k" * 300 + '": "\U0001f600"}']
    topic = world.topic + ".t"
    world.broker.create_topic(topic, 1)
    world.query("INSERT INTO public.outboxevent (aggregatetype, aggregateid, type, payload) "
                "SELECT 't', 'k', 'x', p::jsonb FROM unnest(%s) p", (texts,))
    wanted = [text.encode() for (text,) in
              world.query("SELECT payload::text FROM public.outboxevent ORDER BY seq")]
    relay = world.relay(**debezium(world.topic)).start()
    messages = sorted(published(world, len(texts), topic), key=lambda message: message.offset)
    assert [message.value for message in messages] == wanted
    relay.stop()
    world.query("ALTER TABLE public.outboxevent ALTER payload TYPE json")
    world.query("INSERT INTO public.outboxevent (aggregatetype, aggregateid, type, payload) "
                "SELECT 't', 'k', 'x', p::json FROM unnest(%s) p", (texts,))
    world.relay(**debezium(world.topic)).start()
    messages = sorted(published(world, 2 * len(texts), topic), key=lambda message: message.offset)
    assert [message.value for message in messages[len(texts):]] == [t.encode() for t in texts]


def test_inserted_and_deleted_at_once_publishes_nothing(world: World):
    """A habit where the log is read: the row is never there for anybody else."""
    world.query(DEBEZIUM)
    topic = world.topic + ".order"
    world.broker.create_topic(topic, 1)
    world.relay(**debezium(world.topic)).start()
    row = ("INSERT INTO public.outboxevent (aggregatetype, aggregateid, type, payload) "
           "VALUES ('order', 'o', 'x', %s)")
    with closing(world.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(row, ('"gone"',))
        cursor.execute("DELETE FROM public.outboxevent")
        connection.commit()
    world.query(row, ('"stays"',))
    assert bodies(published(world, 1, topic)) == {'"stays"'}


# --- published and marked ---------------------------------------------------------------------------

@pytest.mark.parametrize("pending, column", [("published_at IS NULL", "published_at"),
                                             ("NOT done", "done")])
def test_rows_are_marked(world: World, pending: str, column: str):
    """A time or a boolean says that a row was published; rows stay, and come once."""
    world.query(EVENTS + INDEX + pending)
    relay = world.relay(**events(world.topic, pending=pending, mark_column=column)).start()
    for n in range(20):
        add_event(world, f"b{n}", n % 3, meta=json.dumps({"tenant": "acme", "n": n}))
    messages = published(world, 20)
    assert bodies(messages) == {f"b{n}" for n in range(20)}
    waiting.until(lambda: world.value(
        f"SELECT count(*) FROM public.events WHERE NOT ({pending})") == 20, PROMPTLY, "all marks")
    one = next(message for message in messages if message.value == b"b7")
    assert one.header("ce_type") == "k" and one.header("ce_subject") == "1"
    assert one.header("ce_time") == "2026-01-02T03:04:05.500000Z"
    assert one.header("tenant") == "acme" and one.header("n") == "7"
    relay.stop()
    relay.start()       # what is marked is not looked at again
    add_event(world, "last")
    assert "last" in bodies(published(world, 21))
    if column == "published_at":
        assert world.value("SELECT max(published_at) - now() < interval '1 minute' "
                           "FROM public.events")


def test_history_is_left_alone(world: World):
    """Rows up to start_after are neither published nor deleted; later ones are both."""
    world.query(EVENTS)
    old = [add_event(world, f"old {n}") for n in range(5)]
    world.relay(**events(world.topic, after_publish="delete", mark_column="", pending="true",
                         start_after=old[-1])).start()
    new = [add_event(world, f"new {n}") for n in range(5)]
    assert bodies(published(world, 5)) == {f"new {n}" for n in range(5)}
    waiting.until(lambda: world.query("SELECT seq FROM public.events ORDER BY seq")
                  == [(row,) for row in old], PROMPTLY, "the new rows to be deleted")
    assert new[0] > old[-1]


@pytest.mark.parametrize("beyond, warned", [(0, False), (1, True)])
def test_a_start_above_all_ids(world: World, beyond: int, warned: bool):
    """Of which nothing would be published: told at the start; so is what its rows are."""
    world.query(EVENTS)
    ids = [add_event(world, f"old {n}") for n in range(3)]
    relay = world.relay(**events(world.topic, after_publish="delete", mark_column="", pending="true",
                                 start_after=ids[-1] + beyond)).start()
    relay.wait_for("ready")
    said = f"relay.start_after = {ids[-1] + beyond} is above all ids of "
    assert any(said in line.text for line in relay.log()) == warned


def test_only_pending_rows(world: World):
    """A row is published once it is pending, even where it lies below the reading position."""
    world.query(EVENTS)
    relay = world.relay(**events(world.topic, after_publish="delete", mark_column="",
                                 pending="done AND kind <> 'draft' -- and no other")).start()
    assert any("rows that are not of relay.pending are walked over" in line.text
               for line in relay.log())
    first = add_event(world, "late")
    add_event(world, "draft", kind="draft", done=True)
    add_event(world, "now", done=True)
    assert bodies(published(world, 1)) == {"now"}
    world.query("UPDATE public.events SET done = true WHERE seq = %s", (first,))
    assert bodies(published(world, 2)) == {"now", "late"}
    waiting.until(lambda: world.query("SELECT body FROM public.events") == [("draft",)], PROMPTLY,
                  "what was published to be deleted")
    relay.stop()


def test_a_late_commit_is_not_skipped(world: World):
    """A lower id that commits after higher ones is found; its holder is seen at the mapped table."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    world.relay(sweep="10m", **events(world.topic)).start()
    with closing(world.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO public.events (kind, body) VALUES ('k', 'late')")
        add_event(world, "early")
        assert bodies(published(world, 1)) == {"early"}
        connection.commit()
    assert bodies(published(world, 2)) == {"early", "late"}


def test_a_partitioned_table(world: World):
    """Rows of every partition, by id; written through the parent or into a partition."""
    world.query("""
        CREATE TABLE public.events (seq bigint GENERATED ALWAYS AS IDENTITY, uid uuid NOT NULL,
          kind text NOT NULL, customer int NOT NULL, body text, meta json, happened_at timestamp)
          PARTITION BY LIST (customer);
        CREATE TABLE public.events_1 PARTITION OF public.events FOR VALUES IN (1);
        CREATE TABLE public.events_2 PARTITION OF public.events FOR VALUES IN (2);
        CREATE INDEX ON public.events (seq)""")
    world.relay(**events(world.topic, after_publish="delete", mark_column="",
                         pending="true")).start()
    for n in range(10):
        world.query("INSERT INTO public.events (uid, kind, customer, body) "
                    "VALUES (gen_random_uuid(), 'k', %s, %s)", (n % 2 + 1, f"b{n}"))
    assert bodies(published(world, 10)) == {f"b{n}" for n in range(10)}
    waiting.until(lambda: world.value("SELECT count(*) FROM public.events") == 0, PROMPTLY,
                  "the table to be empty")


def test_awful_names(world: World):
    """Names that must be quoted, of schema, table, columns and in relay.topic."""
    world.query("""CREATE SCHEMA "Order Events";
        CREATE TABLE "Order Events"."select" ("from" bigserial PRIMARY KEY, "Event ""Id"" no" uuid
          DEFAULT gen_random_uuid(), "it's" text, "where {x}" bytea, "o" text, "done yet" boolean);
        CREATE INDEX ON "Order Events"."select" ("from") WHERE "done yet" IS NULL""")
    topic = world.topic + ".x-y"
    world.broker.create_topic(topic, 1)
    settings = {
        "table": '"Order Events"."select"',
        "columns": {"id": "from", "event_id": 'Event "Id" no', "topic": "", "type": "o",
                    "ordering_key": "o", "partition": "", "message_key": "",
                    "payload": "where {x}", "headers": "", "created_at": ""},
        "topic": world.topic + ".${it's}", "pending": '"done yet" IS NULL',
        "after_publish": "mark", "mark_column": "done yet", "start_after": 0}
    relay = world.relay(**settings)
    world.query("""INSERT INTO "Order Events"."select" ("it's", "where {x}", "o")
                   VALUES ('x-y', 'one', 'k')""")
    code, lines, complaint = dry_run(world, relay)
    assert code == 0, complaint
    assert lines[0]["topic"] == topic and lines[0]["verdict"] == "ok"
    relay.start()
    assert bodies(published(world, 1, topic)) == {"one"}
    waiting.until(lambda: world.value('SELECT "done yet" FROM "Order Events"."select"'), PROMPTLY,
                  "the mark")
    assert world.query("SELECT name, relation, id_column, event_id_column, mark_column "
                       "FROM counterfoil.outbox_source WHERE relation <> name") == [
        ("Order Events.select", '"Order Events"."select"', "from", 'Event "Id" no', "done yet")]


def test_two_tables_two_relays(world: World):
    """Our own outbox and a foreign one, each with its relay, at once; neither waits for the other."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    ours = world.relay().start()
    theirs = world.relay(**events(world.topic)).start()
    for n in range(30):
        add_event(world, f"theirs {n}")
        world.emit(f"ours {n}".encode())
    assert bodies(published(world, 60)) == {f"{whose} {n}" for whose in ("ours", "theirs")
                                            for n in range(30)}
    waiting.until(lambda: world.outbox() == 0, PROMPTLY, "our outbox to be empty")
    ours.stop()
    add_event(world, "alone")
    assert "alone" in bodies(published(world, 61))
    theirs.stop()


def test_a_dead_row_of_a_mapped_table(world: World):
    """A row that no broker takes is kept whole, as text that any session reads the same way, and leaves
    the table, or is marked; the rows of its key behind it wait with it."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    world.query(f"ALTER DATABASE \"{world.database}\" SET datestyle = 'SQL, DMY'")
    relay = world.relay(**events(world.topic))
    relay.allow_errors("row is dead")
    relay.start()
    dead = add_event(world, "x" * 1_100_000, customer=1)
    behind = add_event(world, "behind", customer=1)
    add_event(world, "other", customer=2)
    assert bodies(published(world, 1)) == {"other"}
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 2,
                  PROMPTLY, "both rows to be moved")
    assert world.query(
        "SELECT source, row_id, parked, topic, type, ordering_key, "
        "(row::public.events).seq, (row::public.events).published_at IS NULL, "
        "created_at = '2026-01-02 03:04:05.5+00', "
        "(row::public.events).happened_at = '2026-01-02 03:04:05.5' "
        "FROM counterfoil.outbox_dead ORDER BY row_id") == [
        ("public.events", dead, False, world.topic, "k", "1", dead, True, True, True),
        ("public.events", behind, True, world.topic, "k", "1", behind, True, True, True)]
    assert world.value("SELECT count(*) FROM public.events WHERE published_at IS NULL") == 0


@pytest.mark.parametrize("marks", [True, False])
def test_a_dead_row_of_a_mapped_table_comes_back(world: World, marks: bool):
    """Put back by a cast, with what was parked behind it, under their old ids: both are published, in
    their order, and then marked or deleted like all others."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    settings = events(world.topic) if marks else events(
        world.topic, after_publish="delete", mark_column="")
    relay = world.relay(**settings)
    relay.allow_errors("row is dead")
    relay.start()
    dead = add_event(world, "x" * 1_100_000, meta='{"a":  "\\"b, (c)"}')
    behind = add_event(world, "behind")
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 2,
                  PROMPTLY, "both rows to be moved")
    relay.stop()
    world.settings = {"kafka": {"properties": [("bootstrap.servers", world.broker.bootstrap),
                                               ("message.max.bytes", "2000000")]}}
    world.relay(**settings).start()
    verdicts = world.query("SELECT result FROM counterfoil.outbox_requeue('public.events', %s, "
                           "gen_random_uuid(), 'larger messages are taken now', NULL)", ([dead],))
    assert verdicts == [("done",)]
    first, second = sorted(published(world, 2), key=lambda message: message.offset)
    assert len(first.value) == 1_100_000 and second.value == b"behind"
    assert first.header("a") == '"b, (c)' and first.partition == second.partition
    left = [(dead,), (behind,)] if marks else []
    waiting.until(lambda: world.query(
        "SELECT seq FROM public.events WHERE published_at IS NOT NULL ORDER BY seq") == left
        and world.value("SELECT count(*) FROM public.events WHERE published_at IS NULL") == 0,
        PROMPTLY, "both to be marked or deleted")
    assert world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 0


# --- refused, in words ------------------------------------------------------------------------------

def test_everything_that_does_not_fit_is_said_at_once(world: World):
    """Columns that are missing or of a wrong type, each with its remedy; nothing is published, and
    the relay goes on trying."""
    world.query("CREATE TABLE public.events (seq numeric PRIMARY KEY, uid text, kind text, "
                "customer int, body xml, meta text, happened_at date, published_at int)")
    text = misfit(world.relay(**events(world.topic)),
                  'relay.columns.id: column "seq" is numeric; it must be bigint or integer',
                  'relay.columns.event_id: column "uid" is text; it must be uuid',
                  'relay.columns.payload: column "body" is xml',
                  'relay.columns.headers: column "meta" is text',
                  'relay.columns.created_at: column "happened_at" is date',
                  'relay.mark_column: column "published_at" is integer; it must be boolean')
    world.query("DROP TABLE public.events; CREATE TABLE public.events (uid uuid)")
    relay = world.relay(**events(world.topic))
    text = misfit(relay,
                  'relay.columns.id: there is no column "seq"; add one: ALTER TABLE '
                  '"public"."events" ADD seq bigint GENERATED ALWAYS AS IDENTITY',
                  'relay.columns.headers: there is no column "meta"; name a column of '
                  '"public"."events" or, where the table has none, ""')
    assert "uid" not in text
    world.query("DROP TABLE public.events;" + EVENTS + INDEX + "published_at IS NULL")
    add_event(world, "at last")
    relay.wait_for("ready")
    assert bodies(published(world, 1)) == {"at last"}


def test_a_table_that_is_not_there(world: World):
    """No such table, another kind of relation, a schema without USAGE."""
    misfit(world.relay(**events(world.topic)), 'there is no table "public"."events"')
    world.query(EVENTS + "CREATE VIEW public.seen AS SELECT * FROM public.events")
    misfit(world.relay(**events(world.topic, table="public.seen")),
           '"public"."seen" is neither a table nor a partitioned table')


def test_without_an_index(world: World):
    """The statement that makes the index is in the message, and once it is there, rows flow."""
    world.query(EVENTS + "ALTER TABLE public.events DROP CONSTRAINT events_pkey")
    add_event(world, "waits")
    relay = world.relay(**events(world.topic))
    text = misfit(relay, "there is no index that begins with the id")
    world.query(re.search("CREATE INDEX.*", text)[0].replace("CONCURRENTLY ", ""))
    relay.wait_for("ready")
    assert bodies(published(world, 1)) == {"waits"}


def test_an_index_that_walks_over_what_was_published(world: World):
    """With marks the primary key does not do: an index must hold only what waits. Also where the
    planner would not choose it on a table so small."""
    world.query(EVENTS)
    relay = world.relay(**events(world.topic))
    text = misfit(relay, "every fetch would walk over the rows that were published",
                  'CREATE INDEX CONCURRENTLY ON "public"."events" ("seq") '
                  "WHERE published_at IS NULL")
    assert text.startswith('"public"."events": ')
    world.query(INDEX + "published_at IS NULL")
    relay.wait_for("ready")


def test_a_condition_that_is_none(world: World):
    """What the server says of relay.pending is passed on."""
    world.query(EVENTS)
    misfit(world.relay(**events(world.topic, pending="publishd_at IS NULL OR published_at IS NULL")),
           "relay.pending, or another part of the mapping, does not do",
           'column "publishd_at" does not exist')


def test_ids_that_are_not_drawn_one_by_one(world: World):
    """Blocks, or no sequence at all: a warning, for rows still come, if late."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    world.query("ALTER SEQUENCE public.events_seq_seq CACHE 50")
    relay = world.relay(**events(world.topic)).start()
    assert any("public.events_seq_seq gives out ids in blocks" in line.text
               or "events_seq_seq gives out ids in blocks" in line.text for line in relay.log())
    add_event(world, "b")
    published(world, 1)
    relay.stop()
    world.query("ALTER TABLE public.events ALTER seq DROP DEFAULT")
    relay = world.relay(**events(world.topic)).start()
    assert any("neither an identity nor a sequence" in line.text for line in relay.log())
    add_event(world, "second", seq=7000)
    published(world, 2)
    add_event(world, "first", seq=6000)     # below the position: the next sweep finds it
    published(world, 3)


def test_writers_whose_ids_come_from_a_cache(world: World):
    """R2: each session draws a block of ids before it needs them, so that lower ones come later all
    the time: what is published is what was committed."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    world.query("ALTER SEQUENCE public.events_seq_seq CACHE 20")
    world.relay(sweep="200ms", **events(world.topic)).start()
    sessions = [world.connect() for _ in range(6)]
    chance = random.Random(7)
    rolled_back = set()
    for n in range(300):
        session = chance.choice(sessions)
        with session.cursor() as cursor:
            cursor.execute("INSERT INTO public.events (kind, body, customer) VALUES ('k', %s, %s)",
                           (f"row {n}", n % 5))
        if chance.random() < 0.2:
            session.rollback()
            rolled_back.add(n)
        elif chance.random() < 0.5:
            session.commit()
    for session in sessions:
        session.close()                 # what is not committed is rolled back
    committed = {body for (body,) in world.query("SELECT body FROM public.events")}
    assert 100 < len(committed) < 300 - len(rolled_back)
    assert bodies(published(world, len(committed))) == committed


def test_our_own_ids_in_blocks(world: World):
    """CACHE 1 of our own table is checked too."""
    world.query("ALTER TABLE counterfoil.outbox ALTER id SET CACHE 20")
    relay = world.relay().start()
    assert any("counterfoil.outbox_id_seq gives out ids in blocks" in line.text
               for line in relay.log())
    world.emit(b"x")
    published(world, 1)


def test_missing_privileges_are_named(world: World):
    """A role that may not read, delete or mark: the GRANT that helps, at once."""
    world.query(EVENTS + INDEX + "published_at IS NULL")
    world.query("DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA counterfoil "
                "TO poor; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA counterfoil "
                "TO poor")
    conninfo = world.postgres.conninfo(world.database, "poor")
    try:
        text = misfit(world.relay(conninfo=conninfo, **events(world.topic)),
                      'GRANT SELECT ON "public"."events" TO "poor"',
                      'GRANT UPDATE ON "public"."events" TO "poor"')
        assert "DELETE" not in text
        world.query("GRANT SELECT, UPDATE ON public.events TO poor")
        relay = world.relay(conninfo=conninfo, **events(world.topic)).start()
        add_event(world, "allowed")
        published(world, 1)
        waiting.until(lambda: world.value("SELECT count(*) FROM public.events "
                                          "WHERE published_at IS NULL") == 0, PROMPTLY, "the mark")
        relay.stop()
    finally:
        for program in world.relays:
            program.close()
        world.query("DROP OWNED BY poor; DROP ROLE poor")


# --- the dry run ------------------------------------------------------------------------------------

def test_a_dry_run_shows_and_changes_nothing(world: World):
    """A line a row with its verdict, and totals; no payload, no lease, no message, nothing deleted;
    beside a running relay too, and in pages."""
    relay = world.relay(batch=7, topics=[world.topic])
    events_of = [world.emit(f"secret {n}".encode(), ordering_key="k") for n in range(20)]
    world.query("INSERT INTO counterfoil.outbox (topic, type, payload, partition, message_key, headers)"
                " VALUES ('other', 't', 'secret', NULL, NULL, NULL),"
                " (%s, 't', 'secret', 3, '\\x00ff', '{\"a\": 1, \"b\": null}'),"
                " (%s, 't', convert_to(repeat('secret', 200000), 'UTF8'), NULL, NULL, NULL)",
                (world.topic, world.topic))
    code, lines, complaint = dry_run(world, relay)
    assert (code, complaint) == (1, "")
    *rows, totals = lines
    assert [row["event_id"] for row in rows[:20]] == events_of
    assert all(row["verdict"] == "ok" and row["topic"] == world.topic
               and row["partition"] == "by key" and row["headers"] == "7" for row in rows[:20])
    assert rows[20]["verdict"] == "the topic is not among relay.topics"
    assert rows[21]["verdict"] == "ok" and rows[21]["partition"] == "3"
    assert rows[21]["headers"] == "7" and rows[21]["key"] == "\\x00ff"
    assert rows[22]["verdict"] == "1200001 bytes, more than message.max.bytes = 1000000"
    assert totals["rows"] == "23" and totals["ok"] == "21" and totals["dead"] == "2"
    assert "secret" not in json.dumps(lines)
    assert world.outbox() == 23 and world.broker.count(world.topic) == 0
    assert world.value("SELECT count(*) FROM counterfoil.lease WHERE name = 'relay'") == 0


def test_a_dry_run_of_what_cannot_be_asked(world: World):
    """No database, or a table that does not fit: the exit code says which."""
    relay = world.relay(conninfo=f"host={world.directory} dbname=none")
    code, lines, complaint = dry_run(world, relay)
    assert (code, lines) == (69, []) and "cannot connect" in complaint
    relay = world.relay(**events(world.topic))
    code, lines, complaint = dry_run(world, relay)
    assert (code, lines) == (78, []) and 'there is no table "public"."events"' in complaint
