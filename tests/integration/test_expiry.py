"""What becomes of finished keys: requests go first, then all but the key, then the key. Times are
moved in the database; nothing is waited for."""

from __future__ import annotations

import threading
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import programs, waiting
from tests.tools.bench import announce, key_name, key_of, requests_of, wait_finished
from tests.tools.kafka import Kafka, Unavailable
from tests.tools.keys import Keys
from tests.tools.postgres import Postgres
from tests.tools.statements import statements
from tests.tools.world import World

from .intake import conflicts_of

MakeWorld = Callable[..., World]
DAY_MS = 86_400_000
STATES = ("pending", "retry_wait", "in_flight", "uncertain", "dead")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    try:
        broker = Kafka()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with broker:
        yield broker


def age(world: World, days: float) -> None:
    """All that stands in the database happened so much earlier."""
    world.query("UPDATE counterfoil.effect_state s SET state_since = s.state_since - d.age,"
                " completed_at = s.completed_at - d.age, window_until = s.window_until - d.age"
                " FROM (SELECT %s * interval '1 hour' AS age) d", (days * 24,))


def ask_for_a_round(world: World) -> None:
    world.query("UPDATE counterfoil.expiry SET next_at = clock_timestamp(), cursor = 0")


def rested(world: World) -> bool:
    return world.value("SELECT cursor = 0 AND next_at > clock_timestamp() + interval '5 min' "
                       "FROM counterfoil.expiry")


def walk(world: World) -> None:
    """A whole round over all keys."""
    ask_for_a_round(world)
    waiting.until(lambda: rested(world), 30, "a round of expiry")


def stripped(world: World, order: int) -> tuple[bool, bool]:
    """Whether the request and the attempts are gone."""
    key = key_of(world, order)
    return (world.value("SELECT count(*) = 0 FROM counterfoil.effect_request WHERE id = %s",
                        (key.id,)),
            world.value("SELECT count(*) = 0 FROM counterfoil.attempt WHERE effect_id = %s",
                        (key.id,)))


def state_of(world: World, order: int) -> str | None:
    key = key_of(world, order)
    return key.state if key else None


# --- what does not depend on Kafka ----------------------------------------------------------------

def test_unfinished_keys_stay_whatever_their_age(make_world: MakeWorld, postgres: Postgres,
                                                 database: str):
    """L43: years old, in every state that is no end, beside finished ones, whose requests go."""
    world = make_world(effect={"retention": "1d"}, target={"url": "http://127.0.0.1:1"})
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                "VALUES ('payments', true, 'a person')")
    with closing(Keys(postgres, database)) as keys:
        for state in STATES:
            unknown = {"unknown_sends": 1} if state in ("uncertain", "in_flight") else {}
            keys.add(f"old:{state}", state, since="5000 days", **unknown)
        for state in ("completed", "cancelled"):
            keys.add(f"old:{state}", state, since="5000 days")
            keys.add(f"new:{state}", state, since="29 days")
    world.query("UPDATE counterfoil.effect_state SET deadline = 'infinity' WHERE state = 'in_flight'")
    world.query("UPDATE counterfoil.effect SET topic = %s, effect = 'charge'", (world.topic,))
    owner = world.value("INSERT INTO counterfoil.instance (program, name, version, until) "
                        "VALUES ('ledger', 'another', '0', 'infinity') RETURNING id")
    world.query("UPDATE counterfoil.effect_state SET owner = %s WHERE state = 'in_flight'", (owner,))
    unfinished = world.query("SELECT * FROM counterfoil.effect_state s JOIN counterfoil.effect_request"
                             " r USING (id) WHERE s.state::text = ANY (%s) ORDER BY id",
                             (list(STATES),))
    assert len(unfinished) == len(STATES)
    ledger = world.ledger().start()
    ledger.wait_for("finished keys are not pruned", effect="charge")
    walk(world)
    assert unfinished == world.query(
        "SELECT * FROM counterfoil.effect_state s JOIN counterfoil.effect_request"
        " r USING (id) WHERE s.state::text = ANY (%s) ORDER BY id", (list(STATES),))
    kept = {key for (key,) in world.query("SELECT e.idempotency_key FROM counterfoil.effect e "
                                          "JOIN counterfoil.effect_request USING (id)")}
    assert {f"old:{state}" for state in STATES} | {"new:completed", "new:cancelled"} == kept
    assert world.states()["pruned"] == 0, "nobody said how long the topic keeps events"


def test_a_broker_that_does_not_say_keeps_every_key(make_world: MakeWorld):
    world = make_world(effect={"retention": "1d"}).start(relays=0)
    (ledger,) = world.ledgers
    announce(world, [1])
    wait_finished(world, [1])
    said = ledger.wait_for("finished keys are not pruned")
    assert said.level == "warn" and said.fields["topic"] == world.topic and said.fields["reason"]
    age(world, 5000)
    walk(world)
    assert state_of(world, 1) == "completed" and stripped(world, 1) == (True, True)
    world.run_copies()
    assert len(requests_of(world, 1)) == 1


def test_a_stop_does_not_wait_for_the_answer(make_world: MakeWorld):
    """The stand-in never gives one."""
    world = make_world(effect={"retention": "1d"}).start(relays=0)
    world.ledgers[0].stop()
    assert not world.ledgers[0].said("finished keys are not pruned")


def test_requests_and_attempts_go_by_themselves(make_world: MakeWorld):
    """Nothing has to be asked of Kafka for keys that stay for ever."""
    world = make_world(settings={"ledger": {"request_keep": "10d", "attempt_keep": "20d"}})
    world.start(relays=0)
    announce(world, [1])
    wait_finished(world, [1])
    for days, expected in ((9.9, (False, False)), (0.1, (True, False)), (10, (True, True))):
        age(world, days)
        walk(world)
        assert (days, stripped(world, 1)) == (days, expected)
    shown = programs.run("counterfoil", "--config", str(world.write_configuration()), "show",
                         key_name(1))
    assert shown.returncode == 0 and "The provider said yes" in shown.stdout
    assert "could not be made" not in shown.stdout
    world.run_twice()
    assert state_of(world, 1) == "completed" and len(requests_of(world, 1)) == 1
    assert not world.ledgers[0].said("finished keys are not pruned")


def test_what_people_did_and_what_was_settled_goes(make_world: MakeWorld):
    world = make_world(settings={"ledger": {"audit_keep": "100d"}})
    world.query("INSERT INTO counterfoil.audit (at, about, operation, claims, action, result, detail,"
                " before) SELECT now() - d * interval '1 day', 'outbox', gen_random_uuid(), '{}',"
                " 'discard', 'done', '', '{}' FROM unnest(ARRAY[300, 101, 99, 0]) d")
    world.query("INSERT INTO counterfoil.poison (topic, partition, \"offset\", hash, size, reason,"
                " error, seen_at, settled_at) SELECT 't', 0, n, '', 0, 'json', '',"
                " now() - interval '400 days', CASE WHEN d > 0 THEN now() - d * interval '1 day' END"
                " FROM unnest(ARRAY[300, 99, 0]) WITH ORDINALITY u(d, n)")
    world.query("INSERT INTO counterfoil.unmatched SELECT 't', 'x', now() - d * interval '1 day', 1, 5"
                " FROM unnest(ARRAY[300, 101, 99]) d")
    world.query("INSERT INTO counterfoil.conflict (topic, partition, \"offset\", effect, idempotency_key,"
                " target, tenant, holder, event_id, fingerprint, seen_at, settled_at) SELECT 't', 0, n,"
                " 'e', 'k', 'p', '', 1, 'e', '', now() - interval '400 days',"
                " CASE WHEN d > 0 THEN now() - d * interval '1 day' END"
                " FROM unnest(ARRAY[300, 99, 0]) WITH ORDINALITY u(d, n)")
    world.start(relays=0)
    walk(world)
    assert world.value("SELECT count(*) FROM counterfoil.audit") == 2
    assert world.query("SELECT \"offset\" FROM counterfoil.poison ORDER BY 1") == [(2,), (3,)]
    assert world.query("SELECT \"offset\" FROM counterfoil.conflict ORDER BY 1") == [(2,), (3,)]
    assert world.value("SELECT count(*) FROM counterfoil.unmatched") == 1


def test_a_row_that_cannot_go_holds_up_no_other(make_world: MakeWorld):
    """Its step fails, then those of one row that find it; the walk passes over it."""
    world = make_world()
    fill(world, 40, "completed", "40 days")
    bad = world.value("SELECT id FROM counterfoil.effect WHERE idempotency_key = 'k:7'")
    world.query("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'broken page'; END $$")
    world.query("CREATE TRIGGER refuse BEFORE DELETE ON counterfoil.effect_request FOR EACH ROW "
                f"WHEN (OLD.id = {bad}) EXECUTE FUNCTION public.refuse()")
    world.query("UPDATE counterfoil.expiry SET next_at = clock_timestamp()")
    world.start(relays=0)
    waiting.until(lambda: rested(world), 60, "the end of the round")
    assert world.query("SELECT id FROM counterfoil.effect_request") == [(bad,)]
    assert world.ledgers[0].said("what is old cannot be cleared", error="broken page")


def test_several_ledgers_walk_as_one(make_world: MakeWorld):
    """Many keys, three ledgers, one of them killed in the middle of it: the walk goes on where it
    was, and no two write the same step."""
    world = make_world(effect={"retention": "forever"})
    world.query("CREATE TABLE public.steps AS SELECT cursor AS was, cursor AS went "
                "FROM counterfoil.expiry LIMIT 0")
    world.query("CREATE FUNCTION public.step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "INSERT INTO public.steps VALUES (OLD.cursor, NEW.cursor); RETURN NEW; END $$")
    world.query("CREATE TRIGGER step AFTER UPDATE ON counterfoil.expiry FOR EACH ROW "
                "WHEN (OLD.cursor <> NEW.cursor) EXECUTE FUNCTION public.step()")
    fill(world, 20_000, "completed", "40 days")
    world.query("UPDATE counterfoil.expiry SET next_at = clock_timestamp() + interval '5 min'")
    world.start(relays=0, ledgers=3)
    world.query("UPDATE counterfoil.expiry SET next_at = clock_timestamp()")
    waiting.until(lambda: world.value("SELECT count(*) > 2 FROM public.steps"), 30, "some steps")
    for ledger in world.ledgers[:2]:
        ledger.kill()
    world.query("UPDATE counterfoil.expiry SET until = clock_timestamp()")
    waiting.until(lambda: rested(world), 60, "the end of the round")
    steps = world.query("SELECT was, went FROM public.steps ORDER BY was")
    assert all(went == after for (_, went), (after, _) in zip(steps, steps[1:]))
    assert steps[-1][1] == 0 and len(steps) >= 20
    assert world.value("SELECT count(*) FROM counterfoil.effect_request") == 0


def fill(world: World, count: int, state: str, since: str) -> None:
    """Keys that this state has had for so long."""
    world.query("WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode,"
                " provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id)"
                " SELECT 'payments', 'k:' || n, 'charge', 'idempotent', 'k:' || n, '\\x00', '\\x00',"
                " %s, 0, n, 'e:' || n FROM generate_series(1, %s) n RETURNING id),"
                " s AS (INSERT INTO counterfoil.effect_state (id, target, tenant, state, state_since,"
                " completed_at) SELECT id, 'payments', '', %s::counterfoil.state, now() - %s::interval,"
                " now() - %s::interval FROM e)"
                " INSERT INTO counterfoil.effect_request (id, method, url)"
                " SELECT id, 'POST', 'http://127.0.0.1:1/' FROM e",
                (world.topic, count, state, since, since))


# --- what the broker says -------------------------------------------------------------------------

def pruning(kafka: Kafka, make_world: MakeWorld, retention: str = "1d", **topic: str) -> World:
    world = make_world(kafka, effect={"retention": retention})
    kafka.configure_topic(world.topic, **topic)
    return world


def test_a_finished_key_goes_in_two_steps(kafka: Kafka, make_world: MakeWorld):
    """L42: its event comes late, as it was and with other content; a person comes late too."""
    world = pruning(kafka, make_world, "10d", retention__ms=str(2 * DAY_MS),
                    segment__ms=str(DAY_MS)).start(relays=0)
    (ledger,) = world.ledgers
    announce(world, [1])
    wait_finished(world, [1])
    age(world, 9.9)
    walk(world)
    assert state_of(world, 1) == "completed" and stripped(world, 1) == (False, False)
    age(world, 0.2)
    epoch = key_of(world, 1).epoch
    walk(world)
    assert (state_of(world, 1), key_of(world, 1).epoch) == ("pruned", epoch + 1)
    assert stripped(world, 1) == (True, True)
    ledger.wait_for("finished keys cleared", pruned=1)
    world.run_twice()
    assert len(requests_of(world, 1)) == 1 and state_of(world, 1) == "pruned"
    assert_a_person_is_told(world)
    announce(world, [1], customer_id="somebody-else", headers=[("ce_id", b"another")])
    waiting.until(lambda: conflicts_of(world, key_name(1)), 20, "the conflict")
    age(world, 89)
    walk(world)
    assert state_of(world, 1) == "pruned"
    age(world, 1.1)
    world.query("INSERT INTO counterfoil.poison (topic, partition, \"offset\", hash, size, reason, error)"
                " SELECT topic, partition, \"offset\", '', 0, 'key', 'of another effect' "
                "FROM counterfoil.effect")
    walk(world)
    assert state_of(world, 1) == "pruned", "the same event may be taken in yet, as poison"
    world.query("UPDATE counterfoil.poison SET settled_at = now(), settlement = 'discarded'")
    walk(world)
    assert world.states() == {} and len(requests_of(world, 1)) == 1
    assert world.value("SELECT count(*) FROM counterfoil.effect") == 0
    assert not ledger.said("finished keys are not pruned")


def assert_a_person_is_told(world: World) -> None:
    config = str(world.write_configuration())
    shown = programs.run("counterfoil", "--config", config, "show", key_name(1))
    assert "Finished long ago: only its key is kept" in shown.stdout
    assert "could not be made" not in shown.stdout
    asked = programs.run("counterfoil", "--config", config, "replay", key_name(1), "--yes",
                         "--reason", "late")
    assert "it finished long ago: only its key is kept" in asked.stderr


def test_a_retention_shorter_than_the_topics(kafka: Kafka, make_world: MakeWorld):
    """It is said, with both figures, and the topic's holds; that of the dead letters too."""
    world = pruning(kafka, make_world, "1d", retention__ms=str(5 * DAY_MS),
                    segment__ms=str(2 * DAY_MS))
    kafka.create_topic(f"{world.topic}.dlq", 1, {"retention.ms": str(9 * DAY_MS),
                                                 "segment.ms": str(DAY_MS)})
    ledger = world.ledger()
    ledger.allow_errors("retention is shorter")
    ledger.start()
    ledger.wait_for("retention is shorter than a topic's", topic=f"{world.topic}.dlq")
    figures = ("retention", "topic", "retention.ms", "segment.ms")
    assert [tuple(line.fields[name] for name in figures) for line in ledger.said(
        "retention is shorter")] == [("1d", world.topic, "5d", "2d"),
                                     ("1d", f"{world.topic}.dlq", "9d", "1d")]
    announce(world, [1])
    wait_finished(world, [1])
    age(world, 9.9)
    walk(world)
    assert state_of(world, 1) == "completed"
    age(world, 0.2)
    walk(world)
    assert state_of(world, 1) == "pruned"


def test_what_is_shorter_is_found_before_the_start(kafka: Kafka, make_world: MakeWorld):
    world = pruning(kafka, make_world, "4d", retention__ms=str(5 * DAY_MS))
    kafka.create_topic(f"{world.topic}.dlq", 1, {"retention.ms": "-1"})
    done = programs.run("counterfoil-ledger", "--config", str(world.write_configuration()),
                        "--check-config", "--connect")
    (error,) = [line for line in done.stdout.splitlines() if line.startswith("error")]
    assert all(word in error for word in ('"charge"', '"4d"', f'"{world.topic}"', "retention.ms is 5d"))
    (warning,) = [line for line in done.stdout.splitlines()
                  if line.startswith("warning") and f'"{world.topic}.dlq"' in line]
    assert f'"{world.topic}.dlq": it deletes nothing by age' in warning and done.returncode == 78


@pytest.mark.parametrize("settings,reason", [
    ({"retention__ms": "-1"}, "it deletes nothing by age"),
    ({"cleanup__policy": "compact"}, "its cleanup.policy is compact"),
    ({"cleanup__policy": "compact,delete", "retention__ms": "1000"}, "its cleanup.policy is compact"),
])
def test_a_topic_that_keeps_for_ever(kafka: Kafka, make_world: MakeWorld, settings: dict[str, str],
                                     reason: str):
    world = pruning(kafka, make_world, "1d", **settings)
    fill(world, 3, "completed", "900 days")
    world.start(relays=0)
    said = world.ledgers[0].wait_for("finished keys are not pruned", topic=world.topic)
    assert said.fields["reason"].startswith(reason)
    walk(world)
    assert world.states() == {"completed": 3}


def test_effects_of_another_configuration(kafka: Kafka, make_world: MakeWorld):
    """One that has left it, one that reads another topic by now: nobody says how long their events
    may come, so they stay."""
    world = pruning(kafka, make_world, "1d", retention__ms="1000", segment__ms="1000")
    fill(world, 3, "completed", "900 days")
    world.query("UPDATE counterfoil.effect SET effect = 'former' WHERE idempotency_key = 'k:1'")
    world.query("UPDATE counterfoil.effect SET topic = 'former' WHERE idempotency_key = 'k:2'")
    world.start(relays=0)
    waiting.until(lambda: (walk(world), world.states()["pruned"])[1], 30, "the third to be pruned")
    assert [world.state(f"k:{n}") for n in (1, 2, 3)] == ["completed", "completed", "pruned"]


# --- what will be read again ----------------------------------------------------------------------

class Walk(threading.Thread):
    """One step, which lets go of all keys."""

    def __init__(self, world: World, step: str) -> None:
        super().__init__(daemon=True)
        self.world = world
        self.step = step
        self.forgotten = -1

    def run(self) -> None:
        ids = [key for (key,) in self.world.query("SELECT id FROM counterfoil.effect ORDER BY id")]
        self.world.query("UPDATE counterfoil.expiry SET owner = 1, cursor = 0, until = 'infinity'")
        count = len(ids)
        with closing(self.world.connect(autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute(f"PREPARE step AS {self.step}")
            cursor.execute("EXECUTE step(1, 0, 1, '0', '1 min', %s, %s, %s, %s, %s, %s, %s)",
                           (ids, [0] * count, ["pruned"] * count, [False] * count, [True] * count,
                            [False] * count, [False] * count))
            moved, _, self.forgotten, _ = cursor.fetchone()
            assert moved


def test_what_will_be_read_again_is_not_forgotten(world: World, tmp_path: Path):
    """Where positions went back, their keys stay until they were passed again; whoever moves positions
    and whoever forgets keys wait for each other."""
    step = statements(tmp_path, SOURCES)["SQL_EXPIRY_STEP"]
    fill(world, 30, "pruned", "900 days")
    world.query("UPDATE counterfoil.effect SET topic = 'former' WHERE \"offset\" > 28")
    world.query("INSERT INTO counterfoil.intake_position VALUES (%s, 0, 21), (%s, 1, 0)",
                (world.topic, world.topic))
    walk = Walk(world, step)
    with closing(world.connect()) as other, other.cursor() as cursor:
        cursor.execute("UPDATE counterfoil.intake_position SET next_offset = 11 WHERE partition = 0")
        walk.start()
        waiting.until(lambda: world.value("SELECT count(*) FROM pg_stat_activity WHERE datname = "
                                          "current_database() AND wait_event_type = 'Lock'"), 20,
                      "the step to wait")
        other.commit()
    walk.join(20)
    assert walk.forgotten == 12, "10 that were passed, 2 of a topic that is read no more"
    assert world.query("SELECT min(\"offset\"), max(\"offset\") FROM counterfoil.effect") == [(11, 28)]
    assert world.query("SELECT topic, since FROM counterfoil.reach ORDER BY since") == [
        (world.topic, 11), ("former", 31)]


# --- races ----------------------------------------------------------------------------------------

ROUNDS, GROUP = 10_000, 500
SOURCES = {"ledger/expiry/sql_expiry.h": ["SQL_EXPIRY_STEP"],
           "ledger/execution/sql_execution.h": ["SQL_RESULT"],
           "ledger/intake/sql_intake.h": ["SQL_RECORD", "SQL_COMPARE"]}

# Types of the parameters of SQL_RECORD and SQL_COMPARE.
RECORD = ("text[], int[], bigint[], bigint[], text[], text[], text[], text[], text[], text[], bytea[],"
          " bytea[], text[], int[], bigint[], text[], text[], text[], timestamptz[], interval[],"
          " text[], text[], text[], bytea[], bytea[], bytea[], bytea[], bool[], bytea[], text[],"
          " bool[], bigint[], bytea[], text[], bool[], timestamptz[], text[], text[]")
COMPARE = "text[], text[], text[], bytea[], bytea[], text[], text[], bigint[], text[], text[]"

MOVES = """CREATE TABLE public.moves (id bigint, was text, is_now text);
CREATE FUNCTION public.move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO public.moves VALUES (coalesce(OLD.id, NEW.id), OLD.state, NEW.state);
  RETURN NULL; END $$;
CREATE TRIGGER move AFTER INSERT OR UPDATE OF state OR DELETE ON counterfoil.effect_state
  FOR EACH ROW EXECUTE FUNCTION public.move();"""

# What each key of a group is when a round begins; %s: numbers of the group.
SET_UP = """WITH e AS (INSERT INTO counterfoil.effect (target, idempotency_key, effect, mode,
    provider_key, fingerprint, event_hash, topic, partition, "offset", event_id)
  SELECT 't', 'k:' || n, 'x', 'idempotent', 'k', '\\x01', '\\x02', 'race', 0, n, 'e:' || n
  FROM generate_series(%s, %s) n ORDER BY n RETURNING id),
 s AS (INSERT INTO counterfoil.effect_state (id, target, tenant, state, epoch, owner, tries,
    unknown_sends, completed_at)
  SELECT id, 't', '', st.state::counterfoil.state, 1 + (st.state = 'uncertain')::int,
    CASE st.state WHEN 'in_flight' THEN 7 END, 1,
    CASE WHEN st.state IN ('in_flight', 'uncertain') THEN 1 ELSE 0 END,
    CASE st.state WHEN 'completed' THEN now() END
  FROM e, LATERAL (SELECT (ARRAY['in_flight', 'completed', 'pruned', 'uncertain', 'dead'])
    [1 + id %% 5] AS state) st)
 INSERT INTO counterfoil.effect_request (id, method, url, body) SELECT id, 'POST', 'u', '\\x' FROM e
 RETURNING id"""


class Actor(threading.Thread):
    """One connection; acts on each key when the others do."""

    def __init__(self, race: "Race") -> None:
        super().__init__(daemon=True)
        self.race = race
        self.error: BaseException | None = None
        self.connection = race.world.connect(autocommit=True)
        self.cursor = self.connection.cursor()

    def run(self) -> None:
        try:
            for n, key in self.race.keys:
                self.race.barrier.wait(60)
                self.act(n, key)
        except BaseException as error:   # pylint: disable=broad-except
            self.error = error
            self.race.barrier.abort()
        finally:
            self.connection.close()

    def prepare(self, name: str) -> None:
        self.cursor.execute(f"PREPARE it AS {self.race.sql[name]}")

    def look(self, key: int) -> tuple[str, int] | None:
        self.cursor.execute("SELECT state::text, epoch FROM counterfoil.effect_state WHERE id = %s",
                            (key,))
        return self.cursor.fetchone()

    def act(self, n: int, key: int) -> None:
        raise NotImplementedError


class Sweeper(Actor):
    """Prunes what is finished, forgets what is pruned, and tries it on all else, twice a round."""

    def run(self) -> None:
        self.prepare("SQL_EXPIRY_STEP")
        self.at = 0
        super().run()

    def act(self, n: int, key: int) -> None:
        for _ in range(2):
            state, epoch = self.look(key) or ("pruned", 0)
            forget = state == "pruned"
            self.cursor.execute(
                "EXECUTE it(%s, %s, %s, '0', '1 min', %s, %s, %s, %s, %s, %s, %s)",
                (1, self.at, self.at + 1, [key], [epoch], [state], [not forget], [forget], [False],
                 [False]))
            moved, pruned, forgotten, _ = self.cursor.fetchone()
            assert moved, "the cursor is nobody else's"
            self.at += 1
            self.race.pruned += pruned
            self.race.forgotten += forgotten


class Result(Actor):
    """An answer of the first claim, twice: the second is late whatever the first was."""

    def run(self) -> None:
        self.prepare("SQL_RESULT")
        super().run()

    def act(self, n: int, key: int) -> None:
        for _ in range(2):
            self.cursor.execute(
                "EXECUTE it(%s, '{1}', '{7}', '{1}', '{completed}', '{applied}', '{200}', '{0}',"
                " ARRAY[''], ARRAY[NULL]::timestamptz[], '{-1}', '{1}', '{0}', '{0}', '{false}',"
                " ARRAY[NULL]::text[], ARRAY[now()], '{1}', ARRAY[NULL]::text[], '{k}',"
                " ARRAY[NULL]::bytea[], ARRAY[NULL]::bytea[], '{false}', '{false}',"
                " ARRAY[NULL]::uuid[], ARRAY[NULL]::text[], ARRAY[NULL]::text[], '{false}',"
                " ARRAY[NULL]::uuid[], '{false}')",
                ([key],))


# Orders about the key as it is shown, and the states that they may be carried out in.
ORDERS = [
    ("replay(%s, %s, %s, %s, 'race', '{}')", {"dead", "uncertain", "pending", "retry_wait"}),
    ("replay(%s, %s, %s, %s, 'race', '{}', false, true)", {"dead", "uncertain", "completed"}),
    ("resolve(%s, %s, %s, %s, true, 'ch_1', 'race', '{}')", {"uncertain"}),
    ("resolve(%s, %s, %s, %s, false, NULL, 'race', '{}')", {"uncertain"}),
    ("take_over(%s, %s, %s, %s, 'race', '{}')", {"in_flight"}),
    ("cancel(%s, %s, %s, %s, 'race', '{}')", {"pending", "retry_wait"}),
]


class Operator(Actor):
    """Orders one thing or another. What is forced of a completed key is an effect of its own."""

    def act(self, n: int, key: int) -> None:
        shown = self.look(key)
        if not shown:
            return
        call, states = ORDERS[n // 5 % len(ORDERS)]
        self.cursor.execute("SELECT result, from_state::text, action FROM counterfoil." + call,
                            (key, shown[1], shown[0], str(uuid.uuid4())))
        result, state, action = self.cursor.fetchone()
        assert result != "done" or state in states
        self.race.orders += result == "done"
        self.race.forced += (result, action) == ("done", "force")


class Intake(Actor):
    """The key's event comes again, until it is taken."""

    def run(self) -> None:
        self.cursor.execute(f"PREPARE record ({RECORD}) AS {self.race.sql['SQL_RECORD']}")
        self.cursor.execute(f"PREPARE compare ({COMPARE}) AS {self.race.sql['SQL_COMPARE']}")
        super().run()

    def act(self, n: int, key: int) -> None:
        while not self.take(n):
            self.race.vanished += 1

    def take(self, n: int) -> bool:
        one = "ARRAY[NULL]::bytea[]"
        self.cursor.execute("BEGIN")
        self.cursor.execute(
            "EXECUTE record('{}', '{}', '{}', '{}', %s, '{t}', ARRAY[''], '{x}', '{idempotent}',"
            " '{k}', ARRAY['\\x01'::bytea], ARRAY['\\x02'::bytea], '{race}', '{0}', %s, %s,"
            " ARRAY[''], ARRAY[NULL]::text[], ARRAY[NULL]::timestamptz[], ARRAY['0'::interval],"
            f" ARRAY[NULL]::text[], '{{POST}}', '{{u}}', {one}, {one}, {one}, {one}, '{{false}}',"
            f" {one}, ARRAY[NULL]::text[], '{{false}}', '{{0}}', {one}, ARRAY[NULL]::text[],"
            " '{false}', ARRAY[NULL]::timestamptz[], '{}', '{}')", ([f"k:{n}"], [n], [f"e:{n}"]))
        moved, inserted = self.cursor.fetchone()
        assert moved
        verdict = "inserted"
        if not inserted:
            self.cursor.execute("EXECUTE compare(%s, '{t}', ARRAY[''], ARRAY['\\x01'::bytea],"
                                " ARRAY['\\x02'::bytea], %s, '{x}', '{0}', '{}', '{}')",
                                ([f"k:{n}"], [f"e:{n}"]))
            verdict = self.cursor.fetchone()[2]
        self.cursor.execute("ROLLBACK" if verdict == "vanished" else "COMMIT")
        assert verdict in ("inserted", "duplicate", "vanished")
        self.race.inserted += verdict == "inserted"
        return verdict != "vanished"


class Race:
    def __init__(self, world: World, sql: dict[str, str]) -> None:
        self.world = world
        self.sql = sql
        self.keys: list[tuple[int, int]] = []
        self.pruned = self.forgotten = self.inserted = self.vanished = 0
        self.orders = self.forced = 0
        self.barrier = threading.Barrier(4)

    def run(self) -> None:
        for first in range(1, ROUNDS + 1, GROUP):
            ids = self.world.query(SET_UP, (first, first + GROUP - 1))
            self.keys += zip(range(first, first + GROUP), sorted(key for (key,) in ids))
        self.world.query("UPDATE counterfoil.expiry SET owner = 1, cursor = 0, "
                         "until = clock_timestamp() + interval '1 hour'")
        actors = [kind(self) for kind in (Sweeper, Result, Operator, Intake)]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join(300)
        errors = [actor.error for actor in actors if actor.error]
        real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
        assert not errors, real or errors


@pytest.mark.plain
def test_sweeper_result_operator_and_intake(world: World, tmp_path: Path):
    """10,000 keys of all kinds, each met by the four at once: what is completed becomes nothing but
    pruned, what is pruned nothing at all, and nothing is there by half or twice."""
    race = Race(world, statements(tmp_path, SOURCES))
    world.query(MOVES)
    race.run()
    moves = dict(((was, is_now), n) for was, is_now, n in world.query(
        "SELECT was, is_now, count(*) FROM public.moves GROUP BY 1, 2"))
    left = {was for was, is_now in moves if is_now in (None, "pruned") and was}
    assert {is_now for was, is_now in moves if was == "completed"} == {"pruned"}
    assert {is_now for was, is_now in moves if was == "pruned"} == {None}
    assert left <= {"completed", "pruned"}, "nothing else is ever let go"
    assert moves["completed", "pruned"] == race.pruned > ROUNDS // 10
    assert moves["pruned", None] == race.forgotten > ROUNDS // 10
    # an event is taken anew only where its key was forgotten before: never beside the key
    assert 0 < race.inserted <= race.forgotten
    assert world.value("SELECT count(*) FROM counterfoil.effect") == \
        ROUNDS - race.forgotten + race.inserted + race.forced
    assert race.orders > ROUNDS // 10 and race.forced > 0
    assert world.query("SELECT id FROM counterfoil.effect e FULL JOIN counterfoil.effect_state s "
                       "USING (id) WHERE e.id IS NULL OR s.id IS NULL") == []
    assert world.query("SELECT s.id FROM counterfoil.effect_state s LEFT JOIN "
                       "counterfoil.effect_request r USING (id) WHERE (r.id IS NULL) <> "
                       "(s.state = 'pruned') AND s.id NOT IN (SELECT id FROM public.moves "
                       "WHERE was IS NULL AND is_now = 'pruned')") == []
