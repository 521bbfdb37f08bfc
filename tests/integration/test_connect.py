"""--check-config --connect: the servers are asked before a service is let loose, nothing is changed,
and what is found is named with its remedy."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import pytest

from tests.tools import libconfig, programs
from tests.tools.broker import Broker
from tests.tools.kafka import Kafka, Unavailable, free_ports
from tests.tools.world import World

RELAY, LEDGER = "counterfoil-relay", "counterfoil-ledger"
EACH_SERVICE = pytest.mark.parametrize("service", [RELAY, LEDGER])
OK, UNAVAILABLE, CONFIG = 0, 69, 78
PASSWORD = "sk-do-not-show-4711"
MakeWorld = Callable[..., World]


class Findings:
    """What was printed, by its level."""

    def __init__(self, done: "subprocess.CompletedProcess[str]", took: float) -> None:
        assert not programs.SANITIZER.search(done.stderr), done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        self.code = done.returncode
        self.took = took
        first, *lines = done.stdout.splitlines()
        assert first.startswith("configuration ok: ") and not done.stderr, done
        self.found: dict[str, list[str]] = {"ok": [], "warning": [], "error": []}
        for line in lines:
            level, _, text = line.partition(" ")
            self.found[level].append(text.strip())

    def has(self, level: str, *words: str) -> bool:
        """One line of that level has all these words."""
        return any(all(word in line for word in words) for line in self.found[level])

    def __repr__(self) -> str:
        return f"{self.code}: {self.found}"


def connect(world: World, service: str = RELAY, *options: str,
            **settings: Any) -> Findings:
    config = libconfig.merge(world.configuration(), settings)
    path = world.directory / "connect.conf"
    path.write_text(libconfig.settings(config))
    began = time.monotonic()
    done = programs.run(service, "--config", str(path), "--check-config", "--connect", *options)
    return Findings(done, time.monotonic() - began)


def assert_error(findings: Findings, *words: str, code: int = CONFIG) -> None:
    assert findings.has("error", *words) and findings.code == code, findings


# --- PostgreSQL -----------------------------------------------------------------------------------

@EACH_SERVICE
def test_all_is_well(world: World, service: str):
    """Nothing is said against it, and nothing was changed by asking."""
    world.place(world.orders(1))
    found = connect(world, service)
    assert (found.code, found.found["error"]) == (OK, []), found
    assert found.has("ok", "PostgreSQL: reached database", world.database, 'as "postgres"', "version")
    assert found.has("ok", "schema: at migration")
    assert found.has("ok", "installation: nobody's yet", 'environment "test"')
    assert found.has("ok", "rights: nothing is missing")
    assert found.has("ok", "Kafka: reached", "brokers: 1")
    assert found.has("ok", f'topic "{world.topic}": partitions 4')
    assert world.value("SELECT environment FROM counterfoil.installation") == ""
    assert world.outbox() == 1 and world.broker.count(world.topic) == 0
    if service == RELAY:
        assert found.has("ok", "ids are given out one by one")
        assert found.has("ok", "a producer id")
        # the stand-in does not know the question
        assert found.has("warning", "the settings of topics are not told")
        assert connect(world, service, "--strict").code == CONFIG


@EACH_SERVICE
def test_the_database_does_not_fit(world: World, service: str):
    world.query("UPDATE counterfoil.installation SET environment = 'production'")
    assert_error(connect(world, service), 'belongs to environment "production"',
                 "`counterfoil adopt`")
    world.query("UPDATE counterfoil.installation SET environment = 'test', system_identifier = '1'")
    assert_error(connect(world, service), "is a copy", "`counterfoil adopt`")
    world.query("DROP SCHEMA counterfoil CASCADE")
    assert_error(connect(world, service), "run `counterfoil migrate`")


@EACH_SERVICE
def test_no_environment_is_a_warning(world: World, service: str):
    world.settings = {"general": {"environment": ""}}
    found = connect(world, service)
    assert found.has("warning", "general.environment is empty") and found.code == OK
    assert connect(world, service, "--strict").code == CONFIG


def test_the_database_is_not_reached(world: World):
    nowhere = {"conninfo": f"host={world.directory} dbname=shop"}
    found = connect(world, postgres=nowhere)
    assert_error(found, "PostgreSQL: cannot connect", code=UNAVAILABLE)
    assert found.has("ok", "Kafka: reached"), "the other server is asked all the same"
    missing = {"conninfo": world.postgres.conninfo("no_such_database")}
    assert_error(connect(world, postgres=missing), 'database "no_such_database" does not exist')
    world.query(f'ALTER DATABASE "{world.database}" SET default_transaction_read_only = on')
    assert_error(connect(world), "read-only", code=UNAVAILABLE)


def test_commits_that_a_crash_takes_back(world: World):
    world.query(f'ALTER DATABASE "{world.database}" SET synchronous_commit = off')
    found = connect(world)
    assert found.has("warning", "synchronous_commit is off", "ALTER DATABASE") and found.code == OK


def test_ids_in_advance(world: World):
    """Ids that a session keeps would let rows be skipped; the remedy is a statement."""
    world.query("ALTER TABLE counterfoil.outbox ALTER COLUMN id SET CACHE 20")
    found = connect(world)
    assert_error(found, "sessions keep 20 ids")
    (line,) = found.found["error"]
    world.query(line[line.index("ALTER TABLE"):])
    assert connect(world).code == OK


@pytest.fixture
def role(world: World) -> Iterator[str]:
    world.query("CREATE ROLE bare LOGIN")
    world.query("GRANT USAGE ON SCHEMA counterfoil TO bare; "
                "GRANT SELECT ON counterfoil.migration TO bare")
    yield "bare"
    world.query("DROP OWNED BY bare")
    world.query("DROP ROLE bare")


def grants(found: Findings) -> list[str]:
    return [line[line.index("GRANT"):] for line in found.found["error"] if "rights:" in line]


def test_rights(world: World, role: str):
    """What is missing is named as statements; with exactly these everything works."""
    bare = world.postgres.conninfo(world.database, role)
    for service in (RELAY, LEDGER):
        found = connect(world, service, postgres={"conninfo": bare})
        assert found.code == CONFIG
        named = grants(found)
        assert (f"GRANT SELECT, UPDATE ON counterfoil.installation TO {role}" in named) == \
            (service == RELAY), found
        for statement in named:
            world.query(statement)
        found = connect(world, service, postgres={"conninfo": bare})
        assert (found.code, found.found["error"]) == (OK, []), found
    world.query("REVOKE DELETE ON counterfoil.outbox FROM bare")
    assert grants(connect(world, postgres={"conninfo": bare})) == \
        [f"GRANT DELETE ON counterfoil.outbox TO {role}"]
    world.query("GRANT DELETE ON counterfoil.outbox TO bare")
    world.settings = {"postgres": {"conninfo": bare}}
    world.start()
    world.place(world.orders(5))
    world.wait_drained()
    assert not world.lost()
    for program in world.programs:
        program.stop()


def test_a_mapped_table(world: World):
    """What a mapped table lacks is said as the relay itself would say it."""
    mapped = {"table": "public.events", "start_after": 0, "pending": "true",
              "after_publish": "delete", "topic": "${topic}",
              "columns": {"id": "id", "event_id": "event", "payload": "payload", "topic": "topic",
                          **{name: "" for name in ("type", "ordering_key", "partition", "headers",
                                                   "message_key", "created_at")}}}
    assert_error(connect(world, relay=mapped), "table:", "events")
    world.query("CREATE TABLE public.events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "event uuid NOT NULL DEFAULT gen_random_uuid(), topic text, payload jsonb)")
    world.query("INSERT INTO public.events (topic, payload) VALUES (%s, '{}')", (world.topic,))
    found = connect(world, relay=mapped)
    assert found.code == OK and found.has("ok", f'topic "{world.topic}": partitions 4'), found
    assert not found.has("ok", "ids are given out"), "that is of our own table"
    assert world.value("SELECT count(*) FROM counterfoil.outbox_source") == 1, "it only looks"


# --- the stand-in for brokers ---------------------------------------------------------------------

def test_no_broker_is_reached(make_world: MakeWorld, own_broker: Broker):
    """It takes its time, and ends."""
    world = make_world(own_broker)
    own_broker.down()
    found = connect(world)
    assert_error(found, f"Kafka: {own_broker.bootstrap} cannot be reached", "refused",
                 code=UNAVAILABLE)
    assert found.took < 15
    world.query("ALTER TABLE counterfoil.outbox ALTER COLUMN id SET CACHE 20")
    assert connect(world).code == CONFIG, "what does not mend by itself comes first"


def test_topics_of_the_configuration(world: World):
    """They are asked for instead of those of the rows that wait."""
    world.place(world.orders(1))
    world.broker.create_topic(f"{world.topic}-named", 2)
    found = connect(world, relay={"topics": [f"{world.topic}-named"]})
    assert found.has("ok", f'topic "{world.topic}-named": partitions 2')
    assert not found.has("ok", f'topic "{world.topic}":')
    assert connect(world, relay={"topics": []}).has("ok", f'topic "{world.topic}":')


def test_options(world: World):
    path = str(world.write_configuration())
    done = programs.run(RELAY, "--config", path, "--connect")
    assert done.returncode == 2 and "--connect goes with --check-config" in done.stderr
    done = programs.run(RELAY, "--config", f"{path}.missing", "--check-config", "--connect")
    assert done.returncode == CONFIG and not done.stdout


# --- brokers --------------------------------------------------------------------------------------

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map":
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config":
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_shop="{PASSWORD}";',
}


@contextmanager
def a_kafka(**options: Any) -> Iterator[Kafka]:
    try:
        kafka = Kafka(**options)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with kafka:
        yield kafka


class Guarded:
    """A broker that asks who one is and what one may; from its plain door all is allowed."""

    def __init__(self, kafka: Kafka, port: int) -> None:
        self.kafka = kafka
        self.port = port

    def login(self, password: str = PASSWORD) -> dict[str, Any]:
        file = self.kafka.home / "password"
        file.write_text(password)
        return {"properties": [("bootstrap.servers", f"127.0.0.1:{self.port}"),
                               ("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "PLAIN"),
                               ("sasl.username", "shop")], "password_file": str(file)}

    def allow(self, operation: str, *what: str) -> None:
        subprocess.run(self.kafka.java(
            "org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.kafka.bootstrap,
            "--add", "--allow-principal", "User:shop", "--operation", operation, *what),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    (port,) = free_ports(1)
    with a_kafka(settings=ACLS, listener=f"SASL_PLAINTEXT://127.0.0.1:{port}") as kafka:
        yield Guarded(kafka, port)


@pytest.fixture
def kafka_world(make_world: MakeWorld, guarded: Guarded) -> World:
    world = make_world(guarded.kafka)
    world.place(world.orders(1))
    return world


def test_a_topic_that_serves(kafka_world: World):
    found = connect(kafka_world)
    assert (found.code, found.found["error"], found.found["warning"]) == (OK, [], []), found
    assert found.has("ok", f'topic "{kafka_world.topic}": partitions 4, replicas 1, '
                           "min.insync.replicas 1, max.message.bytes 1048588")
    assert found.took < 5


def test_a_topic_that_is_not_there(kafka_world: World):
    """It is not made by asking for it."""
    for service in (RELAY, LEDGER):
        effect = libconfig.merge(kafka_world.effects[0], {"on": {"topic": "nowhere"}})
        found = connect(kafka_world, service, relay={"topics": ["nowhere"]}, effects=[effect])
        assert_error(found, 'topic "nowhere": it does not exist')
    with pytest.raises(Exception):
        kafka_world.broker.count("nowhere")


def test_topics_that_do_not_serve(kafka_world: World, guarded: Guarded):
    topic, kafka = kafka_world.topic, guarded.kafka
    kafka.configure_topic(topic, max__message__bytes="5000")
    found = connect(kafka_world)
    assert found.has("warning", topic, "max.message.bytes is 5000", "1000000") and found.code == OK
    kafka.configure_topic(topic, min__insync__replicas="2")
    assert_error(connect(kafka_world), topic, "1 replicas, and min.insync.replicas is 2")
    assert connect(kafka_world, LEDGER).code == OK, "who only reads does not mind"
    kafka.configure_topic(topic, cleanup__policy="compact")
    found = connect(kafka_world, relay={"message_key": "ordering_key"})
    assert found.has("warning", topic, "only the last event is kept") and found.code == OK
    assert_error(connect(kafka_world, relay={"message_key": "none"}), topic, "without a key")
    assert not connect(kafka_world, relay={"message_key": "event_id"}).found["warning"]


def test_what_one_may(kafka_world: World, guarded: Guarded):
    """Who one is, and what is missing: by name, before the first message."""
    topic = kafka_world.topic
    wrong = connect(kafka_world, kafka=guarded.login("another one"))
    assert_error(wrong, "Kafka:", "refuses us", "uthentication failed")
    found = connect(kafka_world, kafka=guarded.login())
    assert found.has("ok", "Kafka: reached", 'over sasl_plaintext as "shop"')
    assert_error(found, f'topic "{topic}": not authorised: allow Describe and Write on it')
    assert_error(found, "no producer id", "IdempotentWrite")
    assert_error(connect(kafka_world, LEDGER, kafka=guarded.login()),
                 f'topic "{topic}": not authorised: allow Describe and Read on it')
    guarded.allow("Write", "--topic", topic)        # which includes Describe
    found = connect(kafka_world, kafka=guarded.login())
    assert found.code == OK and found.has("ok", f'topic "{topic}": partitions 4'), found
    assert found.has("warning", f'topic "{topic}": its settings are not told', "DescribeConfigs")
    guarded.allow("DescribeConfigs", "--topic", topic)
    found = connect(kafka_world, kafka=guarded.login())
    assert (found.code, found.found["warning"]) == (OK, []), found
