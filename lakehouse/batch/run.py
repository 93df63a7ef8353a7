"""Runs one batch: read and stage, transform, gate, merge, publish. Returns how it ended; only a published batch changed
anything.

Files of an attempt that ends unpublished stay where they are: invisible, and removed by maintenance under the rule of
DESIGN §3, never here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from lakehouse import naming
from lakehouse.accepted import accepted_for
from lakehouse.added import effective_declaration
from lakehouse.attempt import (
    clear_staging,
    export_staging,
    rejects_parquet,
    write_record,
)
from lakehouse.batch.commit import Committed, commit_batch
from lakehouse.batch.matching import PreparedTarget, match_batch, prepare, refit
from lakehouse.batch.measure import measure
from lakehouse.batch.staging import Staged, spread_added, stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.batch.task import BatchTask
from lakehouse.delete_mark import mark_deletes
from lakehouse.engine_session import engine_session
from lakehouse.errors import ConfigurationError
from lakehouse.faults import fault_point
from lakehouse.gate import accept, deleted_ratio_gate, evaluate
from lakehouse.masking import hides, shown_text
from lakehouse.merge import Superseded, supersede
from lakehouse.model import (
    DateCounts,
    FileCounts,
    GateResult,
    ObjectDecision,
    ObjectOutcome,
    Reference,
    RowCounts,
    State,
)
from lakehouse.position import read_elsewhere
from lakehouse.services import Progress, Services
from lakehouse.stage import drop_objects
from lakehouse.state import write_rejects
from lakehouse.storage import Storage
from lakehouse.sweep import kept_outcomes, sweep_for, withheld_dates
from lakehouse.transform import transform

MOST_NAMED = 20
"""So many new columns are named by a warning; the receipt has all of them."""

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How a batch ended. CONFLICT: others committed first. NOTHING_TO_DO: no object of it could be fetched.

    `withheld` are landing dates that were not replaced because one of their objects could not be read; `merge_rule` is
    the rule by which files were rewritten or not.
    """

    state: State
    task: BatchTask
    rows: RowCounts = field(default_factory=RowCounts)
    outcomes: tuple[ObjectOutcome, ...] = ()
    dates: dict[str, DateCounts] = field(default_factory=dict)
    files: FileCounts = field(default_factory=FileCounts)
    gates: tuple[GateResult, ...] = ()
    snapshot_id: int | None = None
    manifest: Reference | None = None
    failed: tuple[tuple[ObjectDecision, str], ...] = ()
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    withheld: frozenset[date | None] = frozenset()
    merge_rule: str = ""
    detail: str = ""


def run_batch(task: BatchTask, *, landing: Storage, services: Services, watch: Stopwatch) -> BatchResult:
    """Stage the objects, ask the gates, merge and publish. Raises what the steps raise."""
    with (
        _engine_errors(task.declaration, services),
        engine_session(services, task.attempt_id) as (con, folder),
        ThreadPoolExecutor(1, thread_name_prefix="prepare") as beside,
    ):
        size = sum(item.object.size for item in task.objects)
        target = task.position.target
        known = effective_declaration(task.declaration, target.table)
        prepared = beside.submit(prepare, known, target, batch_bytes=size)
        staged = stage_objects(
            con,
            task.declaration,
            task.objects,
            table=target.table,
            bookmark=task.position.bookmark,
            landing=landing,
            folder=folder / "landing",
            now=task.now,
            services=services,
            watch=watch,
        )
        fault_point("after_stage")
        staged = _withhold(con, task, staged)
        if staged.changed or not staged.outcomes:
            return BatchResult(
                State.NOTHING_TO_DO, task, failed=staged.failed, changed=staged.changed, withheld=staged.withheld
            )
        with watch.step("stage"):
            made = transform(con, task.declaration, staged.outcomes, folder=folder)
            staged = replace(staged, outcomes=made.outcomes, transformed=made.equations)
            mark_deletes(con, task.declaration)
            task, staged = _spread(con, task, staged)
            superseded = supersede(con, task.declaration)
            gates = _ask_gates(task, staged, superseded, landing=landing, services=services)
        fault_point("after_gates")
        if any(g.stops for g in gates):
            return _blocked(con, task, staged, gates, folder=folder, services=services)
        return _merge(
            con, task, staged, superseded.rows, gates, prepared, folder=folder, services=services, watch=watch
        )


def _withhold(con: duckdb.DuckDBPyConnection, task: BatchTask, staged: Staged) -> Staged:
    """Take the dates out of the batch that it must not replace; their objects stay unseen."""
    dates = withheld_dates(task.declaration, staged.outcomes, failed=[item for item, _ in staged.failed])
    if not dates:
        return staged
    outcomes = kept_outcomes(staged.outcomes, dates)
    dropped = [o.object.uri for o in staged.outcomes if o not in outcomes]
    drop_objects(con, dropped)
    named = ", ".join(sorted(day.isoformat() if day else "undated" for day in dates))
    warning = f"not replaced, for an object of theirs could not be read: {named}"
    return replace(staged, outcomes=outcomes, withheld=dates, warnings=(*staged.warnings, warning))


def _spread(con: duckdb.DuckDBPyConnection, task: BatchTask, staged: Staged) -> tuple[BatchTask, Staged]:
    """Go on with the columns that files brought as with declared ones."""
    declaration, new = spread_added(con, task.declaration, task.position.target.table)
    if not new:
        return replace(task, declaration=declaration), staged
    more = f" and {len(new) - MOST_NAMED} more" if len(new) > MOST_NAMED else ""
    warning = (
        f"columns of files that nobody declared are columns of the table now, as text: "
        f"{', '.join(new[:MOST_NAMED])}{more}; declare them in {declaration.path} to have them checked"
    )
    return replace(task, declaration=declaration), replace(staged, warnings=(*staged.warnings, warning))


def _merge(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    staged: Staged,
    superseded: int,
    gates: tuple[GateResult, ...],
    prepared: Future[PreparedTarget | None],
    *,
    folder: Path,
    services: Services,
    watch: Stopwatch,
) -> BatchResult:
    declaration = task.declaration
    sweep, warnings = sweep_for(
        declaration,
        plan=task.plan,
        bookmark=task.position.bookmark,
        outcomes=staged.outcomes,
        failed=[item for item, _ in staged.failed],
        elsewhere=read_elsewhere(declaration, task.position, [o.object.uri for o in staged.outcomes], services),
    )
    staged = replace(staged, warnings=(*staged.warnings, *warnings))
    services.progress(Progress("merge", 0, 0, sum(o.rows.staged for o in staged.outcomes)))
    with watch.step("merge"):
        ready = prepared.result()
        if ready is not None and ready.declaration.added != declaration.added:
            ready = refit(ready, declaration)
        matched = match_batch(con, task, sweep, prepared=ready, folder=folder / "graves", services=services)
        fault_point("after_match")
    if sweep.snapshot_date is not None:
        vanished = matched.match.counts.vanished
        ratio = deleted_ratio_gate(vanished, matched.live.rows, declaration.max_deleted_ratio)
        gates = (*gates, *accept([ratio], _accepted(task, staged)))
        if gates[-1].stops:
            return _blocked(con, task, staged, gates, folder=folder, services=services)
    committed = commit_batch(
        con,
        task,
        matched,
        staged.outcomes,
        sweep=sweep,
        superseded=superseded,
        transformed=staged.transformed,
        gates=gates,
        folder=folder,
        services=services,
        watch=watch,
    )
    if committed.snapshot_id is None:
        return BatchResult(State.CONFLICT, task, failed=staged.failed, withheld=staged.withheld)
    return _published(task, staged, gates, committed, services)


def _ask_gates(
    task: BatchTask, staged: Staged, superseded: Superseded, *, landing: Storage, services: Services
) -> tuple[GateResult, ...]:
    measured = measure(
        task.declaration,
        staged.outcomes,
        superseded=superseded,
        bookmark=task.position.bookmark,
        landing=landing,
        services=services,
        scheduled=task.scheduled,
    )
    return accept(evaluate(task.declaration, measured, scheduled=task.scheduled), _accepted(task, staged))


def _accepted(task: BatchTask, staged: Staged) -> dict[str, str]:
    """What operators accepted for exactly the objects that were staged, by gate."""
    identities = [o.object.identity for o in staged.outcomes]
    found = accepted_for(task.position.bookmark.accepted, identities, declaration=task.declaration.hash)
    return {gate: one.text for gate, one in found.items()}


def _published(
    task: BatchTask, staged: Staged, gates: tuple[GateResult, ...], committed: Committed, services: Services
) -> BatchResult:
    clear_staging(services.state, state_root(task, services), context=task.declaration.context)
    return BatchResult(
        State.COMMITTED,
        task,
        rows=committed.rows,
        outcomes=committed.outcomes,
        dates=committed.dates,
        files=committed.files,
        gates=gates,
        snapshot_id=committed.snapshot_id,
        manifest=committed.manifest,
        failed=staged.failed,
        warnings=staged.warnings,
        withheld=staged.withheld,
        merge_rule=committed.merge_rule,
    )


def _blocked(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    staged: Staged,
    gates: tuple[GateResult, ...],
    *,
    folder: Path,
    services: Services,
) -> BatchResult:
    """Keep what an operator needs to look at; target and bookmark stay as they were."""
    root = state_root(task, services)
    place = naming.staging_folder(task.declaration.context, task.batch_id, task.attempt_id)
    data = rejects_parquet(con, folder)
    failed = [g for g in gates if g.stops]
    detail = "; ".join(
        f"gate {g.name}: {g.value} is over {g.limit}" + (f" ({g.detail})" if g.detail else "") for g in failed
    )
    record = replace(
        task.record(state=State.BLOCKED, step="gate", error=detail, ended_at=services.now()),
        objects=tuple(o.object.identity for o in staged.outcomes),
        gates=gates,
        rejects=write_rejects(services.state, data, folder=root + place) if data else None,
        staging=export_staging(
            con, services.state, declaration=task.declaration, root=root, place=place, folder=folder
        ),
    )
    write_record(services.state, root, record)
    rows = sum((o.rows for o in staged.outcomes), RowCounts())
    return BatchResult(
        State.BLOCKED, task, rows=rows, outcomes=staged.outcomes, gates=gates, failed=staged.failed, detail=detail
    )


def state_root(task: BatchTask, services: Services) -> str:
    return naming.incarnation_root(services.catalog_name, task.declaration.table, task.position.target.uuid)


@contextmanager
def _engine_errors(declaration: Declaration, services: Services) -> Iterator[None]:
    """What the engine cannot do for want of memory or disk is the environment's to change; another error of it is ours,
    and quotes no hidden value."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise ConfigurationError(
            f"the batch does not fit: memory={services.settings.memory_bytes} bytes, spill={services.settings.spill}: "
            f"{str(error).splitlines()[0]}",
            next="raise LAKEHOUSE_MEMORY, give LAKEHOUSE_SPILL more room, or declare max_bytes for smaller batches",
        ) from error
    except duckdb.IOException as error:
        raise ConfigurationError(
            f"the spill folder cannot be used: {services.settings.spill}: {str(error).splitlines()[0]}",
            next="point LAKEHOUSE_SPILL to a local folder with room",
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ConfigurationError(
            f"the spill folder cannot be used: {services.settings.spill}: {error.strerror}",
            next="point LAKEHOUSE_SPILL to a local folder with room",
        ) from error
    except duckdb.Error as error:
        if not hides(declaration):
            raise
        raise type(error)(shown_text(str(error), declaration)).with_traceback(error.__traceback__) from None
