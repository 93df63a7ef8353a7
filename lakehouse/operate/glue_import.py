"""Takes over the position of an AWS Glue job: what it has surely read is counted as consumed, and nothing is read.

Objects of the band before its last run are uncertain, so they are read again; merging makes that harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.bookmark import IMPORT
from lakehouse.errors import UsageError
from lakehouse.glue_state import GlueState
from lakehouse.model import Decision
from lakehouse.operate.move import BookmarkChange, Listed, Move, change_bookmark, decisions_of, outcomes_of
from lakehouse.operate.operator_change import Operator
from lakehouse.position import Position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_DATA = (Decision.PLANNED, Decision.DEFERRED, Decision.OUTSIDE_WINDOW)


def import_glue(
    declaration: Declaration, state: GlueState, operator: Operator, services: Services, *, dry_run: bool = False
) -> BookmarkChange:
    """Count what the Glue job has surely read as consumed, also outside the window.

    Raises UsageError for a context that has seen objects already, and what `reset_bookmark` raises.
    """

    def move(position: Position, source: Listed) -> Move:
        if seen := position.bookmark.seen:
            raise UsageError(
                f"bookmark {declaration.context} has a position of its own: version {position.bookmark.version}, "
                f"{len(seen)} objects seen; nothing was changed",
                next=f"lakehouse bookmark reset {declaration.table} --reason TEXT --dry-run",
            )
        found = decisions_of(declaration, position.bookmark, source)
        data = [item for item in found if item.decision in _DATA]
        certain = [item for item in data if item.object.last_modified <= state.certain_until]
        newer = [item for item in data if item.object.last_modified > state.began_at]
        uncertain = len(data) - len(certain) - len(newer)
        why = (
            f"consumed by Glue job {state.job}, context {state.context}: modified by "
            f"{state.certain_until.isoformat(timespec='milliseconds')}; {operator.reason}"
        )
        return Move(
            IMPORT,
            position.bookmark,
            "" if certain else "no listed object was surely read by the Glue job",
            outcomes_of(certain, why, position.bookmark, now=source.now),
            counts={"certain": len(certain), "uncertain": uncertain, "newer": len(newer), "hashes": state.hashes},
            warnings=_doubled(declaration, uncertain),
        )

    return change_bookmark(declaration, operator, services, IMPORT, move, dry_run=dry_run)


def _doubled(declaration: Declaration, uncertain: int) -> tuple[str, ...]:
    if declaration.write != "append" or not uncertain:
        return ()
    return (
        f"write: append adds the rows of the {uncertain} uncertain objects: where the table has them of the Glue job, "
        "they are there twice",
    )
