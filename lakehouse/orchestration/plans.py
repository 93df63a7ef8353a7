"""The plans of a table, source by source, for sensor and schedule: a source that cannot be planned hides no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.model import Window
from lakehouse.orchestration.metadata import error_text
from lakehouse.readable import readable

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.model import Plan
    from lakehouse.orchestration.library import Library
    from lakehouse.services import Services


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The plan of one source, or why there is none. `declaration` holds that source alone."""

    declaration: Declaration
    plan: Plan | None
    error: LakehouseError | None = None

    @property
    def refusal(self) -> str:
        """Why a load of this source would be refused; empty if it would not be."""
        if self.error is not None:
            return f"{self.declaration.context}: {error_text(self.error)}"
        if self.plan is not None and self.plan.unaccepted:
            return f"{readable(self.plan.unaccepted)}\nnext: {readable(self.plan.answer)}"
        return ""


def plan_sources(
    declaration: Declaration,
    library: Library,
    services: Services,
    *,
    window: Callable[[Declaration], Window] = lambda _: Window(),
) -> tuple[SourcePlan, ...]:
    """The plan of each source for its window. Raises what the planning raised if no source could be planned."""
    found = [_plan(one, library, services, window(one)) for one in declaration.by_source]
    if all(one.plan is None for one in found):
        raise next(one.error for one in found if one.error is not None)
    return tuple(found)


def held(plans: Sequence[SourcePlan]) -> str:
    """Who holds the table, and why; empty if nobody does."""
    return next((one.plan.held for one in plans if one.plan is not None and one.plan.held), "")


def loadable(plans: Sequence[SourcePlan]) -> list[tuple[Declaration, Plan]]:
    """The sources that a load would read."""
    return [(one.declaration, one.plan) for one in plans if one.plan is not None and not one.refusal]


def refusals(plans: Sequence[SourcePlan]) -> list[str]:
    """What keeps sources from being loaded, and the command that answers it, for each."""
    return [one.refusal for one in plans if one.refusal]


def _plan(declaration: Declaration, library: Library, services: Services, window: Window) -> SourcePlan:
    from lakehouse.ingest import LoadRequest

    try:
        return SourcePlan(declaration, library.plan(declaration, LoadRequest(window=window), services))
    except LakehouseError as error:
        return SourcePlan(declaration, None, error)
