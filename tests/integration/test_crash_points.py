"""Each crash point (include/crash.h): a program kills itself there, and what it leaves and what
comes of it is what was promised. CASES is the table; the ways to a point, and what must hold on each
of them whatever the point is, stand in tests/tools/crash/.

The cases play side by side, for nearly all of their time is waiting, for leases and groups; each
has a database, a provider and a group of its own."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

pytest.register_assert_rewrite("tests.tools.crash")   # before it is imported

from tests.tools import programs, waiting
from tests.tools.broker import Broker
from tests.tools.crash.expiry import Clear, Expire
from tests.tools.crash.intake import Consume, ConsumeBesideAnother, ConsumeNewPartition
from tests.tools.crash.orders import GoBack, LookUp, Order, OrderSlowly, OrderThenStop
from tests.tools.crash.relay import (Publish, PublishAfterDeath, PublishBesideAnother, PublishCut,
                                     PublishThenStop, PublishUnfit)
from tests.tools.crash.scene import (ORDERS, PARTITIONS, POISON, PUBLISHED, TAKEN, TOPIC, Case,
                                     Scene)
from tests.tools.crash.sending import (Owe, Perform, PerformAside, PerformBesideAnother,
                                       PerformEmitting, PerformHeld, PerformInOrder, PerformNatural,
                                       PerformOnce, PerformOnceBesideAnother, PerformOnceRefused,
                                       PerformPaused, PerformProbed, PerformRefused, PerformResent,
                                       PerformRetried, PerformSlowly, PerformTakenBack,
                                       PerformThenStop, PerformTried, PerformUnreachable)
from tests.tools.crash.takeover import (TakeOver, TakeOverLate, TakeOverNatural, TakeOverOnce,
                                        TakeOverUnmarked)
from tests.tools.postgres import Postgres
from tests.tools.world import World

ROOT = Path(__file__).resolve().parents[2]
SIDE_BY_SIDE = 12
PROGRAMS = ("counterfoil-relay", "counterfoil-ledger")

SOME = range(1, ORDERS + 1)           # one at least
FEWER = range(ORDERS)                 # not all
OWNED = {"ownership": "left behind"}      # the next one waits for its end
UNTOUCHED = {"pending": ORDERS, "requests": 0}
CLAIMED = {"in_flight": ORDERS, "requests": 0}
CALLED = {"in_flight": ORDERS, "charges": SOME}
CALLED_ONCE = {"in_flight": ORDERS, "requests": SOME}
MARKED = {**CLAIMED, "marked": ORDERS}
ONCE = {"requests": ORDERS}           # each key
SAFE = {**ONCE, "completed": ORDERS, "taken_over": ORDERS}        # nothing had been sent
UNKNOWN = {"uncertain": ORDERS, "taken_over": ORDERS}
AGAIN = {"completed": ORDERS, "taken_over": ORDERS}
ANNOUNCED = {"warned": True}          # duplicates, by the next owner

CASES = [
    # --- the relay: lease, row, delete -----------------------------------------------------------
    Case(Publish, "lease_acquire.send", {"ownership": "not taken", "outbox": ORDERS, "published": 0},
         {"warned": False}),
    Case(Publish, "lease_acquire.sent", {**OWNED, "outbox": ORDERS, "published": 0}, ANNOUNCED),
    Case(Publish, "lease_acquire.answered", {**OWNED, "outbox": ORDERS, "published": 0}, ANNOUNCED),
    Case(Publish, "row.produce:3", {**OWNED, "outbox": ORDERS, "published": range(3)}, ANNOUNCED),
    Case(Publish, "row.produced:3", {**OWNED, "outbox": ORDERS, "published": range(4)}, ANNOUNCED),
    Case(Publish, "row.delivered", {**OWNED, "outbox": ORDERS, "published": SOME}, ANNOUNCED),
    Case(Publish, "delete.send", {**OWNED, "outbox": ORDERS, "published": SOME}, ANNOUNCED),
    # the server does not come to it when it cannot tell the dead one what a poll has found
    Case(Publish, "delete.sent", {**OWNED, "published": SOME}, ANNOUNCED),
    Case(Publish, "delete.answered", {**OWNED, "outbox": FEWER, "published": SOME}, ANNOUNCED),
    Case(Publish, "lease_renew.send", OWNED, ANNOUNCED),
    Case(Publish, "lease_renew.sent", OWNED, ANNOUNCED),
    Case(Publish, "lease_renew.answered", OWNED, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_write.send", {"recorded": 0, "published": 0}, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_write.sent", {"outbox": ORDERS, "published": 0}, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_write.answered", {"recorded": 1, "published": 0}, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_erase.send", {"recorded": 1, "published": ORDERS}, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_erase.sent", {"outbox": 0, "published": ORDERS}, ANNOUNCED),
    Case(PublishAfterDeath, "suspect_erase.answered", {"recorded": 0, "outbox": 0}, ANNOUNCED),
    Case(PublishUnfit, "bury.send", {**OWNED, "dead": 0, "unfit": 1}, ANNOUNCED),
    Case(PublishUnfit, "bury.sent", OWNED, ANNOUNCED),
    Case(PublishUnfit, "bury.answered", {**OWNED, "dead": 1, "unfit": 0}, ANNOUNCED),
    Case(PublishCut, "producer.drop", OWNED, ANNOUNCED),
    # it gives the lease back as soon as it reaches the server again, while a producer is made
    Case(PublishCut, "producer.remade", {"ownership": {"left behind", "given back"}},
         {"warned": {True, False}}),
    Case(PublishThenStop, "lease_release.send", {**OWNED, "published": ORDERS}, ANNOUNCED),
    Case(PublishThenStop, "lease_release.sent", {"ownership": "given back"}, {"warned": False}),
    Case(PublishThenStop, "lease_release.answered", {"ownership": "given back"}, {"warned": False}),
    Case(PublishBesideAnother, "row.delivered", {"published": SOME}, ANNOUNCED),
    Case(PublishBesideAnother, "delete.sent", {"published": SOME}, ANNOUNCED),
    Case(PublishBesideAnother, "lease_renew.sent:5", {}, ANNOUNCED),

    # --- the ledger: positions, intake, offsets ---------------------------------------------------
    Case(Consume, "positions_add.send", {"positions": 0, "effects": 0}),
    Case(Consume, "positions_add.sent", {"positions": 0, "effects": 0}),
    Case(Consume, "positions_add.answered", {"positions": 0, "effects": 0}),
    Case(ConsumeNewPartition, "positions_add.send", {"positions": PARTITIONS - 1}),
    Case(ConsumeNewPartition, "positions_add.sent", {"positions": PARTITIONS}),
    Case(ConsumeNewPartition, "positions_add.answered", {"positions": PARTITIONS}),
    Case(Consume, "positions_begin.send", {"positions": 0, "taken": 0}),
    # nor to the end of a transaction whose beginning it cannot answer
    Case(Consume, "positions_begin.sent", {"positions": {0, PARTITIONS}, "taken": 0}),
    Case(Consume, "positions_begin.answered", {"positions": PARTITIONS, "taken": 0}),
    Case(Consume, "intake_begin.send", {"taken": 0, "effects": 0}),
    Case(Consume, "intake_commit.send", {"taken": 0, "effects": 0}),
    Case(Consume, "intake_commit.sent", {"taken": range(1, ORDERS + POISON + 1), "shown": 0}),
    Case(Consume, "intake_commit.answered", {"taken": range(1, ORDERS + POISON + 1), "shown": 0}),
    Case(Consume, "offset_commit.send", {"taken": range(1, ORDERS + POISON + 1), "shown": 0}),
    Case(Consume, "offset_commit.sent", {"taken": range(1, ORDERS + POISON + 1)}),
    Case(Consume, "offset_commit.answered", {"shown": range(1, ORDERS + POISON + 1)}),
    Case(ConsumeBesideAnother, "intake_commit.send"),
    Case(ConsumeBesideAnother, "intake_commit.sent"),

    # --- the ledger: lease, claim, transfer, result -----------------------------------------------
    Case(Perform, "instance_new.send", {"ownership": "not taken", **UNTOUCHED}, ONCE),
    Case(Perform, "instance_new.sent", {**OWNED, **UNTOUCHED}, ONCE),
    Case(Perform, "instance_new.answered", {**OWNED, **UNTOUCHED}, ONCE),
    Case(PerformSlowly, "instance_renew.send:2", {**OWNED, "in_flight": ORDERS}),
    Case(PerformSlowly, "instance_renew.sent:2", {**OWNED, "in_flight": ORDERS}),
    Case(PerformSlowly, "instance_renew.answered:2", {**OWNED, "in_flight": ORDERS}),
    Case(PerformThenStop, "instance_release.send", OWNED, ONCE),
    Case(PerformThenStop, "instance_release.sent", {"ownership": "given back"}, ONCE),
    Case(PerformThenStop, "instance_release.answered", {"ownership": "given back"}, ONCE),
    Case(Perform, "claim.send", UNTOUCHED, {**ONCE, "taken_over": 0}),
    Case(Perform, "claim.sent", CLAIMED, {**ONCE, "taken_over": ORDERS}),
    Case(Perform, "claim.answered", CLAIMED, {**ONCE, "taken_over": ORDERS}),
    Case(Perform, "transfer.send", CLAIMED, ONCE),
    Case(Perform, "transfer.send:3", {"in_flight": ORDERS, "requests": range(3)}),
    Case(Perform, "transfer.answering", CALLED, {"taken_over": ORDERS}),
    Case(Perform, "transfer.answered", CALLED, {"taken_over": ORDERS}),
    Case(Perform, "result.queued", CALLED, {"taken_over": ORDERS}),
    Case(Perform, "result.send", CALLED, {"taken_over": ORDERS}),
    Case(Perform, "result.sent", {"completed": SOME}, {"taken_over": FEWER}),
    Case(Perform, "result.answered", {"completed": SOME}, {"taken_over": FEWER}),
    Case(PerformRefused, "result.send", {"in_flight": ORDERS, "outbox": 0}),
    Case(PerformRefused, "result.sent", {"dead": SOME, "outbox": SOME}),
    Case(PerformRefused, "result.answered", {"dead": SOME, "outbox": SOME}),
    Case(PerformEmitting, "result.send", {"in_flight": ORDERS, "outbox": 0}, {"taken_over": ORDERS}),
    Case(PerformEmitting, "result.sent", {"completed": SOME, "outbox": SOME}),
    Case(PerformEmitting, "result.answered", {"completed": SOME, "outbox": SOME}),
    Case(Owe, "emit.send", {"owed": ORDERS, "outbox": 0, "requests": 0}, {"requests": 0}),
    Case(Owe, "emit.sent", {"owed": 0, "outbox": ORDERS, "requests": 0}, {"requests": 0}),
    Case(Owe, "emit.answered", {"owed": 0, "outbox": ORDERS, "requests": 0}, {"requests": 0}),
    Case(PerformRetried, "result.send", {"in_flight": ORDERS}),
    Case(PerformRetried, "result.sent", {"retry_wait": SOME}),
    Case(PerformRetried, "result.answered", {"retry_wait": SOME}),
    Case(PerformBesideAnother, "claim.answered"),
    Case(PerformBesideAnother, "transfer.answering"),
    Case(PerformBesideAnother, "result.sent"),

    # --- the same in the other modes, and the marker ----------------------------------------------
    Case(PerformOnce, "claim.send", {**UNTOUCHED, "marked": 0}, {**ONCE, "completed": ORDERS}),
    Case(PerformOnce, "claim.sent", {**CLAIMED, "marked": 0}, SAFE),
    Case(PerformOnce, "claim.answered", {**CLAIMED, "marked": 0}, SAFE),
    Case(PerformOnce, "marker.send", {**CLAIMED, "marked": 0}, SAFE),
    Case(PerformOnce, "marker.sent", MARKED, {**UNKNOWN, "requests": 0}),
    Case(PerformOnce, "marker.answered", MARKED, {**UNKNOWN, "requests": 0}),
    Case(PerformOnce, "transfer.send", MARKED, {**UNKNOWN, "requests": 0}),
    Case(PerformOnce, "transfer.send:3", {"in_flight": ORDERS, "requests": range(3)},
         {**UNKNOWN, "requests": range(3)}),
    Case(PerformOnce, "transfer.answering", CALLED, UNKNOWN),
    Case(PerformOnce, "transfer.answered", CALLED, UNKNOWN),
    Case(PerformOnce, "result.queued", CALLED, UNKNOWN),
    Case(PerformOnce, "result.send", CALLED, UNKNOWN),
    Case(PerformOnce, "result.sent", {"completed": SOME}, {"completed": SOME}),
    Case(PerformOnce, "result.answered", {"completed": SOME}, {"completed": SOME}),
    Case(PerformOnceBesideAnother, "claim.answered", {}, {"completed": ORDERS}),
    Case(PerformOnceBesideAnother, "marker.sent", {}, {"uncertain": SOME}),
    Case(PerformOnceBesideAnother, "transfer.answering", {}, {"uncertain": SOME}),
    Case(PerformResent, "marker.send", {**CLAIMED, "marked": 0}, SAFE),
    Case(PerformResent, "marker.sent", MARKED, {**AGAIN, **ONCE}),
    Case(PerformResent, "marker.answered", MARKED, {**AGAIN, **ONCE}),
    Case(PerformResent, "transfer.answering", CALLED, AGAIN),
    Case(PerformResent, "result.sent", {"completed": SOME}, {"completed": ORDERS}),
    Case(PerformResent, "claim.answered", {**CLAIMED, "marked": 0}, SAFE),
    Case(PerformResent, "transfer.answered", CALLED, AGAIN),
    Case(PerformResent, "result.answered", {"completed": SOME}, {"completed": ORDERS}),
    Case(PerformNatural, "claim.send", {**UNTOUCHED, "marked": 0}, {**ONCE, "completed": ORDERS}),
    Case(PerformNatural, "claim.sent", MARKED, {**AGAIN, **ONCE}),
    Case(PerformNatural, "claim.answered", MARKED, {**AGAIN, **ONCE}),
    Case(PerformNatural, "transfer.send", MARKED, {**AGAIN, **ONCE}),
    Case(PerformNatural, "transfer.send:3", {"in_flight": ORDERS, "requests": range(3)}, AGAIN),
    Case(PerformNatural, "transfer.answering", CALLED, AGAIN),
    Case(PerformNatural, "transfer.answered", CALLED, AGAIN),
    Case(PerformNatural, "result.queued", CALLED, AGAIN),
    Case(PerformNatural, "result.send", CALLED, AGAIN),
    Case(PerformNatural, "result.sent", {"completed": SOME}, {"completed": ORDERS}),
    Case(PerformNatural, "result.answered", {"completed": SOME}, {"completed": ORDERS}),
    Case(PerformOnceRefused, "result.send", {**CALLED_ONCE, "outbox": 0}, {"outbox": 0}),
    Case(PerformOnceRefused, "result.sent", {"dead": SOME, "outbox": SOME}),
    Case(PerformOnceRefused, "result.answered", {"dead": SOME, "outbox": SOME}),
    Case(PerformInOrder, "claim.answered:2", {"in_flight": 1, "completed": 1, "waiting": ORDERS - 2}),
    Case(PerformInOrder, "transfer.answering", {"in_flight": 1, "waiting": ORDERS - 1}),
    Case(PerformInOrder, "result.send:2", {"in_flight": 1, "completed": 1, "waiting": ORDERS - 2}),
    Case(PerformInOrder, "result.sent", {"completed": 1, "waiting": ORDERS - 2}),
    Case(PerformInOrder, "result.answered", {"completed": 1, "waiting": ORDERS - 2}),

    # --- the ledger: take-over, expiry ------------------------------------------------------------
    Case(TakeOver, "sweep.send", {"in_flight": ORDERS}, {**ONCE, "taken_over": ORDERS}),
    Case(TakeOver, "sweep.sent", {"retry_wait": ORDERS}, {**ONCE, "taken_over": ORDERS}),
    Case(TakeOver, "sweep.answered", {"retry_wait": ORDERS}, {**ONCE, "taken_over": ORDERS}),
    Case(TakeOverOnce, "sweep.send", MARKED, {**UNKNOWN, "requests": 0}),
    Case(TakeOverOnce, "sweep.sent", {"uncertain": ORDERS}, {**UNKNOWN, "requests": 0}),
    Case(TakeOverOnce, "sweep.answered", {"uncertain": ORDERS}, {**UNKNOWN, "requests": 0}),
    Case(TakeOverUnmarked, "sweep.send", {**CLAIMED, "marked": 0}, SAFE),
    Case(TakeOverUnmarked, "sweep.sent", {"retry_wait": ORDERS, "marked": 0}, SAFE),
    Case(TakeOverUnmarked, "sweep.answered", {"retry_wait": ORDERS, "marked": 0}, SAFE),
    Case(TakeOverNatural, "sweep.send", CALLED, AGAIN),
    Case(TakeOverNatural, "sweep.sent", {"retry_wait": ORDERS, "charges": SOME}, AGAIN),
    Case(TakeOverNatural, "sweep.answered", {"retry_wait": ORDERS, "charges": SOME}, AGAIN),
    Case(TakeOverLate, "sweep.send", {"in_flight": ORDERS}, {"taken_over": ORDERS}),
    Case(TakeOverLate, "sweep.sent", {"uncertain": ORDERS}, {"taken_over": ORDERS}),
    Case(TakeOverLate, "sweep.answered", {"uncertain": ORDERS}, {"taken_over": ORDERS}),
    Case(Expire, "sweep.send", {**UNTOUCHED, "outbox": 0}, {"requests": 0}),
    Case(Expire, "sweep.sent", {"dead": ORDERS, "outbox": ORDERS}, {"requests": 0}),
    Case(Expire, "sweep.answered", {"dead": ORDERS, "outbox": ORDERS}, {"requests": 0}),

    # --- the ledger: positions that go back -------------------------------------------------------
    Case(GoBack, "rewind.send", {"order": "running", "back": False}),
    Case(GoBack, "rewind.sent", {"order": "running", "back": {False, True}}),
    Case(GoBack, "rewind.answered", {"order": "running", "back": True}),

    # --- the ledger: expiry of what is finished ---------------------------------------------------
    Case(Clear, "expiry_take.send", {"round": "not taken", "kept": ORDERS}),
    Case(Clear, "expiry_take.sent", {"round": {"not taken", "owned"}, "kept": ORDERS}),
    Case(Clear, "expiry_take.answered", {"round": "owned", "kept": ORDERS}),
    Case(Clear, "expiry_step.send", {"round": "owned", "kept": ORDERS}),
    Case(Clear, "expiry_step.sent", {"round": {"owned", "begun"}, "kept": {0, ORDERS}, "audited": 1}),
    Case(Clear, "expiry_step.answered", {"round": "begun", "kept": 0, "audited": 1}),
    Case(Clear, "expiry_clear.send", {"round": "begun", "kept": 0, "audited": 1}),
    Case(Clear, "expiry_clear.sent", {"round": "begun", "audited": {0, 1}}),
    Case(Clear, "expiry_clear.answered", {"round": "begun", "audited": 0}),
    Case(Clear, "expiry_step.send:2", {"round": "begun", "audited": 0}),
    Case(Clear, "expiry_step.sent:2", {"round": {"begun", "ended"}, "audited": 0}),

    # --- the ledger: orders about many keys -------------------------------------------------------
    Case(Order, "orders_take.send", {"order": "queued", "replayed": 0}, ONCE),
    Case(Order, "orders_take.sent", {"order": {"queued", "running"}, "replayed": 0}, ONCE),
    Case(Order, "orders_take.answered", {"order": "running", "replayed": 0}, ONCE),
    Case(Order, "bulk_page.send", {"order": "running", "replayed": 0}, ONCE),
    Case(Order, "bulk_page.sent", {"order": "running", "replayed": {0, ORDERS}}),
    Case(Order, "bulk_page.answered", {"order": "running", "replayed": ORDERS}),
    Case(Order, "bulk_watch.send", {"order": "running", "replayed": 0}, ONCE),
    Case(Order, "bulk_watch.sent:2", {"order": "running", "replayed": ORDERS}),
    Case(Order, "bulk_watch.answered:2", {"order": "running", "replayed": ORDERS}),
    Case(LookUp, "orders_progress.send", {"order": "running", "read": 0}),
    Case(LookUp, "orders_progress.sent", {"order": "running", "read": range(ORDERS + POISON + 1)}),
    # the end is sent right behind it
    Case(LookUp, "orders_progress.answered", {"order": {"running", "done"},
                                              "read": range(1, ORDERS + POISON + 1)}),
    Case(Order, "orders_end.send", {"order": "running", "counted": ORDERS}, ONCE),
    Case(Order, "orders_end.sent", {"order": {"running", "done"}, "counted": ORDERS}, ONCE),
    Case(Order, "orders_end.answered", {"order": "done", "counted": ORDERS}, ONCE),
    Case(OrderSlowly, "bulk_page.sent:3", {"order": "running", "replayed": {2, 3}}),
    Case(OrderSlowly, "orders_renew.send", {"order": "running", "replayed": SOME}),
    Case(OrderSlowly, "orders_renew.sent", {"order": "running", "replayed": SOME}),
    Case(OrderSlowly, "orders_renew.answered", {"order": "running", "replayed": SOME}),
    Case(OrderThenStop, "orders_release.send", {"order": "running", "counted": SOME}),
    Case(OrderThenStop, "orders_release.sent", {"order": {"queued", "running"}, "counted": SOME}),
    Case(OrderThenStop, "orders_release.answered", {"order": "queued", "counted": SOME}),

    # --- the ledger: targets ----------------------------------------------------------------------
    Case(PerformAside, "put_aside.send", {"aside": ORDERS, **UNTOUCHED}, ONCE),
    Case(PerformAside, "put_aside.sent", {"aside": ORDERS, **UNTOUCHED}, ONCE),
    Case(PerformAside, "put_aside.answered", {"aside": ORDERS, **UNTOUCHED}, ONCE),
    Case(PerformTakenBack, "take_back.send", {"aside": ORDERS, **UNTOUCHED}, ONCE),
    Case(PerformTakenBack, "take_back.sent", {"aside": 0, **UNTOUCHED}, ONCE),
    Case(PerformTakenBack, "take_back.answered", {"aside": 0}),
    Case(PerformHeld, "target_decide.send", {"held": False, "in_flight": ORDERS}),
    Case(PerformHeld, "target_decide.sent", {"held": True, "in_flight": ORDERS}),
    Case(PerformHeld, "target_decide.answered", {"held": True}),
    Case(PerformProbed, "target_probe.send", {"probe": "due", **UNTOUCHED}, ONCE),
    Case(PerformProbed, "target_probe.sent", {"probe": "taken", **UNTOUCHED}, ONCE),
    Case(PerformProbed, "target_probe.answered", {"probe": "taken", **UNTOUCHED}, ONCE),
    Case(PerformProbed, "target_decide.send", {"held": True, "charges": 1}),
    Case(PerformProbed, "target_decide.sent", {"held": False, "charges": 1}),
    Case(PerformProbed, "target_decide.answered", {"held": False}),
    Case(PerformPaused, "target_pause.send", {"paused": False, "in_flight": ORDERS}),
    Case(PerformPaused, "target_pause.sent", {"paused": True, "in_flight": ORDERS}),
    Case(PerformPaused, "target_pause.answered", {"paused": True}),
    Case(PerformUnreachable, "breaker_move.send", {"breaker": "closed", "requests": 0}),
    Case(PerformUnreachable, "breaker_move.sent", {"breaker": {"open", "half open"}, "requests": 0}),
    Case(PerformUnreachable, "breaker_move.answered", {"breaker": {"open", "half open"}}),
    Case(PerformTried, "breaker_trial.send", {"breaker": "half open", **UNTOUCHED}, ONCE),
    Case(PerformTried, "breaker_trial.sent", {"breaker": "open", **UNTOUCHED}, ONCE),
    Case(PerformTried, "breaker_trial.answered", {"breaker": "open", **UNTOUCHED}, ONCE),
    Case(PerformTried, "breaker_move.send", {"breaker": "open", "charges": 1}),
    Case(PerformTried, "breaker_move.sent", {"breaker": "closed", "charges": 1}),
    Case(PerformTried, "breaker_move.answered", {"breaker": "closed"}),
]


# --- the stage ------------------------------------------------------------------------------------

class Stage:
    """What the cases have in common, and where they play."""

    def __init__(self, directory: Path, postgres: Postgres, broker: Broker) -> None:
        self.directory = directory
        self.postgres = postgres
        self.broker = broker
        self.worlds: dict[Case, World] = {}
        self._numbers = itertools.count(1)

    def world(self, name: str, database: str, scene: type[Scene] = Scene) -> World:
        (self.directory / name).mkdir()
        lease = f"{1000 * scene.lease:g}ms"
        settings = {"relay": {"lease": lease}, "log": {"level": "debug"},
                    "ledger": {"lease": lease, "group": f"{TOPIC}-{name}"},
                    "kafka": {"properties": [("bootstrap.servers", self.broker.bootstrap),
                                             *scene.kafka]}}
        return World(self.directory / name, self.postgres, database, self.broker,
                     scene.topic or name, target=scene.target, provider=scene.provider,
                     settings=settings)

    def prepare(self, template: str) -> None:
        """Makes the databases that ledgers begin with."""
        self.broker.create_topic(TOPIC, PARTITIONS)
        with self._made(PUBLISHED, template) as world:
            world.place(world.orders(ORDERS))
            world.relay().start()
            waiting.until(lambda: world.outbox() == 0, 20, "the orders to be published")
            self.broker.produce(TOPIC, b"no JSON", headers=[("ce_type", b"order.placed")])
            self.broker.flush()
        with self._made(TAKEN, PUBLISHED) as world:
            world.query("INSERT INTO counterfoil.target_state (target, held, held_by) "
                        "VALUES ('payments', true, 'a person')")
            world.ledger().start()
            waiting.until(lambda: world.unread() == 0, 20, "the orders to be taken in")
            assert world.states() == {"pending": ORDERS}

    @contextmanager
    def _made(self, database: str, template: str) -> Iterator[World]:
        self.postgres.create_database(database, template)
        world = self.world(database, database)
        try:
            yield world
            for program in world.programs:
                program.stop()
        finally:
            world.close()

    def play(self, case: Case) -> None:
        scene = case.scene
        name = f"crash_{next(self._numbers)}"
        if not scene.topic:
            self.broker.create_topic(name, PARTITIONS)
        self.postgres.create_database(name, scene.database)
        world = self.worlds[case] = self.world(name, name, scene)
        try:
            scene(case, world).play()
        finally:
            world.close()
            self.postgres.drop_database(name)
        assert not world.complaints(), "\n".join(["in the logs:", *world.complaints()])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
          shared_broker: Broker) -> Stage:
    made = Stage(tmp_path_factory.mktemp("crash"), postgres, shared_broker)
    made.prepare(template)
    return made


@pytest.fixture(scope="module")
def played(stage: Stage, request: pytest.FixtureRequest) -> Iterator[dict[Case, "Future[None]"]]:
    """The cases that were chosen, all begun."""
    chosen = [item.callspec.params["case"] for item in request.session.items
              if getattr(item, "originalname", "") == test_a_crash_ends_as_promised.__name__]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {case: pool.submit(stage.play, case) for case in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_crash_ends_as_promised(stage: Stage, played: dict[Case, "Future[None]"], case: Case,
                                  request: pytest.FixtureRequest):
    """L51, R56: it dies there, leaves what it should, and all ends well."""
    try:
        played[case].result()
    finally:
        request.node.worlds = [stage.worlds[case]] if case in stage.worlds else []


# --- the points -----------------------------------------------------------------------------------

def points(part: str) -> list[str]:
    """Those in the sources of that program."""
    return [name for source in sorted((ROOT / part).rglob("*.c"))
            for name in re.findall(r'crash_point\("([^"]*)"\)', source.read_text())]


def named(part: str) -> set[str]:
    """Those of the table."""
    return {case.name for case in CASES if case.scene.program == part}


@pytest.mark.parametrize("part", ["relay", "ledger"])
def test_the_table_has_every_point(part: str):
    """And every point is at one place. Those of mail have their cases in test_mail.py."""
    found = [name for name in points(part) if not name.startswith("mail.")]
    assert sorted(found) == sorted(named(part))


def test_only_the_test_build_has_them():
    """Neither a name nor the function is in what is installed; all of them are in the other."""
    build = programs.build_directory()
    for program, part in zip(PROGRAMS, ("relay", "ledger")):
        usual, test = (path.read_bytes() for path in (build / program, build / "crash" / program))
        for word in {"COUNTERFOIL_CRASH", "crash_passed", *points(part)}:
            assert word.encode() not in usual, f"{program} has {word}"
            assert word.encode() in test, f"the test build of {program} lacks {word}"
