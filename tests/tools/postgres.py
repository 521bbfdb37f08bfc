"""A private PostgreSQL: its own cluster in a temporary directory, reachable by its socket only.

`python3 -m tests.tools.postgres` starts one by hand, prints its conninfo and ends with its stdin.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Sequence

import psycopg2

from . import waiting

SUPERUSER = "postgres"
DEFAULTS = {
    "listen_addresses": "",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "shared_buffers": "64MB",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
    "log_min_duration_statement": "2s",
}
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def binaries() -> Path:
    """The newest PostgreSQL server on this machine; Debian keeps them out of PATH."""
    versions = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda p: float(p.parent.name))
    found = shutil.which("initdb")
    if not found:
        raise FileNotFoundError("no PostgreSQL server found (package postgresql)")
    return Path(found).resolve().parent


class Postgres:
    """One cluster. The server runs as `postgres` when we are root, for it refuses root, and ends
    when the thread that started it ends."""

    def __init__(self, settings: dict[str, str] | None = None,
                 standby_of: Postgres | None = None) -> None:
        self.bin = binaries()
        self.settings = {**DEFAULTS, **(settings or {})}
        self.command: list[str] = []    # that becomes the server
        # /tmp and not the caller's directory: the path of a socket is short, and the server's user
        # must be able to reach it.
        self.home = Path(tempfile.mkdtemp(prefix="counterfoil-pg.", dir="/tmp"))
        self.data = self.home / "data"
        self.log = self.home / "postgresql.log"
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            user = pwd.getpwnam(SUPERUSER)
            os.chown(self.home, user.pw_uid, user.pw_gid)
        if standby_of:
            self._make("pg_basebackup", "-D", str(self.data), "-d", standby_of.conninfo(), "-R",
                       "-c", "fast", "--no-sync")
        else:
            self._make("initdb", "-D", str(self.data), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8",
                       "--locale=C.UTF-8", "--no-sync")

    def as_server(self, *extra: str) -> list[str]:
        """The beginning of a command that runs as the server's user."""
        command = ["setpriv", *extra]
        if os.geteuid() == 0:
            command += [f"--reuid={SUPERUSER}", f"--regid={SUPERUSER}", "--init-groups"]
        return [*command, "--"]

    def _make(self, program: str, *arguments: str) -> None:
        """The files of the cluster."""
        done = subprocess.run(
            self.as_server("--no-new-privs") + [str(self.bin / program), *arguments], cwd="/",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout.decode(errors='replace')}")

    # --- life -------------------------------------------------------------------------------------

    def start(self, timeout: float = 60) -> "Postgres":
        """Starts the server and waits until it takes connections."""
        waiting.until(lambda: self._try_start(timeout), timeout, "PostgreSQL to start")
        return self

    def _try_start(self, timeout: float) -> bool:
        """One start. False: the server ended at once, as it does while the processes of a killed
        one still hold its shared memory."""
        settings = {**self.settings, "unix_socket_directories": str(self.home)}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.as_server("--pdeathsig", "INT"), *self.command, str(self.bin / "postgres"),
                 "-D", str(self.data), *options],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        waiting.until(lambda: self.process.poll() is not None or self.answers(), timeout,
                      f"PostgreSQL to answer; see {self.log}")
        return self.process.poll() is None

    def stop(self, mode: str = "fast", timeout: float = 60) -> None:
        """smart waits for the clients, fast disconnects them, immediate is a crash with recovery."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(STOP_SIGNALS[mode])
        self.process.wait(timeout)
        self.process = None

    def kill(self) -> None:
        """kill -9 of the server; its children end by themselves."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self, mode: str = "fast", timeout: float = 60) -> None:
        self.stop(mode, timeout)
        self.start(timeout)

    def close(self) -> None:
        """Stops the server and removes everything."""
        self.stop("immediate")
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "Postgres":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- use --------------------------------------------------------------------------------------

    def conninfo(self, dbname: str = "postgres", user: str = SUPERUSER) -> str:
        """For libpq, and so for psycopg2 and the programs."""
        return f"host={self.home} port=5432 user={user} dbname={dbname}"

    def connect(self, dbname: str = "postgres", autocommit: bool = True) -> Any:
        connection = psycopg2.connect(self.conninfo(dbname), connect_timeout=10)
        connection.autocommit = autocommit
        return connection

    def answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    def query(self, sql: str, parameters: Sequence[Any] | None = None,
              dbname: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs one statement in its own connection and transaction; its rows, if it has any."""
        connection = self.connect(dbname)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def value(self, sql: str, parameters: Sequence[Any] | None = None,
              dbname: str = "postgres") -> Any:
        """The only column of the only row."""
        ((only,),) = self.query(sql, parameters, dbname)
        return only

    def create_database(self, name: str, template: str | None = None) -> None:
        copied = f' TEMPLATE "{template}"' if template else ""
        self.query(f'CREATE DATABASE "{name}"{copied}')

    def drop_database(self, name: str) -> None:
        self.query(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def psql(self, sql: str, dbname: str = "postgres") -> None:
        """A script of several statements, as psql runs it."""
        subprocess.run([str(self.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                        self.conninfo(dbname)], input=sql.encode(), check=True)


def main() -> None:
    with Postgres() as server:
        print(server.conninfo(), flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
