"""Whose database is it? On a copy nothing is published and nothing performed, until `counterfoil
adopt` is said; then the programs go on by themselves."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Iterator

import pytest

from tests.tools import children, health, programs, waiting
from tests.tools.broker import Broker
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.programs import Program
from tests.tools.world import World

FOREIGN = "the database is not this environment's"
UNAVAILABLE = 69


@pytest.fixture(scope="module")
def other_server() -> Iterator[Postgres]:
    """A second cluster: it has another system identifier."""
    with Postgres() as server:
        yield server


def identifier(server: Postgres) -> str:
    return server.value("SELECT system_identifier::text FROM pg_control_system()")


def recorded(world: World) -> tuple[str, str]:
    (row,) = world.query("SELECT system_identifier, environment FROM counterfoil.installation")
    return row


def adopt(world: World, *words: str) -> "subprocess.CompletedProcess[str]":
    return programs.run("counterfoil", "--config", str(world.write_configuration()), "adopt", *words)


def copy_into(world: World, server: Postgres, name: str) -> None:
    """pg_dump, and what it wrote into a new database of that server."""
    dump = subprocess.run([str(world.postgres.bin / "pg_dump"), "-d",
                           world.postgres.conninfo(world.database)],
                          stdout=subprocess.PIPE, check=True)
    server.create_database(name)
    server.psql(dump.stdout.decode(), name)


def assert_refused(world: World, services: list[Program], words: str) -> None:
    """They start, say why and what to do, are red for that reason, and leave everything alone."""
    outbox, states = world.outbox(), world.states()
    for service in services:
        service.allow_errors(FOREIGN)
        service.start(ready=False)
    for service in services:
        line = service.wait_for(FOREIGN)
        said = line.fields.get("text") or line.fields["error"]
        assert words in said and "`counterfoil adopt`" in said
        assert "schema" in health.failed(service)
        assert words in health.get(service, "/readyz")[1].replace('\\"', '"')
    waiting.holds(lambda: all(s.running and not s.said("ready") for s in services)
                  and not world.provider.requests() and world.broker.count(world.topic) == 0
                  and (world.outbox(), world.states()) == (outbox, states), 1, "nothing happens")
    assert all(len(s.said(FOREIGN)) == 1 for s in services), "once a minute"


def fill(world: World) -> None:
    """Two orders for the relay, a key that is due for the ledger, and another one that is not."""
    world.place(world.orders(2))
    with closing(Keys(world.postgres, world.database)) as keys:
        keys.add("order:7:charge", "pending", due="1 min")
        keys.add("order:8:charge", "uncertain", unknown_sends=1, first_sent="1 min", window="-1 day")


@pytest.fixture
def copy(world: World, other_server: Postgres, broker: Broker, tmp_path: Path) -> Iterator[World]:
    """A copy, on another server, of a database on which work waits; an empty topic for it."""
    fill(world)
    world.query("UPDATE counterfoil.installation SET environment = 'production'")
    copy_into(world, other_server, world.database)
    topic = f"{world.topic}-copy"
    broker.create_topic(topic)
    (tmp_path / "copy").mkdir()
    with closing(World(tmp_path / "copy", other_server, world.database, broker, topic,
                       settings={"general": {"environment": "staging"}})) as made:
        made.query("UPDATE counterfoil.outbox SET topic = %s", (topic,))
        made.query("UPDATE counterfoil.effect_request SET url = %s, headers = 'Content-Type: "
                   "application/x-www-form-urlencoded\n', body = 'amount=1&currency=usd&customer=c'",
                   (f"{made.provider.url}/v1/charges",))
        yield made
        assert not made.complaints()


def test_a_copy_on_another_server(copy: World, world: World, other_server: Postgres):
    """A dump restored elsewhere: no row is published, no due key sent; adopted, they go on."""
    services = [copy.relay(), copy.ledger()]
    was, here = identifier(world.postgres), identifier(other_server)
    assert_refused(copy, services, f"system identifier {was}, environment production")
    told = adopt(copy, "--dry-run")
    assert told.returncode == 0
    for words in (f"was  system identifier {was}, environment \"production\"",
                  f"is   system identifier {here}, environment \"staging\"", "2   outbox rows",
                  "1   pending keys", "1   uncertain keys", "0   keys in flight"):
        assert words in told.stdout, told.stdout
    assert recorded(copy) == (was, "production")
    done = adopt(copy, "--yes", "--reason", "rehearsal", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["result"] == "done"
    assert answer["was"]["system_identifier"] == was and answer["was"]["environment"] == "production"
    assert answer["is"] == {"system_identifier": here, "environment": "staging"}
    assert (answer["waiting"]["outbox"], answer["waiting"]["pending"]) == (2, 1)
    for service in services:
        service.wait_for("ready")
    waiting.until(lambda: copy.provider.charges_by_key()["order:7:charge"] == 1
                  and copy.outbox() == 0, 20, "the copy's work")
    assert recorded(copy) == (here, "staging")
    ((action, about, reason, before, after),) = copy.query(
        "SELECT action, about, reason, before, after FROM counterfoil.audit WHERE operation = %s",
        (answer["operation"],))
    assert (action, about, reason) == ("adopt", "installation", "rehearsal")
    assert before["environment"] == "production" and after["system_identifier"] == here
    # the original has noticed nothing
    assert world.outbox() == 2 and recorded(world) == (was, "production")


def test_the_same_environment_on_another_server(copy: World, world: World):
    """A dump that is restored in place of the original is a copy too."""
    copy.settings = {"general": {"environment": "production"}}
    assert_refused(copy, [copy.relay()], "is a copy: it belongs to the cluster with system identifier")
    assert identifier(world.postgres) in adopt(copy, "--dry-run").stdout


def test_a_copy_on_the_same_server(world: World, postgres: Postgres, broker: Broker, tmp_path: Path):
    """The identifier is the same; the environment tells."""
    world.settings = {"general": {"environment": "production"}}
    world.start()
    for program in world.programs:
        program.stop()
    assert recorded(world)[1] == "production"
    fill(world)
    name = f"{world.database}_copy"
    postgres.create_database(name, world.database)
    (tmp_path / "copy").mkdir()
    try:
        copy = World(tmp_path / "copy", postgres, name, broker, world.topic,
                     settings={"general": {"environment": "staging"}})
        with closing(copy):
            assert_refused(copy, [copy.relay(), copy.ledger()], 'belongs to environment "production"')
            assert adopt(copy, "--yes", "--reason", "r").returncode == 0
            for program in copy.programs:
                program.wait_for("ready")
            assert not copy.complaints()
        # the original's environment is now the wrong one there, and the original is as it was
        assert recorded(world)[1] == "production"
    finally:
        postgres.drop_database(name)


def test_running_programs_refuse_what_becomes_another_database(world: World):
    """The relay waits and goes on; the ledger ends, as with a schema that fits no more."""
    (relay,), (ledger,) = world.start().relays, world.ledgers
    relay.allow_errors(FOREIGN)
    ledger.allow_errors(FOREIGN)
    world.query("UPDATE counterfoil.installation SET system_identifier = '1'")
    world.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()")
    assert ledger.wait(20) == UNAVAILABLE
    relay.wait_for(FOREIGN)
    world.place(world.orders(1))
    waiting.holds(lambda: world.outbox() == 1, 1, "the relay waits")
    assert adopt(world, "--yes", "--reason", "it was us").returncode == 0
    ledger.start()
    world.wait_drained()
    assert world.provider.charges_by_key() == {"order:1:charge": 1}


def test_a_copy_in_the_place_of_the_original(world: World):
    """No connection need tell: a ledger has no lease on a copy, and so claims nothing; once adopted,
    it takes one by itself."""
    (ledger,) = world.start(relays=0).ledgers
    world.query("UPDATE counterfoil.installation SET system_identifier = '1'")
    ledger.wait_for("lease lost")
    with closing(Keys(world.postgres, world.database)) as keys:
        keys.add("order:7:charge", "pending", due="1 min")
    waiting.holds(lambda: world.states() == {"pending": 1} and not ledger.said("lease taken")[1:], 2,
                  "nothing is claimed")
    assert adopt(world, "--yes", "--reason", "restored").returncode == 0
    waiting.until(lambda: ledger.said("lease taken")[1:] and world.state("order:7:charge") !=
                  "pending", 20, "the ledger to go on")
    ledger.stop()


# --- environments ---------------------------------------------------------------------------------

def with_environment(world: World, name: str) -> None:
    world.settings = {"general": {"environment": name}}


def test_two_environments_at_once(world: World):
    """One of them is the first, the other refuses; nothing is of both."""
    with_environment(world, "blue")
    blue = world.relay()
    with_environment(world, "green")
    green = world.relay()
    holder = world.connect()
    with closing(holder), holder.cursor() as cursor:
        cursor.execute("SELECT FROM counterfoil.installation FOR UPDATE")
        for relay in (blue, green):
            relay.allow_errors(FOREIGN)
            relay.start(ready=False)
        waiting.until(lambda: world.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE '%%check_installation%%' AND datname = current_database()") == 2, 20,
            "both to wait for the row")
        holder.commit()
    waiting.until(lambda: bool(blue.said("ready")) + bool(green.said("ready")) == 1
                  and bool(blue.said(FOREIGN)) + bool(green.said(FOREIGN)) == 1, 20,
                  "one to be ready and one to refuse")
    winner, loser = (blue, green) if blue.said("ready") else (green, blue)
    assert recorded(world)[1] == ("blue" if winner is blue else "green")
    assert not loser.said("ready")


def test_no_environment(world: World):
    """Nobody has named one: it works, with a warning; once one is named, none is refused."""
    with_environment(world, "")
    world.start()
    for program in world.programs:
        assert len(program.said("general.environment is empty")) == 1
    assert recorded(world)[1] == ""
    world.place(world.orders(1))
    world.wait_drained()
    assert adopt(world, "--yes", "--reason", "r").stdout.endswith(
        "nothing to do: it belongs to this server and environment\n")
    for program in world.programs:
        program.stop()
    with_environment(world, "production")
    named = world.relay().start()
    assert recorded(world)[1] == "production"
    named.stop()
    with_environment(world, "")
    nameless = world.relay()
    nameless.allow_errors(FOREIGN)
    nameless.start(ready=False)
    assert "general.environment is empty: set it" in nameless.wait_for(FOREIGN).fields["text"]
    refused = adopt(world, "--yes", "--reason", "r")
    assert refused.returncode == 78 and "general.environment is empty" in refused.stderr
    assert recorded(world)[1] == "production"


# --- rights ---------------------------------------------------------------------------------------

@pytest.fixture
def role(world: World) -> Iterator[str]:
    world.query("CREATE ROLE guarded LOGIN")
    world.query("GRANT USAGE ON SCHEMA counterfoil TO guarded; GRANT ALL ON ALL TABLES IN SCHEMA "
                "counterfoil TO guarded; GRANT ALL ON ALL SEQUENCES IN SCHEMA counterfoil TO guarded; "
                "REVOKE INSERT, UPDATE, DELETE ON counterfoil.installation FROM guarded")
    yield "guarded"
    world.query("DROP OWNED BY guarded")
    world.query("DROP ROLE guarded")


def test_rights(world: World, role: str):
    """A role reads whose database it is; only the first one of an environment has to write it."""
    world.settings = {"postgres": {"conninfo": world.postgres.conninfo(world.database, role)}}
    relay = world.relay()
    relay.allow_errors(FOREIGN)
    relay.start(ready=False)
    said = relay.wait_for(FOREIGN).fields["text"]
    assert "permission denied for table installation: GRANT SELECT and UPDATE on " \
           "counterfoil.installation" in said
    world.query("UPDATE counterfoil.installation SET environment = 'test'")
    relay.wait_for("ready")
    relay.stop()
    world.query("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    try:
        relay.start(ready=False)
        said = relay.wait_for(FOREIGN).fields["text"]
        assert "permission denied for function pg_control_system" in said and "EXECUTE on" in said
    finally:
        world.query("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
    relay.wait_for("ready")
    relay.stop()


# --- the command ----------------------------------------------------------------------------------

def test_nothing_is_asked_without_a_terminal(world: World):
    for words, remedy in (((), "--yes"), (("--yes",), "--reason"), (("--json",), "--yes"),
                          (("--yes", "--reason", ""), "--reason"), (("word",), "one word too many")):
        done = adopt(world, *words)
        assert done.returncode == 2 and remedy in done.stderr, words
    assert world.value("SELECT count(*) FROM counterfoil.audit") == 0


def test_adopted_meanwhile(world: World):
    """What is adopted is what was shown: of two who see the same, one changes it."""
    world.query("UPDATE counterfoil.installation SET system_identifier = '1', environment = 'a'")
    here = identifier(world.postgres)
    ask = ("SELECT result, detail FROM counterfoil.adopt(%s, %s, '1', 'a', %s, 'r', '{}')")
    first = "00000000-0000-4000-8000-000000000001"
    second = "00000000-0000-4000-8000-000000000002"
    assert world.query(ask, ("b", "2", first))[0] == ("changed", "this is another server by now")
    assert world.query(ask, ("b", here, first))[0][0] == "done"
    assert world.query(ask, ("b", here, first))[0][0] == "done", "the same operation"
    assert world.query(ask, ("b", here, second))[0][0] == "already"
    assert world.query(ask, ("c", here, second))[0] == \
        ("changed", "somebody else has adopted it meanwhile")
    assert recorded(world) == (here, "b")
    assert world.value("SELECT count(*) FROM counterfoil.audit") == 1
    world.query("DELETE FROM counterfoil.installation")
    assert "not recorded" in adopt(world, "--dry-run").stdout
    assert adopt(world, "--yes", "--reason", "r").returncode == 0
    assert recorded(world) == (here, "test")


def test_read_only(world: World):
    world.settings = {"console": {"read_only": True}}
    done = adopt(world, "--yes", "--reason", "r")
    assert done.returncode == 77 and recorded(world)[1] == ""


def at_terminal(world: World, typed: str) -> tuple[int, str]:
    """adopt with a terminal, and that typed: the status, and all that was shown."""
    ours, theirs = pty.openpty()
    command = [str(programs.build_directory() / "counterfoil"), "--config",
               str(world.write_configuration()), "adopt"]
    process = children.spawn(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    status = process.wait(20)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass                        # nobody holds the other end any more
    os.close(ours)
    return status, shown.decode()


@pytest.mark.parametrize("typed, code", [("rehearsal\nyes\n", 0), ("rehearsal\nno\n", 1),
                                         ("\n", 1)])
def test_asked_at_a_terminal(world: World, typed: str, code: int):
    status, shown = at_terminal(world, typed)
    assert status == code, shown
    assert "Reason, for the audit:" in shown
    assert recorded(world)[1] == ("test" if code == 0 else "")
    reasons = [r for (r,) in world.query("SELECT reason FROM counterfoil.audit")]
    assert reasons == (["rehearsal"] if code == 0 else [])
