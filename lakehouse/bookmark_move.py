"""Where an operator's change leaves a position: what is seen, and what is still known of rows in the table. Pure.

Whatever stops being seen stays known as read (`Bookmark.paused`): its rows are in the table, so reading it again
replaces them in an append table, and a landing date that is read as a whole misses it if it is not listed any more.
What operators have decided about objects stands, and so does a hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date

from lakehouse.bookmark import last_readings
from lakehouse.model import Bookmark, Checkpoint, Decision, ObjectOutcome, Seen, SeenObject


def known_of(bookmark: Bookmark) -> Checkpoint:
    """What the checkpoint of a manifest holds that leaves the position so."""
    return Checkpoint(bookmark.seen, bookmark.rulings, bookmark.paused)


def seen_nothing(now: Bookmark) -> Bookmark:
    """The position reset: nothing is seen."""
    return replace(now, seen=Seen(), paused=_readings(now))


def seen_as(now: Bookmark, then: Bookmark) -> Bookmark:
    """The position that has seen what `then` had, over a table that stays as it is.

    What it does not tell of the readings of now stays known.
    """
    untold = _readings(now).differences(then.seen)
    paused = Seen({uri: read for uri, read, _ in untold if read is not None})
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
    done = tuple(done)
    readings = last_readings(now, {item.landing_date for item in done}) if whole_dates else {}
    latest = _latest(readings.values())
    seen: dict[str, SeenObject] = {}
    paused: dict[str, SeenObject | None] = {}
    rulings = dict(now.rulings)
    for item in done:
        uri = item.object.uri
        read = readings.get(uri)
        paused[uri] = None
        if uri in rulings and rulings[uri].decision is not Decision.SKIPPED:
            del rulings[uri]
        if read is not None and read.decision is not Decision.QUARANTINED:
            if read.object.identity == item.object.identity:
                seen[uri] = replace(read, decision=Decision.CONSUMED)
                continue
            paused[uri] = read
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
    return replace(now, seen=now.seen.changed(seen), rulings=rulings, paused=now.paused.changed(paused))


def _readings(now: Bookmark) -> Seen:
    """The last reading of every key, seen or not; of the two sets the smaller one is in memory."""
    if len(now.paused) <= len(now.seen):
        newer = {
            uri: read for uri, read, other in _beside(now.paused, now.seen) if read.bookmark_version > _version(other)
        }
        return now.seen.changed(newer) if newer else now.seen
    newer = {
        uri: read for uri, read, other in _beside(now.seen, now.paused) if read.bookmark_version >= _version(other)
    }
    return now.paused.changed(newer) if newer else now.paused


def _beside(small: Seen, large: Seen) -> Iterator[tuple[str, SeenObject, SeenObject | None]]:
    """Every object of the one set, with what the other knows of it."""
    items = dict(small.items())
    known = large.lookup(items)
    return ((uri, item, known.get(uri)) for uri, item in items.items())


def _version(item: SeenObject | None) -> int:
    return item.bookmark_version if item else 0


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
