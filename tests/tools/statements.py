"""The SQL of the programs, for tests that send it themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def statements(directory: Path, sources: dict[str, list[str]]) -> dict[str, str]:
    """Of these constants, by header: as the compiler sees them."""
    found = {}
    for header, names in sources.items():
        source = directory / "statements.c"
        source.write_text(f'#include <stdio.h>\n#include "{ROOT / header}"\nint main(void) {{\n' +
                          "".join(f'puts({name}); puts("\\f");\n' for name in names) + "}\n")
        subprocess.run(["cc", "-w", f"-I{ROOT}/include", f"-I{ROOT}/ledger", "-o", str(directory / "statements"),
                        str(source)], check=True)
        texts = subprocess.run([str(directory / "statements")], text=True, check=True,
                               stdout=subprocess.PIPE).stdout.split("\n\f\n")
        found.update(zip(names, texts))
    return found
