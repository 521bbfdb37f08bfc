"""A right that is missing is told with the statement that grants it, by all three programs."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from tests.tools import programs, waiting
from tests.tools.programs import Program
from tests.tools.world import World

MakeWorld = Callable[..., World]
GRANT = re.compile(r'GRANT [^"]* TO "(\w+)"')


@contextmanager
def role(world: World, *grants: str) -> Iterator[str]:
    name = f"narrow_{world.database}"
    world.query(f"CREATE ROLE {name} LOGIN")
    for grant in grants:
        world.query(f"GRANT {grant} TO {name}")
    try:
        yield name
    finally:
        world.query(f"DROP OWNED BY {name}; DROP ROLE {name}")


ALL = ("USAGE ON SCHEMA counterfoil", "ALL ON ALL TABLES IN SCHEMA counterfoil",
       "ALL ON ALL SEQUENCES IN SCHEMA counterfoil", "EXECUTE ON ALL FUNCTIONS IN SCHEMA counterfoil")


def as_role(world: World, name: str) -> None:
    world.settings = {"postgres": {"conninfo": world.postgres.conninfo(world.database, name)}}


def told(program: Program, table: str) -> str:
    """The GRANT that its log names for this table."""
    def look() -> Any:
        for line in program.log():
            for value in line.fields.values():
                if f"permission denied for table {table}" in str(value):
                    return GRANT.search(str(value))
        return None
    return waiting.until(look, 20, f"a remedy for {table}").group()


def test_the_console_names_what_to_grant(make_world: MakeWorld):
    """Whoever does what it says, one after the other, ends with the rights to it, and no others."""
    world = make_world()
    with role(world) as name:
        as_role(world, name)
        config = str(world.write_configuration())

        def granted(*words: str, until: int) -> list[str]:
            given: list[str] = []
            while True:
                done = programs.run("counterfoil", "--config", config, *words, "--json")
                if done.returncode != 77:
                    assert done.returncode == until, done.stderr
                    return given
                given.append(GRANT.search(json.loads(done.stderr)["message"]).group())
                assert given.count(given[-1]) == 1, given
                world.query(given[-1])
        to = f'TO "{name}"'
        schema, *tables = granted("list", "all", until=0)
        assert schema == f"GRANT USAGE ON SCHEMA counterfoil {to}"
        assert f"GRANT SELECT ON counterfoil.effect_state {to}" in tables
        assert all(grant.startswith("GRANT SELECT ON counterfoil.") for grant in tables), tables
        assert granted("conflicts", "settle", "1", "--yes", "--reason", "r", until=4) == [
            f"GRANT EXECUTE ON FUNCTION counterfoil.settle_conflicts {to}"]
        assert granted("poison", "discard", "1", "--yes", "--reason", "r", until=4)


def test_the_services_name_what_to_grant(make_world: MakeWorld):
    """Each goes on by itself once that was done."""
    world = make_world()
    with role(world, *ALL) as name:
        as_role(world, name)
        for right in ("INSERT ON counterfoil.effect_request", "DELETE ON counterfoil.outbox"):
            world.query(f"REVOKE {right} FROM {name}")
        world.start()
        (relay,), (ledger,) = world.relays, world.ledgers
        relay.allow_errors("permission denied")
        ledger.allow_errors("permission denied")
        world.place(world.orders(3))
        grants = [told(relay, "outbox"), told(ledger, "effect_request")]
        assert grants[1] == f'GRANT INSERT ON counterfoil.effect_request TO "{name}"'
        assert grants[0].startswith("GRANT SELECT, ") and "DELETE ON counterfoil.outbox" in grants[0]
        for grant in grants:
            world.query(grant)
        world.wait_drained()
        assert world.states() == {"completed": 3} and world.duplicated() == {}
        for program in (relay, ledger):
            program.stop()
