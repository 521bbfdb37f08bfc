"""The harness itself: the provider judges rightly, its faults do what they say, the broker obeys."""

from __future__ import annotations

import smtplib
import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.demo import books, mail
from tests.tools import programs, waiting
from tests.tools.broker import Broker, Follower
from tests.tools.libconfig import merge, settings
from tests.tools.mailer import CLOSE, DROP, Mailer
from tests.tools.postgres import Postgres
from tests.tools.provider import Provider
from tests.tools.world import World

pytestmark = pytest.mark.plain

NOT_LEADER = 6        # Kafka's error code
PRODUCE = 0           # and API key


class Caller:
    """A client with one connection, as a ledger's transfer is."""

    def __init__(self, provider: Provider, timeout: float = 10) -> None:
        self.connection = HTTPConnection("127.0.0.1", provider.port, timeout=timeout)

    def charge(self, key: str | None = "k1", body: bytes = b"amount=1",
               path: str = "/v1/charges") -> HTTPResponse:
        headers = {"Idempotency-Key": key} if key else {}
        self.connection.request("POST", path, body, headers)
        response = self.connection.getresponse()
        if response.headers.get("Content-Length") != str(10 * 1024 ** 3):
            response.text = response.read().decode()
        return response


@pytest.fixture
def caller(provider: Provider) -> Iterator[Caller]:
    one = Caller(provider)
    yield one
    one.connection.close()


# --- keys -----------------------------------------------------------------------------------------

def test_a_key_is_charged_once_and_its_answer_given_again(provider: Provider, caller: Caller):
    first, again = caller.charge(), caller.charge()
    assert (first.status, first.headers["Idempotent-Replayed"]) == (200, None)
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.text == first.text
    assert [charge.key for charge in provider.charges()] == ["k1"]
    assert [(r.applied, r.replayed, r.status) for r in provider.requests()] == [
        (True, False, 200), (False, True, 200)]


def test_without_a_key_every_request_is_charged(provider: Provider, caller: Caller):
    caller.charge(key=None)
    caller.charge(key=None)
    assert len(provider.charges()) == 2


def test_another_content_under_a_key_is_refused(provider: Provider, caller: Caller):
    caller.charge()
    assert caller.charge(body=b"amount=2").status == 400
    provider.configure(mismatch=422)
    assert caller.charge(path="/v1/refunds").status == 422
    assert len(provider.charges()) == 1


def test_a_key_in_progress_is_refused_and_the_first_request_goes_on(provider: Provider,
                                                                    caller: Caller):
    provider.fault("pass", delay=0.5, times=1)
    impatient = Caller(provider, timeout=0.1)
    with pytest.raises(TimeoutError):
        impatient.charge()
    impatient.connection.close()
    assert caller.charge().status == 409
    waiting.until(provider.charges, 5, "the charge of the client that went away")
    assert caller.charge().headers["Idempotent-Replayed"] == "true"
    assert len(provider.charges()) == 1


def test_after_its_window_a_key_executes_again(provider: Provider, caller: Caller):
    provider.configure(window=0.2)
    caller.charge()
    waiting.until(lambda: caller.charge().headers["Idempotent-Replayed"] is None, 5,
                  "the window's end")
    assert len(provider.charges()) == 2
    provider.configure(window=3600)
    provider.forget_keys()
    caller.charge()
    assert len(provider.charges()) == 3


@pytest.mark.parametrize("stores, second", [("all", 500), ("2xx", 200), ("none", 200)])
def test_which_answers_are_stored(provider: Provider, caller: Caller, stores: str, second: int):
    provider.configure(stores=stores)
    provider.fault("status", status=500, apply=True, store=True, times=1)
    assert caller.charge().status == 500
    assert caller.charge().status == second
    assert len(provider.charges()) == (1 if stores == "all" else 2)


def test_a_provider_that_stores_nothing_charges_each_time(provider: Provider, caller: Caller):
    provider.configure(stores="none")
    caller.charge()
    caller.charge()
    assert len(provider.charges()) == 2


def test_an_error_kept_without_a_charge(provider: Provider, caller: Caller):
    provider.fault("status", status=402, store=True, times=1)
    assert [caller.charge().status, caller.charge().status] == [402, 402]
    assert provider.charges() == []


def test_authorization(provider: Provider, caller: Caller):
    provider.configure(authorization="Bearer right")
    assert caller.charge().status == 401
    assert provider.charges() == []


def test_it_remembers_after_a_kill(provider: Provider, caller: Caller):
    body = b"amount=" + b"1" * 100_000
    first = caller.charge(body=body)
    caller.connection.close()
    provider.kill()
    assert len(provider.charges()) == 1
    provider.start()
    again = caller.charge(body=body)
    assert again.headers["Idempotent-Replayed"] == "true" and again.text == first.text
    assert caller.charge(key="k2").text != first.text
    assert len(provider.charges()) == 2


def test_what_the_record_holds_of_a_request(provider: Provider, caller: Caller):
    caller.charge(key="order:1:charge", body=b"amount=5\x00\xff")
    (seen,) = provider.requests()
    assert (seen.method, seen.path, seen.key) == ("POST", "/v1/charges", "order:1:charge")
    assert (seen.body, seen.length, seen.header("content-length")) == ("amount=5\0\xff", 10, "10")
    assert (seen.connection, seen.nth, seen.applied, seen.decided) == (1, 1, True, True)


# --- faults ---------------------------------------------------------------------------------------

def test_status_with_headers_and_body(provider: Provider, caller: Caller):
    provider.fault("status", status=503, headers=[["X-Reason", "maintenance"]], body="later")
    answer = caller.charge()
    assert (answer.status, answer.headers["X-Reason"], answer.text) == (503, "maintenance", "later")
    provider.clear()
    assert caller.charge().status == 200
    assert len(provider.charges()) == 1


def test_a_redirect_is_a_status(provider: Provider, caller: Caller):
    provider.fault("status", status=307, headers=[["Location", "http://127.0.0.1:1/"]], times=1)
    assert caller.charge().headers["Location"] == "http://127.0.0.1:1/"


@pytest.mark.parametrize("form, begins", [
    ("digits", "30"), ("imf", ("Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, ")),
    ("rfc850", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    ("asctime", ("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun ")), ("junk", "in a while")])
def test_retry_after_in_every_form(provider: Provider, caller: Caller, form: str, begins):
    provider.fault("status", status=429, retry_after={"seconds": 30, "form": form})
    answer = caller.charge()
    assert answer.status == 429 and answer.headers["Retry-After"].startswith(begins)
    assert answer.headers["Date"].endswith(" GMT")


@pytest.mark.parametrize("apply", [False, True])
def test_hang(provider: Provider, apply: bool):
    provider.fault("hang", apply=apply, times=1)
    impatient = Caller(provider, timeout=0.2)
    with pytest.raises(TimeoutError):
        impatient.charge()
    assert len(provider.charges()) == apply
    assert provider.requests()[0].status is None
    again = Caller(provider).charge()
    assert (again.headers["Idempotent-Replayed"] == "true") == apply
    assert len(provider.charges()) == 1


@pytest.mark.parametrize("apply", [False, True])
def test_reset(provider: Provider, caller: Caller, apply: bool):
    provider.fault("reset", apply=apply)
    with pytest.raises(ConnectionResetError):
        caller.charge()
    assert len(provider.charges()) == apply


@pytest.mark.parametrize("apply", [False, True])
def test_close(provider: Provider, caller: Caller, apply: bool):
    provider.fault("close", apply=apply)
    with pytest.raises(RemoteDisconnected):
        caller.charge()
    assert len(provider.charges()) == apply


def test_the_second_request_of_a_connection(provider: Provider, caller: Caller):
    fault = provider.fault("close", nth=2)
    assert caller.charge("k1").status == 200
    with pytest.raises(RemoteDisconnected):
        caller.charge("k2")
    assert provider.met(fault) == 1


def raw(provider: Provider, key: str = "k1") -> bytes:
    """The bytes of an answer, to its end."""
    with socket.create_connection(("127.0.0.1", provider.port), 10) as connection:
        connection.sendall(b"POST /v1/charges HTTP/1.1\r\nIdempotency-Key: %s\r\n"
                           b"Content-Length: 1\r\n\r\n1" % key.encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def test_cut_headers(provider: Provider):
    provider.fault("cut_headers")
    answer = raw(provider)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b"\r\n\r\n" not in answer
    assert len(provider.charges()) == 1


def test_cut_body(provider: Provider):
    provider.fault("cut_body")
    head, _, body = raw(provider).partition(b"\r\n\r\n")
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert 0 < len(body) < length
    assert len(provider.charges()) == 1


def test_garbage(provider: Provider):
    provider.fault("garbage")
    assert raw(provider).startswith(b"\x00\x01\x02")


def test_slow_body(provider: Provider, caller: Caller):
    provider.fault("slow_body", interval=0.005)
    assert '"succeeded"' in caller.charge().text


@pytest.mark.parametrize("chunked", [False, True])
def test_huge_body(provider: Provider, chunked: bool):
    size = 10 * 1024 ** 3
    provider.fault("huge_body", chunked=chunked)
    with closing(HTTPConnection("127.0.0.1", provider.port, timeout=10)) as connection:
        connection.request("POST", "/v1/charges", b"1", {"Idempotency-Key": "k1"})
        response = connection.getresponse()
        assert response.headers["Content-Length"] == (None if chunked else str(size))
        assert len(response.read(5 * 1024 * 1024)) == 5 * 1024 * 1024
        response.close()
    waiting.until(lambda: provider.requests()[0].sent, 10, "the provider to give up")
    assert len(provider.charges()) == 1


def test_an_answer_before_the_body(provider: Provider):
    provider.fault("status", status=413, early=True)
    with socket.create_connection(("127.0.0.1", provider.port), 10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_whom_a_fault_meets(provider: Provider, caller: Caller):
    provider.fault("status", status=500, key=r"^order:7:", times=2)
    provider.fault("status", status=501, path="/v1/refunds")
    assert caller.charge("order:8:charge").status == 200
    assert caller.charge("order:7:charge").status == 500
    assert caller.charge("order:7:charge", path="/v1/refunds").status == 500
    assert caller.charge("order:7:charge").status == 200
    assert caller.charge("order:9:refund", path="/v1/refunds").status == 501


def test_a_fault_ends_after_its_seconds(provider: Provider, caller: Caller):
    provider.fault("status", status=503, seconds=0.2)
    assert caller.charge().status == 503
    waiting.until(lambda: caller.charge().status == 200, 5, "the fault to end")


def test_refused_connections(provider: Provider):
    provider.refuse_connections()
    with pytest.raises(ConnectionRefusedError):
        Caller(provider).charge()
    provider.accept_connections()
    assert Caller(provider).charge().status == 200


def test_an_order_that_does_not_exist(provider: Provider):
    with pytest.raises(RuntimeError, match="no such fault"):
        provider.fault("sulk")
    with pytest.raises(RuntimeError, match="no such property"):
        provider.fault("hang", colour="red")


# --- broker ---------------------------------------------------------------------------------------

def test_what_is_produced_is_read(broker: Broker, topic: str):
    for n in range(50):
        broker.produce(topic, b"value %d" % n, b"key %d" % n, [("ce_id", b"id-%d" % n)])
    broker.produce(topic, None, b"tombstone")
    broker.flush()
    messages = broker.consume_all(topic)
    assert broker.count(topic) == 51 and broker.partitions(topic) == [0, 1, 2, 3]
    assert sorted(m.value for m in messages if m.value) == sorted(b"value %d" % n for n in range(50))
    assert {m.event_id for m in messages} == {f"id-{n}" for n in range(50)} | {None}


def test_the_very_same_message_again(broker: Broker, topic: str):
    broker.produce(topic, b"v", b"k", [("a", b"1"), ("b", b"\x00\xff")], partition=2)
    broker.flush()
    broker.publish_again(broker.consume_all(topic))
    first, again = broker.consume_all(topic)
    assert first.content() == again.content() and (first.offset, again.offset) == (0, 1)


def test_a_follower_reads_along(broker: Broker, topic: str):
    broker.produce(topic, b"before")
    broker.flush()
    with closing(Follower(broker.bootstrap, topic)) as follower:
        broker.produce(topic, b"after")
        broker.flush()
        waiting.until(lambda: len(follower.messages) == 2, 10, "both messages")


def test_a_broker_that_is_down(own_broker: Broker):
    own_broker.create_topic("t")
    own_broker.down()
    own_broker.produce("t", b"waits")
    with pytest.raises(TimeoutError):
        own_broker.flush(0.5)
    own_broker.up()
    own_broker.flush()
    assert own_broker.count("t") == 1


def test_errors_that_a_broker_answers(own_broker: Broker):
    own_broker.create_topic("t")
    own_broker.fail_requests(PRODUCE, 2, NOT_LEADER)
    own_broker.produce("t", b"at the third try")
    own_broker.flush()
    assert own_broker.count("t") == 1


def test_other_commands_of_the_broker(own_broker: Broker):
    own_broker.create_topic("t", 2)
    own_broker.set_round_trip(5)
    own_broker.set_leader("t", 1, 1)
    own_broker.command("topic-error", "t", 0)
    for wrong in ("down 99", "sulk", "topic", "errors 0 many 6", "rtt 1"):
        with pytest.raises(RuntimeError):
            own_broker.command(wrong)


# --- the rest -------------------------------------------------------------------------------------

def test_a_private_postgresql(postgres: Postgres, empty_database: str):
    assert postgres.value("SHOW listen_addresses") == ""
    assert postgres.value("SHOW fsync") == "on"
    assert postgres.value("SELECT current_database()", dbname=empty_database) == empty_database
    postgres.kill()
    postgres.start()
    postgres.restart("immediate")
    assert postgres.answers()


def test_waiting_tells_what_it_waited_for():
    with pytest.raises(waiting.Late, match="for rain; last seen: 0"):
        waiting.until(lambda: 0, 0.05, "rain")


def test_configuration_as_libconfig_reads_it():
    text = settings(merge({"a": {"b": 1, "c": True}, "gone": "x"},
                          {"a": {"b": [("n", 'say "\\"\n')]}, "gone": None}))
    assert text == 'a = {\n  b = (("n", "say \\"\\\\\\"\\n"));\n  c = true;\n};\n'


def test_log_lines_are_read_back():
    line = programs.parse_line('ts=2026-01-01T00:00:00Z level=warn program=counterfoil-relay '
                               'msg="broker \\"b\\" is gone" rows=3')
    assert (line.level, line.msg, line.fields["rows"]) == ("warn", 'broker "b" is gone', "3")


def test_an_error_line_is_a_complaint(tmp_path: Path):
    program = programs.Program("counterfoil-relay", "relay-1", tmp_path, {})
    program.log_path.write_text('ts=1 level=error msg="cannot" code=7\nts=1 level=warn msg=odd\n'
                                "==1==ERROR: AddressSanitizer: heap-use-after-free\n")
    assert len(program.complaints()) == 2
    program.allow_errors("cannot.*code=7")
    assert len(program.complaints()) == 1


# --- all together ---------------------------------------------------------------------------------

def test_a_world_from_orders_to_charges_and_again(world: World):
    world.start(relays=1, ledgers=2)
    world.place(world.orders(100))
    world.wait_drained()
    assert (world.lost(), world.duplicated()) == ([], {})
    assert world.states() == {"completed": 100}
    world.run_twice()
    for program in world.programs:
        program.stop()


# --- the judge of the demo ------------------------------------------------------------------------

@pytest.fixture
def posted(make_world: Callable[..., World]) -> Iterator[tuple[World, Mailer]]:
    """A world as that of the demo."""
    with Mailer() as mailer:
        world = make_world()
        world.effects.append(mail.effect(world.topic))
        world.targets.append(mail.target(mailer.url))
        yield world.start(), mailer


def test_the_demos_books_tell_of_a_mail_sent_twice_and_of_a_lost_one(posted: tuple[World, Mailer]):
    world, mailer = posted
    orders = world.orders(5)

    def balance() -> books.Books:
        return books.balance(world, {order.id: order for order in orders}, world.messages(),
                             mailer.mails)
    mailer.once["data"] = [CLOSE, DROP]
    world.place(orders)
    world.wait_drained()
    good = balance()
    assert good.faults == [] and good.mails == books.Mails(4, 0, 0, uncertain=2, arrived=1)
    first = mailer.mails[0]
    with smtplib.SMTP("127.0.0.1", mailer.port) as client:
        client.sendmail(first.sender, first.recipients, first.content)
    twice = balance()
    assert (twice.mails.taken, twice.mails.duplicated, len(twice.faults)) == (5, 1, 1)
    certain = next(m for m in mailer.mails if m.accepted and m.content != first.content)
    mailer.mails = [m for m in mailer.mails if m is not certain][:-1]
    lost = balance()
    assert (lost.mails.lost, lost.mails.duplicated, len(lost.faults)) == (1, 0, 1)
