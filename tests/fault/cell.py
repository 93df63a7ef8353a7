"""Runs one cell of the matrix on the real stack: the fault, what is said of it, the rerun, and what is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakehouse.maintain import remove_orphans
from lakehouse.maintain.listing import list_files
from tests.evolving_lake import OPERATOR
from tests.fault.forked import NO_MOUNT, Command, Ended, Forks
from tests.fault.matrix import NO_ROOM, NOTHING, Cell, Fault, Outcome
from tests.fault.services import SERVICE_FAULTS, Network
from tests.fault.tables import LOADS, Undisturbed, content, land, landing, ledger_is_complete, make_lake
from tests.lake import Lake

LATER = timedelta(days=4)
"""By then what lies in the ledger's folders is old enough to go."""
CANNOT_MOUNT = "no file system may be mounted here: the disk cannot be made full"


@dataclass(frozen=True)
class Seen:
    """What came of one load under a fault. `seconds`: from the end of the process until the state was named."""

    outcome: Outcome
    seconds: float


@dataclass
class Bench:
    """What cells are run with."""

    stack: Any
    folder: Path
    forks: Forks
    network: Network
    undisturbed: Undisturbed

    def load(self, lake: Lake, **how: Any) -> Ended:
        """`lakehouse load` in a process of its own."""
        return self.run(lake, "load", lake.table, **how)

    def run(self, lake: Lake, *arguments: str, **how: Any) -> Ended:
        """A command in a process of its own."""
        env = {**os.environ, **lake.env, **how.pop("env", {})}
        return self.forks.run(Command((*arguments, "--json"), env=env, out=str(lake.folder / "out"), **how))


def run_cell(bench: Bench, cell: Cell) -> dict[str, Seen]:
    """Both loads of a table of its own. Fails where what is seen is not what the matrix says, or anything is lost,
    doubled or left."""
    lake = make_lake(bench.stack, bench.folder / f"{cell.id}"[:80], cell.mode)
    seen = {}
    for load in LOADS[: LOADS.index(cell.fault.loads[-1]) + 1]:
        land(lake, landing(cell.mode, cell.objects, load))
        if load in cell.fault.loads:
            seen[load] = _disturb(bench, lake, cell)
            assert cell.fault.allows(seen[load].outcome), (load, seen[load].outcome)
        else:
            assert lake.load().exit_code == 0
        check_settled(lake, bench.undisturbed(cell.mode, cell.objects, load), load)
    check_nothing_is_left(lake)
    return seen


def _disturb(bench: Bench, lake: Lake, cell: Cell) -> Seen:
    ended = _load_under(bench, lake, cell.fault)
    began = time.monotonic()
    found = diagnosed(lake)
    seconds = time.monotonic() - began
    again = lake.load()
    bench.network.clear()
    assert again.exit_code == 0, again.error
    return Seen(Outcome(ended.code, found, again.state.value), seconds)


def _load_under(bench: Bench, lake: Lake, fault: Fault) -> Ended:
    if fault.kills:
        return bench.load(lake, env={"LAKEHOUSE_FAULT": fault.name}, checkpoint_every=1)
    if fault.name == NO_ROOM:
        ended = bench.load(lake, pages=0)
        if ended.code == NO_MOUNT:
            pytest.skip(CANNOT_MOUNT)
        return ended
    bench.network.clear()  # of a cell that has failed
    SERVICE_FAULTS[fault.name](bench.network, lake)
    ended = bench.load(lake, env=bench.network.env, patient=False)
    assert bench.network.hits, "the fault did not happen"
    return ended


def diagnosed(lake: Lake) -> Any:
    code, found, said = lake.said("diagnose", lake.table, "--json")
    assert found is not None and code == found["exit_code"], said
    return found["state"]


def check_settled(lake: Lake, wanted: Any, what: str) -> None:
    """The table and its ledger are those of the undisturbed run, every equation holds, nothing is in flight."""
    left = content(lake)
    assert left.rows - wanted.rows == wanted.rows - left.rows == {}, f"{what}: rows doubled or lost"
    assert left == wanted, what
    assert ledger_is_complete(lake), what
    assert lake.differences() == [], what
    assert diagnosed(lake) == NOTHING, what


def check_nothing_is_left(lake: Lake) -> None:
    """Once upkeep has run, every object in the folders of the table, of its state and of the ledger is referred to."""
    services = lake.services(now=lambda: datetime.now(UTC) + LATER)
    remove_orphans(lake.declaration, services, OPERATOR)
    tables = [lake.stack.catalog().load_table(lake.table)]
    tables += [lake.stack.catalog().load_table(name) for name in lake.stack.catalog().list_tables(f"ops_{lake.name}")]
    for table in tables:
        loose = {file.uri for file in list_files(table)} - {*_needed(table)}
        assert loose == set(), f"{table.name()}: nothing refers to these"
    told = remove_orphans(lake.declaration, services, OPERATOR, dry_run=True)
    assert (told.removed, told.kept) == ((), ())


def _needed(table: Table) -> Iterator[str]:
    """Whatever the table's metadata names, as PyIceberg itself reads it."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
            yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
