"""Publishes what an operator decided: one snapshot of ours, the bookmark's version + 1, author and reason stored.

It goes through the same commit as a batch (DESIGN §3), under the table's lease. What is decided about objects stands
beside the set of seen ones; a change of the position alone changes that set. Owns no decision: `adopt`, `dedupe`,
`object_change` and `move` of this package say what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyiceberg.manifest import DataFile

from lakehouse import naming
from lakehouse.batch.matching import create_target
from lakehouse.bookmark import HOLD, UNHOLD, changed_since, checkpoint_after, needs_checkpoint, next_chain
from lakehouse.bookmark_move import known_of
from lakehouse.catalog import load_table, translated
from lakehouse.errors import Conflict, LakehouseError
from lakehouse.evolve import SchemaChange
from lakehouse.iceberg import LiveFiles, live_files
from lakehouse.lease import Lease, table_lease
from lakehouse.lease_record import LeaseHolder
from lakehouse.ledger import Standing as LedgerStanding
from lakehouse.ledger import standing_of, sync
from lakehouse.model import (
    Acceptance,
    Bookmark,
    Checkpoint,
    DateCounts,
    Equation,
    Hold,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
    State,
)
from lakehouse.position import Position, take_position
from lakehouse.process import this_process
from lakehouse.publish import Change, Renamed, publish
from lakehouse.services import Services
from lakehouse.state import attempt_folder, attempts_after, write_checkpoint, write_manifest
from lakehouse.target import look

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_Report = TypeVar("_Report")

MOST_TRIES = 4
"""How often a change is made again when others commit first."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Who asks, why, in which run, and by which command."""

    author: str
    reason: str
    run_id: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """What one operator's change is: its kind, its rows and files, and the equations that were proved for it.

    `objects` are what it decides about; `hold` is how a change of the hold leaves it; `accepted` is a gate, `foreign` a
    snapshot of another writer that it accepts; `live` are the files of the snapshot that `main` was then; `renamed` is
    the bookmark that goes on under the declaration's context. `moved` is how a change of the position leaves the
    bookmark, but for version, head and chain; `restored` are the files of an earlier snapshot that the table is to hold
    again, and no others. `expired` are snapshots that leave the table's history.
    """

    kind: str
    batch_id: str
    attempt_id: str
    live: LiveFiles
    started_at: datetime
    objects: tuple[ObjectOutcome, ...] = ()
    rows: RowCounts = field(default_factory=RowCounts)
    dates: Mapping[str, DateCounts] = field(default_factory=dict)
    equations: tuple[Equation, ...] = ()
    baseline: int = 0
    schema: SchemaChange | None = None
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    maintain: str = ""
    hold: Hold | None = None
    renamed: Renamed | None = None
    moved: Bookmark | None = None
    restored: LiveFiles | None = None
    accepted: tuple[Acceptance, ...] = ()
    foreign: int | None = None
    expired: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the table stands after a change. `ledger` is "ok", or says why it is behind."""

    bookmark_version: int
    snapshot_id: int | None
    ledger: str


def acting(declaration: Declaration, services: Services) -> Declaration:
    """The declaration with the source under whose bookmark a change of the whole table is published: the first one that
    has a bookmark, else the first."""
    table = load_table(services.catalog, declaration.table) if len(declaration.sources) > 1 else None
    named = look(declaration.table, "", table).bookmarks
    parts = declaration.by_source
    return next((one for one in parts if one.context in named), parts[0])


def lease_of(
    declaration: Declaration, operator: Operator, services: Services, *, step: str
) -> AbstractContextManager[Lease]:
    """The table's lease, as a load takes it."""
    holder = LeaseHolder(
        run_id=operator.run_id,
        process=this_process(),
        step=step,
        context=declaration.context if len(declaration.sources) == 1 else "",
        command=operator.command,
    )
    return table_lease(declaration.table, holder, services)


def change_id(declaration: Declaration, position: Position, kind: str, objects: Sequence[ObjectOutcome] = ()) -> str:
    """The batch id of a change: the same for every try at it on the same position."""
    return naming.batch_id(
        table_uuid=position.target.uuid,
        context=declaration.context,
        bookmark_version=position.bookmark.version,
        declaration=declaration.hash,
        mode=kind,
        identities=[item.object.identity for item in objects],
    )


def publish_decided(
    declaration: Declaration, position: Position, decided: Decided, operator: Operator, services: Services
) -> int | None:
    """Write the manifest and commit. Returns the snapshot id, None if others committed first: decide again."""
    manifest, reference = _write_manifest(declaration, position, decided, operator, services)
    change = Change(
        attempt_id=decided.attempt_id,
        batch_id=decided.batch_id,
        bookmark_version=manifest.bookmark_version,
        manifest=reference,
        rows=decided.rows,
        added=decided.added,
        removed=decided.removed,
        schema=decided.schema,
        maintain=decided.maintain,
        renamed=decided.renamed,
        restored=decided.restored,
        expired=decided.expired,
    )
    line = {
        "table": declaration.table,
        "source": declaration.context,
        "run_id": operator.run_id,
        "batch_id": decided.batch_id,
        "attempt_id": decided.attempt_id,
        "step": "publish",
        "kind": decided.kind,
    }
    services.log("step", line)
    return publish(
        services.catalog,
        position.target,
        change,
        live=decided.live,
        attempts_after=partial(attempts_after, services.state),
        pause=services.pause,
    ).snapshot_id


def until_published(declaration: Declaration, once: Callable[[], _Report | None]) -> _Report:
    """Call `once` until it gives its report, a few times; None says that others committed first.

    Raises Conflict if they always do.
    """
    for _ in range(MOST_TRIES):
        if (report := once()) is not None:
            return report
    raise Conflict(
        f"table {declaration.table}: others committed first {MOST_TRIES} times in a row; nothing was changed",
        next="run the same command again",
    )


def decide(
    declaration: Declaration,
    operator: Operator,
    services: Services,
    kind: str,
    once: Callable[[], _Report | None],
    *,
    dry_run: bool,
) -> _Report:
    """Make a change under the table's lease, again if others commit first; a dry run needs no lease."""
    if dry_run:
        found = once()
        assert found is not None
        return found
    with lease_of(declaration, operator, services, step=kind):
        return until_published(declaration, once)


def with_table(declaration: Declaration, position: Position, services: Services) -> tuple[Position, LiveFiles]:
    """The position with a table, which an operator's first change makes, and the files of its `main`."""
    if position.target.table is None:
        position = replace(position, target=create_target(declaration, services))
    assert position.target.table is not None
    with translated(f"table={declaration.table}"):
        return position, live_files(position.target.table, position.target.main)


def publish_and_tell(
    told: _Report,
    declaration: Declaration,
    position: Position,
    decided: Decided,
    operator: Operator,
    services: Services,
    *,
    bring_up: Callable[[LedgerStanding, Services], object] = sync,
) -> _Report | None:
    """Publish what is decided, bring the ledger up, and complete the report of it, a dataclass with `state`,
    `bookmark_version`, `snapshot_id` and `ledger`. None if others committed first: decide again."""
    if publish_decided(declaration, position, decided, operator, services) is None:
        return None
    now = stand_now(declaration, services, bring_up=bring_up)
    done: _Report = replace(
        cast("Any", told),
        state=State.COMMITTED,
        bookmark_version=now.bookmark_version,
        snapshot_id=now.snapshot_id,
        ledger=now.ledger,
    )
    return done


def stand_now(
    declaration: Declaration,
    services: Services,
    *,
    bring_up: Callable[[LedgerStanding, Services], object] = sync,
) -> Standing:
    """Look at the table after the commit and bring the ledger up; a ledger that cannot be written is only behind."""
    position = take_position(declaration, services)
    ledger = "ok"
    try:
        bring_up(standing_of(position.target), services)
    except LakehouseError as error:
        ledger = f"behind: {error.message}"
    tag = position.target.tag
    return Standing(position.bookmark.version, tag.snapshot_id if tag else None, ledger)


def _write_manifest(
    declaration: Declaration, position: Position, decided: Decided, operator: Operator, services: Services
) -> tuple[Manifest, Reference]:
    bookmark, moved = position.bookmark, decided.moved
    after = moved or bookmark
    place = attempt_folder(
        catalog=services.catalog_name,
        table=declaration.table,
        table_uuid=position.target.uuid,
        context=declaration.context,
        batch_id=decided.batch_id,
        attempt_id=decided.attempt_id,
    )
    manifest = Manifest(
        table=declaration.table,
        table_uuid=position.target.uuid,
        context=declaration.context,
        bookmark_version=bookmark.version + 1,
        batch_id=decided.batch_id,
        attempt_id=decided.attempt_id,
        run_id=operator.run_id,
        kind=decided.kind,
        mode=Mode.INCREMENTAL,
        advance=bool(decided.objects) or moved is not None,
        declaration=declaration.hash,
        lookback_days=declaration.source.lookback_days,
        started_at=decided.started_at,
        merge_started_at=None,
        merge_ended_at=None,
        written_at=services.now(),
        objects=decided.objects,
        rows=decided.rows,
        dates=decided.dates,
        equations=decided.equations,
        gates=(),
        rejects=None,
        checkpoint=None,
        chain=next_chain(bookmark),
        author=operator.author,
        reason=operator.reason,
        graves=after.graves,
        baseline=decided.baseline,
        settled_date=after.settled_date,
        held=decided.hold if decided.kind in (HOLD, UNHOLD) else after.held,
        accepted=(*after.accepted, *decided.accepted),
        foreign=decided.foreign,
        source_uri=after.source_uri,
    )
    known: Checkpoint | None = None
    if moved is not None:
        known = known_of(moved)
    elif needs_checkpoint(manifest.bookmark_version, changed=changed_since(bookmark)):
        known = checkpoint_after(bookmark, manifest)
    if known is not None:
        manifest = replace(manifest, checkpoint=write_checkpoint(services.state, known, folder=place))
    return manifest, write_manifest(services.state, manifest, folder=place)
