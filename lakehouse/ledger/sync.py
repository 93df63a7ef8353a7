"""Brings the ledger tables up to a bookmark. The only writer of the ledger, after a load, after a crash, in a rebuild.

Each table holds, in a property, the bookmark version up to which it has a context's rows, and property and rows move in
one commit that asserts `main`. Whoever loses that assertion reads the head again, so no two writers double a row. A
version without rows moves the property alone: then `main` stays, and a slower writer can only set the head back over
versions that have no rows. Never reads or writes a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from lakehouse.catalog import translate, translated
from lakehouse.errors import ConfigurationError, Conflict, DataError, LakehouseError, NotAvailable
from lakehouse.iceberg import LiveManifest, draft_snapshot, has_delete_files, live_manifests
from lakehouse.ledger.data_files import (
    LocalFile,
    Rewrite,
    every_row,
    partition_files,
    rewrite_files,
    small_files,
    without_context,
)
from lakehouse.ledger.rows import ROWS, Entry, reject_rows
from lakehouse.ledger.schema import LEDGERS, REJECTS, head_of, head_property
from lakehouse.ledger.standing import Standing
from lakehouse.ledger.tables import open_ledger
from lakehouse.services import Services
from lakehouse.state import read_blob, walk

OK = "ok"
ATTEMPTS = 12
KEEP_SNAPSHOTS = 100
"""The ledger's own history: without a bound, every commit would write a longer metadata file than the one before."""
_REJECTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class _Job:
    """What to bring up to where. `start` says from which version on a table lacks rows, `choose` which files of the
    partition are rewritten by the same commit, `keep` what is kept of them."""

    standing: Standing
    services: Services
    folder: Path
    start: Callable[[Table], int]
    choose: Callable[[Sequence[DataFile]], Sequence[DataFile]]
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Staged:
    """The uploaded rows of the versions above `above`, for one table and schema; `added` None: there are none."""

    ledger_uuid: UUID
    schema_id: int
    above: int
    added: DataFile | None

    def fits(self, table: Table, above: int) -> bool:
        metadata = table.metadata
        return (self.ledger_uuid, self.schema_id, self.above) == (
            metadata.table_uuid,
            metadata.current_schema_id,
            above,
        )


def sync(standing: Standing, services: Services, *, folder: Path) -> str:
    """Append what the ledger lacks of this bookmark; `folder` is local scratch. Returns "ok", also if it lacks nothing.

    Raises Conflict when other tables' loads commit first again and again, and every other failure as a LakehouseError:
    the ledger is then behind, and the next sync makes up for it.
    """
    job = _Job(
        standing=standing,
        services=services,
        folder=folder,
        start=lambda table: head_of(table, table_uuid=standing.table_uuid, context=standing.context),
        choose=small_files,
        keep=every_row,
    )
    return _run(job)


def rebuild(standing: Standing, services: Services, *, folder: Path) -> str:
    """Replace every row of this table's life and context by what its manifests say; other contexts' rows stay.

    Each ledger table changes in one commit, so no reader sees it half full. Raises as `sync` does.
    """
    job = _Job(
        standing=standing,
        services=services,
        folder=folder,
        start=lambda table: 0,
        choose=lambda files: files,
        keep=without_context(standing.context),
    )
    return _run(job, rebuilding=True)


def _run(job: _Job) -> str:
    with _errors_of_ours(job.standing):
        tables = {name: _open(job, name) for name in LEDGERS}
        behind = {name: table for name, table in tables.items() if job.start(table) < job.standing.version}
        staged = _stage(job, behind)
        for name, table in behind.items():
            _bring_up(job, name, table, staged[name])
    return OK
