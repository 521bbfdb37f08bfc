"""What a changed configuration would leave behind, or begin: told at the start and by --connect."""

from __future__ import annotations

from typing import Callable

import pytest

from tests.tools import health, waiting
from tests.tools.plans import Plans
from tests.tools.postgres import SUPERUSER, Postgres
from tests.tools.world import World

from .test_connect import CONFIG, LEDGER, OK, connect

MakeWorld = Callable[..., World]
STRAY = "keys of a target that is not configured"


def fill(world: World, count: int, **columns: str) -> None:
    """So many keys; columns are SQL, of row n."""
    values = {"target": "'payments'", "tenant": "'t' || n % 50", "state": "'completed'",
              "serial_key": "NULL", "waiting": "false", **columns}
    world.query(f"INSERT INTO counterfoil.effect_state (id, {', '.join(values)}) SELECT "
                f"coalesce((SELECT max(id) FROM counterfoil.effect_state), 0) + n, "
                f"{', '.join(values.values())} FROM generate_series(1, {count}) n")


def test_an_alias_that_was_taken_out(make_world: MakeWorld):
    """Keys that stand under the former name are sent by nobody: every ledger says so, with the remedy,
    is not ready, and --connect tells it beforehand. With the alias restored all goes on."""
    world = make_world()
    world.query("INSERT INTO counterfoil.pause (scope) VALUES ('everything')")
    first = world.ledger()
    first.start()
    world.relay().start()
    world.place(world.orders(3))
    waiting.until(lambda: world.states() == {"pending": 3}, 20, "the keys")
    assert "targets" not in health.failed(first) and not first.said(STRAY)
    first.stop()

    world.targets[0]["name"] = world.effects[0]["target"] = "stripe"
    found = connect(world, LEDGER)
    assert found.code == OK and found.has("warning", '"payments" is not configured and has 3 unfinished '
                                          "keys", "targets[].alias"), found
    assert connect(world, LEDGER, "--strict").code == CONFIG
    renamed = world.ledger()
    renamed.start()
    line = renamed.wait_for(STRAY, target="payments", keys="3")
    assert line.level == "warn" and "targets[].alias" in line.fields["remedy"]
    waiting.until(lambda: "targets" in health.failed(renamed), 20, "the check to fail")
    assert "3 keys of target payments" in health.get(renamed, "/readyz")[1]
    renamed.stop()

    world.targets[0]["alias"] = ["payments"]
    found = connect(world, LEDGER)
    assert found.has("ok", "targets: ") and not found.found["warning"], found
    restored = world.ledger()
    restored.start()
    world.query("DELETE FROM counterfoil.pause")
    world.wait_drained()
    assert world.states() == {"completed": 3} and world.duplicated() == {}
    assert health.failed(restored) == [] and not restored.said(STRAY)
    world.run_twice()


@pytest.fixture
def plans(database: str, postgres: Postgres) -> Plans:
    postgres.query(f'ALTER ROLE {SUPERUSER} IN DATABASE "{database}" '
                   "SET session_preload_libraries = 'auto_explain'")
    return Plans(postgres, database, SUPERUSER)


def test_looking_for_them_reads_no_table(make_world: MakeWorld, plans: Plans):
    """Among any number of keys, those that wait behind another one too; counted up to a bound."""
    world = make_world()
    fill(world, 60000)
    fill(world, 20000, state="'pending'")
    fill(world, 15000, state="'pending'", target="'gone'")
    fill(world, 30, state="'pending'", target="'behind'", serial_key="'s'", waiting="true")
    fill(world, 1, state="'uncertain'", target="'behind'", serial_key="'s'")
    world.query("ANALYZE counterfoil.effect_state")
    plans.read()
    found = connect(world, LEDGER)
    assert found.has("warning", '"gone" is not configured and has 10000 or more unfinished'), found
    assert found.has("warning", '"behind" is not configured and has 31 unfinished'), found
    assert len(found.found["warning"]) == 2
    (asked,) = [plan for plan in plans.read() if "WITH n AS MATERIALIZED" in plan.statement]
    nodes = [node for node in asked.nodes() if node.get("Relation Name") == "effect_state"]
    assert len(nodes) == 6 and "Seq Scan" not in {node["Node Type"] for node in nodes}
    assert asked.blocks() < 600, asked.blocks()


def test_a_topic_that_nobody_said_where_to_begin(make_world: MakeWorld):
    """--connect says what the start would say; a topic that was read before needs no word."""
    world = make_world(settings={"ledger": {"start": None}})
    found = connect(world, LEDGER)
    assert found.code == CONFIG and found.has(
        "error", f'topic "{world.topic}": it has never been read', "ledger.start"), found
    ledger = world.ledger()
    ledger.allow_errors("topic not begun")
    ledger.start(ready=False)
    remedy = ledger.wait_for("topic not begun", topic=world.topic).fields["remedy"]
    assert found.has("error", remedy)
    ledger.stop()
    assert connect(world, LEDGER, ledger={"start": "latest"}).has(
        "ok", "has never been read: only what comes from then on is performed")
    assert connect(world, LEDGER, ledger={"start": "earliest"}).has(
        "ok", "has never been read: its whole history is performed")
    world.query("INSERT INTO counterfoil.intake_position VALUES (%s, 0, 5)", (world.topic,))
    found = connect(world, LEDGER)
    assert found.code == OK and not found.has("ok", "has never been read"), found
