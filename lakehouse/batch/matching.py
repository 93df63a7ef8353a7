"""Matches a staged batch with the target as it is now, which is made if it is missing. Writes no file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
from pyiceberg.table import Table

from lakehouse.batch.task import BatchTask
from lakehouse.catalog import translated
from lakehouse.create import ensure_table, new_properties
from lakehouse.errors import RetryLater
from lakehouse.evolve import SchemaChange, fit_table, with_schema
from lakehouse.graves import load_graves
from lakehouse.iceberg import LiveFiles, live_files
from lakehouse.merge import Match, match_target
from lakehouse.model import Sweep
from lakehouse.position import holds_rows_of_others
from lakehouse.schema import target_schema, target_spec
from lakehouse.services import Services
from lakehouse.target import Target, look, refuse_what_we_cannot_merge


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


def match_batch(
    con: duckdb.DuckDBPyConnection, task: BatchTask, sweep: Sweep, *, folder: Path, services: Services
) -> MatchedBatch:
    """Match the view `winners`; `folder` is local. Raises what `match_target` and `fit_table` raise."""
    started_at = services.now()
    target = _existing_or_new(task, services)
    assert target.table is not None
    schema = fit_table(task.declaration, target.table).change
    table = with_schema(target.table, schema)
    with translated(f"table={target.name}"):
        live = live_files(table, target.main)
    if task.declaration.hard_deletes:
        bookmark = task.position.bookmark
        load_graves(con, task.declaration, bookmark, services.state, now=started_at, folder=folder)
    match = match_target(con, task.declaration, table=table, live=live, sweep=sweep)
    return MatchedBatch(target, table, schema, live, match, started_at)


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
            properties=new_properties(task.declaration.table_properties),
            location=task.declaration.location,
            pause=services.pause,
        )
        target = look(task.declaration.table, task.declaration.context, table)
        if target.tag is not None or holds_rows_of_others(target):
            raise RetryLater(f"table {target.name} was created and loaded by somebody else meanwhile")
        fit_table(task.declaration, table)
        refuse_what_we_cannot_merge(target)
    return target
