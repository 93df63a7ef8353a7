from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.read.typed.far_times import INFINITE
from lakehouse.read.typed.orc_times import as_meant, of_clock


def times(*texts: str) -> Any:
    return pa.array([datetime.fromisoformat(text) for text in texts], pa.timestamp("us")).cast(pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("zone", "pyarrow", "meant"),
    [
        ("Europe/Berlin", "1970-01-01T00:59:59.5", "1970-01-01T00:59:58.5"),
        ("Europe/Berlin", "1970-01-01T00:59:59.000999", "1970-01-01T00:59:59.000999"),
        ("Europe/Berlin", "1970-01-01T01:00:00.5", "1970-01-01T01:00:00.5"),
        ("America/New_York", "1969-12-31T23:59:58.5", "1969-12-31T23:59:59.5"),
        ("America/New_York", "1969-12-31T23:59:59.000999", "1969-12-31T23:59:59.000999"),
        ("America/New_York", "1969-12-31T18:59:59.5", "1969-12-31T19:00:00.5"),
        ("America/New_York", "1969-12-31T18:59:58.5", "1969-12-31T18:59:58.5"),
        ("America/Sao_Paulo", "1915-06-01T00:00:00", "1915-06-01T00:00:00"),
        ("UTC", "1700-01-01T00:00:00", "1700-01-01T00:00:00"),
    ],
)
def test_a_time_is_what_the_clock_showed(zone: str, pyarrow: str, meant: str) -> None:
    assert of_clock(times(pyarrow), zone).equals(times(meant))


@pytest.mark.parametrize(
    ("zone", "text"), [("Europe/Berlin", "1899-12-31T00:00:00"), ("America/Sao_Paulo", "1910-01-01")]
)
def test_a_time_of_unknown_offset_is_infinite(zone: str, text: str) -> None:
    assert of_clock(times(text), zone).cast(pa.int64()).to_pylist() == [INFINITE]


def test_a_zone_must_be_known() -> None:
    for zone in ("Europe", "Mars/Olympus", "../etc", "a\0b"):
        with pytest.raises(ValueError, match="a zone that nobody knows"):
            of_clock(times("2020-01-01"), zone)


def test_what_spark_says_beside_a_type_counts_at_every_depth() -> None:
    told = {"spark.sql.catalyst.type": "timestamp_ntz"}
    field = pa.field("v", pa.int64(), metadata=told)
    assert as_meant(field) == pa.timestamp("us")
    assert as_meant(pa.field("v", pa.struct([field, pa.field("w", pa.int64())]))) == pa.struct(
        [("v", pa.timestamp("us")), ("w", pa.int64())]
    )
    assert as_meant(pa.field("v", pa.list_(field))) == pa.list_(pa.timestamp("us"))
    assert as_meant(pa.field("v", pa.string(), metadata=told)) == pa.string()
