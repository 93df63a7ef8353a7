"""The sensor of a table: asks for exactly the dates that have unseen objects, however old, once per change.

It lists, plans and compares; a listing or a catalog that fails fails the tick and leaves the cursor as it was. The
cursor is a hint (see `cursor`), the plan decides.

No `from __future__ import annotations` here: Dagster reads the annotations of the body.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import naming
from lakehouse.orchestration.asset import namespace_name
from lakehouse.orchestration.cursor import Asked, Fate, RunFate, next_listing, next_request, read_cursor, write_cursor
from lakehouse.orchestration.library import Library, silent
from lakehouse.orchestration.names import REFUSED, RUN_KEY, SENSOR, asset_key, run_tags
from lakehouse.orchestration.partitions import known_dates
from lakehouse.orchestration.requests import UNDATED, as_dates, deferred_dates, planned_dates
from lakehouse.plan import fingerprints

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.model import Plan

SECONDS_BETWEEN_TICKS = 30
KEYS_PER_LISTING = 1000
LISTING_WAIT = timedelta(seconds=3)
"""For each thousand listed objects, the time until they are listed again: no more than 28,800 LIST calls a day."""
MOST_REQUESTS = 200
"""Runs asked for in one tick; Dagster submits them one by one. The next tick goes on."""


def build_sensor(
    declaration: "Declaration", library: Library, *, status: dg.DefaultSensorStatus
) -> dg.SensorDefinition:
    """The sensor `<namespace>__<table>_landing`."""

    @dg.sensor(
        name=naming.sensor(namespace_name(declaration), declaration.name),
        target=dg.AssetSelection.assets(asset_key(declaration)),
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=status,
        description=f"Asks for the dates of {declaration.source.uri} that have unseen objects",
    )
    def landing(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        from lakehouse.ingest import LoadRequest

        services = library.open(declaration, silent)
        now = services.now()
        if (due := next_listing(context.cursor)) is not None and now < due:
            return dg.SensorResult(
                skip_reason=f"the source is large: it is listed again at {due}", cursor=context.cursor
            )
        plan = library.plan(declaration, LoadRequest(), services)
        if plan.held:
            return dg.SensorResult(skip_reason=f"{declaration.table} is {plan.held}", cursor=context.cursor)
        marks = _marks(plan, declaration, now)
        old = read_cursor(context.cursor)
        # a date that waits again must not be forgotten: the key of its last run would come a second time
        unseen = {*marks, *deferred_dates(plan, declaration)}
        asked: dict[str, Asked] = {key: old[key] for key in sorted(unseen) if key in old}
        wanted: dict[str, Asked] = {}
        for key, mark in marks.items():
            before = asked.get(key)
            run = _fate(context.instance, before.run_key(key)) if before else RunFate(Fate.UNKNOWN)
            request = next_request(before, mark=mark, bookmark_version=plan.bookmark_version, run=run, now=now)
            if request and len(wanted) < MOST_REQUESTS:
                wanted[key] = request
        for line in _notes(plan, declaration, marks, wanted):
            context.log.info(line)
        due = now + LISTING_WAIT * (len(plan.decisions) // KEYS_PER_LISTING)
        spare = due - now > timedelta(seconds=SECONDS_BETWEEN_TICKS) and len(wanted) < MOST_REQUESTS
        pause = due if spare else None
        return _result(declaration, asked, wanted, unseen=len(marks), pause=pause)

    return landing


def _marks(plan: "Plan", declaration: "Declaration", now: datetime) -> dict[str, str]:
    """The partitions with unseen objects, each with a mark that changes with its objects, what operators decided about
    them, and the declaration."""
    planned = planned_dates(plan, declaration)
    known = {day.isoformat() for day in known_dates(declaration, as_dates(planned), now=now)} | {UNDATED}
    if not planned:
        return {}
    here = [d.object for d in plan.decisions if d.landing_date is None or d.landing_date.isoformat() in planned]
    prints = fingerprints(here, source=declaration.source, now=now)
    rules = declaration.gates.model_dump_json() + declaration.hash
    rulings: dict[str, list[str]] = {}
    for item in plan.decisions:
        if item.ruled_at is not None:
            day = item.landing_date.isoformat() if item.landing_date else UNDATED
            rulings.setdefault(day, []).append(f"{item.object.uri} {item.ruled_at}")
    return {key: _digest([prints.get(key, ""), rules, *rulings.get(key, ())]) for key in planned if key in known}


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _fate(instance: dg.DagsterInstance, run_key: str) -> RunFate:
    """What became of the newest run of that key. Somebody who cancelled a run does not want it back at once."""
    records = instance.get_run_records(dg.RunsFilter(tags={RUN_KEY: run_key}), limit=1)
    if not records:
        return RunFate(Fate.UNKNOWN)
    run, end = records[0].dagster_run, records[0].end_time
    # a run that was never started has no end
    ended_at = datetime.fromtimestamp(end, UTC) if end else records[0].update_timestamp
    if not run.is_finished:
        return RunFate(Fate.GOING_ON)
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return RunFate(Fate.SUCCEEDED, ended_at)
    if run.status is dg.DagsterRunStatus.CANCELED or REFUSED in run.tags:
        return RunFate(Fate.REFUSED, ended_at)
    return RunFate(Fate.FAILED, ended_at)


def _notes(
    plan: "Plan", declaration: "Declaration", marks: Mapping[str, str], wanted: Mapping[str, Asked]
) -> list[str]:
    """What the tick's log says beside the requests."""
    strange = [key for key in planned_dates(plan, declaration) if key not in marks]
    notes = [f"no partition yet, not asked for: {', '.join(strange)}"] if strange else []
    if waiting := [key or "everything" for key in marks if key not in wanted]:
        notes.append(f"unseen and asked for before, or over {MOST_REQUESTS}: {', '.join(waiting[:20])}")
    return notes


def _result(
    declaration: "Declaration",
    asked: Mapping[str, Asked],
    wanted: Mapping[str, Asked],
    *,
    unseen: int,
    pause: datetime | None,
) -> dg.SensorResult:
    cursor = write_cursor({**asked, **wanted}, next_listing=pause)
    if not wanted:
        text = f"{unseen} dates with unseen objects were asked for before" if unseen else "no unseen objects"
        return dg.SensorResult(skip_reason=text, cursor=cursor)
    tags = run_tags(declaration, trigger=SENSOR)
    requests = [
        dg.RunRequest(run_key=f"{request.run_key(key)}", partition_key=key or None, tags=tags)
        for key, request in wanted.items()
    ]
    return dg.SensorResult(run_requests=requests, cursor=cursor)
