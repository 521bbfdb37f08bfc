"""What the server did for each statement of a role: by auto_explain, which puts it into the log."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Iterator

from .postgres import Postgres

LIBRARIES = "pg_stat_statements,auto_explain"    # shared_preload_libraries of such a server
SETTINGS = {"log_min_duration": "0", "log_analyze": "on", "log_timing": "off", "log_buffers": "on",
            "log_format": "json"}
ENTRY = re.compile(r" LOG:  duration: \S+ ms  plan:$")


@dataclass
class Plan:
    statement: str
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """All of the plan, with those of its subplans."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    def blocks(self) -> int:
        """Pages that it looked at."""
        return self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"]


def passed(node: dict[str, Any]) -> int:
    """Rows that went through a node, or were thrown away there."""
    rows = sum(value for name, value in node.items()
               if name == "Actual Rows" or name.startswith("Rows Removed"))
    return rows * node["Actual Loops"]


class Plans:
    """Of the statements of this role in this database, from its next connection on."""

    def __init__(self, postgres: Postgres, database: str, role: str) -> None:
        self.postgres = postgres
        self.database = database
        self._from = postgres.log.stat().st_size
        for name, value in SETTINGS.items():
            postgres.query(f'ALTER ROLE {role} IN DATABASE "{database}" '
                           f"SET auto_explain.{name} = '{value}'")

    def read(self) -> list[Plan]:
        """Those that are new."""
        with open(self.postgres.log, "rb") as log:
            log.seek(self._from)
            text = log.read()
        whole = text.rfind(b"\n}\n") + 3 if b"\n}\n" in text else 0
        whole = max(whole, text.rfind(b"\n\t}\n") + 4)
        self._from += whole
        found: list[Plan] = []
        lines: list[str] | None = None
        for line in text[:whole].decode().splitlines():
            if lines is not None and line.startswith("\t"):
                lines.append(line)
                continue
            found += self._plan(lines)
            mine = f" {self.database} " in line and ENTRY.search(line)
            lines = [] if mine else None
        return found + self._plan(lines)

    @staticmethod
    def _plan(lines: list[str] | None) -> list[Plan]:
        if not lines:
            return []
        entry = json.loads("\n".join(lines))
        return [Plan(entry["Query Text"], entry["Plan"])]
