"""Mail: one key, one message to one recipient, and never two."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import programs, waiting
from tests.tools.bench import (Bench, announce, attempts_of, charges_of, effect, key_of,
                               outcomes_of, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.mailer import CLOSE, HANG, Mailer, make_certificate
from tests.tools.postgres import Postgres
from tests.tools.world import World

PASSWORD = "pass:word of the tests"


def mail_effect(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "on": {"type": name}, "target": name, "mode": "at_most_once",
            "key": "order:${/order_id}:charge", "retention": "forever", "retry": tools.RETRY,
            "request": {"body": "Dear ${/customer_id},\n${header:x-text|thank you}\n"}, **changes}


def mail_target(name: str, url: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "url": url, "profile": "smtp", "auth": "", "timeout": "1s",
            "from": "Caf\u00e9 \"7\" <orders@shop.example>", "to": "${/customer_id}",
            "subject": "Order ${/order_id}: gr\u00fc\u00dfe", **changes}


@pytest.fixture(scope="module")
def mailer() -> Iterator[Mailer]:
    with Mailer() as server:
        yield server


@pytest.fixture(scope="module")
def absent() -> Mailer:
    """Not started."""
    return Mailer()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """With TLS in either way, and a login."""
    certificate = make_certificate(tmp_path_factory.mktemp("certificate"))
    login = ("shop", PASSWORD)
    with Mailer(certificate, implicit=True) as implicit, Mailer(certificate, login=login) as upgraded:
        yield {"ca": str(certificate[0]), "implicit": implicit, "upgraded": upgraded}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker, mailer: Mailer, absent: Mailer,
           servers: dict[str, Any]) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("mail")
    secrets = {"right": PASSWORD, "wrong": "another"}
    for name, text in secrets.items():
        (directory / name).write_text(text + "\n")
    upgraded, ca = servers["upgraded"].url, {"ca_file": servers["ca"]}
    with tools.opened(
            directory, postgres, template, shared_broker, "mail_bench",
            effects=[effect("charge"),
                     *(mail_effect(name) for name in ("mail", "mute", "absent", "implicit",
                                                      "upgraded", "locked-out", "distrusted"))],
            targets=[mail_target("mail", mailer.url),
                     mail_target("mute", mailer.url, timeout="6s"),
                     mail_target("absent", absent.url),
                     mail_target("implicit", servers["implicit"].url, **ca),
                     mail_target("upgraded", upgraded, **ca, auth="shop:${secret}",
                                 secret_file=str(directory / "right")),
                     mail_target("locked-out", upgraded, **ca, auth="shop:${secret}",
                                 secret_file=str(directory / "wrong")),
                     mail_target("distrusted", servers["implicit"].url)]) as bench:
        bench.world.ledgers[0].allow_errors(r"target held.*target=(locked-out|distrusted) ")
        yield bench


@pytest.fixture
def bench(opened: Bench, mailer: Mailer, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.clear()
    mailer.behave()


def to(order: int) -> str:
    return f"c-{order}@customers.example"


def mail(bench: Bench, name: str = "mail", **how: Any) -> int:
    order = bench.order()
    announce(bench.world, [order], name, **{"customer_id": to(order), **how})
    return order


# --- what is sent ---------------------------------------------------------------------------------

def test_a_mail_arrives_as_it_was_meant(bench: Bench, mailer: Mailer):
    text = "\u00a1Hola!\n.\n..dots\r\n  spaces \n" + "long " * 300 + "\n.\nQUIT"
    order = mail(bench, headers=[("x-text", text.encode())])
    wait_state(bench.world, order, "completed")
    (sent,) = mailer.to(to(order))
    message = sent.message
    assert (sent.sender, sent.recipients) == ("orders@shop.example", [to(order)])
    assert message["To"] == to(order) and message["Subject"] == f"Order {order}: gr\u00fc\u00dfe"
    (sender,) = message["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ('Caf\u00e9 "7"', "orders@shop.example")
    assert message["Message-ID"] == f"<order=3A{order}=3Acharge@shop.example>"
    assert abs(message["Date"].datetime.timestamp() - time.time()) < 60
    assert message.get_content().splitlines() == f"Dear {to(order)},\n{text}\n".splitlines()
    assert all(len(line) <= 78 for line in sent.content.split(b"\r\n")) and sent.content.isascii()
    (attempt,) = attempts_of(bench.world, order)
    assert (attempt.outcome, attempt.http_status) == ("applied", 250)
    assert attempt.response_body == b"250 2.0.0 queued\r\n"


def test_a_large_mail_arrives(bench: Bench, mailer: Mailer):
    """L29: larger than 64 KiB."""
    text = "0123456789abcde\n" * (200 * 1024 // 16)
    order = mail(bench, headers=[("x-text", text.encode())])
    wait_state(bench.world, order, "completed")
    (sent,) = mailer.to(to(order))
    assert text in sent.message.get_content().replace("\r\n", "\n")


@pytest.mark.parametrize("recipient", [
    "a@b.example\r\nBcc: c@d.example", "a@b.example\nBcc: c@d.example", "a@b.example, c@d.example",
    "a@b.example> SIZE=1", "A <a@b.example>, B <c@d.example>", "\u00fc@b.example", "nobody", ""],
    ids=["crlf", "lf", "two", "parameter", "two-names", "unicode", "no-address", "empty"])
def test_what_is_not_one_address_is_never_sent(bench: Bench, mailer: Mailer, recipient: str):
    before = len(mailer.mails)
    order = mail(bench, customer_id=recipient)
    key = wait_state(bench.world, order, "dead")
    assert (key.outcome, key.tries) == ("unrendered", 0) and len(mailer.mails) == before


# --- how it ends ----------------------------------------------------------------------------------

@pytest.mark.parametrize("step", ["mail", "rcpt"])
@pytest.mark.parametrize("reply", ["451 4.3.0 later", CLOSE, HANG], ids=["4xx", "lost", "silent"])
def test_before_its_end_it_is_tried_again(bench: Bench, mailer: Mailer, step: str, reply: str):
    """L30: nothing can have been delivered."""
    mailer.once[step] = [reply]
    order = mail(bench)
    wait_finished(bench.world, [order])
    key = key_of(bench.world, order)
    assert (key.state, key.attempts, key.unknown_sends) == ("completed", 2, 0)
    assert outcomes_of(bench.world, order) == ["try_later", "applied"]
    assert len(mailer.to(to(order))) == 1


@pytest.mark.parametrize("step", ["mail", "rcpt"])
def test_a_refusal_is_final(bench: Bench, mailer: Mailer, step: str):
    mailer.once[step] = ["550 5.1.1 no such user"]
    order = mail(bench)
    key = wait_state(bench.world, order, "dead")
    assert (key.outcome, key.error_class, key.unknown_sends) == ("refused", "smtp 550", 0)
    (attempt,) = attempts_of(bench.world, order)
    assert attempt.response_body == b"550 5.1.1 no such user\r\n"
    assert not mailer.to(to(order))


@pytest.mark.parametrize("reply, error_class", [
    (HANG, "timeout"), (CLOSE, "reset"), ("451 4.3.0 later", "smtp 451"),
    ("554 5.7.1 spam", "smtp 554")], ids=["silent", "lost", "4xx", "5xx"])
def test_behind_its_end_only_250_counts(bench: Bench, mailer: Mailer, reply: str,
                                        error_class: str):
    """L30: it may have been delivered, and is not sent again."""
    mailer.once["data"] = [reply]
    order = mail(bench)
    key = wait_state(bench.world, order, "uncertain")
    assert (key.outcome, key.error_class, key.tries) == ("no_answer", error_class, 1)
    waiting.holds(lambda: len(mailer.to(to(order))) == 1, 0.5, "one mail")


def test_a_server_that_is_not_there_costs_nothing(bench: Bench, absent: Mailer):
    order = mail(bench, "absent")
    waiting.until(lambda: key_of(bench.world, order) and key_of(bench.world, order).tries >= 3, 20,
                  "three tries")
    with absent:
        wait_state(bench.world, order, "completed")
    assert key_of(bench.world, order).attempts == 1 and len(absent.to(to(order))) == 1


# --- TLS and login --------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["implicit", "upgraded"])
def test_tls_and_login(bench: Bench, servers: dict[str, Any], how: str):
    order = mail(bench, how)
    wait_state(bench.world, order, "completed")
    assert len(servers[how].to(to(order))) == 1


@pytest.mark.parametrize("how, reason", [("locked-out", "login"), ("distrusted", "certificate")])
def test_a_server_that_refuses_us_or_is_not_trusted_holds_its_target(bench: Bench, how: str,
                                                                     reason: str):
    order = mail(bench, how)
    bench.world.ledgers[0].wait_for("target held: it refuses us, not the keys", target=how,
                                    reason=reason)
    key = key_of(bench.world, order)
    assert (key.attempts, key.unknown_sends) == (0, 0)


# --- beside others --------------------------------------------------------------------------------

@pytest.mark.parametrize("step", ["mail", "rcpt", "data"])
def test_a_silent_server_delays_no_other_effect(bench: Bench, mailer: Mailer, step: str):
    """L28: for as long as mails hang, requests over HTTP are answered as ever."""
    world = bench.world
    mailer.said[step] = HANG
    mails = [mail(bench, "mute") for _ in range(10)]
    waiting.until(lambda: all(key_of(world, n) for n in mails), 10, "the mails")
    waiting.until(lambda: {key_of(world, n).state for n in mails} == {"in_flight"}, 10, "all of them")
    orders = bench.orders(50)
    began = time.monotonic()
    announce(world, orders, "charge")
    wait_finished(world, orders)
    assert time.monotonic() - began < 2.5
    assert {charges_of(world, n) for n in orders} == {1}
    assert {key_of(world, n).state for n in mails} == {"in_flight"}, "they were silent for longer"
    mailer.behave()
    wait_finished(world, mails)
    assert {key_of(world, n).state for n in mails} == {"uncertain" if step == "data" else "completed"}


def test_a_mailing_that_is_killed_reaches_nobody_twice(make_world: Callable[..., World],
                                                       mailer: Mailer):
    """L13: killed in the middle, started again."""
    world = make_world(target={}, settings={"ledger": {"lease": "1500ms"}})
    world.targets.append({**{k: v for k, v in world.targets[0].items() if k != "headers"},
                          **mail_target("mail", mailer.url, concurrency=5)})
    world.effects.append({**mail_effect("mail"), "on": {"topic": world.topic, "type": "mail"}})
    world.start(relays=0)
    orders = range(900_001, 900_201)
    for order in orders:
        announce(world, [order], "mail", customer_id=to(order))
    mine = {to(order) for order in orders}

    def arrived() -> list[str]:
        return [m.recipients[0] for m in mailer.mails if m.recipients and m.recipients[0] in mine]
    for count in (40, 80, 120):
        waiting.until(lambda: len(arrived()) >= count, 60, f"{count} mails")
        world.ledgers[0].kill()
        world.ledgers[0].start()
    wait_finished(world, orders, timeout=60)
    assert max(arrived().count(a) for a in mine) == 1
    states = {to(n): key_of(world, n).state for n in orders}
    assert set(states.values()) <= {"completed", "uncertain"}
    assert all(a in arrived() for a, state in states.items() if state == "completed")


@pytest.mark.parametrize("point, arrived, state", [
    ("marker.send", {0}, "completed"), ("mail.end", {0}, "uncertain"),
    ("mail.ended", {0, 1}, "uncertain"),     # a server may forget what it was not asked to answer
    ("mail.answered", {1}, "uncertain")])
def test_a_crash_leaves_a_mail_uncertain(make_world: Callable[..., World], mailer: Mailer,
                                         point: str, arrived: set[int], state: str):
    """A point of include/crash.h: once its marker was set nobody sends it again."""
    world = make_world(settings={"ledger": {"lease": "1500ms"}})
    world.targets.append({**world.targets[0], **mail_target("mail", mailer.url)})
    world.effects.append({**mail_effect("mail"), "on": {"topic": world.topic, "type": "mail"}})
    order = 800_000 + sum(point.encode())
    ledger = world.ledger()
    ledger.crash_at(point)
    ledger.start()
    announce(world, [order], "mail", customer_id=to(order))
    ledger.wait_crash()
    waiting.until(lambda: len(mailer.to(to(order))) in arrived, 10, "the mail, or none")
    assert key_of(world, order).state == "in_flight"
    ledger.crash_at("")
    ledger.start()
    key = wait_state(world, order, state)
    unsent = state == "completed"
    assert (key.tries, key.takeovers) == (1 + unsent, 1)
    assert len(mailer.to(to(order))) in ({1} if unsent else arrived)


def test_a_mail_is_shown_and_not_sent(bench: Bench, mailer: Mailer, tmp_path: Path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"topic": bench.world.topic, "type": "mail", "payload": {
        "order_id": 1, "customer_id": "a@b.example", "total_cents": 1}}))
    before = len(mailer.mails)
    config = bench.world.write_configuration()
    done = programs.run("counterfoil-ledger", "--config", str(config), "--try", str(event))
    assert done.returncode == 0 and len(mailer.mails) == before
    for line in (f"MAIL {mailer.url}", "To: a@b.example", "Subject: Order 1: gr\u00fc\u00dfe",
                 "Message-ID: <order=3A1=3Acharge@shop.example>"):
        assert f"        {line}\n" in done.stdout
