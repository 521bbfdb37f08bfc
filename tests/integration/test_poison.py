"""Messages that could not be turned into effects: kept, counted, replayed, discarded; and a topic that
has too many of them waits."""

from __future__ import annotations

from typing import Callable

from tests.tools import health, waiting
from tests.tools.world import World

from .intake import ORDER, PARTITIONS, Sender, keys, positions, set_positions
from .orders_to_intake import ORDERED, answer, counterfoil, ordered, queue, wait_end

MakeWorld = Callable[..., World]
BROKEN = b'{"customer_id": "c", "total_cents": 1}'       # no order_id
REPAIRED = "late:${/customer_id}:${event_id}"


def open_poison(world: World) -> int:
    return world.value("SELECT count(*) FROM counterfoil.poison WHERE settled_at IS NULL")


def settled(world: World) -> dict[str, int]:
    return dict(world.query("SELECT settlement, count(*) FROM counterfoil.poison "
                            "WHERE settled_at IS NOT NULL GROUP BY 1"))


def ids(world: World) -> list[int]:
    return [number for (number,) in world.query("SELECT id FROM counterfoil.poison ORDER BY id")]


def with_key(world: World, template: str) -> None:
    """The same ledger with another key template."""
    (ledger,) = world.ledgers
    ledger.stop()
    world.effects[0]["key"] = template
    config = world.configuration()
    config["kafka"]["properties"] += world.broker.group_properties
    ledger.configure(config)
    ledger.start()


def test_a_topic_with_too_much_poison_waits(make_world: MakeWorld):
    """With so many open nothing more of the topic is read, by nobody, after a rebalance neither, and
    readiness says so; another topic goes on; when some are settled it goes on by itself."""
    world = make_world(settings={"ledger": {"poison_limit": 5, "batch": 5}})
    other = f"{world.topic}-other"
    world.broker.create_topic(other, 1)
    world.effects.append({**world.effects[0], "name": "other", "key": "other:${/order_id}",
                          "on": {"topic": other, "type": "order.placed"}})
    ledgers = [world.ledger(), world.ledger()]
    for ledger in ledgers:
        ledger.allow_errors("topic paused")
    first, second = ledgers
    first.start()
    assert "poison" not in health.failed(first)
    sender = Sender(world)
    for n in range(8):
        sender.send(BROKEN, partition=n % PARTITIONS)
    sender.flush()
    line = first.wait_for("topic paused: too much of it is poison", topic=world.topic)
    assert "counterfoil poison list" in line.fields["remedy"]
    for n in range(20):
        sender.order(n, partition=n % PARTITIONS)
    world.broker.produce(other, ORDER % b"7", None, [("ce_type", b"order.placed")], 0)
    sender.flush()
    waiting.until(lambda: world.state("other:7") == "completed", 20, "the other topic")
    assert "poison" in health.failed(first)
    assert f"topic {world.topic} is not read" in health.get(first, "/readyz")[1]
    second.start(ready=False)                        # a rebalance
    waiting.until(lambda: [ledger for ledger in ledgers if ledger.said("topic paused")][1:], 20,
                  "the second one to see it too")
    waiting.holds(lambda: keys(world) == ["other:7"], 1.5, "nothing of it is read")
    assert open_poison(world) >= 5

    taken = ids(world)[:4]
    assert counterfoil(world, "poison", "discard", *taken, *ORDERED).returncode == 0
    waiting.until(lambda: world.unread() == 0 or open_poison(world) >= 5, 20, "it to go on")

    def all_read() -> bool:
        counterfoil(world, "poison", "discard", "--topic", world.topic, *ORDERED)
        return not world.unread()
    waiting.until(all_read, 30, "all to be read", every=0.1)
    world.wait_drained()
    assert len(keys(world)) == 21 and len(ids(world)) == 8, "nothing was dropped"
    waiting.until(lambda: not set(health.failed(first)) & {"poison"}, 10, "readiness")


def test_replayed_with_a_configuration_that_knows_better(make_world: MakeWorld):
    """What is no poison any more becomes effects, once; what is still, stays, with its new reason; what
    was cut is left alone; a replay of all that again does nothing."""
    world = make_world(settings={"ledger": {"poison_max_bytes": "1KiB"}})
    world.ledger().start()
    sender = Sender(world)
    for n in range(3):
        sender.send(BROKEN, event_id=f"late-{n}", partition=n, key=b"k%d" % n,
                    headers=(("x-raw", b"\xff\x00"), ("x-nul", b"a\x00b"), ("x-none", None)))
    sender.send(b"no json", event_id="never")
    sender.send(b'{"customer_id": "c", "total_cents": 2, "filling": "%s"}' % (b"x" * 2000),
                event_id="cut", partition=1)
    sender.drain()
    assert open_poison(world) == 5
    shown = answer(counterfoil(world, "poison", "list", "--topic", world.topic, "--json"))
    assert [row["reason"] for row in shown] == ["key"] * 5
    cut = [row["id"] for row in shown if row["kept"] < row["size"]]
    whole = answer(counterfoil(world, "poison", "show", shown[0]["id"], "--json"))
    assert whole["value"] == BROKEN.decode() and whole["topic"] == world.topic
    assert "read again from Kafka" in counterfoil(world, "poison", "show", *cut).stdout
    detail = ordered(world, "poison", "replay", "--topic", world.topic)
    assert detail.startswith("0 taken in") and "4 still poison" in detail and "1 were cut" in detail

    with_key(world, REPAIRED)
    before = positions(world)
    detail = ordered(world, "poison", "replay", *ids(world))
    assert "3 taken in: 3 new" in detail and "1 still poison" in detail and "1 were cut" in detail
    world.wait_drained()
    assert sorted(keys(world)) == [f"late:c:late-{n}" for n in range(3)]
    assert world.query("SELECT partition, event_id, convert_from(event_key, 'UTF8') "
                       "FROM counterfoil.effect JOIN "
                       "counterfoil.effect_request USING (id) ORDER BY 1") == [
        (n, f"late-{n}", f"k{n}") for n in range(3)]
    assert positions(world) == before and settled(world) == {"replayed": 3}
    assert open_poison(world) == 2
    seen = world.effects_seen()
    assert ordered(world, "poison", "replay", *ids(world)).startswith("0 taken in: 0 new")
    world.wait_drained()
    assert world.effects_seen() == seen
    assert world.value("SELECT count(*) FROM counterfoil.audit WHERE action = 'poison' AND reason = "
                       "'a test' AND about LIKE 'operation %%'") == 3

    # what was cut is taken in from where it still stands whole
    assert ordered(world, "redeliver", "--topic", world.topic, "--last", 100, "--apply").startswith(
        "5 events read again")
    world.wait_drained()
    assert settled(world) == {"replayed": 3, "redelivered": 1}
    assert "late:c:cut" in keys(world) and world.duplicated() == {}


MANY = """INSERT INTO counterfoil.poison (topic, partition, "offset", hash, size, value, headers, reason,
    error) SELECT %s, 0, 1000000 + n, decode(md5(n::text), 'hex'), octet_length(v) + (n %% 10 = 1)::int, v,
    ('{"ce_type":"order.placed","ce_id":"late-' || n || '"}')::bytea, 'key', 'as it was'
  FROM generate_series(1, 450) n, LATERAL (SELECT (CASE WHEN n %% 5 = 0 THEN '{' ELSE '{"order_id":"late-' || n
    || '","customer_id":"c","total_cents":1}' END)::bytea AS v) v"""


def test_a_killed_replay_counts_each_once(make_world: MakeWorld):
    """Rows and figures are written as one: whoever goes on counts none twice, and leaves none out."""
    world = make_world(effect={"delay": "1h"}, settings={"ledger": {"lease": "1s"}})
    ledger = world.ledger()
    world.query(MANY, (world.topic,))
    number = queue(world, "poison", {"topic": world.topic, "upto": 10_000_000})
    ledger.crash_at("intake_commit.answered:2")
    ledger.start(ready=False)
    ledger.wait_crash()
    taken = len(keys(world))
    assert 0 < taken < 315
    assert world.query("SELECT done, failed, skipped FROM counterfoil.operation") == [
        (taken, taken * 2 // 7, taken // 7)]
    world.query("UPDATE counterfoil.operation SET until = clock_timestamp()")
    ledger.crash_at("")
    ledger.start(ready=False)
    assert wait_end(world, number)[1].startswith(
        "315 taken in: 315 new; 90 still poison; 45 were cut")
    assert world.query("SELECT total, done, failed, skipped FROM counterfoil.operation") == [
        (450, 315, 90, 45)]
    assert len(keys(world)) == 315 and settled(world) == {"replayed": 315}


def test_discarded_without_effect(make_world: MakeWorld):
    """With a reason only; it stands in the audit; replayed afterwards it is settled already."""
    world = make_world()
    world.start(relays=0)
    sender = Sender(world)
    for n in range(4):
        sender.send(BROKEN)
    sender.drain()
    numbers = ids(world)
    assert counterfoil(world, "poison", "discard", numbers[0], "--yes").returncode == 2
    assert counterfoil(world, "poison", "discard", "--topic", world.topic, "--expect", 3,
                       *ORDERED).returncode == 5
    assert counterfoil(world, "poison", "discard", numbers[0], "--dry-run").stdout == \
        "1 would be discarded\n"
    assert open_poison(world) == 4
    assert answer(counterfoil(world, "poison", "discard", *numbers[:2], "--json", *ORDERED))["done"] == 2
    done = counterfoil(world, "poison", "discard", numbers[1], numbers[2], 999_999, *ORDERED)
    assert done.returncode == 3 and "settled before: discarded" in done.stdout
    assert "0 discarded" in counterfoil(world, "poison", "discard", numbers[0], *ORDERED).stdout
    assert settled(world) == {"discarded": 3} and keys(world) == []
    assert world.query("SELECT action, detail, reason, about, after FROM counterfoil.audit "
                       "ORDER BY id") == [
        ("discard poison", "2 settled without effect", "a test", f"poison of {world.topic}",
         {"ids": numbers[:2]}),
        ("discard poison", "1 settled without effect", "a test", f"poison of {world.topic}",
         {"ids": numbers[2:3]})]
    ordered(world, "poison", "replay", *numbers)
    assert open_poison(world) == 1 and settled(world) == {"discarded": 3}
    set_positions(world, 0)
    waiting.until(lambda: world.unread() == 0, 20, "all to be read again")
    assert open_poison(world) == 1 and settled(world) == {"discarded": 3} and keys(world) == []


def test_unmatched_events_are_told(make_world: MakeWorld):
    """By topic and type, with their number."""
    world = make_world()
    world.start(relays=0)
    sender = Sender(world)
    for _ in range(12):
        sender.send(b"{}", "order.placedv2")
    sender.send(b"{}", None)
    sender.drain()
    told = answer(counterfoil(world, "unmatched", "--json"))
    assert [(row["topic"], row["type"], row["count"]) for row in told] == [
        (world.topic, "order.placedv2", 12), (world.topic, "", 1)]
    assert "order.placedv2" in counterfoil(world, "unmatched").stdout
