"""Repairs a target in which keys stand in several live rows: the newest row of each stays, the others are deleted.

One published snapshot of ours with the bookmark's next version, as every change; nothing of the landing zone is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table

from lakehouse.audit.doubles import DoubledKey, KeyCensus, find_surplus, take_census
from lakehouse.bookmark import DEDUPE
from lakehouse.catalog import translated
from lakehouse.engine_session import engine_session
from lakehouse.errors import CountsDiffer, UsageError
from lakehouse.evolve import with_schema
from lakehouse.iceberg import LiveFiles, live_files
from lakehouse.merge import Match, MatchCounts, WrittenFiles, supersede, write_files
from lakehouse.merge.hits import create_tables
from lakehouse.merge.match import file_changes
from lakehouse.merge.policy import merge_rule
from lakehouse.model import DateCounts, Equation, RowCounts, State
from lakehouse.naming import IS_DELETE, quote_name
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    acting,
    change_id,
    lease_of,
    publish_decided,
    stand_now,
    until_published,
)
from lakehouse.position import Position, find_position
from lakehouse.reconcile import KEYS_DISTINCT, LIVE_CHANGE, day_text
from lakehouse.services import Services
from lakehouse.stage import create_staging

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Deduplication:
    """What a repair did, or would do. `doubled` counts keys, `removed` rows, `first` names some keys. `state`:
    committed, or nothing_to_do where no key is doubled, and for a dry run."""

    table: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    rows: int
    doubled: int
    removed: int
    first: tuple[DoubledKey, ...] = ()
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class Removal:
    """The surplus rows of a table, and the written files that take them out."""

    rows: RowCounts
    dates: dict[str, DateCounts]
    equations: tuple[Equation, ...]
    written: WrittenFiles


def dedupe(declaration: Declaration, services: Services, operator: Operator, *, dry_run: bool = False) -> Deduplication:
    """Remove all but the newest row of every key; a dry run only finds and names them.

    Raises UsageError for a table that is not keyed, was never loaded or does not exist, CountsDiffer before anything
    became visible, Conflict if others always commit first.
    """
    if not declaration.keyed:
        raise UsageError(f"table {declaration.table}: in the mode write: {declaration.write} keys may repeat")
    declaration = acting(declaration, services)
    if dry_run:
        with engine_session(services, f"{DEDUPE}-{services.new_id()}") as (con, _):
            position, _, census = _survey(con, declaration, services)
        return _report(declaration, position, census, dry_run=True)
    with lease_of(declaration, operator, services, step=DEDUPE):
        return until_published(declaration, lambda: _once(declaration, services, operator))


def _once(declaration: Declaration, services: Services, operator: Operator) -> Deduplication | None:
    """One try; None if others committed first."""
    started_at, attempt_id = services.now(), services.new_id()
    with engine_session(services, f"{DEDUPE}-{services.new_id()}") as (con, folder):
        position, live, census = _survey(con, declaration, services)
        if not census.extra:
            return _report(declaration, position, census, dry_run=False)
        batch_id = change_id(declaration, position, DEDUPE)
        table = with_schema(_table(position), position.fit.change)
        removal = remove_surplus(
            con, declaration, table, live, census,
            batch_id=batch_id, attempt_id=attempt_id, now=started_at, folder=folder,
        )  # fmt: skip
    decided = Decided(
        kind=DEDUPE,
        batch_id=batch_id,
        attempt_id=attempt_id,
        live=live,
        started_at=started_at,
        rows=removal.rows,
        dates=removal.dates,
        equations=removal.equations,
        schema=position.fit.change,
        added=(*removal.written.added, *removal.written.deletes),
        removed=removal.written.removed,
        maintain=DEDUPE,
    )
    if publish_decided(declaration, position, decided, operator, services) is None:
        return None
    return _report(declaration, position, census, dry_run=False, services=services)


def remove_surplus(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    table: Table,
    live: LiveFiles,
    census: KeyCensus,
    *,
    batch_id: str,
    attempt_id: str,
    now: datetime,
    folder: Path,
) -> Removal:
    """Write the files that take out the surplus rows of a census; they stay invisible until they are published.

    Each data file is rewritten, dropped or left with a position delete file, by the rule of the merge.
    """
    create_tables(con)
    find_surplus(con, declaration, table, live, census)
    stage_nothing(con, declaration)
    rule = merge_rule(table.properties, format_version=table.metadata.format_version)
    by_date = con.execute("select old_date, count(*) from gone group by 1").fetchall()
    removed = sum(int(count) for _, count in by_date)
    written = write_files(
        con,
        declaration,
        Match(MatchCounts(0, 0, 0, 0, replaced=removed), file_changes(con, census.files, census.own, rule), rule, ()),
        table=table,
        batch_id=batch_id,
        attempt_id=attempt_id,
        ingested_at=now,
        folder=folder / "output",
    )
    equations = (
        Equation(LIVE_CHANGE, written.live_change, -removed),
        Equation(KEYS_DISTINCT, census.rows - removed, census.rows - census.extra),
    )
    if broken := [e for e in equations if not e.holds]:
        named = "; ".join(f"{e.name}: {e.left} is not {e.right}" for e in broken)
        raise CountsDiffer(f"table {declaration.table}: nothing was published, the counts differ: {named}")
    dates = {day_text(day): DateCounts(lost=int(count)) for day, count in by_date}
    return Removal(RowCounts(deleted=removed, replaced=removed), dates, equations, written)


def _survey(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, services: Services
) -> tuple[Position, LiveFiles, KeyCensus]:
    position = find_position(declaration, services)
    table = with_schema(_table(position), position.fit.change)
    with translated(f"table={declaration.table}"):
        live = live_files(table, position.target.main)
    return position, live, take_census(con, declaration, table, live)


def _table(position: Position) -> Table:
    if position.target.table is None:
        raise UsageError(f"table {position.target.name} does not exist", next=f"lakehouse load {position.target.name}")
    return position.target.table


def stage_nothing(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> None:
    """A batch without rows: the writer of files adds the winners of `staged`, and there are none."""
    create_staging(con, declaration)
    if declaration.delete_when:
        con.execute(f"alter table staged add column {quote_name(IS_DELETE)} boolean")
    supersede(con, declaration)


def _report(
    declaration: Declaration, position: Position, census: KeyCensus, *, dry_run: bool, services: Services | None = None
) -> Deduplication:
    """`services` is given once something was published."""
    nulls = tuple(
        f"column {name} of the key is NULL in {count} rows, which no load can match"
        for name, count in census.null_rows.items()
    )
    now = stand_now(declaration, services) if services else None
    tag = position.target.tag
    return Deduplication(
        table=declaration.table,
        context=declaration.context,
        state=State.COMMITTED if now else State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=now.bookmark_version if now else position.bookmark.version,
        snapshot_id=now.snapshot_id if now else (tag.snapshot_id if tag else None),
        rows=census.rows,
        doubled=census.doubled,
        removed=census.extra,
        first=census.first,
        warnings=nulls,
        ledger=now.ledger if now else "ok",
        next=f"lakehouse maintain {declaration.table} dedupe" if dry_run and census.extra else "",
    )
