"""What one batch is to do. A value; does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.attempt import AttemptRecord
from lakehouse.model import Mode, ObjectDecision, Plan, State
from lakehouse.position import Position

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One batch of `plan` on one position of its bookmark; `now` is when the load took its listing, `command` asks for
    the load."""

    declaration: Declaration
    position: Position
    plan: Plan
    objects: tuple[ObjectDecision, ...]
    batch_id: str
    attempt_id: str
    run_id: str
    mode: Mode
    scheduled: bool
    now: datetime
    command: str = ""

    def record(self, *, state: State, step: str, error: str, ended_at: datetime) -> AttemptRecord:
        """What stays of this attempt if it ends unpublished."""
        return AttemptRecord(
            attempt_id=self.attempt_id,
            batch_id=self.batch_id,
            context=self.declaration.context,
            run_id=self.run_id,
            bookmark_version=self.position.bookmark.version,
            declaration=self.declaration.hash,
            state=state,
            step=step,
            error=error,
            ended_at=ended_at,
            objects=tuple(item.object.identity for item in self.objects),
            command=self.command,
        )
