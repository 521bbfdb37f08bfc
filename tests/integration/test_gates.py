"""The gates before a target: its rate, its breaker, an endpoint that is gone, and people who hold and
release it."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any, Callable, Iterable

import pytest

from tests.tools import health, programs, waiting
from tests.tools.bench import announce, key_name, wait_finished
from tests.tools.programs import Program
from tests.tools.world import World

LEASE = 1.0
Settle = Callable[..., World]


@pytest.fixture
def settle(make_world: Callable[..., World]) -> Settle:
    """A world without a relay, with quick retries; its ledgers run, or are made and not started."""
    def make(ledgers: int = 1, start: bool = True, effect: dict[str, Any] | None = None,
             **target: Any) -> World:
        retry = {"first": "20ms", "max": "100ms", "attempts": 4}
        world = make_world(effect={"retry": retry, **(effect or {})},
                           target={"timeout": "1s", **target},
                           settings={"ledger": {"lease": f"{LEASE:g}s"}, "log": {"level": "debug"}})
        for _ in range(ledgers):
            world.ledger()
        if start:
            for ledger in world.ledgers:
                ledger.start(ready=False)
            for ledger in world.ledgers:
                ledger.wait_for("ready")
        return world
    return make


def arrivals(world: World) -> list[float]:
    return [request.t for request in world.provider.requests()]


def most_in_a_second(times: list[float]) -> int:
    """The greatest number of them that any second saw, wherever it begins."""
    ordered, most, first = sorted(times), 0, 0
    for last, at in enumerate(ordered):
        while ordered[first] <= at - 1:
            first += 1
        most = max(most, last - first + 1)
    return most


def between(times: Iterable[float], start: float, end: float) -> int:
    return sum(start <= t < end for t in times)


def pass_seconds(seconds: float) -> tuple[float, float]:
    """From now on, for so long: when that was."""
    start = time.time()
    waiting.until(lambda: time.time() - start >= seconds, seconds + 10, "the time to pass")
    return start, start + seconds


def target_row(world: World, target: str = "payments") -> dict[str, Any]:
    found = world.query("SELECT to_jsonb(t) FROM counterfoil.target_state t WHERE target = %s",
                        (target,))
    return found[0][0] if found else {}


def waits(world: World) -> int:
    states = world.states()
    return states["pending"] + states["retry_wait"]


# --- rates ----------------------------------------------------------------------------------------

def test_no_second_sees_more_than_the_rate(settle: Settle):
    """One ledger uses the whole rate, two share it, and when one of them is killed the other has all
    of it once the lease is over. Whatever happens, no second sees more."""
    rate, spare = 40, 8          # a bucket holds two; the rest is how a request travels
    world = settle(ledgers=2, start=False, rate=f"{rate}/s")
    first, second = world.ledgers
    first.start()
    announce(world, range(1, 1201))
    waiting.until(lambda: len(arrivals(world)) > 3, 20, "the first requests")
    start, end = pass_seconds(1.5)
    assert between(arrivals(world), start, end) >= 0.8 * rate * 1.5, "the rate is not used"
    second.start()
    owners = "SELECT count(DISTINCT owner) FROM counterfoil.attempt WHERE recorded_at > now() - '1 s'::interval"
    waiting.until(lambda: world.value(owners) == 2, 20, "both to send")
    start, end = pass_seconds(1.5)
    assert between(arrivals(world), start, end) >= 0.8 * rate * 1.5, "two do not use the rate"
    first.kill()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.instance WHERE program = "
                                      "'ledger' AND until > now()") == 1, 20, "its lease to end")
    pass_seconds(1.2)     # within a second the other has read it
    start, end = pass_seconds(1.5)
    assert between(arrivals(world), start, end) >= 0.8 * rate * 1.5, "the survivor has not all of it"
    assert most_in_a_second(arrivals(world)) <= rate + spare
    assert not world.duplicated()


# --- breakers -------------------------------------------------------------------------------------

@pytest.mark.plain
def test_an_outage_costs_no_attempt_and_ends_without_a_herd(settle: Settle):
    """L57: ten thousand keys, and nobody answers. Two ledgers leave the target alone; when it is
    there again one key goes first, and alone; then no second sees more than the rate."""
    rate, spare = 100, 20
    world = settle(ledgers=2, start=False, rate=f"{rate}/s",
                   breaker={"failures": 10, "ratio": 100, "open": "500ms"},
                   effect={"retry": {"first": "20ms", "max": "100ms", "attempts": 1}})
    world.provider.refuse_connections()
    for ledger in world.ledgers:
        ledger.start()
    announce(world, range(1, 10001))
    waiting.until(lambda: any(ledger.said("breaker opened") for ledger in world.ledgers), 30,
                  "the breaker to open")
    waiting.until(lambda: all(ledger.said("breaker opened") or ledger.said("breaker is open")
                              for ledger in world.ledgers), 10, "both to know")
    waiting.until(lambda: waits(world) == 10000, 60, "all keys to wait", every=0.2)
    tries = world.value("SELECT sum(tries)::int FROM counterfoil.effect_state")
    waiting.until(lambda: len([1 for ledger in world.ledgers for _ in
                               ledger.said("breaker stays open")]) >= 2, 20, "two trials")
    tried = world.value("SELECT sum(tries)::int FROM counterfoil.effect_state") - tries
    trials = sum(len(ledger.said("breaker lets one key through")) for ledger in world.ledgers)
    assert tried <= trials, "only trials go out while it is open"
    assert world.value("SELECT max(attempts) FROM counterfoil.effect_state") == 0
    metrics = [health.metrics(ledger).value("target_breaker_open", target="payments")
               for ledger in world.ledgers]
    assert metrics == [1, 1]
    world.provider.fault("pass", delay=0.7, times=1)
    world.provider.accept_connections()
    waiting.until(lambda: world.states()["completed"] > rate, 30, "the keys to go", every=0.1)
    times = arrivals(world)
    assert times[1] - times[0] >= 0.7, "the trial was not alone"
    assert most_in_a_second(times) <= rate + spare
    assert world.value("SELECT max(attempts) FROM counterfoil.effect_state") == 1
    assert world.states()["uncertain"] == world.states()["dead"] == 0
    assert not world.duplicated()


def test_a_target_that_fails_is_left_alone_and_tried_again(settle: Settle):
    """503 to everything: after twenty answers nothing goes out but a trial now and then, and of the
    keys only those that were sent have used an attempt; then it heals, at once and by itself."""
    world = settle(concurrency=10, breaker={"failures": 10, "ratio": 50, "open": "300ms"})
    ledger = world.ledgers[0]
    fault = world.provider.fault("status", status=503)
    announce(world, range(1, 201))
    ledger.wait_for("breaker opened: the target is left alone for a while", last="http 503")
    opened = time.time()
    waiting.until(lambda: world.states()["in_flight"] == 0, 10, "what was under way to end")
    assert world.provider.met(fault) <= 20 + 10
    waiting.until(lambda: len(ledger.said("breaker stays open")) >= 2, 20, "two trials")
    trials = len(ledger.said("breaker lets one key through"))
    assert between(arrivals(world), opened + 0.3, time.time()) <= trials
    used = "SELECT sum(attempts)::int FROM counterfoil.effect_state"
    waiting.until(lambda: world.value(used) == world.provider.met(fault), 10,
                  "an attempt for each send, and no more")
    assert world.value("SELECT count(*) FROM counterfoil.effect_state WHERE attempts = 0") > 150
    world.provider.clear()
    wait_finished(world, range(1, 201))
    assert world.states() == {"completed": 200}
    assert ledger.said("breaker closed: the target answers again")
    assert target_row(world)["breaker_until"] is None
    world.run_copies()


# --- throttling -----------------------------------------------------------------------------------

def test_a_thousand_throttles_cost_no_attempt(settle: Settle):
    """L32: fifty keys meet 429 twenty times each; every one is completed at its first attempt. Nor do
    these answers open the breaker, or those that refuse a key: the target is well."""
    world = settle(breaker={"failures": 1, "ratio": 1, "open": "1h"},
                   effect={"retry": {"first": "1ms", "max": "1ms", "attempts": 1}})
    for order, status in enumerate((400, 402, 404, 422), 51):
        world.provider.fault("status", status=status, key=f"^{key_name(order)}$")
    for order in range(1, 51):
        world.provider.fault("status", status=429, times=20, key=f"^{key_name(order)}$")
    announce(world, range(1, 55))
    wait_finished(world, range(1, 55), timeout=60)
    assert world.query("SELECT state::text, throttled, attempts, tries, unknown_sends, count(*) "
                       "FROM counterfoil.effect_state GROUP BY 1, 2, 3, 4, 5 ORDER BY 1") == [
        ("completed", 20, 1, 21, 0, 50), ("dead", 0, 1, 1, 0, 4)]
    assert [r.status for r in world.provider.requests()].count(429) == 1000
    assert set(world.provider.charges_by_key().values()) == {1}
    assert target_row(world)["paused_until"] is not None
    assert not world.ledgers[0].said("breaker opened")


# --- an endpoint that is gone ---------------------------------------------------------------------

def test_an_endpoint_that_is_gone_is_disabled_until_a_person_releases_it(settle: Settle):
    """410 to a webhook: that event is dead, the others wait, and nothing probes."""
    world = settle(start=False, profile="standard-webhooks", auth="", concurrency=1)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    (world.directory / "secret").write_text(secret + "\n")
    world.provider.configure(authorization="", signing_secret=secret, header="webhook-id")
    ledger = world.ledgers[0]
    ledger.allow_errors("target disabled")
    ledger.start()
    world.provider.fault("status", status=410, times=1)
    announce(world, range(1, 11))
    ledger.wait_for("target disabled: its endpoint is gone, until it is released",
                    reason="410 gone")
    waiting.until(lambda: world.states() == {"dead": 1, "pending": 9}, 10, "one to be dead")
    row = target_row(world)
    assert (row["held"], row["held_by"], row["hold_reason"], row["probe_at"]) == (
        True, "system", "410 gone", None)
    assert told(world)["payments"]["state"] == "disabled"
    waiting.holds(lambda: len(arrivals(world)) == 1, 1.2, "nothing is sent")
    assert not ledger.said("probing a held target")
    order(world, "release")
    waiting.until(lambda: world.states() == {"dead": 1, "completed": 9}, 10, "the others")


# --- people ---------------------------------------------------------------------------------------

def command(world: World, *words: str) -> "programs.subprocess.CompletedProcess[str]":
    return programs.run("counterfoil", "--config", str(world.write_configuration()), *words)


def order(world: World, action: str, *words: str, target: str = "payments") -> dict[str, Any]:
    """hold or release, which must succeed."""
    done = command(world, action, "--target", target, "--yes", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(world: World) -> dict[str, dict[str, Any]]:
    done = command(world, "targets", "--json")
    assert done.returncode == 0, done.stderr
    return {target["target"]: target for target in json.loads(done.stdout)}


def shown(ledger: Program) -> set[str]:
    """What the metrics say holds the target back."""
    values = health.metrics(ledger)
    return {state for state, name in (("held", "target_held"), ("paused", "target_paused"),
                                      ("breaker open", "target_breaker_open"))
            if values.value(name, target="payments")}


def knows(ledger: Program, held: bool, before: int) -> None:
    waiting.until(lambda: len(ledger.said("target is held" if held else "target is open")) > before,
                  10, "the ledger to know")


def test_a_person_holds_a_target_and_releases_it(settle: Settle):
    """The kill switch: nothing goes out, nothing probes, no attempt is used; all is in the audit."""
    world = settle()
    ledger = world.ledgers[0]
    assert told(world)["payments"]["state"] == "open"
    first = order(world, "hold", "--reason", "they charge twice")
    assert (first["result"], first["action"]) == ("done", "hold")
    knows(ledger, True, 0)
    announce(world, range(1, 6))
    waiting.until(lambda: world.states() == {"pending": 5}, 10, "the keys")
    world.query("UPDATE counterfoil.target_state SET probe_at = now()")     # not even then
    seen = told(world)["payments"]
    assert (seen["state"], seen["reason"], seen["waiting"]) == ("held", "they charge twice", 5)
    assert seen["held_by"].startswith(world.value("SELECT session_user::text")) and seen["since"]
    assert order(world, "hold", "--reason", "again")["result"] == "already"
    waiting.holds(lambda: not arrivals(world), 1.2, "nothing is sent")
    dry = command(world, "release", "--target", "payments", "--dry-run")
    assert dry.returncode == 0 and "they charge twice" in dry.stdout and target_row(world)["held"]
    assert order(world, "release", "--reason", "mended")["result"] == "done"
    wait_finished(world, range(1, 6))
    assert order(world, "release")["result"] == "already"
    assert world.query("SELECT DISTINCT state::text, attempts, tries FROM counterfoil.effect_state"
                       ) == [("completed", 1, 1)]
    audit = world.query("SELECT action, about, result, reason, before -> 0 ->> 'held', after -> 0 ->> 'held' "
                        "FROM counterfoil.audit ORDER BY id")
    assert audit == [("hold", "target payments", "done", "they charge twice", None, "true"),
                     ("hold", "target payments", "already", "again", "true", None),
                     ("release", "target payments", "done", "mended", "true", "false"),
                     ("release", "target payments", "already", None, "false", None)]


def test_a_release_lifts_what_the_system_holds(settle: Settle):
    """A hold by 401, an open breaker and a long pause end at once; each has its metric."""
    world = settle(breaker={"failures": 10, "ratio": 50, "open": "1h"}, concurrency=5)
    ledger = world.ledgers[0]
    ledger.allow_errors("target held")
    for fault, state in (({"status": 401}, "held"), ({"status": 503}, "breaker open"),
                         ({"status": 429, "retry_after": {"seconds": 3600}}, "paused")):
        world.provider.fault("status", **fault)
        numbers = range(100 * fault["status"], 100 * fault["status"] + 25)
        announce(world, numbers)
        waiting.until(lambda: told(world)["payments"]["state"] == state, 10, state, every=0.2)
        waiting.until(lambda: world.states()["in_flight"] == 0, 10, "what was under way to end")
        assert shown(ledger) == {state}
        world.provider.clear()
        assert order(world, "release")["result"] == "done"
        if state == "paused":    # the keys themselves wait as long as they were told
            world.query("UPDATE counterfoil.effect_state SET due_at = now() "
                        "WHERE state = 'retry_wait'")
        wait_finished(world, numbers)
        assert told(world)["payments"]["state"] == "open"
    assert world.states() == {"completed": 75}
    assert shown(ledger) == set()


def test_a_person_holds_a_target_whatever_cannot_be_written(settle: Settle):
    """A ledger found a held target open again, and may not write it: it goes by that until a person
    holds the target."""
    world = settle(concurrency=1)
    ledger = world.ledgers[0]
    ledger.allow_errors("target held")
    world.provider.fault("status", status=401)
    announce(world, [1])
    waiting.until(lambda: told(world)["payments"]["state"] == "held", 10, "it to be held", every=0.2)
    world.postgres.psql("""
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF current_query() LIKE 'UPDATE counterfoil.target_state SET held = false%' THEN
            RAISE EXCEPTION 'permission denied' USING ERRCODE = 'insufficient_privilege'; END IF;
          RETURN NULL; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON counterfoil.target_state
          EXECUTE FUNCTION public.refuse()""", world.database)
    world.provider.clear()
    world.query("UPDATE counterfoil.target_state SET probe_at = now()")
    wait_finished(world, [1])
    announce(world, [2])
    wait_finished(world, [2])
    assert target_row(world)["held_by"] == "system"
    before = len(arrivals(world))
    assert order(world, "hold", "--reason", "they charge twice")["result"] == "done"
    knows(ledger, True, 0)
    announce(world, range(3, 6))
    waiting.holds(lambda: len(arrivals(world)) == before, 1.2, "nothing is sent")
    assert order(world, "release")["result"] == "done"
    wait_finished(world, range(3, 6))


def test_a_slip_is_no_hold(settle: Settle):
    """A target that nobody has seen is refused, unless that is asked for; what is needed is asked
    for; a name with waiting keys that left the configuration is known, and shown so."""
    world = settle(ledgers=0)
    why = ("--reason", "x")
    wrong = command(world, "hold", "--target", "paymnets", "--yes", *why)
    assert wrong.returncode == 4 and "no target of this name has been seen" in wrong.stderr
    assert world.value("SELECT count(*) FROM counterfoil.target_state") == 0
    for words in (("hold", "--target", "payments", "--yes"), ("hold", "--target", "payments", *why),
                  ("hold", "--yes", *why), ("hold", "payments", "--yes", *why)):
        assert command(world, *words).returncode == 2
    assert order(world, "hold", "--force", *why, target="paymnets")["result"] == "done"
    assert told(world)["paymnets"]["state"] == "held"
    world.query("INSERT INTO counterfoil.effect_state (id, target, tenant) VALUES (7, 'former', '')")
    assert told(world)["former"]["state"] == "no target"
    assert order(world, "hold", *why, target="former")["result"] == "done"
    plain = command(world, "targets")
    assert "paymnets" in plain.stdout and "no ledger runs" in plain.stdout


def test_an_order_is_carried_out_once(settle: Settle):
    """The same operation asked for again gets its first answer, and about another target none."""
    world = settle(ledgers=0)
    call = "SELECT (counterfoil.hold_target(%s, ARRAY[%s], true, %s, 'why', '{}')).result"
    operation = "00000000-0000-4000-8000-000000000001"
    assert world.value(call, ("hold", "payments", operation)) == "done"
    order(world, "release")
    assert world.value(call, ("hold", "payments", operation)) == "done"
    assert not target_row(world)["held"]
    with pytest.raises(Exception, match="was about something else"):
        world.value(call, ("release", "payments", operation))
