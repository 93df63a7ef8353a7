"""A process that runs loads as it is told, one after another, each as its own run: races start without a warm-up.

Reads one JSON task per line, writes one JSON answer per line. `Racers` is the other side of the pipe.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from tests.services.server import until

MEET_SECONDS = 10.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Task:
    """One load. `lease` False: it takes a lease of its own, so that nothing but the commit keeps loads apart.

    `meet` is a folder and a number: the first commit waits until so many racers stand at theirs. `jitter` is the most
    seconds that each step is put off by, at random from `seed`. `fault` is a value of LAKEHOUSE_FAULT.
    """

    env: Mapping[str, str]
    table: str
    run_id: str
    day: str | None = None
    lease: bool = False
    meet: tuple[str, int] | None = None
    jitter: float = 0.0
    seed: int = 0
    fault: str = ""


class Racer:
    """The process as its starter sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.racer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, task: Task) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asdict(task)) + "\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """The receipt of the load that was begun; fails with the traceback of one that raised."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the racer ended: code={self._process.wait(timeout=10)}"
        answer: dict[str, Any] = json.loads(line)
        assert "bug" not in answer, answer["bug"]
        return answer

    def wait_stopped(self) -> None:
        """Until the process has stopped itself; one that ends instead fails."""
        until(lambda: _status(self.pid) in "TtZX", "the racer did not stop", seconds=STOP_SECONDS)
        assert _status(self.pid) in "Tt", "the racer ended instead of stopping"

    @contextmanager
    def kept_awake(self) -> Iterator[None]:
        """Inside the block the process is woken as often as it stops."""
        done = threading.Event()

        def wake() -> None:
            while not done.wait(0.02):
                os.kill(self.pid, signal.SIGCONT)

        thread = threading.Thread(target=wake, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


@contextmanager
def racers(count: int) -> Iterator[Sequence[Racer]]:
    started = [Racer() for _ in range(count)]
    try:
        yield started
    finally:
        for racer in started:
            racer.close()


def race(racers: Sequence[Racer], tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Run the tasks at once; receipts in the order of the tasks."""
    pairs = list(zip(racers, tasks, strict=False))
    assert len(pairs) == len(tasks)
    for racer, task in pairs:
        racer.begin(task)
    return [racer.result() for racer, _ in pairs]


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def main() -> None:
    from tests.lake import changed_environment

    # Whatever a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        task = Task(**json.loads(line))
        with changed_environment({**task.env, "LAKEHOUSE_FAULT": task.fault}):
            try:
                answer = _load(task)
            except Exception:  # noqa: BLE001 - whoever waits for the answer fails with it
                answer = {"bug": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _load(task: Task) -> dict[str, Any]:
    from lakehouse.declaration import find_declaration
    from lakehouse.ingest import LoadRequest, ingest
    from lakehouse.model import Window
    from lakehouse.receipt import receipt_json
    from tests.catalogs import open_shared

    day = date.fromisoformat(task.day) if task.day else None
    declaration = find_declaration(Path(task.env["LAKEHOUSE_ASSETS"]), task.table, task.env)
    services = open_shared(task.env)
    dice = random.Random(task.seed)
    if not task.lease:
        services = replace(services, state=_OwnLease(services.state, task.run_id))
    if task.jitter:
        services = replace(services, progress=lambda _: time.sleep(dice.uniform(0, task.jitter)))
    if task.meet:
        _meet_before_commit(services.catalog, task)
    receipt = ingest(declaration, LoadRequest(run_id=task.run_id, window=Window(day, day)), services)
    return {**receipt_json(receipt), "exit_code": receipt.exit_code, "error": receipt.error}


class _OwnLease:
    """A state store in which this run's lease has a name of its own."""

    def __init__(self, state: Any, run_id: str) -> None:
        self._state = state
        self._run_id = run_id

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._state, name)
        if name not in ("read", "read_with_etag", "create", "replace"):
            return method

        def with_own_key(key: str, *rest: Any) -> Any:
            return method(key + f".{self._run_id}" if key.endswith("lease.json") else key, *rest)

        return with_own_key


def _meet_before_commit(catalog: Any, task: Task) -> None:
    assert task.meet
    folder, count = Path(task.meet[0]), task.meet[1]
    commit = catalog.commit_table

    def when_all_are_here(table: Any, *rest: Any, **named: Any) -> Any:
        if ".".join(table.name()) == task.table and not (folder / task.run_id).exists():
            (folder / task.run_id).touch()
            deadline = time.monotonic() + MEET_SECONDS
            while len(list(folder.iterdir())) < count and time.monotonic() < deadline:
                time.sleep(0.002)
        return commit(table, *rest, **named)

    catalog.commit_table = when_all_are_here


if __name__ == "__main__":
    main()
