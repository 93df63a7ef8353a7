"""The schedule of a table: asks for the dates of the lookback window that have unseen objects.

It marks its runs as scheduled, so that the gate `row_count_change` applies to them.

No `from __future__ import annotations` here: Dagster reads the annotations of the body.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import naming
from lakehouse.model import Window
from lakehouse.orchestration.asset import namespace_name
from lakehouse.orchestration.library import Library, silent
from lakehouse.orchestration.names import SCHEDULE, asset_key, run_tags
from lakehouse.orchestration.partitions import today
from lakehouse.orchestration.plans import held, loadable, plan_sources, refusals
from lakehouse.orchestration.requests import planned_dates

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def build_schedule(
    declaration: "Declaration", library: Library, *, status: dg.DefaultScheduleStatus
) -> dg.ScheduleDefinition | None:
    """The schedule `<namespace>__<table>_daily`; None if the declaration has no `schedule`."""
    if declaration.schedule is None:
        return None

    @dg.schedule(
        name=naming.schedule(namespace_name(declaration), declaration.name),
        cron_schedule=declaration.schedule,
        execution_timezone=declaration.timezone,
        target=dg.AssetSelection.assets(asset_key(declaration)),
        default_status=status,
        description=f"Asks for the unseen dates of the last {_days(declaration)} days",
    )
    def daily(context: dg.ScheduleEvaluationContext) -> dg.SkipReason | list[dg.RunRequest]:
        services = library.open(declaration, silent)
        plans = plan_sources(
            declaration, library, services, window=lambda one: lookback_window(one, context.scheduled_execution_time)
        )
        if by := held(plans):
            return dg.SkipReason(f"{declaration.table} is {by}")
        planned = sorted({key for one, plan in loadable(plans) for key in planned_dates(plan, one)})
        if not planned:
            windows = dict.fromkeys(_text(one.plan.window) for one in plans if one.plan is not None)
            nothing = f"no unseen objects in {', '.join(windows)}"
            return dg.SkipReason("\n".join(refusals(plans)) or nothing)
        for line in refusals(plans):
            context.log.warning(line)
        tick = context.scheduled_execution_time.isoformat()
        tags = run_tags(declaration, trigger=SCHEDULE)
        return [
            dg.RunRequest(run_key=f"{key or 'undated'}:{tick}", partition_key=key or None, tags=tags) for key in planned
        ]

    return daily


def _days(declaration: "Declaration") -> str:
    return " or ".join(dict.fromkeys(str(source.lookback_days) for source in declaration.sources))


def _text(window: Window) -> str:
    return f"{window.first or 'the source'}..{window.last or ''}"


def lookback_window(declaration: "Declaration", now: datetime) -> Window:
    """Today and the `lookback_days` of an only source before, not before the start; open for one without dates."""
    if not declaration.dated:
        return Window()
    last = today(declaration, now)
    first = max(last - timedelta(days=declaration.source.lookback_days), declaration.start_date)
    return Window(first, last)
