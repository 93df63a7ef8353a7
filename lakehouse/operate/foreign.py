"""Accepts what another writer's snapshot did to the number of rows: a published change like every operator's.

The net rows of the snapshot, by landing date, are counted by a scan of it and of its parent, and added to what the
published batches left; the rows themselves stay as they are. Where the parent has expired, what is published and
accepted before the snapshot stands for it, so that nothing is left that nobody could accept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.audit.doubles import take_census
from lakehouse.audit.recount import accept_foreign_command, chains_at, foreign_snapshots, in_one
from lakehouse.bookmark import ACCEPT_FOREIGN
from lakehouse.catalog import translated
from lakehouse.engine_session import engine_session
from lakehouse.errors import UsageError
from lakehouse.iceberg import live_files
from lakehouse.model import Manifest, State
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    change_id,
    decide,
    publish_and_tell,
    with_table,
)
from lakehouse.position import Position, find_position
from lakehouse.reconcile import baseline_dates, day_text, expected_by_date, expected_live, parse_day
from lakehouse.services import Services
from lakehouse.target import ancestry, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_EXPIRED = "the snapshot before it has expired: its rows are compared with what was published and accepted before it"


@dataclass(frozen=True, slots=True)
class ForeignAcceptance:
    """What an acceptance did, or would do. `state`: committed; nothing_to_do for a dry run. `rows` are the net rows,
    `dates` those by landing date where the table has lineage, `undated` for rows without one."""

    table: str
    context: str
    foreign_snapshot: int
    rows: int
    dates: Mapping[str, int]
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    author: str
    reason: str
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A snapshot that waits to be accepted, in the line of `main` (newest first), and all that is published there."""

    table: Table
    snapshot: Snapshot
    line: Sequence[Snapshot]
    manifests: Sequence[Manifest]

    @property
    def parent(self) -> Snapshot | None:
        parent_id = self.snapshot.parent_snapshot_id
        return self.table.metadata.snapshot_by_id(parent_id) if parent_id is not None else None

    @property
    def parent_expired(self) -> bool:
        return self.snapshot.parent_snapshot_id is not None and self.parent is None


def accept_foreign(
    declaration: Declaration, snapshot_id: int, operator: Operator, services: Services, *, dry_run: bool = False
) -> ForeignAcceptance:
    """Count the net rows of another writer's snapshot as ours from now on; a dry run only tells. The rows are the
    table's, so with several sources any of them can carry it.

    Raises UsageError for a snapshot that is unknown, ours, or accepted already, what `find_position` raises, LeaseHeld,
    and Conflict if others always commit first.
    """

    def once() -> ForeignAcceptance | None:
        position = find_position(declaration, services)
        found = _find(declaration, position, snapshot_id, services)
        net = _net_rows(declaration, found, services)
        tag = position.target.tag
        told = ForeignAcceptance(
            table=declaration.table,
            context=declaration.context,
            foreign_snapshot=snapshot_id,
            rows=sum(net.values()),
            dates=_by_date(net) if declaration.lineage else {},
            state=State.NOTHING_TO_DO,
            dry_run=dry_run,
            bookmark_version=position.bookmark.version,
            snapshot_id=tag.snapshot_id if tag else None,
            author=operator.author,
            reason=operator.reason,
            warnings=(_EXPIRED,) if found.parent_expired else (),
            next=f"lakehouse reconcile {declaration.table}",
        )
        return told if dry_run else _publish(declaration, position, net, told, operator, services)

    return decide(declaration, operator, services, ACCEPT_FOREIGN, once, dry_run=dry_run)


def _find(declaration: Declaration, position: Position, snapshot_id: int, services: Services) -> _Found:
    """The snapshot that waits to be accepted. Raises UsageError for any other."""
    table, main = position.target.table, position.target.main
    line = [*ancestry(table, main)] if table is not None else []
    chains = chains_at(line, position.target, services) if line else []
    manifests = in_one(chains)
    waiting = [found.snapshot_id for found in foreign_snapshots(line, chains)]
    if table is not None and snapshot_id in waiting:
        return _Found(table, next(s for s in line if s.snapshot_id == snapshot_id), line, manifests)
    accepted = next((m for m in manifests if m.foreign == snapshot_id), None)
    if accepted is not None:
        by = f"by {accepted.author}: {accepted.reason}"
        why = f"is accepted already at bookmark version {accepted.bookmark_version}, {by}"
    elif table is None or table.metadata.snapshot_by_id(snapshot_id) is None:
        why = "is not known, or has expired"
    elif snapshot_id not in {s.snapshot_id for s in line}:
        why = "is not behind main"
    else:
        why = "is no other writer's: a batch, an operator or our upkeep made it, or it came before all of them"
    named = f"those of other writers are {', '.join(map(str, waiting))}" if waiting else "there is none to accept"
    raise UsageError(
        f"table {declaration.table}: snapshot {snapshot_id} {why}; {named}",
        next=accept_foreign_command(declaration.table, waiting[-1])
        if waiting
        else f"lakehouse reconcile {declaration.table}",
    )


def _net_rows(declaration: Declaration, found: _Found, services: Services) -> dict[date | None, int]:
    """Rows that the snapshot has more than what was before it, by `_source_date`; dates without a difference are left
    out."""
    net = _rows_by_date(declaration, found.table, found.snapshot, services)
    if found.parent_expired:
        net.subtract(_accounted(declaration, found))
    else:
        net.subtract(_rows_by_date(declaration, found.table, found.parent, services))
    return {day: rows for day, rows in net.items() if rows}


def _accounted(declaration: Declaration, found: _Found) -> dict[date | None, int]:
    """Rows that batches left before the snapshot, and those of others before it that are accepted, also later."""
    newer = [*takewhile(lambda s: s.snapshot_id != found.snapshot.snapshot_id, found.line)]
    attempts = {summary(s).get(naming.ATTEMPT_ID) for s in newer}
    others = {s.snapshot_id for s in newer}
    before = [
        m
        for m in found.manifests
        if (m.foreign not in others if m.foreign is not None else m.attempt_id not in attempts)
    ]
    if not declaration.lineage:
        return {None: expected_live(before)}
    return {parse_day(day): rows for day, rows in expected_by_date(before).items()}


def _rows_by_date(
    declaration: Declaration, table: Table, snapshot: Snapshot | None, services: Services
) -> Counter[date | None]:
    with translated(f"table={declaration.table}"):
        live = live_files(table, snapshot)
    with engine_session(services, f"{ACCEPT_FOREIGN}-{services.new_id()}") as (con, _):
        census = take_census(con, declaration, table, live)
    return Counter(census.dates or {None: census.rows})


def _publish(
    declaration: Declaration,
    position: Position,
    net: Mapping[date | None, int],
    told: ForeignAcceptance,
    operator: Operator,
    services: Services,
) -> ForeignAcceptance | None:
    started_at = services.now()
    position, live = with_table(declaration, position, services)
    decided = Decided(
        kind=ACCEPT_FOREIGN,
        batch_id=change_id(declaration, position, f"{ACCEPT_FOREIGN} {told.foreign_snapshot}"),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        baseline=told.rows,
        dates=baseline_dates(net) if declaration.lineage else {},
        foreign=told.foreign_snapshot,
    )
    reason = f"snapshot {told.foreign_snapshot}, net rows {told.rows:+d}: {operator.reason}"
    return publish_and_tell(told, declaration, position, decided, replace(operator, reason=reason), services)


def _by_date(net: Mapping[date | None, int]) -> dict[str, int]:
    return dict(sorted((day_text(day), rows) for day, rows in net.items()))
