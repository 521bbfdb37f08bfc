"""Screen 4: the outboxes, topics, relays and the rows that could not be published."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Callable, Iterator

import pytest

from tests.tools import waiting
from tests.tools.dead import Dead
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.terminal import Terminal

from .conftest import golden

Console = Callable[..., Terminal]
SIZES = pytest.mark.parametrize("width,height", [(100, 30), (80, 24), (60, 16)])
HOSTILE = "\x1b[31mX\r\n\u202e\u200b世\x9b\\"


@pytest.fixture
def dead(postgres: Postgres, database: str, keys: Keys) -> Iterator[Dead]:  # noqa: F811
    """Beside `frozen` its times are those of the clock that stands."""
    made = Dead(postgres, database)
    yield made
    made.close()


@pytest.fixture
def still(dead: Dead, frozen: Keys) -> Dead:
    dead.at = frozen.at
    return dead


def seed(dead: Dead) -> None:
    """A day on which somebody sent videos, and a topic was mistyped."""
    event = "019c7a31-6f0b-7e37-9d4e-3b0a6c1d9e84"
    dead.relay("relay-1", backlog=57, oldest="3 s", rate=92.3, published=8123456, batch=500,
               in_flight=57, blocked=1, latency_p50="4 ms", latency_p99="38 ms", violations=0)
    dead.relay("relay-2", role="standby", seen="900 ms", started="2 hours")
    dead.topic("billing.events", pending=41, oldest="3 s", rate=58.2)
    dead.topic("mail.outbound", pending=16, oldest="1 s", rate=34.1)
    dead.topic("audit.export")
    dead.topic("ordres", state="blocked", pending=12, oldest="4 min 10 s", since="4 min",
               reason="Broker: Unknown topic or partition")
    dead.key(3, topic="billing.events", type="order.invoiced", ordering_key="ord-20417",
             event_id=None, died="2 h 10 min", created="2 h 11 min",
             reason="5000123 bytes, more than message.max.bytes = 1000000", size=5000123)
    dead.add(row_id=40, event_id=event, topic="mail.outbound", type="mail.wanted",
             ordering_key="cust-881", order_hash=1, headers='{"tenant": "acme", "n": 1}',
             payload=b'{"to":"a@example.com","lines":[1,2.50]}', died="6 min",
             reason="partition 7 of mail.outbound, which has 4", partition=7)
    dead.add(row_id=41, topic="mail.outbound", ordering_key=None, payload=b"\0\1binary", died="5 min",
             reason="Broker: Message size too large; it failed alone")


@SIZES
def test_relay(still: Dead, stopped: Console, width: int, height: int):
    seed(still)
    terminal = stopped(width, height)
    golden(f"relay-{width}x{height}", terminal.press("4"))
    golden(f"relay-parked-{width}x{height}", terminal.press("]"))
    golden(f"relay-topics-{width}x{height}", terminal.press("[", "Tab", "j"))


@SIZES
def test_a_dead_row(still: Dead, stopped: Console, width: int, height: int):
    seed(still)
    terminal = stopped(width, height)
    terminal.press("4", "j")
    golden(f"relay-row-{width}x{height}", terminal.press("Enter"))
    golden(f"relay-actions-{width}x{height}", terminal.press("x"))
    golden(f"relay-requeue-{width}x{height}", terminal.press("r"))


def test_what_waits_behind_it(still: Dead, stopped: Console):
    seed(still)
    terminal = stopped(100, 30)
    golden("relay-row-behind", terminal.press("4", "G", "Enter").replace(
        *(still.query("SELECT event_id::text FROM counterfoil.outbox_dead WHERE row_id = 1")[0] +
          ("an-event",))))
    golden("relay-discard", terminal.press("x", "d").replace(
        *(still.query("SELECT event_id::text FROM counterfoil.outbox_dead WHERE row_id = 1")[0] +
          ("an-event",))))


def test_several_outboxes(still: Dead, stopped: Console):
    seed(still)
    still.add("public.outboxevent", row='(1,"x")', order_hash=5)
    still.add("public.events", row='(1,"x")', order_hash=5, parked=True)
    still.relay("relay-3", source="public.outboxevent", backlog=10000, oldest="3 days", seen="4 min")
    golden("relay-outboxes", stopped(100, 30).press("4"))


def test_nobody_has_reported(still: Dead, stopped: Console):
    golden("relay-empty", stopped().press("4"))


def test_old_figures(still: Dead, stopped: Console):
    """What a relay said is old when none was seen for a while: it says how old."""
    still.relay("relay-1", backlog=57, oldest="3 s", rate=92, seen="3 min 12 s")
    still.topic("orders", pending=57, oldest="3 s", seen="3 min 12 s")
    golden("relay-old", stopped().press("4"))


def test_attention(still: Dead, stopped: Console):
    seed(still)
    terminal = stopped(100, 30)
    golden("relay-attention", terminal.screen())
    assert "[4 Relay]" in terminal.press("j", "Enter")


def test_hostile_text(dead: Dead, console: Console):
    """C8: whatever stands in a row or in what a relay says, it moves no cursor and takes its room."""
    dead.relay(HOSTILE, version=HOSTILE, role=HOSTILE)
    dead.topic(HOSTILE, state=HOSTILE, reason=HOSTILE)
    dead.add(topic=HOSTILE, type=HOSTILE, ordering_key=HOSTILE, reason=HOSTILE, owner=HOSTILE,
             payload=HOSTILE.encode(), message_key=HOSTILE.encode(), headers=None)
    for width, height in ((60, 16), (100, 30)):
        terminal = console(width, height)
        screens = [terminal.press("4"), terminal.press("Tab"), terminal.press("Tab", "Enter"),
                   terminal.press("G"), terminal.press("x"), terminal.press("r"),
                   terminal.press("Escape", "x", "d"), terminal.press("Escape", "q")]
        for screen in screens:
            assert "\\u001b" in screen and "\u202e" not in screen and "\u200b" not in screen, screen
            assert screen.count("─" * width) == 2, screen


def test_a_row_is_requeued(dead: Dead, console: Console):
    """C26 C41: five keys; Enter alone does nothing, and the answer is in the audit."""
    row, *parked = dead.key(parked=2)
    terminal = console()
    screen = terminal.press("4", "x", "r")
    assert "[> Cancel <]" in screen and "It goes back to the outbox; 2 rows parked behind it" in screen
    terminal.press("Enter")
    assert dead.audit() == [] and dead.rows() == [row, *parked]
    screen = terminal.press("x", "r", "Tab", "Enter")
    assert f"requeued row {row}" in screen and "no dead rows" in screen
    assert dead.waiting() == [row, *parked] and dead.rows() == []
    (audit,) = dead.audit()
    assert (audit["action"], audit["result"], audit["reason"]) == ("requeue", "done", None)
    assert audit["claims"]["program"].startswith("counterfoil ")


def test_a_row_is_discarded(dead: Dead, console: Console):
    row, *parked = dead.key(parked=1)
    terminal = console()
    screen = terminal.press("4", "Enter", "x", "d")
    assert "dropped for good; 1 row parked behind it goes back" in " ".join(
        line.strip("│ ") for line in screen.split("\n"))
    screen = terminal.press("Tab", "Enter")
    assert f"discarded row {row}" in screen and "dead or parked no more" in screen
    assert dead.waiting() == parked and dead.rows() == []


def test_many_enters_are_one_order(dead: Dead, console: Console):
    """C29"""
    dead.add(order_hash=1)
    dead.add(order_hash=2)
    terminal = console()
    terminal.press("4", "x", "r", "Tab")
    terminal.type("Enter", "Enter", "Enter")
    terminal.sync()
    assert len(dead.audit()) == 1 and len(dead.rows()) == 1


def test_a_reason_is_needed_in_production(dead: Dead, console: Console):
    row = dead.add()
    terminal = console(80, 24, None, general={"environment": "prod", "production": True})
    assert "needed" in terminal.press("4", "x", "d")
    screen = terminal.press("Tab", "Enter")
    assert "A reason is needed here" in screen and dead.rows() == [row]
    terminal.text("INC-3321")
    terminal.press("BTab", "Enter")
    (audit,) = dead.audit()
    assert (audit["reason"], audit["action"]) == ("INC-3321", "discard") and dead.rows() == []


def test_a_parked_row_is_refused(dead: Dead, console: Console):
    row, parked = dead.key(parked=1)
    terminal = console()
    screen = terminal.press("4", "]", "x", "r")
    assert f"! It waits behind row {row}, which is dead: settle that one." in screen
    terminal.press("Tab", "Enter")
    assert dead.audit() == [] and dead.rows() == [row, parked]


def test_no_single_key_changes_anything(dead: Dead, console: Console):
    row = dead.add()
    terminal = console()
    terminal.press("4")
    for key in "rRdDcCnNfFeEsSaAuUhHtT ":
        terminal.text(key)
    terminal.type("C-r", "C-d", "C-x", "F5", "Delete")
    terminal.sync()
    assert dead.rows() == [row] and dead.audit() == []


def test_read_only(dead: Dead, console: Console):
    row = dead.add()
    terminal = console(80, 24, None, console={"read_only": True})
    assert "console.read_only is set" in terminal.press("4", "x")
    terminal.press("r", "d", "Tab", "Enter")
    assert dead.rows() == [row] and dead.audit() == []


def test_somebody_else_was_quicker(dead: Dead, console: Console):
    row = dead.add()
    terminal = console()
    terminal.press("4", "x", "r", "Tab")
    dead.query("SELECT counterfoil.outbox_discard('counterfoil.outbox', %s, gen_random_uuid(), '', '{}')",
               ([row],))
    assert "! There is no such dead row." in terminal.press("Enter")
    assert dead.waiting() == [] and len(dead.audit()) == 1


def test_the_answer_that_was_lost(dead: Dead, console: Console, postgres: Postgres):  # noqa: F811
    """The connection goes while the order waits for a lock: asked for again, it is done once."""
    row = dead.add()
    terminal = console()
    terminal.press("4", "x", "r", "Tab")
    with closing(postgres.connect("ledger", autocommit=False)) as blocker:
        blocker.cursor().execute("SELECT FROM counterfoil.outbox_source FOR UPDATE")
        terminal.type("Enter")
        waiting.until(lambda: dead.query("SELECT 1 FROM pg_locks WHERE NOT granted"), 5,
                      "the order to wait")
        assert "asking the database" in terminal.screen()
        assert dead.query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                          "WHERE application_name = 'counterfoil'") == [(1,)]
        terminal.wait("connection was lost before the answer")
        blocker.rollback()
    terminal.wait("LIVE")
    terminal.press("Enter")
    assert f"requeued row {row}" in terminal.sync()
    assert len(dead.audit()) == 1 and dead.waiting() == [row]


def test_rows_of_a_topic(dead: Dead, console: Console):
    for topic in ("mail", "orders"):
        dead.add(topic=topic, reason=f"of {topic}")
        dead.topic(topic)
    terminal = console()
    screen = terminal.press("4", "Tab", "Enter")
    assert "topic mail   (Esc: all)" in screen and "of mail" in screen and "of orders" not in screen
    screen = terminal.press("Escape")
    assert "of mail" in screen and "of orders" in screen


def test_the_bar_follows_the_row(dead: Dead, console: Console):
    """C25"""
    ids = [dead.add(died=f"{n} min", order_hash=n, reason=f"nr-{n}") for n in range(1, 8)]
    terminal = console(80, 24, None, console={"refresh": "500ms"})

    def bar() -> str:
        (line,) = [line for line in terminal.screen().split("\n") if line.startswith(">")]
        return line.split()[1]
    terminal.press("4", "j", "j", "j")
    assert bar() == str(ids[3])
    dead.query("DELETE FROM counterfoil.outbox_dead WHERE row_id = ANY (%s)", (ids[:2],))
    waiting.until(lambda: "nr-1" not in terminal.screen(), 10, "it to go")
    assert bar() == str(ids[3])


def test_it_lives(dead: Dead, console: Console):
    """Figures change on the screen as relays report them."""
    dead.relay("relay-1", backlog=57)
    terminal = console(80, 24, None, console={"refresh": "500ms"})
    terminal.press("4")
    dead.query("UPDATE counterfoil.relay SET backlog = 4711")
    terminal.wait("4,711")
