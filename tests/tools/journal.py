"""An append-only record: one JSON object a line, each written by a single call, so that it holds
everything said before a kill -9 and can be read at any time by anyone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator


class Journal:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"kind": kind, **fields}, separators=(",", ":")) + "\n"
        os.write(self._descriptor, line.encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records in order; the last line may still be under way and is then left out."""
    if not path.exists():
        return
    with open(path, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)
