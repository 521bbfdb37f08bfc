"""What a row of the outbox is as a message: its bytes, headers, key and partition."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime, timezone

import pytest

from tests.tools import waiting
from tests.tools.broker import Message
from tests.tools.outbox import Outbox
from tests.tools.world import World

# What org.apache.kafka.common.utils.Utils.murmur2() gives, as a signed integer.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}


def murmur2(data: bytes) -> int:
    """The same hash written down once more, for keys that have no golden value."""
    def mixed(value: int) -> int:
        value = value * 0x5bd1e995 & 0xffffffff
        return (value ^ value >> 24) * 0x5bd1e995 & 0xffffffff
    whole = len(data) // 4 * 4
    h = 0x9747b28c ^ len(data)
    for at in range(0, whole, 4):
        h = h * 0x5bd1e995 & 0xffffffff ^ mixed(int.from_bytes(data[at:at + 4], "little"))
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * 0x5bd1e995 & 0xffffffff
    h = (h ^ h >> 13) * 0x5bd1e995 & 0xffffffff
    return h ^ h >> 15


def java_partition(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7fffffff) % count


def published(world: World, topic: str | None = None) -> dict[str, Message]:
    """All messages by their event's id, once the outbox is empty; none came twice."""
    waiting.until(lambda: world.outbox() == 0, 30, "the outbox to be empty")
    messages = world.messages(topic)
    by_id = {message.event_id: message for message in messages}
    assert len(by_id) == len(messages)
    return by_id


# --- payload --------------------------------------------------------------------------------------

def test_a_tombstone_and_an_empty_value(world: World):
    """R62: a NULL payload is a tombstone, an empty one an empty value; a consumer can tell."""
    world.relay().start()
    tombstone = world.emit(None, ordering_key="k")
    empty = world.emit(b"", ordering_key="k")
    as_text = world.value("SELECT event_id::text FROM counterfoil.emit("
                          "topic => %s, type => 't', payload => '')", (world.topic,))
    messages = published(world)
    assert messages[tombstone].value is None
    assert messages[empty].value == b"" and messages[as_text].value == b""
    assert messages[tombstone].key == tombstone.encode()


def test_bytes_pass_as_they_are(world: World):
    """R64: NULs and every other byte pass; what is no JSON and no text is not looked at."""
    world.relay().start()
    payloads = [b"\x00", b"a\x00b", b"\x00" * 5000, bytes(range(256)) * 40, b"\xff\xfe{\"n\":",
                b'{"text":"\\u0000"}', "\u00fc\u20ac\U0001f600".encode("utf-16")]
    events = {world.emit(payload): payload for payload in payloads}
    messages = published(world)
    assert {event: messages[event].value for event in events} == events


def test_text_and_json_keep_their_letters(world: World):
    """R61, R65: a literal is no bytea, json keeps its spaces, jsonb is what PostgreSQL prints."""
    world.relay().start()
    wanted = {}
    for literal, value in (("'C:\\dir'", b"C:\\dir"), ("'\\x41'", b"\\x41"),
                           ("'{\"b\": 1,  \"a\":12345678901234567890.10}'::json",
                            b'{"b": 1,  "a":12345678901234567890.10}'),
                           ("'{\"b\": 1,  \"a\":12345678901234567890.10}'::jsonb",
                            b'{"a": 12345678901234567890.10, "b": 1}')):
        wanted[world.value("SELECT event_id::text FROM counterfoil.emit("
                           f"topic => %s, type => 't', payload => {literal})",
                           (world.topic,))] = value
    messages = published(world)
    assert {event: messages[event].value for event in wanted} == wanted


# --- headers --------------------------------------------------------------------------------------

def test_the_headers_of_an_event(world: World):
    """CloudEvents in binary mode, the row's own by their kinds, ce_ reserved."""
    relay = world.relay(source="/shop", content_type="application/x-own").start()
    plain = world.emit(b"{}", "order.placed")
    longest, too_long = "n" * 249, "n" * 250
    own = {
        "text": "raw \u20ac", "empty": "", "int": 42, "big": 12345678901234567890,
        "real": 1.50, "yes": True, "no": False, "object": {"b": [1, "x"], "a": None},
        "list": [1, 2], "nothing": None, "traceparent": "00-ab-cd-01", longest: "fits",
        too_long: "dropped", "": "dropped", "ce_id": "forged", "ce_own": "dropped",
        "Ce_ok": "kept", "content-type": "text/plain", "n\u00e4me": "kept",
    }
    rich = world.emit(b"{}", "order.paid", ordering_key="order-7", idempotency_key="order:7:charge",
                      headers=json.dumps(own))
    messages = published(world)

    headers = dict(messages[plain].headers)
    time = headers.pop("ce_time").decode()
    assert headers == {"ce_id": plain.encode(), "ce_source": b"/shop", "ce_type": b"order.placed",
                       "ce_specversion": b"1.0", "content-type": b"application/x-own"}
    parsed = datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    assert abs(parsed.timestamp() - datetime.now().timestamp()) < 60

    headers = dict(messages[rich].headers)
    assert len(headers) == len(messages[rich].headers), "a header came twice"
    assert headers.pop("ce_time")
    assert headers == {
        "ce_id": rich.encode(), "ce_source": b"/shop", "ce_type": b"order.paid",
        "ce_specversion": b"1.0", "ce_subject": b"order-7",
        "cf-idempotency-key": b"order:7:charge", "text": "raw \u20ac".encode(), "empty": b"",
        "int": b"42", "big": b"12345678901234567890", "real": b"1.5", "yes": b"true",
        "no": b"false", "object": b'{"a": null, "b": [1, "x"]}', "list": b"[1, 2]",
        "traceparent": b"00-ab-cd-01", longest: b"fits", "Ce_ok": b"kept",
        "content-type": b"text/plain", "n\u00e4me": b"kept"}
    assert relay.said("headers dropped", headers=5)


def test_the_time_of_an_event_is_its_rows(world: World):
    """ce_time is created_at, in microseconds, before and after 1970 too."""
    world.relay().start()
    times = {}
    for created in ("2026-01-02 03:04:05.000006+00", "2026-01-02 03:04:05+00",
                    "1969-12-31 23:59:59.999999+00", "2026-01-02 00:04:05.1-03"):
        event, time = world.query(
            "INSERT INTO counterfoil.outbox (topic, type, payload, created_at) VALUES (%s, 't', "
            "'x', %s) RETURNING event_id::text, to_char(created_at AT TIME ZONE 'UTC', "
            "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')", (world.topic, created))[0]
        times[event] = time
    messages = published(world)
    assert {event: messages[event].header("ce_time") for event in times} == times


# --- clocks ---------------------------------------------------------------------------------------

def test_no_clock_but_the_databases(world: World):
    """R24, R8: an INSERT needs no times, created_at is the database's, no condition looks at a
    time, and a row of any time is published at once."""
    world.relay(sweep="10m").start()
    before = world.value("SELECT clock_timestamp()")
    plain = world.value("INSERT INTO counterfoil.outbox (topic, type, payload) "
                        "VALUES (%s, 't', 'x') RETURNING event_id::text", (world.topic,))
    with closing(world.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET LOCAL timezone = 'Pacific/Kiritimati'")
        cursor.execute("SELECT pg_sleep(0.01)")     # emit has the time of its call
        cursor.execute("SELECT event_id::text, now() FROM counterfoil.emit("
                       "topic => %s, type => 't', payload => 'x')", (world.topic,))
        emitted, began = cursor.fetchone()
        session.commit()
    after = world.value("SELECT clock_timestamp()")
    odd = [world.value("INSERT INTO counterfoil.outbox (topic, type, payload, created_at) VALUES "
                       "(%s, 't', 'x', %s) RETURNING event_id::text", (world.topic, created))
           for created in ("1980-01-01", "2262-01-01")]
    messages = published(world)
    assert messages.keys() == {plain, emitted, *odd}
    for event, least in ((plain, before), (emitted, began)):
        time = datetime.fromisoformat(messages[event].header("ce_time").replace("Z", "+00:00"))
        assert least < time < after
    conditions = world.query(
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE contype = 'c' AND connamespace = 'counterfoil'::regnamespace "
        "AND pg_get_constraintdef(oid) ~ '_at|until|now\\(|timestamp|current_'")
    assert conditions == []


# --- keys and partitions --------------------------------------------------------------------------

def test_the_hash_of_this_test_is_javas():
    for key, value in JAVA.items():
        assert murmur2(key) == value & 0xffffffff


def test_partitions_are_those_of_the_java_client(world: World):
    """R51: the ordering key's partition is the one that a Java producer would choose; without one
    the message key decides; an explicit one wins."""
    world.relay().start()
    keys = [key.decode() for key in JAVA if key] + [
        "\u00fcber-\u20ac", "\U0001f600", "\u65e5\u672c\u8a9e", "a", "ab", "abcd", "abcde", " "]
    for count in (12, 15, 32):
        topic = f"{world.topic}-{count}"
        world.broker.create_topic(topic, count)
        wanted = {}
        for key in keys + ["", None]:
            event = world.value("SELECT event_id::text FROM counterfoil.emit(topic => %s, "
                                "type => 't', payload => 'x', ordering_key => %s)", (topic, key))
            wanted[event] = java_partition((key or event).encode(), count)
        for ordering_key, message_key in ((None, b"foobar"), ("", b"\x00\xff"), (None, b""),
                                          ("abc", b"foobar")):
            event = insert(world, topic, ordering_key, message_key)
            by = ordering_key.encode() if ordering_key else message_key
            wanted[event] = java_partition(by, count)
        wanted[world.value("SELECT event_id::text FROM counterfoil.emit(topic => %s, type => 't', "
                           "payload => 'x', ordering_key => 'abc', partition => %s)",
                           (topic, count - 1))] = count - 1
        messages = published(world, topic)
        assert {event: messages[event].partition for event in wanted} == wanted


def insert(world: World, topic: str, ordering_key: str | None, message_key: bytes | None) -> str:
    return world.value("INSERT INTO counterfoil.outbox (topic, type, payload, ordering_key, "
                       "message_key) VALUES (%s, 't', 'x', %s, %s) RETURNING event_id::text",
                       (topic, ordering_key, message_key))


@pytest.mark.parametrize("configured", ["event_id", "ordering_key", "none"])
def test_the_key_of_a_message(world: World, configured: str):
    """As configured, unless the row has its own; and the partition is the same in any case."""
    world.relay(message_key=configured).start()
    ordered, unordered = world.emit(b"x", ordering_key="abc"), world.emit(b"x")
    own = insert(world, world.topic, "abc", b"\x00own")
    messages = published(world)
    keys = {"event_id": (ordered.encode(), unordered.encode()),
            "ordering_key": (b"abc", None), "none": (None, None)}[configured]
    assert (messages[ordered].key, messages[unordered].key) == keys
    assert messages[own].key == b"\x00own"
    assert messages[ordered].partition == messages[own].partition == java_partition(b"abc", 4)
    # without any key it is the event's id, so that another copy goes to the same place
    assert messages[unordered].partition == java_partition(unordered.encode(), 4)


# --- more than rows -------------------------------------------------------------------------------

def test_the_same_events_again(world: World):
    """A restart publishes nothing again; the same ids again are the same messages again."""
    outbox = Outbox(world)
    relay = outbox.relay(lease="1s").start()
    outbox.write(300)
    outbox.wait_empty()
    relay.stop()
    relay.start()
    outbox.write(10, key="later-")
    outbox.wait_empty()
    outbox.judge(copies=False)
    outbox.again()
    outbox.again()


def test_expired_rows_of_once_are_deleted(world: World):
    """The owner deletes what has expired, and nothing else; an expired key is free again."""
    world.query("SELECT counterfoil.once('webhook', 'old-' || n, keep => '1 ms') "
                "FROM generate_series(1, 1200) n")
    world.query("SELECT counterfoil.once('webhook', 'new')")
    world.relay().start()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.once") == 1, 10,
                  "expired rows to go")
    assert world.value("SELECT counterfoil.once('webhook', 'new')") is False
    assert world.value("SELECT counterfoil.once('webhook', 'old-1')") is True
