"""A reader's server as a process of this one: started once, asked many times, ended with its owner."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.readers.environment import ROOT, Environment

START_SECONDS = 90.0
ANSWER_SECONDS = 120.0


class ReaderError(Exception):
    """What an engine answered instead of a result."""


class Server:
    """Speaks JSON lines with `python -m <module>`. Its engine's own output goes to `<folder>/log`."""

    def __init__(self, module: str, environment: Environment, folder: Path, arguments: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(environment.python), "-m", module, *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC", "SPARK_LOCAL_DIRS": str(folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._read = b""
        self._patience = START_SECONDS

    def ask(self, **request: Any) -> Any:
        """The result of a request. Raises ReaderError with the engine's words."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise RuntimeError(f"the reader has ended:\n{self._tail()}") from error
        reply = json.loads(self._line())
        if "error" in reply:
            raise ReaderError(reply["error"])
        return reply["result"]

    def close(self) -> None:
        """End the process: it stops when its input ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _line(self) -> bytes:
        """The next answer. Starting takes its time; a reader that says nothing for long is broken."""
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        deadline = time.monotonic() + self._patience + ANSWER_SECONDS
        while b"\n" not in self._read:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(stream, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError(f"the reader {'has ended' if ready else 'does not answer'}:\n{self._tail()}")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        self._patience = 0.0
        return line

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
