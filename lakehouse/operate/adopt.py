"""Takes over an Iceberg table that others made: its live rows become the baseline of bookmark version 1.

One snapshot of ours carries the bookmark, and the columns that the declaration adds; it is empty, unless surplus rows
of doubled keys are to go. Otherwise a table whose rows break a rule that loads rely on is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.audit.doubles import KeyCensus, named_doubles, take_census
from lakehouse.catalog import translated
from lakehouse.engine_session import engine_session
from lakehouse.errors import TargetDamaged, UsageError
from lakehouse.evolve import with_schema
from lakehouse.iceberg import live_files
from lakehouse.model import DateCounts, RowCounts, State
from lakehouse.operate.dedupe import Removal, remove_surplus
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    acting,
    change_id,
    decide,
    publish_decided,
    stand_now,
)
from lakehouse.position import Position, any_position
from lakehouse.reconcile import baseline_dates
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

ADOPT = "adopt"
"""`Manifest.kind` of the bookmark version that takes a table over."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption did, or would do. `state`: committed; nothing_to_do where the table is ours already, and for a
    dry run. `baseline` counts the live rows that were there (None: it is taken over already), `removed` those that went
    as surplus of a doubled key; `changes` are the table's, in words, `carried` its columns that are not declared."""

    table: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    baseline: int | None
    removed: int = 0
    changes: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for."""

    declaration: Declaration
    services: Services
    operator: Operator
    dry_run: bool
    remove_doubles: bool


def adopt(
    declaration: Declaration,
    services: Services,
    operator: Operator,
    *,
    dry_run: bool = False,
    remove_doubles: bool = False,
) -> Adoption:
    """Check the table and take it over, under the bookmark of the first source; a dry run only checks and tells.

    `remove_doubles` takes out all but the newest row of every key in the same commit. Raises UsageError where there is
    no table, DeclarationError or NotAvailable where it does not fit, TargetDamaged for NULL and doubled keys, Detached
    where an earlier bookmark was lost, Conflict if others always commit first.
    """
    request = _Request(acting(declaration, services), services, operator, dry_run, remove_doubles)
    return decide(declaration, operator, services, ADOPT, lambda: _once(request), dry_run=dry_run)


def _once(request: _Request) -> Adoption | None:
    """One try; None if others committed first."""
    declaration, services = request.declaration, request.services
    started_at, attempt_id = services.now(), services.new_id()
    position = any_position(declaration, services)
    if position.target.table is None:
        raise UsageError(
            f"table {declaration.table} does not exist: there is nothing to adopt, a load makes it",
            next=f"lakehouse load {declaration.table}",
        )
    if position.bookmark.version:
        return _ours_already(request, position)
    if position.others:
        raise UsageError(
            f"table {declaration.table} is loaded under bookmark {', '.join(position.others)} already: its rows are "
            "accounted for; nothing was changed",
            next=f"lakehouse plan {declaration.table}   # says how the source goes on",
        )
    batch_id = change_id(declaration, position, ADOPT)
    table = with_schema(position.target.table, position.fit.change)
    with translated(f"table={declaration.table}"):
        live = live_files(table, position.target.main)
    with engine_session(services, f"{ADOPT}-{services.new_id()}") as (con, folder):
        census = take_census(con, declaration, table, live)
        _refuse_what_breaks_loads(request, census)
        removal = None
        if census.extra and not request.dry_run:
            removal = remove_surplus(
                con, declaration, table, live, census,
                batch_id=batch_id, attempt_id=attempt_id, now=started_at, folder=folder,
            )  # fmt: skip
    if request.dry_run:
        return _report(request, position, census)
    decided = Decided(
        kind=ADOPT,
        batch_id=batch_id,
        attempt_id=attempt_id,
        live=live,
        started_at=started_at,
        rows=removal.rows if removal else RowCounts(),
        dates=_dates(census, removal),
        equations=removal.equations if removal else (),
        baseline=census.rows,
        schema=position.fit.change,
        added=(*removal.written.added, *removal.written.deletes) if removal else (),
        removed=removal.written.removed if removal else frozenset(),
    )
    if publish_decided(declaration, position, decided, request.operator, services) is None:
        return None
    return _report(request, position, census, published=True)


def _refuse_what_breaks_loads(request: _Request, census: KeyCensus) -> None:
    table = request.declaration.table
    if census.null_rows:
        named = ", ".join(f"{name} in {count} rows" for name, count in census.null_rows.items())
        first = next(iter(census.null_rows))
        raise TargetDamaged(
            f"table {table} has live rows with a NULL key: {named}; nothing was changed",
            next=f"delete or repair them: delete from {table} where {first} is null",
        )
    if census.extra and not request.remove_doubles:
        raise TargetDamaged(
            f"table {table} holds {census.doubled} keys in more than one row, {census.extra} rows too many: "
            f"{named_doubles(census)}; nothing was changed",
            next=f"lakehouse adopt {table} --dedupe   # keeps the newest row of each; or repair them yourself",
        )


def _dates(census: KeyCensus, removal: Removal | None) -> dict[str, DateCounts]:
    """The baseline counts as undated; rows that carry a landing date all the same are moved to it."""
    dates = baseline_dates(census.dates)
    for day, counts in (removal.dates if removal else {}).items():
        dates[day] = dates.get(day, DateCounts()) + counts
    return dates


def _ours_already(request: _Request, position: Position) -> Adoption:
    tag = position.target.tag
    return Adoption(
        table=request.declaration.table,
        context=request.declaration.context,
        state=State.NOTHING_TO_DO,
        dry_run=request.dry_run,
        bookmark_version=position.bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        baseline=None,
        warnings=("the table is loaded by this bookmark already: there is nothing to adopt",),
        next=f"lakehouse load {request.declaration.table}",
    )


def _report(request: _Request, position: Position, census: KeyCensus, *, published: bool = False) -> Adoption:
    declaration = request.declaration
    now = stand_now(declaration, request.services) if published else None
    change = position.fit.change
    command = f"lakehouse adopt {declaration.table}{' --dedupe' if census.extra else ''}"
    return Adoption(
        table=declaration.table,
        context=declaration.context,
        state=State.COMMITTED if now else State.NOTHING_TO_DO,
        dry_run=request.dry_run,
        bookmark_version=now.bookmark_version if now else 0,
        snapshot_id=now.snapshot_id if now else None,
        baseline=census.rows,
        removed=census.extra,
        changes=change.described if change else (),
        carried=position.fit.carried,
        warnings=position.fit.notes,
        ledger=now.ledger if now else "ok",
        next=command if request.dry_run else f"lakehouse load {declaration.table}",
    )
