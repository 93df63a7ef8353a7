"""Merges a staged batch into the target and publishes rows and bookmark in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import duckdb

from lakehouse.attempt import rejects_parquet
from lakehouse.batch.counting import Counted, count_batch
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.batch.task import BatchTask
from lakehouse.bookmark import LOAD, needs_checkpoint, next_chain, seen_after
from lakehouse.catalog import translated
from lakehouse.create import ensure_table
from lakehouse.errors import CountsDiffer, RetryLater
from lakehouse.faults import fault_point
from lakehouse.iceberg import LiveManifest, live_manifests
from lakehouse.merge import Match, WrittenFiles, match_target, write_files
from lakehouse.model import DateCounts, Equation, FileCounts, GateResult, Manifest, ObjectOutcome, Reference, RowCounts
from lakehouse.publish import Change, publish
from lakehouse.reconcile import batch_equations
from lakehouse.schema import check_fit, target_schema, target_spec
from lakehouse.services import Progress, Services
from lakehouse.state import attempt_folder, walk, write_checkpoint, write_manifest, write_rejects
from lakehouse.target import Target, look, refuse_what_we_cannot_merge

TABLE_PROPERTIES = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
STALE_ATTEMPT_SECONDS = 3600.0
"""An attempt older than this looks whether its files still exist before it commits (DESIGN §3)."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A merged batch; `snapshot_id` None if others committed first."""

    snapshot_id: int | None
    manifest: Reference
    rows: RowCounts
    outcomes: tuple[ObjectOutcome, ...]
    dates: dict[str, DateCounts]
    files: FileCounts


@dataclass(frozen=True, slots=True)
class _Merged:
    """Everything about a batch but its manifest and its commit."""

    target: Target
    manifests: tuple[LiveManifest, ...]
    match: Match
    written: WrittenFiles
    counted: Counted
    started_at: datetime
    ended_at: datetime


def commit_batch(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    outcomes: Sequence[ObjectOutcome],
    *,
    superseded: int,
    gates: tuple[GateResult, ...],
    folder: Path,
    services: Services,
    watch: Stopwatch,
) -> Committed:
    """Merge, prove the counts, write the manifest, publish. Raises CountsDiffer before anything became visible."""
    staged = sum(o.rows.staged for o in outcomes)
    services.progress(Progress("merge", 0, 0, staged))
    with watch.step("merge"):
        merged = _merge(con, task, outcomes, superseded=superseded, folder=folder, services=services)
    fault_point("after_write")
    services.progress(Progress("publish", 0, 0, staged))
    with watch.step("publish"):
        manifest, reference = _describe(con, task, merged, gates=gates, folder=folder, services=services)
        if watch.elapsed() > STALE_ATTEMPT_SECONDS:
            _check_files(merged)
        snapshot_id = _publish(task, merged, manifest, reference, services)
    files = FileCounts(added=len(merged.written.added), rewritten=len(merged.written.removed))
    return Committed(
        snapshot_id, reference, merged.counted.rows, merged.counted.objects, dict(merged.counted.dates), files
    )


def _merge(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    outcomes: Sequence[ObjectOutcome],
    *,
    superseded: int,
    folder: Path,
    services: Services,
) -> _Merged:
    started_at = services.now()
    target = _existing_or_new(task, services)
    assert target.table is not None
    with translated(f"table={target.name}"):
        manifests = live_manifests(target.table, target.main)
    match = match_target(
        con,
        task.declaration,
        io=target.table.io,
        schema=target.table.schema(),
        files=[e.data_file for m in manifests for e in m.entries],
        folder=folder / "target",
    )
    written = write_files(
        con,
        task.declaration,
        match,
        table=target.table,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
        ingested_at=started_at,
        folder=folder / "output",
    )
    counted = count_batch(con, outcomes, match=match.counts, superseded=superseded)
    return _Merged(target, manifests, match, written, counted, started_at, services.now())


def _existing_or_new(task: BatchTask, services: Services) -> Target:
    """The planned target; a new one is created now, after the gates, and must be what was declared."""
    target = task.position.target
    if target.table is None:
        schema = target_schema(task.declaration)
        spec = target_spec(task.declaration, schema)
        table = ensure_table(
            services.catalog,
            task.declaration.table,
            schema=schema,
            spec=spec,
            properties=TABLE_PROPERTIES,
            pause=services.pause,
        )
        target = look(task.declaration.table, task.declaration.context, table)
        if target.tag is not None:
            raise RetryLater(f"table {target.name} was created and loaded by somebody else meanwhile")
        check_fit(task.declaration, table.schema())
        refuse_what_we_cannot_merge(target)
    return target


def _describe(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    merged: _Merged,
    *,
    gates: tuple[GateResult, ...],
    folder: Path,
    services: Services,
) -> tuple[Manifest, Reference]:
    """Write the batch manifest with what it refers to; refuse the batch if an equation does not hold."""
    declaration, bookmark, counted = task.declaration, task.position.bookmark, merged.counted
    place = attempt_folder(
        catalog=services.catalog_name,
        table=declaration.table,
        table_uuid=merged.target.uuid,
        context=declaration.context,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
    )
    rejects = rejects_parquet(con, folder)
    manifest = Manifest(
        table=declaration.table,
        table_uuid=merged.target.uuid,
        context=declaration.context,
        bookmark_version=bookmark.version + 1,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
        run_id=task.run_id,
        kind=LOAD,
        mode=task.mode,
        advance=True,
        declaration=declaration.hash,
        lookback_days=declaration.source.lookback_days,
        started_at=task.now,
        merge_started_at=merged.started_at,
        merge_ended_at=merged.ended_at,
        written_at=services.now(),
        objects=counted.objects,
        rows=counted.rows,
        dates=counted.dates,
        equations=_equations(task, merged),
        gates=gates,
        rejects=write_rejects(services.state, rejects, folder=place) if rejects else None,
        checkpoint=None,
        chain=next_chain(bookmark),
    )
    if needs_checkpoint(manifest.bookmark_version):
        checkpoint = write_checkpoint(services.state, seen_after(bookmark, manifest), folder=place)
        manifest = replace(manifest, checkpoint=checkpoint)
    return manifest, write_manifest(services.state, manifest, folder=place)


def _equations(task: BatchTask, merged: _Merged) -> tuple[Equation, ...]:
    before = sum(e.data_file.record_count for m in merged.manifests for e in m.entries)
    gone = sum(
        e.data_file.record_count
        for m in merged.manifests
        for e in m.entries
        if e.data_file.file_path in merged.written.removed
    )
    equations = batch_equations(
        objects=merged.counted.objects,
        rows=merged.counted.rows,
        dates=merged.counted.dates,
        live_before=before,
        live_after=before - gone + sum(f.record_count for f in merged.written.added),
        keys_found=merged.written.keys_found,
        lineage=task.declaration.lineage,
    )
    if broken := [e for e in equations if not e.holds]:
        named = "; ".join(f"{e.name}: {e.left} is not {e.right}" for e in broken)
        raise CountsDiffer(
            f"table {task.declaration.table}: the batch was not published, its counts differ: "
            f"batch={task.batch_id} {named}"
        )
    return equations


def _check_files(merged: _Merged) -> None:
    assert merged.target.table is not None
    for file in merged.written.added:
        if not merged.target.table.io.new_input(file.file_path).exists():
            raise RetryLater(f"a data file of this old attempt was removed before it was committed: {file.file_path}")


def _publish(
    task: BatchTask, merged: _Merged, manifest: Manifest, reference: Reference, services: Services
) -> int | None:
    change = Change(
        attempt_id=task.attempt_id,
        batch_id=task.batch_id,
        bookmark_version=manifest.bookmark_version,
        manifest=reference,
        rows=manifest.rows,
        added=merged.written.added,
        removed=merged.written.removed,
    )

    def attempts_after(head: Reference, version: int) -> set[str]:
        return {m.attempt_id for m, _ in walk(services.state, head, above=version - 1)}

    return publish(
        services.catalog,
        merged.target,
        change,
        manifests=merged.manifests,
        attempts_after=attempts_after,
        pause=services.pause,
    ).snapshot_id
