"""One server process that ends with its user, however that one ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

READY_SECONDS = 60.0
# Runs the server, and kills its process group when the pipe to us closes, also after a SIGKILL of ours.
_KEEPER = """
import os, signal, subprocess, sys
who = {"user": int(sys.argv[1]), "group": int(sys.argv[2]), "extra_groups": []} if sys.argv[1] else {}
server = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, start_new_session=True, **who)
sys.stdin.read()
for number in (signal.SIGINT, signal.SIGKILL):
    try:
        os.killpg(server.pid, number)
        server.wait(timeout=5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        continue
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def server(
    command: Sequence[str],
    *,
    log: Path,
    ready: Callable[[], bool],
    env: Mapping[str, str] | None = None,
    account: tuple[int, int] | None = None,
) -> Iterator[None]:
    """A running server that has answered `ready`. `account` is the user and group id to run it as."""
    who = [str(i) for i in account] if account else ["", ""]
    arguments: dict[str, Any] = {"env": dict(env)} if env is not None else {}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-c", _KEEPER, *who, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **arguments,
        ) as keeper,
    ):
        try:
            until(ready, f"{command[0]} does not answer:\n{log.read_text()[-2000:]}")
            yield
        finally:
            assert keeper.stdin
            keeper.stdin.close()


def until(condition: Callable[[], bool], failure: str, *, seconds: float = READY_SECONDS) -> None:
    """Wait for a condition; an assertion fails when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, failure
        time.sleep(0.02)
