"""Shipped profiles against a provider that takes them at their word."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import programs, waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_name, key_of,
                               outcomes_of, requests_of, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.world import SECRET


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


OLD, NEW, OTHER = new_secret(), new_secret(), new_secret()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("profiles")
    hook = {"profile": "standard-webhooks", "auth": ""}
    for name, text in (("rotated", f"{OLD} {NEW}\n"), ("other", OTHER + "\n")):
        (directory / f"{name}-secret").write_text(text)
    with tools.opened(
            directory, postgres, template, shared_broker, "profiles_bench",
            effects=[effect("hook", "hook"), effect("forged", "forged"), effect("draft", "draft")],
            targets=[{"name": "hook", "secret_file": str(directory / "rotated-secret"), **hook},
                     {"name": "forged", "secret_file": str(directory / "other-secret"), **hook},
                     {"name": "draft", "profile": "ietf-draft"}]) as bench:
        bench.world.ledgers[0].allow_errors(r"target held.*target=forged ",
                                              "dead.*outcome=mismatch")
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()
    opened.world.provider.configure(authorization=f"Bearer {SECRET}", signing_secret="",
                                    header="Idempotency-Key", mismatch=400)


def everything_kept(bench: Bench) -> str:
    """All rows that the ledger wrote, and its log."""
    tables = bench.world.query("SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') "
                               "AND relnamespace = 'counterfoil'::regnamespace")
    rows = [bench.world.query(f'SELECT t::text FROM counterfoil."{name}" t') for (name,) in tables]
    lines = [line.text for line in bench.world.ledgers[0].log(whole=True)]
    return "\n".join([*(text for table in rows for (text,) in table), *lines])


def test_a_webhook_is_signed_anew_at_each_attempt(bench: Bench):
    """The receiver knows one of two secrets, and every copy by its id; a timeout and a 500 before."""
    world, order = bench.world, bench.order()
    world.provider.configure(authorization="", signing_secret=NEW, header="webhook-id")
    for fault in ({"kind": "hang"}, {"kind": "status", "status": 500}):
        world.provider.fault(**fault, times=1, key=f"^{key_name(order)}$")
    announce(world, [order], "hook")
    wait_finished(world, [order])
    requests, attempts = requests_of(world, order), attempts_of(world, order)
    assert key_of(world, order).state == "completed" and charges_of(world, order) == 1
    assert outcomes_of(world, order) == ["no_answer", "server_error", "applied"]
    assert len({(r.header("webhook-id"), r.digest) for r in requests}) == 1
    stamps = [int(r.header("webhook-timestamp")) for r in requests]
    assert stamps == [int(a.started_at.timestamp()) for a in attempts]
    assert stamps[0] < stamps[1]
    for request in requests:
        assert [s[:3] for s in request.header("webhook-signature").split(" ")] == ["v1,", "v1,"]
        assert request.header("Authorization") is None


def test_no_secret_and_no_signature_is_kept(bench: Bench):
    world, order = bench.world, bench.order()
    world.provider.configure(authorization="", signing_secret=OLD, header="webhook-id")
    announce(world, [order], "hook")
    wait_state(world, order, "completed")
    (request,) = requests_of(world, order)
    kept = everything_kept(bench)
    assert key_name(order) in kept
    for signature in request.header("webhook-signature").split(" "):
        assert signature.removeprefix("v1,") not in kept
    assert not any(secret.removeprefix("whsec_") in kept for secret in (OLD, NEW))


def test_a_receiver_that_knows_another_secret_holds_its_target(bench: Bench):
    world, order = bench.world, bench.order()
    world.provider.configure(authorization="", signing_secret=NEW, header="webhook-id")
    announce(world, [order], "forged")
    waiting.until(lambda: world.ledgers[0].said("target held", target="forged"), 10, "the hold")
    def settled() -> bool:
        key = key_of(world, order)
        return (key.attempts, key.unknown_sends) == (0, 0)
    waiting.until(settled, 10, "the answer to be recorded")     # a probe may be under way
    assert charges_of(world, order) == 0


def test_the_key_of_the_draft_is_a_string_in_quotes(bench: Bench):
    """409 while the first copy works; 422 for a key that came with other content."""
    world, (order, other) = bench.world, bench.orders(2)
    world.provider.configure(mismatch=422)
    quoted = f'"{key_name(order)}"'
    world.provider.fault("hang", apply=True, delay=1.5, times=1, key=f"^{quoted}$")
    announce(world, [order], "draft")
    wait_state(world, order, "completed")
    requests = [r for r in world.provider.requests() if r.key == quoted]
    assert [r.status for r in requests[1:]] == [409] * (len(requests) - 2) + [200]
    assert len(requests) > 2 and key_of(world, order).attempts == 2
    assert world.provider.charges_by_key()[quoted] == 1

    world.provider.fault("status", status=422, times=1, key=f'^"{key_name(other)}"$')
    announce(world, [other], "draft")
    assert wait_state(world, other, "dead").http_status == 422


def test_what_signs_is_not_shown(bench: Bench, tmp_path: Path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"topic": bench.world.topic, "type": "hook",
                                 "payload": {"order_id": 1, "total_cents": 1,
                                             "customer_id": "c"}}))
    config = bench.world.write_configuration()
    done = programs.run("counterfoil-ledger", "--config", str(config), "--try", str(event))
    assert done.returncode == 0 and "webhook-signature: [redacted]\n" in done.stdout
    assert not any(secret.removeprefix("whsec_") in done.stdout for secret in (OLD, NEW))
