"""A pooler between a program and its database: pgbouncer in transaction mode, on a socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from . import children, waiting
from .postgres import SUPERUSER, Postgres

PORT = 6432
# As it comes, but for where it listens and for how soon it asks a server again that was away.
DEFAULTS = {
    "pool_mode": "transaction",
    "listen_port": PORT,
    "auth_type": "trust",
    "admin_users": SUPERUSER,
    "server_login_retry": "0.2",
}


class Pgbouncer:
    """`settings` are of pgbouncer.ini; None leaves one out."""

    def __init__(self, postgres: Postgres, **settings: object) -> None:
        self.postgres = postgres
        self.home = Path(tempfile.mkdtemp(prefix="counterfoil-pool.", dir="/tmp"))
        self.log = self.home / "pgbouncer.log"
        self.config = self.home / "pgbouncer.ini"
        self.process: subprocess.Popen[bytes] | None = None
        users = self.home / "users"
        users.write_text(f'"{SUPERUSER}" ""\n')
        lines = [f"{name} = {value}" for name, value in
                 {**DEFAULTS, "unix_socket_dir": self.home, "auth_file": users, **settings}.items()]
        self.config.write_text("\n".join(
            ["[databases]", f"* = host={postgres.home} port=5432", "[pgbouncer]", *lines, ""]))
        if os.geteuid() == 0:       # it refuses root too
            for path in (self.home, users, self.config):
                shutil.chown(path, SUPERUSER)

    def start(self) -> "Pgbouncer":
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.postgres.as_server("--pdeathsig", "KILL") + ["pgbouncer", str(self.config)],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        waiting.until(self.answers, 10, f"pgbouncer to answer; see {self.log}")
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is not None:
            children.end(self.process)
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "Pgbouncer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def conninfo(self, dbname: str) -> str:
        return f"host={self.home} port={PORT} user={SUPERUSER} dbname={dbname}"

    def connect(self, dbname: str) -> Any:
        connection = psycopg2.connect(self.conninfo(dbname), connect_timeout=10)
        connection.autocommit = True
        return connection

    def show(self, what: str) -> list[dict[str, Any]]:
        """SHOW of the pooler itself: servers, clients, pools."""
        with closing(self.connect("pgbouncer")) as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW {what}")
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def answers(self) -> bool:
        try:
            return bool(self.show("VERSION"))
        except psycopg2.OperationalError:
            return False
