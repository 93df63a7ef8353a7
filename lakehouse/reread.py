"""Reads consumed source objects again and proves that the target contains them (`reconcile --reread`). Reads only."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table.snapshots import Snapshot

from lakehouse.batch.staging import stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.catalog import translated
from lakehouse.errors import DataError
from lakehouse.iceberg import live_manifests
from lakehouse.merge import match_target, supersede
from lakehouse.model import Decision, Equation, ObjectDecision, RowCounts, SeenObject
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.storage import open_storage, split_uri

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def reread_equations(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    position: Position,
    snapshot: Snapshot,
    *,
    landing_date: date | None,
    folder: Path,
    services: Services,
) -> list[Equation]:
    """Stage the latest consumed version of every object (of one date) again and match it with the snapshot.

    Objects whose landing file was overwritten or removed since are counted as not readable. Objects that were read
    under an older declaration are left out: they may stage differently now.
    """
    table = position.target.table
    if table is None:
        raise ValueError("a reread needs a table")
    wanted = _wanted(declaration, position, landing_date)
    root, _ = split_uri(declaration.source.uri)
    staged = stage_objects(
        con,
        declaration,
        wanted,
        bookmark=position.bookmark,
        landing=open_storage(root, services.env),
        folder=folder / "landing",
        now=services.now(),
        services=services,
        watch=Stopwatch(services.clock),
    )
    supersede(con, declaration)
    with translated(f"table={declaration.table}"):
        manifests = live_manifests(table, snapshot)
    match = match_target(
        con,
        declaration,
        io=table.io,
        schema=table.schema(),
        files=[e.data_file for m in manifests for e in m.entries],
        folder=folder / "target",
    )
    again = sum((o.rows for o in staged.outcomes), RowCounts())
    before = _stored_rows(position, services, {o.object.identity for o in staged.outcomes})
    unreadable = len(staged.changed) + len(staged.failed)
    return [
        Equation("reread: objects that are gone or changed = 0", unreadable, 0, landing_date),
        Equation("reread: records now = records then", again.read, before.read, landing_date),
        Equation("reread: rejected now = rejected then", again.rejected, before.rejected, landing_date),
        Equation("reread: accepted keys absent from the table = 0", match.counts.inserted, 0, landing_date),
        Equation("reread: accepted keys older in the table = 0", match.counts.updated, 0, landing_date),
    ]


def _wanted(declaration: Declaration, position: Position, landing_date: date | None) -> list[ObjectDecision]:
    def fits(item: SeenObject) -> bool:
        dated = landing_date is None or item.landing_date == landing_date
        return dated and item.decision is Decision.CONSUMED and item.declaration == declaration.hash

    seen = sorted(position.bookmark.seen.values(), key=lambda s: s.object.uri)
    return [ObjectDecision(s.object, s.landing_date, Decision.PLANNED, "reread") for s in seen if fits(s)]


def _stored_rows(position: Position, services: Services, identities: set[tuple[str, str, str | None]]) -> RowCounts:
    """What the newest manifests said of exactly these object versions."""
    total, left = RowCounts(), set(identities)
    for manifest, _ in walk(services.state, position.bookmark.head):
        for item in manifest.objects:
            if item.object.identity in left:
                left.discard(item.object.identity)
                total += item.rows
    if left:
        raise DataError(f"no manifest tells of a consumed object: uri={sorted(left)[0][0]}")
    return total
