"""Moves the position of a context without touching a row: reset, rewind, set (BOOKMARKS G33, G34)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.audit.bookmark_history import named_version
from lakehouse.bookmark import RESET, REWIND, SET
from lakehouse.bookmark_move import seen_as, seen_nothing
from lakehouse.errors import UsageError
from lakehouse.model import Decision, ObjectDecision
from lakehouse.operate.move import BookmarkChange, Listed, Move, change_bookmark, decisions_of, outcomes_of
from lakehouse.operate.operator_change import Operator
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.state import load_bookmark
from lakehouse.whole_dates import reads_whole_dates

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

NOW = "now"
"""Where `set` moves a position to: everything that is there is done with."""
_WAITING = (Decision.PLANNED, Decision.DEFERRED)


def reset_bookmark(
    declaration: Declaration, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """See nothing any more: the next load reads everything again, and merges it. The table stays as it is.

    Raises what `find_position` and `discover` raise, LeaseHeld, and Conflict if others always commit first.
    """

    def move(position: Position, _: Listed) -> Move:
        after = seen_nothing(position.bookmark)
        nothing = "" if position.bookmark.seen else "nothing is seen: a load reads everything as it is"
        return Move(RESET, after, nothing)

    return change_bookmark(declaration, operator, services, RESET, move, dry_run=dry_run)


def rewind_bookmark(
    declaration: Declaration, named: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """See what was seen after a batch or version, and nothing since. The table stays as it is.

    Raises UsageError for a version that is not there, and what `reset_bookmark` raises.
    """

    def move(position: Position, _: Listed) -> Move:
        version, head = named_version(declaration, services, position.target.bookmark, named)
        then = load_bookmark(services.state, head)
        after = seen_as(position.bookmark, then)
        same = (after.seen, after.rulings) == (position.bookmark.seen, position.bookmark.rulings)
        nothing = f"nothing more is seen than after version {version}" if same else ""
        return Move(REWIND, after, nothing, to_version=version)

    return change_bookmark(declaration, operator, services, REWIND, move, dry_run=dry_run)


def set_bookmark(
    declaration: Declaration, to: str, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """Count everything as consumed that a load would read now or once it is ready; nothing is read.

    What is outside the window, quarantined or skipped stays so. Raises UsageError for another place than `now`, and
    what `reset_bookmark` raises.
    """
    if to != NOW:
        raise UsageError(
            f"--to {to!r}: a position can be set to `now` alone",
            next=f"lakehouse bookmark rewind {declaration.table} --to-batch BATCH --reason TEXT",
        )

    def move(position: Position, source: Listed) -> Move:
        decided = decisions_of(declaration, position.bookmark, source)
        items = [item for item in decided if item.decision in _WAITING]
        why = f"set to now by {operator.author}, not read: {operator.reason}"
        marks = outcomes_of(items, why, position.bookmark, now=source.now)
        nothing = "" if items else "a load has nothing to read: everything is dealt with"
        return Move(SET, position.bookmark, nothing, marks, warnings=_read_all_the_same(declaration, items))

    return change_bookmark(declaration, operator, services, SET, move, dry_run=dry_run)


def _read_all_the_same(declaration: Declaration, items: Sequence[ObjectDecision]) -> tuple[str, ...]:
    if not reads_whole_dates(declaration) or not items:
        return ()
    return (
        f"write: {declaration.write} reads a landing date as a whole: as soon as another object of it changes, these "
        "are read too",
    )
