"""Whether a listed object may be read yet, by `source.ready`. Pure.

Owns what makes a landing date or an object ready. What is not ready is deferred, never skipped; whatever it waits for
is seen in the listing alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from lakehouse.bookmark import last_readings
from lakehouse.model import Bookmark, LandingObject
from lakehouse.placement import Placement, control_uri

if TYPE_CHECKING:
    from lakehouse.declaration import Source


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the listing says of a source's dates. `arrived` counts the objects of each, where that is asked for."""

    source: Source
    listed: frozenset[str] = frozenset()
    arrived: Mapping[date | None, int] = field(default_factory=dict)

    def why_not(self, item: LandingObject, day: date | None) -> str:
        """What the object, of this landing date, waits for; empty if it may be read."""
        ready = self.source.ready
        if ready is None:
            return ""
        if ready.objects is not None:
            there = self.arrived.get(day, 0)
            return "" if there >= ready.objects else f"not ready: {day} has {there} of {ready.objects} objects"
        if ready.control is not None:
            control = control_uri(item.uri, ready.control)
            return "" if control in self.listed else f"not ready: its control file {control} is not there"
        assert ready.marker is not None
        folder = self.source.landing.folder(item.uri.removeprefix(self.source.uri)) if self.source.landing else None
        if folder is None:
            return f"not ready: the date stands in the file name, so no folder can hold {ready.marker} for it"
        marker = f"{self.source.uri}{folder}{ready.marker}"
        return "" if marker in self.listed else f"not ready: {marker} is not there"


def readiness_of(placed: Sequence[tuple[LandingObject, Placement]], *, source: Source, bookmark: Bookmark) -> Readiness:
    """The readiness of a complete listing.

    An object that a batch has read counts for its date also when it is not listed any more: a lifecycle rule that
    removes what was loaded must not make a late object wait for ever.
    """
    if source.ready is None:
        return Readiness(source)
    listed = frozenset(item.uri for item, _ in placed)
    if source.ready.objects is None:
        return Readiness(source, listed)
    days = {item.uri: placement.landing_date for item, placement in placed if not placement.ignored}
    arrived = Counter(days.values())
    short = {day for day, there in arrived.items() if there < source.ready.objects}
    if short:
        read = last_readings(bookmark, short)
        arrived.update(item.landing_date for uri, item in read.items() if uri not in days)
    return Readiness(source, listed, arrived)
