"""`lakehouse arrivals`: how late objects come, and the window that sees them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from lakehouse.audit.arrivals import Arrivals, arrivals_of, distribution
from lakehouse.cli.options import AsJson, SourceName, TableName, declared, look_at, services_for, sources_of
from lakehouse.cli.output import (
    error_json,
    of_sources,
    print_failure,
    print_json,
    print_pairs,
    print_table,
    say,
)
from lakehouse.declaration import Declaration
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.ingest import LoadRequest, plan_load
from lakehouse.model import Decision
from lakehouse.position import find_position
from lakehouse.receipt_total import worst_exit_code
from lakehouse.services import Services

BAR = 40
"""Characters of the longest bar."""
_UNSEEN = (Decision.PLANNED, Decision.DEFERRED)

MissRate = Annotated[
    float,
    typer.Option("--miss-rate", metavar="R", help="Part of the objects that a window may miss, 0 to 1."),
]


def add_to(app: typer.Typer) -> None:
    app.command("arrivals", epilog="Example: lakehouse arrivals analytics.orders --miss-rate 0.001")(arrivals)


def arrivals(table: TableName, miss_rate: MissRate = 0.001, source: SourceName = None, as_json: AsJson = False) -> None:
    """Days from landing date to arrival, as a histogram, and the smallest window for a miss rate; for each source."""
    if not 0 <= miss_rate < 1:
        raise UsageError(f"--miss-rate: got {miss_rate}; expected a part of the objects, 0 to 1, such as 0.001")
    declaration = declared(table)
    if not declaration.dated:
        raise UsageError(
            f"table {table}: objects have no landing date without source.partition, so none is late",
            next=f"lakehouse files {table}",
        )
    services = services_for(declaration)
    parts = sources_of(declaration, source)
    every = look_at(parts, lambda one: find_arrivals(one, services, miss_rate=miss_rate))
    if as_json:
        print_json(of_sources(table, [(context, _as_json(table, found)) for context, found in every]))
    for context, found in every:
        if isinstance(found, LakehouseError):
            print_failure(f"{context}: {found.message}", found.next)
        elif not as_json:
            if len(every) > 1:
                print_pairs({"source": context})
            _print(found)
    raise typer.Exit(worst_exit_code([f.exit_code for _, f in every if isinstance(f, LakehouseError)]))


def _as_json(table: str, found: Arrivals | LakehouseError) -> dict[str, object]:
    return error_json(found) if isinstance(found, LakehouseError) else {"table": table, **asdict(found)}


def find_arrivals(declaration: Declaration, services: Services, *, miss_rate: float) -> Arrivals:
    """Of every object that a batch has read, and of those listed now that none has."""
    plan = plan_load(declaration, LoadRequest(), services)
    unseen = [
        (d.object, d.landing_date) for d in plan.decisions if d.decision in _UNSEEN and d.landing_date is not None
    ]
    seen = find_position(declaration, services).bookmark.seen
    changed = {item.uri for item, _ in unseen}
    known = (item for item in seen.stream() if item.object.uri not in changed)
    arrived = arrivals_of(known, unseen, zone=ZoneInfo(declaration.timezone))
    return distribution(arrived, window=declaration.source.lookback_days, miss_rate=miss_rate)


def _print(found: Arrivals) -> None:
    if found.objects:
        most = max(found.days.values())
        rows = [(day, count, "█" * max(1, round(BAR * count / most))) for day, count in found.days.items()]
        print_table("days from landing date to arrival", ["days", "objects", ""], rows)
    if found.latest:
        print_table(
            "the latest", ["days", "landing date", "uri"], [(o.late_days, o.landing_date, o.uri) for o in found.latest]
        )
    print_pairs(
        {
            "objects": found.objects,
            "lookback_days": f"{found.window}, which misses {found.missed:,}",
            "advised": f"lookback_days: {found.advised}" if found.advised is not None else "nothing has arrived yet",
            "miss rate": found.miss_rate,
            "waited for a load": ", ".join(f"{name} {timedelta(seconds=round(s))}" for name, s in found.waits.items()),
        }
    )
    say("a window misses what the schedule does not ask for; the sensor asks for every date, however old")
