"""Measures the workload of upkeep: fills the tables, compacts one, times every reader on every state in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.generate import session
from benchmarks.measure import Repeats
from benchmarks.ours import table_text
from benchmarks.peers import Environment
from benchmarks.reading.sides import memory_of
from benchmarks.result import Result, Run
from benchmarks.scenario import PartFailed, Stage, run_of
from benchmarks.upkeep.files import (
    LOOKED_UP,
    expected_row,
    expected_scan,
    final,
    landed,
    make_updates,
    updates_of,
    write,
)
from benchmarks.upkeep.sizes import (
    AFTER,
    AFTER_DEFAULT,
    ALL_DAYS,
    BY_RATIO,
    COMPACTED,
    COMPACTION,
    LOOKUP,
    MERGED,
    MERGES,
    NEVER,
    ONCE,
    READERS,
    READS,
    SCAN,
    TABLES,
    Sizes,
    date_of,
    loads,
    name_of,
    part,
    prefix_of,
)
from benchmarks.workload import BUCKET, DAYS, ORDERS, Target


def measure_upkeep(
    workload: str,
    rows: int,
    folder: Path,
    env: Mapping[str, str],
    *,
    repeats: Repeats,
    environments: Mapping[str, Environment],
    skipped: Mapping[str, str],
    say: Callable[[str], object],
) -> Result:
    """The result of the workload; a reader without an environment does not run. Raises PartFailed if a part fails or a
    table has not the expected rows."""
    sizes, stage = Sizes(rows), Stage(Target("orders", rows), folder, env)
    say(f"{workload}: making and landing {ALL_DAYS} daily files, and their final rows: {sizes.all_rows:,}")
    expected = _land(stage, sizes)
    scene = _Scene(stage, expected)
    runs: dict[str, list[Run]] = {}
    for table in TABLES:
        say(f"{workload}: filling {name_of(table)}")
        filled = scene.fill(table)
        if table != ONCE:
            runs[loads(table)] = [filled]
    say(f"{workload}: compacting {name_of(MERGED)}")
    runs[COMPACTION] = [scene.compact()]
    readers = [reader for reader, kind in READERS.items() if kind in environments]
    parts = [(reader, read, state) for reader in readers for read in READS for state in scene.snapshots]
    reads: dict[str, list[Run]] = {part(*asked): [] for asked in parts}
    for number in range(1, repeats.ours + 1):  # in turns: a noisy minute then hits all
        for asked in parts:
            say(f"{workload}: timing {part(*asked)} {number}")
            reads[part(*asked)].append(scene.read(*asked, environments[READERS[asked[0]]]))
    made = {"read": sizes.all_rows, "merges": MERGES, "updated": sum(expected.updates)}
    counts = {"batch": made | scene.files}
    not_run = {reader: skipped[kind] for reader, kind in READERS.items() if kind in skipped}
    return Result(workload, rows, counts, reads | runs, (), skipped=not_run)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a full scan and a lookup must find, in each state, and how many rows each daily load updates."""

    sizes: Sizes
    scan: Sequence[Sequence[str]]
    row: Sequence[str]
    updates: Sequence[int]

    def check(self, what: str, read: str, found: Sequence[Sequence[str]]) -> None:
        """Raises PartFailed if a reader has found something else."""
        want = self.scan if read == SCAN else [self.row]
        if found != want:
            raise PartFailed(f"{what}: expected={want} found={found}")

    def check_loads(self, table: str, loaded: Sequence[Mapping[str, int]]) -> None:
        """Raises PartFailed unless every load inserted and updated what its files bring."""
        if table == ONCE:
            want = [(self.sizes.all_rows, 0)]
        else:
            days = zip(range(DAYS, ALL_DAYS), self.updates, strict=True)
            want = [(self.sizes.rows, 0), *((len(self.sizes.rows_of(day)), updated) for day, updated in days)]
        have = [(rows["inserted"], rows["updated"]) for rows in loaded]
        if have != want:
            raise PartFailed(f"loads of {name_of(table)}, inserted and updated: expected={want} counted={have}")


class _Scene:
    """The tables, and by state the snapshot that has it: a state is read as the table stood then, and so in turns."""

    def __init__(self, stage: Stage, expected: Expected) -> None:
        self._stage, self._expected = stage, expected
        self.snapshots: dict[str, tuple[str, int]] = {}
        self.files: dict[str, int] = {}

    def fill(self, table: str) -> Run:
        path = self._stage.assets / name_of(table) / "defs.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table_text(name_of(table), prefix_of(table), ORDERS, properties=TABLES[table]))
        os.sync()
        result, process_seconds = self._stage.call("upkeep.ours", "fill", table)
        self._expected.check_loads(table, result["loads"])
        state = {ONCE: NEVER, MERGED: AFTER, BY_RATIO: AFTER_DEFAULT}[table]
        self._stands(state, table, result, after="before")
        return run_of(result, process_seconds)

    def compact(self) -> Run:
        """Compact the table that was merged, expire its history, and compare every row of it."""
        os.sync()
        variables = {"LAKEHOUSE_MEMORY": memory_of(self._expected.sizes.rows)}
        result, process_seconds = self._stage.call("upkeep.ours", "maintain", MERGED, variables=variables)
        standing = result["standing"]
        if standing["state"] != "committed":
            raise PartFailed(f"nothing was compacted: {standing}")
        self._stands(COMPACTED, MERGED, result, after="after")
        checked, _ = self._stage.call("upkeep.check", name_of(MERGED), self._expected.sizes.rows)
        return run_of(result, process_seconds, checked=checked | standing)

    def read(self, reader: str, read: str, state: str, environment: Environment) -> Run:
        """One timed read and its check."""
        table, snapshot = self.snapshots[state]
        row = dict(zip(LOOKED_UP, self._expected.row, strict=True))
        arguments = (row["input_date"], row["order_id"]) if read == LOOKUP else ()
        os.sync()
        result, process_seconds = self._stage.call(
            f"upkeep.read_{READERS[reader]}",
            name_of(table),
            snapshot,
            *arguments,
            python=environment.python,
            variables=dict(environment.variables),
        )
        self._expected.check(part(reader, read, state), read, result["found"])
        return run_of(result, process_seconds, checked={"found": result["found"]})

    def _stands(self, state: str, table: str, result: Mapping[str, Any], *, after: str) -> None:
        self.snapshots[state] = (table, result["snapshot_id"])
        for kind in ("data", "delete"):
            self.files[f"{kind} files ({state})"] = result["standing"][f"{kind}_files_{after}"]


def _land(stage: Stage, sizes: Sizes) -> Expected:
    """Make and land the files of all days, one by one, for the tables that are merged and for the one that is not."""
    path = stage.folder / "day.csv"
    stage.folder.mkdir(parents=True, exist_ok=True)
    with closing(session()) as con, closing(stage.client()) as client:
        make_updates(con, sizes)
        for day in range(ALL_DAYS):
            for table, sql in ((MERGED, landed(sizes, day)), (ONCE, final(sizes, sizes.rows_of(day)))):
                write(con, sql, path)
                client.upload_file(str(path), BUCKET, f"{prefix_of(table)}landing_date={date_of(day)}/orders.csv")
        path.unlink()
        updates = [updates_of(con, day) for day in range(DAYS, ALL_DAYS)]
        return Expected(sizes, expected_scan(con, sizes), expected_row(con, sizes), updates)
