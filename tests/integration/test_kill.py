"""kill -9 of each program, at random moments under load: nothing lost, nothing twice, and every
send of a key carries the same bytes. A moment is a number of charges, never a time."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from collections.abc import Callable

import pytest

from tests.tools import waiting
from tests.tools.programs import Program
from tests.tools.shop import Order
from tests.tools.world import World

pytestmark = pytest.mark.plain

ORDERS = 400
KILLS = 5


class Load:
    """A shop that goes on placing orders while programs die."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self.thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.thread.join()
        if self.failure:
            raise self.failure

    def _run(self) -> None:
        try:
            with closing(self.world.connect()) as connection:
                for number in range(1, ORDERS + 1):
                    order = Order(number, f"customer-{number % 7}", 100 + number)
                    self.world.shop.place(connection, order)
                    connection.commit()
                    ahead = number - 60
                    waiting.until(lambda: len(self.world.provider.charges()) >= ahead, 60,
                                  "the ledgers to keep up", every=0.02)
        except BaseException as failure:  # pylint: disable=broad-exception-caught
            self.failure = failure


def judge(world: World) -> None:
    """The books, from the provider's own record."""
    world.wait_drained(60)
    assert world.lost() == []
    assert world.duplicated() == {}
    assert world.states() == {"completed": ORDERS}
    bytes_of: dict[str | None, set[str]] = {}
    for request in world.provider.requests():
        bytes_of.setdefault(request.key, set()).add(request.digest)
    assert {key: len(bodies) for key, bodies in bytes_of.items() if len(bodies) > 1} == {}
    events = {message.event_id for message in world.messages()}
    assert len(events) == ORDERS


def kill_at_random(world: World, victims: list[Program], seed: int) -> None:
    chosen = random.Random(seed)
    moments = sorted(chosen.sample(range(20, ORDERS - 60), KILLS))
    with Load(world):
        for moment in moments:
            waiting.until(lambda at=moment: len(world.provider.charges()) >= at, 60,
                          f"{moment} charges", every=0.01)
            victim = chosen.choice(victims)
            victim.kill()
            victim.start(ready=False)
    judge(world)


@pytest.mark.parametrize("victim", ["relay", "ledger", "any"])
def test_a_killed_program_loses_nothing_and_repeats_nothing(
        make_world: Callable[..., World], victim: str) -> None:
    """L51, R56: five kills of one of two relays, of one of two ledgers, of any of the four."""
    world = make_world(settings={"relay": {"lease": "1s", "sweep": "1s"},
                                 "ledger": {"lease": "1s"}},
                       provider={"think": [0.005, 0.02]}).start(relays=2, ledgers=2)
    victims = {"relay": world.relays, "ledger": world.ledgers, "any": world.programs}[victim]
    kill_at_random(world, victims, seed=len(victim))
    world.run_twice()


def test_one_of_each_killed_together(make_world: Callable[..., World]) -> None:
    """Nobody is left to take over: whoever comes back goes on where the rows say."""
    world = make_world(settings={"relay": {"lease": "1s", "sweep": "1s"},
                                 "ledger": {"lease": "1s"}}).start(relays=1, ledgers=1)
    with Load(world):
        for moment in (50, 250):
            waiting.until(lambda at=moment: len(world.provider.charges()) >= at, 60,
                          f"{moment} charges", every=0.01)
            for program in world.programs:
                program.kill()
            for program in world.programs:
                program.start(ready=False)
    judge(world)
    world.run_twice()
