"""Starts, recognises and ends one server process. Never signals a pid whose start time is not the recorded one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROC = Path("/proc")
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0


def spawn(command: Sequence[str], env: Mapping[str, str], *, log: Path) -> int:
    """Start a program in a session of its own, its output in `log`; returns the pid.

    The terminal's Ctrl-C does not reach it, and signals that our own caller ignores are reset: a server started from
    a shell's background job would ignore SIGTERM otherwise.
    """
    return os.posix_spawn(
        command[0],
        list(command),
        dict(env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


def start_time(pid: int) -> str | None:
    """When a process started, as an opaque text that no later process of the same pid has; None if it is gone."""
    _reap(pid)
    if (_PROC / "self").exists():
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The second field is the program's name, which may hold blanks and parentheses.
        rest = text.rpartition(")")[2].split()
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return None if rest[0] in "ZX" else f"{boot} {rest[19]}"
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    status, _, started = shown.stdout.strip().partition(" ")
    return None if not status or status.startswith("Z") else started.strip()


def end(pid: int, started: str, *, grace: float) -> bool:
    """End a session that `spawn` started: SIGTERM, and SIGKILL after `grace` seconds. False if it was gone already."""
    if start_time(pid) != started:
        return False
    if grace > 0:
        _signal_group(pid, signal.SIGTERM)
    if grace <= 0 or not _wait_gone(pid, started, grace):
        _signal_group(pid, signal.SIGKILL)
        if not _wait_gone(pid, started, _KILL_SECONDS):
            raise TimeoutError(f"process does not end: pid={pid}")
    return True


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # it ended meanwhile, which is what we want


def _wait_gone(pid: int, started: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while start_time(pid) == started:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _reap(pid: int) -> None:
    """Collect the process if it is an ended child of ours, which would stay a zombie otherwise."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # a child of another process, or of none
