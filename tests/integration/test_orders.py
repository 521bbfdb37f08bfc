"""Orders on one key: the SQL functions by themselves, and what a ledger makes of them."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, announce, attempts_of, effect, key_name, key_of, wait_finished,
                               wait_state)
from tests.tools.broker import Broker
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres

Verdict = tuple[str, str, str, str, str]   # result, action, detail, from, to
LEASE = 2.0


@pytest.fixture
def keys(postgres: Postgres, database: str) -> Iterator[Keys]:
    made = Keys(postgres, database)
    yield made
    made.close()


def call(of: Any, function: str, *parameters: Any) -> Verdict:
    places = ", ".join(["%s"] * len(parameters))
    ((*verdict,),) = of.query("SELECT result, action, detail, from_state::text, to_state::text FROM "
                              f"counterfoil.{function}({places})", parameters)
    return tuple(verdict)


def shown(of: Any, effect_id: int) -> tuple[int, str]:
    ((epoch, state),) = of.query(
        "SELECT epoch, state::text FROM counterfoil.effect_state WHERE id = %s", (effect_id,))
    return epoch, state


def order(of: Any, function: str, effect_id: int, *, reason: str = "why", dry_run: bool = False,
          operation: str | None = None, more: tuple[Any, ...] = (),
          before: tuple[Any, ...] = ()) -> Verdict:
    """About the key as it is; `before` stands before the reason, `more` behind the dry run."""
    return call(of, function, effect_id, *shown(of, effect_id), operation or str(uuid.uuid4()),
                *before, reason, "{}", dry_run, *more)


def replay(of: Any, effect_id: int, new_key: bool = False, **options: Any) -> Verdict:
    return order(of, "replay", effect_id, more=(new_key,), **options)


def resolve(of: Any, effect_id: int, happened: bool, provider_id: str | None = None,
            **options: Any) -> Verdict:
    return order(of, "resolve", effect_id, before=(happened, provider_id), **options)


def row(keys: Keys, effect_id: int) -> dict[str, Any]:
    return keys.value("SELECT to_jsonb(s) FROM counterfoil.effect_state s WHERE id = %s", (effect_id,))


def settings_of(keys: Keys, effect_id: int, **columns: Any) -> None:
    for name, value in columns.items():
        keys.query(f"UPDATE counterfoil.effect SET {name} = %s WHERE id = %s", (value, effect_id))


# --- the table of replays -------------------------------------------------------------------------

OPEN = {"first_sent": "1 hour", "window": "-1 hour"}
CLOSED = {"first_sent": "2 hours", "window": "1 min"}
UNKNOWN = {"unknown_sends": 1}
ONCE = {"mode": "at_most_once"}
NATURAL = {"mode": "natural"}

# state, the key, same key, new key: the state it goes to, or why it does not.
TABLE: list[tuple[str, dict[str, Any], str, str]] = [
    ("dead", OPEN, "pending", "pending"),
    ("dead", {**OPEN, "stored": True}, "would only repeat it", "pending"),
    ("dead", {**CLOSED, "stored": True}, "pending", "pending"),
    ("dead", {"stored": True}, "would only repeat it", "pending"),
    ("dead", {"method": None}, "never rendered", "never rendered"),
    ("dead", {**ONCE}, "pending", "pending"),
    ("dead", {**NATURAL}, "pending", "whatever the key"),
    ("pending", {"due": "-1 hour"}, "pending", "still to be sent"),
    ("pending", {}, "due already", "still to be sent"),
    ("pending", {"waiting": True}, "waits behind", "still to be sent"),
    ("pending", {"waiting": True, "aside": "charge"}, "effect charge is paused", "still to be sent"),
    ("retry_wait", {**UNKNOWN, "due": "-1 hour"}, "retry_wait", "still to be sent"),
    ("uncertain", {**UNKNOWN, **OPEN}, "pending", "pending"),
    ("uncertain", {**UNKNOWN, **OPEN, "stored": True}, "pending", "pending"),
    ("uncertain", {**UNKNOWN, **CLOSED}, "execute again as if new", "pending"),
    ("uncertain", {**UNKNOWN, **ONCE}, "may happen twice", "pending"),
    ("uncertain", {**UNKNOWN, **NATURAL}, "pending", "whatever the key"),
    ("uncertain", {"unknown_before": 1}, "under an earlier key", "pending"),
    ("uncertain", {**UNKNOWN, "unknown_before": 1, **OPEN}, "pending", "pending"),
    ("completed", {"http_status": 200}, "already completed", "completed"),
    ("in_flight", UNKNOWN, "take it over", "take it over"),
    ("cancelled", {}, "it was cancelled", "it was cancelled"),
    ("pruned", {}, "only its key is kept", "only its key is kept"),
]


def test_what_may_be_replayed(keys: Keys):
    """L35, L42: each state, with the same key and with a new one. What is refused or nothing to do
    changes nothing; a dry run foretells all of it and leaves no trace."""
    for n, (state, columns, *ends) in enumerate(TABLE):
        for new_key, end in zip((False, True), ends):
            key = keys.add(f"order:{n}:{new_key}", state, **columns)
            before, case = row(keys, key), (state, columns, new_key)
            audited = len(keys.audit())
            foretold = replay(keys, key, new_key, dry_run=True)
            assert (row(keys, key), len(keys.audit())) == (before, audited), case
            result, action, detail, was, now = replay(keys, key, new_key)
            if action != "force":
                assert (result, action, detail, was, now) == foretold, case
            if end == detail or end in detail and end not in tools.UNFINISHED:
                assert result == ("already" if "already" in detail else "refused"), case
                assert row(keys, key) == before and (was, now) == (state, state), case
            else:
                assert (result, now, row(keys, key)["state"]) == ("done", end, end), (case, detail)
                assert row(keys, key)["epoch"] == before["epoch"] + 1, case
            assert keys.audit()[-1]["detail"] == detail and len(keys.audit()) == audited + 1, case


def test_at_most_once_that_may_be_resent(keys: Keys):
    """A second time is fine for it: that was chosen."""
    key = keys.add("order:1", "uncertain", mode="at_most_once", unknown_sends=1)
    settings_of(keys, key, resend=True)
    assert replay(keys, key)[0::4] == ("done", "pending")


def test_a_shadow_is_never_sent(keys: Keys):
    key = keys.add("order:1", "completed", outcome="shadow")
    settings_of(keys, key, shadow=True)
    assert "already completed, as a shadow" in replay(keys, key)[2]
    assert replay(keys, key, True)[0:3:2] == (
        "refused", "it is a shadow: nothing of it is ever sent")


def test_what_is_past_its_time_is_not_replayed(keys: Keys):
    """But by force: whoever forces it knows what time it is."""
    for state in ("dead", "uncertain", "completed"):
        key = keys.add(f"order:{state}", state, unknown_sends=int(state == "uncertain"))
        keys.query("UPDATE counterfoil.effect SET not_after = now() - interval '1 s'")
        if state != "completed":
            assert "not_after" in replay(keys, key)[2] and "not_after" in replay(keys, key, True)[2]
        else:
            assert replay(keys, key, True)[0] == "done"
    assert keys.query("SELECT idempotency_key FROM counterfoil.effect WHERE not_after IS NULL") == \
        [("order:completed~r1",)]


def test_a_new_key(keys: Keys):
    """The provider's key is another one, and so is its window; what is unknown of the former one is
    remembered, and the attempts stand."""
    key = keys.add("order:1", "uncertain", first_sent="1 hour", sent="1 min", window="-1 hour",
                   unknown_sends=2, epoch=3, stalled=1, attempts=[{"outcome": "no_answer"}] * 2)
    assert replay(keys, key, True, reason="")[0:3:2] == ("refused", "a new key needs a reason")
    assert replay(keys, key, True)[2] == \
        "it runs again with a new key: if it has happened, it happens twice"
    now = row(keys, key)
    assert {name: now[name] for name in (
        "state", "epoch", "key_no", "unknown_sends", "unknown_before", "first_sent_at", "sent_at",
        "window_until", "tries", "attempts", "stalled", "replays")} == {
            "state": "pending", "epoch": 4, "key_no": 1, "unknown_sends": 0, "unknown_before": 2,
            "first_sent_at": None, "sent_at": None, "window_until": None, "tries": 2, "attempts": 0,
            "stalled": 0, "replays": 1}
    assert keys.value("SELECT count(*) FROM counterfoil.attempt") == 2
    keys.query("UPDATE counterfoil.effect_state SET state = 'uncertain', unknown_sends = 1")
    replay(keys, key, True)
    assert [row(keys, key)[name] for name in ("key_no", "unknown_before")] == [2, 3]


def test_the_same_key_keeps_what_is_unknown_and_its_window(keys: Keys):
    key = keys.add("order:1", "uncertain", unknown_sends=2, attempts=[{}, {}], **OPEN)
    before = row(keys, key)
    replay(keys, key)
    kept = ("unknown_sends", "unknown_before", "first_sent_at", "window_until", "key_no", "tries")
    assert [row(keys, key)[name] for name in kept] == [before[name] for name in kept]


def test_by_force(keys: Keys):
    """L35: an effect of its own beside the completed key, of which only the epoch moves; its number is no
    other's of the family, whoever of them it was made for, and is never given out again."""
    key = keys.add("order:1", "completed", tenant="a", subject="s", body={"n": 1}, http_status=200,
                   provider_id="ch_1")
    settings_of(keys, key, serial_key="s")
    keys.query("UPDATE counterfoil.effect_request SET emit = 'x', event_value = 'v'")
    before = row(keys, key)
    assert replay(keys, key, True, reason="")[0] == "refused"
    assert replay(keys, key, True)[1:] == (
        "force", "it is sent a second time, as key order:1~r1", "completed", "completed")
    assert row(keys, key) == {**before, "epoch": before["epoch"] + 1}
    ((first, number, state),) = keys.query(
        "SELECT id, key_no, state::text FROM counterfoil.effect JOIN counterfoil.effect_state "
        "USING (id) WHERE replay_of = %s", (key,))
    assert (number, state) == (1, "pending")
    for table, own in (("effect", {"id", "idempotency_key", "replay_of", "event_no", "created_at"}),
                       ("effect_request", {"id"})):
        here, there = ({name: value for name, value in keys.value(
            f"SELECT to_jsonb(t) FROM counterfoil.{table} t WHERE id = %s", (one,)).items()
                        if name not in own} for one in (key, first))
        assert here == there, table
    # of the copy: dead, with a new key; completed, by force; and of the first one again
    keys.query("UPDATE counterfoil.effect_state SET state = 'dead' WHERE id = %s", (first,))
    replay(keys, first, True)
    assert row(keys, first)["key_no"] == 2
    keys.query("UPDATE counterfoil.effect_state SET state = 'completed' WHERE id = %s", (first,))
    assert "order:1~r3" in replay(keys, first, True)[2]
    keys.query("DELETE FROM counterfoil.effect WHERE replay_of IS NOT NULL")
    assert "order:1~r4" in replay(keys, key, True)[2]
    assert keys.query("SELECT idempotency_key, replay_of FROM counterfoil.effect ORDER BY id") == \
        [("order:1", None), ("order:1~r4", key)]
    keys.query("DELETE FROM counterfoil.effect_request")
    assert replay(keys, key, True)[0:3:2] == (
        "refused", "its request is not kept any more: there is nothing to send")


def test_two_persons_force_it_once(keys: Keys):
    """Both were shown the same key. Whoever comes second, at the same time even, makes no third effect
    of it, unless he looks again and sees that it was forced."""
    key = keys.add("order:1", "completed")
    seen = shown(keys, key)
    with closing(keys.postgres.connect(keys.database, False)) as first, \
            closing(first.cursor()) as cursor, ThreadPoolExecutor(1) as second:
        force = (key, *seen, str(uuid.uuid4()), "why", "{}", False, True)
        cursor.execute(f"SELECT counterfoil.replay({', '.join(['%s'] * len(force))})", force)
        other = (key, *seen, str(uuid.uuid4()), "why", "{}", False, True)
        waits = second.submit(call, keys, "replay", *other)
        waiting.until(lambda: keys.postgres.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s",
            (keys.database,)), 10, "the other one")
        first.commit()
    assert waits.result() == (
        "changed", "new key", "it was replayed by force since", "completed", "completed")
    assert keys.value("SELECT count(*) FROM counterfoil.effect WHERE replay_of = %s", (key,)) == 1
    assert "replayed by force before, as order:1~r1" in replay(keys, key, True, dry_run=True)[2]
    assert "order:1~r2" in replay(keys, key, True)[2]


def test_a_forced_one_waits_for_its_serial_key(keys: Keys):
    key = keys.add("order:1", "completed")
    keys.add("order:2", "uncertain", unknown_sends=1, serial_key="s")
    settings_of(keys, key, serial_key="s")
    replay(keys, key, True)
    assert keys.value("SELECT waiting FROM counterfoil.effect_state ORDER BY id DESC LIMIT 1")


# --- decisions --------------------------------------------------------------------------------------

def test_it_happened(keys: Keys):
    key = keys.add("order:1", "uncertain", unknown_sends=1, error_class="timeout", epoch=3)
    keys.query("UPDATE counterfoil.effect_request SET emit = '{}'")
    assert resolve(keys, key, True, reason="")[0:3:2] == ("refused", "a decision needs a reason")
    assert resolve(keys, key, True, "ch_77", dry_run=True)[0] == "done"
    assert resolve(keys, key, True, "ch_77")[0::4] == ("done", "completed")
    now = row(keys, key)
    assert [now[name] for name in ("state", "epoch", "provider_id", "error_class", "emit_due",
                                   "resolution", "unknown_sends")] == \
        ["completed", 4, "ch_77", "", True, "it happened", 1]
    assert now["completed_at"]
    assert "as a person said, the provider's id is ch_77" in replay(keys, key)[2]
    assert resolve(keys, key, False)[0:3:2] == (
        "refused", "it is completed: only what is uncertain is decided")


def test_it_did_not_happen(keys: Keys):
    """Dead, with no send unaccounted for and no letter, and then a replay like any other; its window
    is what it was."""
    key = keys.add("order:1", "uncertain", unknown_sends=1, unknown_before=2, **OPEN)
    assert resolve(keys, key, False)[0::4] == ("done", "dead")
    now = row(keys, key)
    assert [now[name] for name in ("state", "unknown_sends", "unknown_before", "emit_due",
                                   "resolution", "completed_at")] == \
        ["dead", 0, 0, False, "it did not happen", None]
    assert now["window_until"] and keys.value("SELECT count(*) FROM counterfoil.outbox") == 0
    assert replay(keys, key)[0] == "done"
    assert row(keys, key)["resolution"] is None


@pytest.mark.parametrize("function, state, to", [
    ("resolve", "uncertain", "completed"), ("resolve", "uncertain", "dead"),
    ("cancel", "pending", "cancelled"), ("give_up", "retry_wait", "dead")])
def test_a_key_out_of_the_way_frees_the_next(keys: Keys, function: str, state: str, to: str):
    """Of its serial key, and of no other; what became uncertain frees nobody."""
    unknown = int(state == "uncertain")
    head = keys.add("order:1", state, serial_key="s", unknown_sends=unknown)
    for n, serial in ((2, "s"), (3, "s"), (4, "t")):
        keys.add(f"order:{n}", "pending", serial_key=serial, waiting=True)
    if function == "resolve":
        assert resolve(keys, head, to == "completed")[0::4] == ("done", to)
    else:
        assert order(keys, function, head)[0::4] == ("done", to)
    assert keys.query("SELECT waiting FROM counterfoil.effect_state ORDER BY id") == \
        [(False,), (False,), (True,), (True,)]


# --- what waits, what is stale ----------------------------------------------------------------------

@pytest.mark.parametrize("function, end, action", [("cancel", "cancelled", "cancel"),
                                                   ("give_up", "dead", "give up")])
def test_what_waits_is_taken_back(keys: Keys, function: str, end: str, action: str):
    """With a send unaccounted for, under whatever key, it becomes uncertain and says so."""
    for columns, to in (({}, end), ({"unknown_sends": 1}, "uncertain"),
                        ({"unknown_before": 1}, "uncertain")):
        for state in ("pending", "retry_wait"):
            key = keys.add(f"{state}:{columns}", state, aside="charge", waiting=True, **columns)
            result, did, detail, was, now = order(keys, function, key)
            assert (result, did, was, now) == ("done", action, state, to)
            assert ("may have happened" in detail) == (to == "uncertain")
            assert (row(keys, key)["state"], row(keys, key)["aside"]) == (to, None)
    assert order(keys, function, keys.add("again", end))[0] == "already"
    for state in ("completed", "uncertain", "in_flight", "pruned"):
        key = keys.add(state, state, unknown_sends=int(state in ("uncertain", "in_flight")))
        assert order(keys, function, key)[0] == "refused" and shown(keys, key) == (0, state)
    assert keys.query("SELECT DISTINCT emit_due, outcome, resolution FROM counterfoil.effect_state "
                      "WHERE state = %s AND resolution IS NOT NULL", (end,)) == \
        ([(True, "given_up", "given up")] if end == "dead" else [])


def test_a_stale_key_is_taken_over(keys: Keys):
    alive, gone = keys.ledger(), keys.ledger("ledger-2", alive=False)
    open_window = {"sent": "1 min", **OPEN, **UNKNOWN}
    for n, (columns, to) in enumerate([
            ({"owner": gone, **open_window}, "retry_wait"),
            ({"owner": 4711, **open_window}, "retry_wait"),
            ({"owner": alive, "deadline": "1 s", **open_window}, "retry_wait"),
            ({"owner": gone, "sent": "1 min", **CLOSED, **UNKNOWN}, "uncertain"),
            ({"owner": gone, "sent": "1 min", **ONCE, **UNKNOWN}, "uncertain"),
            ({"owner": gone, **ONCE}, "retry_wait"),
            ({"owner": alive, **open_window}, None)]):
        key = keys.add(f"order:{n}", "in_flight", tries=2, epoch=5, **columns)
        result, _, _, _, now = order(keys, "take_over", key)
        if to is None:
            assert result == "refused" and shown(keys, key) == (5, "in_flight")
            continue
        assert (result, now, shown(keys, key)) == ("done", to, (6, to)), columns
        after = row(keys, key)
        assert (after["owner"], after["takeovers"], after["attempts"], after["outcome"]) == \
            (None, 1, int("sent" in columns), "lost")
        assert keys.query("SELECT n, epoch, outcome, owner FROM counterfoil.attempt WHERE "
                          "effect_id = %s", (key,)) == [(2, 5, "lost", columns["owner"])]
    assert order(keys, "take_over", keys.add("dead"))[0] == "refused"


# --- notes and erasure ------------------------------------------------------------------------------

def test_a_note_changes_nothing(keys: Keys):
    """Not even for an answer that is still to come."""
    for state in ("completed", "uncertain", "dead", "in_flight"):
        key = keys.add(state, state, unknown_sends=int(state in ("uncertain", "in_flight")))
        before = row(keys, key)
        assert call(keys, "note", key, str(uuid.uuid4()), "asked them", "{}")[0] == "done"
        assert row(keys, key) == before
    assert call(keys, "note", key, str(uuid.uuid4()), "", "{}")[0] == "refused"
    assert [(a["action"], a["reason"]) for a in keys.audit()[:4]] == [("note", "asked them")] * 4


SECRET = "4242-personal"


def test_an_erased_key(keys: Keys):
    """Nothing of the content is left in any table, the audit included; the key, its state, its event
    and the provider's id are. An event that comes again meets it."""
    answer = {"outcome": "applied", "error": SECRET, "provider_id": "ch_1", "http_status": 200,
              "response_head": f"X: {SECRET}".encode(), "response_body": SECRET.encode()}
    key = keys.add("order:1", "completed", body={"card": SECRET}, subject=SECRET, attempts=[answer],
                   serial_key=SECRET, provider_id="ch_1")
    settings_of(keys, key, serial_key=SECRET)
    keys.query("UPDATE counterfoil.effect_request SET event_key = %s, event_value = %s, "
               "event_headers = %s, headers = %s, emit = %s, url = %s", (SECRET,) * 6)
    keys.query("INSERT INTO counterfoil.poison (topic, partition, \"offset\", hash, size, key, value, "
               "headers, reason, error, settled_at) SELECT topic, partition, \"offset\", '', 1, %s, %s, "
               "%s, 'r', %s, now() FROM counterfoil.effect", (SECRET,) * 4)
    call(keys, "note", key, str(uuid.uuid4()), "as asked for", "{}")
    assert order(keys, "erase", key, reason="")[0] == "refused"
    before = row(keys, key)
    assert order(keys, "erase", key)[0] == "done"
    tables = [name for (name,) in keys.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'counterfoil'")]
    for table in tables:
        for (text,) in keys.query(f"SELECT to_jsonb(t)::text FROM counterfoil.{table} t"):
            assert SECRET not in text and SECRET.encode().hex() not in text, table
    assert row(keys, key) == {**before, "serial_key": None}
    assert keys.query("SELECT idempotency_key, event_id IS NOT NULL, fingerprint IS NOT NULL "
                      "FROM counterfoil.effect") == [("order:1", True, True)]
    assert keys.query("SELECT provider_id FROM counterfoil.attempt") == [("ch_1",)]
    assert "not kept any more" in replay(keys, key, True)[2]


def test_what_is_not_erased(keys: Keys):
    for state in ("pending", "retry_wait", "in_flight", "uncertain"):
        key = keys.add(state, state, unknown_sends=int(state in ("uncertain", "in_flight")))
        assert order(keys, "erase", key)[0:3:2] == (
            "refused", f"it is {state.replace('_', ' ')}: it has not ended")
    assert "emitted" in order(keys, "erase", keys.add("due", "completed", emit_due=True))[2]
    forced = keys.add("forced", "completed")
    replay(keys, forced, True)
    assert "have their own copies" in order(keys, "erase", forced)[2]


# --- what all have in common ------------------------------------------------------------------------

FUNCTIONS = [("replay", "dead", ()), ("resolve", "uncertain", (True, None)), ("cancel", "pending", ()),
             ("give_up", "pending", ()), ("take_over", "in_flight", ()), ("erase", "completed", ())]


@pytest.mark.parametrize("function, state, before", FUNCTIONS, ids=[f for f, _, _ in FUNCTIONS])
def test_an_order_is_given_once_about_what_was_shown(keys: Keys, function: str, state: str,
                                                     before: tuple[Any, ...]):
    unknown = {"unknown_sends": int(state in ("uncertain", "in_flight"))}
    key = keys.add("order:1", state, epoch=3, due="-1 hour", **unknown)
    other = keys.add("order:2", state, epoch=3, due="-1 hour", **unknown)
    for epoch, other_state in ((2, state), (4, state), (3, "pruned")):
        assert call(keys, function, key, epoch, other_state, str(uuid.uuid4()), *before, "why",
                    "{}")[0] == "changed"
    assert shown(keys, key) == (3, state)
    assert call(keys, function, 99, 3, state, str(uuid.uuid4()), *before, "why", "{}")[0] == "missing"
    operation = str(uuid.uuid4())
    first = order(keys, function, key, before=before, operation=operation)
    now = row(keys, key)
    assert first[0] == "done" and order(keys, function, key, before=before,
                                        operation=operation) == first
    assert row(keys, key) == now and len(keys.audit()) == 4
    with pytest.raises(Exception, match="was about another key"):
        order(keys, function, other, before=before, operation=operation)
    assert shown(keys, other) == (3, state)


def test_nobody_may_by_default(keys: Keys):
    """Neither the functions nor what they are made of."""
    keys.query("CREATE ROLE nobody_at_all")
    try:
        assert keys.query(
            "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE "
            "n.nspname = 'counterfoil' AND p.prosrc ~ 'effect_state|audit|key_number' AND "
            "has_function_privilege('nobody_at_all', p.oid, 'EXECUTE')") == []
    finally:
        keys.query("DROP ROLE nobody_at_all")


# --- with a ledger at work --------------------------------------------------------------------------

@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    single = {"retry": {**tools.RETRY, "attempts": 1}}
    with tools.opened(
            tmp_path_factory.mktemp("orders"), postgres, template, shared_broker, "orders_bench",
            effects=[effect("kept"), effect("single", **single), effect("later", delay="1h"),
                     effect("once", "legacy", mode="at_most_once")],
            targets=[{"name": "legacy", "profile": "plain"}],
            settings={"ledger": {"lease": f"{LEASE:g}s"}}) as bench:
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()


def begin(bench: Bench, event_type: str, *faults: dict[str, Any]) -> int:
    """An order whose requests meet these faults; it is finished."""
    number = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(number)}", **fault})
    announce(bench.world, [number], event_type)
    wait_finished(bench.world, [number])
    return number


def sent_keys(bench: Bench, number: int) -> list[str]:
    return [seen.key for seen in bench.world.provider.requests()
            if (seen.key or "").split("~")[0] == key_name(number)]


def charges(bench: Bench, number: int) -> int:
    return sum(n for key, n in bench.world.provider.charges_by_key().items()
               if (key or "").split("~")[0] == key_name(number))


def test_a_stored_error_needs_a_new_key(bench: Bench):
    """The provider keeps its 402 for the key: the same key would only bring it back."""
    number = begin(bench, "kept", {"kind": "status", "status": 402})
    name, key = key_name(number), key_of(bench.world, number)
    assert key.state == "dead" and "would only repeat it" in replay(bench.world, key.id)[2]
    assert replay(bench.world, key.id, True)[0] == "done"
    wait_state(bench.world, number, "completed")
    assert sent_keys(bench, number) == [name, f"{name}~r1"] and charges(bench, number) == 1


def test_another_error_does_not(bench: Bench):
    number = begin(bench, "kept", {"kind": "status", "status": 404})
    assert replay(bench.world, key_of(bench.world, number).id)[0] == "done"
    wait_state(bench.world, number, "completed")
    assert sent_keys(bench, number) == [key_name(number)] * 2 and charges(bench, number) == 1


def test_what_is_uncertain_is_sent_again_with_the_same_key(bench: Bench):
    """It had been applied: the provider says so again, and it was charged once."""
    number = begin(bench, "single", {"kind": "reset", "apply": True})
    key = key_of(bench.world, number)
    assert key.state == "uncertain" and replay(bench.world, key.id)[0] == "done"
    wait_state(bench.world, number, "completed")
    assert sent_keys(bench, number) == [key_name(number)] * 2 and charges(bench, number) == 1


def test_a_new_key_is_never_dead_while_the_former_is_unknown(bench: Bench):
    """It had been applied under the first key, and the second is refused: uncertain, not dead."""
    number = begin(bench, "single", {"kind": "reset", "apply": True},
                   {"kind": "status", "status": 402})
    name, key = key_name(number), key_of(bench.world, number)
    assert replay(bench.world, key.id, True)[0] == "done"
    now = wait_state(bench.world, number, "uncertain")
    assert (now.epoch > key.epoch, now.unknown_sends, now.http_status) == (True, 0, 402)
    assert "under an earlier key" in replay(bench.world, key.id)[2]
    assert sent_keys(bench, number) == [name, f"{name}~r1"] and charges(bench, number) == 1


def test_by_force_it_happens_a_second_time(bench: Bench):
    """The completed key stays so, whatever comes of the other; its event again is a no-op."""
    number = begin(bench, "kept")
    world, name, key = bench.world, key_name(number), key_of(bench.world, number)
    assert "already completed" in replay(world, key.id)[2]
    assert replay(world, key.id, True)[1] == "force"
    waiting.until(lambda: world.state(f"{name}~r1") == "completed", 10, "the second time")
    assert sent_keys(bench, number) == [name, f"{name}~r1"] and charges(bench, number) == 2
    announce(world, [number], "kept")
    waiting.until(lambda: world.unread() == 0, 10, "its event to be read again")
    assert key_of(world, number) == replace(key, epoch=key.epoch + 1) and charges(bench, number) == 2


def test_a_second_mail_or_the_like_is_for_a_person_to_accept(bench: Bench):
    number = begin(bench, "once", {"kind": "reset"})
    key = key_of(bench.world, number)
    assert "may happen twice" in replay(bench.world, key.id)[2]
    assert replay(bench.world, key.id, True)[0] == "done"
    wait_state(bench.world, number, "completed")
    assert len(attempts_of(bench.world, number)) == 2


def test_what_was_cancelled_is_never_sent(bench: Bench):
    """And run at once it would have been: its event again changes nothing either."""
    withdrawn, wanted = bench.orders(2)
    announce(bench.world, [withdrawn, wanted], "later")
    for number in (withdrawn, wanted):
        wait_state(bench.world, number, "pending")
    assert order(bench.world, "cancel", key_of(bench.world, withdrawn).id)[0] == "done"
    assert replay(bench.world, key_of(bench.world, wanted).id)[0:2] == ("done", "run now")
    announce(bench.world, [withdrawn], "later")
    wait_state(bench.world, wanted, "completed")
    waiting.until(lambda: bench.world.unread() == 0, 10, "the event to be read again")
    assert sent_keys(bench, withdrawn) == [] and bench.world.state(key_name(withdrawn)) == "cancelled"


def test_what_was_given_up_sends_its_dead_letter(bench: Bench):
    """Once, whatever is swept later; and it can be replayed."""
    world, number = bench.world, bench.order()
    announce(world, [number], "later")
    key = wait_state(world, number, "pending")
    assert order(world, "give_up", key.id)[0::4] == ("done", "dead")

    def letters() -> list[Any]:
        return [letter for letter in world.messages(f"{world.topic}.dlq")
                if letter.header("cf-event-id") == f"event-{number}"]
    (letter,) = waiting.until(letters, 20, "the letter")
    assert letter.header("cf-dead-reason") == "given_up"
    assert replay(world, key.id)[0] == "done"
    wait_state(world, number, "completed")
    assert len(letters()) == 1 and sent_keys(bench, number) == [key_name(number)]


@pytest.mark.parametrize("happened, state", [(True, "completed"), (False, "dead")])
def test_a_late_answer_does_not_overrule_a_person(bench: Bench, happened: bool, state: str):
    """L5: the ledger is stopped in its call, and taken over; a person decides, and then it says that
    it happened. That is kept as evidence only."""
    world, number = bench.world, bench.order()
    ledger = world.ledgers[0]
    world.provider.fault("pass", times=1, delay_answer=0.5, key=f"^{key_name(number)}$")
    announce(world, [number], "once")
    waiting.until(lambda: world.value(
        "SELECT count(*) FROM counterfoil.effect_state s JOIN counterfoil.effect e USING (id) WHERE "
        "e.idempotency_key = %s AND s.sent_at IS NOT NULL", (key_name(number),)) == 1, 10, "the send")
    ledger.freeze()
    key = key_of(world, number)
    waiting.until(lambda: order(world, "take_over", key.id)[0] == "done", 10, "its lease to end",
                  every=0.2)
    assert world.state(key_name(number)) == "uncertain"
    assert resolve(world, key.id, happened)[0::4] == ("done", state)
    ledger.thaw()
    waiting.until(lambda: [a.outcome for a in attempts_of(world, number) if a.late], 10,
                  "the late answer")
    assert world.state(key_name(number)) == state
    # it had to let its lease go, and is there again
    again = begin(bench, "kept")
    assert world.state(key_name(again)) == "completed"
