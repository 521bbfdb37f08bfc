"""What follows from the end of a key: the event that its effect emits, the dead letter of one that
died; what an answer of 2xx means when the provider says no with it; and the shadow, which does
everything but the send.

Most tests share one world; what was done to their keys is done again at the end."""

from __future__ import annotations

import json
import uuid
from contextlib import closing, contextmanager
from typing import Any, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import health, waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, same_bytes, wait_finished, wait_state)
from tests.tools.broker import Broker, Message
from tests.tools.libconfig import merge
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

NAMESPACE = uuid.UUID("6f1c2a52-7f0b-5e37-9d4e-3b0a6c1d9e84")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MADE, CLOSED = "chains.made", "chains.closed"
HOPS_MAX = 16
MIB = 1024 * 1024
PAYLOAD = '{"order":${/order_id},"charge":${provider_id},"note":"charge ${provider_id}"}'
EMIT = {"emit": {"topic": MADE, "type": "charge.made", "payload": PAYLOAD}}
ONCE = {"mode": "at_most_once"}
PUT = {"mode": "natural", "request": {"method": "PUT", "path": "/v1/put/${/order_id}"}}
ASKED = {"success": "/status = succeeded"}
KEYLESS = {"profile": "plain"}
ERRORS = ("nothing is emitted for a completed key", "results refused", "recorded without its answer",
          "events and dead letters put off", "the outbox does not take what a key owes",
          "sweep refused")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    for topic in (MADE, CLOSED):
        shared_broker.create_topic(topic)
    with tools.opened(
            tmp_path_factory.mktemp("chains"), postgres, template, shared_broker, "chains_bench",
            effects=[effect("made", **EMIT),
                     effect("once", "legacy", **ONCE, **EMIT),
                     effect("put", "legacy", **PUT, **EMIT),
                     effect("ordered", **merge(EMIT, {"emit": {"ordering_key": "o-${/order_id}"}})),
                     effect("unknown", "nameless", **EMIT),
                     effect("link", key="order:${/order_id}:${event_id}", emit={
                         "topic": "chains_bench", "type": "link",
                         "payload": '{"order_id":${/order_id},"total_cents":1,"customer_id":"c"}'}),
                     effect("unrendered", **merge(EMIT, {"emit": {"payload": "[${/no/such}]"}})),
                     effect("closed", **merge(EMIT, {"emit": {"topic": CLOSED}})),
                     effect("charge"),
                     effect("asked", **ASKED),
                     effect("asked-once", "legacy", **ONCE, **ASKED),
                     effect("shadow", shadow=True, **EMIT),
                     effect("shadow-once", "legacy", shadow=True, **ONCE),
                     effect("waiting", "waiting"),
                     effect("framed", "framed", retry={"first": "3s", "max": "3s"})],
            targets=[{"name": "legacy", **KEYLESS}, {"name": "waiting"},
                     {"name": "nameless", "provider_id": "/no/such"},
                     {"name": "framed", "profile": "framed"}],
            profiles=[{"name": "framed", "header": "X-Key", "window": "24h"}],
            settings={"postgres": {"statement_timeout": "2s"}, "ledger": {"lease": "2s"}}) as bench:
        bench.world.ledgers[0].allow_errors(*ERRORS)
        bench.world.relays[0].allow_errors("the database refused a statement")   # of a locked outbox
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()
    opened.world.provider.configure(header="Idempotency-Key")


def meet(bench: Bench, event_type: str, *faults: dict[str, Any], **options: Any) -> int:
    """An order whose requests meet these faults, one after the other, and then none."""
    order = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(order)}$", **fault})
    announce(bench.world, [order], event_type, **options)
    return order


def says(body: Any, **fault: Any) -> dict[str, Any]:
    """A 2xx with that body, the charge being made or not."""
    return {"kind": "status", "status": 200, "apply": False,
            "body": body if isinstance(body, str) else json.dumps(body), **fault}


def event_id(world: World, order: int, what: str, replays: int = 0) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{key_of(world, order).id}/{replays}/{what}"))


def published(world: World, topic: str, name: str) -> list[Message]:
    return [m for m in world.messages(topic) if m.event_id == name]


def wait_published(world: World, topic: str, name: str) -> Message:
    (message,) = waiting.until(lambda: published(world, topic, name), 15, f"event {name}", 0.1)
    return message


def emitted(world: World, order: int, topic: str = MADE) -> Message:
    return wait_published(world, topic, event_id(world, order, "emit"))


def letter(world: World, order: int, replays: int = 0) -> Message:
    return wait_published(world, f"{world.topic}.dlq", event_id(world, order, "dead", replays))


def flags(world: World, order: int) -> tuple[bool, bool]:
    """emit_failed, emit_due."""
    return world.query("SELECT s.emit_failed, s.emit_due FROM counterfoil.effect e JOIN "
                       "counterfoil.effect_state s USING (id) WHERE e.idempotency_key = %s",
                       (key_name(order),))[0]


def charge_id(world: World, order: int) -> str:
    (charge,) = [c for c in world.provider.charges() if c.key == key_name(order)]
    return charge.id


def emit_failed(world: World) -> float:
    return health.metrics(world.ledgers[0]).value("emit_failed_total")


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    program.stop()
    yield
    program.start()


# --- what is emitted ------------------------------------------------------------------------------

@pytest.mark.parametrize("event_type", ["made", "once", "put"])
def test_a_completion_emits(bench: Bench, event_type: str):
    """With an id of its own making, the event's ordering key and trace, and the provider's id."""
    world = bench.world
    order = meet(bench, event_type, headers=[("traceparent", TRACE.encode()), ("x-other", b"1")])
    wait_state(world, order, "completed")
    event, name = emitted(world, order), charge_id(world, order)
    assert json.loads(event.value) == {"order": order, "charge": name, "note": f"charge {name}"}
    seen = {n: v.decode() for n, v in event.headers if n != "ce_time"}
    assert len(event.headers) == len(seen) + 1
    assert {n: seen[n] for n in seen if n not in ("ce_source", "ce_specversion")} == {
        "ce_id": event.event_id, "ce_type": "charge.made", "ce_subject": f"order-{order}",
        "content-type": "application/json", "traceparent": TRACE, "cf-hops": "1"}
    assert [r.header("traceparent") for r in requests_of(world, order)] == [TRACE]
    assert flags(world, order) == (False, False)


def test_what_is_emitted_has_its_own_order(bench: Bench):
    order = meet(bench, "ordered")
    wait_state(bench.world, order, "completed")
    assert emitted(bench.world, order).header("ce_subject") == f"o-{order}"


def test_a_batch_emits_in_the_order_of_its_keys(bench: Bench):
    world, orders = bench.world, bench.orders(60)
    with stopped(world.relays[0]):
        announce(world, orders, "made")
        wait_finished(world, orders)
        keys = {event_id(world, n, "emit"): key_of(world, n).id for n in orders}
        batches: dict[str, list[int]] = {}
        for name, transaction in world.query(
                "SELECT event_id::text, xmin::text FROM counterfoil.outbox WHERE topic = %s "
                "ORDER BY id", (MADE,)):
            batches.setdefault(transaction, []).append(keys[name])
    assert sum(map(len, batches.values())) == 60 and max(map(len, batches.values())) > 2
    assert all(batch == sorted(batch) for batch in batches.values())


def test_without_an_id_there_is_null(bench: Bench):
    order = meet(bench, "unknown")
    wait_state(bench.world, order, "completed")
    assert json.loads(emitted(bench.world, order).value) == {
        "order": order, "charge": None, "note": "charge "}


@pytest.mark.parametrize("name", ['q"\\\b</é\u2028', "\x1f", "x" * 255])
def test_the_id_is_whatever_the_provider_says(bench: Bench, name: str):
    order = meet(bench, "made", says({"id": name}, apply=True))
    wait_state(bench.world, order, "completed")
    assert json.loads(emitted(bench.world, order).value) == {
        "order": order, "charge": name, "note": f"charge {name}"}


def test_events_and_letters_are_written_with_their_result(bench: Bench):
    """L45: one transaction writes the state and the row of the outbox, which waits for a relay as
    long as there is none."""
    world, relay = bench.world, bench.world.relays[0]
    with stopped(relay):
        alive = meet(bench, "made")
        dead = meet(bench, "charge", {"kind": "status", "status": 400})
        wait_finished(world, [alive, dead])
        for order, what in ((alive, "emit"), (dead, "dead")):
            assert world.value(
                "SELECT o.xmin = s.xmin FROM counterfoil.outbox o, counterfoil.effect e JOIN "
                "counterfoil.effect_state s USING (id) WHERE o.event_id = %s AND "
                "e.idempotency_key = %s", (event_id(world, order, what), key_name(order)))
    assert emitted(world, alive).header("cf-hops") == "1"
    assert letter(world, dead).header("cf-dead-reason") == "refused"


def test_a_chain_ends(bench: Bench):
    """Each event leads to the next, and the effect of the last is performed like the others."""
    world, order = bench.world, bench.order()
    announce(world, [order], "link")

    def links() -> list[tuple[bool, bool]]:
        return world.query(
            "SELECT s.emit_failed, s.emit_due FROM counterfoil.effect e JOIN "
            "counterfoil.effect_state s USING (id) WHERE e.effect = 'link' AND s.state = 'completed' "
            "ORDER BY e.id")
    waiting.until(lambda: len(links()) > HOPS_MAX, 30, "the chain to end", 0.1)
    assert links() == [(False, False)] * HOPS_MAX + [(True, False)]
    said = world.ledgers[0].said("nothing is emitted for a completed key", effect="link")
    assert len(said) == 1 and "the end of a chain of 16" in said[0].fields["reason"]
    hops = sorted(int(m.header("cf-hops") or 0) for m in world.messages() if
                  m.header("ce_type") == "link")
    assert hops == list(range(HOPS_MAX + 1))


def test_an_event_that_cannot_be_rendered_prevents_nothing(bench: Bench):
    world, order = bench.world, meet(bench, "unrendered")
    wait_state(world, order, "completed")
    assert (charges_of(world, order), flags(world, order)) == (1, (True, False))
    said = world.ledgers[0].wait_for("nothing is emitted for a completed key", effect="unrendered")
    assert said.fields["reason"] == "emit.payload: ${/no/such} finds nothing"


@contextmanager
def refused(world: World, constraint: str, table: str = "outbox") -> Iterator[None]:
    world.query(f"ALTER TABLE counterfoil.{table} ADD CONSTRAINT refused CHECK ({constraint}) NOT VALID")
    yield
    world.query(f"ALTER TABLE counterfoil.{table} DROP CONSTRAINT refused")


def test_an_outbox_that_refuses_prevents_no_completion(bench: Bench):
    """What is put off is flagged, is written once the outbox takes it, and keeps no other back."""
    world = bench.world
    before = emit_failed(world)
    with refused(world, f"topic <> '{CLOSED}'"):
        closed = [meet(bench, "closed") for _ in range(3)]
        others = [meet(bench, "made") for _ in range(3)]
        wait_finished(world, closed + others)
        for order in others:
            emitted(world, order)
        assert {flags(world, order) for order in closed} == {(True, True)}
        world.ledgers[0].wait_for("the outbox does not take what a key owes")
        assert all(charges_of(world, order) == 1 for order in closed)
        assert emit_failed(world) >= before + 3
    for order in closed:
        assert json.loads(emitted(world, order, CLOSED).value)["charge"] == charge_id(world, order)
    waiting.until(lambda: {flags(world, order) for order in closed} == {(False, False)}, 10, "flags")
    counted = [m for m in world.messages(CLOSED) if m.header("ce_type") == "charge.made"]
    assert len(counted) == len({m.event_id for m in counted})


def test_an_outbox_without_the_right_to_write(bench: Bench):
    """The dead letter too."""
    world = bench.world
    with refused(world, "false"):
        orders = [meet(bench, "made"), meet(bench, "charge", {"kind": "status", "status": 400})]
        wait_finished(world, orders)
        assert [key_of(world, order).state for order in orders] == ["completed", "dead"]
        assert [flags(world, order) for order in orders] == [(True, True)] * 2
    assert json.loads(emitted(world, orders[0]).value)["order"] == orders[0]
    assert letter(world, orders[1]).header("cf-dead-reason") == "refused"


def test_an_outbox_that_is_locked(bench: Bench):
    """Results wait no longer for it than a statement may take."""
    world = bench.world
    with closing(world.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE counterfoil.outbox")
        order = meet(bench, "made")
        wait_state(world, order, "completed")
        connection.rollback()
    emitted(world, order)
    waiting.until(lambda: flags(world, order) == (False, False), 10, "the flags to be cleared")


def test_one_bad_row_stops_no_other(bench: Bench):
    """The server refuses what came back for one of a hundred keys: that one is recorded with its
    outcome alone."""
    world, orders = bench.world, bench.orders(100)
    bad = orders[41]
    world.provider.fault(**says({"id": "ch_bad"}, apply=True), times=1, key=f"^{key_name(bad)}$")
    with refused(world, "provider_id <> 'ch_bad'", "attempt"):
        announce(world, orders, "charge")
        wait_finished(world, orders)
    assert {key_of(world, order).state for order in orders} == {"completed"}
    (attempt,) = attempts_of(world, bad)
    assert (attempt.outcome, attempt.provider_id, attempt.response_body) == ("applied", None, None)
    assert {attempts_of(world, n)[0].response_body is None for n in orders if n != bad} == {False}


def test_a_late_completion_emits(bench: Bench):
    """Somebody took the key over while its answer was on the way."""
    world = bench.world
    order = meet(bench, "once", {"kind": "pass", "delay_answer": 0.6})
    waiting.until(lambda: charges_of(world, order), 10, "the charge")
    world.query(
        "UPDATE counterfoil.effect_state s SET state = 'uncertain', epoch = s.epoch + 1, "
        "owner = NULL, deadline = NULL FROM counterfoil.effect e WHERE e.id = s.id AND "
        "e.idempotency_key = %s", (key_name(order),))
    wait_state(world, order, "completed")
    assert json.loads(emitted(world, order).value)["charge"] == charge_id(world, order)


def test_what_a_person_completes_is_emitted(bench: Bench):
    """With the id that was typed; and once, however often it is asked for."""
    world = bench.world
    order = meet(bench, "once", {"kind": "hang", "apply": True})
    key, operation = wait_state(world, order, "uncertain"), str(uuid.uuid4())
    for _ in range(2):
        world.query("SELECT counterfoil.resolve(%s, %s, 'uncertain', %s, true, 'seen_1', "
                    "'looked it up', '{}')", (key.id, key.epoch, operation))
    assert json.loads(emitted(world, order).value)["charge"] == "seen_1"
    waiting.until(lambda: flags(world, order) == (False, False), 10, "nothing to be owed")


# --- dead letters ---------------------------------------------------------------------------------

def test_a_person_who_gives_up_sends_a_letter(bench: Bench):
    world = bench.world
    hold(world, True)
    order = meet(bench, "waiting")
    key = wait_state(world, order, "pending")
    world.query("SELECT counterfoil.give_up(%s, %s, 'pending', gen_random_uuid(), 'too late', '{}')",
                (key.id, key.epoch))
    assert letter(world, order).header("cf-dead-reason") == "given_up"
    waiting.until(lambda: flags(world, order) == (False, False), 10, "nothing to be owed")
    hold(world, False)


def test_fifty_deaths(bench: Bench):
    """A key dies, is replayed, and dies again; each of its letters is published to the original topic,
    where it meets the key, and is counted. Every letter is another event of the same size, with the
    same headers, in which only the number of the replay can be told; and so is one that comes of a
    death after that."""
    world, order, ledger = bench.world, bench.order(), bench.world.ledgers[0]
    world.provider.fault("status", status=404, key=f"^{key_name(order)}$")
    announce(world, [order], "charge", headers=[("x-shop", b"7"), ("traceparent", TRACE.encode())])

    def replay(key: tools.Key) -> None:
        ((verdict,),) = world.query(
            "SELECT (counterfoil.replay(%s, %s, 'dead', gen_random_uuid(), 'again', '{}')).result",
            (key.id, key.epoch))
        assert verdict == "done"

    def duplicates() -> int:
        return sum(int(line.fields["duplicates"]) for line in ledger.said("recorded", effects=0))

    def letters() -> list[Message]:
        return [m for m in world.messages(f"{world.topic}.dlq")
                if m.header("cf-event-id") == f"event-{order}"]
    for _ in range(49):
        replay(wait_state(world, order, "dead"))
    key = wait_state(world, order, "dead")
    seen = waiting.until(lambda: len(found := letters()) == 50 and found, 15, "50 letters", 0.1)
    assert {m.event_id for m in seen} == {event_id(world, order, "dead", n) for n in range(50)}
    counted = duplicates()
    for message in seen:
        world.broker.produce(world.topic, message.value, message.key, message.headers)
    world.broker.flush()
    waiting.until(lambda: duplicates() == counted + 50, 15, "all letters to be counted")
    assert key_of(world, order) == key and len(letters()) == 50
    replay(key)
    wait_state(world, order, "dead")
    last = letter(world, order, 50)
    assert len({(m.key, m.value) for m in (*seen, last)}) == 1
    apart = ("ce_id", "ce_time")
    assert len({tuple((n, v) for n, v in m.headers if n not in apart) for m in (*seen, last)}) == 1
    assert len(requests_of(world, order)) == 51


def test_a_letter_of_a_conflict_does_not_grow(bench: Bench):
    """Published to the original topic, it conflicts again, at another place."""
    world, order = bench.world, meet(bench, "charge")
    wait_state(world, order, "completed")

    def conflicts() -> list[Message]:
        return [m for m in world.messages(f"{world.topic}.dlq")
                if m.header("cf-event-id") == f"other-{order}"]
    payload = json.dumps({"order_id": order, "total_cents": 1, "customer_id": "b"}).encode()
    world.broker.produce(world.topic, payload, b"order-%d" % order,
                         [("ce_id", b"other-%d" % order), ("ce_type", b"charge")])
    for cycle in range(10):
        world.broker.flush()
        waiting.until(lambda: len(conflicts()) > cycle, 10, f"letter {cycle}", 0.1)
        last = max(conflicts(), key=lambda m: (m.header("ce_time"), m.offset))
        world.broker.produce(world.topic, last.value, last.key, last.headers)
    apart = ("ce_id", "ce_time", "cf-dead-origin")
    assert len({(m.value, frozenset((n, v) for n, v in m.headers if n not in apart))
                for m in conflicts()}) == 1
    assert len({len(m.headers) for m in conflicts()}) == 1
    assert {m.header("cf-dead-reason") for m in conflicts()} == {"conflict"}
    assert charges_of(world, order) == 1


def test_a_letter_always_fits(bench: Bench):
    """L36: an event as large as a broker takes, and an answer that has no end."""
    world, order = bench.world, bench.order()
    world.provider.fault("huge_body", status=400, apply=False, size=3 * MIB,
                         key=f"^{key_name(order)}$")
    value = json.dumps({"order_id": order, "total_cents": 1, "customer_id": "b", "note": "y" * 985000})
    world.broker.produce(world.topic, value.encode(), b"order-%d" % order,
                         [("ce_id", b"event-%d" % order), ("ce_type", b"charge"),
                          ("x-long", b"z" * 8000)])
    world.broker.flush()
    wait_state(world, order, "dead")
    dead = letter(world, order)
    assert dead.value is None and dead.header("cf-value-omitted") == str(len(value))
    assert dead.header("x-long") == "z" * 8000
    assert len(attempts_of(world, order)[0].response_body) == 16 * 1024


# --- what a 2xx means -----------------------------------------------------------------------------

@pytest.mark.parametrize("event_type", ["asked", "asked-once"])
def test_a_2xx_may_be_a_no(bench: Bench, event_type: str):
    world = bench.world
    order = meet(bench, event_type, says({"status": "declined"}))
    key = wait_state(world, order, "dead")
    assert (key.outcome, key.error_class, key.unknown_sends) == ("refused", "no success", 0)
    assert (len(requests_of(world, order)), charges_of(world, order)) == (1, 0)
    assert letter(world, order).header("cf-dead-reason") == "refused"
    yes = meet(bench, event_type)
    wait_state(world, yes, "completed")


def test_a_no_does_not_speak_for_an_earlier_send(bench: Bench):
    """The first request was carried out, and its answer was lost; the second hears that it is being
    worked on. Whoever believed that for a no would charge twice."""
    world = bench.world
    order = meet(bench, "asked", {"kind": "reset", "apply": True}, says({"status": "processing"}))
    key = wait_state(world, order, "uncertain")
    assert (key.unknown_sends, charges_of(world, order)) == (1, 1)


UNREADABLE = {
    "cut": {"kind": "cut_body"},
    "no-json": says("<html>succeeded</html>", apply=True),
    "no-pointer": says({"id": "ch"}, apply=True),
    "twice": says('{"status":"succeeded","status":"declined"}', apply=True),
    "empty": says("", apply=True, status=204),
    "large": {"kind": "huge_body", "size": 2 * MIB},
}


@pytest.mark.parametrize("fault", UNREADABLE.values(), ids=UNREADABLE)
def test_a_2xx_that_does_not_say(bench: Bench, fault: dict[str, Any]):
    """Neither yes nor no: the same key is sent again, and the provider's stored answer says it; where
    no key is honoured, a person decides."""
    world = bench.world
    again, once = meet(bench, "asked", fault), meet(bench, "asked-once", fault)
    wait_state(world, again, "completed")
    assert outcomes_of(world, again) == ["unreadable", "applied"]
    assert charges_of(world, again) == 1 and same_bytes(requests_of(world, again))
    key = wait_state(world, once, "uncertain")
    assert (key.outcome, key.error_class, key.unknown_sends) == ("unreadable", "success unknown", 1)
    assert len(requests_of(world, once)) == 1


def test_a_predicate_reads_more_than_is_kept(bench: Bench):
    world = bench.world
    order = meet(bench, "asked", says({"x": "y" * 40000, "status": "succeeded"}, apply=True))
    wait_state(world, order, "completed")
    (attempt,) = attempts_of(world, order)
    assert (len(attempt.response_body), attempt.truncated) == (16 * 1024, True)


# --- the shadow -----------------------------------------------------------------------------------

@pytest.mark.parametrize("event_type", ["shadow", "shadow-once"])
def test_a_shadow_does_everything_but_the_send(bench: Bench, event_type: str):
    world, order = bench.world, meet(bench, event_type)
    key = wait_state(world, order, "completed")
    assert (key.outcome, key.attempts, key.unknown_sends, key.first_sent_at, key.window_until) == (
        "shadow", 0, 0, None, None)
    assert outcomes_of(world, order) == ["shadow"] and requests_of(world, order) == []
    announce(world, [order], event_type)
    world.wait_drained()
    assert key_of(world, order) == key
    name = event_id(world, order, "emit")
    assert world.query("SELECT 1 FROM counterfoil.outbox WHERE event_id = %s", (name,)) == []
    assert published(world, MADE, name) == [] and flags(world, order) == (False, False)
    assert world.query("SELECT method, url FROM counterfoil.effect_request WHERE id = %s",
                       (key.id,)) == [("POST", f"{world.provider.url}/v1/{event_type}")]


def set_shadow(world: World, on: bool) -> None:
    """Of the effect `waiting`; the ledger begins anew."""
    ledger = world.ledgers[0]
    ledger.stop()
    for one in world.effects:
        if one["name"] == "waiting":
            one["shadow"] = on
    config = world.configuration()
    config["kafka"]["properties"] = [*config["kafka"]["properties"], *world.broker.group_properties]
    ledger.configure(config)
    ledger.start()


def hold(world: World, held: bool) -> None:
    ledger, said = world.ledgers[0], "target is held" if held else "target is open"
    before = len(ledger.said(said, target="waiting"))
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) VALUES ('waiting', %s, "
                "'a person') ON CONFLICT (target) DO UPDATE SET held = excluded.held", (held,))
    waiting.until(lambda: len(ledger.said(said, target="waiting")) > before, 10, said)


def test_what_was_taken_in_decides(bench: Bench):
    """A key of the shadow is never sent, when the shadow is over neither; one that is real is not
    sent while the shadow is on, and not lost: it waits."""
    world = bench.world
    hold(world, True)
    real = meet(bench, "waiting")
    wait_state(world, real, "pending")
    set_shadow(world, True)
    shadow = meet(bench, "waiting")
    wait_state(world, shadow, "pending")
    hold(world, False)
    wait_state(world, shadow, "completed")
    waiting.until(lambda: key_of(world, real).error_class == "shadow is on", 10, "it to be put back")
    key = key_of(world, real)
    assert (key.state, key.attempts, key.first_sent_at) == ("pending", 0, None)
    hold(world, True)
    late = meet(bench, "waiting")
    wait_state(world, late, "pending")
    set_shadow(world, False)
    hold(world, False)
    wait_state(world, late, "completed")
    world.query("UPDATE counterfoil.effect_state SET due_at = now() WHERE id = %s", (key.id,))
    assert wait_state(world, real, "completed").outcome == "applied"
    assert {key_of(world, n).outcome for n in (shadow, late)} == {"shadow"}
    assert [len(requests_of(world, n)) for n in (real, shadow, late)] == [1, 0, 0]


# --- what is frozen -------------------------------------------------------------------------------

def test_the_key_stays_in_its_header(bench: Bench):
    """L40: a key that was sent in one header, sent in another one is another key to its provider."""
    world, ledger = bench.world, bench.world.ledgers[0]
    world.provider.configure(header="X-Key")
    order = bench.order()
    world.provider.fault("reset", apply=True, times=1, path="/v1/framed")
    announce(world, [order], "framed")
    wait_state(world, order, "retry_wait")
    ledger.stop()
    config = world.configuration()
    config["kafka"]["properties"] = [*config["kafka"]["properties"], *world.broker.group_properties]
    config["profiles"] = [{**config["profiles"][0], "header": "Other-Key", "quoting": "string"}]
    ledger.configure(config)
    ledger.start()
    world.query("UPDATE counterfoil.effect_state SET due_at = now() WHERE state = 'retry_wait'")
    wait_state(world, order, "completed")
    requests = [r for r in world.provider.requests() if r.path == "/v1/framed"]
    assert len(requests) == 2 and same_bytes(requests)
    assert {r.header("X-Key") for r in requests} == {key_name(order)}
    assert charges_of(world, order) == 1


# --- twice ----------------------------------------------------------------------------------------

def test_the_same_events_once_more(bench: Bench):
    """Nothing is sent, and nothing is emitted, for the second time."""
    world = bench.world
    world.wait_drained()
    before = {topic: world.broker.count(topic) for topic in (MADE, CLOSED)}
    world.run_copies()
    assert {topic: world.broker.count(topic) for topic in (MADE, CLOSED)} == before
    assert world.query("SELECT 1 FROM counterfoil.effect_state WHERE emit_due") == []
