"""Orders about many keys: replayed or decided by a ledger, each once, at a pace, and stopped at any
moment. The keys are written straight into the tables; what is sent for them is real.

Most tests share one world and its first ledger, and have keys of their own prefix."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Iterator

import psycopg2
import pytest

from tests.tools import bench as tools
from tests.tools import programs, waiting
from tests.tools.bench import Bench, effect
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.provider import Seen
from tests.tools.statements import statements
from tests.tools.world import World

OK, PARTLY, NOT_FOUND, CONFLICT, USAGE = 0, 3, 4, 5, 2
LEASE = 2.0
NARROW, NARROW_ROOM = 2, 4      # a target's concurrency, and how many replayed keys it may have
prefixes = itertools.count(1)

KEYS = """
WITH e AS (INSERT INTO counterfoil.effect (target, tenant, idempotency_key, effect, mode, provider_key,
    fingerprint, event_hash, topic, partition, "offset", event_id, event_type)
  SELECT %(target)s, %(tenant)s, %(prefix)s || n, %(effect)s, %(mode)s, %(prefix)s || n, '', '',
    %(topic)s, 0, n, %(prefix)s || n, 'order.placed' FROM generate_series(1, %(count)s) n RETURNING id),
s AS (INSERT INTO counterfoil.effect_state (id, target, tenant, state, error_class, unknown_sends,
    first_sent_at, sent_at, window_until, attempts, tries, due_at, state_since)
  SELECT id, %(target)s, %(tenant)s, %(state)s::counterfoil.state, %(error)s,
    (%(state)s = 'uncertain')::int, now() - f.sent, now() - f.sent, now() + f.left, f.n, f.n,
    now() + %(due)s::interval, now() - %(since)s::interval
  FROM e, (SELECT CASE %(state)s WHEN 'uncertain' THEN interval '1 hour' END,
    %(window)s::interval, (%(state)s <> 'pending')::int) f(sent, "left", n))
INSERT INTO counterfoil.effect_request (id, method, url, headers, body)
SELECT id, 'POST', %(url)s, convert_to('Content-Type: text/plain' || chr(10), 'UTF8'), convert_to('amount=1', 'UTF8') FROM e
"""


def add(world: World, count: int, **changes: Any) -> str:
    """That many keys, dead unless said otherwise; their prefix. Intervals are texts: `window` lies
    ahead, `since` is over."""
    prefix = f"bulk-{next(prefixes)}:"
    world.query(KEYS, {
        "prefix": prefix, "count": count, "target": "payments", "tenant": "", "effect": "charge",
        "mode": "idempotent", "topic": world.topic, "state": "dead", "error": "http 503",
        "url": f"{world.provider.url}/v1/charges", "window": None, "due": "0", "since": "1 min",
        **changes})
    return prefix


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("bulk"), postgres, template, shared_broker, "bulk_bench",
            effects=[effect("charge", retry={"attempts": 1}), effect("narrow", "narrow")],
            targets=[{"name": "narrow", "concurrency": NARROW}],
            settings={"ledger": {"lease": f"{LEASE:g}s"}, "log": {"level": "info"}}) as bench:
        yield bench


@pytest.fixture
def world(opened: Bench, request: pytest.FixtureRequest) -> Iterator[World]:
    request.node.worlds = [opened.world]
    yield opened.world
    opened.world.provider.clear()
    opened.world.query("UPDATE counterfoil.operation SET state = 'cancelled', ended_at = now() "
                       "WHERE state IN ('queued', 'running', 'paused')")


@pytest.fixture(scope="module")
def second(opened: Bench) -> Iterator[Program]:
    """Another ledger beside the first one."""
    ledger = opened.world.ledger().start(ready=False)
    ledger.wait_for("lease taken")
    yield ledger
    ledger.stop()


# --- orders and what came of them -----------------------------------------------------------------

def command(world: World, *words: str) -> "subprocess.CompletedProcess[str]":
    done = programs.run("counterfoil", "--config", str(world.write_configuration()), *words)
    assert not programs.SANITIZER.search(done.stderr), done.stderr
    return done


def answer(world: World, *words: str, code: int = OK) -> dict[str, Any]:
    done = command(world, *words, "--json")
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return json.loads(done.stdout if code in (OK, PARTLY) else done.stderr)


def ordered(world: World, prefix: str, count: int, *words: str, state: str = "dead") -> int:
    """A replay of the keys of this prefix; the operation's id."""
    return answer(world, "replay", "--all", "--state", state, "--key-prefix", prefix, "--yes",
                  "--expect", str(count), "--reason", "a test", *words)["id"]


def operation(world: World, number: int) -> dict[str, Any]:
    return answer(world, "ops", "show", str(number))


def figures(world: World, number: int) -> tuple[str, int, int, int]:
    """State, done, failed, skipped."""
    return world.query("SELECT state, done, failed, skipped FROM counterfoil.operation WHERE id = %s",
                       (number,))[0]


def wait_end(world: World, number: int, state: str = "done", timeout: float = 30) -> dict[str, Any]:
    def look() -> bool:
        return figures(world, number)[0] not in ("queued", "running")
    try:
        waiting.until(look, timeout, f"operation {number} to end")
    except waiting.Late as late:
        raise waiting.Late(f"{late}: {operation(world, number)}") from None
    shown = operation(world, number)
    assert shown["state"] == state, shown
    return shown


def states(world: World, prefix: str) -> Counter[str]:
    return Counter(dict(world.query(
        "SELECT s.state::text, count(*) FROM counterfoil.effect e JOIN counterfoil.effect_state s "
        "USING (id) WHERE starts_with(e.idempotency_key, %s) GROUP BY 1", (prefix,))))


def wait_settled(world: World, prefix: str, timeout: float = 20) -> None:
    waiting.until(lambda: not {"pending", "in_flight", "retry_wait"} & set(states(world, prefix)),
                  timeout, f"all keys {prefix} to be finished", 0.1)


def requests(world: World, prefix: str) -> list[Seen]:
    return [r for r in world.provider.requests() if (r.key or "").startswith(prefix)]


def charges(world: World, prefix: str) -> Counter[str]:
    return Counter({key: n for key, n in world.provider.charges_by_key().items()
                    if (key or "").startswith(prefix)})


def replays(world: World, prefix: str) -> Counter[int]:
    """How often keys were replayed."""
    return Counter(dict(world.query(
        "SELECT s.replays, count(*) FROM counterfoil.effect e JOIN counterfoil.effect_state s "
        "USING (id) WHERE starts_with(e.idempotency_key, %s) GROUP BY 1", (prefix,))))


def assert_books(world: World, number: int) -> None:
    """The figures are those of the items, and every order on a key is in the audit, once."""
    shown = operation(world, number)
    items = Counter(dict(world.query("SELECT coalesce(result, 'left'), count(*) FROM "
                                     "counterfoil.operation_item WHERE operation_id = %s GROUP BY 1",
                                     (number,))))
    assert [items[r] for r in ("done", "failed", "skipped")] == \
        [shown["done"], shown["failed"], shown["skipped"]]
    assert sum(items.values()) == shown["total"]
    audited = world.value(
        "SELECT count(*) FROM counterfoil.audit a WHERE a.effect_id IS NOT NULL AND a.operation IN "
        "(SELECT md5(%s || '/' || i.effect_id)::uuid FROM counterfoil.operation_item i "
        " WHERE i.operation_id = %s) AND a.result = 'done'", (shown["operation"], number))
    assert audited == items["done"] + items["failed"] + items["ordered"]


# --- very many ------------------------------------------------------------------------------------

@pytest.mark.plain
def test_ten_thousand_dead_keys(world: World):
    """L47: at a rate, paused, resumed and cancelled on the way; then the rest; each key once, and no
    table is read whole for it."""
    count, rate = 10_000, 400
    prefix = add(world, count)
    world.query("ANALYZE counterfoil.effect, counterfoil.effect_state")
    read = whole_reads(world)
    selection = ("replay", "--all", "--state", "dead", "--key-prefix", prefix)
    assert answer(world, *selection, "--dry-run")["keys"] == count
    assert answer(world, *selection, "--yes", "--reason", "r", "--expect", "9999", code=CONFLICT) == {
        "error": "conflict", "message": "10000 keys, and not the 9999 expected", "exit": CONFLICT}
    assert world.value("SELECT count(*) FROM counterfoil.operation WHERE state <> 'draft'") == 0

    number = ordered(world, prefix, count, "--rate", f"{rate}/s", "--expect", "10,000")
    waiting.until(lambda: figures(world, number)[1] >= 1.5 * rate, 20, "some keys")
    assert whole_reads(world) == read, "rows that were read by walking a table"
    assert answer(world, "ops", "pause", str(number))["result"] == "done"
    wait_settled(world, prefix)
    paused = len(requests(world, prefix))
    waiting.holds(lambda: len(requests(world, prefix)) == paused, 0.6, "nothing is sent", 0.2)
    assert answer(world, "ops", "resume", str(number))["result"] == "done"
    waiting.until(lambda: figures(world, number)[1] > paused + rate, 20, "further keys")
    assert answer(world, "ops", "cancel", str(number), "--reason", "enough")["result"] == "done"
    wait_settled(world, prefix)
    sent = [request.t for request in requests(world, prefix)]
    for times in (sent[:paused], sent[paused:]):
        for i in range(rate, len(times)):       # the burst, and some for how late one is sent
            assert times[i] - times[i - rate] > 0.6, "more than the rate"
    assert operation(world, number)["state"] == "cancelled"
    assert states(world, prefix)["dead"] == count - len(sent), "cancelled: the others stay"

    rest, read = count - len(sent), whole_reads(world)
    last = ordered(world, prefix, rest)
    wait_end(world, last, timeout=60)
    assert whole_reads(world) == read, "rows that were read by walking a table"
    assert figures(world, last) == ("done", rest, 0, 0)
    assert states(world, prefix) == {"completed": count}
    assert replays(world, prefix) == {1: count}
    assert set(Counter(request.key for request in requests(world, prefix)).values()) == {1}
    assert_books(world, last)


def whole_reads(world: World) -> dict[str, int]:
    return dict(world.query(
        "SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'counterfoil' AND "
        "relname IN ('effect', 'effect_state', 'effect_request', 'operation_item', 'audit')"))


# --- how it stops by itself -----------------------------------------------------------------------

def refuse(world: World, key: str) -> None:
    world.provider.fault("status", status=402, times=None, key=key)


def test_the_canary_fails(world: World):
    """One key first: it dies again, and the others are not touched."""
    prefix = add(world, 30)
    refuse(world, f"^{prefix}")
    number = ordered(world, prefix, 30, "--canary")
    shown = wait_end(world, number, "stopped")
    assert (shown["done"], shown["failed"], shown["skipped"]) == (0, 1, 0)
    assert shown["detail"] == "the first key failed again: dead, http 402"
    assert len(requests(world, prefix)) == 1 and states(world, prefix) == {"dead": 30}
    assert replays(world, prefix) == {0: 29, 1: 1}
    assert_books(world, number)


def test_the_canary_is_completed(world: World):
    """The others wait for its answer."""
    prefix = add(world, 30)
    world.provider.fault("pass", delay=0.8, times=1, key=f"^{prefix}")
    number = ordered(world, prefix, 30, "--canary")
    wait_end(world, number)
    assert figures(world, number) == ("done", 30, 0, 0)
    canary, *others = requests(world, prefix)
    assert min(other.t for other in others) - canary.t >= 0.8


def test_it_stops_after_so_many_failures(world: World):
    """Those under way are watched no more; no others are sent."""
    prefix = add(world, 60, target="narrow")
    refuse(world, f"^{prefix}")
    number = ordered(world, prefix, 60, "--stop-after", "5")
    shown = wait_end(world, number, "stopped")
    assert 5 <= shown["failed"] < 5 + NARROW_ROOM and shown["done"] == 0
    assert shown["detail"].endswith("keys failed again, the last one: dead, http 402")
    wait_settled(world, prefix)
    assert len(requests(world, prefix)) < 5 + 2 * NARROW_ROOM
    assert states(world, prefix) == {"dead": 60}


# --- which keys -----------------------------------------------------------------------------------

def test_what_is_selected(world: World):
    """Every clause, by itself and with others."""
    dead = add(world, 3, tenant="a", error="http 500", since="2 hours")
    other = add(world, 4, tenant="b", target="narrow", topic="elsewhere", effect="narrow")
    retrying = add(world, 5, state="retry_wait", due="1 hour", tenant="a")
    pending = add(world, 6, state="pending", due="1 hour", error="", tenant="a")
    due = add(world, 1, state="retry_wait", target="nowhere", tenant="a")

    def selected(*words: str) -> int:
        return answer(world, "replay", "--all", "--dry-run", *words)["keys"]

    for words, count in [
            (("--state", "dead", "--tenant", "a"), 3),
            (("--state", "dead", "--tenant", "a", "--tenant", "b"), 4),
            (("--state", "dead", "--tenant", "a", "--target", "narrow"), 0),
            (("--state", "dead", "--target", "narrow", "--topic", "elsewhere"), 4),
            (("--state", "dead", "--effect", "narrow", "--tenant", "b"), 4),
            (("--state", "dead", "--error", "http 500"), 3),
            (("--state", "dead", "--error", "http 500", "--older-than", "1h"), 3),
            (("--state", "dead", "--error", "http 500", "--older-than", "3h"), 0),
            (("--state", "dead", "--error", "http 5"), 0),
            (("--state", "dead", "--key-prefix", dead), 3),
            (("--state", "dead", "--key-prefix", f"{other}2"), 1),
            (("--state", "retry_wait", "--tenant", "a"), 5),
            (("--state", "retrying", "--state", "pending", "--tenant", "a"), 11),
            (("--state", "dead", "--state", "pending", "--tenant", "a"), 9),
            (("--state", "pending", "--key-prefix", pending), 6),
            (("--state", "retry_wait", "--key-prefix", due), 0)]:
        assert selected(*words) == count, words
    number = ordered(world, retrying, 5, state="retry_wait")
    wait_end(world, number)
    assert states(world, retrying) == {"completed": 5}
    assert command(world, "replay", "--all", "--state", "dead", "--key-prefix", "none", "--yes",
                   "--expect", "0", "--reason", "r").returncode == NOT_FOUND


def test_uncertain_keys_only_by_name(world: World):
    """Those whose window is open are sent again with their key, and their provider gives its answer;
    the others stay, and so does what may have happened under an earlier key."""
    opened = add(world, 4, state="uncertain", window="20 hours", error="timeout")
    closed = add(world, 2, state="uncertain", window="-1 min", error="timeout")
    soon = add(world, 1, state="uncertain", window="5 min", error="timeout")
    once = add(world, 2, state="uncertain", mode="at_most_once", error="timeout")
    two_keys = add(world, 1, state="uncertain", window="20 hours", error="timeout")
    world.query("UPDATE counterfoil.effect_state s SET unknown_before = 1, key_no = 1 "
                "FROM counterfoil.effect e WHERE e.id = s.id AND starts_with(e.idempotency_key, %s)",
                (two_keys,))
    words = ("replay", "--all", "--error", "timeout", "--dry-run")
    assert answer(world, *words, "--state", "dead")["keys"] == 0
    seen = answer(world, *words, "--uncertain")
    assert (seen["keys"], seen["left_out"]) == (4, 6)
    assert seen["figures"] == [{"state": "uncertain", "target": "payments", "error": "timeout",
                                "window_open": True, "keys": 4}]
    done = answer(world, "replay", "--all", "--uncertain", "--error", "timeout", "--yes", "--expect",
                  "4", "--reason", "r", "--wait")
    assert (done["state"], done["done"]) == ("done", 4)
    assert states(world, opened) == {"completed": 4} and set(charges(world, opened).values()) == {1}
    for prefix in (closed, soon, once, two_keys):
        assert set(states(world, prefix)) == {"uncertain"} and requests(world, prefix) == []


@pytest.mark.parametrize("decision, state", [("--happened", "completed"),
                                             ("--did-not-happen", "dead")])
def test_uncertain_keys_are_decided(world: World, decision: str, state: str):
    """By the count and with a reason; nothing is sent for it."""
    prefix = add(world, 120, state="uncertain", window="-1 min", error="reset")
    words = ("resolve", "--all", decision, "--key-prefix", prefix)
    assert answer(world, *words, "--dry-run")["keys"] == 120
    assert command(world, *words, "--yes", "--expect", "120").returncode == USAGE
    assert command(world, *words, "--yes", "--reason", "r").returncode == USAGE
    assert command(world, *words, "--yes", "--reason", "r", "--expect", "7").returncode == CONFLICT
    assert states(world, prefix) == {"uncertain": 120}
    done = answer(world, *words, "--yes", "--reason", "INC-1", "--expect", "120", "--wait")
    assert (done["state"], done["done"], done["failed"]) == ("done", 120, 0)
    assert states(world, prefix) == {state: 120} and requests(world, prefix) == []
    assert_books(world, done["id"])
    assert {reason for (reason,) in world.query(
        "SELECT a.reason FROM counterfoil.audit a JOIN counterfoil.operation_item i "
        "USING (effect_id) WHERE i.operation_id = %s", (done["id"],))} == {"INC-1"}


# --- what changes meanwhile -----------------------------------------------------------------------

CLAIMS = '{"user": "test"}'


def draft(world: World, prefix: str, identity: str) -> tuple[int, int]:
    """Its id and how many keys it has."""
    params = json.dumps({"select": {"states": ["dead"], "key_prefix": prefix}})
    number = world.value("SELECT counterfoil.bulk_draft(%s, 'replay', %s, 'r', %s)",
                         (identity, params, CLAIMS))
    finished = False
    while not finished:
        total, _, finished = world.query("SELECT * FROM counterfoil.bulk_fill(%s, 30)", (identity,))[0]
    return number, total


def queue(world: World, identity: str, count: int) -> tuple[str, str, int]:
    return world.query("SELECT * FROM counterfoil.bulk_queue(%s, %s, NULL, false, NULL)",
                       (identity, count))[0]


def test_asked_for_twice_it_is_one(world: World):
    """The same id, at every step, gets the first answer; for something else it is an error."""
    prefix, identity = add(world, 5), str(uuid.uuid4())
    first = draft(world, prefix, identity)
    assert draft(world, prefix, identity) == first == (first[0], 5)
    assert queue(world, identity, 4) == ("changed", "5 keys, and not the 4 expected", first[0])
    done = queue(world, identity, 5)
    assert done == queue(world, identity, 5) == ("done", "5 keys", first[0])
    wait_end(world, first[0])
    assert queue(world, identity, 5) == done and draft(world, prefix, identity) == first
    assert replays(world, prefix) == {1: 5}
    with pytest.raises(psycopg2.errors.UniqueViolation):
        draft(world, "another", identity)
    assert world.value("SELECT count(*) FROM counterfoil.audit WHERE about = %s",
                       (f"operation {first[0]}",)) == 1


def test_a_page_that_waited_for_another(world: World, tmp_path: Path):
    """An earlier connection of the same owner is late with a page: what it has ordered by then is not
    ordered, nor counted, once more."""
    page = statements(tmp_path, {"ledger/operations/sql_operations.h": ["SQL_BULK_RESOLVE"]})
    prefix, identity = add(world, 4, state="uncertain", window="-1 min", error="reset"), str(uuid.uuid4())
    params = json.dumps({"select": {"states": ["uncertain"], "key_prefix": prefix}, "happened": True})
    number = world.value("SELECT counterfoil.bulk_draft(%s, 'resolve', %s, 'r', %s)",
                         (identity, params, CLAIMS))
    world.query("SELECT * FROM counterfoil.bulk_fill(%s, 30)", (identity,))
    world.query("UPDATE counterfoil.operation SET kind = 'of nobody', state = 'running', owner = 7 "
                "WHERE id = %s", (number,))
    seen: list[tuple[bool, int, int]] = []

    def take(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"PREPARE page AS {page['SQL_BULK_RESOLVE']}")
            cursor.execute("EXECUTE page(%s, 7, 'payments', 0, 2)", (number,))
            seen.append(cursor.fetchone()[:3])

    with closing(world.connect()) as late, closing(world.connect(autocommit=True)) as other:
        take(late)
        thread = threading.Thread(target=take, args=(other,), daemon=True)
        thread.start()
        waiting.until(lambda: world.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock'"), 20, "the second page to wait")
        late.commit()
        thread.join(20)
    assert seen == [(True, 2, 2)] * 2
    assert figures(world, number) == ("running", 4, 0, 0) and states(world, prefix) == {"completed": 4}
    assert_books(world, number)


def test_keys_that_changed_are_skipped(world: World):
    """Replayed by hand, decided, or gone since they were selected: told, and not touched."""
    prefix, identity = add(world, 6), str(uuid.uuid4())
    number, _ = draft(world, prefix, identity)
    assert command(world, "replay", f"{prefix}1", "--yes").returncode == OK
    waiting.until(lambda: states(world, prefix)["completed"] == 1, 10, "the key to be completed")
    gone, moved = (world.value("SELECT id FROM counterfoil.effect WHERE idempotency_key = %s",
                               (f"{prefix}{n}",)) for n in (2, 3))
    world.query("UPDATE counterfoil.effect_state SET epoch = epoch + 1 WHERE id = %s", (moved,))
    for table, column in (("effect_request", "id"), ("effect_state", "id"), ("effect", "id")):
        world.query(f"DELETE FROM counterfoil.{table} WHERE {column} = %s", (gone,))
    assert queue(world, identity, 6)[0] == "done"
    shown = wait_end(world, number)
    assert (shown["done"], shown["failed"], shown["skipped"]) == (3, 0, 3)
    assert [(i["key"], i["result"]) for i in shown["items"]] == [
        (f"{prefix}1", "skipped"), (None, "skipped"), (f"{prefix}3", "skipped")]
    assert len(requests(world, prefix)) == 4


def test_an_item_that_raises_is_skipped_alone(world: World):
    """Its error does not keep the others of its page."""
    prefix = add(world, 40)
    bad = [number for (number,) in world.query("SELECT id FROM counterfoil.effect WHERE "
                                               "idempotency_key = ANY (%s)",
                                               ([f"{prefix}7", f"{prefix}31"],))]
    world.query("ALTER TABLE counterfoil.effect_state ADD CONSTRAINT no_more CHECK "
                f"(replays = 0 OR id NOT IN ({bad[0]}, {bad[1]})) NOT VALID")
    try:
        number = ordered(world, prefix, 40)
        shown = wait_end(world, number)
    finally:
        world.query("ALTER TABLE counterfoil.effect_state DROP CONSTRAINT no_more")
    assert (shown["done"], shown["skipped"]) == (38, 2)
    assert [item["id"] for item in shown["items"]] == sorted(bad)
    assert all("no_more" in item["detail"] for item in shown["items"])


def test_drafts_die_and_are_cleared(world: World):
    """An hour later a draft is no preview any more; then it goes, with its items. What has ended is
    kept as long as the audit."""
    prefix, identity = add(world, 5), str(uuid.uuid4())
    number, _ = draft(world, prefix, identity)
    kept, _ = draft(world, prefix, str(uuid.uuid4()))
    old = ordered(world, prefix, 5)
    wait_end(world, old)
    world.query("UPDATE counterfoil.operation SET created_at = now() - interval '70 min' "
                "WHERE id = %s", (number,))
    assert queue(world, identity, 5)[:2] == (
        "refused", "its keys were selected more than an hour ago: select them anew")
    world.query("UPDATE counterfoil.operation SET ended_at = now() - interval '1000 days' "
                "WHERE id = %s", (old,))
    world.query("UPDATE counterfoil.expiry SET next_at = clock_timestamp(), until = clock_timestamp(), "
                "cursor = (SELECT max(id) FROM counterfoil.effect_state)")

    def left() -> set[int]:
        return {number for (number,) in world.query(
            "SELECT id FROM counterfoil.operation WHERE id = ANY (%s)", ([number, kept, old],))}
    waiting.until(lambda: left() == {kept}, 20, "what is old to go")
    assert {n for (n,) in world.query("SELECT DISTINCT operation_id FROM counterfoil.operation_item "
                                      "WHERE operation_id >= %s", (number,))} == {kept}


# --- who carries it out ---------------------------------------------------------------------------

def owner_of(world: World, number: int) -> str:
    """The name of the ledger; "" when there is none."""
    return world.value("SELECT coalesce((SELECT split_part(i.name, '/', 1) FROM counterfoil.instance i "
                       "WHERE i.id = o.owner), '') FROM counterfoil.operation o WHERE o.id = %s",
                       (number,))


def lease_runs_out(world: World, number: int) -> None:
    world.query("UPDATE counterfoil.operation SET until = clock_timestamp() WHERE id = %s", (number,))


@pytest.mark.parametrize("end", ["killed", "frozen", "stopped"])
def test_another_ledger_goes_on(world: World, second: Program, end: str):
    """In the middle its ledger is gone, or sleeps and wakes up later: the other one goes on with those
    that are left, and each key is ordered once."""
    prefix = add(world, 160)
    number = ordered(world, prefix, 160, "--rate", "60/s")
    waiting.until(lambda: figures(world, number)[1] > 20, 20, "some keys")
    ledgers = {ledger.name: ledger for ledger in world.ledgers}
    victim = ledgers.pop(owner_of(world, number))
    (other,) = ledgers.values()
    if end == "killed":
        victim.kill()
    elif end == "frozen":
        victim.freeze()
    else:
        victim.stop()
    if end != "stopped":
        lease_runs_out(world, number)
    waiting.until(lambda: owner_of(world, number) == other.name, 10, "another owner")
    if end == "frozen":
        waiting.until(lambda: figures(world, number)[1] > 80, 20, "further keys")
        victim.thaw()
    else:
        victim.start(ready=False)
    wait_end(world, number)
    state, done, failed, skipped = figures(world, number)
    # what was in flight when its lease ran out has no attempt left, and is not known; but an answer
    # that was there for who wakes up is believed
    assert (state, done + failed, skipped) == ("done", 160, 0) and failed <= (end != "stopped") * 50
    uncertain = states(world, prefix).get("uncertain", 0)
    assert states(world, prefix).get("completed") == 160 - uncertain
    assert uncertain <= failed if end == "frozen" else uncertain == failed
    assert replays(world, prefix) == {1: 160}
    assert len(charges(world, prefix)) >= 160 - failed and set(charges(world, prefix).values()) == {1}
    assert_books(world, number)


def hold(world: World, target: str) -> None:
    """And every ledger has seen it."""
    before = {ledger.name: len(ledger.said("target is held", target=target)) for ledger in world.ledgers}
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) VALUES "
                "(%s, true, 'a person')", (target,))
    waiting.until(lambda: all(len(ledger.said("target is held", target=target)) > before[ledger.name]
                              for ledger in world.ledgers), 20, "the target to be held")


def test_it_yields_to_live_traffic(world: World):
    """Of a target that serves two at a time no more replayed keys are due than keep it busy: a key
    that comes meanwhile is sent soon, and not behind all of them."""
    prefix = add(world, 80, target="narrow", topic="elsewhere")
    world.provider.configure(think=[0.05, 0.05])
    try:
        number = ordered(world, prefix, 80)
        waiting.until(lambda: figures(world, number)[1] >= 5, 20, "some keys")
        live = add(world, 1, state="pending", error="", target="narrow")
        wait_settled(world, live)
        (sent,) = requests(world, live)
        recorded = world.value("SELECT extract(epoch FROM created_at)::float FROM counterfoil.effect "
                               "WHERE idempotency_key = %s", (f"{live}1",))
        before = [r for r in requests(world, prefix) if recorded < r.t < sent.t]
        assert len(before) <= 2 * NARROW_ROOM, "it came last"
        waiting.until(lambda: states(world, prefix)["dead"] < 80 - NARROW_ROOM, 20, "further keys")
        busy = [sum(n for state, n in states(world, prefix).items()
                    if state in ("pending", "in_flight", "retry_wait")) for _ in range(20)]
        assert max(busy) <= NARROW_ROOM
        wait_end(world, number)
    finally:
        world.provider.configure(think=[0, 0])


def test_one_target_does_not_stop_the_others(world: World):
    """A held target's keys wait; those of another one go on."""
    hold(world, "narrow")
    held = add(world, 40, target="narrow", error="both")
    others = add(world, 40, error="both")
    try:
        number = answer(world, "replay", "--all", "--state", "dead", "--error", "both", "--yes",
                        "--expect", "80", "--reason", "r")["id"]
        waiting.until(lambda: states(world, others) == {"completed": 40}, 20, "the others")
        assert states(world, held) == {"dead": 40 - NARROW_ROOM, "pending": NARROW_ROOM}
        waiting.until(lambda: operation(world, number)["running"] == {"pending": NARROW_ROOM}, 10,
                      "the others to be counted")
    finally:
        world.query("DELETE FROM counterfoil.target_state WHERE target = 'narrow'")
    wait_end(world, number)
    assert figures(world, number) == ("done", 80, 0, 0)


# --- the commands ---------------------------------------------------------------------------------

def test_an_order_that_cannot_go_on_lets_others(world: World):
    """Three orders whose target is held, one for each ledger and one more, and then another one."""
    hold(world, "narrow")
    try:
        stuck = [ordered(world, add(world, 9, target="narrow"), 9) for _ in range(3)]
        waiting.until(lambda: [figures(world, n)[0] for n in stuck].count("queued") < 3, 20, "a start")
        number = ordered(world, add(world, 9), 9)
        wait_end(world, number)
        assert not {figures(world, n)[0] for n in stuck} - {"queued", "running"}
    finally:
        world.query("DELETE FROM counterfoil.target_state WHERE target = 'narrow'")
    for number in stuck:
        wait_end(world, number)
        assert figures(world, number) == ("done", 9, 0, 0)


def test_operations_are_told_and_refused(world: World):
    prefix = add(world, 3, target="nowhere")
    number = ordered(world, prefix, 3, "--rate", "6/m", "--stop-after", "0")
    shown = operation(world, number)
    assert (shown["kind"], shown["total"], shown["rate"], shown["stop_after"], shown["reason"]) == \
        ("replay", 3, 0.1, None, "a test")
    assert answer(world, "ops", "resume", str(number))["result"] == "already"
    for action, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        told = answer(world, "ops", action, str(number), "--reason", "why")
        assert told["result"] == "done" and told["detail"].endswith(f"-> {state}")
    for action in ("pause", "resume"):
        assert command(world, "ops", action, str(number)).returncode == CONFLICT
    assert answer(world, "ops", "cancel", str(number))["result"] == "already"
    assert command(world, "ops", "show", "999999").returncode == NOT_FOUND
    assert command(world, "ops", "cancel", "999999").returncode == NOT_FOUND
    listed = json.loads(command(world, "ops", "--json").stdout)
    assert listed[0]["id"] == number and listed[0]["state"] == "cancelled"
    words = command(world, "ops").stdout.splitlines()
    assert words[0].split()[:3] == ["ID", "KIND", "STATE"] and f"{number}" in words[1]
    assert f"operation {number}: replay cancelled" in command(world, "ops", "show", str(number)).stdout
    assert [a for (a,) in world.query(
        "SELECT action FROM counterfoil.audit WHERE about = %s AND result = 'done' ORDER BY id",
        (f"operation {number}",))] == ["bulk replay", "pause", "resume", "cancel"]


def test_waiting_ends_with_partly(world: World):
    """Not all of it was done."""
    prefix = add(world, 3)
    refuse(world, f"^{prefix}2$")
    done = answer(world, "replay", "--all", "--state", "dead", "--key-prefix", prefix, "--yes",
                  "--expect", "3", "--reason", "r", "--wait", code=PARTLY)
    assert (done["state"], done["done"], done["failed"]) == ("done", 2, 1)


def test_what_is_said_wrongly(world: World):
    for words in (["--all"], ["--all", "--state", "completed"], ["--all", "--state", "dead"],
                  ["--all", "--state", "dead", "--yes", "--reason", "r"],
                  ["--all", "--state", "dead", "--yes", "--expect", "1"],
                  ["--all", "a-key", "--state", "dead", "--dry-run"],
                  ["--all", "--state", "dead", "--dry-run", "--rate", "fast"],
                  ["--all", "--state", "dead", "--dry-run", "--older-than", "yesterday"],
                  ["--all", "--state", "dead", "--dry-run", "--happened"]):
        assert command(world, "replay", *words).returncode == USAGE, words
    for words in (["--all", "--dry-run"], ["--all", "--dry-run", "--happened", "--did-not-happen"],
                  ["--all", "--dry-run", "--happened", "--state", "dead"]):
        assert command(world, "resolve", *words).returncode == USAGE, words
    for words in (["show"], ["show", "x"], ["frob", "1"], ["pause"], ["list", "1"]):
        assert command(world, "ops", *words).returncode == USAGE, words
