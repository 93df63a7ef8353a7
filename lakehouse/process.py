"""Which process this is, and whether another one of the same machine is gone. Reads /proc; never signals anything."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, named so that a reused pid is another one.

    `started` is in clock ticks since boot, `boot` the kernel's boot id, `pid_space` its pid namespace: containers can
    share a host name. `started` 0 and empty texts stand for a system without /proc.
    """

    host: str
    pid: int
    started: int = 0
    boot: str = ""
    pid_space: str = ""


def this_process() -> Process:
    """The calling process."""
    host, pid = socket.gethostname(), os.getpid()
    status = _status(pid)
    if status is None:
        return Process(host, pid)
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return Process(host, pid, started=status[1], boot=boot, pid_space=os.readlink(_PROC / "self/ns/pid"))  # noqa: PTH115


def is_gone(other: Process, here: Process) -> bool:
    """Whether `other` is certainly dead, as seen by `here`; False wherever this cannot be known.

    Another boot of a host of the same name proves nothing: it can be another machine.
    """
    same_machine = (other.host, other.boot, other.pid_space) == (here.host, here.boot, here.pid_space)
    if not same_machine or not here.boot:
        return False
    status = _status(other.pid)
    return status is None or status[0] in "ZX" or status[1] != other.started


def _status(pid: int) -> tuple[str, int] | None:
    """State letter and start time of a process, None if there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name, which may hold blanks and parentheses.
    rest = text.rpartition(")")[2].split()
    return rest[0], int(rest[19])
