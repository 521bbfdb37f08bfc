"""What the screens look like, as text. After an intended change: UPDATE_GOLDEN=1, and look at it."""

from __future__ import annotations

from typing import Callable

import pytest

from tests.tools.keys import Keys
from tests.tools.terminal import Terminal

from .conftest import golden

Console = Callable[..., Terminal]
SIZES = [(100, 30), (80, 24), (60, 16)]
REQUEST = {"order_id": "ord-20417", "amount": {"value": "129.00", "currency": "EUR"},
           "customer": "cus_881", "note": "line one\nline two \u001b[31m",
           "items": [{"sku": "A-1", "n": 2}, {"sku": "B-7", "n": 1}]}
UNAVAILABLE = {"outcome": "server_error", "http_status": 503,
               "response_head": b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\n",
               "response_body": b'{"error":"try later"}'}


def seed(keys: Keys) -> None:
    """A day on which a provider was away for a while."""
    owner = keys.ledger("ledger-1")
    keys.ledger("ledger-2")
    keys.relay()
    keys.outbox(57)
    keys.add("order:20417:charge", since="11 min 10 s", subject="order-20417", body=REQUEST,
             tries=4, error_class="http 402", outcome="refused", http_status=402,
             first_sent="24 min", sent="11 min 12 s", window="-23 hours",
             event_id="019c7a31-6f0b-7e37-9d4e-3b0a6c1d9e84",
             attempts=[
                 {**UNAVAILABLE, "started": "24 min", "owner": owner},
                 {"outcome": "not_sent", "took_us": 3000000, "error": "connect timeout after 3s",
                  "started": "22 min", "owner": owner + 1},
                 {**UNAVAILABLE, "started": "17 min", "owner": owner, "took_us": 201000},
                 {"outcome": "refused", "http_status": 402, "started": "11 min 12 s",
                  "owner": owner,
                  "response_head": b"HTTP/1.1 402 Payment Required\r\nContent-Type: "
                                   b"application/json\r\n",
                  "response_body": b'{"error":{"code":"card_declined"}}'}])
    for n in range(20418, 20431):
        keys.add(f"order:{n}:charge", since=f"{n - 20400} min", subject=f"order-{n}", tries=8,
                 error_class="http 503", outcome="server_error", http_status=503)
    keys.add("order:20398-\u001b[31mX\r\n\u202e:charge", since="12 min", subject="order-20398",
             tries=8, error_class="http 503", outcome="server_error", http_status=503)
    keys.add("order:世蓮😀:charge", since="12 min 30 s", subject="order-20399", tries=8,
             error_class="http 503", outcome="server_error", http_status=503)
    for n in range(20431, 20437):
        keys.add(f"order:{n}:charge", "retry_wait", since=f"{n - 20430} min", tries=2,
                 due=f"-{n - 20430} min", error_class="http 503")
    for n in range(20437, 20440):
        keys.add(f"order:{n}:charge", "in_flight", since="2 s", owner=owner, tries=1,
                 unknown_sends=1)
    keys.add("order:20440:charge", "in_flight", since="14 min 52 s", owner=99, tries=1,
             unknown_sends=1, deadline="14 min")
    keys.add("order:42:charge", "uncertain", since="2 h 10 min", subject="order-42", tries=2,
             unknown_sends=2, error_class="timeout", outcome="no_answer", first_sent="2 h 10 min",
             sent="2 h 10 min", window="-21 h 50 min",
             attempts=[{"outcome": "no_answer", "took_us": 30000000, "error": "timeout",
                        "started": "2 h 11 min", "owner": owner},
                       {"outcome": "no_answer", "took_us": 30000000, "error": "timeout",
                        "started": "2 h 10 min 30 s", "owner": owner}])
    for n in range(1, 8):
        keys.add(f"order:{20440 + n}:charge", "pending", since=f"{n} s")
    for n in range(1, 61):
        keys.add(f"order:{20300 + n}:charge", "completed", since=f"{n} h", tries=1,
                 outcome="applied", http_status=200, provider_id=f"ch_{n:03}")
    keys.add("order:20299:charge", "cancelled", since="3 days")


@pytest.fixture
def seeded(frozen: Keys) -> Keys:
    seed(frozen)
    return frozen


def to_dead(terminal: Terminal) -> str:
    return terminal.press("2", *["]"] * 6)


@pytest.mark.parametrize("width,height", SIZES)
def test_overview(seeded: Keys, stopped: Console, width: int, height: int):
    golden(f"overview-{width}x{height}", stopped(width, height).screen())


@pytest.mark.parametrize("width,height", SIZES)
def test_dead_keys(seeded: Keys, stopped: Console, width: int, height: int):
    golden(f"dead-{width}x{height}", to_dead(stopped(width, height)))


@pytest.mark.parametrize("width,height", SIZES)
def test_a_dead_key(seeded: Keys, stopped: Console, width: int, height: int):
    terminal = stopped(width, height)
    to_dead(terminal)
    golden(f"key-{width}x{height}", terminal.press("Enter"))


def test_the_parts_of_a_key(seeded: Keys, stopped: Console):
    terminal = stopped(100, 30)
    to_dead(terminal)
    terminal.press("Enter")
    for part in ("response", "error", "headers", "audit"):
        golden(f"key-{part}", terminal.press("Tab"))
    golden("key-earlier-response", terminal.press("Tab", "Tab", "j"))
    golden("key-raw", terminal.press("BTab", "J"))


@pytest.mark.parametrize("width,height", SIZES)
def test_replay(seeded: Keys, stopped: Console, width: int, height: int):
    terminal = stopped(width, height, targets=[{
        "name": "payments", "url": "https://api.example.com", "profile": "stripe-v1"}])
    to_dead(terminal)
    golden(f"actions-{width}x{height}", terminal.press("x"))
    golden(f"replay-{width}x{height}", terminal.press("r"))


def test_an_uncertain_key(seeded: Keys, stopped: Console):
    terminal = stopped()
    terminal.press("Enter")
    golden("uncertain", terminal.press("Enter"))
    golden("uncertain-actions", terminal.press("x"))


def test_find(seeded: Keys, stopped: Console):
    terminal = stopped()
    terminal.press("/")
    terminal.text("order:2042")
    golden("find", terminal.sync())
    golden("found", terminal.press("Enter"))


def test_help(seeded: Keys, stopped: Console):
    terminal = stopped()
    golden("help", terminal.press("?"))
    golden("help-end", terminal.press("G"))


def test_times_instead_of_ages(seeded: Keys, stopped: Console):
    terminal = stopped(100, 30)
    to_dead(terminal)
    golden("dead-times", terminal.press("t"))


def test_a_c_locale_has_plain_borders_and_escapes(seeded: Keys, stopped: Console):
    terminal = stopped(80, 24, {"LC_ALL": "C"})
    to_dead(terminal)
    screen = terminal.press("x")
    assert screen.isascii()
    golden("c-locale", screen)


def test_production_stands_in_the_first_line(seeded: Keys, stopped: Console):
    terminal = stopped(80, 24, general={"environment": "prod", "production": True})
    golden("production", terminal.screen())
    first = terminal.colours().split("\n")[0]
    assert first.startswith("\x1b[1;7m\x1b[31m")    # reverse and red: no background of our own


def test_an_empty_database(frozen: Keys, stopped: Console):
    terminal = stopped()
    golden("empty-overview", terminal.screen())
    golden("empty-keys", terminal.press("2"))


def test_what_is_paused(frozen: Keys, stopped: Console):
    frozen.add("order:1", "pending", waiting=True, aside="charge")
    for scope, name, reason in (("tenant", "acme", None), ("tenant", "globex", None),
                                ("effect", "charge", "INC-8"), ("everything", "", "INC-7")):
        frozen.query("INSERT INTO counterfoil.pause (scope, name, who, reason, since) VALUES "
                     f"(%s, %s, 'duty1', %s, {frozen.at} - interval '3 min')", (scope, name, reason))
    terminal = stopped(100, 30)
    golden("paused-overview", terminal.screen())
    terminal.press("/")
    terminal.text("order:1")
    terminal.press("Enter")
    golden("paused-key", terminal.press("Enter"))
