"""/livez, /readyz and /metrics of both services, through all that can be wrong."""

from __future__ import annotations

import json
import socket
from typing import Any, Callable

import pytest

from tests.tools import health, waiting
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

from .orders_to_intake import ORDERED, counterfoil

AGE = {"http": {"ready_max_age": "2s"}}
UNAVAILABLE = 69


@pytest.fixture
def make_quick(make_world: Callable[..., World], own_broker: Broker) -> Callable[..., World]:
    """A world on a broker of its own, in which two seconds are a long time to wait."""
    def make(**options: Any) -> World:
        settings = {**AGE, **options.pop("settings", {})}
        return make_world(broker=own_broker, settings=settings, **options)
    return make


def started(program: Program) -> Program:
    program.start()
    health.wait_ready(program)
    return program


# --- the server -----------------------------------------------------------------------------------

def test_what_is_answered_and_what_is_not(world: World):
    relay = started(world.relay())
    at = health.address(relay)
    assert health.request(at, "GET", "/livez?verbose")[0] == 200
    status, headers, body = health.request(at, "HEAD", "/readyz")
    assert (status, body) == (200, "") and int(headers["Content-Length"]) > 10
    assert health.request(at, "GET", "/")[0] == 404
    assert health.request(at, "GET", "/metrics/")[0] == 404
    status, headers, _ = health.request(at, "POST", "/readyz")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    said = json.loads(health.get(relay, "/readyz")[1])
    assert [check["check"] for check in said["checks"]] == [
        "database", "schema", "lease", "running", "progress"]


@pytest.mark.parametrize("part", ["relay", "ledger"])
def test_an_address_in_use(world: World, part: str):
    """It says so and ends, as what may be there next time: not as a fault of the configuration."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = "127.0.0.1:{}".format(taken.getsockname()[1])
        world.settings = {"http": {part: at}}
        program = getattr(world, part)()
        program.allow_errors("Address already in use")
        program.start(ready=False)
        assert program.wait() == UNAVAILABLE
    assert f"http.{part}: listen on {at}: Address already in use" in program.tail()


@pytest.mark.parametrize("part", ["relay", "ledger"])
def test_none_is_asked_for(world: World, part: str):
    world.settings = {"http": {part: ""}}
    program = getattr(world, part)().start()
    assert not program.said("http listening")
    program.stop()


# --- the relay ------------------------------------------------------------------------------------

def test_an_owner_and_a_standby_are_both_ready(world: World):
    owner, standby = started(world.relay()), started(world.relay())
    assert health.metrics(owner).value("relay_owner") == 1
    assert health.metrics(standby).value("relay_owner") == 0
    owner.stop()
    standby.wait_for("lease taken")
    waiting.until(lambda: health.metrics(standby).value("relay_owner") == 1, 5, "the new owner")
    assert health.metrics(standby).value("relay_possible_duplicates_total") == 0
    health.wait_ready(standby)


def test_a_relay_without_its_database(make_quick: Callable[..., World], postgres: Postgres):
    """Readiness says which checks fail; liveness knows nothing of it."""
    world = make_quick()
    relay = started(world.relay())
    postgres.stop("immediate")
    try:
        waiting.until(lambda: {"database", "schema", "lease"} <= set(health.failed(relay)), 20,
                      "the checks to fail")
        assert health.live(relay)
        assert health.metrics(relay).value("db_reconnects_total") == 0
    finally:
        postgres.start()
    health.wait_ready(relay)
    assert health.metrics(relay).value("db_reconnects_total") == 2


def test_rows_that_wait_too_long(make_quick: Callable[..., World], own_broker: Broker):
    """Only progress fails while the broker is away, and it heals by itself; a standby is not judged
    by what its owner does not do."""
    world = make_quick()
    relay = started(world.relay())
    standby = started(world.relay())
    own_broker.down()
    world.place(world.orders(3))
    health.wait_failed(relay, "progress")
    assert health.live(relay)
    for one in (relay, standby):
        waiting.until(lambda: health.metrics(one).value("outbox_oldest_age_seconds") > 2, 5,
                      "the rows to be old")
        assert health.metrics(one).value("outbox_rows") == 3
    assert health.failed(standby) == []
    own_broker.up()
    health.wait_ready(relay)
    waiting.until(lambda: health.metrics(relay).value("outbox_rows") == 0, 5, "no rows")
    seen = health.metrics(relay)
    assert seen.value("outbox_oldest_age_seconds") == 0
    assert seen.value("outbox_published_total", topic=world.topic) == 3
    assert seen.value("outbox_publish_seconds", "_count") == 3


def test_a_relay_that_drains(make_quick: Callable[..., World], own_broker: Broker):
    world = make_quick()
    relay = started(world.relay())
    own_broker.down()
    world.place(world.orders(3))
    health.wait_failed(relay, "progress")
    relay.terminate()
    waiting.until(lambda: "running" in health.failed(relay), 5, "it to say that it stops")
    assert health.live(relay)
    own_broker.up()
    assert relay.wait() == 0


def test_a_relay_before_its_schema(make_world: Callable[..., World], empty_database: str):
    world = make_world()
    world.database = empty_database
    relay = world.relay()
    relay.allow_errors("schema does not fit")
    relay.start(ready=False)
    waiting.until(lambda: {"schema", "lease"} <= set(health.failed(relay)) and
                  "database" not in health.failed(relay), 20, "the schema to be missed")
    assert health.live(relay)
    world.migrate()
    health.wait_ready(relay)


def test_topics_are_counted_up_to_a_number(world: World, shared_broker: Broker):
    """C55: who writes to the outbox chooses the topics, so there is an end to their series."""
    relay = started(world.relay())
    topics = [f"{world.topic}-{n}" for n in range(110)]
    for topic in topics:
        shared_broker.create_topic(topic, 1)
    world.query("SELECT counterfoil.emit(topic => t, type => 'x', payload => '') "
                "FROM unnest(%s) t", (topics,))
    waiting.until(lambda: health.metrics(relay).sum("outbox_published_total") == 110, 30,
                  "all to be published")
    seen = health.metrics(relay)
    assert len(seen.families["outbox_published_total"].samples) == 101
    assert seen.value("outbox_published_total", topic="(other)") == 10


# --- the ledger -----------------------------------------------------------------------------------

def test_a_ledger_and_what_it_counts(world: World):
    """Every event, attempt and step is counted where it belongs."""
    relay, ledger = started(world.relay()), started(world.ledger())
    assert [check["check"] for check in json.loads(health.get(ledger, "/readyz")[1])["checks"]] == [
        "database", "schema", "lease", "assignment", "positions", "running", "poison",
        "targets", "progress", "outbox"]
    world.place(world.orders(20))
    world.emit(b'{"order_id": 1, "total_cents": 7, "customer_id": "other"}')    # a conflict
    world.emit(b'{}')                                                          # poison
    world.emit(b'{"order_id": 77}')                                            # dead
    world.emit(b'{}', "order.seen")                                            # unmatched
    world.wait_drained()
    world.publish_again()
    world.wait_drained()

    def moved(start: str, end: str) -> float:
        return seen.value("effect_transitions_total", **{"from": start, "to": end})
    seen = health.metrics(ledger)
    assert moved("new", "pending") == moved("pending", "in_flight") == 20
    assert moved("in_flight", "completed") == 20
    assert moved("new", "dead") == 1
    assert seen.value("attempts_total", target="payments", outcome="applied") == 20
    assert seen.value("attempt_seconds", "_count", target="payments") == 20
    assert seen.value("duplicates_suppressed_total", effect="charge") == 21
    assert seen.value("conflicts_total") == 2       # the copy is another message
    assert seen.value("poison_total") == 2
    assert seen.value("unmatched_total", topic=world.topic) == 2
    assert seen.value("rebalances_total") >= 1
    for quiet in ("lease_lost_total", "late_results_total", "emit_failed_total",
                  "position_mismatch_total", "db_reconnects_total"):
        assert seen.value(quiet) == 0, quiet
    assert seen.sum("consumer_lag_messages", topic=world.topic) == 0
    assert len(seen.families["consumer_lag_messages"].samples) == 4
    waiting.until(lambda: health.metrics(ledger).value("effect_keys", state="dead") == 1, 10,
                  "the dead key to be counted")
    assert health.metrics(relay).value("outbox_published_total", topic=f"{world.topic}.dlq") == 3


def test_a_ledger_that_was_not_told_where_to_begin(make_world: Callable[..., World]):
    """It runs, and takes in nothing: that is not ready."""
    world = make_world(settings={"ledger": {"start": None}})
    ledger = world.ledger()
    ledger.allow_errors("topic not begun")
    ledger.start(ready=False)
    ledger.wait_for("topic not begun")
    health.wait_failed(ledger, "positions")


def test_a_ledger_without_its_database(make_quick: Callable[..., World], postgres: Postgres):
    world = make_quick()
    ledger = started(world.ledger())
    postgres.stop("immediate")
    try:
        waiting.until(lambda: {"database", "lease"} <= set(health.failed(ledger)), 20,
                      "the checks to fail")
        assert health.live(ledger)
        assert health.metrics(ledger).value("lease_lost_total") == 1
    finally:
        postgres.start()
    health.wait_ready(ledger)
    waiting.until(lambda: health.metrics(ledger).value("db_reconnects_total") == 6, 10,
                  "all connections to be made anew")


def test_keys_that_wait_too_long(make_quick: Callable[..., World]):
    """A key that is due and not sent, because others take their time, makes only progress fail."""
    world = make_quick(target={"concurrency": 1, "timeout": "20s"})
    relay, ledger = started(world.relay()), started(world.ledger())
    hang = world.provider.fault("hang")
    world.place(world.orders(3))
    health.wait_failed(ledger, "progress")
    assert health.live(ledger) and not health.failed(relay)
    seen = health.metrics(ledger)
    assert seen.value("effect_oldest_due_age_seconds", target="payments") > 2
    assert seen.value("effect_oldest_age_seconds", state="pending") > 2
    assert (seen.value("effect_keys", state="pending"),
            seen.value("effect_keys", state="in_flight")) == (2, 1)
    world.provider.clear(hang)
    world.provider.kill()       # ends the one that hangs; the rest goes on with the next
    world.provider.start()
    health.wait_ready(ledger)
    world.wait_drained()


def test_keys_of_a_target_that_is_held(make_quick: Callable[..., World]):
    """They wait for a person: the process is not to blame, and says of whom it is."""
    world = make_quick()
    relay, ledger = started(world.relay()), started(world.ledger())
    ledger.allow_errors("target held")
    world.provider.fault("status", status=401)
    world.place(world.orders(1))
    waiting.until(lambda: health.metrics(ledger).value("target_held", target="payments") == 1, 20,
                  "the target to be held")
    waiting.until(lambda: health.metrics(ledger).value("effect_oldest_due_age_seconds",
                                                       target="payments") > 2.5, 20,
                  "the key to wait")
    assert health.failed(ledger) == []
    assert health.metrics(ledger).value("attempts_total", target="payments",
                                        outcome="credentials") >= 1
    relay.stop()


def test_letters_that_no_relay_takes(make_quick: Callable[..., World]):
    """Rows in the outbox of the ledger's database, and no relay for them."""
    world = make_quick()
    ledger = started(world.ledger())
    world.emit(b"{}")
    health.wait_failed(ledger, "outbox")
    relay = started(world.relay())
    health.wait_ready(ledger)
    relay.stop()


def test_a_ledger_that_drains(make_quick: Callable[..., World]):
    world = make_quick(target={"timeout": "20s"})
    relay, ledger = started(world.relay()), started(world.ledger())
    hang = world.provider.fault("hang")
    world.place(world.orders(1))
    waiting.until(lambda: world.states()["in_flight"] == 1, 10, "the request to be on its way")
    ledger.terminate()
    waiting.until(lambda: "running" in health.failed(ledger), 5, "it to say that it stops")
    assert health.live(ledger)
    world.provider.clear(hang)
    world.provider.kill()
    assert ledger.wait() == 0
    world.provider.start()
    relay.stop()


def test_a_ledger_before_its_schema(make_world: Callable[..., World], empty_database: str):
    world = make_world()
    world.database = empty_database
    ledger = world.ledger()
    ledger.allow_errors("schema does not fit")
    ledger.start(ready=False)
    waiting.until(lambda: health.failed(ledger) == ["schema", "lease", "assignment", "progress"],
                  20, "the schema to be missed")
    assert health.live(ledger)
    assert health.metrics(ledger).value("build_info", version="0.1.0") == 1
    world.migrate()
    health.wait_ready(ledger)


def test_what_becomes_of_orders(world: World):
    """Those that are open, of all processes, by their state; what has ended, and each item by its
    result, by the process that did it."""
    ledger, relay = started(world.ledger()), started(world.relay())
    kinds = ["poison", "redeliver", "replay", "resolve", "rewind"]

    def seen(name: str, **labels: str) -> float:
        return health.metrics(ledger).value(name, **labels)

    def run(*words: object) -> None:
        done = counterfoil(world, *words, *ORDERED)
        assert done.returncode in (0, 3), (done.stdout, done.stderr)
    world.place(world.orders(5))
    world.emit(b'{}')                                                          # poison
    world.emit(b'{"order_id": 77}')                                            # dead
    world.wait_drained()
    run("poison", "replay", "--topic", world.topic)
    run("redeliver", "--topic", world.topic, "--last", 100)
    run("rewind", world.topic, "--to", "2090-01-01T00:00:00Z")
    run("replay", "--all", "--state", "dead", "--expect", 1)
    waiting.until(lambda: seen("operations_ended_total", kind="replay", state="done") == 1, 20,
                  "the replay to end")
    items = health.metrics(ledger).families["operation_items_total"].samples
    assert len(items) == 3 * len(kinds)
    assert seen("operation_items_total", kind="poison", result="failed") == 1
    assert seen("operation_items_total", kind="redeliver", result="done") >= 6
    assert seen("operation_items_total", kind="replay", result="skipped") == 1
    for kind, state in (("poison", "done"), ("redeliver", "done"), ("replay", "done"),
                        ("rewind", "failed")):
        assert seen("operations_ended_total", kind=kind, state=state) == 1, kind
    assert seen("operations_ended_total", kind="resolve", state="stopped") == 0

    world.query("INSERT INTO counterfoil.operation (operation, kind, state, params, total, done, failed)"
                " VALUES (gen_random_uuid(), 'replay', 'paused', '{}', 10, 3, 1),"
                " (gen_random_uuid(), 'replay', 'cancelled', '{}', 10, 3, 1),"
                " (gen_random_uuid(), 'another', 'paused', '{}', 10, 3, 1)")
    waiting.until(lambda: seen("operations_open", kind="replay", state="paused") == 1, 20,
                  "the paused order to be counted")
    assert seen("operation_items_open", kind="replay") == 6
    assert seen("operations_open", kind="replay", state="queued") == 0
    names = health.metrics(ledger).series()
    assert not any("another" in str(series) for series in names)
    relay.stop()


@pytest.mark.plain
def test_ten_thousand_keys_are_no_series(world: World):
    """C55: the number of series does not depend on what flows."""
    relay, ledger = started(world.relay()), started(world.ledger())
    world.place(world.orders(1))
    world.wait_drained()
    before = [health.metrics(program).series() for program in (relay, ledger)]
    world.query("SELECT counterfoil.emit(topic => %s, type => 'order.placed', payload => "
                "json_build_object('order_id', n, 'total_cents', 1, 'customer_id', 'customer-' || n))"
                " FROM generate_series(2, 10001) n", (world.topic,))
    world.wait_drained(120)
    for program, known in zip((relay, ledger), before):
        seen = health.metrics(program)
        assert seen.series() == known
        assert not any("order:" in value or "customer" in value for value in seen.label_values())
    assert health.metrics(ledger).value("attempts_total", target="payments",
                                        outcome="applied") == 10_001
