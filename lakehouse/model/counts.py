"""Counts of rows and files, and the equations and gates over them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import date

ACCEPTED_AND_STAGED = "batch: accepted, staged (differ by sql)"
"""Names the equation that tells both sides of a batch whose rows a declared SQL made: they need not be equal."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of DESIGN §8, for one object, batch or load."""

    read: int = 0
    rejected: int = 0
    staged: int = 0
    superseded: int = 0
    stale: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    removed: int = 0
    vanished: int = 0
    replaced: int = 0
    absent: int = 0

    @property
    def accepted(self) -> int:
        """Records that were not rejected: as many as are staged, unless a declared SQL makes other rows of them."""
        return self.read - self.rejected

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class DateCounts:
    """What one batch did to one landing date: counts of its objects' rows, and rows that the date won and lost."""

    objects: int = 0
    rows: RowCounts = field(default_factory=RowCounts)
    gained: int = 0
    lost: int = 0

    def __add__(self, other: DateCounts) -> DateCounts:
        return DateCounts(
            self.objects + other.objects, self.rows + other.rows, self.gained + other.gained, self.lost + other.lost
        )


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Data files of the target that a batch touched."""

    added: int = 0
    rewritten: int = 0
    delete_files: int = 0

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(
            self.added + other.added, self.rewritten + other.rewritten, self.delete_files + other.delete_files
        )


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate with its numbers. `limit` None means that the gate was not asked for. `accepted` says which operator let
    the batch pass although the gate failed, and why."""

    name: str
    passed: bool
    value: float | int | str | None
    limit: float | int | str | None
    detail: str = ""
    accepted: str = ""

    @property
    def stops(self) -> bool:
        """Whether the batch may not go on."""
        return not self.passed and not self.accepted


@dataclass(frozen=True, slots=True)
class Equation:
    """One reconciliation equation with both sides; `landing_date` None is the whole batch or table."""

    name: str
    left: int
    right: int
    landing_date: date | None = None

    @property
    def holds(self) -> bool:
        return self.left == self.right or self.name == ACCEPTED_AND_STAGED
