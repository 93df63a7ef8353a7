"""Which dates have unseen objects, for sensor and schedule alike. The plan decides; nothing is read from Dagster."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

from lakehouse.model import Decision, Plan

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

UNDATED = ""
"""Stands for the date of everything in a source without dates."""


def planned_dates(plan: Plan, declaration: Declaration) -> dict[str, int]:
    """Objects that a load would read now, by date (ISO). Deferred ones come with a later tick."""
    planned = [item for item in plan.decisions if item.decision is Decision.PLANNED]
    if not declaration.dated:
        return {UNDATED: len(planned)} if planned else {}
    return dict(sorted(Counter(item.landing_date.isoformat() for item in planned if item.landing_date).items()))


def deferred_dates(plan: Plan, declaration: Declaration) -> frozenset[str]:
    """Dates (ISO) with objects that wait: too young, or not ready."""
    deferred = [item for item in plan.decisions if item.decision is Decision.DEFERRED]
    if not declaration.dated:
        return frozenset([UNDATED] if deferred else [])
    return frozenset(item.landing_date.isoformat() for item in deferred if item.landing_date)


def as_dates(keys: dict[str, int]) -> list[date]:
    """The dated ones."""
    return [date.fromisoformat(key) for key in keys if key != UNDATED]
