"""A provider that misbehaves in every way, and a ledger that charges once all the same.

All tests share one world; what was done to their keys is done again at the end."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, same_bytes, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres

ATTEMPTS = tools.RETRY["attempts"]
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("bench"), postgres, template, shared_broker, "provider_bench",
            effects=[effect("charge"),
                     effect("one-by-one", "single"),
                     effect("honest", "honest")],
            targets=[{"name": "single", "concurrency": 1},
                     {"name": "honest", "profile": "honest"}],
            profiles=[{"name": "honest", "window": "24h", "stores_errors": "2xx",
                       "in_progress": [425], "mismatch": [422], "safe_503": True}]) as bench:
        bench.world.ledgers[0].allow_errors("dead.*outcome=mismatch")
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()


def meet(bench: Bench, *faults: dict[str, Any], event_type: str = "charge") -> int:
    """An order whose requests meet these faults, one after the other, and then none; it is
    finished. Several faults are taken in their order, for each meets its own number of requests."""
    order = bench.order()
    for fault in faults:
        bench.world.provider.fault(**{"times": 1, "key": f"^{key_name(order)}$", **fault})
    announce(bench.world, [order], event_type)
    wait_finished(bench.world, [order])
    return order


def assert_charged_once_by(bench: Bench, order: int, outcomes: list[str]) -> None:
    """Completed after these attempts, each of which was one request, all of them the same."""
    key, requests = key_of(bench.world, order), requests_of(bench.world, order)
    assert (key.state, key.outcome, key.unknown_sends) == ("completed", "applied", 0)
    assert outcomes_of(bench.world, order) == outcomes
    assert len(requests) == len(outcomes) == key.tries and same_bytes(requests)
    assert charges_of(bench.world, order) == 1
    assert key.provider_id == attempts_of(bench.world, order)[-1].provider_id


# --- no answer that says what happened ------------------------------------------------------------

@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
@pytest.mark.parametrize("fault, error_classes", [
    ("hang", ["timeout"]), ("reset", ["reset", "resend blocked"]),
    ("close", ["empty answer", "resend blocked"]), ("cut_headers", ["cut headers"]),
    ("garbage", ["garbage"])], ids=["hang", "reset", "close", "cut-headers", "garbage"])
def test_without_an_answer_the_same_request_is_sent_again(bench: Bench, fault: str,
                                                          error_classes: list[str], apply: bool):
    """L21: an answer that is empty, garbage or ends within its headers completes nothing."""
    order = meet(bench, {"kind": fault, "apply": apply})
    assert_charged_once_by(bench, order, ["no_answer", "applied"])
    first, second = attempts_of(bench.world, order)
    assert (first.http_status, second.http_status) == (None, 200)
    assert first.provider_key == second.provider_key == key_name(order)
    (said,) = bench.world.ledgers[0].said("retry_wait", id=key_of(bench.world, order).id,
                                          key=key_name(order))
    assert said.fields["error"] in error_classes


@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_a_status_that_is_none_completes_nothing(bench: Bench, status: int):
    """L21: a complete answer with a status that does not exist."""
    order = meet(bench, {"kind": "status", "status": status})
    assert_charged_once_by(bench, order, ["no_answer", "applied"])


@pytest.mark.parametrize("apply", [False, True], ids=["not-applied", "applied"])
def test_a_kept_connection_that_dies_gets_one_copy(bench: Bench, apply: bool):
    """L20: the connection is closed after its second request was read: libcurl would send that one
    again by itself. The only second copy is the recorded retry, on another connection."""
    provider = bench.world.provider
    warm = bench.order()
    announce(bench.world, [warm], "one-by-one")
    wait_finished(bench.world, [warm])
    (first,) = requests_of(bench.world, warm)
    order = bench.order()
    fault = provider.fault("close", apply=apply, times=1, key=f"^{key_name(order)}$",
                           nth=first.nth + 1)
    announce(bench.world, [order], "one-by-one")
    wait_finished(bench.world, [order])
    assert provider.met(fault) == 1, "the connection was not kept"
    assert_charged_once_by(bench, order, ["no_answer", "applied"])
    copy, retry = requests_of(bench.world, order)
    assert (copy.connection, copy.nth) == (first.connection, first.nth + 1)
    assert retry.connection != copy.connection
    attempt = attempts_of(bench.world, order)[0]
    assert attempt.recorded_at.timestamp() < retry.t, "sent again before it was recorded"


def test_a_provider_that_dies_and_comes_back(bench: Bench):
    """Requests in its hands when it is killed, and requests that it cannot take."""
    world = bench.world
    orders = bench.orders(20)
    world.provider.fault("pass", delay=60, times=5, path="/v1/charge")
    announce(world, orders, "charge")
    waiting.until(lambda: sum(not r.decided for r in world.provider.requests()) >= 5, 10, "5 calls")
    world.provider.kill()
    waiting.until(lambda: world.value("SELECT count(*) FROM counterfoil.attempt "
                                      "WHERE outcome = 'not_sent'"), 10, "a refused connection")
    world.provider.start()
    wait_finished(world, orders)
    assert {key_of(world, n).state for n in orders} == {"completed"}
    assert [charges_of(world, n) for n in orders] == [1] * 20


def test_nothing_but_silence_ends_uncertain(bench: Bench):
    """Every attempt is lost: nobody can say whether it happened, so it is neither dead nor sent
    again."""
    order = meet(bench, {"kind": "hang", "times": None, "apply": False})
    key = key_of(bench.world, order)
    assert (key.state, key.unknown_sends, key.attempts) == ("uncertain", ATTEMPTS, ATTEMPTS)
    assert outcomes_of(bench.world, order) == ["no_answer"] * ATTEMPTS
    assert len(requests_of(bench.world, order)) == ATTEMPTS


def test_a_request_in_progress_is_waited_for(bench: Bench):
    """The first request takes longer than we wait; meanwhile the provider says so of its key."""
    order = meet(bench, {"kind": "pass", "delay": 1.7})
    outcomes = outcomes_of(bench.world, order)
    assert outcomes[0] == "no_answer" and set(outcomes[1:-1]) == {"in_progress"}
    assert_charged_once_by(bench, order, outcomes)
    key = key_of(bench.world, order)
    assert key.stalled == len(outcomes) - 2 and key.attempts == 2, "waiting used the budget"


# --- answers that come in a strange way -----------------------------------------------------------

def memory_peak(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.mark.parametrize("chunked", [False, True], ids=["measured", "chunked"])
def test_ten_gigabytes_are_not_read(bench: Bench, chunked: bool):
    """L36: the head says that it happened; of the body a little is kept, the rest not asked for."""
    ledger = bench.world.ledgers[0]
    before = memory_peak(ledger.pid)
    order = meet(bench, {"kind": "huge_body", "chunked": chunked})
    key, (attempt,) = key_of(bench.world, order), attempts_of(bench.world, order)
    assert (key.state, attempt.truncated, attempt.http_status) == ("completed", True, 200)
    assert len(attempt.response_body) == 16 * 1024
    assert (attempt.recorded_at - attempt.started_at).total_seconds() < 1, "waited for the body"
    assert memory_peak(ledger.pid) - before < 8 * MEGABYTE
    waiting.until(lambda: requests_of(bench.world, order)[0].sent is not None, 10,
                  "the provider to give up")
    (seen,) = requests_of(bench.world, order)
    assert seen.sent < 100 * MEGABYTE and seen.applied


@pytest.mark.parametrize("fault", [{"kind": "slow_body"}, {"kind": "cut_body"}],
                         ids=["slow", "cut"])
def test_a_body_that_does_not_end_is_an_answer(bench: Bench, fault: dict[str, Any]):
    order = meet(bench, fault)
    key, (attempt,) = key_of(bench.world, order), attempts_of(bench.world, order)
    assert (key.state, key.http_status, attempt.truncated) == ("completed", 200, True)
    assert key.provider_id is None, "read out of half an answer"
    assert len(requests_of(bench.world, order)) == charges_of(bench.world, order) == 1


# --- statuses -------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [302, 303, 408, 421, 425, 500, 502, 503, 504, 507])
def test_a_status_that_passes(bench: Bench, status: int):
    order = meet(bench, {"kind": "status", "status": status})
    outcomes = outcomes_of(bench.world, order)
    assert_charged_once_by(bench, order, [outcomes[0], "applied"])
    assert attempts_of(bench.world, order)[0].http_status == status


@pytest.mark.parametrize("status", [301, 307, 400, 402, 404, 405, 410, 413, 422, 451, 501, 505])
def test_a_status_that_is_final(bench: Bench, status: int):
    """Certainly not applied, one request; a redirect is not followed."""
    elsewhere = [["Location", f"{bench.world.provider.url}/v1/elsewhere"]]
    order = meet(bench, {"kind": "status", "status": status, "headers": elsewhere})
    key = key_of(bench.world, order)
    assert (key.state, key.unknown_sends, key.attempts) == ("dead", 0, 1)
    assert (key.http_status, key.error_class) == (status, f"http {status}")
    assert outcomes_of(bench.world, order) == ["refused"]
    assert len(requests_of(bench.world, order)) == 1 and charges_of(bench.world, order) == 0
    assert not [r for r in bench.world.provider.requests() if r.path == "/v1/elsewhere"]


@pytest.mark.parametrize("status", [500, 503, 502])
def test_server_errors_to_the_end_are_never_dead(bench: Bench, status: int):
    """stripe-v1 promises nothing for a 5xx: each of them may have charged."""
    order = meet(bench, {"kind": "status", "status": status, "times": None, "apply": False})
    key = key_of(bench.world, order)
    assert (key.state, key.attempts, key.unknown_sends) == ("uncertain", ATTEMPTS, ATTEMPTS)
    assert len(requests_of(bench.world, order)) == ATTEMPTS


def test_a_stored_error_is_not_asked_for_again_and_again(bench: Bench):
    """A charge was made, a 500 answered and kept: sending again only brings it back."""
    order = meet(bench, {"kind": "status", "status": 500, "apply": True, "store": True})
    key = key_of(bench.world, order)
    assert (key.state, key.stalled, key.http_status) == ("uncertain", 3, 500)
    assert len(requests_of(bench.world, order)) == 4 and charges_of(bench.world, order) == 1


def test_503_where_the_profile_calls_it_safe(bench: Bench):
    """Nothing was done, it says: after the last attempt that is certain."""
    order = meet(bench, {"kind": "status", "status": 503, "times": None}, event_type="honest")
    key = key_of(bench.world, order)
    assert (key.state, key.attempts, key.unknown_sends) == ("dead", ATTEMPTS, 0)
    assert outcomes_of(bench.world, order) == ["try_later"] * ATTEMPTS


@pytest.mark.parametrize("status, state", [(402, "dead"), (404, "uncertain"), (413, "uncertain"),
                                           (501, "uncertain")])
def test_what_a_refusal_says_of_an_earlier_request(bench: Bench, status: int, state: str):
    """The first request was lost. A provider that stores its answers would not refuse a key that it
    has charged, but a 404 or a 501 may come from something that knows no keys."""
    order = meet(bench, {"kind": "reset", "apply": False}, {"kind": "status", "status": status})
    assert key_of(bench.world, order).state == state
    assert outcomes_of(bench.world, order) == ["no_answer", "refused"]


def test_a_final_status_after_a_lost_charge_is_not_dead(bench: Bench):
    """The charge was made, and the answer lost; then a proxy says 404."""
    order = meet(bench, {"kind": "hang", "apply": True}, {"kind": "status", "status": 404})
    assert key_of(bench.world, order).state == "uncertain"
    assert charges_of(bench.world, order) == 1


def test_a_key_that_the_provider_knows_with_other_content(bench: Bench):
    """Somebody else has used it: nothing is charged, and nothing tried again."""
    provider, order = bench.world.provider, bench.order()
    provider.configure(mismatch=422)
    urllib.request.urlopen(urllib.request.Request(
        f"{provider.url}/v1/honest", b"amount=1", method="POST",
        headers={"Idempotency-Key": key_name(order),
                 "Authorization": provider.settings["authorization"]})).close()
    announce(bench.world, [order], "honest")
    key = wait_state(bench.world, order, "dead")
    assert (key.outcome, key.error_class) == ("mismatch", "key mismatch")
    stranger, ours = requests_of(bench.world, order)
    assert (stranger.applied, ours.applied, ours.status) == (True, False, 422)


# --- the request ----------------------------------------------------------------------------------

def test_what_is_sent(bench: Bench):
    order = meet(bench)
    (seen,) = requests_of(bench.world, order)
    names = [name.lower() for name, _ in seen.headers]
    assert (seen.method, seen.path) == ("POST", "/v1/charge")
    assert seen.body == f"amount={100 + order}&currency=usd&customer=customer-{order % 97}"
    assert seen.header("content-type") == "application/x-www-form-urlencoded"
    assert seen.header("authorization") == bench.world.provider.settings["authorization"]
    assert len(names) == len(set(names)) and "expect" not in names


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(bench: Bench):
    """Every event of the tests above comes again, as a copy and by a rewind."""
    bench.world.wait_drained()
    bench.world.run_twice()
