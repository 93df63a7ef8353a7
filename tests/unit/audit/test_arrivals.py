"""How late objects are, and the window that misses no more of them than it may."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.audit.arrivals import Arrival, arrivals_of, distribution, late_days
from lakehouse.model import Decision, LandingObject, SeenObject

DAY = date(2026, 9, 1)


def written(at: datetime, uri: str = "s3://landing/a.csv") -> LandingObject:
    return LandingObject(uri, "etag", 1, at)


def came(*days: int) -> list[Arrival]:
    return [Arrival(f"s3://landing/{i}", DAY, late, float(late)) for i, late in enumerate(days)]


@pytest.mark.parametrize(
    ("hour", "zone", "days"), [(23, "UTC", 0), (23, "Asia/Kolkata", 1), (1, "America/New_York", -1)]
)
def test_days_are_those_of_the_declared_zone(hour: int, zone: str, days: int) -> None:
    assert late_days(written(datetime(2026, 9, 1, hour, tzinfo=UTC)), DAY, ZoneInfo(zone)) == days


def test_what_was_read_and_what_waits() -> None:
    first = written(datetime(2026, 9, 1, 12, tzinfo=UTC))
    seen = SeenObject(
        first, DAY, Decision.CONSUMED, "new", "b", 1, "d", first_seen=first.last_modified + timedelta(hours=1)
    )
    undated = SeenObject(written(DAY_TIME, "s3://landing/u"), None, Decision.CONSUMED, "new", "b", 1, "d", DAY_TIME)
    waiting = (written(datetime(2026, 9, 4, tzinfo=UTC), "s3://landing/b.csv"), DAY)
    found = [*arrivals_of([seen, undated], [waiting], zone=UTC)]
    assert found == [
        Arrival("s3://landing/a.csv", DAY, 0, 3600.0),
        Arrival("s3://landing/b.csv", DAY, 3, None),
    ]


DAY_TIME = datetime(2026, 9, 1, tzinfo=UTC)


def test_the_distribution() -> None:
    found = distribution(came(0, 0, 1, 5, -1), window=3, miss_rate=0.0)
    assert found.days == {-1: 1, 0: 2, 1: 1, 5: 1}
    assert [*found.days] == [-1, 0, 1, 5]
    assert (found.objects, found.missed, found.advised) == (5, 1, 5)
    assert [one.late_days for one in found.latest] == [5, 1]
    assert found.waits == {"p50": 0.0, "p90": 5.0, "p99": 5.0, "p100": 5.0}


def test_nothing_has_arrived() -> None:
    found = distribution([], window=3, miss_rate=0.1)
    assert (found.objects, found.days, found.advised, found.waits) == (0, {}, None, {})


@given(st.lists(st.integers(-3, 40), min_size=1, max_size=50), st.floats(0, 0.99))
def test_the_advised_window_is_the_smallest_that_misses_no_more(late: list[int], rate: float) -> None:
    advised = distribution(came(*late), window=0, miss_rate=rate).advised
    assert advised is not None

    def missed(window: int) -> int:
        return sum(days > window for days in late)

    assert missed(advised) <= rate * len(late)
    assert advised == 0 or missed(advised - 1) > rate * len(late)
