"""How late objects arrive after their landing date, and how long a window must be to see them. Pure.

An object arrives when S3 wrote it. When a load first saw it says nothing of the source, for the first load of a year
of history sees all of it late; it is told beside it, as the wait of what arrived.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from heapq import nsmallest
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
_SORTED_AT_ONCE = 10_000


def late_days(item: LandingObject, landing_date: date, zone: tzinfo) -> int:
    """Days from the landing date to the day, in the declared zone, when S3 wrote the object."""
    return (item.last_modified.astimezone(zone).date() - landing_date).days


def arrival(item: LandingObject, landing_date: date, *, zone: tzinfo, first_seen: datetime | None) -> Arrival:
    wait = None if first_seen is None else max(0.0, (first_seen - item.last_modified).total_seconds())
    return Arrival(item.uri, landing_date, late_days(item, landing_date, zone), wait)


def arrivals_of(
    seen: Iterable[SeenObject], unseen: Iterable[tuple[LandingObject, date]], *, zone: tzinfo
) -> Iterator[Arrival]:
    """Of the newest versions that batches have read, and of listed objects that none has, one after the other."""
    for known in seen:
        if known.landing_date is not None:
            yield arrival(known.object, known.landing_date, zone=zone, first_seen=known.first_seen)
    for item, day in unseen:
        yield arrival(item, day, zone=zone, first_seen=None)


def distribution(found: Iterable[Arrival], *, window: int, miss_rate: float) -> Arrivals:
    """The distribution of these arrivals. `miss_rate` is a part of the objects, 0 to 1."""
    counts: Counter[int] = Counter()
    waits = array("d")
    latest: list[Arrival] = []
    for one in found:
        counts[one.late_days] += 1
        if one.wait is not None:
            waits.append(one.wait)
        if one.late_days > 0:
            latest.append(one)
        if len(latest) > _SORTED_AT_ONCE:
            latest = _latest(latest)
    days = dict(sorted(counts.items()))
    return Arrivals(
        objects=counts.total(),
        days=days,
        window=window,
        missed=sum(there for late, there in days.items() if late > window),
        miss_rate=miss_rate,
        advised=_advised(days, miss_rate),
        waits=_percentiles(array("d", sorted(waits))),
        latest=tuple(_latest(latest)),
    )


def _latest(found: Iterable[Arrival]) -> list[Arrival]:
    return nsmallest(LATEST, found, key=lambda one: (-one.late_days, one.uri))


def _advised(days: Mapping[int, int], miss_rate: float) -> int | None:
    """From the latest on, the first arrival that must not be missed says how long the window is."""
    objects = sum(days.values())
    left = min(int(miss_rate * objects), objects - 1)
    for late in sorted(days, reverse=True):
        if left < days[late]:
            return max(0, late)
        left -= days[late]
    return None


def _percentiles(ordered: Sequence[float]) -> dict[str, float]:
    """The smallest value that so many percent of the values do not exceed."""
    if not ordered:
        return {}
    return {f"p{share}": ordered[max(0, ceil(share / 100 * len(ordered)) - 1)] for share in (50, 90, 99, 100)}
