"""What every integration test can have: a database of its own, a broker, a topic, a world."""

from __future__ import annotations

import itertools
import re
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.tools import programs
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.provider import Provider
from tests.tools.shop import Shop
from tests.tools.world import World

TEMPLATE = "counterfoil_template"
LOG_LINES = 60
numbers = itertools.count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Some are not run twice: see pytest.ini."""
    if not programs.sanitized():
        return
    left_out = [item for item in items if item.get_closest_marker("plain")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One cluster for all; a test may stop, kill and restart it, and leaves it running."""
    server = Postgres()
    library = programs.build_directory() / "tests/tools/no-fsync.so"
    server.command = ["env", f"LD_PRELOAD={library}"]
    with server:
        yield server


@pytest.fixture(scope="session")
def template(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_template(postgres, tmp_path_factory.mktemp("template"))


def make_template(postgres: Postgres, directory: Path) -> str:
    """A database as `counterfoil migrate` makes it, with the shop's table."""
    postgres.create_database(TEMPLATE)
    config = directory / "counterfoil.conf"
    config.write_text(f'postgres = {{ conninfo = "{postgres.conninfo(TEMPLATE)}"; }};\n')
    done = programs.run("counterfoil", "--config", str(config), "migrate")
    assert done.returncode == 0, done.stderr
    with closing(postgres.connect(TEMPLATE)) as connection:
        Shop.create_table(connection)
    return TEMPLATE


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """A database without our schema."""
    name = f"empty_{next(numbers)}"
    postgres.create_database(name)
    yield name
    postgres.drop_database(name)


@pytest.fixture
def database(postgres: Postgres, template: str) -> Iterator[str]:
    name = f"test_{next(numbers)}"
    postgres.create_database(name, template)
    yield name
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    with Broker(programs.build_directory()) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """The common one: a test of broker faults takes `own_broker`."""
    return shared_broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker(programs.build_directory()) as broker:
        yield broker


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{plain[:80]}-{next(numbers)}"


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """A topic of this test alone, 4 partitions, on the common broker."""
    broker.create_topic(topic_name)
    return topic_name


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider with the defaults, for tests of the provider itself; a world has its own."""
    with Provider(tmp_path / "provider") as one:
        yield one
    assert "Traceback" not in (tmp_path / "provider" / "provider.log").read_text()


@pytest.fixture
def make_world(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres, database: str,
               topic_name: str) -> Iterator[Callable[..., World]]:
    """World(...) with this test's database and a new topic, on `broker` (the common one, unless
    given). At the end every log is judged: see Program.allow_errors()."""
    made: list[World] = []

    def make(broker: Broker | None = None, partitions: int = 4, **options: Any) -> World:
        broker = broker or request.getfixturevalue("shared_broker")
        broker.create_topic(topic_name, partitions)
        world = World(tmp_path, postgres, database, broker, topic_name, **options)
        made.append(world)
        request.node.worlds = made
        return world

    yield make
    for world in made:
        world.close()
    complaints = [complaint for world in made for complaint in world.complaints()]
    assert not complaints, "\n".join(["in the logs:", *complaints])


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world as it comes, nothing started but the provider."""
    return make_world()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The end of every program's log beside a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for world in getattr(item, "worlds", []):
            for program in world.programs:
                report.sections.append((f"log of {program.name}", program.tail(LOG_LINES)))
