"""Processes whose wall clock is wrong; what counts time since the boot is right."""

from __future__ import annotations

import struct
from pathlib import Path

from . import programs

# A sanitizer wants to be the first library, and need not be.
SANITIZED = ["ASAN_OPTIONS=detect_leaks=1:exitcode=99:verify_asan_link_order=0"]


class Clock:
    """The clock of the processes that are started by `command`; it can be set while they run."""

    def __init__(self, directory: Path, seconds: int = 0) -> None:
        self._path = directory / "wrong-clock"
        self._path.touch(0o644)
        self.set(seconds)
        library = programs.build_directory() / "tests/tools/wrong-clock.so"
        assert library.exists(), "make tools"
        # By env, which then becomes the program: it alone has the library.
        self.command = ["env", f"LD_PRELOAD={library}", f"WRONG_CLOCK={self._path}",
                        *SANITIZED]

    def set(self, seconds: int) -> None:
        """By so many it is wrong from now on."""
        with open(self._path, "r+b") as file:
            file.write(struct.pack("=q", seconds))
