"""Attaches a bookmark to a table that was moved under it: rolled back, dropped and made again, or robbed of its tag.

The bookmark becomes what it was at the newest snapshot of ours behind `main`, as a version above every number that was
used; on a table without any of ours nothing is seen. No row is touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.bookmark import REATTACH
from lakehouse.bookmark_move import stood_as
from lakehouse.errors import UsageError
from lakehouse.ledger import newest_in_ledger, rebuild
from lakehouse.model import Reference
from lakehouse.operate.move import BookmarkChange, Move, listed_now, publish_move
from lakehouse.operate.operator_change import Operator, decide
from lakehouse.position import Position, detached_target, find_position
from lakehouse.services import Services
from lakehouse.state import load_bookmark
from lakehouse.target import Target, ancestry, is_ours, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


_DECISIONS_LOST = (
    "what stood at the lost tag is not known any more: hold the table, skip objects and accept gates again where that "
    "is still meant, before the next load"
)


def rewind_to_table(
    declaration: Declaration, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """Mend a detached bookmark; nothing to do where it is attached.

    Holds and skips that stand at the lost tag stay. Raises UsageError for a table with rows that nobody accounts for,
    what `find_position` raises but Detached, LeaseHeld, and Conflict if others always commit first.
    """

    def once() -> BookmarkChange | None:
        target, reason = detached_target(declaration, services)
        source = listed_now(declaration, services)
        if not reason:
            position = find_position(declaration, services)
            move = Move(REATTACH, position.bookmark, "the bookmark stands on its table")
        else:
            position, move = _attached(declaration, target, services)
            lost = () if target.tag is not None else (_DECISIONS_LOST,)
            move = replace(move, warnings=(f"it was detached: {reason}", *lost))
        return publish_move(declaration, position, move, source, operator, services, dry_run=dry_run, bring_up=rebuild)

    return decide(declaration, operator, services, REATTACH, once, dry_run=dry_run)


def _attached(declaration: Declaration, target: Target, services: Services) -> tuple[Position, Move]:
    """What is known now, with the chain of what the table has, and the move to that."""
    line = [] if target.table is None else [*ancestry(target.table, target.main)]
    found = _newest_of(target, line)
    if found is None and target.main is not None and target.rows != 0 and not any(map(is_ours, line)):
        raise UsageError(
            f"table {declaration.table} has rows, and no batch of ours is behind main: they are not accounted for",
            next=f"lakehouse adopt {declaration.table}"
            if target.tag is None and not target.knows_context
            else "set main to a snapshot that a batch has published, or drop the table; then the same command again",
        )
    then = load_bookmark(services.state, found)
    lost = load_bookmark(services.state, target.bookmark) if target.tag is not None else then
    known = replace(lost, version=_last_version(target, services), head=then.head, chain=then.chain)
    return Position(target, known), Move(REATTACH, stood_as(known, then), to_version=then.version)


def _newest_of(target: Target, line: Iterable[Snapshot]) -> Reference | None:
    """The newest manifest of the context's bookmark that was published in this line."""
    names = _names(target)
    for snapshot in line:
        keys = summary(snapshot)
        until = names.get(keys.get(naming.CONTEXT, ""))
        if until is not None and (snapshot.sequence_number or 0) < until and naming.MANIFEST in keys:
            return Reference(keys[naming.MANIFEST], keys[naming.MANIFEST_SHA256])
    return None


def _names(target: Target) -> dict[str, float]:
    """The names that the context's bookmark has had, as the snapshots of the table tell, each with the sequence number
    from which on it was not called so: after that another bookmark may have the name."""
    snapshots = target.table.metadata.snapshots if target.table is not None else []
    names, name = {target.context: inf}, target.context
    for snapshot in sorted(snapshots, key=lambda one: one.sequence_number or 0, reverse=True):
        keys = summary(snapshot)
        if keys.get(naming.CONTEXT) == name and (former := keys.get(naming.RENAMED_FROM)) and former not in names:
            names[former] = snapshot.sequence_number or 0
            name = former
    return names


def _last_version(target: Target, services: Services) -> int:
    """The highest version that was ever published on this table, as far as snapshots and ledger know."""
    if target.table is None:
        return 0
    keys = [summary(snapshot) for snapshot in target.table.metadata.snapshots]
    names = _names(target)
    numbers = [int(k.get(naming.BOOKMARK_VERSION, "0")) for k in keys if k.get(naming.CONTEXT) in names]
    in_ledger = newest_in_ledger(
        services.catalog,
        services.settings.ops_namespace,
        table_uuid=target.uuid,
        context=target.context,
    )
    return max(in_ledger, *numbers, 0)
