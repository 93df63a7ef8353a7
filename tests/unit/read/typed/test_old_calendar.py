from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.read.typed.far_times import INFINITE
from lakehouse.read.typed.old_calendar import Calendar, calendar_of_spark, has_times, modern, with_leaves

EPOCH = 2_440_588
"""The Julian day number of 1970-01-01."""


def julian_day(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Julian calendar, by the textbook."""
    before = (14 - month) // 12
    years = year + 4800 - before
    number = day + (153 * (month + 12 * before - 3) + 2) // 5 + 365 * years + years // 4 - 32083
    return number - EPOCH


def dates(*days: int) -> Any:
    return pa.array(days, pa.int32()).cast(pa.date32())


def test_every_old_date_becomes_the_date_that_its_calendar_showed() -> None:
    shown = [date.fromordinal(number) for number in range(1, date(1582, 10, 5).toordinal())]
    stored = dates(*(julian_day(day.year, day.month, day.day) for day in shown))
    assert modern(stored, Calendar(dates=True)).to_pylist() == shown


def test_a_leap_day_that_is_none_any_more_becomes_the_first_of_march() -> None:
    assert modern(dates(julian_day(1000, 2, 29)), Calendar(dates=True)).to_pylist() == [date(1000, 3, 1)]


def test_later_dates_and_files_of_the_new_calendar_stay_as_they_are() -> None:
    given = pa.array([date(1582, 10, 15), date(1970, 1, 1), None, date(9999, 12, 31)])
    assert modern(given, Calendar(dates=True)).equals(given)
    old = dates(julian_day(1000, 1, 1))
    assert modern(old, Calendar()).equals(old)


def test_old_times_are_those_of_utc_or_infinite() -> None:
    cutover = datetime(1582, 10, 15, tzinfo=UTC)
    given = pa.array([cutover - timedelta(microseconds=1), cutover, None], pa.timestamp("us", "UTC"))
    meant = [datetime(1582, 10, 4, 23, 59, 59, 999999, tzinfo=UTC), cutover, None]
    assert modern(given, Calendar(instants=True, zone="UTC")).to_pylist() == meant
    for zone in (None, "Europe/Berlin"):
        numbers = modern(given, Calendar(instants=True, zone=zone)).cast(pa.int64()).to_pylist()
        assert numbers == [INFINITE, INFINITE, None]
    late = pa.array([datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    assert modern(late, Calendar(instants=True)).equals(late)


def test_times_without_a_zone_are_old_only_as_int96() -> None:
    given = pa.array([datetime(1000, 3, 5)], pa.timestamp("us"))  # noqa: DTZ001
    calendar = Calendar(instants=True, int96=True, zone="UTC")
    assert modern(given, calendar).equals(given)
    assert modern(given, calendar, int96=True).to_pylist() == [datetime(1000, 2, 28)]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("version", "more", "meant"),
    [
        (None, {"legacyDateTime": ""}, Calendar()),
        ("odd", {}, Calendar()),
        ("2.4.8", {}, Calendar(True, True, True)),
        ("3.0.3", {}, Calendar(False, False, True)),
        ("3.5.7", {}, Calendar()),
        ("3.5.7", {"legacyDateTime": "", "timeZone": "UTC"}, Calendar(True, True, False, "UTC")),
        ("3.5.7", {"legacyINT96": "", "timeZone": "UTC"}, Calendar(False, False, True, "UTC")),
        ("10.0.0", {}, Calendar()),
    ],
)
def test_spark_says_which_calendar_it_used(version: str | None, more: dict[str, str], meant: Calendar) -> None:
    footer = {"version": version, **more} if version else more
    assert calendar_of_spark({f"org.apache.spark.{name}": text for name, text in footer.items()}) == meant


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], None, [2, None], []], pa.list_(pa.int64())),
        pa.array([[("a", 1)], None, [("b", None)], []], pa.map_(pa.string(), pa.int64())),
        pa.array([{"a": [1]}, None, {"a": None}], pa.struct({"a": pa.list_(pa.int64())})),
    ],
)
def test_leaves_are_changed_wherever_they_are(values: Any) -> None:
    for array in (values, values.slice(1), values.slice(1, 1)):
        seen: list[Any] = []
        assert with_leaves(array, lambda leaf: (seen.append(leaf), leaf)[1]).to_pylist() == array.to_pylist()  # noqa: B023
        assert seen


def test_a_list_of_one_size_is_refused() -> None:
    kind = pa.list_(pa.date32(), 2)
    assert has_times(kind)
    with pytest.raises(ValueError, match="times inside of"):
        with_leaves(pa.array([None], kind), lambda leaf: leaf)
