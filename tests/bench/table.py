"""The figures: a table for people, and the same tab-separated for programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Protocol, Sequence, TypeVar

HEAD = ("metric", "value", "unit", "limit or peer", "ratio")


@dataclass(frozen=True)
class Figure:
    """`limit`: what bounds it, or a peer, measured in the same run. `ratio`: how near it comes to
    that, or how many times as good it is; of a cost, which should be small, the inverse."""

    metric: str
    value: float
    unit: str
    limit: float | None = None
    cost: bool = False

    @property
    def ratio(self) -> float | None:
        if not self.limit or not self.value:
            return None
        return self.limit / self.value if self.cost else self.value / self.limit

    def cells(self) -> tuple[str, ...]:
        return (self.metric, _number(self.value), self.unit, _number(self.limit),
                "" if self.ratio is None else f"{self.ratio:.2f}")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


class Round(Protocol):
    @property
    def ratio(self) -> float:
        """Of what was reached to its limit."""


R = TypeVar("R", bound=Round)


def middle(rounds: Iterable[R], by: Callable[[R], float] = lambda r: r.ratio) -> R:
    """The round with the median ratio."""
    ordered = sorted(rounds, key=by)
    return ordered[(len(ordered) - 1) // 2]


def harmonic(*rates: float) -> float:
    """What can be reached when one thing waits for the other: 1/(1/a + 1/b)."""
    return 1 / sum(1 / rate for rate in rates)


def show(figures: Sequence[Figure]) -> str:
    rows = [HEAD, *(figure.cells() for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.rjust(width) if numeric else cell.ljust(width) for cell, width, numeric
                  in zip(row, widths, (False, True, False, True, True))).rstrip()
        for row in rows)


def write(figures: Sequence[Figure], path: Path) -> None:
    path.write_text("".join("\t".join(cells) + "\n"
                            for cells in (HEAD, *(figure.cells() for figure in figures))))
