"""Which day a key belongs to, and which prefix holds a day."""

from __future__ import annotations

from datetime import date

import pytest

from lakehouse.declaration import LandingPattern

DAY = date(2026, 1, 5)


@pytest.mark.parametrize(
    ("pattern", "key", "day"),
    [
        ("input_date=%Y-%m-%d", "input_date=2026-01-05/a.csv", DAY),
        ("input_date=%Y-%m-%d/", "input_date=2026-01-05/b/c.csv", DAY),
        ("input_date=%Y-%m-%d", "input_date=2026-01-05", None),
        ("input_date=%Y-%m-%d", "input_date=2026-01-055/a.csv", None),
        ("input_date=%Y-%m-%d", "x/input_date=2026-01-05/a.csv", None),
        ("input_date=%Y-%m-%d", "input_date=2026-02-30/a.csv", None),
        ("input_date=%Y-%m-%d", "input_date=2026-1-5/a.csv", None),
        ("%Y/%m/%d", "2026/01/05/a.jsonl", DAY),
        ("%Y/%m/%d/%H", "2026/01/05/23/a.jsonl", DAY),
        ("%Y/%m/%d/%H", "2026/01/05/24/a.jsonl", None),
        ("%Y/%Y-%m-%d", "2026/2026-01-05/a", DAY),
        ("%Y/%Y-%m-%d", "2025/2026-01-05/a", None),
        ("%Y-%m-%d", "2026-01-05/a.csv", DAY),
        ("%Y-%m-%d", "orders-2026-01-05.csv", DAY),
        ("%Y%m%d", "orders_20260105_1.csv", DAY),
        ("%Y%m%d", "orders_120260105.csv", None),
        ("%Y%m%d", "orders_202601051.csv", None),
        ("%Y%m%d", "orders_20260105_20260106.csv", None),
        ("%Y%m%d", "orders_20260105_20260105.csv", DAY),
        ("%Y%m%d", "orders_20261399_20260105.csv", DAY),
        ("orders_%Y%m%d", "deep/orders_20260105.csv", DAY),
        ("orders_%Y%m%d", "orders_20260105/x_20260106.csv", DAY),
        ("a.b=%Y-%m-%d", "aXb=2026-01-05/f", None),
    ],
)
def test_match(pattern: str, key: str, day: date | None) -> None:
    assert LandingPattern.compile(pattern).match(key) == day


@pytest.mark.parametrize(
    ("pattern", "key", "folder"),
    [
        ("input_date=%Y-%m-%d", "input_date=2026-01-05/b/c.csv", "input_date=2026-01-05/"),
        ("%Y/%m/%d/%H", "2026/01/05/23/a.jsonl", "2026/01/05/23/"),
        ("%Y-%m-%d", "2026-01-05/a.csv", "2026-01-05/"),
        ("%Y-%m-%d", "orders-2026-01-05.csv", None),
        ("input_date=%Y-%m-%d", "input_date=2026-02-30/a.csv", None),
    ],
)
def test_folder_names_the_date(pattern: str, key: str, folder: str | None) -> None:
    assert LandingPattern.compile(pattern).folder(key) == folder


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("input_date=%Y-%m-%d", "input_date=2026-01-05/"),
        ("%Y/%m/%d", "2026/01/05/"),
        ("%Y/%m/%d/%H", "2026/01/05/"),
        ("dt=%Y-%m-%d-%H", "dt=2026-01-05-"),
        ("%H/%Y-%m-%d", None),
        ("%Y%m%d", None),
    ],
)
def test_prefix_holds_the_whole_day(pattern: str, prefix: str | None) -> None:
    assert LandingPattern.compile(pattern).prefix(DAY) == prefix


def test_rest_is_what_the_glob_sees() -> None:
    assert LandingPattern.compile("%Y/%m/%d/%H").locate("2026/01/05/07/x/a.csv") == (DAY, "x/a.csv")
    assert LandingPattern.compile("%Y%m%d").locate("x/a_20260105.csv") == (DAY, "x/a_20260105.csv")
    assert LandingPattern.compile("%Y%m%d").locate("20260105/a.csv") == (DAY, "a.csv")


@pytest.mark.parametrize("pattern", ["", "%Y-%m", "%Y-%m-%e", "%Y%m%d%", "%Y%m%d%%", "/%Y/%m/%d", "%Y//%m/%d"])
def test_wrong_patterns(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        LandingPattern.compile(pattern)
