"""Globs, cron expressions and partition fields."""

from __future__ import annotations

import pytest

from lakehouse.declaration import PartitionField, match_glob
from lakehouse.declaration.cron import check_cron
from lakehouse.declaration.partition_field import parse_partition_field


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "a.csv.tmp", False),
        ("*.csv", "x/a.csv", False),
        ("*.csv", "a\nb.csv", True),
        ("**", "x/y/a", True),
        ("**.jsonl", "x/a.jsonl", True),
        ("**/a.csv", "a.csv", True),
        ("**/a.csv", "x/y/a.csv", True),
        ("**/a.csv", "xa.csv", False),
        ("x/**/a", "x/a", True),
        ("x/**/a", "x/y/z/a", True),
        ("x**/a", "xa", False),
        ("?.csv", "é.csv", True),
        ("?.csv", "/.csv", False),
        ("[ab]*.csv", "b1.csv", True),
        ("[!ab]*", "b1", False),
        ("[!a]", "/", False),
        ("part-[0-9]", "part-7", True),
        ("sales[[]1].csv", "sales[1].csv", True),
        ("a+b (1).csv", "a+b (1).csv", True),
        ("A.csv", "a.csv", False),
    ],
)
def test_glob(pattern: str, key: str, matches: bool) -> None:
    assert match_glob(pattern, key) is matches


@pytest.mark.parametrize("pattern", ["", "/a", "a***", "{a,b}", "[a", "[abc*", "[z-a]"])
def test_wrong_globs(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        match_glob(pattern, "a")


@pytest.mark.parametrize(
    "text", ["0 6 * * *", "*/15 * * * *", "0 0-6/2 1,15 jan-mar MON", "0 0 29 2 *", "0 0 31 2 1", "5 4 * * 7"]
)
def test_cron(text: str) -> None:
    check_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0 6 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *"),
        *("5-1 * * * *", "5/15 * * * *", "* * L * *", "@daily", "a * * * *", "0 0 30 2 *", "0 0 31 4,6 *"),
        *("1,,2 * * * *", "*-5 * * * *"),
    ],
)
def test_wrong_cron(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        check_cron(text)


def test_partition_fields() -> None:
    assert parse_partition_field("input_date") == PartitionField("input_date")
    assert parse_partition_field("identity(a)") == PartitionField("a")
    assert parse_partition_field("day( order_time )").name == "order_time_day"
    assert parse_partition_field("truncate(4, s)") == PartitionField("s", "truncate", 4)


@pytest.mark.parametrize("text", ["", "day()", "days(ts)", "bucket(id)", "day(4, ts)", "truncate(0, s)", "a, b"])
def test_wrong_partition_fields(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_partition_field(text)
