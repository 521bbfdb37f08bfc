"""The life of a key: its retries, its provider's window, its end; and what holds a target back.

Most tests share one world; what was done to their keys is done again at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, same_bytes, wait_finished, wait_state)
from tests.tools.broker import Broker, Message
from tests.tools.libconfig import merge
from tests.tools.postgres import Postgres
from tests.tools.provider import Seen
from tests.tools.world import World

FOREVER = {"attempts": 1000}
HURRIED = {"connect_timeout": "100ms", "timeout": "300ms"}
WINDOW = 6.0          # of the target `forgetful`
LEASE = 1.0
MARGIN = 3.7          # and its margin: backoff 0.1, timeouts 1 + 1, a tenth of the window, the lease
SHORT_WINDOW = 2.0    # of `amnesiac`: 1.7


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("effects"), postgres, template, shared_broker, "effects_bench",
            effects=[effect("charge"),
                     effect("header", request={"headers": [("X-Note", "${header:x-note}")]}),
                     effect("key", key="order:${/order_id}:${/customer_id}"),
                     effect("none", retry={"strategy": "none", "attempts": 12}),
                     effect("fixed", retry={"strategy": "fixed", "first": "700ms"}),
                     effect("spread", retry={"first": "1s", "max": "2s"}),
                     effect("forgetful", "forgetful", retry=FOREVER),
                     effect("amnesiac", "amnesiac", retry=FOREVER),
                     effect("brief", retry=FOREVER, not_after="2s"),
                     effect("guarded", "guarded"),
                     effect("forbidding", "forbidding"),
                     effect("throttled", "throttled", retry={"attempts": 2}),
                     effect("narrow", "narrow")],
            targets=[{"name": "forgetful", "profile": "forgetful"},
                     {"name": "amnesiac", "profile": "amnesiac", **HURRIED},
                     {"name": "guarded"},
                     {"name": "forbidding", "concurrency": 1},
                     {"name": "throttled"},
                     {"name": "narrow", "concurrency": 3}],
            profiles=[{"name": name, "window": f"{window:g}s", "stores_errors": "all",
                       "in_progress": [409]}
                      for name, window in [("forgetful", WINDOW), ("amnesiac", SHORT_WINDOW)]],
            settings={"ledger": {"lease": f"{LEASE:g}s"}}) as bench:
        bench.world.ledgers[0].allow_errors(r"target held.*target=(guarded|forbidding) ")
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()


def meet(bench: Bench, event_type: str, *faults: dict[str, Any]) -> int:
    """An order, announced, whose requests meet these faults one after the other, and then none."""
    order = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(order)}$", **fault})
    announce(bench.world, [order], event_type)
    return order


def wait_request(bench: Bench, order: int, count: int = 1) -> Seen:
    """The request of that number, once it has arrived."""
    waiting.until(lambda: len(requests_of(bench.world, order)) >= count, 20, f"request {count}")
    return requests_of(bench.world, order)[count - 1]


def hold(bench: Bench, target: str) -> None:
    """As a person does it; returns when the ledger knows."""
    ledger = bench.world.ledgers[0]
    before = len(ledger.said("target is held", target=target))
    bench.world.query(
        "INSERT INTO counterfoil.target_state (target, held, held_by, hold_reason) "
        "VALUES (%s, true, 'a person', 'maintenance') ON CONFLICT (target) DO UPDATE "
        "SET held = true, held_by = excluded.held_by", (target,))
    waiting.until(lambda: len(ledger.said("target is held", target=target)) > before, 10,
                  "the ledger to know of the hold")


def release(bench: Bench, target: str) -> None:
    bench.world.query("UPDATE counterfoil.target_state SET held = false, held_by = NULL "
                      "WHERE target = %s", (target,))


# --- dead letters ---------------------------------------------------------------------------------

def letters(bench: Bench, order: int) -> list[Message]:
    """The dead letters of an order's event."""
    return [m for m in bench.world.messages(f"{bench.world.topic}.dlq")
            if m.header("cf-event-id") == f"event-{order}"]


def wait_letter(bench: Bench, order: int) -> Message:
    (letter,) = waiting.until(lambda: letters(bench, order), 10, "the dead letter", every=0.1)
    return letter


@pytest.mark.parametrize("status", [400, 402, 404])
def test_an_event_that_died_is_published_and_may_come_back(bench: Bench, status: int):
    """The letter is the event as it came, and says why; published to the original topic again it
    meets the key that died, is counted, and does nothing."""
    world = bench.world
    order = bench.order()
    world.provider.fault("status", status=status, times=1, key=f"^{key_name(order)}$")
    announce(world, [order], "charge", headers=[("x-shop", b"7"), ("traceparent", b"00-ab-cd-01")])
    wait_state(world, order, "dead")
    letter = wait_letter(bench, order)
    (event,) = [m for m in world.messages() if m.event_id == f"event-{order}"]
    assert (letter.key, letter.value) == (event.key, event.value)
    assert {name: letter.header(name) for name in ("x-shop", "traceparent", "ce_type")} == {
        "x-shop": "7", "traceparent": "00-ab-cd-01", "ce_type": "charge"}
    assert {name: value.decode() for name, value in letter.headers if name.startswith("cf-")} == {
        "cf-event-id": f"event-{order}", "cf-dead-reason": "refused", "cf-dead-effect": "charge",
        "cf-dead-attempts": "1",
        "cf-dead-origin": f"{event.topic}/{event.partition}/{event.offset}"}
    assert len(letter.headers) == len({name for name, _ in letter.headers})

    before, ledger = world.effects_seen(), world.ledgers[0]
    counted = len(ledger.said("recorded", effects=0, duplicates=1))
    world.broker.produce(world.topic, letter.value, letter.key, letter.headers)
    world.broker.flush()
    waiting.until(lambda: len(ledger.said("recorded", effects=0, duplicates=1)) > counted, 10,
                  "the letter to be counted as a duplicate")
    world.wait_drained()
    assert world.effects_seen() == before
    assert len(letters(bench, order)) == 1


@pytest.mark.parametrize("broken", ["a\r\nX-Evil: 1", "a\rb", "a\nb", "a\0b"],
                         ids=["crlf", "cr", "lf", "nul"])
def test_a_header_that_would_be_two_is_never_sent(bench: Bench, broken: str):
    """L25: dead before any send, with the place as its reason; published as a dead letter."""
    order = bench.order()
    announce(bench.world, [order], "header", headers=[("x-note", broken.encode())])
    wait_state(bench.world, order, "dead")
    (attempt,) = attempts_of(bench.world, order)
    assert (attempt.n, attempt.outcome) == (0, "unrendered")
    assert attempt.error == "request.headers[0]: ${header:x-note} holds CR, LF or NUL, which no " \
                            "header may"
    letter = wait_letter(bench, order)
    assert letter.header("cf-dead-reason") == "unrendered"
    # the outbox, and PostgreSQL, hold no NUL in a header
    assert letter.header("x-note") == (None if "\0" in broken else broken)
    assert not to_path(bench, "/v1/header")


@pytest.mark.parametrize("broken, encoded", [
    ("a\r\nX-Evil: 1", "a%0D%0AX-Evil%3A%201"), ("a\nb", "a%0Ab")], ids=["crlf", "lf"])
def test_a_key_with_a_line_break_is_never_sent(bench: Bench, broken: str, encoded: str):
    """L25: it is kept encoded, so that it can be found, and dead, with the place as its reason."""
    order = bench.order()
    announce(bench.world, [order], "key", customer_id=broken)
    key = f"order:{order}:{encoded}"
    waiting.until(lambda: bench.world.state(key) == "dead", 10, "the key to be dead")
    wait_letter(bench, order)
    assert not to_path(bench, "/v1/key")


def test_a_nul_in_json_is_poison(bench: Bench):
    """L25: two different texts would be one to whoever stops reading at a NUL."""
    order = bench.order()
    announce(bench.world, [order], "key", customer_id="a\0b")
    waiting.until(lambda: bench.world.query("SELECT 1 FROM counterfoil.poison"), 10, "poison")
    assert key_of(bench.world, order) is None and not to_path(bench, "/v1/key")


# --- retries --------------------------------------------------------------------------------------

def last_pause(bench: Bench, order: int) -> float:
    """The pause before the last attempt, as it was decided, in seconds."""
    key, attempts = key_of(bench.world, order), attempts_of(bench.world, order)
    assert attempts[-1].started_at >= key.due_at, "sent before it was due"
    return (key.due_at - attempts[-2].recorded_at).total_seconds()


@pytest.mark.parametrize("fault, state", [
    ({"kind": "hang"}, "uncertain"), ({"kind": "reset"}, "uncertain"),
    ({"kind": "status", "status": 500}, "uncertain"),
    ({"kind": "status", "status": 429}, "dead"), ({"kind": "status", "status": 400}, "dead")],
    ids=["hang", "reset", "500", "429", "400"])
def test_without_retries_one_request_is_all(bench: Bench, fault: dict[str, Any], state: str):
    order = meet(bench, "none", {**fault, "apply": False})
    wait_state(bench.world, order, state)
    assert len(requests_of(bench.world, order)) == 1


def test_fixed_pauses(bench: Bench):
    order = meet(bench, "fixed", {"kind": "status", "status": 503, "times": 2})
    wait_state(bench.world, order, "completed")
    assert 0.4 < last_pause(bench, order) <= 0.75
    first, second, third = requests_of(bench.world, order)
    assert second.t - first.t > 0.65 and third.t - second.t > 0.65


def test_exponential_pauses_are_drawn_from_their_whole_range(bench: Bench):
    """Many keys that fail at once do not come back at once: up to 1 s after the first failure, up
    to 2 s, which is the most, after the third."""
    once, thrice = bench.orders(30), bench.orders(30)
    for order in once:
        bench.world.provider.fault("status", status=500, times=1, key=f"^{key_name(order)}$")
    for order in thrice:
        bench.world.provider.fault("status", status=500, times=3, key=f"^{key_name(order)}$")
    announce(bench.world, once + thrice, "spread")
    wait_finished(bench.world, once + thrice)
    assert bench.world.provider.charges_by_key()[key_name(once[0])] == 1
    short = sorted(last_pause(bench, order) for order in once)
    long = sorted(last_pause(bench, order) for order in thrice)
    assert -0.1 < short[0] < 0.4 and 0.6 < short[-1] <= 1.05
    assert -0.1 < long[0] < 0.8 and 1.2 < long[-1] <= 2.05


def test_attempts_that_never_left_use_no_budget(bench: Bench):
    """Nothing listens: more tries than the budget has attempts, and it is not dead for that."""
    world = bench.world
    world.provider.kill()
    order = meet(bench, "charge")

    def tried() -> bool:
        key = key_of(world, order)
        return key is not None and key.state == "retry_wait" and key.tries > 6
    waiting.until(tried, 20, "more tries than attempts")
    key = key_of(world, order)
    assert (key.attempts, key.unknown_sends, key.first_sent_at, key.error_class) == (
        0, 0, None, "connect")
    world.provider.start()
    wait_state(world, order, "completed")
    assert set(outcomes_of(world, order)[:-1]) == {"not_sent"}
    assert len(requests_of(world, order)) == 1 and key_of(world, order).attempts == 1


# --- the provider's window ------------------------------------------------------------------------

def test_nothing_is_resent_after_the_window(bench: Bench):
    """All attempts are lost. The last one is made so early that it ends within the window, though
    the budget is not used up."""
    order = meet(bench, "forgetful", {"kind": "hang", "times": None, "apply": False})
    key = wait_state(bench.world, order, "uncertain")
    requests = requests_of(bench.world, order)
    assert len(requests) >= 2 and same_bytes(requests)
    assert requests[-1].t - requests[0].t <= WINDOW - MARGIN + 0.1
    assert key.unknown_sends == key.attempts == len(requests)


def test_a_key_that_waits_past_its_window_is_uncertain(bench: Bench):
    """The charge is made and its answer lost, and the target held by a person until the provider
    has forgotten the key: another request would be another charge."""
    world = bench.world
    world.provider.configure(window=WINDOW)
    order = meet(bench, "forgetful", {"kind": "hang", "times": None, "apply": True})
    wait_request(bench, order)
    hold(bench, "forgetful")
    wait_state(world, order, "retry_wait", "uncertain")
    world.provider.clear()
    before = len(requests_of(world, order))
    key = wait_state(world, order, "uncertain")
    assert key.error_class == "window closed" and key.unknown_sends == before
    world.provider.forget_keys()
    release(bench, "forgetful")
    world.ledgers[0].wait_for("target is open", target="forgetful")
    other = meet(bench, "forgetful")
    wait_state(world, other, "completed")
    assert len(requests_of(world, order)) == before and charges_of(world, order) == 1
    world.provider.configure(window=86400)


def test_a_window_goes_on_though_nothing_was_applied(bench: Bench):
    """The provider may know the key since its first request, though that was answered 429. A second
    one, near the end of that window, is lost: it is not sent a third time, for the provider forgets
    the key when *its* window ends."""
    order = meet(bench, "forgetful", {"kind": "status", "status": 429,
                                      "retry_after": {"seconds": 4}},
                 {"kind": "hang", "apply": False})
    first = wait_request(bench, order)
    second = wait_request(bench, order, 2)
    key = wait_state(bench.world, order, "uncertain")
    assert 4 <= second.t - first.t < WINDOW, "a key without unknown sends may be sent at any time"
    assert abs(key.first_sent_at.timestamp() - first.t) < 0.5, "the window began anew"
    assert (key.window_until - key.first_sent_at).total_seconds() == WINDOW
    assert len(requests_of(bench.world, order)) == 2


def test_after_a_silent_window_a_new_one_begins(bench: Bench):
    order = meet(bench, "amnesiac", {"kind": "status", "status": 429,
                                     "retry_after": {"seconds": 4}})
    key = wait_state(bench.world, order, "completed")
    first, second = requests_of(bench.world, order)
    assert second.t - first.t >= 4
    assert abs(key.first_sent_at.timestamp() - second.t) < 0.5
    assert (key.window_until - key.first_sent_at).total_seconds() == SHORT_WINDOW


# --- not_after ------------------------------------------------------------------------------------

def test_a_key_too_old_that_nobody_could_send_is_dead(bench: Bench):
    hold(bench, "payments")
    order = meet(bench, "brief")
    key = wait_state(bench.world, order, "dead")
    release(bench, "payments")
    assert (key.error_class, key.tries) == ("expired", 0)
    assert wait_letter(bench, order).header("cf-dead-reason") == "expired"
    assert requests_of(bench.world, order) == []


def test_a_key_too_old_whose_attempts_never_left_is_dead(bench: Bench):
    bench.world.provider.kill()
    order = meet(bench, "brief")
    wait_state(bench.world, order, "dead")
    bench.world.provider.start()
    # said by the attempt that could not be followed by another, or by the sweep
    assert wait_letter(bench, order).header("cf-dead-reason") in ("not_sent", "expired")
    assert requests_of(bench.world, order) == []


def test_a_key_too_old_that_may_have_been_sent_is_uncertain(bench: Bench):
    order = meet(bench, "brief", {"kind": "hang", "times": None})
    key = wait_state(bench.world, order, "uncertain")
    assert key.unknown_sends == len(requests_of(bench.world, order)) > 0


# --- targets --------------------------------------------------------------------------------------

def target_state(bench: Bench, target: str) -> tuple[bool, str | None, str | None] | None:
    found = bench.world.query("SELECT held, held_by, hold_reason FROM counterfoil.target_state "
                              "WHERE target = %s", (target,))
    return found[0] if found else None


def probe_now(bench: Bench, target: str) -> None:
    """A probe is due every minute; this one at once."""
    bench.world.query("UPDATE counterfoil.target_state SET probe_at = now() WHERE target = %s",
                      (target,))


def to_path(bench: Bench, path: str) -> list[Seen]:
    return [r for r in bench.world.provider.requests() if r.path == path]


def idle(bench: Bench) -> bool:
    return bench.world.states()["in_flight"] == 0


def test_refused_credentials_hold_the_target_and_cost_nothing(bench: Bench):
    """401: nothing goes out any more but one probe at a time, and no key has used an attempt."""
    world, ledger = bench.world, bench.world.ledgers[0]
    fault = world.provider.fault("status", status=401, path="/v1/guarded")
    orders = bench.orders(10)
    announce(world, orders, "guarded")
    waiting.until(lambda: target_state(bench, "guarded") == (True, "system", "http 401"), 10,
                  "the target to be held")
    waiting.until(lambda: idle(bench), 10, "the calls to end")
    sent = len(to_path(bench, "/v1/guarded"))
    late = bench.orders(5)
    announce(world, late, "guarded")
    waiting.until(lambda: key_of(world, late[-1]), 10, "the later orders")
    probe_now(bench, "guarded")
    waiting.until(lambda: world.provider.met(fault) > sent, 10, "the probe")
    waiting.holds(lambda: len(to_path(bench, "/v1/guarded")) == sent + 1, 0.5, "one probe")
    keys = [key_of(world, n) for n in orders + late]
    assert {(k.attempts, k.unknown_sends) for k in keys} == {(0, 0)}
    assert {k.state for k in keys} <= {"pending", "retry_wait"}
    assert len(ledger.said("target held", target="guarded")) == 1
    world.provider.clear()
    probe_now(bench, "guarded")
    wait_finished(world, orders + late)
    assert target_state(bench, "guarded") == (False, None, None)
    assert [charges_of(world, n) for n in orders + late] == [1] * 15
    assert {key_of(world, n).attempts for n in orders + late} == {1}


def test_five_keys_that_are_forbidden_hold_the_target(bench: Bench):
    """403 is the key's matter, until five different ones have met it in a row."""
    world = bench.world
    world.provider.fault("status", status=403, path="/v1/forbidding")
    orders = bench.orders(8)
    announce(world, orders, "forbidding")
    waiting.until(lambda: target_state(bench, "forbidding") == (True, "system", "http 403"), 10,
                  "the target to be held")
    waiting.until(lambda: idle(bench), 10, "the calls to end")
    states = [key_of(world, n).state for n in orders]
    assert states.count("dead") == 4 and len(to_path(bench, "/v1/forbidding")) == 5
    world.provider.clear()
    probe_now(bench, "forbidding")
    wait_finished(world, orders)
    states = [key_of(world, n).state for n in orders]
    assert (states.count("dead"), states.count("completed")) == (4, 4)
    assert sum(charges_of(world, n) for n in orders) == 4


@pytest.mark.parametrize("form, times, seconds", [("digits", 3, 1), ("imf", 1, 2)])
def test_a_target_that_throttles_is_left_alone(bench: Bench, form: str, times: int, seconds: int):
    """429 with Retry-After: the whole target waits, for so long, and it costs no attempt, of which
    there are two."""
    world = bench.world
    order = meet(bench, "throttled", {"kind": "status", "status": 429, "times": times,
                                      "retry_after": {"seconds": seconds, "form": form}})
    first = wait_request(bench, order)
    waiting.until(lambda: world.value(
        "SELECT count(*) FROM counterfoil.target_state "
        "WHERE target = 'throttled' AND paused_until > now()"), 10, "the pause")
    other = meet(bench, "throttled")
    wait_finished(world, [order, other])
    requests = requests_of(world, order)
    # a date has whole seconds, and so may be nearly one less
    least = seconds if form == "digits" else seconds - 1
    assert all(b.t - a.t >= least for a, b in zip(requests, requests[1:]))
    assert requests_of(world, other)[0].t - first.t >= least, "the pause was not the target's"
    key = key_of(world, order)
    assert (key.state, key.throttled, key.attempts) == ("completed", times, 1)
    assert outcomes_of(world, order) == ["throttled"] * times + ["applied"]
    assert charges_of(world, order) == charges_of(world, other) == 1


def test_no_more_requests_at_once_than_the_target_takes(bench: Bench):
    world, takes = bench.world, 0.2
    world.provider.fault("pass", delay=takes, path="/v1/narrow")
    orders = bench.orders(15)
    announce(world, orders, "narrow")
    wait_finished(world, orders)
    arrived = [r.t for r in to_path(bench, "/v1/narrow")]
    at_once = [sum(t - takes < other <= t for other in arrived) for t in arrived]
    assert max(at_once) == 3


# --- the request is frozen ------------------------------------------------------------------------

def test_a_changed_template_changes_no_request_that_is_recorded(make_world: Callable[..., World]):
    """L40: between two attempts the ledger is started with another path, header and body."""
    world = make_world(effect={"request": {"headers": [("X-Kind", "first ${/order_id}")]}},
                       settings={"ledger": {"lease": "2s"}}).start(relays=0)
    ledger = world.ledgers[0]
    world.provider.fault("status", status=503)
    announce(world, [1])
    waiting.until(lambda: len(requests_of(world, 1)) >= 2, 10, "two attempts")
    ledger.stop()
    world.effects[0]["request"] = {"method": "PUT", "path": "/v2/other", "body": "cents=1",
                                   "headers": [("X-Kind", "second")],
                                   "content_type": "text/plain"}
    ledger.configure(merge(world.configuration(), {"kafka": {"properties": [
        ("bootstrap.servers", world.broker.bootstrap), *world.broker.group_properties]}}))
    before = len(requests_of(world, 1))
    ledger.start()
    waiting.until(lambda: len(requests_of(world, 1)) > before, 10, "an attempt of the new one")
    world.provider.clear()
    announce(world, [2])
    wait_finished(world, [1, 2])
    assert key_of(world, 1).state == "completed" and charges_of(world, 1) == 1
    assert same_bytes(requests_of(world, 1))
    assert requests_of(world, 1)[0].header("x-kind") == "first 1"
    assert requests_of(world, 2)[0].path == "/v2/other", "the new configuration was not read"
    world.run_twice()


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(bench: Bench):
    """Every event of the tests above comes again, as a copy and by a rewind."""
    world = bench.world
    world.wait_drained()
    died = len(world.messages(f"{world.topic}.dlq"))
    world.run_twice()
    assert len(world.messages(f"{world.topic}.dlq")) == died
