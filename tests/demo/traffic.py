"""The shop's minute: when each order comes, and what becomes of its transaction."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import Any

import psycopg2

from tests.tools.shop import Order
from tests.tools.world import World

WORKERS = 12
ROLLED_BACK = 0.03     # orders that are given up before their commit, beside those that count
SLOW = 0.05            # transactions that stay open for a while
SLOW_SECONDS = (0.2, 2.0)
RETRY_SECONDS = 0.1
SERVER_GONE = ("08", "57")   # classes of SQLSTATE


@dataclass(frozen=True)
class Planned:
    at: float
    order: Order
    hold: float        # seconds between the statement and its commit
    rollback: bool


def plan(seed: int, count: int, seconds: float) -> list[Planned]:
    """`count` orders that commit, and some that do not, over the time; ids without a gap."""
    dice = random.Random(f"shop {seed}")
    given_up = sum(dice.random() < ROLLED_BACK for _ in range(count))
    rollbacks = [False] * count + [True] * given_up
    dice.shuffle(rollbacks)
    times = sorted(dice.uniform(0, seconds) for _ in rollbacks)
    return [Planned(at, Order(n, f"customer-{dice.randrange(400)}", dice.randrange(100, 50_000)),
                    dice.uniform(*SLOW_SECONDS) if dice.random() < SLOW else 0, rollback)
            for n, (at, rollback) in enumerate(zip(times, rollbacks), 1)]


class Traffic:
    """Works the plan off in several threads, each with a connection of its own. A lost connection
    is made again; an order whose commit was not answered is looked up before it is tried again."""

    def __init__(self, world: World, planned: list[Planned]) -> None:
        self.world = world
        self.committed: dict[int, Order] = {}
        self.rolled_back = 0
        self.looked_up = 0
        self.failure: Exception | None = None
        self._todo = iter(planned)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._start = time.monotonic()
        self._threads = [threading.Thread(target=self._work, name=f"shop {n}", daemon=True)
                         for n in range(WORKERS)]

    def start(self) -> None:
        self._start = time.monotonic()
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident:
                thread.join()

    def _next(self) -> Planned | None:
        with self._lock:
            return next(self._todo, None)

    def _work(self) -> None:
        worker = _Worker(self)
        try:
            while (planned := self._next()) and not self._stop.is_set():
                self._stop.wait(max(0.0, self._start + planned.at - time.monotonic()))
                worker.work(planned)
        except Exception as error:   # told in the main thread, where the books are
            self.failure = error
        finally:
            worker.disconnect()

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond the end."""
        self._stop.wait(seconds)
        if self._stop.is_set():
            raise _Stopped

    def record(self, planned: Planned, committed: bool) -> None:
        with self._lock:
            if committed:
                self.committed[planned.order.id] = planned.order
            else:
                self.rolled_back += 1


class _Stopped(Exception):
    """The demo ends early."""


class _Worker:
    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.connection: Any = None

    def work(self, planned: Planned) -> None:
        try:
            while not self._try(planned):
                self.traffic.pause(RETRY_SECONDS)
        except _Stopped:
            return
        self.traffic.record(planned, not planned.rollback)

    def _try(self, planned: Planned) -> bool:
        """One transaction; false: surely not committed, to be tried again."""
        try:
            self._connect()
            self.traffic.world.shop.place(self.connection, planned.order)
            if planned.hold:
                self.traffic.pause(planned.hold)
            if planned.rollback:
                self.connection.rollback()
                return True
        except psycopg2.Error as error:
            self._lost(error)
            return False
        try:
            self.connection.commit()
            return True
        except psycopg2.Error as error:
            self._lost(error)
            return self._look_up(planned.order)

    def _look_up(self, order: Order) -> bool:
        self.traffic.looked_up += 1
        while True:
            try:
                self._connect()
                found = self.traffic.world.shop.exists(self.connection, order)
                self.connection.rollback()
                return found
            except psycopg2.Error as error:
                self._lost(error)
                self.traffic.pause(RETRY_SECONDS)

    def _connect(self) -> None:
        if self.connection is None:
            self.connection = self.traffic.world.connect()

    def _lost(self, error: psycopg2.Error) -> None:
        """A server that stops, and a connection that broke or could not be made, are nothing; any
        other answer of the server is a fault."""
        if error.pgcode and not error.pgcode.startswith(SERVER_GONE):
            raise error
        self.disconnect()

    def disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
