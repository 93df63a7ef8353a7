"""The plan of a load: every listed object in exactly one class with its reason, and the batches in order.

Owns which objects are read and why not (DESIGN §4, invariant 3). Never lists, reads or writes: listing, bookmark and
time come in as values, so the dry run and the load are the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.accepted import Identity, accepted_versions, with_accepted
from lakehouse.bookmark import ruling_of
from lakehouse.errors import ObjectChanged, UsageError
from lakehouse.model import (
    Bookmark,
    Decision,
    Fate,
    Glance,
    LandingObject,
    Mode,
    ObjectDecision,
    Plan,
    SeenObject,
    VersionRange,
    Window,
)
from lakehouse.placement import (
    EMPTY,
    Placement,
    Places,
    control_templates,
    control_uris,
)
from lakehouse.ready import Readiness, readiness_of
from lakehouse.whole_dates import DatePlan, cut_dates, plan_dates, reads_whole_dates

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration, Source


@dataclass(frozen=True, slots=True)
class _Request:
    """What is the same for every object of one plan. `known` is what the bookmark has seen of them, `paused` what was
    read of them without advancing it. `days` are the landing dates that may be read."""

    declaration: Declaration
    bookmark: Bookmark
    known: Mapping[str, Glance]
    paused: Mapping[str, Glance]
    mode: Mode
    since: int | None
    window: Window
    days: frozenset[date | None]
    versions: VersionRange | None
    now: datetime
    ready: Readiness
    accepted_at: Mapping[Identity, int]


def make_plan(
    *,
    declaration: Declaration,
    bookmark: Bookmark,
    listing: Sequence[LandingObject],
    mode: Mode,
    window: Window,
    table_uuid: str,
    now: datetime,
    since: int | None = None,
    versions: VersionRange | None = None,
    failed: Collection[str] = (),
    accept_missing: bool = False,
    places: Places | None = None,
) -> Plan:
    """Classify every listed object and cut what is planned into batches.

    A load commits batch after batch, so objects beyond the bounds of the first batch are planned too, in a later one;
    nothing is left over. `since` is for a load that plans again half-way and does not go by what is seen alone: the
    bookmark version that it began at; what it has read since is not read again. `versions` asks for what these bookmark
    versions read, and for nothing else. `failed` are the listed objects that this load could not fetch: they
    are left out, and the dates that need them wait. `accept_missing`: a snapshot's newest date is complete without the
    consumed objects that are not listed any more. `places` are those that are known already, of this source.

    Raises UsageError for dates asked of an undated source and versions of a table that reads whole dates, ObjectChanged
    for a key that is listed twice.
    """
    if versions is not None and reads_whole_dates(declaration):
        raise UsageError(
            f"write: {declaration.write} reads landing dates as a whole, so no range of batches can be asked for: "
            f"table={declaration.table}",
            next=f"lakehouse load {declaration.table} --mode no-advance --from DATE --to DATE",
        )
    if declaration.source.landing is None and window != Window():
        raise UsageError(
            f"the source names no landing dates, so none can be asked for: table={declaration.table}",
            next=f"lakehouse load {declaration.table}",
        )
    placed = _placed(declaration, listing, places or Places(declaration.source))
    days = _days(placed, declaration, window)
    asked = _may_be_read(placed, days)
    request = _Request(
        declaration=declaration,
        bookmark=bookmark,
        known=bookmark.seen.glances(asked),
        paused=bookmark.paused.glances(asked),
        mode=mode,
        since=since,
        window=window,
        days=days,
        versions=versions,
        now=now,
        ready=readiness_of(placed, source=declaration.source, bookmark=bookmark),
        accepted_at=accepted_versions(bookmark, declaration=declaration.hash),
    )
    dates = plan_dates(
        [_classify(obj, placement, request) for obj, placement in placed if obj.uri not in failed],
        declaration=declaration,
        bookmark=bookmark,
        known=request.known,
        failed=failed,
        accept_missing=accept_missing,
    )
    plan = Plan(
        table=declaration.table,
        context=declaration.context,
        table_uuid=table_uuid,
        mode=mode,
        window=window,
        declaration=declaration.hash,
        bookmark_version=bookmark.version,
        decisions=dates.decisions,
        batches=_cut(dates, declaration),
        batch_id="",
        warnings=_warnings(dates, request),
        missing=dates.missing,
        newest_date=dates.newest_date,
        unfinished=dates.unfinished,
        held=bookmark.held.text if bookmark.held else "",
    )
    plan = with_accepted(plan, bookmark.accepted)
    if not plan.batches:
        return plan
    first = batch_id_for(plan, plan.batches[0], table_uuid=table_uuid, version=bookmark.version)
    return replace(plan, batch_id=first)


def decide_objects(
    uris: Collection[str],
    *,
    declaration: Declaration,
    bookmark: Bookmark,
    listing: Sequence[LandingObject],
    now: datetime,
) -> dict[str, ObjectDecision]:
    """What an incremental load without a window decides about objects, each by itself, whatever the rest of its date
    does. Those that are not listed are left out; `listing` holds at least all objects of their dates."""
    placed = _placed(declaration, listing, Places(declaration.source))
    wanted = frozenset(uris)
    ready = readiness_of(placed, source=declaration.source, bookmark=bookmark)
    request = _Request(
        declaration=declaration,
        bookmark=bookmark,
        known=bookmark.seen.glances(wanted),
        paused=bookmark.paused.glances(wanted),
        mode=Mode.INCREMENTAL,
        since=None,
        window=Window(),
        days=_days(placed, declaration, Window()),
        versions=None,
        now=now,
        ready=ready,
        accepted_at=accepted_versions(bookmark, declaration=declaration.hash),
    )
    return {obj.uri: _classify(obj, placement, request) for obj, placement in placed if obj.uri in wanted}


def batch_id_for(plan: Plan, objects: Sequence[ObjectDecision], *, table_uuid: str, version: int) -> str:
    """The id of a batch of this plan that starts from bookmark version `version`; the objects in their order."""
    return naming.batch_id(
        table_uuid=table_uuid,
        context=plan.context,
        bookmark_version=version,
        declaration=plan.declaration,
        mode=plan.mode.value,
        identities=[item.object.identity for item in objects],
    )


def _placed(
    declaration: Declaration, listing: Sequence[LandingObject], places: Places
) -> list[tuple[LandingObject, Placement]]:
    controls = control_uris(listing, source=declaration.source, templates=control_templates(declaration))
    return [places.of(obj, controls) for obj in _by_key(listing)]


def _days(
    placed: Sequence[tuple[LandingObject, Placement]], declaration: Declaration, window: Window
) -> frozenset[date | None]:
    """The landing dates that are there and may be read; None for objects without one."""
    there = {placement.landing_date for _, placement in placed}
    return frozenset(day for day in there if day is None or (day >= declaration.start_date and window.contains(day)))


def _may_be_read(placed: Sequence[tuple[LandingObject, Placement]], days: Collection[date | None]) -> list[str]:
    """The uris of which it matters what is known: those that the listing alone leaves out are not looked up."""
    return [
        obj.uri
        for obj, placement in placed
        if placement.ignored == EMPTY or (not placement.ignored and placement.landing_date in days)
    ]


def _by_key(listing: Sequence[LandingObject]) -> list[LandingObject]:
    ordered = sorted(listing, key=lambda obj: obj.uri)
    for before, after in pairwise(ordered):
        if before.uri == after.uri:
            raise ObjectChanged(
                f"one key was listed twice, it was overwritten meanwhile: uri={after.uri}", uri=after.uri
            )
    return ordered


def _classify(obj: LandingObject, placement: Placement, request: _Request) -> ObjectDecision:
    day = placement.landing_date
    ruling = ruling_of(request.bookmark, obj) if request.bookmark.rulings else None
    ruled_at = ruling.bookmark_version if ruling else None
    if request.accepted_at and (accepted_at := request.accepted_at.get(obj.identity)):
        ruled_at = max(ruled_at or 0, accepted_at)
    if placement.ignored and not (placement.ignored == EMPTY and _was_read(obj, request)):
        return ObjectDecision(obj, day, Decision.IGNORED, placement.ignored)
    if day is not None and day not in request.days:
        skipped = f"; {ruling.reason}" if ruling and ruling.decision is Decision.SKIPPED else ""
        return ObjectDecision(obj, day, Decision.OUTSIDE_WINDOW, _outside(day, request) + skipped, ruled_at)
    decision, reason = _decide(obj, ruling, request)
    if decision is Decision.PLANNED and (why := _waits_for(obj, day, request)):
        decision, reason = Decision.DEFERRED, why
    return ObjectDecision(obj, day, decision, reason, ruled_at)


def _decide(obj: LandingObject, ruling: SeenObject | None, request: _Request) -> tuple[Decision, str]:
    """What becomes of an object that may be read: what this load has done, an operator has decided, or is known."""
    if request.mode is Mode.NO_ADVANCE and (read := _read_without_advancing(obj, request)):
        return Decision.CONSUMED, read
    if ruling is not None and ruling.decision is Decision.SKIPPED:
        return ruling.decision, ruling.reason
    if request.versions is not None:
        return _in_versions(obj, request.versions)
    return (ruling.decision, ruling.reason) if ruling else _compare(obj, request)


def _waits_for(obj: LandingObject, day: date | None, request: _Request) -> str:
    """Why an object that is to be read cannot be read yet; empty if it can."""
    source = request.declaration.source
    if settles := settles_at(obj, source, request.now):
        return f"too young: settle_seconds={source.settle_seconds} until {settles.isoformat()}"
    return request.ready.why_not(obj, day)


def _was_read(obj: LandingObject, request: _Request) -> bool:
    """Whether a batch took rows from the object before it was emptied, or has refused it as it is now: then its rows
    are in the table, and an upload that was cut off must not look like a day without rows."""
    readings = (request.known.get(obj.uri), request.paused.get(obj.uri))
    return any(known and (known.fate.decision is not Decision.QUARANTINED or known.is_of(obj)) for known in readings)


def _outside(day: date, request: _Request) -> str:
    """Why a date is not read now, with the command that loads it."""
    declaration, window = request.declaration, request.window
    command = f"lakehouse load {declaration.table} --from {day} --to {day}"
    if day < declaration.start_date:
        return f"before start_date={declaration.start_date}: declare start_date: {day}, then {command}"
    late = "late, " if window.first is not None and day < window.first else ""
    return f"{late}outside window {window.first or ''}..{window.last or ''}: {command}"


def _compare(obj: LandingObject, request: _Request) -> tuple[Decision, str]:
    """Compare with the latest version of the key that a batch has seen; its time decides nothing (D01, D02)."""
    known = request.known.get(obj.uri)
    if known is None:
        before = request.paused.get(obj.uri)
        if before is None:
            return Decision.PLANNED, "new object"
        read = _read_by(before.fate)
        return Decision.PLANNED, f"read before, and not seen by the bookmark: {read}"
    fate = known.fate
    if not known.is_of(obj):
        return Decision.PLANNED, f"new version of a {fate.decision.value} object: etag={known.etag} before"
    again = request.mode is Mode.FULL and (request.since is None or fate.bookmark_version <= request.since)
    if again:
        return Decision.PLANNED, f"full mode: {fate.decision.value} at bookmark_version={fate.bookmark_version}"
    if fate.decision is Decision.CONSUMED:
        return Decision.CONSUMED, _read_by(fate)
    if fate.declaration != request.declaration.hash:
        return Decision.PLANNED, f"quarantined under an older declaration: {fate.reason}"
    return Decision.QUARANTINED, fate.reason


@lru_cache(maxsize=4096)
def _read_by(fate: Fate) -> str:
    """One text for all objects of a batch."""
    return f"batch_id={fate.batch_id} bookmark_version={fate.bookmark_version}"


def _read_without_advancing(obj: LandingObject, request: _Request) -> str:
    """Which batch of this load has read the object, if it leaves the bookmark where it is; empty if none has."""
    paused = request.paused.get(obj.uri)
    if request.since is None or paused is None:
        return ""
    if not paused.is_of(obj) or paused.fate.bookmark_version <= request.since:
        return ""
    return f"read by this load, which does not advance: batch_id={paused.fate.batch_id}"


def _in_versions(obj: LandingObject, versions: VersionRange) -> tuple[Decision, str]:
    """Whether the object, as it is, was read by one of these versions (G5, G6), whatever has read it since."""
    asked = f"bookmark versions ({versions.first}, {versions.last}]"
    version = versions.read.get(obj.identity)
    if version is None:
        return Decision.OUTSIDE_WINDOW, f"outside {asked}: none of them has read it as it is"
    return Decision.PLANNED, f"in {asked}: read at bookmark_version={version}"


def settles_at(obj: LandingObject, source: Source, now: datetime) -> datetime | None:
    """When a too young object may be read; None if it may be now.

    Without a declared age nothing waits, also not an object that a fast clock dated into the future.
    """
    settles = obj.last_modified + timedelta(seconds=source.settle_seconds)
    return settles if source.settle_seconds > 0 and now < settles else None


def _cut(dates: DatePlan, declaration: Declaration) -> tuple[tuple[ObjectDecision, ...], ...]:
    source = declaration.source
    if reads_whole_dates(declaration):
        return cut_dates(
            dates.decisions, first=dates.newest_date, max_files=source.max_files, max_bytes=source.max_bytes
        )
    return _batches(dates.decisions, max_files=source.max_files, max_bytes=source.max_bytes)


def _batches(
    decisions: Sequence[ObjectDecision], *, max_files: int | None, max_bytes: int | None
) -> tuple[tuple[ObjectDecision, ...], ...]:
    """Cut the planned objects, oldest first; an object larger than `max_bytes` is a batch of its own."""
    planned = [item for item in decisions if item.decision is Decision.PLANNED]
    planned.sort(key=lambda item: (item.object.last_modified, item.object.uri))
    batches: list[list[ObjectDecision]] = []
    size = 0
    for item in planned:
        full = not batches or (max_files is not None and len(batches[-1]) >= max_files)
        if full or (max_bytes is not None and size + item.object.size > max_bytes):
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += item.object.size
    return tuple(tuple(batch) for batch in batches)


def _warnings(dates: DatePlan, request: _Request) -> tuple[str, ...]:
    warnings = []
    current = ("", request.declaration.hash)
    others = {uri for uri, known in request.known.items() if known.fate.declaration not in current}
    older = sum(item.decision is Decision.CONSUMED and item.object.uri in others for item in dates.decisions if others)
    if older:
        objects = "1 object was" if older == 1 else f"{older} objects were"
        warnings.append(f"{objects} loaded under an older declaration, use mode full")
    warnings += _skips(dates)
    if dates.missing:
        objects = "object is" if len(dates.missing) == 1 else "objects are"
        warnings.append(
            f"{len(dates.missing)} consumed {objects} not listed any more and the date is to be replaced, the first: "
            f"{dates.missing[0]}; --accept-missing replaces it without"
        )
    return tuple(warnings)


def _skips(dates: DatePlan) -> list[str]:
    """That operators keep objects from being read, and which dates are replaced without them."""
    skipped = [item for item in dates.decisions if item.decision is Decision.SKIPPED]
    if not skipped:
        return []
    objects = "1 object is" if len(skipped) == 1 else f"{len(skipped)} objects are"
    told = [f"{objects} skipped by an operator, the first: {skipped[0].object.uri}: {skipped[0].reason}"]
    without = {item.landing_date for item in skipped if item.landing_date in dates.replaced}
    return told + [f"{day} is replaced without its skipped objects" for day in sorted(filter(None, without))]
