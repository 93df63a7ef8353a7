"""Merges a staged batch into the target and publishes rows and bookmark in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import duckdb

from lakehouse.accepted import still_accepted
from lakehouse.attempt import rejects_parquet
from lakehouse.batch.counting import Counted, count_batch
from lakehouse.batch.matching import MatchedBatch
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.batch.task import BatchTask
from lakehouse.bookmark import LOAD, changed_since, checkpoint_after, needs_checkpoint, next_chain
from lakehouse.errors import CountsDiffer, RetryLater
from lakehouse.faults import fault_point
from lakehouse.graves import next_graves
from lakehouse.lease_record import COMMIT
from lakehouse.merge import WrittenFiles, write_files
from lakehouse.merge.policy import Fate
from lakehouse.model import (
    DateCounts,
    Equation,
    FileCounts,
    GateResult,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
    Sweep,
)
from lakehouse.publish import Change, publish
from lakehouse.reconcile import batch_equations
from lakehouse.services import Progress, Services
from lakehouse.state import attempt_folder, attempts_after, write_checkpoint, write_manifest, write_rejects
from lakehouse.sweep import settled_after

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
    merge_rule: str


@dataclass(frozen=True, slots=True)
class _Merged:
    """Everything about a batch but its manifest and its commit."""

    matched: MatchedBatch
    written: WrittenFiles
    counted: Counted
    ended_at: datetime


def commit_batch(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    matched: MatchedBatch,
    outcomes: Sequence[ObjectOutcome],
    *,
    sweep: Sweep,
    superseded: int,
    transformed: tuple[Equation, ...],
    gates: tuple[GateResult, ...],
    folder: Path,
    services: Services,
    watch: Stopwatch,
) -> Committed:
    """Write the files, prove the counts, write the manifest, publish. Raises CountsDiffer before anything shows."""
    staged = sum(o.rows.staged for o in outcomes)
    with watch.step("merge"):
        merged = _merge(con, task, matched, outcomes, superseded=superseded, folder=folder, services=services)
    fault_point("after_write")
    services.progress(Progress("publish", 0, 0, staged))
    with watch.step("publish"):
        equations = _equations(task, merged, transformed)
        manifest, reference = _describe(
            con, task, merged, sweep, equations=equations, gates=gates, folder=folder, services=services
        )
        fault_point("after_manifest")
        if watch.elapsed() > STALE_ATTEMPT_SECONDS:
            _check_files(merged)
        snapshot_id = _publish(task, merged, manifest, reference, services)
    written = merged.written
    files = FileCounts(
        added=len(written.added),
        rewritten=sum(change.fate is not Fate.DELETE for change in matched.match.changes),
        delete_files=len(written.deletes),
    )
    return Committed(
        snapshot_id=snapshot_id,
        manifest=reference,
        rows=merged.counted.rows,
        outcomes=merged.counted.objects,
        dates=dict(merged.counted.dates),
        files=files,
        merge_rule=str(matched.match.rule),
    )


def _merge(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    matched: MatchedBatch,
    outcomes: Sequence[ObjectOutcome],
    *,
    superseded: int,
    folder: Path,
    services: Services,
) -> _Merged:
    staged = sum(o.rows.staged for o in outcomes)
    written = write_files(
        con,
        task.declaration,
        matched.match,
        table=matched.table,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
        ingested_at=matched.started_at,
        folder=folder / "output",
        progress=lambda done, total: services.progress(Progress("merge", done, total, staged)),
    )
    counted = count_batch(con, outcomes, match=matched.match.counts, superseded=superseded)
    return _Merged(matched, written, counted, services.now())


def _describe(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    merged: _Merged,
    sweep: Sweep,
    *,
    equations: tuple[Equation, ...],
    gates: tuple[GateResult, ...],
    folder: Path,
    services: Services,
) -> tuple[Manifest, Reference]:
    """Write the batch manifest with what it refers to."""
    declaration, bookmark, counted = task.declaration, task.position.bookmark, merged.counted
    place = attempt_folder(
        catalog=services.catalog_name,
        table=declaration.table,
        table_uuid=merged.matched.target.uuid,
        context=declaration.context,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
    )
    rejects = rejects_parquet(con, folder)
    manifest = Manifest(
        table=declaration.table,
        table_uuid=merged.matched.target.uuid,
        context=declaration.context,
        bookmark_version=bookmark.version + 1,
        batch_id=task.batch_id,
        attempt_id=task.attempt_id,
        run_id=task.run_id,
        kind=LOAD,
        mode=task.mode,
        advance=task.mode is not Mode.NO_ADVANCE,
        declaration=declaration.hash,
        lookback_days=declaration.source.lookback_days,
        started_at=task.now,
        merge_started_at=merged.matched.started_at,
        merge_ended_at=merged.ended_at,
        written_at=services.now(),
        objects=counted.objects,
        rows=counted.rows,
        dates=counted.dates,
        equations=equations,
        gates=gates,
        rejects=write_rejects(services.state, rejects, folder=place) if rejects else None,
        checkpoint=None,
        chain=next_chain(bookmark),
        reason="; ".join(f"gate {g.name} {g.accepted}" for g in gates if g.accepted),
        graves=next_graves(
            con, declaration, bookmark, services.state, now=merged.matched.started_at, place=place, folder=folder
        ),
        settled_date=settled_after(sweep),
        held=bookmark.held,
        source_uri=declaration.source.uri,
        accepted=still_accepted(
            bookmark,
            [o.object for o in counted.objects],
            declaration=declaration.hash,
            advance=task.mode is not Mode.NO_ADVANCE,
        ),
    )
    if needs_checkpoint(manifest.bookmark_version, changed=changed_since(bookmark)):
        checkpoint = write_checkpoint(services.state, checkpoint_after(bookmark, manifest), folder=place)
        fault_point("after_checkpoint")
        manifest = replace(manifest, checkpoint=checkpoint)
    return manifest, write_manifest(services.state, manifest, folder=place)


def _equations(task: BatchTask, merged: _Merged, transformed: tuple[Equation, ...]) -> tuple[Equation, ...]:
    """What was proved of the batch. Raises CountsDiffer if an equation does not hold."""
    before = merged.matched.live.rows
    equations = batch_equations(
        objects=merged.counted.objects,
        rows=merged.counted.rows,
        dates=merged.counted.dates,
        live_before=before,
        live_after=before + merged.written.live_change,
        keys_found=merged.written.keys_found,
        lineage=task.declaration.lineage,
        transformed=transformed,
    )
    if broken := [e for e in equations if not e.holds]:
        named = "; ".join(f"{e.name}: {e.left} is not {e.right}" for e in broken)
        raise CountsDiffer(
            f"table {task.declaration.table}: the batch was not published, its counts differ: "
            f"batch={task.batch_id} {named}"
        )
    return equations


def _check_files(merged: _Merged) -> None:
    for file in (*merged.written.added, *merged.written.deletes):
        if not merged.matched.table.io.new_input(file.file_path).exists():
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
        added=(*merged.written.added, *merged.written.deletes),
        removed=merged.written.removed,
        schema=merged.matched.schema,
    )

    return publish(
        services.catalog,
        merged.matched.target,
        change,
        live=merged.matched.live,
        attempts_after=partial(attempts_after, services.state),
        pause=services.pause,
        sending=partial(services.progress, Progress(COMMIT, 0, 0, manifest.rows.staged)),
    ).snapshot_id
