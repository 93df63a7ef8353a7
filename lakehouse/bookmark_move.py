"""Where an operator's change leaves a position: what is seen, and what is still known of rows in the table. Pure.

Whatever stops being seen stays known as read (`Bookmark.paused`): its rows are in the table, so reading it again
replaces them in an append table, and a landing date that is read as a whole misses it if it is not listed any more.
What operators have decided about objects stands, and so does a hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from lakehouse.bookmark import last_readings
from lakehouse.model import Bookmark, Checkpoint, Decision, ObjectOutcome, SeenObject


def known_of(bookmark: Bookmark) -> Checkpoint:
    """What the checkpoint of a manifest holds that leaves the position so."""
    return Checkpoint(bookmark.seen, bookmark.rulings, bookmark.paused)


def seen_nothing(now: Bookmark, *, whole_dates: bool) -> Bookmark:
    """The position reset: nothing is seen. `whole_dates`: the table's landing dates are read as a whole."""
    return replace(now, seen={}, paused=_read_and_not_seen(now, {}, whole_dates=whole_dates))


def seen_as(now: Bookmark, then: Bookmark, *, whole_dates: bool) -> Bookmark:
    """The position that has seen what `then` had, over a table that stays as it is."""
    paused = _read_and_not_seen(now, then.seen, whole_dates=whole_dates)
    return replace(now, seen=then.seen, rulings=_rulings(now, then), paused=paused)


def stood_as(now: Bookmark, then: Bookmark) -> Bookmark:
    """The position `then`, for a table that is again as it was then; version and chain stay those of `now`."""
    return replace(
        now,
        seen=then.seen,
        rulings=_rulings(now, then),
        paused=then.paused,
        graves=then.graves,
        settled_date=then.settled_date,
    )


def marked(now: Bookmark, done: Iterable[ObjectOutcome], *, batch_id: str, version: int, whole_dates: bool) -> Bookmark:
    """The position that counts these objects as consumed, though no batch has read them.

    Where landing dates are read as a whole, an object takes the version at which the others of its date were read: two
    versions would say that the date was read in pieces, or that the older one was left out. There, one that was read as
    it is stands as it was read, and what was read of an older version stays known: its rows are in the table.
    """
    readings = last_readings(now) if whole_dates else {}
    latest = _latest(readings.values())
    seen, rulings, paused = dict(now.seen), dict(now.rulings), dict(now.paused)
    for item in done:
        uri = item.object.uri
        read = readings.get(uri)
        paused.pop(uri, None)
        if uri in rulings and rulings[uri].decision is not Decision.SKIPPED:
            del rulings[uri]
        if read is not None and read.decision is not Decision.QUARANTINED:
            if read.object.identity == item.object.identity:
                seen[uri] = replace(read, decision=Decision.CONSUMED)
                continue
            paused[uri] = replace(read, decision=Decision.DEFERRED)
        seen[uri] = SeenObject(
            object=item.object,
            landing_date=item.landing_date,
            decision=Decision.CONSUMED,
            reason=item.reason,
            batch_id=batch_id,
            bookmark_version=latest.get(item.landing_date, version),
            declaration="",
            first_seen=item.first_seen,
        )
    return replace(now, seen=seen, rulings=rulings, paused=paused)


def _read_and_not_seen(now: Bookmark, seen: Mapping[str, SeenObject], *, whole_dates: bool) -> dict[str, SeenObject]:
    """The readings that a bookmark of `seen` does not tell.

    A quarantined object may have rows of an older version. A date that is read as a whole has none of it then.
    """
    return {
        uri: replace(item, decision=Decision.DEFERRED)
        for uri, item in last_readings(now).items()
        if item != seen.get(uri) and not (whole_dates and item.decision is Decision.QUARANTINED)
    }


def _rulings(now: Bookmark, then: Bookmark) -> dict[str, SeenObject]:
    """What is decided now, and the requests to read again that stood then and have been carried out since."""
    requests = {uri: item for uri, item in then.rulings.items() if item.decision is Decision.PLANNED}
    return {**requests, **now.rulings}


def _latest(readings: Iterable[SeenObject]) -> dict[date | None, int]:
    """The version at which each landing date was read last."""
    found: dict[date | None, int] = {}
    for item in readings:
        if item.decision is not Decision.QUARANTINED:
            found[item.landing_date] = max(found.get(item.landing_date, 0), item.bookmark_version)
    return found
