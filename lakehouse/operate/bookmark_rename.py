"""Gives a bookmark another name: it goes on under the new context where it stood under the old one (G9).

One commit carries all of it: an empty snapshot under the new name, its tag set, the old tag removed; the chain of
manifests goes on. A published change like every operator's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehouse.declaration.problem import nearest
from lakehouse.errors import UsageError
from lakehouse.model import State
from lakehouse.operate.operator_change import (
    Decided,
    Operator,
    change_id,
    decide,
    publish_and_tell,
    with_table,
)
from lakehouse.position import Position, any_position
from lakehouse.publish import Renamed
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

RENAME = "bookmark-rename"
"""`Manifest.kind` of the version at which a bookmark took its new name."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """What a renaming did, or would do. `state`: committed, or nothing_to_do for a dry run; `objects` are those that
    the bookmark has seen, which are not read again."""

    table: str
    old: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    author: str
    reason: str
    objects: int
    warnings: tuple[str, ...] = ()
    ledger: str = "ok"
    next: str = ""


def rename_bookmark(
    declaration: Declaration, old: str, new: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> Renaming:
    """Let the bookmark `old` of the table go on as `new`, whichever of the two the declaration names.

    Raises UsageError for a bookmark that is not there and for a name that is taken, what `any_position` raises,
    LeaseHeld, and Conflict if others always commit first.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", new):
        raise UsageError(f"not the name of a bookmark: {new!r}; letters, digits, _, . and -, such as orders")

    def once() -> Renaming | None:
        position = any_position(declaration.under(old), services)
        _check(declaration, position, old, new)
        return _publish(declaration, position, old, new, operator, services, dry_run=dry_run)

    return decide(declaration, operator, services, RENAME, once, dry_run=dry_run)


def _check(declaration: Declaration, position: Position, old: str, new: str) -> None:
    known = sorted(position.target.bookmarks)
    if position.target.tag is None:
        hint = nearest(old, known) if known else "the table has no bookmark yet"
        raise UsageError(
            f"table {declaration.table} has no bookmark {old}; {hint}", next=f"lakehouse status {declaration.table}"
        )
    if new in known:
        raise UsageError(
            f"table {declaration.table} has a bookmark {new} already: the objects of two bookmarks are not mixed",
            next=f"lakehouse bookmark history {declaration.table}",
        )


def _publish(
    declaration: Declaration,
    position: Position,
    old: str,
    new: str,
    operator: Operator,
    services: Services,
    *,
    dry_run: bool,
) -> Renaming | None:
    started_at, tag = services.now(), position.target.tag
    assert tag is not None
    told = Renaming(
        table=declaration.table,
        old=old,
        context=new,
        state=State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=position.bookmark.version,
        snapshot_id=tag.snapshot_id,
        author=operator.author,
        reason=operator.reason,
        objects=len(position.bookmark.seen),
        warnings=_warnings(declaration, old, new),
        next=f"lakehouse load {declaration.table}",
    )
    if dry_run:
        return told
    named = declaration.under(new)
    position, live = with_table(named, position, services)
    position = replace(position, target=replace(position.target, context=new, tag=None))
    decided = Decided(
        kind=RENAME,
        batch_id=change_id(named, position, RENAME),
        attempt_id=services.new_id(),
        live=live,
        started_at=started_at,
        renamed=Renamed(old, tag.snapshot_id),
    )
    return publish_and_tell(told, named, position, decided, operator, services)


def _warnings(declaration: Declaration, old: str, new: str) -> tuple[str, ...]:
    told = []
    if new not in declaration.contexts:
        told.append(f"no source of {declaration.path} has bookmark: {new}; declare it before the next load")
    if old in declaration.contexts:
        told.append(f"a source of {declaration.path} has bookmark: {old}, which loads refuse from now on")
    return tuple(told)
