"""The application that the relay's tests write with, and their judge.

It notes every event in a table of its own, in the transaction that emits it: what was committed is
known, whatever broke off meanwhile."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import Any, Collection, Iterator, Sequence

import psycopg2

from . import waiting
from .broker import Message
from .programs import Program
from .world import World

BY_THE_PROTOCOL = re.compile(r" (<unnamed>|cf_\d+): ")    # as the server logs a statement
TABLE = """CREATE TABLE public.written (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bigint NOT NULL,
  event_id uuid NOT NULL UNIQUE, topic text NOT NULL, ordering_key text, payload bytea)"""
WRITE = """INSERT INTO public.written (id, event_id, topic, ordering_key, payload)
  SELECT e.id, e.event_id, %(topic)s, s.k, s.p
  FROM (SELECT %(key)s || n %% %(keys)s AS k,
          convert_to(format('{"n":%%s,"pad":"%%s"}', n, repeat('x', %(pad)s)), 'UTF8') AS p
        FROM generate_series(1, %(count)s) n) s,
    LATERAL counterfoil.emit(topic => %(topic)s, type => 'tested', payload => s.p,
                             ordering_key => s.k, lock => %(lock)s) e
  RETURNING id"""
# Twice, while it is unpublished: the second time changes nothing.
WRITE_AGAIN = """SELECT count(*),
    count(*) FILTER (WHERE e.created), count(*) FILTER (WHERE f.created)
  FROM (SELECT * FROM public.written ORDER BY n) w,
    LATERAL counterfoil.emit(topic => w.topic, type => 'tested', payload => w.payload,
                             ordering_key => w.ordering_key, event_id => w.event_id) e,
    LATERAL counterfoil.emit(topic => w.topic, type => 'tested', payload => w.payload,
                             ordering_key => w.ordering_key, event_id => w.event_id) f"""
# Who deleted what, and whose the lease was then.
WITNESS = """
CREATE TABLE public.deleted (id bigint, by text, holder text);
CREATE FUNCTION public.note_deletion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO public.deleted SELECT g.id, current_setting('application_name'),
    (SELECT split_part(owner, '/', 1) FROM counterfoil.lease WHERE name = 'relay') FROM gone g;
  RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER DELETE ON counterfoil.outbox REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION public.note_deletion();
"""


def essence(message: Message) -> tuple[object, ...]:
    """What another row of the same event has in common with the first: all but its time."""
    headers = tuple((name, value) for name, value in message.headers if name != "ce_time")
    return (message.topic, message.partition, message.key, message.value, headers)


class Outbox:
    """The outbox of a world, from both of its ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._log_from = 0
        world.query(TABLE)

    def relay(self, **settings: Any) -> Program:
        """One more relay, not started, whose connections bear its name."""
        name = f"relay-{len(self.world.relays) + 1}"
        conninfo = self.world.postgres.conninfo(self.world.database)
        return self.world.relay(conninfo=f"{conninfo} application_name={name}", **settings)

    # --- writing ----------------------------------------------------------------------------------

    def write_in(self, connection: Any, count: int = 1, key: str = "key-", keys: int = 10,
                 pad: int = 0, lock: bool = False, topic: str | None = None) -> list[int]:
        """Events in the open transaction, of keys in turn; the ids of their rows."""
        with connection.cursor() as cursor:
            cursor.execute(WRITE, {"topic": topic or self.world.topic, "count": count, "key": key,
                                   "keys": keys, "pad": pad, "lock": lock})
            return [only for (only,) in cursor.fetchall()]

    def write(self, count: int = 1, **options: Any) -> list[int]:
        """In a transaction of their own."""
        with closing(self.world.connect()) as connection:
            ids = self.write_in(connection, count, **options)
            connection.commit()
            return ids

    @contextmanager
    def load(self, writers: int = 2, rows: int = 5, pause: float = 0.01,
             topics: Sequence[str | None] = (None,)) -> Iterator[None]:
        """Writers that go on, whatever happens to their connections, until the block ends."""
        done = threading.Event()
        threads = [threading.Thread(target=self._write_on, daemon=True,
                                    args=(done, f"writer-{n}-", rows, pause, topics))
                   for n in range(writers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def _write_on(self, done: threading.Event, key: str, rows: int, pause: float,
                  topics: Sequence[str | None]) -> None:
        while not done.is_set():
            try:
                with closing(self.world.connect()) as connection:
                    while not done.wait(pause):
                        for topic in topics:
                            self.write_in(connection, rows, key=key, keys=3, topic=topic)
                        connection.commit()
            except psycopg2.Error:
                done.wait(0.05)

    # --- judging ----------------------------------------------------------------------------------

    def written(self) -> int:
        return self.world.value("SELECT count(*) FROM public.written")

    def waiting(self, topic: str) -> int:
        """Rows of that topic in the outbox."""
        return self.world.value("SELECT count(*) FROM counterfoil.outbox WHERE topic = %s", (topic,))

    def wait_empty(self, timeout: float = 30) -> None:
        waiting.until(lambda: self.world.outbox() == 0, timeout, "the outbox to be empty")

    def wait_amidst(self, timeout: float = 30) -> None:
        """Until some of it is published and deleted, and some is not."""
        def amidst() -> bool:
            left = self.world.outbox()
            if left == 0:       # it was faster than we look
                self.write(1000, keys=40)
            return 0 < left < self.written() - 300
        waiting.until(amidst, timeout, "the relay to be amidst it")

    def judge(self, copies: bool = True, absent: Collection[str] = ()) -> list[Message]:
        """What was committed, but for the events that are to be absent, is in its topic, and nothing
        else is; copies are the same to the byte; order holds within each key. The messages, of each
        event the first."""
        committed = {event: row for event, *row in self.world.query(
            "SELECT event_id::text, id, topic, ordering_key, payload FROM public.written "
            "WHERE event_id::text <> ALL (%s)", (list(absent),))}
        messages = self.messages()
        first: dict[str, Message] = {}
        for message in messages:
            known = first.setdefault(message.event_id, message)
            assert message.content() == known.content(), "a copy differs from the first"
        lost, foreign = committed.keys() - first.keys(), first.keys() - committed.keys()
        assert not lost and not foreign, f"{len(lost)} lost, {len(foreign)} never committed"
        assert copies or len(messages) == len(first), f"{len(messages) - len(first)} duplicates"
        self._judge_order(first, committed)
        return list(first.values())

    def messages(self) -> list[Message]:
        """Of the world's topic and all others that were written to."""
        others = self.world.query("SELECT DISTINCT topic FROM public.written")
        topics = sorted({self.world.topic, *(topic for (topic,) in others)})
        return [message for topic in topics for message in self.world.messages(topic)]

    @staticmethod
    def _judge_order(first: dict[str, Message], committed: dict[str, list[Any]]) -> None:
        of_key: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for event, message in first.items():
            row, topic, key, payload = committed[event]
            assert message.value == bytes(payload) and message.topic == topic
            assert message.header("ce_subject") == key
            of_key[topic, key].append((message.partition, row))
        for key, places in of_key.items():
            assert len({partition for partition, _ in places}) == 1, f"{key} in two partitions"
            turned = [(one, two) for one, two in zip(places, places[1:]) if one > two]
            assert not turned, f"{key} out of order: {turned} of {len(places)}"

    def again(self, timeout: float = 30) -> None:
        """Every event once more, under its id, through the relay that runs: whoever knows events by
        their ids sees nothing new."""
        before = self.messages()
        known = {essence(message) for message in before}
        all_rows, created, second = self.world.query(WRITE_AGAIN)[0]
        assert (all_rows, created, second) == (len(known), len(known), 0)
        self.wait_empty(timeout)
        after = self.messages()
        assert {essence(message) for message in after} == known
        assert len(after) == len(before) + len(known)

    # --- the relay's deletions and connections ----------------------------------------------------

    @contextmanager
    def deletions_wait(self) -> Iterator[Any]:
        """The outbox can be read, and written by this session only, until the block ends."""
        with closing(self.world.connect()) as session, session.cursor() as cursor:
            cursor.execute("LOCK TABLE counterfoil.outbox IN SHARE MODE")
            yield cursor
            session.rollback()

    def waits_to_delete(self, relay: Program) -> bool:
        return self.world.value(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s "
            "AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM counterfoil.outbox%%'",
            (relay.name,)) == 1

    def backends(self, relay: Program, lease: bool | None = None) -> list[int]:
        """The server's processes for its connections: all, the lease's, or the outbox's."""
        return [pid for (pid,) in self.world.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = %(name)s AND (%(lease)s::boolean IS NULL OR "
            "(query ~ '^(WITH old|UPDATE counterfoil.lease)') = %(lease)s)",
            {"name": relay.name, "lease": lease})]

    def terminate(self, relay: Program, lease: bool | None = None) -> None:
        """Ends these connections, from the server's side."""
        pids = self.backends(relay, lease)
        assert pids
        for pid in pids:
            self.world.query("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    # --- looking closer ---------------------------------------------------------------------------

    def witness(self) -> None:
        """From now on every deletion is noted: see usurped()."""
        self.world.query(WITNESS)

    def usurped(self) -> list[tuple[Any, ...]]:
        """Rows deleted by someone who was not the lease's owner."""
        return self.world.query("SELECT id, by, holder FROM public.deleted WHERE by <> holder")

    def log_statements(self) -> None:
        """From the next connections on the server logs every statement: see statements()."""
        self._log_from = self.world.postgres.log.stat().st_size
        self.world.query(f'ALTER DATABASE "{self.world.database}" SET log_statement = \'all\'')

    def statements(self, part: str) -> list[str]:
        """The statements on this database that contain this, each with its parameters."""
        found: list[str] = []
        mine = False
        mark = f" {self.world.database} "
        with open(self.world.postgres.log, "rb") as log:
            log.seek(self._log_from)
            lines = log.read().decode(errors="replace").splitlines()
        for line in lines:
            _, here, text = line.partition(mark)
            if mine and here and text.startswith("DETAIL:  parameters: "):
                found[-1] += " " + text
            mine = bool(here) and BY_THE_PROTOCOL.search(text) is not None and part in text
            if mine:
                found.append(text)
        return found
