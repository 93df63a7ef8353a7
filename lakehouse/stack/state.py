"""What is known of a local stack, and its state file. Reads and writes that file, never signals a process."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import ConfigurationError
from lakehouse.stack.ports import ADDRESS, StackPorts

LANDING_BUCKET = "landing"
STATE_BUCKET = "state"
TABLE_BUCKET = "warehouse"
REGION = "us-east-1"

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stack:
    """A started local stack.

    `directory` is absolute. `started` names the process beyond its pid: a recycled pid has another value.
    """

    directory: Path
    pid: int
    started: str
    ports: StackPorts
    access_key: str
    secret_key: str

    @property
    def s3_endpoint(self) -> str:
        return f"http://{ADDRESS}:{self.ports.s3}"

    @property
    def catalog_uri(self) -> str:
        return f"http://{ADDRESS}:{self.ports.iceberg}"

    @property
    def log(self) -> Path:
        return log_file(self.directory)


def log_file(directory: Path) -> Path:
    """What the server prints."""
    return directory / "weed.log"


def read_state(directory: Path) -> Stack | None:
    """The stack that was started last in an absolute directory, alive or not; None if it was stopped since."""
    path = _state_file(directory)
    try:
        state = json.loads(path.read_text())
        if state["version"] != _VERSION:
            raise ValueError(f"version={state['version']}")
        return Stack(
            directory=directory,
            pid=state["pid"],
            started=state["started"],
            ports=StackPorts(**state["ports"]),
            access_key=state["access_key"],
            secret_key=state["secret_key"],
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the stack's state file cannot be read: file={path} error={error}",
            next=f"stop the `weed` process of {directory} if there is one, then remove the file",
        ) from error


def write_state(stack: Stack) -> None:
    """Keep what `down` and `env` need; readable by the owner alone, since it holds a key."""
    path = _state_file(stack.directory)
    state = {
        "version": _VERSION,
        "pid": stack.pid,
        "started": stack.started,
        "ports": stack.ports.as_dict(),
        "access_key": stack.access_key,
        "secret_key": stack.secret_key,
    }
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(state, indent=2) + "\n")
    draft.replace(path)


def forget_state(directory: Path) -> None:
    """Remove the state file of a stopped stack; its data stays."""
    _state_file(directory).unlink(missing_ok=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One starter or stopper per directory at a time; the lock dies with its process."""
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _state_file(directory: Path) -> Path:
    return directory / "stack.json"
