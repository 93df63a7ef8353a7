"""What one batch is to do. A value; does nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse.model import Mode, ObjectDecision
from lakehouse.position import Position

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One batch of a plan on one position of its bookmark; `now` is when the load took its listing."""

    declaration: Declaration
    position: Position
    objects: tuple[ObjectDecision, ...]
    batch_id: str
    attempt_id: str
    run_id: str
    mode: Mode
    scheduled: bool
    now: datetime
