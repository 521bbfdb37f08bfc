"""Whatever a provider does, in every mode: what becomes of the key, how many requests the provider
saw, and how much of the budget was used.

All rows of the table are played at once, in one world; ROWS is the table."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, same_bytes, wait_finished)
from tests.tools.broker import Broker
from tests.tools.endpoints import Endpoints
from tests.tools.postgres import Postgres
from tests.tools.provider import Seen
from tests.tools.world import World

ATTEMPTS = tools.RETRY["attempts"]
MEGABYTE = 1024 * 1024
ROOM = 32 * MEGABYTE
PATIENT = {"timeout": "3s"}      # the provider is one process, and busy
ONCE = {"mode": "at_most_once"}
PUT = {"mode": "natural", "request": {"method": "PUT", "path": "/v1/put/${/order_id}"}}
DELETE = {"mode": "natural",
          "request": {"method": "DELETE", "path": "/v1/delete/${/order_id}", "body": ""}}
# Each is an effect and a type of event.
COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "charge": ("stripe", {}),            # idempotent, at a provider that stores every answer
    "picky": ("picky", {}),              # idempotent, at one that stores what succeeded
    "once": ("legacy", ONCE),            # at_most_once, at one of which nothing is known
    "safe": ("picky", ONCE),             # at_most_once, at one that says when nothing was done
    "put": ("legacy", PUT),
    "delete": ("legacy", DELETE),
}
PICKY = {"name": "picky", "window": "24h", "stores_errors": "2xx", "in_progress": [409],
         "mismatch": [422], "safe_503": True}
MODES = {"idempotent": {}, "once": ONCE, "natural": PUT}
UNREACHABLE = {"dns": "1s", "refused": "1s", "mute": "100ms", "tls-mute": "100ms",
               "tls-stranger": "2s", "tls-expired": "2s"}     # and how long is waited for them


# --- the table ------------------------------------------------------------------------------------

@dataclass(frozen=True)
class End:
    """Of one key."""

    state: str
    outcomes: tuple[str, ...]            # of its attempts, but for those that we took back
    attempts: int                        # used of the budget
    unknown: int = 0                     # sends of which nobody knows
    charges: int | None = None           # None: one if it is completed, else as the fault has it


DONE = End("completed", ("applied",), 1)
GONE = End("completed", ("applied",), 1, charges=0)     # there was nothing left to be done
DEAD = End("dead", ("refused",), 1)


def again(outcome: str, used: int = 1) -> End:
    """Sent once more, and completed."""
    return End("completed", (outcome, "applied"), 1 + used)


def unknown(outcome: str) -> End:
    """One request ever; a person decides."""
    return End("uncertain", (outcome,), 1, unknown=1)


def columns(repeatable: End, once: End, **others: End) -> dict[str, End]:
    return {"charge": repeatable, "picky": repeatable, "put": repeatable, "delete": repeatable,
            "once": once, "safe": once, **others}


NOTHING_SAID = columns(again("no_answer"), unknown("no_answer"))
TROUBLE = columns(again("server_error"), unknown("server_error"))
NOT_DONE = columns(again("try_later"), again("try_later"))
FINAL = columns(DEAD, DEAD)
ANSWERED = columns(DONE, DONE)
IN_PROGRESS = End("completed", ("in_progress", "applied"), 1)
MISMATCH = End("dead", ("mismatch",), 1)
SPENT = End("uncertain", ("no_answer",) * ATTEMPTS, ATTEMPTS, unknown=ATTEMPTS)


@dataclass(frozen=True)
class Row:
    name: str
    ends: dict[str, End]
    faults: tuple[dict[str, Any], ...] = field(hash=False)     # one after the other, then none

    @property
    def applied(self) -> bool:
        return any(fault.get("apply", fault["kind"] not in ("status", "hang", "reset", "close"))
                   for fault in self.faults)


def row(name: str, ends: dict[str, End], *faults: dict[str, Any]) -> Row:
    return Row(name, ends, faults)


def statuses(ends: dict[str, End], *known: int, **more: Any) -> list[Row]:
    return [row(str(status), ends, {"kind": "status", "status": status, **more})
            for status in known]


HUGE = [row("ten gigabytes", ANSWERED, {"kind": "huge_body"}),
        row("ten gigabytes in chunks", ANSWERED, {"kind": "huge_body", "chunked": True}),
        row("ten gigabytes, compressed", ANSWERED, {"kind": "bomb"})]
ROWS = [
    *(row(f"{kind}{', applied' if apply else ''}", NOTHING_SAID, {"kind": kind, "apply": apply})
      for kind in ("hang", "reset", "close", "garbage", "cut_headers") for apply in (False, True)),
    *statuses(NOTHING_SAID, 0, 99, 502, 504, 600, 999),
    row("502, applied", NOTHING_SAID, {"kind": "status", "status": 502, "apply": True}),
    row("silence to the end", columns(SPENT, unknown("no_answer")),
        {"kind": "reset", "times": ATTEMPTS, "apply": False}),
    # --- an answer, as far as it came
    *statuses(ANSWERED, 200, 201, 202, 204, 206, 299, apply=True),
    *(row(kind, ANSWERED, {"kind": kind}) for kind in ("cut_body", "slow_body")),
    *HUGE,
    # --- redirects
    *statuses(FINAL, 300, 301, 305, 307, 308, headers=[["Location", "/v1/elsewhere"]]),
    *statuses(TROUBLE, 302, 303, headers=[["Location", "/v1/elsewhere"]]),
    *statuses(columns(DEAD, DEAD, put=GONE), 304),
    # --- refusals
    *statuses(FINAL, 400, 402, 405, 406, 411, 412, 413, 414, 415, 416, 417, 418, 423, 424, 426, 428,
              431, 451, 499, 501, 505),
    *statuses(columns(DEAD, DEAD, delete=GONE), 404, 410),
    *statuses(columns(DEAD, DEAD, picky=MISMATCH, safe=MISMATCH), 422),
    *statuses({name: End("dead", ("forbidden",), 1) for name in COLUMNS}, 403),
    # --- not now
    *statuses(columns(DEAD, DEAD, charge=IN_PROGRESS, picky=IN_PROGRESS,
                      safe=End("uncertain", ("in_progress",), 0, unknown=1)), 409),
    *statuses(NOT_DONE, 421, 425),
    *statuses(TROUBLE, 408, 500, 506, 507, 508, 510, 511, 520, 599),
    *statuses({**TROUBLE, "picky": again("try_later"), "safe": again("try_later")}, 503),
    row("500, applied", TROUBLE, {"kind": "status", "status": 500, "apply": True}),
    row("503 to the end", columns(
        End("uncertain", ("server_error",) * ATTEMPTS, ATTEMPTS, unknown=ATTEMPTS),
        unknown("server_error"),
        picky=End("dead", ("try_later",) * ATTEMPTS, ATTEMPTS),
        safe=End("dead", ("try_later",) * ATTEMPTS, ATTEMPTS)),
        {"kind": "status", "status": 503, "times": ATTEMPTS}),
    row("500, kept for the key", {"charge": End(
        "uncertain", ("server_error",) * 4, 1, unknown=4)},
        {"kind": "status", "status": 500, "apply": True, "store": True}),
    row("402, kept for the key", {"charge": DEAD},
        {"kind": "status", "status": 402, "store": True}),
    # --- a refusal that comes after a request that was lost
    row("lost, then 402", columns(
        End("uncertain", ("no_answer", "refused"), 2, unknown=1), unknown("no_answer"),
        charge=End("dead", ("no_answer", "refused"), 2)),
        {"kind": "reset", "apply": False}, {"kind": "status", "status": 402}),
    row("lost, then 404", columns(
        End("uncertain", ("no_answer", "refused"), 2, unknown=1), unknown("no_answer"),
        delete=End("completed", ("no_answer", "applied"), 2)),
        {"kind": "reset", "apply": True}, {"kind": "status", "status": 404}),
    row("lost, then 500", columns(
        End("completed", ("no_answer", "server_error", "applied"), 3), unknown("no_answer")),
        {"kind": "hang", "apply": True}, {"kind": "status", "status": 500}),
]
# --- Retry-After, of a 503: at least and at most how many seconds
WAITS = {
    "digits": (2, "digits", 2, 2), "imf": (3, "imf", 2, 3), "rfc850": (3, "rfc850", 2, 3),
    "asctime": (3, "asctime", 2, 3), "past": (-60, "imf", 0, 0), "junk": (9, "junk", 0, 0),
    "zero": (0, "digits", 0, 0), "far": (86400, "digits", 3600, 3600),
    "far-date": (86400, "imf", 3600, 3600)}


# --- the world ------------------------------------------------------------------------------------

@dataclass
class Played:
    bench: Bench
    orders: dict[tuple[str, str], int]            # of each row and column
    waits: dict[str, int]
    unreachable: dict[tuple[str, str], int]       # of each place and mode
    ends: dict[int, End]                          # of all these orders
    requests: dict[str | None, list[Seen]]
    grown: int                                    # memory by large bodies, in bytes


def memory_peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def targets(places: Endpoints) -> list[dict[str, Any]]:
    plain = {"profile": "plain"}
    return [
        {"name": "stripe", **PATIENT}, {"name": "picky", "profile": "picky", **PATIENT},
        {"name": "legacy", **plain, **PATIENT},
        *({"name": f"{kind}-{mode}", "concurrency": 1, **({} if mode == "idempotent" else plain)}
          for kind in ("guarded", "forbidding", "throttled", "single") for mode in MODES),
        *({"name": f"{place}-{mode}", "url": places.urls[place],
           "connect_timeout": patience, "timeout": patience,
           "ca_file": places.ca_files.get(place, ""),
           **({} if mode == "idempotent" else plain)}
          for place, patience in UNREACHABLE.items() for mode in MODES)]


def effects() -> list[dict[str, Any]]:
    return [
        *(effect(name, target, **changes) for name, (target, changes) in COLUMNS.items()),
        *(effect(f"{kind}-{mode}", f"{kind}-{mode}", **changes)
          for kind in ("guarded", "forbidding", "throttled", "single")
          for mode, changes in MODES.items()),
        *(effect(f"{place}-{mode}", f"{place}-{mode}", **{**changes, "not_after": "4s"})
          for place in UNREACHABLE for mode, changes in MODES.items())]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Played]:
    directory = tmp_path_factory.mktemp("outcomes")
    places = Endpoints(directory / "endpoints")
    try:
        with tools.opened(directory, postgres, template, shared_broker, "outcomes_bench",
                          effects=effects(), targets=targets(places), profiles=[PICKY]) as bench:
            bench.world.ledgers[0].allow_errors(
                r"target held.*target=(guarded|forbidding|tls-stranger|tls-expired)-",
                "dead.*outcome=mismatch")
            yield play(bench)
    finally:
        places.close()


@pytest.fixture
def played(opened: Played, request: pytest.FixtureRequest) -> Iterator[Played]:
    request.node.worlds = [opened.bench.world]
    yield opened
    opened.bench.world.provider.clear()


def meet(bench: Bench, event_type: str, *faults: dict[str, Any]) -> int:
    order = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(order)}$", **fault})
    announce(bench.world, [order], event_type)
    return order


def play(bench: Bench) -> Played:
    """Everything that needs nothing but its own key."""
    world = bench.world
    unreachable = {(place, mode): meet(bench, f"{place}-{mode}")
                   for place in UNREACHABLE for mode in MODES}
    orders = {(one.name, column): meet(bench, column, *one.faults)
              for one in ROWS if one not in HUGE for column in one.ends}
    waits = {name: meet(bench, "picky", {
        "kind": "status", "status": 503, "retry_after": {"seconds": seconds, "form": form}})
        for name, (seconds, form, _, _) in WAITS.items()}
    wait_finished(world, [*orders.values(), *unreachable.values()], timeout=60)
    peak = memory_peak(world.ledgers[0].pid)
    for one in HUGE:        # the provider is kept busy by them
        for column in one.ends:
            orders[one.name, column] = meet(bench, column, *one.faults)
        wait_finished(world, [orders[one.name, column] for column in one.ends])
    requests: dict[str | None, list[Seen]] = {}
    for seen in world.provider.requests():
        requests.setdefault(seen.key, []).append(seen)
    finished = [*orders.values(), *unreachable.values()]
    return Played(bench, orders, waits, unreachable, ends_of(world, finished), requests,
                  memory_peak(world.ledgers[0].pid) - peak)


def ends_of(world: World, orders: list[int]) -> dict[int, End]:
    charges = world.provider.charges_by_key()
    rows = world.query(
        "SELECT e.idempotency_key, s.state::text, s.attempts, s.unknown_sends, ARRAY("
        "SELECT a.outcome::text FROM counterfoil.attempt a WHERE a.effect_id = e.id "
        "AND a.outcome <> 'aborted' ORDER BY a.n) "
        "FROM counterfoil.effect e JOIN counterfoil.effect_state s USING (id)")
    ends = {key: End(state, tuple(outcomes), attempts, unknown_sends, charges[key])
            for key, state, attempts, unknown_sends, outcomes in rows}
    return {order: ends[key_name(order)] for order in orders}


# --- what came of it ------------------------------------------------------------------------------

def end_of(played: Played, order: int) -> tuple[End, int]:
    """And the number of requests."""
    return played.ends[order], len(played.requests.get(key_name(order), []))


def expected(end: End, applied: bool) -> tuple[End, int]:
    charges = end.charges
    if charges is None:
        charges = int(end.state == "completed" or applied)
    return (End(end.state, end.outcomes, end.attempts, end.unknown, charges), len(end.outcomes))


@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.name)
def test_every_outcome_in_every_mode(played: Played, one: Row):
    """L21, L24: state, attempts, requests and charges."""
    seen = {column: end_of(played, played.orders[one.name, column]) for column in one.ends}
    assert seen == {column: expected(end, one.applied) for column, end in one.ends.items()}
    for column in one.ends:
        assert same_bytes(played.requests[key_name(played.orders[one.name, column])])


@pytest.mark.parametrize("place, class_of_error", [
    ("dns", "dns"), ("refused", "connect"), ("mute", "connect"), ("tls-mute", "connect")])
def test_where_no_request_arrives(played: Played, place: str, class_of_error: str):
    """Tried again and again, which uses nothing; in the end certainly not applied."""
    ledger = played.bench.world.ledgers[0]
    for mode in MODES:
        order = played.unreachable[place, mode]
        key = key_of(played.bench.world, order)
        assert (key.state, key.attempts, key.unknown_sends) == ("dead", 0, 0), mode
        assert key.first_sent_at is None
        outcomes = outcomes_of(played.bench.world, order)
        assert len(outcomes) >= 2 and "not_sent" in outcomes
        assert set(outcomes) <= {"not_sent", "aborted"}
        said = ledger.said("retry_wait", id=key.id)
        assert {line.fields["error"] for line in said} == {class_of_error}


@pytest.mark.parametrize("place", ["tls-stranger", "tls-expired"])
def test_a_certificate_that_is_refused_holds_the_target(played: Played, place: str):
    """It is not the key's fault: nothing is used, and nothing more is tried."""
    world = played.bench.world
    for mode in MODES:
        key = key_of(world, played.unreachable[place, mode])
        assert (key.state, key.attempts, key.unknown_sends) == ("dead", 0, 0), mode
        outcomes = outcomes_of(world, played.unreachable[place, mode])
        assert outcomes.count("credentials") == 1
        assert set(outcomes) <= {"not_sent", "credentials", "aborted"}
        assert world.query(
            "SELECT held, held_by, hold_reason FROM counterfoil.target_state WHERE target = %s",
            (f"{place}-{mode}",)) == [(True, "system", "certificate")]


@pytest.mark.parametrize("name", WAITS)
def test_retry_after(played: Played, name: str):
    """In every form, against the answer's own date; never for longer than an hour."""
    order, (_, _, least, most) = played.waits[name], WAITS[name]
    world = played.bench.world
    waiting.until(lambda: attempts_of(world, order), 10, "its first attempt")
    if most < 60:
        wait_finished(world, [order])
    waited = key_of(world, order).due_at.timestamp() - requests_of(world, order)[0].t
    assert least <= waited <= most + 2
    world.query("UPDATE counterfoil.effect_state SET due_at = now() WHERE id = %s "
                "AND state = 'retry_wait'", (key_of(world, order).id,))
    wait_finished(world, [order])
    assert key_of(world, order).state == "completed"


def test_little_memory_is_used(played: Played):
    """Bodies of ten gigabytes, measured, chunked and compressed, one of each for every mode."""
    assert played.grown < ROOM
    kept = {}
    for one in HUGE:
        (attempt,) = attempts_of(played.bench.world, played.orders[one.name, "charge"])
        assert attempt.truncated and len(attempt.response_body) == 16 * 1024
        kept[one.name] = attempt.response_body
    bomb = kept["ten gigabytes, compressed"]
    assert zlib.decompressobj(31).decompress(bomb, 100) == bytes(100), "kept as it came"


@pytest.mark.parametrize("name", ["421", "425"])
def test_another_connection_is_taken(played: Played, name: str):
    for column in COLUMNS:
        first, second = played.requests[key_name(played.orders[name, column])]
        assert first.connection != second.connection


def test_no_redirect_is_followed(played: Played):
    assert not [seen for seen in played.bench.world.provider.requests()
                if seen.path == "/v1/elsewhere"]


# --- what is the target's matter ------------------------------------------------------------------

def probe_now(bench: Bench, target: str) -> None:
    bench.world.query("UPDATE counterfoil.target_state SET probe_at = now() WHERE target = %s",
                      (target,))


def wait_held(bench: Bench, kind: str) -> None:
    waiting.until(lambda: bench.world.value(
        "SELECT count(*) FROM counterfoil.target_state WHERE held AND target LIKE %s",
        (f"{kind}-%",)) == len(MODES), 10, "the targets to be held")


def test_401_holds_the_target(played: Played):
    bench, world = played.bench, played.bench.world
    orders = {mode: meet(bench, f"guarded-{mode}", {"kind": "status", "status": 401})
              for mode in MODES}
    wait_held(bench, "guarded")
    for mode, order in orders.items():
        waiting.until(lambda n=order: key_of(world, n).state == "retry_wait", 10, "its answer")
        probe_now(bench, f"guarded-{mode}")
    wait_finished(world, orders.values())
    for mode, order in orders.items():
        key = key_of(world, order)
        assert (key.state, key.attempts, key.unknown_sends) == ("completed", 1, 0), mode
        assert outcomes_of(world, order) == ["credentials", "applied"]
        assert len(requests_of(world, order)) == 2 and charges_of(world, order) == 1


def test_403_for_five_keys_holds_the_target(played: Played):
    bench, world = played.bench, played.bench.world
    orders = {mode: [meet(bench, f"forbidding-{mode}", {"kind": "status", "status": 403})
                     for _ in range(5)] for mode in MODES}
    wait_held(bench, "forbidding")
    for mode in MODES:
        probe_now(bench, f"forbidding-{mode}")
    wait_finished(world, sum(orders.values(), []))
    for mode in MODES:
        keys = sorted((key_of(world, n).state, tuple(outcomes_of(world, n)),
                       key_of(world, n).attempts) for n in orders[mode])
        assert keys == [("completed", ("credentials", "applied"), 1),
                        *[("dead", ("forbidden",), 1)] * 4], mode


def test_429_pauses_the_target(played: Played):
    """More of them than there are attempts, and none is used; meanwhile nobody else is sent."""
    bench, world = played.bench, played.bench.world
    throttled = {"kind": "status", "status": 429}
    orders = {mode: (meet(bench, f"throttled-{mode}", {**throttled, "times": 6}),
                     meet(bench, f"throttled-{mode}", {**throttled, "retry_after": {"seconds": 1}}))
              for mode in MODES}
    wait_finished(world, sum(map(list, orders.values()), []))
    for mode, (order, other) in orders.items():
        key = key_of(world, order)
        assert (key.state, key.attempts, key.throttled) == ("completed", 1, 6), mode
        assert key.unknown_sends == 0
        requests, (first, _) = requests_of(world, order), requests_of(world, other)
        assert len(requests) == 7 and charges_of(world, order) == 1
        early = [r.t for r in requests if first.t < r.t < first.t + 0.9]
        assert not early, f"{mode}: the pause was not the target's"


@pytest.mark.parametrize("mode, ends", [
    ("idempotent", ("completed", 2)), ("once", ("uncertain", 1)),
    ("natural", ("completed", 2))])
def test_libcurl_sends_nothing_by_itself(played: Played, mode: str, ends: tuple[str, int]):
    """L20: a kept connection is closed when its second request was read."""
    bench, world = played.bench, played.bench.world
    warm = meet(bench, f"single-{mode}")
    wait_finished(world, [warm])
    (first,) = requests_of(world, warm)
    order = meet(bench, f"single-{mode}", {"kind": "close", "apply": True, "nth": first.nth + 1})
    wait_finished(world, [order])
    requests = requests_of(world, order)
    assert (key_of(world, order).state, len(requests)) == ends
    assert (requests[0].connection, requests[0].nth) == (first.connection, first.nth + 1)
    assert charges_of(world, order) == 1 and same_bytes(requests)


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(played: Played):
    """Every event of the tests above comes again, as a copy and by a rewind."""
    played.bench.world.query("UPDATE counterfoil.effect_state SET due_at = now() "
                             "WHERE state = 'retry_wait' AND due_at > now() + '1 minute'")
    played.bench.world.wait_drained()
    played.bench.world.run_twice()
