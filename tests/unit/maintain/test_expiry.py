from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from lakehouse.maintain.expiry import Retention, retained
from lakehouse.units import parse_age

NOW = datetime(2024, 1, 10, tzinfo=UTC)
DAY_MS = 86_400_000


def line(*ages: int) -> list[Snapshot]:
    """Snapshots of these ages in days, newest first; the ids are the ages."""
    now = int(NOW.timestamp() * 1000)
    return [Snapshot(snapshot_id=age, timestamp_ms=now - age * DAY_MS, manifest_list="m.avro") for age in ages]


def ids(snapshots: list[Snapshot]) -> list[int]:
    return [snapshot.snapshot_id for snapshot in snapshots]


@pytest.mark.parametrize(
    ("age", "kept", "stays"),
    [(3, 1, [1, 2, 3]), (0, 1, [1]), (0, 2, [1, 2]), (9_000_000, 1, [1, 2, 3, 4, 9]), (3, 9, [1, 2, 3, 4, 9])],
)
def test_young_ones_and_a_number_stay(age: int, kept: int, stays: list[int]) -> None:
    assert ids(retained(line(1, 2, 3, 4, 9), Retention(NOW, timedelta(days=age), kept))) == stays


def test_what_stays_has_no_hole_where_a_clock_was_wrong() -> None:
    """A snapshot behind one that is too old is older, whatever its own time says."""
    assert ids(retained(line(1, 8, 2), Retention(NOW, timedelta(days=5), 1))) == [1]


def test_the_word_of_a_branch_comes_before_the_tables() -> None:
    table = Retention(NOW, timedelta(days=5), 1)
    kind = {"snapshot-id": 1, "type": "branch"}
    ref = SnapshotRef.model_validate({**kind, "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 10 * DAY_MS})
    assert table.of(ref) == Retention(NOW, timedelta(days=10), 2)
    assert table.of(None) == table.of(SnapshotRef.model_validate(kind)) == table


@pytest.mark.parametrize(
    ("text", "age"),
    [("5d", timedelta(days=5)), (" 36H ", timedelta(hours=36)), ("30m", timedelta(minutes=30)), ("0s", timedelta(0))],
)
def test_ages_as_people_write_them(text: str, age: timedelta) -> None:
    assert parse_age(text) == age


@pytest.mark.parametrize("text", ["", "5", "d", "-1d", "1.5d", "5 days", "99999999d"])
def test_what_is_no_age_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 5d"):
        parse_age(text)
