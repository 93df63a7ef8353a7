"""Accepts what another writer's snapshot did to the number of rows: a published change like every operator's.

The net rows of the snapshot, by landing date, are counted by a scan of it and of its parent, and added to what the
published batches left; the rows themselves stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.bookmark import ACCEPT_FOREIGN
from lakehouse.catalog import translated
from lakehouse.doubles import census_session, take_census
from lakehouse.errors import DataError, UsageError
from lakehouse.iceberg import live_files
from lakehouse.model import State
from lakehouse.operator_change import (
    Decided,
    Operator,
    change_id,
    decide,
    publish_decided,
    stand_now,
    with_table,
)
from lakehouse.position import Position, find_position
from lakehouse.reconcile import baseline_dates, day_text
from lakehouse.recount import accept_foreign_command, foreign_snapshots, line_of, manifests_at
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


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
    ledger: str = "ok"
    next: str = ""


def accept_foreign(
    declaration: Declaration, snapshot_id: int, operator: Operator, services: Services, *, dry_run: bool = False
) -> ForeignAcceptance:
    """Count the net rows of another writer's snapshot as ours from now on; a dry run only tells.

    Raises UsageError for a snapshot that is unknown, ours, or accepted already, DataError where the one before it has
    expired, what `find_position` raises, LeaseHeld, and Conflict if others always commit first.
    """

    def once() -> ForeignAcceptance | None:
        position = find_position(declaration, services)
        table, snapshot = _foreign_snapshot(declaration, position, snapshot_id, services)
        net = _net_rows(declaration, table, snapshot, services)
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
            next=f"lakehouse reconcile {declaration.table}",
        )
        return told if dry_run else _publish(declaration, position, net, told, operator, services)

    return decide(declaration, operator, services, ACCEPT_FOREIGN, once, dry_run=dry_run)


def _foreign_snapshot(
    declaration: Declaration, position: Position, snapshot_id: int, services: Services
) -> tuple[Table, Snapshot]:
    """The snapshot that waits to be accepted. Raises UsageError for any other."""
    table, main = position.target.table, position.target.main
    line = line_of(table, main) if table is not None and main is not None else []
    manifests = manifests_at(line, declaration.context, services)
    waiting = [found.snapshot_id for found in foreign_snapshots(line, manifests)]
    if table is not None and snapshot_id in waiting:
        return table, next(s for s in line if s.snapshot_id == snapshot_id)
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


def _net_rows(declaration: Declaration, table: Table, snapshot: Snapshot, services: Services) -> dict[date | None, int]:
    """Rows that the snapshot has more than its parent, by `_source_date`; dates without a difference are left out.

    Raises DataError if the parent has expired: what it had cannot be counted any more.
    """
    parent_id = snapshot.parent_snapshot_id
    parent = table.metadata.snapshot_by_id(parent_id) if parent_id is not None else None
    if parent_id is not None and parent is None:
        raise DataError(
            f"table {declaration.table}: snapshot {parent_id}, which came before snapshot {snapshot.snapshot_id}, has "
            "expired, so what the latter changed cannot be counted; nothing was changed"
        )
    net = _rows_by_date(declaration, table, snapshot, services)
    net.subtract(_rows_by_date(declaration, table, parent, services))
    return {day: rows for day, rows in net.items() if rows}


def _rows_by_date(
    declaration: Declaration, table: Table, snapshot: Snapshot | None, services: Services
) -> Counter[date | None]:
    with translated(f"table={declaration.table}"):
        live = live_files(table, snapshot)
    with census_session(services, ACCEPT_FOREIGN) as (con, _):
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
    if publish_decided(declaration, position, decided, replace(operator, reason=reason), services) is None:
        return None
    now = stand_now(declaration, services)
    return replace(
        told,
        state=State.COMMITTED,
        bookmark_version=now.bookmark_version,
        snapshot_id=now.snapshot_id,
        ledger=now.ledger,
    )


def _by_date(net: Mapping[date | None, int]) -> dict[str, int]:
    return dict(sorted((day_text(day), rows) for day, rows in net.items()))
