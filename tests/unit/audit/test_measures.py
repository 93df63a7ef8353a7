"""How loads have gone of late, from manifests and attempts as values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from lakehouse.audit.measures import Measures, measure_loads
from lakehouse.bookmark import ACCEPT_GATE, HOLD, RESET, UNHOLD
from lakehouse.model import Bookmark, Manifest, RowCounts
from tests.landing_values import landed, manifest_of, outcome

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
DAY = date(2026, 8, 30)


def load(
    version: int, staged: int = 10, *, kind: str = "load", days_ago: float = 1.0, merging: float = 2.0
) -> Manifest:
    """A batch of ten seconds, of which it merged for some."""
    ended = NOW - timedelta(days=days_ago)
    made = manifest_of(Bookmark(version=version - 1), kind=kind)
    started = ended - timedelta(seconds=10)
    return replace(
        made,
        started_at=started,
        merge_started_at=started,
        merge_ended_at=started + timedelta(seconds=merging),
        written_at=ended,
        rows=RowCounts(staged=staged),
    )


def measured(*newest_first: Manifest, failures: tuple[tuple[int, datetime], ...] = (), version: int = 9) -> Measures:
    return measure_loads(newest_first, failures, version=version, now=NOW, zone=UTC)


def test_nothing_gives_no_numbers() -> None:
    assert measured() == Measures(0, 0, 0, None, None, None, None)
    assert measured(load(9, days_ago=31)) == measured()


def test_shares_and_variance_are_of_loads_alone() -> None:
    found = measured(load(9, 30, merging=6.0), load(8, kind=RESET), load(7, 20), load(6, 10), load(5, 20))
    assert (found.loads, found.recoveries) == (4, 1)
    assert (found.merge_share, found.staging_variance) == (0.3, 0.5)
    assert measured(load(9, 30), load(8, 0)).staging_variance is None


def test_recoveries_are_changes_that_bring_a_table_back() -> None:
    kinds = (RESET, ACCEPT_GATE, HOLD, UNHOLD, "adopt", "dedupe")
    found = measured(*(load(9 - number, kind=kind) for number, kind in enumerate(kinds)))
    assert (found.loads, found.recoveries) == (0, 4)


def test_late_objects_came_after_the_declared_window() -> None:
    def at(day: int) -> datetime:
        return datetime(2026, 9, day, 1, tzinfo=UTC)

    objects = [replace(landed(f"{day}.csv", "A"), last_modified=at(day)) for day in (1, 2, 3, 5)]
    outcomes = tuple(replace(outcome(item), landing_date=DAY) for item in objects)
    assert measured(replace(load(9), objects=outcomes, lookback_days=3)).late_arrivals == 2


def test_a_failure_lasts_until_the_next_version_is_published() -> None:
    failed = (8, NOW - timedelta(days=1, seconds=90)), (8, NOW - timedelta(days=1, seconds=60))
    found = measured(load(9), load(8), failures=(*failed, (7, NOW - timedelta(days=9))))
    assert (found.seconds_to_confirmed, found.open_failure_seconds) == (90.0, None)
    found = measured(load(9), failures=((9, NOW - timedelta(seconds=5)),))
    assert (found.seconds_to_confirmed, found.open_failure_seconds) == (None, 5.0)
