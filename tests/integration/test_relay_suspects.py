"""Rows that crash whoever publishes them: found and moved aside, with no harm to their neighbours;
and a relay that is killed again and again, whose rows are all innocent."""

from __future__ import annotations

import random
import uuid
from contextlib import suppress
from typing import Any, Callable

import pytest

from tests.tools import waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

pytestmark = pytest.mark.plain

KILLS = 50
CRASHES_MAX = 7       # recorded; in groups of 1000, of 64, alone; and alone three times
SETTINGS = {"relay": {"lease": "1s", "sweep": "1s"}}
WRITE_ONE = """INSERT INTO public.written (id, event_id, topic, ordering_key, payload)
  SELECT e.id, e.event_id, %(topic)s, %(key)s, convert_to(%(payload)s, 'UTF8')
  FROM counterfoil.emit(topic => %(topic)s, type => 'tested', payload => %(payload)s,
                        ordering_key => %(key)s) e
  RETURNING id, event_id::text"""
DEAD = "SELECT row_id, event_id::text, parked, reason FROM counterfoil.outbox_dead ORDER BY row_id"
RECORD = "SELECT first, last, crashes, alone, alone_now FROM counterfoil.suspect"
REQUEUE = """SELECT result FROM counterfoil.outbox_requeue('counterfoil.outbox', %s, %s, 'mended',
  '{}')"""
EVENTS = """
CREATE TABLE public.events (seq bigserial PRIMARY KEY, uid uuid NOT NULL DEFAULT gen_random_uuid(),
  kind text NOT NULL DEFAULT 'tested', body text, published_at timestamptz);
CREATE INDEX ON public.events (seq) WHERE published_at IS NULL"""
KILLS_IT = "the relay crashed three times while this row alone was in flight"


def write_one(outbox: Outbox, payload: str, key: str) -> tuple[int, str]:
    return outbox.world.query(WRITE_ONE, {"topic": outbox.world.topic, "key": key,
                                          "payload": payload})[0]


class Supervisor:
    """Starts again whoever has crashed."""

    def __init__(self, relays: list[Program]) -> None:
        self.relays = relays
        self.crashes = 0
        for relay in relays:
            relay.start(ready=False)

    def look(self) -> None:
        for relay in self.relays:
            if not relay.running:
                relay.wait_crash()
                self.crashes += 1
                assert self.crashes <= CRASHES_MAX, relay.tail()
                relay.start(ready=False)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self.look()
            return condition()
        waiting.until(look, 120, what, 0.1)


def test_a_row_that_kills_is_found(make_world: Callable[..., World]):
    """R18: one of 3000 rows kills each relay that encodes it; there are three. It is given up after
    the same few crashes, all others arrive, and those of its key do once it is put back."""
    outbox = Outbox(make_world(settings=SETTINGS))
    world = outbox.world
    outbox.write(1500)
    number, event = write_one(outbox, "poison", "key-7")
    outbox.write(1500)
    relays = [outbox.relay() for _ in range(3)]
    for relay in relays:
        relay.allow_errors("row is dead: moved to outbox_dead")
        relay.crash_at("row.encode=poison")
    supervisor = Supervisor(relays)
    supervisor.wait(lambda: world.outbox() == 0, "the outbox to be empty")
    assert supervisor.crashes == CRASHES_MAX
    waiting.until(lambda: world.query(RECORD) == [], 10, "the record to be erased")

    parked = world.query("SELECT id, event_id::text FROM public.written "
                         "WHERE ordering_key = 'key-7' AND id > %s ORDER BY id", (number,))
    first, *others = world.query(DEAD)
    assert first == (number, event, False, KILLS_IT)
    assert [row[:3] for row in others] == [(*row, True) for row in parked]
    outbox.judge(absent=[event, *(late for _, late in parked)])

    for relay in relays:
        relay.stop()
    relays[0].crash_at("")
    relays[0].start()
    assert world.value(REQUEUE, ([number], str(uuid.uuid4()))) == "done"
    waiting.until(lambda: world.query(DEAD) == [], 10, "the rows to be back")
    outbox.wait_empty()
    outbox.judge()
    outbox.again()


def kill_somewhere(world: World, relay: Program, chance: random.Random) -> None:
    """At a moment between its first look at the rows and some hundred of them later, or when for a
    moment nothing arrives."""
    relay.wait_for("lease taken")
    aim = world.broker.count(world.topic) + chance.randrange(300)
    with suppress(waiting.Late):
        waiting.until(lambda: world.broker.count(world.topic) >= aim, chance.random(), "some rows")
    relay.kill()


def judge_innocent(outbox: Outbox) -> None:
    outbox.wait_empty(60)
    waiting.until(lambda: outbox.world.query(RECORD) == [], 10, "the record to be erased")
    assert outbox.world.query(DEAD) == []
    outbox.judge()


def test_fifty_kills_condemn_nobody(own_broker: Broker, make_world: Callable[..., World]):
    """R25: kill -9 fifty times under load: nothing is given up, nothing is lost, the order holds, and
    duplicates stay within the window each time."""
    own_broker.set_round_trip(10)
    outbox = Outbox(make_world(own_broker, settings=SETTINGS))
    relay = outbox.relay(window_rows=800)
    chance = random.Random(50)
    with outbox.load(writers=2, rows=5, pause=0.05):
        for _ in range(KILLS):
            relay.start(ready=False)
            kill_somewhere(outbox.world, relay, chance)
    own_broker.set_round_trip(0)
    relay.start()
    judge_innocent(outbox)
    assert own_broker.count(outbox.world.topic) - outbox.written() <= KILLS * 2 * 800
    outbox.again()


def test_kills_while_the_broker_is_away(own_broker: Broker, make_world: Callable[..., World]):
    """R25: a few rows that nobody can send are there at every death; none of them was ever alone in
    flight."""
    outbox = Outbox(make_world(own_broker, settings=SETTINGS))
    world = outbox.world
    relay = outbox.relay()
    own_broker.down()
    outbox.write(3)
    for _ in range(8):
        relay.start(ready=False)
        relay.wait_for("lease taken")
        relay.kill()
    (first, last, crashes, alone, alone_now), = world.query(RECORD) or [(0, 0, 0, 0, False)]
    assert (alone, alone_now) == (0, False) and crashes <= 7 and first <= last
    relay.start()
    relay.wait_for("the same rows were there when owners died")
    assert world.value("SELECT count(*) FROM counterfoil.outbox") == 3
    own_broker.up()
    judge_innocent(outbox)
    relay.wait_for("these rows have passed")
    outbox.again()


def record(world: World, **columns: Any) -> None:
    row = {"source": "counterfoil.outbox", "crashes": 5, "alone": 0, "alone_now": False, **columns}
    world.query(f"INSERT INTO counterfoil.suspect ({', '.join(row)}) VALUES "
                f"({', '.join(['%s'] * len(row))})", list(row.values()))


def test_a_record_whose_rows_are_gone(make_world: Callable[..., World]):
    """Others have deleted them: it vanishes, and nothing is held back."""
    outbox = Outbox(make_world(settings=SETTINGS))
    ids = outbox.write(5)
    outbox.world.query("DELETE FROM counterfoil.outbox")
    outbox.world.query("DELETE FROM public.written")
    record(outbox.world, first=ids[0], last=ids[-1])
    outbox.write(5)
    relay = outbox.relay().start()
    judge_innocent(outbox)
    assert not relay.said("the same rows were there when owners died")


def test_a_clean_stop_is_no_crash(make_world: Callable[..., World]):
    """It was stopped while a row was alone in flight, and its next owner has nothing to count; what
    waits below the range comes before it, whatever the range is."""
    outbox = Outbox(make_world(settings=SETTINGS))
    ids = outbox.write(200)
    record(outbox.world, first=ids[150], last=ids[150], alone=2, alone_now=True)
    relay = outbox.relay(lease="15s").start()
    relay.wait_for("the same rows were there when owners died", crashes=5, alone=2)
    waiting.until(lambda: outbox.world.broker.count(outbox.world.topic) >= 150, 20, "what is below")
    relay.stop()
    outbox.world.query("UPDATE counterfoil.suspect SET alone = 0")    # for a shorter wait
    relay.start()
    judge_innocent(outbox)
    outbox.again()


def test_a_row_of_a_mapped_table(make_world: Callable[..., World]):
    """Rows are marked there: the row that kills is marked and kept; history before start_after and
    what is published already are no suspects."""
    world = make_world(settings=SETTINGS)
    world.query(EVENTS)
    world.query("INSERT INTO public.events (body, published_at) SELECT 'poison', CASE WHEN n > 5 THEN "
                "now() END FROM generate_series(1, 10) n")
    world.query("INSERT INTO public.events (body) SELECT CASE WHEN n = 3 THEN 'poison' ELSE 'fine' END "
                "FROM generate_series(1, 5) n")
    relay = world.relay(
        table="public.events", topic=world.topic, pending="published_at IS NULL",
        after_publish="mark", mark_column="published_at", start_after=5,
        columns={"id": "seq", "event_id": "uid", "topic": "", "type": "kind", "ordering_key": "",
                 "partition": "", "message_key": "", "payload": "body", "headers": "",
                 "created_at": ""})
    relay.allow_errors("row is dead: moved to outbox_dead")
    relay.crash_at("row.encode=poison")
    supervisor = Supervisor([relay])
    left = "SELECT count(*) FROM public.events WHERE published_at IS NULL AND seq > 5"
    supervisor.wait(lambda: world.value(left) == 0, "all rows to be marked")
    assert supervisor.crashes < CRASHES_MAX
    waiting.until(lambda: world.query(RECORD) == [], 10, "the record to be erased")
    assert world.query("SELECT source, row_id, reason FROM counterfoil.outbox_dead") == [
        ("public.events", 13, KILLS_IT)]
    # what a crash left unmarked may have been sent, and comes again
    assert {(message.event_id, message.value) for message in world.messages()} == {
        (event, b"fine") for (event,) in world.query(
            "SELECT uid::text FROM public.events WHERE seq > 10 AND body = 'fine'")}
