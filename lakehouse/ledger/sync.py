"""Brings the ledger tables up to a bookmark. The only writer of its rows, after a load, after a crash, in a rebuild.

Each table holds, in a property, the bookmark version up to which it has a context's rows, and property and rows move in
one commit that asserts `main`. Whoever loses that assertion reads the head again, so no two writers double a row.
Never reads or writes a target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.errors import Conflict, DataError, LakehouseError
from lakehouse.faults import fault_point
from lakehouse.ledger.commit import commit_rows
from lakehouse.ledger.data_files import (
    LocalFile,
    Rewrite,
    every_row,
    partition_files,
    rewrite_files,
    small_files,
    without_contexts,
)
from lakehouse.ledger.live import ATTEMPTS, live_ledger, pause_seconds
from lakehouse.ledger.rows import ROWS, Entry, reject_rows
from lakehouse.ledger.schema import LEDGERS, REJECTS, head_of, head_property
from lakehouse.ledger.standing import Standing
from lakehouse.ledger.tables import open_ledger
from lakehouse.scratch import scratch_folder
from lakehouse.services import Services
from lakehouse.state import read_blob, walk

OK = "ok"
_REJECTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class _Job:
    """What to bring up to where. `start` says from which version on a table lacks rows, `choose` which files of the
    partition are rewritten by the same commit, `keep` what is kept of them. `former` are the names that the bookmark
    had before it was renamed: a table that has no row of it yet has its rows under them, and they go with the same
    commit."""

    standing: Standing
    services: Services
    folder: Path
    start: Callable[[Table], int]
    choose: Callable[[Sequence[DataFile]], Sequence[DataFile]]
    keep: Callable[[pa.RecordBatch], pa.RecordBatch]
    former: frozenset[str] = frozenset()

    def renamed(self, above: int) -> _Job:
        """The job for a table that lacks rows above a version."""
        if above or not self.former:
            return self
        gone = {self.standing.context, *self.former}
        return replace(self, choose=lambda files: files, keep=without_contexts(gone))


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


def sync(standing: Standing, services: Services) -> str:
    """Append what the ledger lacks of this bookmark. Returns "ok", also if it lacks nothing.

    Raises Conflict when other tables' loads commit first again and again, and every other failure as a LakehouseError:
    the ledger is then behind, and the next sync makes up for it.
    """
    job = _Job(
        standing=standing,
        services=services,
        folder=services.settings.spill,
        start=lambda table: head_of(table, table_uuid=standing.table_uuid, context=standing.context),
        choose=small_files,
        keep=every_row,
    )
    return _run(job)


def rebuild(standing: Standing, services: Services) -> str:
    """Replace every row of this table's life and context by what its manifests say; other contexts' rows stay.

    Each ledger table changes in one commit, so no reader sees it half full. Raises as `sync` does.
    """
    job = _Job(
        standing=standing,
        services=services,
        folder=services.settings.spill,
        start=lambda _: 0,
        choose=lambda files: files,
        keep=without_contexts([standing.context]),
    )
    return _run(job)


def _run(job: _Job) -> str:
    if job.standing.version == 0:
        return OK
    fault_point("before_ledger")
    with _errors_of_ours(job), scratch_folder(job.folder, f"lakehouse-ledger-{job.services.new_id()}") as scratch:
        job = replace(job, folder=scratch)
        tables = {name: _open(job, name) for name in LEDGERS}
        behind = {name: table for name, table in tables.items() if job.start(table) < job.standing.version}
        if any(job.start(table) == 0 for table in behind.values()):
            job = replace(job, former=_former(job))
        staged = _stage(job, behind)
        fault_point("after_ledger_upload")
        with ThreadPoolExecutor(len(LEDGERS)) as pool:
            # each table is a matter of its own: one that fails leaves the others to be brought up
            [*pool.map(lambda name: _bring_up(job, name, behind[name], staged[name]), behind)]
    fault_point("after_ledger")
    return OK


def _open(job: _Job, name: str) -> Table:
    services = job.services
    return open_ledger(services.catalog, services.settings.ops_namespace, name, pause=services.pause)


def _bring_up(job: _Job, name: str, table: Table, staged: _Staged) -> None:
    """Commit the staged rows, again on every new head, until they are in or somebody else has brought them in."""
    standing = job.standing
    rewrite = Rewrite()
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            job.services.pause(pause_seconds(attempt, job.services.new_id()))
            table = _open(job, name)
        if (above := job.start(table)) >= standing.version:
            return
        if not staged.fits(table, above):
            staged = _stage(job, {name: table})[name]
        live = live_ledger(table)
        files = partition_files(live, standing.table_uuid)
        if staged.added is not None and staged.added.file_path in {file.file_path for file in files}:
            return  # the commit before landed, and only its answer was lost
        change = job.renamed(above)
        rewrite = _rewrite(change, table, change.choose(files), rewrite)
        failure = commit_rows(
            job.services.catalog,
            table,
            live=live,
            added=[file for file in (staged.added, rewrite.added) if file is not None],
            removed=rewrite.removed,
            head=_heads(standing, former=job.former if above == 0 else ()),
            commit_uuid=UUID(hex=job.services.new_id()),
        )
        if failure is None:
            fault_point("after_ledger_commit")
            return
    raise Conflict(
        f"the ledger table {'.'.join(table.name())} could not be committed: attempts={ATTEMPTS} "
        f"table={standing.table} version={standing.version} last_error={type(failure).__name__}",
        next=f"lakehouse ledger rebuild {standing.table}   # or wait: the next load brings the ledger up to date",
    ) from failure


def _former(job: _Job) -> frozenset[str]:
    """The names under which the bookmark published before its own. A first version has none."""
    if job.standing.version < 2:
        return frozenset()
    contexts = {manifest.context for manifest, _ in walk(job.services.state, job.standing.head)}
    return frozenset(contexts - {job.standing.context})


def _heads(standing: Standing, *, former: Collection[str]) -> dict[str, str]:
    """The properties that say what a table holds: all of the bookmark, and nothing under its former names."""
    heads = {head_property(table_uuid=standing.table_uuid, context=context): "0" for context in former}
    return {**heads, head_property(table_uuid=standing.table_uuid, context=standing.context): str(standing.version)}


def _stage(job: _Job, tables: Mapping[str, Table]) -> dict[str, _Staged]:
    """Write and upload what each table lacks. The manifests are read once, and one chain of them is in memory."""
    if not tables:
        return {}
    above = {name: job.start(table) for name, table in tables.items()}
    files = {name: LocalFile(table, job.folder / f"{name}.parquet") for name, table in tables.items()}
    for entry in _entries(job, above=min(above.values())):
        for name, file in files.items():
            if entry.manifest.bookmark_version > above[name]:
                for rows in _rows(job, name, entry, file.schema):
                    file.append(rows)
    return {
        name: _Staged(
            ledger_uuid=table.metadata.table_uuid,
            schema_id=table.metadata.current_schema_id,
            above=above[name],
            added=files[name].upload(table_uuid=job.standing.table_uuid, file_id=job.services.new_id()),
        )
        for name, table in tables.items()
    }


def _entries(job: _Job, *, above: int) -> Iterator[Entry]:
    standing = job.standing
    for manifest, reference in walk(job.services.state, standing.head, above=above):
        version = manifest.bookmark_version
        if reference == standing.head and version != standing.version:
            raise DataError(f"the manifest is of another version: uri={reference.uri} expected={standing.version}")
        yield Entry(
            manifest=manifest,
            reference=reference,
            table_uuid=standing.table_uuid,
            context=standing.context,
            snapshot_id=standing.snapshot_ids.get(version),
        )


def _rows(job: _Job, name: str, entry: Entry, schema: pa.Schema) -> Iterator[pa.Table]:
    if name != REJECTS:
        yield pa.Table.from_pylist(ROWS[name](entry), schema=schema)
    elif entry.manifest.rejects is not None:
        stored = pq.ParquetFile(pa.BufferReader(read_blob(job.services.state, entry.manifest.rejects)))
        for batch in stored.iter_batches(_REJECTS_AT_ONCE):
            yield reject_rows(entry, pa.Table.from_batches([batch]), schema=schema)


def _rewrite(job: _Job, table: Table, chosen: Sequence[DataFile], before: Rewrite) -> Rewrite:
    """The rewrite of the chosen files; the one of the attempt before if it was of the same files."""
    if before.removed == frozenset(file.file_path for file in chosen):
        return before
    return rewrite_files(
        table,
        chosen,
        keep=job.keep,
        table_uuid=job.standing.table_uuid,
        file_id=job.services.new_id(),
        folder=job.folder,
    )


@contextmanager
def _errors_of_ours(job: _Job) -> Iterator[None]:
    """A load has committed when the ledger is written: whatever goes wrong here must not look like a failed load."""
    subject = f"ledger of table={job.standing.table} context={job.standing.context}"
    try:
        with translated(subject):
            yield
    except LakehouseError:
        raise
    except Exception as error:
        raise LakehouseError(f"{subject}: {type(error).__name__}: {error}") from error
