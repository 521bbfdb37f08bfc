"""Intake: whatever a message holds, and however often and to whomever it comes, its effect stands
in the ledger once or the message stands among the poison, and the position moves on."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import pytest
from confluent_kafka import Producer

from tests.tools import waiting
from tests.tools.broker import Broker, Message
from tests.tools.postgres import Postgres
from tests.tools.provider import Provider
from tests.tools.world import World

from .conftest import numbers
from .intake import (ORDER, PARTITIONS, Sender, assert_charged_once, assert_same, conflicts_of,
                     effects_of, ends, keys, nudge, poison_of, positions, requests_of, seen,
                     set_positions, xxh3_128)

DATABASE_REFUSES = "order:refused:charge"


# --- one house for all tests that only send -------------------------------------------------------

def effect(name: str, event_type: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "on": {"type": event_type}, "target": "payments", "mode": "idempotent",
            "key": key, "retention": "forever",
            "retry": {"strategy": "exponential", "first": "100ms", "max": "1s", "attempts": 12},
            **more}


MORE_EFFECTS = [
    effect("pair-a", "pair.placed", "pair:${/order_id}"),
    effect("pair-b", "pair.placed", "pair:${/order_id}", target="second"),
    effect("of-tenant", "tenant.placed", "tenant:${/order_id}", tenant="${header:tenant}"),
    effect("number", "number.placed", "number:${/id}",
           request={"path": "/v1/numbers/${/id}/${/list/1}", "query": [("amount", "${/amount}")],
                    "content_type": "application/json",
                    "body": '{"id": ${/id}, "text": "${/id}", "amount": ${/amount}}'}),
    effect("whole", "whole.placed", "whole:${/id}", request={"path": "/v1/whole"}),
    effect("both-a", "both.placed", "both-a:${/order_id}"),
    effect("both-b", "both.placed", "both-b:${/customer/ref}"),
    effect("erase", "customer.gone", "gone:${subject}", tombstone=True,
           request={"method": "DELETE", "path": "/v1/customers/${subject}", "body": ""}),
]


@dataclass
class House:
    world: World
    second: Provider     # another provider, for the target of that name
    big: str             # another topic
    letters: str         # the topic of dead letters


@pytest.fixture(scope="module")
def shared_house(postgres: Postgres, template: str, shared_broker: Broker,
                 tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    database, topic = f"intake_{next(numbers)}", f"intake-{next(numbers)}"
    directory = tmp_path_factory.mktemp("house")
    big, letters = f"{topic}-big", f"{topic}.dlq"
    for name, partitions in ((topic, PARTITIONS), (big, 2), (letters, 1)):
        shared_broker.create_topic(name, partitions)
    postgres.create_database(database, template)
    with Provider(directory / "second") as second:
        world = World(directory, postgres, database, shared_broker, topic)
        world.targets.append({**world.targets[0], "name": "second", "url": second.url})
        world.effects += [{**one, "on": {"topic": topic, **one["on"]}} for one in MORE_EFFECTS]
        world.effects.append({**world.effects[0], "name": "big", "key": "big:${/order_id}",
                              "on": {"topic": big, "type": "order.placed"}})
        try:
            yield House(world.start(relays=1, ledgers=2), second, big, letters)
        finally:
            world.close()
    assert not world.complaints()
    postgres.drop_database(database)


@pytest.fixture
def house(request: pytest.FixtureRequest, shared_house: House) -> House:
    request.node.worlds = [shared_house.world]
    return shared_house


@pytest.fixture
def sender(house: House) -> Sender:
    return Sender(house.world)


# --- the same key, another content ----------------------------------------------------------------

def letters_of(house: House, event_ids: set[str]) -> list[Message]:
    return [letter for letter in house.world.messages(house.letters)
            if letter.header("cf-event-id") in event_ids]


def test_the_same_key_with_another_body_in_one_batch(house: House, sender: Sender):
    """L4: the first stands, the others are conflicts, each with one dead letter."""
    world = house.world
    first, same, other, third = (sender.order("L4", cents, key=b"L4", partition=1)
                                 for cents in (1, 1, 2, 3))
    sender.drain()
    ((*_, event_id, state),) = effects_of(world, "order:L4:charge")
    assert (event_id, state) == (first, "completed")
    assert conflicts_of(world, "order:L4:charge") == [
        (1, event_id, "order:L4:charge") for event_id in (other, third)]
    assert_charged_once(world, "order:L4:charge", 1)
    letters = waiting.until(lambda: letters_of(house, {first, same, other, third}), 10, "letters")
    assert [(letter.header("cf-event-id"), letter.value) for letter in letters] == [
        (other, sender.sent[2].value), (third, sender.sent[3].value)]
    assert {letter.header("cf-dead-reason") for letter in letters} == {"conflict"}
    assert {letter.key for letter in letters} == {b"L4"}

    # read again they are the same conflicts, and have no further letter
    set_positions(world, -2)
    nudge(world)
    world.wait_drained()
    assert len(conflicts_of(world, "order:L4:charge")) == 2
    assert len(letters_of(house, {other, third})) == 2
    sender.again()

    # at places where a topic of the same name had other events that were conflicts
    world.query("UPDATE counterfoil.conflict SET event_id = 'gone-' || event_id")
    set_positions(world, -2)
    nudge(world)
    world.wait_drained()
    assert {event for _, event, _ in conflicts_of(world, "order:L4:charge")} >= {
        other, third, f"gone-{other}", f"gone-{third}"}


@contextmanager
def held(world: World) -> Iterator[Callable[[int], None]]:
    """Inserts of effects wait within; what is given waits until that many do."""
    def wait_for(count: int) -> None:
        waiting.until(lambda: world.value(
            "SELECT count(*) >= %s FROM pg_locks WHERE NOT granted AND "
            "relation = 'counterfoil.effect'::regclass", (count,)), 20, f"{count} to wait")
    with closing(world.connect()) as connection:
        connection.cursor().execute("LOCK TABLE counterfoil.effect IN SHARE MODE")
        yield wait_for
        connection.rollback()


def test_the_same_key_with_another_body_in_two_ledgers_at_once(house: House, sender: Sender):
    """L4: of the two one stands and one is a conflict, whoever is first."""
    world, count = house.world, 50
    with held(world) as wait_for:
        for n in range(count):
            for partition in range(PARTITIONS):
                sender.order(f"L4-{n}", 1 + partition, partition=partition)
        sender.flush()
        wait_for(2)
    sender.drain()
    taken_by = set()
    for n in range(count):
        key = f"order:L4-{n}:charge"
        ((*_, partition, _, _, state),) = effects_of(world, key)
        assert state == "completed"
        taken_by.add(partition)
        assert [where for where, _, _ in conflicts_of(world, key)] == [
            other for other in range(PARTITIONS) if other != partition]
        assert_charged_once(world, key, 1 + partition)
    conflicting = {event_id for n in range(count)
                   for _, event_id, _ in conflicts_of(world, f"order:L4-{n}:charge")}
    letters = letters_of(house, conflicting)
    assert len(letters) == len({letter.header("cf-event-id") for letter in letters}) == 3 * count
    sender.again()


def test_one_key_for_two_targets_two_tenants_and_two_spellings(house: House, sender: Sender):
    """L41: they are different effects, and tenants do not meet at the provider either."""
    world = house.world
    order = b'{"order_id": 41}'
    sender.send(order, "pair.placed")
    for tenant in (b"acme", b"globex", b"Acme", b"a:b"):
        sender.send(order, "tenant.placed", headers=(("tenant", tenant),))
    sender.order("Key")
    sender.order("key")
    sender.drain()

    assert [row[:3] for row in effects_of(world, "pair:41")] == [
        ("payments", "", "pair:41"), ("second", "", "pair:41")]
    for provider in (world.provider, house.second):
        assert provider.charges_by_key()["pair:41"] == 1
    wire = {"acme": "acme~:tenant:41", "globex": "globex~:tenant:41", "Acme": "Acme~:tenant:41",
            "a%3Ab": "a%3Ab~:tenant:41"}
    assert {row[1]: row[2] for row in effects_of(world, "tenant:41")} == wire
    assert all(world.provider.charges_by_key()[key] == 1 for key in wire.values())
    for key in ("order:Key:charge", "order:key:charge"):
        assert_charged_once(world, key, 100)
    assert not conflicts_of(world, "pair:41") and not conflicts_of(world, "tenant:41")
    sender.again()


# --- what is sent ---------------------------------------------------------------------------------

@pytest.mark.parametrize("number", ["9007199254740993", "9223372036854775807123",
                                    "1234567890123456789012345678901234567890"])
def test_a_number_beyond_53_bits_arrives_as_it_was_written(house: House, sender: Sender,
                                                           number: str):
    """L54: in the key, the URL and the body."""
    world = house.world
    sender.send(b'{"id": %s, "list": [0, %s], "amount": 1.10}' % (number.encode(), number.encode()),
                "number.placed")
    sender.drain()
    (request,) = requests_of(world.provider, f"number:{number}")
    assert request.path == f"/v1/numbers/{number}/{number}?amount=1.10"
    assert request.body == f'{{"id": {number}, "text": "{number}", "amount": 1.10}}'
    sender.again()


def test_without_a_template_the_payload_is_sent_byte_for_byte(house: House, sender: Sender):
    """L54: spaces, order, spelling of numbers and escapes, all of it."""
    world = house.world
    value = ('{ "z" : 1.10,\t"id":9223372036854775807123 , "e":1E400, "a": "\\u00e4\\/ä世", '
             '"n":{"b":[ ],"a":null},\r\n "id2": -0 }').encode()
    sender.send(value, "whole.placed", headers=(("content-type", b"application/vnd.shop+json"),))
    sender.drain()
    (request,) = requests_of(world.provider, "whole:9223372036854775807123")
    assert request.body.encode("latin-1") == value
    assert request.header("content-type") == "application/vnd.shop+json"
    sender.again()


def test_a_request_that_cannot_be_made_is_dead_and_has_a_letter(house: House, sender: Sender):
    """The key stands, with the pointer's name; nothing was sent."""
    world = house.world
    value = b'{"order_id": "no-customer", "total_cents": 5}'
    event_id = sender.send(value, key=b"no-customer", partition=2, headers=(("trace", b"t1"),))
    sender.order("beside", 7, partition=2)
    sender.drain()
    key = "order:no-customer:charge"
    assert world.state(key) == "dead"
    ((outcome, error),) = world.query(
        "SELECT a.outcome, a.error FROM counterfoil.attempt a JOIN counterfoil.effect e "
        "ON e.id = a.effect_id WHERE e.idempotency_key = %s", (key,))
    assert (outcome, error) == ("unrendered", "request.body: ${/customer_id} finds nothing")
    assert not requests_of(world.provider, key)
    assert_charged_once(world, "order:beside:charge", 7)
    (letter,) = waiting.until(lambda: letters_of(house, {event_id}), 10, "its letter")
    assert (letter.key, letter.value) == (b"no-customer", value)
    assert letter.event_id != event_id
    assert (letter.header("cf-dead-reason"), letter.header("cf-dead-effect"),
            letter.header("trace")) == ("unrendered", "charge", "t1")
    sender.again()
    assert len(letters_of(house, {event_id})) == 1


@pytest.mark.parametrize("order_id, key", [
    ("a\r\nX-Evil: 1", "order:a%0D%0AX-Evil%3A%201:charge"), ("a\nb", "order:a%0Ab:charge")])
def test_a_key_that_holds_a_line_break_is_dead_before_any_send(house: House, sender: Sender,
                                                               order_id: str, key: str):
    world, before = house.world, len(house.world.provider.requests())
    sender.order(order_id)
    sender.drain()
    assert world.state(key) == "dead"
    assert world.value("SELECT error FROM counterfoil.attempt a JOIN counterfoil.effect e ON "
                       "e.id = a.effect_id WHERE e.idempotency_key = %s", (key,)
                       ) == "key: ${/order_id} holds CR, LF or NUL"
    sender.again()
    assert len(world.provider.requests()) == before


# --- what comes often -----------------------------------------------------------------------------

def test_an_event_that_arrives_fifty_times(house: House, sender: Sender):
    """One effect, one charge: in one batch, in many, and with another ledger."""
    world = house.world
    one, many, everywhere = (f"fifty-{n}" for n in range(3))
    for _ in range(50):
        sender.order("one", 1, event_id=one)
    sender.drain()
    for n in range(50):
        sender.order("many", 2, event_id=many)
        if n % 10 == 9:
            sender.drain()
    with held(world) as wait_for:
        for n in range(50):
            sender.order("everywhere", 3, event_id=everywhere, partition=n % PARTITIONS)
        sender.flush()
        wait_for(2)
    sender.drain()
    for order, event_id, cents in (("one", one, 1), ("many", many, 2),
                                   ("everywhere", everywhere, 3)):
        ((*_, known, state),) = effects_of(world, f"order:{order}:charge")
        assert (known, state) == (event_id, "completed")
        assert not conflicts_of(world, f"order:{order}:charge")
        assert_charged_once(world, f"order:{order}:charge", cents)
    sender.again()


def test_an_event_without_an_id_that_is_sent_twice(house: House, sender: Sender):
    """Its id is its place, so the copy has another one; its request is the same."""
    for _ in range(2):
        sender.order("no-id", 9, event_id=None, partition=3)
    sender.drain()
    ((*_, partition, offset, event_id, _),) = effects_of(house.world, "order:no-id:charge")
    assert event_id == f"{house.world.topic}/{partition}/{offset}"
    assert_charged_once(house.world, "order:no-id:charge", 9)
    assert not conflicts_of(house.world, "order:no-id:charge")
    sender.again()


# --- what matches nothing -------------------------------------------------------------------------

def unmatched(world: World) -> dict[str, int]:
    return dict(world.query("SELECT type, sum(n)::int FROM counterfoil.unmatched "
                            "WHERE topic = %s GROUP BY type", (world.topic,)))


def test_tombstones_and_events_that_nobody_asked_for(house: House, sender: Sender):
    world = house.world
    before = unmatched(world)
    sender.send(None, "customer.gone", key=b"customer/7", event_id="gone-1")
    sender.send(None, "order.placed", key=b"no tombstones here")
    for n in range(3):
        sender.send(b"anything", "never.heard.of", partition=n)
    sender.send(b"anything", None)
    sender.drain()
    (request,) = requests_of(world.provider, "gone:customer/7")
    assert (request.method, request.path, request.body) == ("DELETE", "/v1/customers/customer%2F7",
                                                            "")
    after = unmatched(world)
    assert {name: after[name] - before.get(name, 0) for name in after
            if after[name] != before.get(name, 0)} == {
                "order.placed": 1, "never.heard.of": 3, "": 1}
    assert not world.query("SELECT FROM counterfoil.poison WHERE key = 'no tombstones here'")
    sender.again()


# --- poison ---------------------------------------------------------------------------------------

POISON = [
    # Kafka key, value, headers besides, reason, error
    (b"p-json", b'{"order_id": 1,}', (), "key", "the value cannot be read as JSON: byte 16: "),
    (b"p-words", b"hello", (), "key", "cannot be read as JSON"),
    (b"p-empty", b"", (), "key", "cannot be read as JSON"),
    (b"p-utf8", ORDER % b'"\xc3\x28"', (), "key", "not UTF-8"),
    (b"p-latin", ORDER % b'"\xe4"', (), "key", "not UTF-8"),
    (b"p-deep", b"[" * 100_000, (), "key", "nested deeper than 64"),
    (b"p-deeper", b'{"order_id": ' + b'{"a":' * 100_000, (), "key", "nested deeper than 64"),
    (b"p-nul", ORDER % b'"x\\u0000y"', (), "key", "\\u0000 is not allowed in a value that is used"),
    (b"p-double", b'{"order_id": 1, "customer_id": "c", "order_id": 2, "total_cents": 1}', (),
     "key", "a second member of this name"),
    (b"p-lone", ORDER % b'"\\ud800"', (), "key", "half of a surrogate pair"),
    (b"p-more", ORDER % b"1" + b" {}", (), "key", "cannot be read as JSON"),
    (b"p-comment", b"/* */" + ORDER % b"1", (), "key", "cannot be read as JSON"),
    (b"p-array", b"[1]", (), "key", "${/order_id} finds nothing"),
    (b"p-null", ORDER % b"null", (), "key", "${/order_id} is null"),
    (b"p-object", ORDER % b'{"a": 1}', (), "key", "${/order_id} is an object or array"),
    (b"p-long", ORDER % (b'"%s"' % (b"9" * 600)), (), "key", "at most 512"),
    (b"p-id", ORDER % b"1", (("ce_id", b"a\nb"),), "event", "ce_id: holds a NUL or another"),
    (b"p-id-utf8", ORDER % b"1", (("ce_id", b"\xff"),), "event", "ce_id: not UTF-8"),
    (b"p-id-long", ORDER % b"1", (("ce_id", b"x" * 300),), "event", "ce_id: longer than 288"),
    (b"p-subject", ORDER % b"1", (("ce_subject", b"\x00"),), "event", "ce_subject: holds a NUL"),
    (b"p-\xff\x00", b"", (("\xe4", b"\xff"), ("nul", b"\x00")), "key", "cannot be read as JSON"),
]


def assert_poison_is_kept(world: World) -> None:
    for key, value, more, reason, error in POISON:
        said = poison_of(world, key)
        assert said[0] == reason and error in said[1], (key, said)
        ((kept, size, hashed, headers, settled, sent_at),) = world.query(
            "SELECT value, size, hash, headers, settled_at, sent_at FROM counterfoil.poison "
            "WHERE key = %s", (key,))
        assert (bytes(kept), size, bytes(hashed)) == (value, len(value), xxh3_128(value)), key
        assert settled is None and sent_at is not None
        assert {name for name, _ in more} <= set(json.loads(bytes(headers)))


def test_what_is_no_event_becomes_poison_and_its_neighbours_effects(house: House, sender: Sender):
    """L53: whole, with the reason; nothing stops, and nothing is read twice after a restart."""
    world = house.world
    for n, (key, value, more, _, _) in enumerate(POISON):
        partition = n % PARTITIONS
        sender.order(f"L53-{n}-before", partition=partition)
        sender.send(value, key=key, headers=more, partition=partition)
        sender.order(f"L53-{n}-behind", partition=partition)
    sender.drain()
    assert_poison_is_kept(world)
    for n in range(len(POISON)):
        for neighbour in ("before", "behind"):
            assert_charged_once(world, f"order:L53-{n}-{neighbour}:charge", 100)
    assert not {key for key in keys(world) if key.startswith("order:1:") or ":9999" in key}
    assert positions(world) == ends(world)

    for ledger in world.ledgers:
        ledger.stop()
    for ledger in world.ledgers:
        ledger.start(ready=False)
    sender.order("L53-after-the-restart")
    sender.drain()
    assert_charged_once(world, "order:L53-after-the-restart:charge", 100)
    assert_poison_is_kept(world)
    assert positions(world) == ends(world)


def test_a_message_of_five_megabytes(house: House):
    """L53: as an event it becomes an effect, as poison it is cut, and its hash is of all."""
    world = house.world
    filling = b'"filling": "' + b"x" * 4_900_000 + b'"'
    event = b'{"order_id": 5, "customer_id": "c", "total_cents": 5, %s}' % filling
    poison = b'{"order_id": 6, %s' % filling
    producer = Producer({"bootstrap.servers": world.broker.bootstrap, "log_level": 2,
                         "message.max.bytes": 10_000_000})
    for n, value in enumerate((event, poison, ORDER % b"7", ORDER % b"8")):
        # one large one a partition: the stand-in keeps no more than 5 MiB
        producer.produce(house.big, value, b"big-%d" % n, n % 2,
                         headers=[("ce_type", b"order.placed")])
    assert producer.flush(20) == 0
    waiting.until(lambda: world.state("big:7") == world.state("big:8") == "completed", 20,
                  "the last effects")
    ((kept, size, hashed),) = world.query(
        "SELECT value, size, hash FROM counterfoil.poison WHERE key = 'big-1'")
    assert bytes(kept) == poison[:1024 * 1024]
    assert (size, bytes(hashed)) == (len(poison), xxh3_128(poison))
    world.wait_drained()
    for key, cents in (("big:5", 5), ("big:7", 1), ("big:8", 1)):
        assert_charged_once(world, key, cents)
    assert world.value("SELECT length(event_value) = %s FROM counterfoil.effect_request r JOIN "
                       "counterfoil.effect e USING (id) WHERE idempotency_key = 'big:5'",
                       (len(event),))


def test_a_key_template_that_finds_nothing_is_poison_that_names_the_pointer(house: House,
                                                                            sender: Sender):
    world = house.world
    sender.send(b'{"customer_id": "c", "total_cents": 1}', key=b"no-order")
    sender.send(b'{"order_id": 3}', "tenant.placed", key=b"no-tenant")
    sender.drain()
    assert poison_of(world, b"no-order") == (
        "key", 'effect "charge": key: ${/order_id} finds nothing')
    assert poison_of(world, b"no-tenant") == (
        "key", 'effect "of-tenant": tenant: ${header:tenant} finds nothing')
    sender.again()


def test_of_two_effects_of_an_event_one_cannot_make_its_key(house: House, sender: Sender):
    """The other one stands beside the poison, and is performed."""
    world = house.world
    sender.send(b'{"order_id": 8}', "both.placed", key=b"both")
    sender.drain()
    assert poison_of(world, b"both") == (
        "key", 'effect "both-b": key: ${/customer/ref} finds nothing')
    assert world.state("both-a:8") == "completed"
    assert world.provider.charges_by_key()["both-a:8"] == 1
    sender.again()


def test_what_the_database_refuses_is_poison_alone(house: House, sender: Sender):
    """Whatever the reason is: here a rule that someone has added to the table."""
    world = house.world
    world.query("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'not this one: \"\n%', NEW.idempotency_key "
                "USING ERRCODE = '22023'; END $$")
    world.query("CREATE TRIGGER refuse BEFORE INSERT ON counterfoil.effect FOR EACH ROW "
                f"WHEN (NEW.idempotency_key = '{DATABASE_REFUSES}') EXECUTE FUNCTION refuse()")
    with held(world) as wait_for:
        sender.order("opens", partition=1)     # the next batch has time to fill
        sender.flush()
        wait_for(1)
        for n in range(40):
            sender.order("refused" if n == 23 else f"neighbour-{n}", key=b"%d" % n, partition=1)
        sender.flush()
    sender.drain()
    (line,) = [line for ledger in world.ledgers
               for line in ledger.said("batch refused, to be written in halves")]
    assert f'not this one: " {DATABASE_REFUSES}' in line.fields["error"]
    reason, error = poison_of(world, b"23")
    assert reason == "database" and DATABASE_REFUSES in error
    assert world.state(DATABASE_REFUSES) is None
    for n in set(range(40)) - {23}:
        assert_charged_once(world, f"order:neighbour-{n}:charge", 100)
    sender.again()


# --- positions ------------------------------------------------------------------------------------

def test_a_position_that_another_has_moved_is_not_moved_back(house: House, sender: Sender):
    """Whoever was overtaken while it wrote writes nothing, and goes on where the other stopped."""
    world = house.world
    sender.order("moved-0", partition=2)
    sender.drain()
    at = positions(world)[2]
    with closing(world.connect()) as other:
        other.cursor().execute("SELECT FROM counterfoil.intake_position WHERE topic = %s AND "
                               "partition = 2 FOR UPDATE", (world.topic,))
        for n in range(1, 4):
            sender.order(f"moved-{n}", partition=2)
        sender.flush()
        waiting.until(lambda: world.value(
            "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"),
            20, "the ledger to wait for the row")
        other.cursor().execute("UPDATE counterfoil.intake_position SET next_offset = %s WHERE "
                               "topic = %s AND partition = 2", (at + 3, world.topic))
        other.commit()
    sender.order("moved-4", partition=2)
    sender.drain()
    assert positions(world)[2] == at + 4
    assert {key for key in keys(world) if "moved-" in key} == {
        "order:moved-0:charge", "order:moved-4:charge"}

    # the database of a backup: it lacks what came since, and reads it again
    world.query("UPDATE counterfoil.intake_position SET next_offset = %s WHERE topic = %s AND "
                "partition = 2", (at, world.topic))
    nudge(world)
    world.wait_drained()
    for n in range(5):
        assert_charged_once(world, f"order:moved-{n}:charge", 100)
    assert positions(world) == ends(world)
    sender.again()


@pytest.mark.parametrize("change", [
    "UPDATE counterfoil.intake_position SET next_offset = 0",
    "UPDATE counterfoil.intake_position SET next_offset = next_offset / 2",
    "UPDATE counterfoil.intake_position SET next_offset = next_offset + 1000000",
    "DELETE FROM counterfoil.intake_position",
], ids=["from 0", "from half way", "behind the end", "of no partition but one"])
def test_positions_of_another_time(house: House, sender: Sender, change: str):
    """The partitions are read again from there, or from their beginning: all duplicates. One
    without a position is a new one when its topic has others."""
    world = house.world
    sender.order(next(numbers), partition=1)
    sender.order(next(numbers), partition=3)
    sender.drain()
    before = seen(world)
    world.query(f"{change} WHERE topic = %s AND partition > 0", (world.topic,))
    nudge(world)
    waiting.until(lambda: positions(world) == ends(world), 20, "all to be read again")
    world.wait_drained()
    assert_same(before, seen(world))
    if "1000000" in change:
        assert any(ledger.said("position out of range") for ledger in world.ledgers)
