"""Measures a workload of reading: makes and lands the files, times each side in turns, checks every run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Repeats
from benchmarks.ours import declaration_text
from benchmarks.reading.files import Files
from benchmarks.reading.sides import BOTO3, LANDED, LOCAL, OBSTORE, PEERS, SNIFFED, TEXTS, TYPES, files_of, memory_of
from benchmarks.result import OURS, Result, Run
from benchmarks.scenario import PartFailed, Stage, run_of
from benchmarks.workload import BUCKET, Batch, Case

_UPLOADS = 8


def measure_reading(
    workload: str,
    rows: int,
    folder: Path,
    env: Mapping[str, str],
    *,
    repeats: Repeats,
    say: Callable[[str], object],
) -> Result:
    """The result of a workload. Raises PartFailed if a part fails or a result is not the expected one."""
    files = files_of(workload, rows)
    scene = _Scene(files, Stage(files.target, folder, env))
    say(f"{workload}: making and landing {files.count:,} files of {files.rows:,} records")
    scene.land()
    counts = {"batch": {"read": files.target.rows}}
    if workload == "big-csv":
        return Result(workload, rows, counts, {OURS: [scene.load(memory_of(rows))]}, (OURS,))
    sides = (LOCAL, LANDED, TEXTS, TYPES, SNIFFED) if workload == "read-csv" else (LANDED, BOTO3, OBSTORE)
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for number in range(1, max(repeats.ours, repeats.slow) + 1):  # in turns: a noisy minute then hits all
        for side in sides:
            if number <= (repeats.slow if side == BOTO3 else repeats.ours):
                say(f"{workload}: timing and checking {side} {number}")
                runs[side].append(scene.peer(side) if side in PEERS else scene.ours(local=side == LOCAL))
    return Result(workload, rows, counts, runs, tuple(side for side in sides if side not in PEERS))


class _Scene:
    """The files, once on the local disk and once in the landing bucket."""

    def __init__(self, files: Files, stage: Stage) -> None:
        self._files, self._stage = files, stage
        self._local = stage.folder / "local"
        self._work = stage.folder / "work"

    @property
    def _sizes(self) -> tuple[int, int]:
        return self._files.count, self._files.rows

    def land(self) -> None:
        day = self._local / self._files.day_folder
        self._stage.call("reading.files", day, *self._sizes)
        prefix = f"{self._files.target.prefix}{self._files.day_folder}/"
        with closing(self._stage.client()) as client, ThreadPoolExecutor(_UPLOADS) as pool:
            for _ in pool.map(lambda path: client.upload_file(str(path), BUCKET, prefix + path.name), day.iterdir()):
                pass

    def ours(self, *, local: bool) -> Run:
        """One timed staging, from local files or from S3, and its check."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        os.sync()
        root = f"file://{self._local}/" if local else self._stage.prefix
        result, process_seconds = self._stage.call("reading.ours", *self._sizes, root, self._work)
        day = f"{root}{self._files.day_folder}/"
        checked, _ = self._stage.call("reading.check", "staged", *self._sizes, day, self._work)
        return run_of(result, process_seconds, checked=checked)

    def peer(self, side: str) -> Run:
        """One timed run of another way, and its check."""
        os.sync()
        arguments = (PEERS[side], self._local, self._files.target.prefix, self._stage.folder / "copied.parquet")
        result, process_seconds = self._stage.call("reading.peers", *arguments)
        note = self._stage.path("found")
        note.write_text(json.dumps(result["found"]))
        checked, _ = self._stage.call("reading.check", "peer", *self._sizes, note, self._local)
        return run_of(result, process_seconds, checked=checked)

    def load(self, memory: str) -> Run:
        """One whole load into a new table, and the check of the table and the ledger."""
        shutil.rmtree(self._local)
        case = Case(self._files.target, Batch(0, 1), memory=memory)
        path = self._stage.assets / case.table / "defs.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(declaration_text(case))
        os.sync()
        variables = {"LAKEHOUSE_MEMORY": memory}
        result, process_seconds = self._stage.call("ours", case.table, "timed", variables=variables)
        if result["receipt"]["state"] != "committed":
            raise PartFailed(f"the load was not committed: {result['receipt']}")
        day = f"{self._stage.prefix}{self._files.day_folder}/"
        checked, _ = self._stage.call("reading.check", "table", *self._sizes, day, case.table)
        return run_of(result, process_seconds, checked=checked)
