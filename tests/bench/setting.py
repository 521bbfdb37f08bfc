"""What all benches need: a PostgreSQL of its own with our schema, the tools of this folder, and how
large everything is to be."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from tests.tools import children, libconfig, programs
from tests.tools.postgres import Postgres

from .machine import processor_seconds

DATABASE = "bench"

# As a server of this size would be set. Vacuum runs between the measurements, not in some of them.
SERVER = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
          "autovacuum": "off", "synchronize_seqscans": "off", "log_min_duration_statement": "10s"}
ROWS = 500_000   # of the relay's backlog at full size


@dataclass(frozen=True)
class Size:
    scale: float
    rounds: int

    @classmethod
    def from_environment(cls) -> "Size":
        rows = os.environ.get("ROWS")
        scale = int(rows) / ROWS if rows else float(os.environ.get("BENCH_SCALE", "1"))
        return cls(scale, int(os.environ.get("BENCH_ROUNDS", "3")))

    def of(self, count: int) -> int:
        return max(1000, round(count * self.scale))

    def seconds(self, count: float) -> float:
        """Never longer than at full size: what goes on for a time is not a matter of rows."""
        return max(2.0, count * min(1.0, self.scale))


@dataclass(frozen=True)
class Pace:
    """How many in a second, and the processor seconds that each took, of all who had a part."""

    rate: float
    processor: float


def run_tool(name: str, *arguments: object, with_: int) -> Pace:
    """Runs one of the C tools to its end. `with_`: the server that it keeps busy."""
    command = [str(programs.build_directory() / "tests/bench" / name), *map(str, arguments)]
    before = processor_seconds(with_)
    tool = children.spawn(command, stdout=subprocess.PIPE, text=True)
    count, seconds = tool.stdout.read().split()
    _, status, usage = os.wait4(tool.pid, 0)
    tool.returncode = os.waitstatus_to_exitcode(status)
    if tool.returncode:
        raise subprocess.CalledProcessError(tool.returncode, command)
    spent = usage.ru_utime + usage.ru_stime + processor_seconds(with_) - before
    return Pace(int(count) / float(seconds), spent / int(count))


@dataclass
class Bench:
    directory: Path
    postgres: Postgres

    def configuration(self, bootstrap: str, database: str = DATABASE) -> dict[str, Any]:
        return {"general": {"environment": "bench"},
                "postgres": {"conninfo": self.postgres.conninfo(database)},
                "kafka": {"properties": [("bootstrap.servers", bootstrap)]},
                "http": {"relay": "", "ledger": ""}}

    def write(self, name: str, configuration: dict[str, Any]) -> Path:
        path = self.directory / name
        path.write_text(libconfig.settings(configuration))
        return path

    def create_database(self) -> None:
        self.postgres.create_database(DATABASE)
        path = self.write("migrate.conf", self.configuration("localhost:9092"))
        done = programs.run("counterfoil", "--config", str(path), "migrate")
        if done.returncode:
            raise programs.Unexpected(f"counterfoil migrate: {done.stderr}")


@contextmanager
def opened() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="counterfoil-bench.") as directory, \
            Postgres(SERVER) as postgres:
        bench = Bench(Path(directory), postgres)
        bench.create_database()
        yield bench
