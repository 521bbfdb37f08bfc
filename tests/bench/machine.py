"""Processor time, of our processes and of the whole machine, and memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Mapping

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> float:
    """Of a process, its threads and the children it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def _children(pid: int) -> Iterable[int]:
    return map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def processor_seconds(pid: int) -> float:
    """Of a process and its children, as a PostgreSQL has them."""
    return _stat(pid) + sum(_stat(child) for child in _children(pid))


def _memory(pid: int, name: str) -> int:
    """Bytes, shared pages too: what ps shows."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return 1024 * int(value.split()[0])
    raise LookupError(name)


def resident_bytes(pid: int) -> int:
    return _memory(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most that was ever resident."""
    return _memory(pid, "VmHWM")


def _busy() -> float:
    """Of all processors, for whomever."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _wait, interrupts, soft, steal = map(int, fields[:8])
    return (user + nice + system + interrupts + soft + steal) / TICKS


@dataclass(frozen=True)
class Usage:
    """What a stretch of time has cost."""

    seconds: float
    processor: Mapping[str, float]   # seconds of each of our processes
    others: float                    # share of the machine that strangers had, 0 to 1

    @property
    def total(self) -> float:
        return sum(self.processor.values())


class Meter:
    """Measures from its making to `read`. `processes`: a name and the process id of each. `began`:
    the wall clock at the beginning, where that was a moment before."""

    def __init__(self, processes: Mapping[str, int], began: float | None = None) -> None:
        self._processes = processes
        self._before = self._look()
        self._made = time.time()
        self._began = began or self._made

    def _look(self) -> tuple[float, float, dict[str, float]]:
        ours = {name: processor_seconds(pid) for name, pid in self._processes.items()}
        return _busy(), time.process_time(), ours

    def read(self, ended: float) -> Usage:
        """`ended`: the wall clock at the end of what is measured, a moment ago."""
        seconds = time.time() - self._made
        was_busy, was_own, was = self._before
        busy, own, ours = self._look()
        spent = {name: ours[name] - was[name] for name in ours}
        strangers = busy - was_busy - (own - was_own) - sum(spent.values())
        total = seconds * (os.cpu_count() or 1)
        return Usage(ended - self._began, spent, max(0.0, strangers / total))
