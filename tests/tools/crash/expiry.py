"""Ways to the crash points of what a ledger ends and clears away in time."""

from __future__ import annotations

from .. import waiting
from .scene import ORDERS
from .sending import Perform


class Expire(Perform):
    """Keys that have waited for too long."""

    end = {"dead": ORDERS}
    charged = 0

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect SET not_after = now()")


class Clear(Perform):
    """Keys that were completed long ago, and an audit row as old: a round of expiry. It has two
    steps, of the keys and of its end."""

    charged = 0

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET state = 'completed', "
                         "state_since = now() - interval '5000 days', completed_at = now()")
        self.world.query("INSERT INTO counterfoil.audit (at, about, operation, claims, action, "
                         "result, detail, before) VALUES (now() - interval '5000 days', 'outbox', "
                         "gen_random_uuid(), '{}', 'discard', 'done', '', '{}')")
        self.world.query("UPDATE counterfoil.expiry SET cursor = 0, owner = 0, "
                         "until = clock_timestamp(), next_at = clock_timestamp()")

    def drain(self) -> None:
        self.world.query("UPDATE counterfoil.expiry SET until = clock_timestamp()")
        waiting.until(lambda: self.round == "ended", 30, "the round to end", 0.1)
        super().drain()

    def judge(self) -> None:
        super().judge()
        assert (self.kept, self.audited) == (0, 0)

    @property
    def kept(self) -> int:
        """Requests."""
        return self.world.value("SELECT count(*) FROM counterfoil.effect_request")

    @property
    def audited(self) -> int:
        return self.world.value("SELECT count(*) FROM counterfoil.audit")

    @property
    def round(self) -> str:
        owned, began, ended = self.world.query(
            "SELECT owner <> 0, cursor > 0, next_at > clock_timestamp() + interval '1 min' "
            "FROM counterfoil.expiry")[0]
        return "ended" if ended else "begun" if began else "owned" if owned else "not taken"
