"""Reads consumed source objects again and proves that the target contains them (`reconcile --reread`). Reads only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.batch.staging import spread_added, stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.catalog import translated
from lakehouse.delete_mark import mark_deletes
from lakehouse.errors import DataError
from lakehouse.evolve import fit_table, with_schema
from lakehouse.graves import load_graves
from lakehouse.iceberg import live_files
from lakehouse.merge import match_target, supersede
from lakehouse.model import Decision, Equation, ObjectDecision, ObjectOutcome, RowCounts, SeenObject, Sweep
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.storage import open_root
from lakehouse.transform import transform

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

    Objects whose landing file was overwritten or removed since are counted as not readable. Left out are objects that
    were read under an older declaration, for they may stage differently now; in a snapshot those before its newest
    complete date, which is the whole truth; with retract those read before the last retraction, for nothing keeps which
    keys it took; with a declared SQL those of a batch of which an object was read again since: the SQL saw all.
    """
    claimed = _wanted(declaration, position, landing_date, services)
    batches = _whole_batches(claimed, position, services) if declaration.sql else None
    wanted = claimed if batches is None else sorted((s for b in batches for s in b), key=lambda s: s.object.uri)
    staged = stage_objects(
        con,
        declaration,
        [ObjectDecision(s.object, s.landing_date, Decision.PLANNED, "reread") for s in wanted],
        table=position.target.table,
        bookmark=position.bookmark,
        landing=open_root(declaration.source.uri, services.env),
        folder=folder / "landing",
        now=services.now(),
        services=services,
        watch=Stopwatch(services.clock),
    )
    uris = {s.object.uri for s in claimed}
    unreadable = {*staged.changed, *(item.object.uri for item, _ in staged.failed)} & uris
    outcomes = staged.outcomes
    if batches is not None:
        outcomes = _transformed(con, declaration, batches, outcomes, claimed=uris, folder=folder)
    mark_deletes(con, declaration)
    declaration, _ = spread_added(con, declaration, position.target.table)
    supersede(con, declaration)
    if declaration.keyed:
        absent, older = _compared(con, declaration, position, snapshot, folder=folder, services=services)
    else:
        absent, older = _absent(con, declaration, position, snapshot), 0
    again = sum((o.rows for o in outcomes), RowCounts())
    before = _stored_rows(position, services, {o.object.identity for o in outcomes})
    return [
        Equation("reread: objects that are gone or changed = 0", len(unreadable), 0, landing_date),
        Equation("reread: records now = records then", again.read, before.read, landing_date),
        Equation("reread: rejected now = rejected then", again.rejected, before.rejected, landing_date),
        Equation("reread: accepted keys absent from the table = 0", absent, 0, landing_date),
        Equation("reread: accepted keys older in the table = 0", older, 0, landing_date),
    ]


def _compared(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    position: Position,
    snapshot: Snapshot,
    *,
    folder: Path,
    services: Services,
) -> tuple[int, int]:
    """Winners whose key the table lacks, and rows of the table that a winner would still change or remove.

    Keys that were deleted by rule are neither: remembered hard deletes, and what a snapshot's newest date left out.
    """
    table = _table(position)
    table = with_schema(table, fit_table(declaration, table).change)
    bookmark = position.bookmark
    buried = replace(bookmark, graves=position.graves)
    load_graves(con, declaration, buried, services.state, now=services.now(), folder=folder / "graves")
    with translated(f"table={declaration.table}"):
        live = live_files(table, snapshot)
    settled = bookmark.settled_date if declaration.write == "snapshot" else None
    counts = match_target(con, declaration, table=table, live=live, sweep=Sweep(settled_date=settled)).counts
    return counts.inserted, counts.updated + counts.removed


def _absent(con: duckdb.DuckDBPyConnection, declaration: Declaration, position: Position, snapshot: Snapshot) -> int:
    """Winners that the table lacks. Where rows have no unique key, each is known by the file and line it came from."""
    columns = ("_source_file", "_source_line")
    with translated(f"table={declaration.table}"):
        scan = _table(position).scan(selected_fields=columns, snapshot_id=snapshot.snapshot_id)
        con.register("scan", scan.to_arrow_batch_reader())
        con.execute("create or replace table origins as select _source_file, _source_line from scan")
        con.unregister("scan")
    ((absent,),) = con.execute(
        """select count(*) from (select _source_file, _source_line from winners
        except all select _source_file, _source_line from origins)"""
    ).fetchall()
    return int(absent)


def _table(position: Position) -> Table:
    if position.target.table is None:
        raise ValueError("a reread needs a table")
    return position.target.table


def _wanted(
    declaration: Declaration, position: Position, landing_date: date | None, services: Services
) -> list[SeenObject]:
    bookmark = position.bookmark
    first = _last_retraction(position, services) if declaration.source.on_overwrite == "retract" else 0
    settled = bookmark.settled_date if declaration.write == "snapshot" else None

    def fits(item: SeenObject) -> bool:
        consumed = item.decision is Decision.CONSUMED and item.declaration == declaration.hash
        claims = item.bookmark_version >= first and (
            settled is None or item.landing_date is None or item.landing_date >= settled
        )
        return consumed and claims

    known = bookmark.seen.stream() if landing_date is None else bookmark.seen.of_dates([landing_date])
    seen = [*filter(fits, known)]
    if declaration.write == "replace_partition":
        # what a date holds came in one batch; objects of older ones were left out with the operator's leave
        latest: dict[date | None, int] = {}
        for item in seen:
            latest[item.landing_date] = max(latest.get(item.landing_date, 0), item.bookmark_version)
        seen = [item for item in seen if item.bookmark_version == latest[item.landing_date]]
    return seen


def _whole_batches(
    claimed: Sequence[SeenObject], position: Position, services: Services
) -> list[tuple[SeenObject, ...]]:
    """The batches that read a claimed object and of which no object was read again since, each with all it read."""
    versions = {item.bookmark_version for item in claimed}
    seen = position.bookmark.seen
    batches = []
    for manifest, _ in walk(services.state, position.bookmark.head):
        if manifest.bookmark_version not in versions:
            continue
        read = [o.object.uri for o in manifest.objects if o.decision is Decision.CONSUMED]
        known = seen.lookup(read)
        whole = tuple(s for uri in read if (s := known.get(uri)) and s.bookmark_version == manifest.bookmark_version)
        if len(whole) == len(read):
            batches.append(whole)
    return batches


def _transformed(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    batches: Sequence[Sequence[SeenObject]],
    outcomes: Sequence[ObjectOutcome],
    *,
    claimed: Collection[str],
    folder: Path,
) -> tuple[ObjectOutcome, ...]:
    """Run the declared SQL over every batch that could be read as a whole, and keep the rows of claimed objects.

    Returns the outcomes of those batches.
    """
    readable = {o.object.uri for o in outcomes if o.decision is Decision.CONSUMED}
    again = [uris for batch in batches if (uris := {item.object.uri for item in batch}) <= readable]
    kept = set().union(*again)
    of_batches = [o for o in outcomes if o.object.uri in kept]
    made = transform(con, declaration, of_batches, batches=again, folder=folder)
    con.execute("delete from staged where _source_file not in (select unnest($uris::varchar[]))", {"uris": [*claimed]})
    return made.outcomes


def _last_retraction(position: Position, services: Services) -> int:
    """The newest version that took keys out of the table because an object has them no more; 0 without one."""
    manifests = (manifest for manifest, _ in walk(services.state, position.bookmark.head))
    return next((m.bookmark_version for m in manifests if m.rows.vanished), 0)


def _stored_rows(position: Position, services: Services, identities: set[tuple[str, str, str | None]]) -> RowCounts:
    """What the newest manifests said of exactly these object versions."""
    total, left = RowCounts(), set(identities)
    for manifest, _ in walk(services.state, position.bookmark.head):
        for item in manifest.objects:
            if item.object.identity in left and item.decision is Decision.CONSUMED:
                left.discard(item.object.identity)
                total += item.rows
    if left:
        raise DataError(f"no manifest tells of a consumed object: uri={sorted(left)[0][0]}")
    return total
