from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from lakehouse.read.typed import orc_footer
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: pa.Table | bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            options = changes.pop("write", {})
            format = {"type": "orc", **changes.pop("format", {})}
            staging = Staging(con, tmp_path, declared(columns, format=format, **changes))
            if isinstance(data, bytes):
                staging.path.write_bytes(data)
            else:
                orc.write_table(data, staging.path, **options)
            return staging.stage_file()

        yield run


def one(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, kind)})


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
def test_columns_are_matched_by_name_over_all_stripes(stage: Stage, compression: str) -> None:
    size = 30_000
    table = pa.table(
        {
            "a.b": [i / 2 for i in range(size)],
            "id": [f"key {i * 7919 % size}" for i in range(size)],
            "qty": pa.array(range(size), pa.int32()),
        }
    )
    columns = {"id": "string", "qty": "long", "price": "double", "more": "date"}
    options = {"compression": compression, "stripe_size": 64 << 10}
    with pytest.raises(UnreadableObject, match="unknown columns"):
        stage(table, columns, write=options)
    result = stage(table, columns, write=options, unknown_columns="ignore")
    assert result.rows == [(f"key {i * 7919 % size}", i, None, None) for i in range(size)]
    assert result.lines == list(range(1, size + 1))


NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "given", "declared_as", "value"),
    [
        (pa.int32(), 7, "long", 7),
        (pa.int8(), 7, "float", 7.0),
        (pa.float32(), 0.5, "double", 0.5),
        (pa.decimal128(10, 2), Decimal("1.10"), "decimal(12,2)", Decimal("1.10")),
        (pa.bool_(), True, "boolean", True),
        (pa.string(), " 007", "string", " 007"),
        (pa.binary(), b"\xff", "binary", b"\xff"),
        (pa.date32(), date(9999, 12, 31), "date", date(9999, 12, 31)),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), "timestamp", NOON.replace(tzinfo=None)),
        (pa.timestamp("us", tz="UTC"), NOON, "timestamptz", NOON),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), "timestamptz", NOON.replace(hour=10)),
        (pa.list_(pa.int32()), [1, None], "list<long>", [1, None]),
        (pa.struct({"a": pa.string()}), {"a": "x"}, "struct<a: string>", {"a": "x"}),
        (pa.map_(pa.string(), pa.int32()), [("k", 1)], "map<string, long>", {"k": 1}),
    ],
)
def test_types_widen(stage: Stage, kind: pa.DataType, given: Any, declared_as: str, value: Any) -> None:
    result = stage(one(kind, given, None), {"id": "long", "v": declared_as}, format={"timezone": "Europe/Paris"})
    assert result.rows == [(0, value), (1, None)]
    assert type(result.rows[0][1]) is type(value)


def test_types_that_would_lose_something_refuse_the_file(stage: Stage) -> None:
    for kind, value, declared_as in ((pa.int64(), 7, "int"), (pa.string(), "7", "int"), (pa.float64(), 0.5, "float")):
        with pytest.raises(UnreadableObject, match="a type that is not the declared one"):
            stage(one(kind, value), {"id": "long", "v": declared_as})


def test_nanoseconds_are_rejects_and_far_years_refuse_the_file(stage: Stage) -> None:
    result = stage(one(pa.timestamp("ns"), 1_000, 1_001), {"id": "long", "v": "timestamp"})
    assert [row[0] for row in result.rows] == [0]
    assert result.rejects[0][:3] == (2, "v", "v: the value does not fit a timestamp exactly")
    far = one(pa.timestamp("us"), datetime(9999, 12, 31))  # noqa: DTZ001
    with pytest.raises(UnreadableObject, match="out of range for nanosecond"):
        stage(far, {"id": "long", "v": "timestamp"})
    assert stage(far, {"id": "long"}, unknown_columns="ignore").rows == [(0,)]


def test_a_file_that_is_not_whole(stage: Stage, tmp_path: Path) -> None:
    orc.write_table(one(pa.string(), *(f"value {i}" for i in range(100))), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for broken in (data[:3], data[: len(data) // 2], data[:-1], data[:-60] + b"\xff" * 40 + data[-20:]):
        with pytest.raises(UnreadableObject, match=r"the ORC file is broken|the file is not orc"):
            stage(broken, {"id": "long", "v": "string"})


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_a_decimal_of_too_many_digits_does_not_end_the_process(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "a.orc"
    columns = {f"column_{i}": pa.array([Decimal("1.00")], pa.decimal128(20, 2)) for i in range(30)}
    orc.write_table(pa.table(columns), path, compression=compression)
    orc_footer.read_footers(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orc_footer, "MOST_DIGITS", 19)
        with pytest.raises(ValueError, match="a decimal of 20 digits"):
            orc_footer.read_footers(path)


def test_a_damaged_decimal_type_refuses_the_file(stage: Stage, tmp_path: Path) -> None:
    orc.write_table(one(pa.decimal128(38, 0), Decimal(1)), tmp_path / "right", compression="uncompressed")
    data = (tmp_path / "right").read_bytes()
    assert data.count(b"\x28\x26\x30\x00") == 1
    with pytest.raises(UnreadableObject, match="a decimal of 100 digits"):
        stage(data.replace(b"\x28\x26\x30\x00", b"\x28\x64\x30\x00"), {"id": "long", "v": "decimal(38,0)"})


@pytest.mark.parametrize("data", [b"ORC", b"ORC\x00", b"ORC" + b"\xff" * 50, b"ORC\x08\x7f\x02"])
def test_a_file_without_a_footer_is_refused(stage: Stage, data: bytes) -> None:
    with pytest.raises(UnreadableObject):
        stage(data)


def test_the_end_of_nanoseconds_is_a_reject(stage: Stage) -> None:
    for kind, declared_as, wrap in [
        (pa.timestamp("ns"), "timestamp", lambda value: value),
        (pa.list_(pa.timestamp("ns")), "list<timestamp>", lambda value: [value]),
    ]:
        result = stage(one(kind, wrap(0), wrap(2**63 - 1)), {"id": "long", "v": declared_as})
        assert [row[0] for row in result.rows] == [0]
        assert [(line, column) for line, column, *_ in result.rejects] == [(2, "v")]


def test_a_key_that_stands_twice_in_a_map_refuses_the_file(stage: Stage) -> None:
    table = one(pa.map_(pa.string(), pa.int32()), [("a", 1), ("a", 2)])
    for columns, unknown in [({"id": "long", "v": "map<string, int>"}, "reject"), ({"id": "long"}, "rescue")]:
        with pytest.raises(UnreadableObject, match="duplicate key"):
            stage(table, columns, unknown_columns=unknown)


def test_what_the_writer_counts_by_is_read_from_the_footers(tmp_path: Path) -> None:
    orc.write_table(one(pa.timestamp("ns"), 0), tmp_path / "right", compression="uncompressed")
    assert orc_footer.read_footers(tmp_path / "right") == orc_footer.Footers(julian=False, zones=("GMT",))
    # the writer 1 is C++; 0 is Java, which counts by the Julian calendar unless it says otherwise
    data = (tmp_path / "right").read_bytes()
    assert data.count(b"\x48\x01\x62") == 1
    (tmp_path / "java").write_bytes(data.replace(b"\x48\x01\x62", b"\x48\x00\x62"))
    assert orc_footer.read_footers(tmp_path / "java").julian


def test_a_zone_that_nobody_knows_refuses_the_file(stage: Stage, tmp_path: Path) -> None:
    orc.write_table(one(pa.timestamp("ns"), 0), tmp_path / "right", compression="uncompressed")
    data = (tmp_path / "right").read_bytes()
    assert data.count(b"\x1a\x03GMT") == 1
    with pytest.raises(UnreadableObject):
        stage(data.replace(b"\x1a\x03GMT", b"\x1a\x03GMX"), {"id": "long", "v": "timestamp"})
