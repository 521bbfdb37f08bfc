"""make bench: ONLY=relay or ledger chooses, or a part of the ledger's: ONLY=ledger_rate, ledger_rival,
ledger_memory, ledger_growth. ROWS=500000 is the relay's backlog, and everything else
in proportion (or BENCH_SCALE=1), BENCH_ROUNDS=3 says how often. For a quick look: ROWS=10000
BENCH_ROUNDS=1. Prints a table and writes it to bench.tsv in the build directory.

Of the rounds the one with the median ratio is shown: on a machine with other work the ratio of what
was measured at the same time is what can be compared."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Callable, Iterator

from tests.tools.programs import build_directory

from . import ledger, relay, setting, table
from .setting import Bench, Size
from .table import Figure

BENCHES: dict[str, Callable[[Bench, Size], Iterator[list[Figure]]]] = {
    "relay": relay.measure,
    "ledger": ledger.measure,
}
PARTS = {part: partial(ledger.measure_part, part) for part in ledger.PARTS}


def run(names: list[str], size: Size) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        with setting.opened() as bench:
            for some in (BENCHES | PARTS)[name](bench, size):
                figures += some
    return figures


def main() -> int:
    only = os.environ.get("ONLY") or None
    if only and only not in BENCHES | PARTS:
        print(f"ONLY={only}: there are {', '.join(BENCHES | PARTS)}", file=sys.stderr)
        return 2
    size = Size.from_environment()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, scale {size.scale:g}, "
          f"the median of {size.rounds} rounds", flush=True)
    figures = run([only] if only else list(BENCHES), size)
    path = build_directory() / "bench.tsv"
    table.write(figures, path)
    print(f"\n{table.show(figures)}\n\nload {os.getloadavg()[0]:.1f}; written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
