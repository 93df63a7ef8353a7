"""Landing dates that are read as a whole: every date of replace_partition, the newest one of a snapshot. Pure.

Owns which consumed objects a plan reads again, which dates wait, which consumed objects are missing, and where such a
plan may be cut. Takes decisions that were made object by object and gives back decisions: each object keeps one class
and a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, TypeVar

from lakehouse.bookmark import last_readings, ruling_of
from lakehouse.model import Bookmark, Decision, Glance, ObjectDecision, SeenObject
from lakehouse.placement import landing_date

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

Item = TypeVar("Item", ObjectDecision, SeenObject)
_WAITING = (Decision.DEFERRED, Decision.QUARANTINED)


@dataclass(frozen=True, slots=True)
class DatePlan:
    """Decisions with whole dates, and what a plan says of them (`model.Plan`). `replaced` are the dates whose rows are
    replaced by those of their planned objects."""

    decisions: tuple[ObjectDecision, ...]
    missing: tuple[str, ...] = ()
    newest_date: date | None = None
    unfinished: tuple[str, ...] = ()
    replaced: frozenset[date] = frozenset()


@dataclass(frozen=True, slots=True)
class _Dates:
    """What is known of every landing date of a plan. `failed` could not be fetched in this load; `unread` count as
    consumed, and no batch has read a version of them."""

    decided: Mapping[date, Sequence[ObjectDecision]]
    consumed: Mapping[date, Sequence[SeenObject]]
    failed: Mapping[date, Sequence[str]]
    source: str
    listed: frozenset[str]
    unread: frozenset[str]
    hash: str

    def planned(self, day: date) -> list[ObjectDecision]:
        return [item for item in self.decided.get(day, ()) if item.decision is Decision.PLANNED]

    def obstacles(self, day: date) -> tuple[str, ...]:
        """Why not all objects of the date can be read now."""
        waiting = (item for item in self.decided.get(day, ()) if item.decision in _WAITING)
        named = [f"{self.name(item.object.uri)} is {item.decision.value}" for item in waiting]
        return (*named, *(f"{self.name(uri)} could not be fetched" for uri in self.failed.get(day, ())))

    def skipped(self, day: date) -> tuple[str, ...]:
        """What an operator keeps from being read: no obstacle to the others, but the date's whole truth is unknown."""
        here = (item for item in self.decided.get(day, ()) if item.decision is Decision.SKIPPED)
        return tuple(f"{self.name(item.object.uri)} is skipped" for item in here)

    def missing(self, day: date) -> tuple[str, ...]:
        """Objects whose rows the table holds for the date, by all that is known, and that are not listed any more.

        Whoever reads a date as a whole consumes all of it at one version, so an object of an older version was left out
        then, with the operator's leave. Under another declaration that need not be so.
        """
        seen = [item for item in self.consumed.get(day, ()) if item.object.uri not in self.unread]
        newest = max((item.bookmark_version for item in seen), default=0)
        whole = any(item.declaration == self.hash for item in seen if item.bookmark_version == newest)
        versions = {newest} if whole else {item.bookmark_version for item in seen}
        gone = (s.object.uri for s in seen if s.bookmark_version in versions and s.object.uri not in self.listed)
        return tuple(sorted(gone))

    def name(self, uri: str) -> str:
        return uri.removeprefix(self.source)


def reads_whole_dates(declaration: Declaration) -> bool:
    """Whether a landing date is read as a whole, and not object by object."""
    return declaration.write in ("replace_partition", "snapshot")


def plan_dates(
    decisions: Sequence[ObjectDecision],
    *,
    declaration: Declaration,
    bookmark: Bookmark,
    known: Mapping[str, Glance],
    failed: Collection[str],
    accept_missing: bool,
) -> DatePlan:
    """The decisions as the write mode wants them; upsert and append take every object for itself.

    `known` is what the bookmark has seen of the objects. Of others it is asked for those of whole dates alone.
    """
    if not reads_whole_dates(declaration):
        return DatePlan(tuple(decisions))
    decided = _by_date(d for d in decisions if d.decision not in (Decision.IGNORED, Decision.OUTSIDE_WINDOW))
    failed_dates = _failed_by_date(failed, declaration)
    newest = _newest_date(decided, failed_dates)
    if declaration.write == "snapshot":
        whole = {newest} if newest else set()
    else:
        whole = {day for day, here in decided.items() if any(d.decision is Decision.PLANNED for d in here)}
    readings = last_readings(bookmark, whole)
    unread = {item.object.uri for item in bookmark.seen.of_dates(whole) if not item.declaration}
    dates = _Dates(
        decided=decided,
        consumed=_by_date(read for read in readings.values() if read.decision is not Decision.QUARANTINED),
        failed=failed_dates,
        source=declaration.source.uri,
        listed=frozenset((*(d.object.uri for d in decisions), *failed)),
        unread=frozenset(unread - bookmark.paused.lookup(unread).keys()),
        hash=declaration.hash,
    )
    if declaration.write == "snapshot":
        if newest is None or _read_later(bookmark, newest):
            # a newer date was read before: it is the truth, and none of these dates can be it
            return DatePlan(tuple(decisions))
        return _plan_snapshot(decisions, dates, newest, accept_missing=accept_missing)
    return _plan_replacement(decisions, dates, bookmark, known)


def cut_dates(
    decisions: Iterable[ObjectDecision], *, first: date | None, max_files: int | None, max_bytes: int | None
) -> tuple[tuple[ObjectDecision, ...], ...]:
    """The planned objects in batches that are cut between dates alone; a date over the bounds is a batch of its own.

    `first` goes before the others, which follow by date: what a snapshot's newest date says is then known when older
    ones are merged.
    """
    planned = _by_date(item for item in decisions if item.decision is Decision.PLANNED)
    batches: list[list[ObjectDecision]] = []
    size = 0
    for day in sorted(planned, key=lambda day: (day != first, day)):
        more = sum(item.object.size for item in planned[day])
        full = not batches or (max_files is not None and len(batches[-1]) + len(planned[day]) > max_files)
        if full or (max_bytes is not None and size + more > max_bytes):
            batches.append([])
            size = 0
        batches[-1] += planned[day]
        size += more
    in_order = (sorted(batch, key=lambda item: (item.object.last_modified, item.object.uri)) for batch in batches)
    return tuple(tuple(batch) for batch in in_order)


def _plan_replacement(
    decisions: Sequence[ObjectDecision], dates: _Dates, bookmark: Bookmark, known: Mapping[str, Glance]
) -> DatePlan:
    missing: list[str] = []
    replaced: set[date] = set()
    changed: dict[str, ObjectDecision] = {}
    for day in sorted(dates.decided):
        planned = dates.planned(day)
        if not planned:
            continue
        if obstacles := dates.obstacles(day):
            changed |= {item.object.uri: _held_back(item, obstacles[0], bookmark, known) for item in planned}
            continue
        changed |= _read_again(dates.decided[day], f"{dates.name(planned[0].object.uri)} is new in {day}")
        missing += dates.missing(day)
        replaced.add(day)
    return DatePlan(
        tuple(changed.get(d.object.uri, d) for d in decisions), missing=tuple(missing), replaced=frozenset(replaced)
    )


def _newest_date(decided: Mapping[date, Sequence[ObjectDecision]], failed: Mapping[date, Sequence[str]]) -> date | None:
    """The newest listed date. One of which an operator has skipped everything says nothing, however far in the future
    it lies."""
    asked = [day for day, here in decided.items() if any(d.decision is not Decision.SKIPPED for d in here)]
    return max((*asked, *failed), default=None)


def _read_later(bookmark: Bookmark, day: date) -> bool:
    """Whether an object of a newer date was read before."""
    return any(
        item.decision is not Decision.QUARANTINED
        for known in (bookmark.seen, bookmark.paused)
        for item in known.after(day)
    )


def _plan_snapshot(
    decisions: Sequence[ObjectDecision], dates: _Dates, listed: date, *, accept_missing: bool
) -> DatePlan:
    gone = () if accept_missing else (f"{dates.name(uri)} is not listed any more" for uri in dates.missing(listed))
    unfinished = (*dates.obstacles(listed), *dates.skipped(listed), *gone)
    here = dates.decided.get(listed, ())
    why = ""
    if planned := dates.planned(listed):
        why = f"{dates.name(planned[0].object.uri)} is new in {listed}"
    elif not unfinished and _in_pieces(here, dates.consumed.get(listed, ())):
        why = f"not all of {listed} was read in one batch"
    changed = _read_again(here, why) if why else {}
    return DatePlan(
        tuple(changed.get(d.object.uri, d) for d in decisions), newest_date=listed, unfinished=tuple(unfinished)
    )


def _in_pieces(decided: Iterable[ObjectDecision], consumed: Iterable[SeenObject]) -> bool:
    """Whether the date's listed objects were consumed by several batches, so that none of them saw the whole."""
    listed = {item.object.uri for item in decided if item.decision is Decision.CONSUMED}
    return len({item.bookmark_version for item in consumed if item.object.uri in listed}) > 1


def _read_again(decided: Iterable[ObjectDecision], why: str) -> dict[str, ObjectDecision]:
    return {
        item.object.uri: item._replace(decision=Decision.PLANNED, reason=f"re-read: {why}")
        for item in decided
        if item.decision is Decision.CONSUMED
    }


def _held_back(
    item: ObjectDecision, obstacle: str, bookmark: Bookmark, glances: Mapping[str, Glance]
) -> ObjectDecision:
    """An object whose date waits: unseen still, or consumed still if a full load would have read it again.

    One that an operator wants to be read again is not done with.
    """
    seen = glances.get(item.object.uri)
    known = seen and seen.fate.decision is Decision.CONSUMED and seen.is_of(item.object)
    known = known and ruling_of(bookmark, item.object) is None
    return item._replace(
        decision=Decision.CONSUMED if known else Decision.DEFERRED,
        reason=f"its date waits: {obstacle}",
    )


def _failed_by_date(failed: Iterable[str], declaration: Declaration) -> dict[date, list[str]]:
    found: dict[date, list[str]] = {}
    for uri in sorted(failed):
        if (day := landing_date(uri, source=declaration.source)) is not None:
            found.setdefault(day, []).append(uri)
    return found


def _by_date(items: Iterable[Item]) -> dict[date, list[Item]]:
    """By landing date; these modes have a dated source, whose data objects all have one."""
    found: dict[date, list[Item]] = {}
    for item in items:
        if item.landing_date is not None:
            found.setdefault(item.landing_date, []).append(item)
    return found
