"""A move of a context's position: what it is, how it is published, and what a load would read after it.

Each is one published version (`lakehouse.operate.operator_change`) whose manifest carries what is known after it. Where
a position goes is decided by those who move it; what a load would read then is the plan's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

from lakehouse.bookmark import first_seen, narrowed, were_read
from lakehouse.bookmark_move import marked
from lakehouse.iceberg import LiveFiles
from lakehouse.ledger import sync
from lakehouse.model import (
    Bookmark,
    DateCounts,
    Decision,
    Equation,
    LandingObject,
    Mode,
    ObjectDecision,
    ObjectOutcome,
    Plan,
    RowCounts,
    State,
    Window,
)
from lakehouse.operate.object_change import forgotten_deletes, list_source
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    change_id,
    decide,
    publish_and_tell,
    with_table,
)
from lakehouse.plan import decide_objects, make_plan
from lakehouse.position import Position, find_position
from lakehouse.reconcile import day_text
from lakehouse.services import Services
from lakehouse.whole_dates import reads_whole_dates

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FIRST_NAMED = 10
"""So many objects are named by a report."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects by landing date (ISO, `undated`), the first ones by uri."""

    count: int
    bytes: int
    dates: Mapping[str, int]
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BookmarkChange:
    """What a change did, or would do. `change` is its kind in the ledger; `state`: committed; nothing_to_do where the
    position is so already, and for a dry run.

    `to_read` is what a load would read after it, `again` how many of these were read before; `deferred` counts what
    waits. `marked` is what was counted as consumed. `inserted` and `deleted` sum up how many rows more and fewer
    landing dates have.
    """

    table: str
    context: str
    change: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    author: str
    reason: str
    to_version: int | None
    to_read: Objects
    again: int
    deferred: int
    marked: Objects
    inserted: int = 0
    deleted: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """An earlier state of the table's rows: its files, and what differs from those of now."""

    files: LiveFiles
    rows: RowCounts
    dates: Mapping[str, DateCounts]
    equations: tuple[Equation, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """What a change is to publish on one position: `after` is where it leaves the bookmark before `marks`, objects that
    count as consumed from then on. `nothing` says why there is nothing to do; empty if there is. `counts` are told."""

    kind: str
    after: Bookmark
    nothing: str = ""
    marks: tuple[ObjectOutcome, ...] = ()
    to_version: int | None = None
    restored: Restored | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of the source at one moment."""

    listing: tuple[LandingObject, ...]
    now: datetime


def change_bookmark(
    declaration: Declaration,
    operator: Operator,
    services: Services,
    kind: str,
    move: Callable[[Position, Listed], Move],
    *,
    dry_run: bool,
) -> BookmarkChange:
    """Look, let `move` decide, publish; again if others commit first."""

    def once() -> BookmarkChange | None:
        position = find_position(declaration, services)
        source = listed_now(declaration, services)
        return publish_move(declaration, position, move(position, source), source, operator, services, dry_run=dry_run)

    return decide(declaration, operator, services, kind, once, dry_run=dry_run)


def listed_now(declaration: Declaration, services: Services) -> Listed:
    now = services.now()
    return Listed(list_source(declaration, services, Window()), now)


def decisions_of(declaration: Declaration, bookmark: Bookmark, source: Listed) -> tuple[ObjectDecision, ...]:
    """What a load decides about every listed object by itself."""
    uris = frozenset(item.uri for item in source.listing)
    found = decide_objects(uris, declaration=declaration, bookmark=bookmark, listing=source.listing, now=source.now)
    return tuple(found.values())


def outcomes_of(
    items: Sequence[ObjectDecision], reason: str, bookmark: Bookmark, *, now: datetime
) -> tuple[ObjectOutcome, ...]:
    """Objects as consumed that no batch has read, for this reason."""
    bookmark = narrowed(bookmark, [item.object.uri for item in items])
    return tuple(
        ObjectOutcome(
            item.object,
            item.landing_date,
            Decision.CONSUMED,
            reason,
            first_seen(bookmark, item.object, now=now),
        )
        for item in items
    )


def publish_move(
    declaration: Declaration,
    position: Position,
    move: Move,
    source: Listed,
    operator: Operator,
    services: Services,
    *,
    dry_run: bool,
    bring_up: Callable[..., object] = sync,
) -> BookmarkChange | None:
    """Publish a move, and report it. None if others committed first: decide again."""
    started_at = services.now()
    after = _after(declaration, position, move)
    told = _told(declaration, position, move, after, source, operator, dry_run=dry_run)
    if dry_run or move.nothing:
        return told
    position, live = with_table(declaration, position, services)
    restored = move.restored
    decided = Decided(
        kind=move.kind,
        batch_id=change_id(declaration, position, move.kind, move.marks),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        objects=move.marks,
        rows=restored.rows if restored else RowCounts(),
        dates=restored.dates if restored else {},
        equations=restored.equations if restored else (),
        moved=_after(declaration, position, move),
        restored=restored.files if restored else None,
    )
    return publish_and_tell(told, declaration, position, decided, operator, services, bring_up=bring_up)


def _after(declaration: Declaration, position: Position, move: Move) -> Bookmark:
    """The bookmark after a move on this position."""
    return marked(
        move.after,
        move.marks,
        batch_id=change_id(declaration, position, move.kind, move.marks),
        version=position.bookmark.version + 1,
        whole_dates=reads_whole_dates(declaration),
    )


def _told(
    declaration: Declaration,
    position: Position,
    move: Move,
    after: Bookmark,
    source: Listed,
    operator: Operator,
    *,
    dry_run: bool,
) -> BookmarkChange:
    plan = make_plan(
        declaration=declaration,
        bookmark=after,
        listing=source.listing,
        mode=Mode.INCREMENTAL,
        window=Window(),
        table_uuid=position.target.uuid,
        now=source.now,
    )
    planned = [item for item in plan.decisions if item.decision is Decision.PLANNED]
    read = were_read(position.bookmark, [item.object.uri for item in planned])
    again = [item for item in planned if item.object.uri in read]
    gone = _gone(after, plan)
    tag = position.target.tag
    rows = move.restored.rows if move.restored else RowCounts()
    return BookmarkChange(
        table=declaration.table,
        context=declaration.context,
        change=move.kind,
        state=State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=position.bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        author=operator.author,
        reason=operator.reason,
        to_version=move.to_version,
        to_read=objects_of((item.object, item.landing_date) for item in planned),
        again=len(again),
        deferred=plan.count(Decision.DEFERRED),
        marked=objects_of((item.object, item.landing_date) for item in move.marks),
        inserted=rows.inserted,
        deleted=rows.deleted,
        counts=move.counts,
        warnings=(
            *((move.nothing,) if move.nothing else ()),
            *move.warnings,
            *gone,
            *plan.warnings,
            *forgotten_deletes(declaration, again, position.bookmark, now=source.now),
        ),
        next=f"lakehouse {'plan' if dry_run or not planned else 'load'} {declaration.table}",
    )


def objects_of(items: Iterable[tuple[LandingObject, date | None]]) -> Objects:
    """Counts of objects, given with their landing dates."""
    found = sorted(items, key=lambda pair: (pair[1] or date.min, pair[0].uri))
    dates: dict[str, int] = {}
    for _, day in found:
        dates[day_text(day)] = dates.get(day_text(day), 0) + 1
    return Objects(
        count=len(found),
        bytes=sum(item.size for item, _ in found),
        dates=dates,
        first=tuple(item.uri for item, _ in found[:FIRST_NAMED]),
    )


def _gone(after: Bookmark, plan: Plan) -> tuple[str, ...]:
    """That objects whose rows are in the table cannot be read again."""
    listed = {item.object.uri for item in plan.decisions}
    first, count = "", 0
    for item in after.paused.stream():
        if item.object.uri not in listed and item.decision is not Decision.QUARANTINED:
            first, count = first or item.object.uri, count + 1
    if not count:
        return ()
    objects = "1 object was read and is" if count == 1 else f"{count} objects were read and are"
    return (f"{objects} not listed any more: what the table has of them stays, the first: {first}",)
