"""Holds a table and releases it: while it is held, no load of it is executed. A published change like every operator's.

The hold is carried from manifest to manifest of one bookmark and counts for all sources of the table, whichever of them
is declared or comes later. Loads, plans, schedule and sensor ask the table's bookmarks; nothing here stops a load that
runs: a change waits for the lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.bookmark import HOLD, UNHOLD
from lakehouse.model import Hold, State
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    acting,
    change_id,
    decide,
    publish_and_tell,
    with_table,
)
from lakehouse.position import Position, find_position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class HoldChange:
    """What a change did, or would do. `state`: committed; nothing_to_do where it is so already, and for a dry run.
    `held` is how the table stands after it."""

    table: str
    context: str
    change: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    held: Hold | None
    ledger: str = "ok"


def hold(declaration: Declaration, operator: Operator, services: Services, *, dry_run: bool = False) -> HoldChange:
    """Let no load of the table be executed. Holding it again replaces author and reason.

    Raises what `find_position` raises, LeaseHeld, and Conflict if others always commit first.
    """
    return _change(declaration, operator, services, HOLD, dry_run=dry_run)


def release(declaration: Declaration, operator: Operator, services: Services, *, dry_run: bool = False) -> HoldChange:
    """Let loads of the table be executed again: every bookmark that holds it lets go. Raises as `hold` does."""
    return _change(declaration, operator, services, UNHOLD, dry_run=dry_run)


def _change(
    declaration: Declaration, operator: Operator, services: Services, kind: str, *, dry_run: bool
) -> HoldChange:
    def once() -> HoldChange | None:
        one = _holding(acting(declaration, services), services)
        done = _publish(one, find_position(one, services), operator, services, kind, dry_run=dry_run)
        while done is not None and done.state is State.COMMITTED and kind == UNHOLD:
            one = _holding(one, services)
            position = find_position(one, services)
            if position.held is None:
                return done
            done = _publish(one, position, operator, services, kind, dry_run=dry_run)
        return done

    return decide(declaration, operator, services, kind, once, dry_run=dry_run)


def _holding(declaration: Declaration, services: Services) -> Declaration:
    """The declaration under the context whose bookmark holds the table; as it is if none does."""
    position = find_position(declaration, services)
    if position.bookmark.held is not None:
        return declaration
    return next((declaration.under(c) for c, m in position.others.items() if m.held is not None), declaration)


def _publish(
    declaration: Declaration, position: Position, operator: Operator, services: Services, kind: str, *, dry_run: bool
) -> HoldChange | None:
    started_at = services.now()
    bookmark, tag = position.bookmark, position.target.tag
    wanted = Hold(operator.author, operator.reason, started_at) if kind == HOLD else None
    told = HoldChange(
        table=declaration.table,
        context=declaration.context,
        change=kind,
        state=State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        held=wanted,
    )
    if dry_run or (kind == UNHOLD and bookmark.held is None):
        return told
    position, live = with_table(declaration, position, services)
    decided = Decided(
        kind=kind,
        batch_id=change_id(declaration, position, kind),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        hold=wanted,
    )
    return publish_and_tell(told, declaration, position, decided, operator, services)
