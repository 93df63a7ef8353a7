"""Matches a staged batch with the target as it is now, which is made if it is missing. Writes no file.

What matching needs of an existing target is read while the batch is staged (`prepare`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table

from lakehouse.batch.task import BatchTask
from lakehouse.catalog import translated
from lakehouse.create import ensure_table, new_properties
from lakehouse.errors import RetryLater
from lakehouse.evolve import SchemaChange, fit_table, with_schema
from lakehouse.faults import fault_point
from lakehouse.graves import load_graves
from lakehouse.iceberg import LiveFiles, live_files
from lakehouse.merge import Match, TargetReader, match_target, numbered
from lakehouse.model import Sweep
from lakehouse.position import holds_rows_of_others
from lakehouse.schema import target_schema, target_spec
from lakehouse.services import Services
from lakehouse.target import Target, look, refuse_what_we_cannot_merge

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


OPENED_AHEAD = 64
"""The data files of a table that has no more than so many are opened before it is known which of them are hit."""
SMALL_BATCH = 16 << 20
"""Bytes of the largest batch for which files are opened ahead. To fetch a larger one takes longer than to open the hit
files later, and twice as long beside requests for files that are not hit."""


@dataclass(frozen=True, slots=True)
class PreparedTarget:
    """A target before the match: the planned one with the schema that the commit makes for the declaration, its files,
    and their reader."""

    declaration: Declaration
    target: Target
    table: Table
    schema: SchemaChange | None
    live: LiveFiles
    reader: TargetReader


@dataclass(frozen=True, slots=True)
class MatchedBatch:
    """A batch and the target that it was matched with. `table` is the target's with the schema that the commit makes,
    `target` as the catalog gave it."""

    target: Target
    table: Table
    schema: SchemaChange | None
    live: LiveFiles
    match: Match
    started_at: datetime


def prepare(declaration: Declaration, target: Target, *, batch_bytes: int = 0) -> PreparedTarget | None:
    """Read what is live in an existing target, and open its files if they are few; None if there is no table yet.

    `batch_bytes` is the size of the batch's objects.
    Raises what `fit_table` raises. Safe beside the thread that stages the batch.
    """
    if target.table is None:
        return None
    schema = fit_table(declaration, target.table).change
    table = with_schema(target.table, schema)
    with translated(f"table={target.name}"):
        live = live_files(table, target.main)
    reader = TargetReader(table)
    if len(live.data) <= OPENED_AHEAD and batch_bytes <= SMALL_BATCH:
        reader.open_ahead(numbered(live))
    return PreparedTarget(declaration, target, table, schema, live, reader)


def refit(prepared: PreparedTarget, declaration: Declaration) -> PreparedTarget:
    """The same target for a declaration that files have added columns to since; opened files are opened again."""
    assert prepared.target.table is not None
    schema = fit_table(declaration, prepared.target.table).change
    table = with_schema(prepared.target.table, schema)
    return replace(prepared, declaration=declaration, table=table, schema=schema, reader=TargetReader(table))


def match_batch(
    con: duckdb.DuckDBPyConnection,
    task: BatchTask,
    sweep: Sweep,
    *,
    prepared: PreparedTarget | None,
    folder: Path,
    services: Services,
) -> MatchedBatch:
    """Match the view `winners` with the prepared target, or with one that is made now; `folder` is local.

    Raises what `match_target` and `fit_table` raise.
    """
    started_at = services.now()
    found = prepared or prepare(task.declaration, create_target(task.declaration, services))
    assert found is not None
    if task.declaration.hard_deletes:
        bookmark = replace(task.position.bookmark, graves=task.position.graves)
        load_graves(con, task.declaration, bookmark, services.state, now=started_at, folder=folder)
    match = match_target(con, task.declaration, table=found.table, live=found.live, sweep=sweep, reader=found.reader)
    return MatchedBatch(found.target, found.table, found.schema, found.live, match, started_at)


def create_target(declaration: Declaration, services: Services) -> Target:
    """The target that does not exist yet, created after the gates or by an operator's first change; it must be what was
    declared. What files add comes with their rows."""
    declared = declaration.declared
    schema = target_schema(declared)
    spec = target_spec(declared, schema)
    table = ensure_table(
        services.catalog,
        declaration.table,
        schema=schema,
        spec=spec,
        properties=new_properties(declaration.table_properties),
        location=declaration.location,
        pause=services.pause,
    )
    fault_point("after_create")
    target = look(declaration.table, declaration.context, table)
    if target.tag is not None or holds_rows_of_others(target):
        raise RetryLater(f"table {target.name} was created and loaded by somebody else meanwhile")
    fit_table(declared, table)
    refuse_what_we_cannot_merge(target)
    return target
