"""Ways to the crash points of a ledger that finds what a dead one held."""

from __future__ import annotations

from .scene import ORDERS, hold_target, open_target
from .sending import Perform, PerformNatural, PerformOnce


class AfterDeath(Perform):
    """The keys are those of a ledger that died before. The target is held until the next one has
    died too: what it has taken over it could claim again before it hears that it has."""

    died_at: str

    def prepare(self) -> None:
        super().prepare()
        self.crash(self.died_at)
        hold_target(self.world)

    def resume(self) -> None:
        super().resume()
        open_target(self.world)


class TakeOver(AfterDeath):
    """It had claimed them."""

    died_at = "claim.answered"


class TakeOverOnce(AfterDeath, PerformOnce):
    """It had set its marker."""

    died_at = "marker.answered"


class TakeOverUnmarked(TakeOverOnce):
    """It had not yet."""

    died_at = "marker.send"


class TakeOverNatural(AfterDeath, PerformNatural):
    """The provider had answered."""

    died_at = "transfer.answering"


class TakeOverLate(TakeOver):
    """It died when the provider answered, and the provider's window is over."""

    died_at = "transfer.answering"
    end = {"uncertain": ORDERS}
    charged = None

    def prepare(self) -> None:
        super().prepare()
        self.world.query("UPDATE counterfoil.effect_state SET window_until = now()")

    def judge(self) -> None:
        super().judge()
        assert self.requests == self.asked, "sent when the provider had forgotten the key"
