"""Ways to the crash points of orders that a ledger carries out: a replay of many keys, to read
everything again, and a look at what was taken in."""

from __future__ import annotations

import json
import uuid

from .. import waiting
from .scene import ORDERS, POISON, TOPIC
from .sending import Perform


class Order(Perform):
    """The keys are dead, and a replay of them all is queued."""

    rate: float | None = None

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET state = 'dead'")
        identity = str(uuid.uuid4())
        self.world.query("SELECT counterfoil.bulk_draft(%s, 'replay', %s, 'a test', '{}')",
                         (identity, json.dumps({"select": {"states": ["dead"]}})))
        while not self.world.value("SELECT finished FROM counterfoil.bulk_fill(%s, 100)", (identity,)):
            pass
        assert self.world.value("SELECT result FROM counterfoil.bulk_queue(%s, %s, %s, false, NULL)",
                                (identity, ORDERS, self.rate)) == "done"

    def note(self) -> None:
        super().note()
        self.recorded = {key for (key,) in self.world.query(
            "SELECT e.idempotency_key FROM counterfoil.effect e JOIN counterfoil.effect_state s "
            "USING (id) WHERE s.state = 'completed'")}

    def resume(self) -> None:
        super().resume()
        self.world.query("UPDATE counterfoil.operation SET until = clock_timestamp() "
                         "WHERE state = 'running'")

    def drain(self) -> None:
        super().drain()
        waiting.until(lambda: self.order == "done", 30, "the order to end", 0.1)

    def judge(self) -> None:
        super().judge()
        assert self.world.query("SELECT done, failed, skipped FROM counterfoil.operation") == \
            [(ORDERS, 0, 0)]
        assert self.replayed == ORDERS
        assert self.world.value("SELECT count(*) FROM counterfoil.audit WHERE action = 'replay'") == \
            ORDERS, "a key was replayed twice"

    @property
    def order(self) -> str:
        return self.world.value("SELECT state FROM counterfoil.operation")

    @property
    def replayed(self) -> int:
        return self.world.value("SELECT sum(replays)::int FROM counterfoil.effect_state")

    @property
    def counted(self) -> int:
        """Keys that are known to be completed again."""
        return self.world.value("SELECT done FROM counterfoil.operation")


class OrderSlowly(Order):
    """It lasts as long as its lease has to be renewed."""

    rate = 1.2


class OrderThenStop(OrderSlowly):
    """The ledger is asked to stop in the middle."""

    def provoke(self) -> None:
        waiting.until(lambda: self.counted > 0, 30, "a key to be completed")
        self.victim.terminate()


class LookUp(Perform):
    """An order to look up again what was taken in."""

    def prepare(self) -> None:
        super().prepare()
        self.world.query("SELECT counterfoil.order_intake('redeliver', %s, gen_random_uuid(), 'to see', "
                         "'{}')", (json.dumps({"topic": TOPIC, "last": 100, "apply": False}),))

    def resume(self) -> None:
        super().resume()
        self.world.query("UPDATE counterfoil.operation SET until = clock_timestamp()")

    def drain(self) -> None:
        super().drain()
        waiting.until(lambda: self.order in ("done", "failed"), 30, "the order to end", 0.1)

    def judge(self) -> None:
        super().judge()
        assert self.order == "done" and self.read == ORDERS + POISON

    @property
    def order(self) -> str:
        return self.world.value("SELECT state FROM counterfoil.operation")

    @property
    def read(self) -> int:
        return self.world.value("SELECT done FROM counterfoil.operation")


class GoBack(Perform):
    """An order to read everything again."""

    def prepare(self) -> None:
        super().prepare()
        self.ends = self.positions
        self.world.query("SELECT counterfoil.order_intake('rewind', %s, gen_random_uuid(), 'to see', "
                         "'{}')", (f'{{"topic": "{TOPIC}", "to_offset": 0}}',))

    def drain(self) -> None:
        waiting.until(lambda: self.order == "done" and self.positions == self.ends, 30,
                      "everything to be read again", 0.1)
        super().drain()

    @property
    def order(self) -> str:
        return self.world.value("SELECT state FROM counterfoil.operation")

    @property
    def positions(self) -> list[int]:
        return [offset for (offset,) in self.world.query(
            "SELECT next_offset FROM counterfoil.intake_position ORDER BY partition")]

    @property
    def back(self) -> bool:
        return self.positions != self.ends
