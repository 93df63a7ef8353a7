from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import UnreadableObject
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


def naive(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: pa.Table | bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            options = changes.pop("write", {})
            format = {"type": "parquet", **changes.pop("format", {})}
            staging = Staging(con, tmp_path, declared(columns, format=format, **changes))
            if isinstance(data, bytes):
                staging.path.write_bytes(data)
            else:
                pq.write_table(data, staging.path, **options)
            return staging.stage_file()

        yield run


def one(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, kind)})


def test_columns_are_matched_by_name(stage: Stage) -> None:
    table = pa.table({"price": [5.5], "id": ["a"], "qty": pa.array([9], pa.int32())})
    assert stage(table, {"id": "string", "qty": "long", "price": "double", "more": "date"}).rows == [
        ("a", 9, 5.5, None)
    ]


NOON = naive(2026, 7, 1, 12)


@pytest.mark.parametrize(
    ("kind", "given", "declared_as", "value"),
    [
        (pa.int32(), 7, "long", 7),
        (pa.uint32(), 2**32 - 1, "long", 2**32 - 1),
        (pa.int8(), 7, "float", 7.0),
        (pa.int32(), 7, "double", 7.0),
        (pa.int64(), 7, "decimal(21,2)", Decimal("7.00")),
        (pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
        (pa.float32(), 0.5, "double", 0.5),
        (pa.decimal128(10, 2), Decimal("1.10"), "decimal(12,2)", Decimal("1.10")),
        (pa.bool_(), True, "boolean", True),
        (pa.large_string(), " 007", "string", " 007"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "string", "x"),
        (pa.null(), None, "date", None),
        (pa.binary(), b"\xff", "binary", b"\xff"),
        (pa.binary(2), b"ab", "binary", b"ab"),
        (pa.binary(2), b"ab", "fixed(2)", b"ab"),
        (pa.binary(), b"ab", "fixed(2)", b"ab"),
        (pa.uuid(), UUID(int=5).bytes, "uuid", UUID(int=5)),
        (pa.date32(), date(2026, 1, 5), "date", date(2026, 1, 5)),
        (pa.time32("ms"), time(1, 2, 3), "time", time(1, 2, 3)),
        (pa.timestamp("ms"), NOON, "timestamp", NOON),
        (pa.timestamp("us", tz="Europe/Paris"), NOON.replace(tzinfo=UTC), "timestamptz", NOON.replace(tzinfo=UTC)),
        (pa.timestamp("us"), NOON, "timestamptz", NOON.replace(hour=10, tzinfo=UTC)),
    ],
)
def test_types_widen(stage: Stage, kind: pa.DataType, given: Any, declared_as: str, value: Any) -> None:
    # R06, R07
    result = stage(one(kind, given, None), {"id": "long", "v": declared_as}, format={"timezone": "Europe/Paris"})
    assert result.rows == [(0, value), (1, None)]
    assert type(result.rows[0][1]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given", "declared_as"),
    [
        (pa.int64(), 7, "int"),
        (pa.uint32(), 7, "int"),
        (pa.int64(), 7, "double"),
        (pa.int32(), 7, "decimal(9,0)"),
        (pa.int32(), 7, "string"),
        (pa.float64(), 0.5, "float"),
        (pa.float64(), 0.5, "decimal(10,2)"),
        (pa.decimal128(12, 2), Decimal("1.10"), "decimal(10,2)"),
        (pa.decimal128(10, 3), Decimal("1.10"), "decimal(10,2)"),
        (pa.string(), "7", "int"),
        (pa.binary(), b"a", "string"),
        (pa.timestamp("us", tz="UTC"), NOON.replace(tzinfo=UTC), "timestamp"),
        (pa.timestamp("us"), NOON, "date"),
        (pa.date32(), date(2026, 1, 5), "timestamp"),
        (pa.duration("us"), 5, "long"),
        (pa.list_(pa.int64()), [1], "string"),
        (pa.int64(), 1, "list<long>"),
        (pa.binary(3), b"abc", "fixed(2)"),
    ],
)
def test_types_that_would_lose_something_refuse_the_file(
    stage: Stage, kind: pa.DataType, given: Any, declared_as: str
) -> None:
    with pytest.raises(UnreadableObject) as caught:
        stage(one(kind, given), {"id": "long", "v": declared_as})
    assert f"column='v' file={pq_type(kind)} declared={declared({'v': declared_as}, key=['v']).columns[0].type}" in str(
        caught.value
    )


def pq_type(kind: pa.DataType) -> str:
    return str(kind).replace("item:", "element:")


@pytest.mark.parametrize(
    ("kind", "declared_as"),
    [
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("ns"), "timestamptz"),
        (pa.timestamp("ns", tz="UTC"), "timestamptz"),
        (pa.time64("ns"), "time"),
    ],
)
def test_nanoseconds_that_would_be_lost_are_rejects(stage: Stage, kind: pa.DataType, declared_as: str) -> None:
    # V05
    table = pa.table({"id": [0, 1, 2], "v": pa.array([1000, 1001, None], pa.int64()).cast(kind)})
    result = stage(table, {"id": "long", "v": declared_as})
    assert [row[0] for row in result.rows] == [0, 2]
    ((line, column, reason, raw),) = result.rejects
    assert (line, column, reason) == (2, "v", f"v: the value does not fit a {declared_as} exactly")
    assert raw is not None and '"id":"1"' in raw and ".000001001" in raw


def test_old_int96_timestamps(stage: Stage) -> None:
    far = naive(9999, 12, 31)
    old = {"use_deprecated_int96_timestamps": True}
    columns = {"id": "long", "v": "timestamp"}
    assert stage(one(pa.timestamp("us"), NOON, far, None), columns, write=old).rows == [(0, NOON), (1, far), (2, None)]
    lost = pa.table({"id": [0], "v": pa.array([1001], pa.int64()).cast(pa.timestamp("ns"))})
    with pytest.raises(UnreadableObject, match=r"below a microsecond.*column='v'"):
        stage(lost, columns, write=old)


def test_gap_and_missing_keys_are_rejects(stage: Stage) -> None:
    # V02
    table = pa.table(
        {"id": ["a", None, "c"], "v": pa.array([NOON, NOON, naive(2026, 3, 29, 2, 30)], pa.timestamp("us"))}
    )
    result = stage(table, {"id": "string", "v": "timestamptz"}, format={"timezone": "Europe/Paris"})
    assert [row[0] for row in result.rows] == ["a"]
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "id"), (3, "v")]
    assert result.rejects[0][3] == '{"id":null,"v":"2026-07-01 12:00:00"}'


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (pa.table({"id": ["a"], "v": ["b"], "extra": [1]}), "unknown columns.*'extra'"),  # R05
        (pa.table({"v": ["b"]}), "missing columns.*'id'"),
        (pa.table({"id": ["a"], "ID": ["b"]}), "'id','ID'"),
        (pa.table([["a"], ["b"], ["c"]], names=["id", "v", "v"]), "'v','v'"),
        (b"id,v\n1,a\n", "not parquet"),
        (b"PAR1PAR1", "broken"),
    ],
)
def test_file_that_does_not_fit_is_refused(stage: Stage, table: pa.Table | bytes, named: str) -> None:
    with pytest.raises(UnreadableObject, match=named):
        stage(table)


def test_names_are_data(stage: Stage) -> None:
    names = ["line", 'a"b', "p0", "x'); --", "file_row_number"]
    table = pa.table({"id": ["k", None], **{name: [name, name] for name in names}})
    result = stage(table, {"id": "string", **dict.fromkeys(names, "string")})
    assert result.rows == [("k", *names)]
    assert result.rejected_lines == [2]


def test_rows_keep_their_numbers_over_row_groups(stage: Stage) -> None:
    count = 5000
    result = stage(one(pa.int64(), *range(count)), {"id": "long", "v": "long"}, write={"row_group_size": 700})
    assert (result.lines[0], result.lines[-1]) == (1, count)
    assert all(line == id + 1 for line, (id, _) in zip(result.lines, result.rows, strict=True))


def test_no_rows_is_no_problem(stage: Stage) -> None:
    assert stage(one(pa.int64()), {"id": "long", "v": "long"}).counts.read == 0


@pytest.mark.parametrize("damage", ["cut", "zeros", "noise"])
def test_broken_files_are_refused(stage: Stage, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"id": [str(i) * 5 for i in range(20_000)]}), path, row_group_size=5000)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "zeros":
        data[200:400] = bytes(200)
    else:
        data[5:60] = b"\xa5" * 55
    with pytest.raises(UnreadableObject, match="broken"):
        stage(bytes(data), {"id": "string"})


STRUCT = pa.struct([("b", pa.list_(pa.struct([("y", pa.decimal128(5, 2)), ("x", pa.string())]))), ("a", pa.int16())])


def test_nested_values_are_matched_by_name_and_widened(stage: Stage) -> None:
    value = {"a": 1, "b": [{"x": "q", "y": Decimal("1.10")}, None]}
    declared_as = "struct<a: long, missing: date, b: list<struct<x: string, y: decimal(12,3)>>>"
    result = stage(one(STRUCT, value, None, {"a": None, "b": []}), {"id": "long", "v": declared_as})
    assert result.rows == [
        (0, {"a": 1, "missing": None, "b": [{"x": "q", "y": Decimal("1.100")}, None]}),
        (1, None),
        (2, {"a": None, "missing": None, "b": []}),
    ]
    assert list(result.rows[0][1]) == ["a", "missing", "b"]


@pytest.mark.parametrize(
    ("kind", "given", "declared_as", "value"),
    [
        (pa.map_(pa.string(), pa.int8()), [("k", 1), ("", None)], "map<string, int>", {"k": 1, "": None}),
        (pa.map_(pa.int32(), pa.list_(pa.float32())), [(1, [0.5])], "map<long, list<double>>", {1: [0.5]}),
        (pa.large_list(pa.int16()), [3], "list<int>", [3]),
        (pa.list_(pa.int16(), 2), [3, 4], "list<int>", [3, 4]),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), ["a", None], "list<string>", ["a", None]),
        (pa.list_(pa.null()), [None], "list<struct<a: int>>", [None]),
        (pa.list_(pa.binary()), [b"ab"], "list<fixed(2)>", [b"ab"]),
        (pa.list_(pa.timestamp("ns")), [NOON], "list<timestamp>", [NOON]),
        (pa.list_(pa.timestamp("us")), [NOON], "list<timestamptz>", [NOON.replace(hour=10, tzinfo=UTC)]),
        (pa.list_(pa.timestamp("ms", tz="Asia/Tokyo")), [NOON], "list<timestamptz>", [NOON.replace(tzinfo=UTC)]),
    ],
)
def test_nested_types_widen(stage: Stage, kind: pa.DataType, given: Any, declared_as: str, value: Any) -> None:
    result = stage(one(kind, given, None), {"id": "long", "v": declared_as}, format={"timezone": "Europe/Paris"})
    assert result.rows == [(0, value), (1, None)]


@pytest.mark.parametrize(
    ("declared_as", "named"),
    [
        ("struct<a: long, b: list<struct<x: string, y: decimal(4,2)>>>", r"'v\.b\.element\.y' file=decimal128\(5, 2\)"),
        ("struct<a: string, b: list<struct<x: string, y: decimal(5,2)>>>", r"'v\.a' file=int16 declared=string"),
        ("struct<a: long, b: struct<x: string>>", r"column='v\.b'"),
        ("struct<a: long>", r"unknown fields: .*column='v' fields='b'"),
        ("struct<a: long, b: list<struct<x: string>>>", r"unknown fields: .*column='v\.b\.element' fields='y'"),
        ("struct<A: long, b: list<struct<x: string, y: decimal(5,2)>>>", r"case or blanks alone: .*'a' declared='A'"),
    ],
)
def test_nested_types_that_do_not_fit_refuse_the_file(stage: Stage, declared_as: str, named: str) -> None:
    with pytest.raises(UnreadableObject, match=named):
        stage(one(STRUCT, {"a": 1, "b": []}), {"id": "long", "v": declared_as})


def test_unknown_fields_may_be_ignored(stage: Stage) -> None:
    columns = {"id": "long", "v": "struct<a: long>"}
    assert stage(one(STRUCT, {"a": 1, "b": []}), columns, unknown_columns="ignore").rows == [(0, {"a": 1})]


def test_fields_alike_but_for_case_refuse_the_file(stage: Stage) -> None:
    kind = pa.struct([("a", pa.int8()), ("A", pa.int8())])
    with pytest.raises(UnreadableObject, match=r"two fields have the same name but for case.*column='v'"):
        stage(one(kind, {"a": 1, "A": 2}), {"id": "long", "v": "struct<a: int>"}, unknown_columns="ignore")


def test_a_misfit_inside_makes_the_row_a_reject(stage: Stage) -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.binary())))])
    values = [{"m": [("k", [b"ab"])]}, {"m": [("k", [b"ab", b"abc"])]}, {"m": [("k", []), ("k", None)]}, None]
    result = stage(one(kind, *values), {"id": "long", "v": "struct<m: map<string, list<fixed(2)>>>"})
    assert result.rows == [(0, {"m": {"k": [b"ab"]}}), (3, None)]
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "v"), (3, "v")]
    assert result.rejects[0][2].startswith("v: a value in it does not fit a struct<m: map<string, list<fixed(2)>>>")


def test_v05_nanoseconds_zones_and_naive_times_become_microseconds_of_utc(stage: Stage) -> None:
    """V05: also inside nested values; what would be lost is a reject."""
    nanos = pa.array([1000, 1001, None], pa.int64()).cast(pa.timestamp("ns"))
    table = pa.table(
        {
            "id": [0, 1, 2],
            "ns": nanos,
            "paris": pa.array([NOON, NOON, None], pa.timestamp("us", tz="Europe/Paris")),
            "naive": pa.array([NOON, NOON, None], pa.timestamp("us")),
            "inside": pa.array([[NOON], [NOON], None], pa.list_(pa.timestamp("ns"))),
        }
    )
    columns = {
        "id": "long", "ns": "timestamp", "paris": "timestamptz", "naive": "timestamptz", "inside": "list<timestamptz>"
    }  # fmt: skip
    result = stage(table, columns, format={"timezone": "Europe/Paris"})
    ten, twelve = NOON.replace(hour=10, tzinfo=UTC), NOON.replace(tzinfo=UTC)
    assert result.rows == [(0, naive(1970, 1, 1, 0, 0, 0, 1), twelve, ten, [ten]), (2, None, None, None, None)]
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "ns")]


def test_old_int96_timestamps_inside_nested_values(stage: Stage) -> None:
    old = {"use_deprecated_int96_timestamps": True}
    columns = {"id": "long", "v": "struct<l: list<timestamp>, m: map<string, timestamp>>"}
    kind = pa.struct([("l", pa.list_(pa.timestamp("ns"))), ("m", pa.map_(pa.string(), pa.timestamp("ns")))])
    value = {"l": [NOON, None], "m": [("k", NOON)]}
    assert stage(one(kind, value, None), columns, write=old).rows == [(0, {**value, "m": {"k": NOON}}), (1, None)]
    lost = pa.array([[("k", 1001)]], pa.map_(pa.string(), pa.int64())).cast(pa.map_(pa.string(), pa.timestamp("ns")))
    table = pa.table({"id": [0], "v": pa.StructArray.from_arrays([lost], names=["m"])})
    with pytest.raises(UnreadableObject, match=r"below a microsecond.*column='v'"):
        stage(table, columns, write=old)


@pytest.mark.parametrize(
    ("kind", "declared_as", "value"),
    [
        (pa.timestamp("ms"), "timestamp", 2**62),
        (pa.timestamp("s", "UTC"), "timestamptz", 2**53),
        (pa.list_(pa.timestamp("ms")), "list<timestamp>", [0, 2**62]),
        (pa.struct([("a", pa.timestamp("ms", "UTC"))]), "struct<a: timestamptz>", {"a": -(2**62)}),
        (
            pa.list_(pa.struct([("a", pa.list_(pa.timestamp("ms")))])),
            "list<struct<a: list<timestamp>>>",
            [None, {"a": None}, {"a": [2**62]}],
        ),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_a_timestamp_beyond_microseconds_is_a_reject(
    stage: Stage, kind: pa.DataType, declared_as: str, value: Any, statistics: bool
) -> None:
    table = one(kind, None, value, None)
    write = {"write_statistics": statistics}
    result = stage(table, {"id": "long", "v": declared_as}, write=write)
    assert (result.rows, result.lines) == ([(0, None), (2, None)], [1, 3])
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "v")]
    assert "does not fit a" in result.rejects[0][2]
    # one that nobody declared has no text that says it
    with pytest.raises(UnreadableObject, match=r"a timestamp that no column holds: .*column='v'"):
        stage(table, {"id": "long"}, unknown_columns="rescue", write=write)
    assert stage(table, {"id": "long"}, unknown_columns="ignore", write=write).rows == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("kind", "declared_as", "value"),
    [
        (pa.map_(pa.string(), pa.timestamp("ms")), "map<string, timestamp>", [("k", 2**62)]),
        (pa.time64("us"), "time", -7),
    ],
)
def test_other_times_that_duckdb_cannot_hold_refuse_the_file(
    stage: Stage, kind: pa.DataType, declared_as: str, value: Any
) -> None:
    table = one(kind, None, value)
    for columns, unknown in (({"id": "long", "v": declared_as}, "reject"), ({"id": "long"}, "rescue")):
        with pytest.raises(UnreadableObject):
            stage(table, columns, unknown_columns=unknown)


def test_a_precision_that_no_decimal_has_is_the_files_fault(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "decimal"
    pq.write_table(one(pa.decimal128(12, 2), Decimal("1.10")), path, store_schema=False)
    # DuckDB calls it an error of the disk
    damaged = path.read_bytes().replace(b"\x15\x04\x15\x18,", b"\x15\x04\x15\x6b,")
    assert damaged != path.read_bytes()
    with pytest.raises(UnreadableObject, match=r"the parquet file is broken: .*invalid decimal precision"):
        stage(damaged, {"id": "long", "v": "decimal(12,2)"})


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_end_of_nanoseconds_is_a_reject(stage: Stage, zone: str | None) -> None:
    columns = {"id": "long", "v": "timestamptz" if zone else "timestamp"}
    result = stage(one(pa.timestamp("ns", zone), 0, 2**63 - 1, -(2**63) + 1), columns)
    assert [row[0] for row in result.rows] == [0]
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "v"), (3, "v")]


@pytest.mark.parametrize("declared_as", ["decimal(5,2)", "decimal(12,4)"])
def test_a_decimal_of_more_digits_than_its_type_is_a_reject(stage: Stage, tmp_path: Path, declared_as: str) -> None:
    kind, most = pa.decimal128(5, 2), Decimal("999.99")
    write = {"store_decimal_as_integer": True, "use_dictionary": False, "compression": "none"}
    pq.write_table(one(kind, most, -most, Decimal("1.11")), tmp_path / "right", write_statistics=False, **write)
    data = (tmp_path / "right").read_bytes()
    assert data.count((111).to_bytes(4, "little")) == 1
    broken = data.replace((111).to_bytes(4, "little"), (100_000).to_bytes(4, "little"))
    result = stage(broken, {"id": "long", "v": declared_as})
    assert result.rows == [(0, most), (1, -most)]
    assert [(line, column) for line, column, *_ in result.rejects] == [(3, "v")]
