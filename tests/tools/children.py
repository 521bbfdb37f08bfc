"""Child processes that never outlive the tests."""

from __future__ import annotations

import subprocess
from typing import Any, Sequence


def spawn(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Starts a process that the kernel kills when the thread that started it ends, in a session of
    its own, so that a Ctrl-C reaches it through us only."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command],
                            start_new_session=True, **options)


def end(process: "subprocess.Popen[Any]", timeout: float = 10) -> int:
    """SIGTERM, and SIGKILL when that does not help in time; the exit status."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
