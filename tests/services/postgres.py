"""A throw-away PostgreSQL: a fresh cluster in a folder of its own, on a free port, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2

from tests.services.server import free_port, server

OWNER = "lakehouse"


def find_programs() -> Path | None:
    """The folder that holds `initdb` and `postgres`; Debian keeps them off the PATH."""
    if (found := shutil.which("initdb")) and shutil.which("postgres"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    complete = [p for p in versions if (p / "initdb").exists() and (p / "postgres").exists()]
    return max(complete, key=lambda p: int(p.parent.name) if p.parent.name.isdigit() else 0, default=None)


@contextmanager
def running_postgres(programs: Path) -> Iterator[int]:
    """The port of a server whose superuser `lakehouse` needs no password."""
    account = _account()
    # Not below pytest's folder: that is closed to other users.
    with tempfile.TemporaryDirectory(prefix="lakehouse-postgres-") as name:
        folder = Path(name)
        if account:
            os.chown(folder, *account)
        _init(programs, folder / "data", account)
        port = free_port()
        command = [
            str(programs / "postgres"),
            *("-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port)),
            *("-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=50"),
        ]
        with server(command, log=folder / "log", ready=lambda: _answers(port), account=account):
            yield port


def _account() -> tuple[int, int] | None:
    """Whom to run it as: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _init(programs: Path, data: Path, account: tuple[int, int] | None) -> None:
    subprocess.run(
        [
            str(programs / "initdb"),
            *("-D", str(data), "-U", OWNER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=data.parent,
        user=account[0] if account else None,
        group=account[1] if account else None,
        extra_groups=[] if account else None,
    )


def _answers(port: int) -> bool:
    try:
        psycopg2.connect(host="127.0.0.1", port=port, user=OWNER, dbname="postgres", connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True
