"""A stack that lives as long as its user, however that one ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakehouse.stack.ports import StackPorts
from lakehouse.stack.server import start_stack, stop_stack
from lakehouse.stack.state import Stack

_WATCHER = """
import sys
from pathlib import Path
from lakehouse.stack.server import stop_stack
sys.stdin.read()
stop_stack(Path(sys.argv[1]), grace=0)
"""


@contextmanager
def temporary_stack(directory: Path, ports: StackPorts, *, env: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """A stack that is killed when the block ends, and also when this process is killed inside it.

    For tests and the demo: nothing of theirs may be left running. The directory is the caller's to remove.
    """
    directory = directory.absolute()
    # A pipe tells the watcher of our end, also of a SIGKILL; a session of its own keeps Ctrl-C away from it.
    with subprocess.Popen(
        [sys.executable, "-c", _WATCHER, str(directory)], stdin=subprocess.PIPE, start_new_session=True
    ) as watcher:
        try:
            yield start_stack(directory, ports, env=env)
        finally:
            stop_stack(directory, grace=0)
            if watcher.stdin is not None:
                watcher.stdin.close()
