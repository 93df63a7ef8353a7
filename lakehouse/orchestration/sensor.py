"""The sensor of a table: asks for exactly the dates that have unseen objects, however old, once per change.

It lists, plans and compares; a listing or a catalog that fails fails the tick and leaves the cursor as it was. The
cursor is a hint (see `cursor`), the plan decides.

No `from __future__ import annotations` here: Dagster reads the annotations of the body.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import naming
from lakehouse.fingerprint import fingerprints
from lakehouse.orchestration.asset import namespace_name
from lakehouse.orchestration.cursor import Asked, Fate, RunFate, next_listing, next_request, read_cursor, write_cursor
from lakehouse.orchestration.library import Library, silent
from lakehouse.orchestration.names import REFUSED, RUN_KEY, SENSOR, asset_key, run_tags
from lakehouse.orchestration.partitions import known_dates
from lakehouse.orchestration.plans import SourcePlan, held, loadable, plan_sources, refusals
from lakehouse.orchestration.requests import UNDATED, as_dates, deferred_dates, planned_dates

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
        description=f"Asks for the dates of {', '.join(s.uri for s in declaration.sources)} that have unseen objects",
    )
    def landing(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        services = library.open(declaration, silent)
        now = services.now()
        if (due := next_listing(context.cursor)) is not None and now < due:
            return dg.SensorResult(
                skip_reason=f"the source is large: it is listed again at {due}", cursor=context.cursor
            )
        plans = plan_sources(declaration, library, services)
        if by := held(plans):
            return dg.SensorResult(skip_reason=f"{declaration.table} is {by}", cursor=context.cursor)
        old = read_cursor(context.cursor)
        marks = _marks_of_sources(plans, old, now)
        # a date that waits again must not be forgotten: the key of its last run would come a second time
        unseen = {*marks, *(key for one, plan in loadable(plans) for key in deferred_dates(plan, one))}
        if any(one.plan is None for one in plans):
            # what a source that cannot be planned now has asked for is not known to be read
            unseen |= old.keys()
        asked: dict[str, Asked] = {key: old[key] for key in sorted(unseen) if key in old}
        wanted: dict[str, Asked] = {}
        for key, mark in marks.items():
            before = asked.get(key)
            run = _fate(context.instance, before.run_key(key)) if before else RunFate(Fate.UNKNOWN)
            version = _version(plans, before)
            request = next_request(before, mark=mark, bookmark_version=version, run=run, now=now)
            if request and len(wanted) < MOST_REQUESTS:
                wanted[key] = request
        for line in _notes(plans, marks, wanted):
            context.log.info(line)
        listed = sum(len(one.plan.decisions) for one in plans if one.plan is not None)
        due = now + LISTING_WAIT * (listed // KEYS_PER_LISTING)
        spare = due - now > timedelta(seconds=SECONDS_BETWEEN_TICKS) and len(wanted) < MOST_REQUESTS
        pause = due if spare else None
        return _result(declaration, asked, wanted, unseen=len(marks), refused=refusals(plans), pause=pause)

    return landing


def _marks_of_sources(plans: Sequence[SourcePlan], old: Mapping[str, Asked], now: datetime) -> dict[str, str]:
    """The partitions with unseen objects of any source; a mark has a part for each source in their order.

    A source that cannot be planned now keeps its part, so that the date is not asked for again on its account.
    """
    found = [_marks(one.plan, one.declaration, now) if one.plan and not one.refusal else {} for one in plans]
    if len(plans) == 1:
        return found[0]
    keys = sorted({key for marks in found for key in marks})
    return {
        key: ".".join(
            _kept(old.get(key), place, len(plans)) if one.plan is None else marks.get(key, "-")
            for place, (one, marks) in enumerate(zip(plans, found, strict=True))
        )
        for key in keys
    }


def _kept(asked: Asked | None, place: int, sources: int) -> str:
    parts = asked.mark.split(".") if asked else []
    return parts[place] if len(parts) == sources else "-"


def _version(plans: Sequence[SourcePlan], before: Asked | None) -> int:
    """Moves with the bookmark of any source. Where one cannot be planned nobody knows, so that it does not move."""
    known = [one.plan.bookmark_version for one in plans if one.plan is not None]
    return before.bookmark_version if before and len(known) < len(plans) else sum(known)


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


def _notes(plans: Sequence[SourcePlan], marks: Mapping[str, str], wanted: Mapping[str, Asked]) -> list[str]:
    """What the tick's log says beside the requests."""
    planned = sorted({key for one, plan in loadable(plans) for key in planned_dates(plan, one)})
    strange = [key for key in planned if key not in marks]
    notes = refusals(plans)
    notes += [f"no partition yet, not asked for: {', '.join(strange)}"] if strange else []
    if waiting := [key or "everything" for key in marks if key not in wanted]:
        notes.append(f"unseen and asked for before, or over {MOST_REQUESTS}: {', '.join(waiting[:20])}")
    return notes


def _result(
    declaration: "Declaration",
    asked: Mapping[str, Asked],
    wanted: Mapping[str, Asked],
    *,
    unseen: int,
    refused: Sequence[str],
    pause: datetime | None,
) -> dg.SensorResult:
    cursor = write_cursor({**asked, **wanted}, next_listing=pause)
    if not wanted:
        text = f"{unseen} dates with unseen objects were asked for before" if unseen else "no unseen objects"
        return dg.SensorResult(skip_reason="\n".join([*refused, text] if unseen else refused or [text]), cursor=cursor)
    tags = run_tags(declaration, trigger=SENSOR)
    requests = [
        dg.RunRequest(run_key=f"{request.run_key(key)}", partition_key=key or None, tags=tags)
        for key, request in wanted.items()
    ]
    return dg.SensorResult(run_requests=requests, cursor=cursor)
