"""Whether everything that is listed has been dealt with: a listing against a bookmark (DESIGN §8). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from lakehouse.model import Decision, Equation, ObjectDecision, Plan, Seen, SeenObject, Window

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


def completeness(plan: Plan, seen: Seen) -> Completeness:
    """Compare a plan of the dates of its window with what the bookmark has seen of them."""
    outside = tuple(d for d in plan.decisions if d.decision is Decision.OUTSIDE_WINDOW)
    inside = [d for d in plan.decisions if d.decision is not Decision.OUTSIDE_WINDOW]
    listed: dict[date | None, int] = {}
    done: dict[date | None, int] = {}
    for item in inside:
        listed[item.landing_date] = listed.get(item.landing_date, 0) + 1
        done[item.landing_date] = done.get(item.landing_date, 0) + (item.decision in DONE)
    uris = {d.object.uri for d in plan.decisions}
    gone = [item for item in _of_window(seen, plan.window) if item.object.uri not in uris]
    return Completeness(
        equations=tuple(
            Equation(COMPLETE, listed[day], done[day], day) for day in sorted(listed, key=lambda day: day or date.min)
        ),
        left=tuple(d for d in inside if d.decision not in DONE),
        outside=outside,
        gone=tuple(gone),
    )


def _of_window(seen: Seen, window: Window) -> Iterator[SeenObject]:
    """What was seen of the window's dates, and what has none, in the order of the uris."""
    if window.first is None or window.last is None:
        return (s for s in seen.stream() if s.landing_date is None or window.contains(s.landing_date))
    days = {window.first + timedelta(days=number) for number in range((window.last - window.first).days + 1)}
    return seen.of_dates({None, *days})
