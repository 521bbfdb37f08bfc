"""Trouble of one topic is its own: its rows wait, those of all others flow, and when it is over
they follow, in order, none lost and none twice."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import health, programs, waiting
from tests.tools.broker import Broker
from tests.tools.outbox import Outbox
from tests.tools.programs import Program
from tests.tools.world import World

NONE, UNKNOWN_TOPIC, NOT_ENOUGH_REPLICAS = 0, 3, 19    # Kafka's error codes
PRODUCE = 0           # and the API key of its requests
GOOD, SLOW, SPARE = 1, 2, 3    # brokers: the second one leads the topics of the trouble
PARTITIONS = 4
PROMPTLY = 2          # seconds for one row, on a busy machine
AGE = 10              # seconds after which a row in flight tells that its topic is in trouble
# A topic that is missing may be new, and then this client waits half a minute before it says so.
NO_PATIENCE = ("topic.metadata.propagation.max.ms", "100")
PROBE = "$8 = 't'"    # of a poll: of one topic only


@pytest.fixture
def cluster() -> Iterator[Broker]:
    with Broker(programs.build_directory(), brokers=3) as broker:
        yield broker


@pytest.fixture
def outbox(cluster: Broker, make_world: Callable[..., World]) -> Outbox:
    """A world whose topic is led by the first broker."""
    world = make_world(cluster)
    world.settings = {"kafka": {"properties": [
        ("bootstrap.servers", cluster.bootstrap), ("reconnect.backoff.max.ms", "200"),
        ("topic.metadata.refresh.interval.ms", "1000"), NO_PATIENCE]}}
    lead(cluster, world.topic, GOOD)
    return Outbox(world)


def lead(broker: Broker, topic: str, leader: int, *partitions: int) -> None:
    for partition in partitions or range(PARTITIONS):
        broker.set_leader(topic, partition, leader)


def another(outbox: Outbox, name: str = "other", leader: int = SLOW) -> str:
    """One more topic."""
    topic = f"{outbox.world.topic}-{name}"
    broker = outbox.world.broker
    broker.create_topic(topic, PARTITIONS)
    lead(broker, topic, leader)
    return topic


# --- looking --------------------------------------------------------------------------------------

def blocked_topics(relay: Program) -> float:
    return health.metrics(relay).value("outbox_blocked_topics")


def told(outbox: Outbox, topic: str) -> tuple[Any, ...] | None:
    """What the relay writes of this topic: its state and its last trouble."""
    rows = outbox.world.query("SELECT state, reason FROM counterfoil.relay_topic WHERE topic = %s",
                              (topic,))
    return rows[0] if rows else None


def wait_blocked(outbox: Outbox, relay: Program, topic: str, reason: str,
                 timeout: float = 10) -> None:
    """By the log, by the metric, and by what the consoles are told."""
    line = relay.wait_for("topic blocked", timeout, topic=topic)
    assert line.level == "warn" and re.search(reason, line.fields["reason"])
    assert blocked_topics(relay) >= 1
    waiting.until(lambda: (told(outbox, topic) or ["open"])[0] in ("blocked", "probing"), 5,
                  "the consoles to be told")


def wait_open(outbox: Outbox, relay: Program, timeout: float = 40) -> None:
    """All of them, everywhere."""
    waiting.until(lambda: blocked_topics(relay) == 0, timeout, "all topics to be open")
    waiting.until(lambda: outbox.world.query("SELECT topic FROM counterfoil.relay_topic "
                                             "WHERE state <> 'open'") == [], 5, "it to be told")


def gone(outbox: Outbox, ids: list[int]) -> bool:
    return outbox.world.value("SELECT count(*) FROM counterfoil.outbox WHERE id = ANY (%s)",
                              (ids,)) == 0


def assert_flows(outbox: Outbox, topic: str | None = None, rows: int = 2000) -> None:
    """Many rows, and then each new one by itself."""
    many = outbox.write(rows, key="flows-", keys=200, topic=topic)
    waiting.until(lambda: gone(outbox, many), 10, f"{rows} rows of {topic or 'its topic'}")
    for _ in range(15):
        one = outbox.write(1, key="flows-", topic=topic)
        waiting.until(lambda: gone(outbox, one), PROMPTLY, "a new row", every=0.005)


def settle(outbox: Outbox, relay: Program, copies: bool = False, again: bool = True) -> None:
    outbox.wait_empty(60)
    wait_open(outbox, relay)
    outbox.judge(copies=copies)
    if again:
        outbox.again()
    assert outbox.world.value("SELECT count(*) FROM counterfoil.outbox_dead") == 0


# --- the topic is not there -----------------------------------------------------------------------

def test_a_topic_that_is_missing(outbox: Outbox, cluster: Broker):
    """R52: it alone waits, and is tried more and more rarely; all others flow at their full rate;
    when the trouble is over its rows follow from the first one on, in order."""
    world = outbox.world
    outbox.log_statements()
    bad = another(outbox, "bad")
    cluster.command("topic-error", bad, UNKNOWN_TOPIC)
    relay = outbox.relay().start()
    outbox.write(300, topic=bad)
    outbox.write(300)
    wait_blocked(outbox, relay, bad, "Unknown topic")
    assert_flows(outbox)
    with outbox.load(topics=[None, bad]):      # its backlog grows meanwhile, amidst the others
        waiting.until(lambda: outbox.waiting(bad) > 400 and len(probes(outbox)) >= 2, 20,
                      "the second probe")
        seen = len(probes(outbox))
        assert blocked_topics(relay) == 1 and told(outbox, world.topic)[0] == "open"
        waiting.holds(lambda: len(probes(outbox)) == seen, 2.5, "it is left alone for a while")
        cluster.command("topic-error", bad, NONE)
        relay.wait_for("topic open again", topic=bad, timeout=30)
    assert len(relay.said("topic blocked")) == 1
    settle(outbox, relay)


def probes(outbox: Outbox) -> list[str]:
    return [poll for poll in outbox.statements("FROM counterfoil.outbox o WHERE o.id > $1")
            if PROBE in poll]


# --- a partition that takes nothing ---------------------------------------------------------------

def test_topics_of_which_nothing_is_reported(outbox: Outbox, cluster: Broker):
    """R52: of a partition without leader nothing is heard at all, and where there are too few
    replicas the broker asks to try again, for ever: by the age of what is in flight these topics are
    blocked, and only they; new rows of all others are delivered within moments. When there is a
    leader that takes them all arrive."""
    outbox.world.settings["kafka"]["properties"].append(
        ("max.in.flight.requests.per.connection", "1"))    # see Broker.fail_requests()
    headless, few = another(outbox, "headless", GOOD), another(outbox, "few")
    relay = outbox.relay().start()
    lead(cluster, headless, -1, 0)
    cluster.fail_requests(PRODUCE, 10_000, NOT_ENOUGH_REPLICAS, broker=SLOW)
    for bad in (headless, few):
        outbox.write(200, topic=bad, keys=40)
    with outbox.load(topics=[None, headless, few], rows=2, pause=0.05):
        for bad in (headless, few):
            wait_blocked(outbox, relay, bad, "not acknowledged for 10 s .* in-sync", AGE + 10)
        assert_flows(outbox)
    assert blocked_topics(relay) == 2
    lead(cluster, headless, SPARE, 0)
    lead(cluster, few, SPARE)
    settle(outbox, relay)


def test_a_partition_that_is_full(outbox: Outbox, cluster: Broker):
    """R52: long before that age, more rows than it may have in flight: its topic is blocked at
    once, though all of it is far more than the window has room for."""
    bad = another(outbox, "bad")
    relay = outbox.relay(window_rows=800).start()
    outbox.write(40, topic=bad)
    outbox.wait_empty()
    lead(cluster, bad, -1, 0)
    outbox.write(2000, topic=bad, keys=40)
    outbox.write(400)
    wait_blocked(outbox, relay, bad, "one of its partitions takes no more", timeout=5)
    assert_flows(outbox)
    assert outbox.waiting(bad) > 500
    lead(cluster, bad, SLOW, 0)
    settle(outbox, relay, again=False)


def test_a_topic_that_is_slow(outbox: Outbox, cluster: Broker):
    """R52: its broker takes its rows, but far more slowly than others; they wait for one another
    only, and come in order."""
    slow = another(outbox, "slow")
    for _ in range(30):
        outbox.write(100, topic=slow, keys=40)
        outbox.write(100, keys=40)
    cluster.set_round_trip(300, SLOW)
    relay = outbox.relay(window_rows=800, batch=100).start()
    waiting.until(lambda: outbox.waiting(outbox.world.topic) == 0, 20, "the others to be published",
                  every=0.01)
    assert outbox.waiting(slow) > 1000
    assert_flows(outbox, rows=500)
    cluster.set_round_trip(0, SLOW)
    settle(outbox, relay, again=False)


def test_topics_that_fill_the_window(outbox: Outbox, cluster: Broker):
    """R52: what waits for leaders takes the whole window, and no partition more than its part of it:
    nothing else can show that brokers go on. It is dropped, and the others go on; each of the
    topics is tried with one row from then on."""
    bad = [another(outbox, f"bad-{n}") for n in range(3)]
    relay = outbox.relay(window_rows=800).start()
    for topic in bad:
        outbox.write(4, topic=topic)
    outbox.wait_empty()
    for topic in bad:
        lead(cluster, topic, -1)
        outbox.write(300, topic=topic, keys=40)
    outbox.write(100)
    # the last one may be read only once the first ones were dropped
    waiting.until(lambda: blocked_topics(relay) == len(bad), 2 * AGE + 10, "all of them to be blocked")
    assert_flows(outbox)
    assert relay.said("rows of blocked topics fill the window")
    for topic in bad:
        lead(cluster, topic, SLOW)
    settle(outbox, relay, copies=True, again=False)


# --- a broker, or all of them ---------------------------------------------------------------------

def test_one_of_the_brokers_is_away(outbox: Outbox, cluster: Broker):
    """R52, R11: the topics that it leads wait, those of the other flow; when it is back nothing is
    blocked, and nobody was blamed."""
    theirs = [another(outbox, f"bad-{n}") for n in range(3)]
    relay = outbox.relay(window_rows=2000).start()
    with outbox.load(topics=[None, *theirs], rows=2, pause=0.05):
        waiting.until(lambda: cluster.count(theirs[0]) > 40, 10, "some of them")
        cluster.down(SLOW)
        for topic in theirs:
            outbox.write(1500, topic=topic, keys=40)
        waiting.until(lambda: blocked_topics(relay) == len(theirs), AGE + 10, "them to be blocked")
        assert_flows(outbox)
        cluster.up(SLOW)
    settle(outbox, relay, copies=True, again=False)


def memory(program: Program) -> int:
    """Resident KiB; not known of a sanitizer, which keeps what was freed."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    kib = int(status.split("VmRSS:")[1].split()[0])
    return 0 if programs.build_directory().name == "asan" else kib


def test_all_brokers_are_away_for_longer_than_the_age(outbox: Outbox, cluster: Broker):
    """R53, R58: under load of several topics: no topic is blamed, no row dies, memory stays, the
    database is hardly asked; afterwards all arrives and no topic stays blocked."""
    topics = [None, another(outbox, "second", GOOD), another(outbox, "third")]
    outbox.log_statements()
    relay = outbox.relay(window_rows=2000).start()
    with outbox.load(topics=topics, pause=0.05):
        waiting.until(lambda: outbox.written() > 200, 10, "some load")
        for broker in (GOOD, SLOW, SPARE):
            cluster.down(broker)
        relay.wait_for("kafka is in trouble")
        outbox.write(3000, pad=500)
        before, polls = memory(relay), len(polls_of(outbox))
        waiting.holds(lambda: relay.running and not relay.said("topic blocked"), AGE + 2,
                      "it waits", every=0.5)
        assert len(polls_of(outbox)) - polls < 30
        assert memory(relay) - before < 4096
        for broker in (GOOD, SLOW, SPARE):
            cluster.up(broker)
        waiting.until(lambda: outbox.waiting(topics[1]) < 100, 30, "it to go on")
    assert not relay.said("row is dead")
    settle(outbox, relay, again=False)


def polls_of(outbox: Outbox) -> list[str]:
    return outbox.statements("FROM counterfoil.outbox o WHERE o.id > $1")


# --- who is told what -----------------------------------------------------------------------------

def row_of(outbox: Outbox, relay: Program) -> dict[str, Any]:
    return outbox.world.value("SELECT to_jsonb(r) FROM counterfoil.relay r WHERE name = %s",
                              (relay.name,)) or {}


def test_what_relays_tell_of_themselves(outbox: Outbox, cluster: Broker):
    """Of each its role; of the owner what waits, how fast it goes and how long a row takes; of each
    topic what waits of it."""
    world = outbox.world
    bad = another(outbox, "bad")
    owner = outbox.relay().start()
    standby = outbox.relay().start()
    with outbox.load(rows=10):
        waiting.until(lambda: row_of(outbox, owner).get("rate", 0) > 20
                      and row_of(outbox, owner)["latency_p99"], 10, "its rate")
    waiting.until(lambda: row_of(outbox, standby).get("role") == "standby", 5, "the standby")
    assert row_of(outbox, standby)["published"] == 0
    outbox.wait_empty()
    cluster.command("topic-error", bad, UNKNOWN_TOPIC)
    outbox.write(70, topic=bad)
    wait_blocked(outbox, owner, bad, "Unknown topic")

    waiting.until(lambda: row_of(outbox, owner)["backlog"] == 70, 10, "the backlog to be told")
    row = row_of(outbox, owner)
    assert (row["role"], row["blocked"], row["violations"], row["source"]) == (
        "owner", 1, 0, "counterfoil.outbox")
    assert row["published"] == outbox.written() - 70 and row["batch"] > 0
    assert world.value("SELECT latency_p50 > '0' AND latency_p50 <= latency_p99 "
                       "AND latency_p99 < '1 min' AND oldest < '1 min' AND backlog = 70 "
                       "AND now() - seen_at < '10 s' AND started_at < seen_at "
                       "FROM counterfoil.relay WHERE name = %s", (owner.name,))
    told_of = {topic: seen for topic, *seen in world.query(
        "SELECT topic, pending, published, state FROM counterfoil.relay_topic")}
    assert told_of[world.topic] == [0, outbox.written() - 70, "open"]
    assert told_of[bad][:2] == [70, 0] and told_of[bad][2] in ("blocked", "probing")
    assert world.value("SELECT oldest > '0' AND since <= now() FROM counterfoil.relay_topic "
                       "WHERE topic = %s", (bad,))
    cluster.command("topic-error", bad, NONE)
    settle(outbox, owner)


# --- order ----------------------------------------------------------------------------------------

def violations(relay: Program) -> float:
    return health.metrics(relay).value("outbox_order_violations_total")


def test_writers_of_a_key_that_take_turns(world: World):
    """R7: with lock => true no row of a key comes before an earlier one, whoever wrote it."""
    outbox = Outbox(world)
    relay = outbox.relay().start()

    def write(writer: int) -> None:
        with closing(world.connect()) as connection, connection.cursor() as cursor:
            for _ in range(40):
                outbox.write_in(connection, 2, key="shared-", keys=1, lock=True)
                cursor.execute("SELECT pg_sleep(random() * 0.01)")
                connection.commit()

    with ThreadPoolExecutor(6) as writers:
        list(writers.map(write, range(6)))
    outbox.wait_empty()
    outbox.judge(copies=False)
    assert violations(relay) == 0
    outbox.again()


def test_writers_of_a_key_that_do_not_take_turns(world: World):
    """R7: who draws an id and commits behind a later one is found out, counted and said; of other
    keys and topics there is nothing to say."""
    outbox = Outbox(world)
    relay = outbox.relay().start()
    with closing(world.connect()) as first:
        (late,) = outbox.write_in(first, key="raced-", keys=1)
        outbox.write_in(first, key="alone-", keys=1)
        (early,) = outbox.write(1, key="raced-", keys=1)
        waiting.until(lambda: gone(outbox, [early]), 5, "the later row")
        first.commit()
    outbox.wait_empty()
    line = relay.wait_for("a row was published behind a later one of its ordering key")
    assert (line.level, line.fields["id"], line.fields["behind"]) == ("warn", str(late), str(early))
    assert violations(relay) == 1
    assert {message.event_id for message in world.messages()} == {
        event for (event,) in world.query("SELECT event_id::text FROM public.written")}
