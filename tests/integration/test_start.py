"""Bad starts: a wrong configuration ends a program at once, in words; a database or a broker that
is not there, or does not fit, is waited for, and nothing is performed meanwhile."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import libconfig, programs, waiting
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import CHARGE, World

ROOT = Path(__file__).resolve().parents[2]
VERSION, NEEDED = re.search(r'COUNTERFOIL_VERSION "(.*)".*COUNTERFOIL_SCHEMA +(\d+)',
                            (ROOT / "include/version.h").read_text(), re.S).groups()
LATEST = max(int(file.name.split("_")[0]) for file in (ROOT / "conf/migrations").glob("*.sql"))
CONFIG, UNAVAILABLE, USAGE, ERROR, OK = 78, 69, 2, 1, 0
PROGRAMS = {"counterfoil-relay": (), "counterfoil-ledger": (), "counterfoil": ("migrate",)}
EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS)


def start(program: str, path: Path | str, **options: Any) -> tuple[int, str]:
    """Exit status and what it said, which must stand on stderr alone."""
    done = programs.run(program, "--config", str(path), *PROGRAMS[program], timeout=20, **options)
    assert done.stdout == ""
    return done.returncode, done.stderr


# --- the configuration ----------------------------------------------------------------------------

@EVERY_PROGRAM
def test_a_configuration_that_cannot_be_read(program: str, tmp_path: Path):
    nowhere, directory, circle = tmp_path / "no.conf", tmp_path / "directory", tmp_path / "circle"
    directory.mkdir()
    circle.symlink_to(circle)
    assert start(program, nowhere) == (
        CONFIG, f"{nowhere}: No such file or directory; name another file with --config\n")
    assert start(program, directory) == (CONFIG, f"{directory}: is a directory, not a file\n")
    status, text = start(program, circle)
    assert status == CONFIG and text.startswith(f"{circle}: ") and "symbolic links" in text
    if os.geteuid() != 0:
        secret = tmp_path / "secret.conf"
        secret.write_text("")
        secret.chmod(0)
        assert start(program, secret) == (CONFIG, f"{secret}: Permission denied\n")


@EVERY_PROGRAM
@pytest.mark.parametrize("text, line", [
    ('log = { level = "info" \npostgres = { };\n', 2),
    ('log = { level = "info";\n\n', 1),
    ('log = { level "info"; };\n', 1),
    ('\nlog = { level = "info; };\n', 2),
    ('relay = { };\n/* for ever\n', 2),
    ("relay = { };\n\n\x01\n", 3),
    ('@include "directory"\n', 1),
    ('relay = { };\n@include "nowhere.conf"\n', 2),
])
def test_a_syntax_error_has_its_line(program: str, tmp_path: Path, text: str, line: int):
    (tmp_path / "directory").mkdir()
    path = tmp_path / "bad.conf"
    path.write_text(text)
    status, said = start(program, path)
    assert status == CONFIG and said.startswith(f"{path}:{line}: ") and said.count("\n") == 1, said


@EVERY_PROGRAM
def test_all_faults_are_told_at_once(program: str, tmp_path: Path):
    path = tmp_path / "many.conf"
    path.write_text("""\
postgres = { conninfo = "dbname=x password=hush"; conect_timeout = "5s"; };
kafka = { properties = ( ("bootstrap.servers", "b:1"), ("acks", "1") ); };
relai = { };
log = { level = "loud"; };
relay = { lease = 15; batch = "many"; nonsense = 1; };
ledger = { start = "yesterday"; };
targets = ( { name = "p"; url = "ftp://x"; profile = "plain"; } );
effects = ( { name = "e"; on = { topic = "t"; typ = "x"; }; target = "nobody"; key = "${/a}";
  retention = "forever"; } );
""")
    status, said = start(program, path)
    assert status == CONFIG
    expected = [
        '1: postgres.conect_timeout: unknown key; did you mean "connect_timeout"?',
        "1: postgres.conninfo: ",
        "2: kafka.properties[1]: the property acks cannot be set",
        '3: relai: unknown section; did you mean "relay"?',
        '4: log.level: "loud" is not one of "error", "warn", "info", "debug"',
        "5: relay.batch: is a text; write a whole number",
        '5: relay.lease: is a number; write a duration in quotes, for example "30s"',
        "5: relay.nonsense: unknown key",
        '6: ledger.start: "yesterday" is not "earliest", "latest" or a time such as',
        "7: targets[0].url: the scheme must be http, https, smtp or smtps",
        '8: effects[0].on.typ: unknown key; did you mean "type"?',
        '8: effects[0].target: "nobody" is not the name of one of targets',
    ]
    lines = said.splitlines()
    assert len(lines) == len(expected), said
    for line, begins in zip(lines, expected):
        assert line.startswith(f"{path}:{begins}")
    assert "hush" not in said


@pytest.mark.parametrize("change, place, says", [
    ({"key": "fixed"}, "key", "is the same for every event"),
    ({"key": "${type}:${topic}"}, "key", "is the same for every event"),
    ({"key": "order:${/order_id"}, "key", 'at character 7: "${" is never closed'),
    ({"key": "order:${order_id}"}, "key", "${order_id} is not known; known are"),
    ({"key": "order:${offset}"}, "key", "known are"),
    ({"key": "order:${/a~2}"}, "key", "'~' is written '~0'"),
    ({"key": "${secret}${/a}"}, "key", "${secret} exists only in a target's auth"),
    ({"key": ""}, "key", ""),
    ({"tenant": "${header:}"}, "tenant", "a header needs its name"),
    ({"request": {"path": "v1"}}, "request.path", 'must begin with "/"'),
    ({"request": {"path": "/v1/../x"}}, "request.path", 'holds a segment "." or ".."'),
    ({"request": {"body": "${/a|"}}, "request.body", "is never closed"),
    ({"request": {"content_type": "application/json", "body": '{"a": "${/a}'}}, "request.body",
     "with its places filled this is no JSON"),
    ({"request": {"headers": [("Host", "x")]}}, "request.headers[0]", "Host cannot be set"),
    ({"request": {"headers": [("X", "a\r\nY: b")]}}, "request.headers[0]", "control character"),
    ({"request": {"query": [("a", "${/b")]}}, "request.query[0]", "is never closed"),
    ({"request": {"method": "TRACE"}}, "request.method", "TRACE"),
    ({"mode": "natural"}, "mode", 'needs request.method "PUT" or "DELETE"'),
    ({"retention": None}, "retention", "is required"),
    ({"target": "paymens"}, "target", '"paymens" is not the name of one of targets'),
])
def test_a_wrong_effect_has_its_place(tmp_path: Path, change: dict[str, Any], place: str,
                                      says: str):
    """The ledger's own checks, behind those of all programs."""
    effect = libconfig.merge({**CHARGE, "on": {"topic": "t", "type": "x"}}, change)
    path = tmp_path / "effect.conf"
    path.write_text(libconfig.settings({
        "kafka": {"properties": [("bootstrap.servers", "127.0.0.1:1")]},
        "targets": [{"name": "payments", "url": "http://127.0.0.1:1", "profile": "stripe-v1"}],
        "effects": [effect]}))
    status, said = start("counterfoil-ledger", path)
    assert status == CONFIG and says in said
    line, named = re.fullmatch(rf"{path}:(\d+): effects\[0\]\.(\S+): .*\n", said).groups()
    assert named == place
    if change.get(place):
        assert f" {place} = " in path.read_text().splitlines()[int(line) - 1]


# --- options --------------------------------------------------------------------------------------

@EVERY_PROGRAM
def test_help_and_version(program: str):
    shown = programs.run(program, "--help")
    assert (shown.returncode, shown.stderr) == (OK, "")
    assert shown.stdout.lower().startswith(f"usage: {program} [--config")
    shown = programs.run(program, "--version")
    assert (shown.returncode, shown.stderr) == (OK, "")
    assert re.fullmatch(rf"{program} \d+\.\d+\.\d+\n", shown.stdout)
    for words in (["--nonsense"], ["--config"], ["nonsense"]):
        wrong = programs.run(program, *words)
        assert (wrong.returncode, wrong.stdout) == (USAGE, ""), words
        assert "usage: " in wrong.stderr.lower() or f"{program}: " in wrong.stderr


@EVERY_PROGRAM
def test_the_environment_comes_before_the_file(program: str, tmp_path: Path):
    path = tmp_path / "any.conf"
    path.write_text('postgres = { conninfo = "dbname=x"; };\nlog = { level = "loud"; };\n'
                    'kafka = { properties = ( ("bootstrap.servers", "b:1") ); };\n')
    status, said = start(program, path, environment={"COUNTERFOIL_LEDGER_BATCH": "many",
                                                     "COUNTERFOIL_RELAY_LEASE": "soon"})
    assert status == CONFIG
    assert "COUNTERFOIL_LEDGER_BATCH: ledger.batch: " in said
    assert "COUNTERFOIL_RELAY_LEASE: relay.lease: " in said
    assert f"{path}:2: log.level: " in said
    found = programs.run(program, *PROGRAMS[program],
                         environment={"COUNTERFOIL_CONFIG": f"{path}.other"})
    assert (found.returncode, found.stdout) == (CONFIG, "")
    assert found.stderr.startswith(f"{path}.other: No such file")


def test_the_environment_in_use(world: World):
    """Of a service that runs by it."""
    world.settings = {"postgres": {"conninfo": "host=/nowhere"}, "log": {"level": "error"}}
    relay = world.relay()
    relay.environment = {"COUNTERFOIL_RELAY_CONNINFO": world.postgres.conninfo(world.database),
                         "COUNTERFOIL_LOG_LEVEL": "info", "COUNTERFOIL_GENERAL_ENVIRONMENT": "here"}
    relay.start()
    assert relay.said("starting", environment="here")
    world.emit(b"{}")
    waiting.until(lambda: world.outbox() == 0, 20, "the event to be published")


# --- the log --------------------------------------------------------------------------------------

def test_nothing_from_outside_can_forge_a_line(world: World):
    """Quotes, line ends and escapes in what the server says, and in a name of our own."""
    odd = 'no"such\\\\ \x1b[31m\nts=1 level=error program=x msg=forged'
    conninfo = f"host={world.postgres.home} user=postgres dbname='{odd}'"
    world.settings = {"postgres": {"conninfo": conninfo},
                      "general": {"environment": 'a"b=c d\\'}, "log": {"format": "logfmt"}}
    relay, ledger = world.relay(), world.ledger()
    for program in (relay, ledger):
        program.start(ready=False)
    relay.wait_for("no database")
    ledger.wait_for("database away")
    for program in (relay, ledger):
        raw = program.log_path.read_bytes()
        assert b"\x1b" not in raw and b'no\\"such' in raw
        for line in program.log():
            assert re.match(r"ts=20\S+ level=(info|warn) program=counterfoil-\w+ msg=", line.text)
            assert line.msg != "forged"
        program.stop()
    assert relay.said("starting")[0].fields["environment"] == 'a"b=c d\\'

    world.settings["log"]["format"] = "json"
    as_json = world.relay()
    as_json.allow_errors("msg=forged")      # the harness does not read JSON
    as_json.start(ready=False)
    (line, *_) = waiting.until(lambda: [line for line in as_json.log()
                                        if "no database" in line.text], 20, "the line")
    said = json.loads(line.text)
    assert said["level"] == "warn" and 'no"such' in said["text"]
    for line in as_json.log():
        assert set(json.loads(line.text)) >= {"ts", "level", "program", "msg"}
    as_json.stop()


# --- the database ---------------------------------------------------------------------------------

class Fault:
    """Something wrong with a database, how to mend it, and the words that both services have."""

    def __init__(self, words: str, wrong: str, right: str) -> None:
        self.words = words
        self.wrong = wrong
        self.right = right


FAULTS = {
    "missing": Fault(
        'database "{name}" does not exist', 'ALTER DATABASE "{name}" RENAME TO "{name}_away"',
        'ALTER DATABASE "{name}_away" RENAME TO "{name}"'),
    "read-only": Fault(
        "session is read-only", 'ALTER DATABASE "{name}" SET default_transaction_read_only = on',
        'ALTER DATABASE "{name}" RESET default_transaction_read_only'),
    "without the schema": Fault(
        "has no schema counterfoil: run `counterfoil migrate` against it",
        "ALTER SCHEMA counterfoil RENAME TO kept", "ALTER SCHEMA kept RENAME TO counterfoil"),
    "of an older schema": Fault(
        'the schema in database "{name}" is at migration 1, and Counterfoil {version} needs '
        "{needed}: run `counterfoil migrate`",
        "UPDATE counterfoil.migration SET version = -version WHERE version > 1",
        "UPDATE counterfoil.migration SET version = -version WHERE version < 0"),
    "of a newer schema": Fault(
        'the schema in database "{name}" (migration {latest}) serves programs of level 99 and '
        "later, and Counterfoil {version} is of level",
        "UPDATE counterfoil.migration SET oldest_program = 99 WHERE version = 1",
        "UPDATE counterfoil.migration SET oldest_program = 1 WHERE version = 1"),
    "closed to this role": Fault(
        'GRANT USAGE ON SCHEMA counterfoil TO "service"',
        "REVOKE ALL ON SCHEMA counterfoil FROM service",
        "GRANT USAGE ON SCHEMA counterfoil TO service"),
}


def lines_with(program: Program, words: str) -> list[programs.Line]:
    """Whatever the field is called."""
    return [line for line in program.log()
            if any(words in text for text in line.fields.values())]


def assert_says(program: Program, words: str) -> None:
    waiting.until(lambda: lines_with(program, words), 20, f"{program.name} to say {words!r}")


def assert_all_is_done_once(world: World, orders: list[int]) -> None:
    """Each of the orders has been charged; and once only, when their events come again."""
    world.wait_drained()
    for _ in range(2):
        assert world.provider.charges_by_key() == {f"order:{n}:charge": 1 for n in orders}
        world.publish_again()
        world.wait_drained()


def produce_order(world: World, number: int) -> None:
    value = json.dumps({"order_id": number, "customer_id": "c", "total_cents": 1}).encode()
    world.broker.produce(world.topic, value, None, [("ce_type", b"order.placed")])
    world.broker.flush()


def assert_they_wait(world: World, words: str, wrong: Callable[[], None],
                     mend: Callable[[], None]) -> None:
    """A relay and a ledger start into `wrong`, say `words`, do nothing, and work after `mend`."""
    world.place(world.orders(1))                    # for the relay
    produce_order(world, 2)                         # for the ledger
    wrong()
    services = [world.relay(), world.ledger()]
    try:
        for service in services:
            service.allow_errors("schema does not fit")
            service.start(ready=False)
        for service in services:
            assert_says(service, words)
        waiting.holds(lambda: all(s.running and not s.said("ready") for s in services)
                      and not world.provider.requests()
                      and world.broker.count(world.topic) == 1, 0.5, "they wait")
    finally:
        mend()
    for service in services:
        service.wait_for("ready")
    assert_all_is_done_once(world, [1, 2])


@pytest.fixture
def service_role(postgres: Postgres, database: str) -> Iterator[str]:
    """A role with what a service needs, and no more."""
    postgres.query("CREATE ROLE service LOGIN")
    for right in ("USAGE ON SCHEMA counterfoil", "ALL ON ALL TABLES IN SCHEMA counterfoil",
                  "ALL ON ALL SEQUENCES IN SCHEMA counterfoil"):
        postgres.query(f"GRANT {right} TO service", dbname=database)
    yield "service"
    postgres.query("DROP OWNED BY service", dbname=database)
    postgres.query("DROP ROLE service")


@pytest.mark.parametrize("name", FAULTS)
def test_a_database_that_does_not_serve_is_waited_for(service_role: str, world: World, name: str):
    fault, postgres, database = FAULTS[name], world.postgres, world.database
    world.settings = {"postgres": {"conninfo": postgres.conninfo(database, user=service_role)}}

    def run(sql: str) -> None:
        there = "postgres" if "DATABASE" in sql else database
        postgres.query(sql.format(name=database), dbname=there)

    words = fault.words.format(name=database, latest=LATEST, needed=NEEDED,
                               version=VERSION)
    assert_they_wait(world, words, lambda: run(fault.wrong), lambda: run(fault.right))


def test_a_postgresql_that_is_away_is_waited_for(world: World):
    postgres = world.postgres
    assert_they_wait(world, f"connection to server on socket \"{postgres.home}", postgres.stop,
                     postgres.start)


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[Postgres]:
    """A server of its own, that can be made a standby."""
    with Postgres() as server:
        server.create_database("shop")
        yield server


def test_a_standby_is_waited_for_until_it_is_promoted(standby: Postgres, broker: Broker,
                                                      topic: str, tmp_path: Path):
    world = World(tmp_path, standby, "shop", broker, topic)
    with closing(world):
        world.migrate()

        def demote() -> None:
            standby.stop()
            signal = standby.data / "standby.signal"
            signal.touch()
            shutil.chown(signal, *(("postgres", "postgres") if os.geteuid() == 0 else (None, None)))
            standby.start()

        assert_they_wait(world, "session is read-only", demote,
                         lambda: standby.query("SELECT pg_promote()"))
        assert not world.complaints()


def test_a_schema_that_fits_no_more(world: World):
    """The relay stops publishing; the ledger finishes and ends, for it must not go on."""
    def serve(level: int) -> None:
        world.query("UPDATE counterfoil.migration SET oldest_program = %s WHERE version = 1",
                    (level,))
    (relay,), (ledger,) = world.start().relays, world.ledgers
    relay.allow_errors("schema does not fit")
    ledger.allow_errors("the schema fits no more")
    serve(99)
    world.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()")
    assert ledger.wait(20) == UNAVAILABLE
    assert_says(relay, "programs of level 99 and later")
    world.place(world.orders(1))
    waiting.holds(lambda: relay.running and world.outbox() == 1, 0.5, "the relay waits")
    serve(1)
    ledger.start()
    assert_all_is_done_once(world, [1])


# --- the broker -----------------------------------------------------------------------------------

def test_a_broker_that_is_away_is_waited_for(make_world: Callable[..., World], own_broker: Broker):
    world = make_world(own_broker)
    world.place(world.orders(2))
    own_broker.down()
    relay, ledger = world.relay(), world.ledger()
    for service in (relay, ledger):
        service.start(ready=False)
    assert_says(relay, "kafka is in trouble")
    assert_says(ledger, "kafka consumer")
    waiting.holds(lambda: relay.running and ledger.running and not ledger.said("ready")
                  and world.outbox() == 2, 0.5, "they wait")
    own_broker.up()
    ledger.wait_for("ready")
    assert_all_is_done_once(world, [1, 2])
    world.run_twice()


# --- signals --------------------------------------------------------------------------------------

@pytest.mark.parametrize("away", ["database", "broker"])
def test_a_service_that_waits_ends_when_told_to(make_world: Callable[..., World],
                                                own_broker: Broker, away: str):
    """Promptly, and as asked."""
    world = make_world(own_broker)
    if away == "database":
        world.settings = {"postgres": {"conninfo": "host=/nowhere"}}
    else:
        own_broker.down()
    services = {world.relay(): "database" if away == "database" else "ready",
                world.ledger(): "database" if away == "database" else "lease taken"}
    for service in services:
        service.start(ready=False)
    for service, says in services.items():
        waiting.until(lambda: [line for line in service.log() if says in line.msg], 20, says)
        service.terminate()
        assert service.wait(5) == OK, service.tail()


def test_a_second_signal_ends_a_ledger_at_once(make_world: Callable[..., World]):
    """In the middle of a call, which another ledger takes over."""
    world = make_world(target={"timeout": "20s"}, settings={"ledger": {"lease": "1s"}})
    fault = world.provider.fault("hang", apply=True, times=1)
    ledger = world.ledger()
    ledger.start()
    produce_order(world, 1)
    waiting.until(lambda: world.provider.met(fault), 20, "the call")
    ledger.terminate()
    ledger.wait_for("stopping")
    waiting.holds(lambda: ledger.running, 0.5, "it drains")
    ledger.terminate()
    assert ledger.wait(2) == ERROR
    world.ledger().start()
    assert_all_is_done_once(world, [1])


def wait_for_polls(world: World, count: int = 2) -> None:
    """Until so many polls of the outbox have begun from now on: what the first of them found was
    handled before the second."""
    seen: set[Any] = set()

    def look() -> bool:
        seen.update(start for (start,) in world.query(
            "SELECT query_start FROM pg_stat_activity WHERE datname = current_database() AND "
            "application_name LIKE 'counterfoil-relay%%' AND query LIKE '%%outbox%%'"))
        return len(seen) > count
    waiting.until(look, 20, "the relay to poll", every=0.005)


def test_a_second_signal_ends_a_relay_at_once(make_world: Callable[..., World],
                                              own_broker: Broker):
    """With rows in flight, which stay in the outbox."""
    world = make_world(own_broker)
    relay = world.relay()
    relay.start()
    own_broker.set_round_trip(8000)
    world.place(world.orders(3))
    wait_for_polls(world)
    relay.terminate()
    waiting.holds(lambda: relay.running, 0.5, "it drains")
    relay.terminate()
    assert relay.wait(2) == ERROR
    assert world.outbox() == 3
    own_broker.set_round_trip(0)
    relay.start()
    world.ledger().start()
    assert_all_is_done_once(world, [1, 2, 3])


# --- descriptors ----------------------------------------------------------------------------------

@pytest.mark.parametrize("hard, allowed", [(4096, 1384), (600, 600)])
def test_as_many_sockets_as_requests_in_flight(world: World, hard: int, allowed: int):
    """The limit of open files is raised for them; what the system does not allow is said."""
    ledger = world.ledger(in_flight=1000)
    ledger.command = ["prlimit", f"--nofile=256:{hard}"]
    ledger.start()
    limits = Path(f"/proc/{ledger.pid}/limits").read_text()
    soft = re.search(r"^Max open files +(\d+)", limits, re.MULTILINE)
    assert soft and int(soft[1]) == allowed
    told = [line.fields for line in ledger.log() if "too few files" in line.msg]
    assert [(f["wanted"], f["allowed"]) for f in told] == ([("1384", "600")] if hard == 600 else [])


# --- signals --------------------------------------------------------------------------------------

def test_a_hangup_ends_nothing(world: World):
    """The configuration is read at the start only, and whoever asks for more is told so."""
    for program in (world.relay().start(), world.ledger().start()):
        os.kill(program.pid, signal.SIGHUP)
        program.wait_for("the configuration is read at the start only: restart to have it read again")
    world.place(world.orders(1))
    world.wait_drained()
