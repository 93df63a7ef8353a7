"""What Spark wrote is read as a query of Spark shows it; the files are those of `tests.spark_samples`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.errors import UnreadableObject
from tests.readers.canonical import canonical
from tests.spark_samples import COLUMNS, FILES, SAMPLES, rows
from tests.staging_values import Result, Staging, declared

BEFORE_1900 = [1, 2, 3, 4, 5]
"""Lines of times that depend on what Java knew of a zone."""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def read(con: duckdb.DuckDBPyConnection, folder: Path, name: str, columns: Any = None, **changes: Any) -> Result:
    sample = FILES[name]
    kinds = {column: kind for column, kind in COLUMNS.items() if column not in sample.without}
    format = {"type": sample.format, **({"timezone": sample.zone} if sample.format == "orc" else {})}
    place = Staging(con, folder, declared(columns or kinds, format=format, **changes))
    return place.stage((SAMPLES / name).read_bytes())


def given(name: str, *, without: tuple[int, ...] = ()) -> list[list[Any]]:
    found = [[canonical(value) for value in row.values()] for row in rows(FILES[name])]
    return [row for line, row in enumerate(found, start=1) if line not in without]


def canonical_rows(result: Result) -> list[list[Any]]:
    return [[canonical(value) for value in row] for row in result.rows]


@pytest.mark.parametrize(
    "name", ["spark-int96.parquet", "spark-int96-legacy.parquet", "spark.avro", "spark-legacy.avro"]
)
def test_every_date_and_time_is_the_one_that_spark_was_given(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str
) -> None:
    result = read(con, tmp_path, name)
    assert result.rejects == []
    assert canonical_rows(result) == given(name)


def test_old_times_of_a_zone_are_rejects_and_old_dates_are_not(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    name = "spark-micros-legacy.parquet"
    result = read(con, tmp_path, name)
    assert result.rejected_lines == BEFORE_1900
    assert {column for _, column, *_ in result.rejects} == {"z,n"}
    assert canonical_rows(result) == given(name, without=tuple(BEFORE_1900))


def test_the_dates_beside_old_times_of_a_zone_are_read(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    result = read(con, tmp_path, "spark-micros-legacy.parquet", {"id": "long", "d": "date"}, unknown_columns="ignore")
    assert result.rejects == []
    assert [row[1] for row in result.rows] == [row["d"] for row in rows(FILES["spark-micros-legacy.parquet"])]


@pytest.mark.parametrize("name", ["spark-native.orc", "spark-hive.orc"])
def test_the_clock_of_an_orc_file_is_read_in_its_zone(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str
) -> None:
    result = read(con, tmp_path, name)
    assert result.rejected_lines == [5]
    expected = given(name, without=(5,))
    if name == "spark-native.orc":
        # the clocks of Berlin showed 02:30 twice, an hour apart: the later one is read
        later = canonical(datetime(2020, 10, 25, 1, 30, tzinfo=UTC))
        twice = next(row for row in expected if row[0] == 11)
        z, n = (list(COLUMNS).index(column) for column in "zn")
        twice[z] = twice[n]["z"] = later
    assert canonical_rows(result) == expected


@pytest.mark.parametrize("name", ["spark-int96-legacy.parquet", "spark-legacy.avro", "spark-native.orc"])
def test_what_is_rescued_is_of_the_same_calendar(con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str) -> None:
    columns = {"id": "long", **({"z": "timestamptz", "n": COLUMNS["n"]} if name.endswith("orc") else {})}
    result = read(con, tmp_path, name, columns, unknown_columns="rescue")
    place = len(columns)
    days = {row[0]: row[place]["d"] for row in result.rows}
    assert days == {row["id"]: str(row["d"]) for row in rows(FILES[name]) if row["id"] in days}
    assert len(days) >= 13


@pytest.mark.parametrize("name", ["spark-micros-legacy.parquet", "spark-native.orc"])
def test_an_old_time_of_a_zone_is_not_rescued(con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableObject, match=r"a timestamp that no column holds: .*column='[zn]'"):
        read(con, tmp_path, name, {"id": "long"}, unknown_columns="rescue")
