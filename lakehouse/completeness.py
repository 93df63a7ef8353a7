"""Whether everything that is listed has been dealt with: a listing against a bookmark (DESIGN §8). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from lakehouse.model import Decision, Equation, ObjectDecision, Plan, SeenObject

COMPLETE = "complete: listed = consumed + ignored"
"""Objects that an operator skipped count as dealt with."""
DONE = (Decision.CONSUMED, Decision.SKIPPED, Decision.IGNORED)


@dataclass(frozen=True, slots=True)
class Completeness:
    """One equation per landing date. `left` are listed objects that nothing has been done with, each with its reason;
    `outside` those of dates that are not loaded; `gone` what was read and is not listed any more."""

    equations: tuple[Equation, ...]
    left: tuple[ObjectDecision, ...]
    outside: tuple[ObjectDecision, ...]
    gone: tuple[SeenObject, ...]

    @property
    def holds(self) -> bool:
        return not self.left


def completeness(plan: Plan, seen: Mapping[str, SeenObject]) -> Completeness:
    """Compare a plan of the dates of its window with what the bookmark has seen of them."""
    outside = tuple(d for d in plan.decisions if d.decision is Decision.OUTSIDE_WINDOW)
    inside = [d for d in plan.decisions if d.decision is not Decision.OUTSIDE_WINDOW]
    listed: dict[date | None, int] = {}
    done: dict[date | None, int] = {}
    for item in inside:
        listed[item.landing_date] = listed.get(item.landing_date, 0) + 1
        done[item.landing_date] = done.get(item.landing_date, 0) + (item.decision in DONE)
    uris = {d.object.uri for d in plan.decisions}
    gone = [
        item
        for uri, item in sorted(seen.items())
        if uri not in uris and (item.landing_date is None or plan.window.contains(item.landing_date))
    ]
    return Completeness(
        equations=tuple(
            Equation(COMPLETE, listed[day], done[day], day) for day in sorted(listed, key=lambda day: day or date.min)
        ),
        left=tuple(d for d in inside if d.decision not in DONE),
        outside=outside,
        gone=tuple(gone),
    )
