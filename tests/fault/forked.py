"""Runs the command line in real processes that are cheap to start: each is a fork of one that has imported everything.

The other side of the pipe is `Forks`. The forking process has one thread of Python's own, and never runs a command.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NO_MOUNT = 71
"""The exit code of a process that may not mount a small file system of its own."""
_NEW_USER, _NEW_MOUNTS, _PRIVATE = 0x10000000, 0x20000, 0x44000


@dataclass(frozen=True)
class Command:
    """One call of `lakehouse`. `kill_after`: seconds until it is killed, unless it has ended. `passed`: a file that
    gets the name of every fault point that it comes to. `checkpoint_every`: versions from checkpoint to checkpoint.
    `pages`: so many of 4 KiB the file system of its spill folder has room for. `patient` False: services are given up
    on early, and pauses take no time."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    out: str
    kill_after: float | None = None
    passed: str = ""
    checkpoint_every: int = 0
    pages: int | None = None
    patient: bool = True


@dataclass(frozen=True)
class Ended:
    """`code` is negative for a signal, as of `subprocess`; `seconds` are those that the process lived."""

    code: int
    pid: int
    seconds: float
    said: Any
    errors: str


class Forks:
    """The forking process as its starter sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.forked"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def run(self, command: Command) -> Ended:
        """Run a command to its end, however that comes."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asdict(command)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the forking process ended: code={self._process.wait(timeout=10)}"
        told = json.loads(line)
        out = Path(command.out)
        text = out.read_text()
        return Ended(**told, said=_json(text), errors=out.with_suffix(".err").read_text())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


@contextmanager
def forks() -> Iterator[Forks]:
    started = Forks()
    try:
        yield started
    finally:
        started.close()


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def main() -> None:
    for name in ("lakehouse.cli.app", "pyiceberg.catalog.rest", "pyiceberg.io.pyarrow"):
        import_module(name)  # what a command imports is there before the fork
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        command = Command(**json.loads(line))
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _become(command)
        if command.kill_after is not None and signal.sigtimedwait({signal.SIGCHLD}, command.kill_after) is None:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        signal.sigtimedwait({signal.SIGCHLD}, 0)  # of this one, where nobody has waited for it
        ended = {"code": os.waitstatus_to_exitcode(status), "pid": pid, "seconds": time.monotonic() - started}
        print(json.dumps(ended), flush=True)


def _become(command: Command) -> None:
    """Be the command, and end. Never returns."""
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        out = Path(command.out)
        for stream, path in ((0, Path("/dev/null")), (1, out), (2, out.with_suffix(".err"))):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        os.environ.clear()
        os.environ.update(command.env)
        code = _call(command)
    except BaseException as error:  # noqa: BLE001 - a fork must never come back into the loop of its parent
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call(command: Command) -> int:
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    from lakehouse.cli.app import main as lakehouse_main

    pyiceberg.catalog._ENV_CONFIG = Config()  # read once at import
    if command.pages is not None and not _small_file_system(command.env["LAKEHOUSE_SPILL"], command.pages):
        return NO_MOUNT
    if command.checkpoint_every:
        import lakehouse.bookmark

        lakehouse.bookmark.CHECKPOINT_EVERY = command.checkpoint_every
    if not command.patient:
        _lose_patience()
    if command.passed:
        _tell_points(Path(command.passed))
    try:
        lakehouse_main([*command.arguments])
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _small_file_system(place: str, pages: int) -> bool:
    """Mount a file system with room for so many pages, for this process alone."""
    Path(place).mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) and libc.unshare(_NEW_USER | _NEW_MOUNTS):
        return False
    if libc.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    if libc.mount(b"tmpfs", place.encode(), b"tmpfs", 0, f"size={(pages + 1) * 4096}".encode()):
        return False
    Path(place, "used").write_bytes(bytes(4096))  # a size of 0 means no bound
    return True


def _lose_patience() -> None:
    import lakehouse.iceberg
    from lakehouse.storage import Patience

    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, 0.01))
    lakehouse.iceberg.READ_SECONDS = 1.0
    Patience.__init__.__defaults__ = (1.0, 1.0, 1.0, 2, 0.01, 2.0)  # type: ignore[attr-defined]


def _tell_points(file: Path) -> None:
    import lakehouse.faults

    def tell(name: str) -> None:
        with file.open("a") as told:
            told.write(name + "\n")
        real(name)

    real = lakehouse.faults.fault_point
    for module in [*sys.modules.values()]:
        if module.__name__.startswith("lakehouse.") and getattr(module, "fault_point", None) is real:
            module.fault_point = tell  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
