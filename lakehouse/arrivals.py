"""How late objects arrive after their landing date, and how long a window must be to see them. Pure.

An object arrives when S3 wrote it. When a load first saw it says nothing of the source, for the first load of a year
of history sees all of it late; it is told beside it, as the wait of what arrived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from math import ceil

from lakehouse.model import LandingObject, SeenObject


@dataclass(frozen=True, slots=True)
class Arrival:
    """One object: `late_days` from its landing date to the day it was written, `wait` seconds from then until a load
    first saw it; None if none has."""

    uri: str
    landing_date: date
    late_days: int
    wait: float | None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The distribution of a source. `days` counts objects by `late_days`, ascending; early ones have a negative number.

    `window` is the declared lookback in days and `missed` what comes later; `advised` is the smallest window that
    misses no more than `miss_rate` of the objects, None without objects. `waits` are seconds by percentile.
    """

    objects: int
    days: Mapping[int, int]
    window: int
    missed: int
    miss_rate: float
    advised: int | None
    waits: Mapping[str, float]
    latest: tuple[Arrival, ...]


LATEST = 10
"""Objects that are named because they came latest."""


def late_days(item: LandingObject, landing_date: date, zone: tzinfo) -> int:
    """Days from the landing date to the day, in the declared zone, when S3 wrote the object."""
    return (item.last_modified.astimezone(zone).date() - landing_date).days


def arrival(item: LandingObject, landing_date: date, *, zone: tzinfo, first_seen: datetime | None) -> Arrival:
    wait = None if first_seen is None else max(0.0, (first_seen - item.last_modified).total_seconds())
    return Arrival(item.uri, landing_date, late_days(item, landing_date, zone), wait)


def arrivals_of(
    seen: Mapping[str, SeenObject], unseen: Iterable[tuple[LandingObject, date]], *, zone: tzinfo
) -> list[Arrival]:
    """Of the newest versions that batches have read, and of listed objects that none has."""
    known = [
        arrival(s.object, s.landing_date, zone=zone, first_seen=s.first_seen)
        for s in seen.values()
        if s.landing_date is not None
    ]
    return [*known, *(arrival(item, day, zone=zone, first_seen=None) for item, day in unseen)]


def distribution(found: Sequence[Arrival], *, window: int, miss_rate: float) -> Arrivals:
    """The distribution of these arrivals. `miss_rate` is a part of the objects, 0 to 1."""
    days = dict(sorted(Counter(one.late_days for one in found).items()))
    latest = sorted(found, key=lambda one: (-one.late_days, one.uri))
    return Arrivals(
        objects=len(found),
        days=days,
        window=window,
        missed=sum(one.late_days > window for one in found),
        miss_rate=miss_rate,
        advised=_advised(latest, miss_rate),
        waits=_percentiles(sorted(one.wait for one in found if one.wait is not None)),
        latest=tuple(one for one in latest[:LATEST] if one.late_days > 0),
    )


def _advised(latest: Sequence[Arrival], miss_rate: float) -> int | None:
    """`latest` is in descending order: the first one that must not be missed says how long the window is."""
    if not latest:
        return None
    may_be_missed = min(int(miss_rate * len(latest)), len(latest) - 1)
    return max(0, latest[may_be_missed].late_days)


def _percentiles(ordered: Sequence[float]) -> dict[str, float]:
    """The smallest value that so many percent of the values do not exceed."""
    if not ordered:
        return {}
    return {f"p{share}": ordered[max(0, ceil(share / 100 * len(ordered)) - 1)] for share in (50, 90, 99, 100)}
