from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import fastavro
import pytest

from lakehouse.errors import UnreadableObject
from lakehouse.read.typed import avro, avro_blocks
from tests.staging_values import Result, Staging, declared

Stage = Callable[..., Result]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with duckdb.connect() as con:

        def run(data: bytes, columns: dict[str, Any] | None = None, **changes: Any) -> Result:
            format = {"type": "avro", **changes.pop("format", {})}
            staging = Staging(con, tmp_path, declared(columns, format=format, **changes))
            return staging.stage(data)

        yield run


def written(
    types: Mapping[str, Any], records: Sequence[Mapping[str, Any]], codec: str = "null", **options: Any
) -> bytes:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records, codec=codec, **options)
    return file.getvalue()


def one(kind: Any, *values: Any) -> bytes:
    records = [{"id": i, "v": value} for i, value in enumerate(values)]
    return written({"id": "long", "v": kind}, records)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_columns_are_matched_by_name_in_every_codec(stage: Stage, codec: str) -> None:
    records = [{"price": 5.5 + i, "id": f"k{i}", "qty": i} for i in range(1000)]
    data = written({"price": "double", "id": "string", "qty": "int"}, records, codec, sync_interval=500)
    result = stage(data, {"id": "string", "qty": "long", "price": "double", "more": "date"})
    assert result.rows == [(f"k{i}", i, 5.5 + i, None) for i in range(1000)]
    assert (result.lines, result.missing) == (list(range(1, 1001)), ("more",))


def logical(base: str, meaning: str, /, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": meaning, **more}


NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "given", "declared_as", "value"),
    [
        ("int", 7, "long", 7),
        ("int", 7, "double", 7.0),
        ("float", 0.5, "double", 0.5),
        ("boolean", True, "boolean", True),
        ("string", " 007", "string", " 007"),
        ("bytes", b"\xff", "binary", b"\xff"),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", "fixed(2)", b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "string", "B"),
        (logical("bytes", "decimal", precision=10, scale=2), Decimal("-1.10"), "decimal(12,2)", Decimal("-1.10")),
        (
            logical("bytes", "decimal", precision=38, scale=3),
            Decimal(f"{10**34}.123"),
            "decimal(38,3)",
            Decimal(f"{10**34}.123"),
        ),
        (logical("fixed", "decimal", name="d", size=5, precision=9, scale=0), Decimal(7), "decimal(9,0)", Decimal(7)),
        (logical("string", "uuid"), UUID(int=5), "uuid", UUID(int=5)),
        (logical("int", "date"), date(9999, 12, 31), "date", date(9999, 12, 31)),
        (logical("int", "time-millis"), time(1, 2, 3), "time", time(1, 2, 3)),
        (logical("long", "time-micros"), time(1, 2, 3, 4), "time", time(1, 2, 3, 4)),
        (logical("long", "timestamp-millis"), NOON, "timestamptz", NOON),
        (logical("long", "timestamp-micros"), NOON, "timestamptz", NOON),
        (logical("long", "local-timestamp-micros"), NOON.replace(tzinfo=None), "timestamp", NOON.replace(tzinfo=None)),
        (
            logical("long", "local-timestamp-millis"),
            NOON.replace(tzinfo=None),
            "timestamptz",
            NOON - timedelta(hours=2),
        ),
        ({"type": "array", "items": "int"}, [1, 2], "list<long>", [1, 2]),
        ({"type": "map", "values": ["null", "int"]}, {"k": 1, "l": None}, "map<string, int>", {"k": 1, "l": None}),
        (
            {"type": "array", "items": logical("bytes", "decimal", precision=4, scale=2)},
            [Decimal("1.10")],
            "list<decimal(4,2)>",
            [Decimal("1.10")],
        ),
        (
            {
                "type": "record",
                "name": "p",
                "fields": [
                    {"name": "a", "type": ["null", "string"]},
                    {"name": "m", "type": {"type": "map", "values": logical("bytes", "decimal", precision=4, scale=2)}},
                ],
            },
            {"a": None, "m": {"k": Decimal("1.10")}},
            "struct<a: string, m: map<string, decimal(4,2)>>",
            {"a": None, "m": {"k": Decimal("1.10")}},
        ),
    ],
)
def test_types_widen(stage: Stage, kind: Any, given: Any, declared_as: str, value: Any) -> None:
    data = one(["null", kind], given, None)
    result = stage(data, {"id": "long", "v": declared_as}, format={"timezone": "Europe/Paris"})
    assert result.rows == [(0, value), (1, None)]
    assert type(result.rows[0][1]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given", "declared_as", "message"),
    [
        ("long", 7, "int", "column='v' file=int64 declared=int"),
        ("string", "7", "int", "column='v' file=string declared=int"),
        (logical("long", "timestamp-micros"), NOON, "timestamp", "column='v' file=timestamp[us, tz=UTC]"),
        (["string", "int"], "x", "string", "column='v' type=a union of string and int"),
        (
            logical("bytes", "decimal", precision=40, scale=2),
            Decimal(1),
            "decimal(38,2)",
            "type=a decimal of 40 digits",
        ),
        (logical("fixed", "duration", name="d", size=12), b"x" * 12, "string", "type=a duration"),
    ],
)
def test_types_that_would_lose_something_refuse_the_file(
    stage: Stage, kind: Any, given: Any, declared_as: str, message: str
) -> None:
    with pytest.raises(UnreadableObject) as caught:
        stage(one(kind, given), {"id": "long", "v": declared_as})
    assert message in str(caught.value)


def test_a_decimal_without_its_precision_refuses_the_file(stage: Stage) -> None:
    data = one(logical("bytes", "decimal", precision=4, scale=2), Decimal(1))
    damaged = data.replace(b'"precision"', b'"prexision"', 1)
    assert damaged != data
    with pytest.raises(UnreadableObject, match="column='v' type=a decimal with precision"):
        stage(damaged, {"id": "long", "v": "decimal(4,2)"})


def test_a_type_that_holds_itself_is_refused_where_it_is_declared(stage: Stage) -> None:
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    data = one(node, {"next": {"next": None}})
    with pytest.raises(UnreadableObject, match=r"column='v' type=the type node, which holds itself"):
        stage(data, {"id": "long", "v": "struct<next: string>"})
    assert stage(data, {"id": "long"}, unknown_columns="ignore").rows == [(0,)]


def test_rows_that_do_not_fit_are_rejects(stage: Stage) -> None:
    # a year above 9999 is no date of Python's; nanoseconds are cut nowhere
    days = (date(9999, 12, 31) - date(1970, 1, 1)).days
    file = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "int"}]}
    fastavro.writer(file, schema, [{"id": 1, "v": days}, {"id": 2, "v": days + 1}])
    data = file.getvalue().replace(b'"type": "int"}', b'"type":{"type":"int","logicalType":"date"}}')
    assert data != file.getvalue()
    with pytest.raises(UnreadableObject):
        stage(data, {"id": "long", "v": "date"})  # the header's length no longer fits
    nanos = logical("long", "timestamp-nanos")
    result = stage(one(nanos, 1_000, 1_001), {"id": "long", "v": "timestamptz"})
    assert [row[0] for row in result.rows] == [0]
    assert result.rejects[0][:3] == (2, "v", "v: the value does not fit a timestamptz exactly")


def test_a_file_that_is_not_whole(stage: Stage) -> None:
    data = one("string", *(f"value {i}" for i in range(100)))
    for size in (3, 40, len(data) // 2, len(data) - 1):
        with pytest.raises(UnreadableObject, match=r"Avro|avro"):
            stage(data[:size], {"id": "long", "v": "string"})


def test_unknown_columns_refuse_the_file_or_are_ignored(stage: Stage) -> None:
    data = one({"type": "array", "items": ["int", "string"]}, [1, "x"])
    with pytest.raises(UnreadableObject, match=r"unknown columns: uri=.* columns='v'"):
        stage(data, {"id": "long"})
    assert stage(data, {"id": "long"}, unknown_columns="ignore").rows == [(0,)]


def test_many_blocks_are_put_together(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "BATCH_ROWS", 7)
    data = written({"id": "long"}, [{"id": i} for i in range(100)], sync_interval=16)
    assert stage(data, {"id": "long"}).rows == [(i,) for i in range(100)]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_block_that_grows_too_much_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    data = written({"id": "long", "v": "string"}, [{"id": 1, "v": "x" * 10_000}], codec)
    assert stage(data, {"id": "long", "v": "string"}).counts.staged == 1
    monkeypatch.setattr(avro_blocks, "MOST_OF_BLOCK", 9_999)
    with pytest.raises(UnreadableObject, match="more than 9,999 bytes"):
        stage(data, {"id": "long", "v": "string"})


def test_all_blocks_together_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"id": i, "v": "x" * 1000} for i in range(100)]
    data = written({"id": "long", "v": "string"}, records, "deflate", sync_interval=16)
    monkeypatch.setattr(avro_blocks, "most_bytes", lambda size: 50_000)
    with pytest.raises(UnreadableObject, match="unpacks to more than"):
        stage(data, {"id": "long", "v": "string"})


@pytest.mark.parametrize("damage", ["sync", "checksum", "count", "codec"])
def test_a_block_that_is_not_what_it_says_is_refused(stage: Stage, damage: str) -> None:
    data = bytearray(written({"id": "long"}, [{"id": 1}], "snappy"))
    start = data.index(data[-16:]) + 16
    assert data[start] == 2
    match damage:
        case "sync":
            data[-1] ^= 1
        case "checksum":
            data[-17] ^= 1
        case "count":
            data[start] = 0x7E
        case _:
            data = bytearray(bytes(data).replace(b"snappy", b"lz4__5"))
    with pytest.raises(UnreadableObject, match="the Avro file is broken"):
        stage(bytes(data), {"id": "long"})


BEYOND = 2**62
OFF_BY_MORE_THAN_A_DAY = 86_400_000


@pytest.mark.parametrize(
    ("kind", "declared_as", "values"),
    [
        (logical("int", "time-millis"), "time", [-7, OFF_BY_MORE_THAN_A_DAY, 2**31 - 1]),
        (logical("long", "time-micros"), "time", [-7, OFF_BY_MORE_THAN_A_DAY * 1000, BEYOND, -BEYOND]),
        (logical("long", "timestamp-millis"), "timestamptz", [BEYOND, -BEYOND]),
        (logical("long", "timestamp-micros"), "timestamptz", [BEYOND, -BEYOND]),
        (logical("long", "local-timestamp-millis"), "timestamp", [BEYOND, -BEYOND]),
    ],
)
def test_times_beyond_what_a_column_holds_are_rejects(
    stage: Stage, kind: Any, declared_as: str, values: Sequence[int]
) -> None:
    nested = {"type": "record", "name": "p", "fields": [{"name": "a", "type": {"type": "array", "items": kind}}]}
    in_map = {"type": "map", "values": ["null", kind]}
    for written_as, wrap, column, what in [
        (kind, lambda value: value, declared_as, "the value does"),
        (nested, lambda value: {"a": [0, value]}, f"struct<a: list<{declared_as}>>", "a value in it does"),
        (in_map, lambda value: {"k": value}, f"map<string, {declared_as}>", "a value in it does"),
    ]:
        data = one(written_as, wrap(0), *(wrap(value) for value in values), wrap(1))
        columns = {"id": "long", "v": column}
        result = stage(data, columns)
        assert [row[0] for row in result.rows] == [0, len(values) + 1]
        assert {(name, reason[: len(what) + 3]) for _, name, reason, _ in result.rejects} == {("v", f"v: {what}")}
        # undeclared, such a time has no text that says it
        if "timestamp-micros" not in str(kind):
            with pytest.raises(UnreadableObject):
                stage(data, {"id": "long"}, unknown_columns="rescue")


EMPTY = {"type": "record", "name": "nothing", "fields": [{"name": "n", "type": "null"}]}
ITSELF = {"type": "record", "name": "node", "fields": [{"name": "next", "type": {"type": "array", "items": "node"}}]}
ENDLESS = {
    "type": "record",
    "name": "node",
    "fields": [
        {"name": "next", "type": ["null", "node"]},
        {"name": "none", "type": {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}},
    ],
}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "null"}, [None]),
        ({"type": "array", "items": {"type": "null"}}, [None]),
        ({"type": "map", "values": ["null", {"type": "array", "items": EMPTY}]}, {"k": [{"n": None}]}),
        (ENDLESS, {"next": None, "none": [b""]}),
    ],
)
def test_an_array_whose_items_take_no_bytes_refuses_the_file(stage: Stage, kind: Any, value: Any) -> None:
    with pytest.raises(UnreadableObject, match="an array has items that take no bytes"):
        stage(one(kind, value), {"id": "long"}, unknown_columns="ignore")


def test_other_arrays_end_with_their_bytes(stage: Stage) -> None:
    for kind, value in [
        (ITSELF, {"next": [{"next": []}]}),
        ({"type": "array", "items": ["null"]}, [None]),
        (EMPTY, {}),
    ]:
        assert stage(one(kind, value), {"id": "long"}, unknown_columns="ignore").rows == [(0,)]


def test_a_key_that_stands_twice_in_a_map_is_a_reject(stage: Stage) -> None:
    record = {"type": "record", "name": "p", "fields": [{"name": "x", "type": logical("int", "time-millis")}]}
    kind = {"type": "map", "values": {"type": "map", "values": record}}
    values = [{"a": {"k": {"x": 1000}, "l": {"x": 2000}}}, {"a": {"k": {"x": 1000}, "m": {"x": 2000}}}, {}]
    data = one(kind, *values).replace(b"\x02m", b"\x02k")
    columns = {"id": "long", "v": "map<string, map<string, struct<x: time>>>"}
    result = stage(data, columns)
    assert result.rows == [(0, {"a": {"k": {"x": time(0, 0, 1)}, "l": {"x": time(0, 0, 2)}}}), (2, {})]
    assert [(line, column) for line, column, *_ in result.rejects] == [(2, "v")]
    with pytest.raises(UnreadableObject, match="duplicate key"):
        stage(data, {"id": "long"}, unknown_columns="rescue")
    rescued = stage(one({"type": "map", "values": "int"}, {"k": 1}), {"id": "long"}, unknown_columns="rescue")
    assert rescued.rows == [(0, {"v": '{"k":1}'})]


def test_a_type_may_stand_in_several_places(stage: Stage) -> None:
    point = {"type": "record", "name": "point", "namespace": "a.b", "fields": [{"name": "x", "type": "int"}]}
    maps = {"type": "map", "values": "a.b.point"}
    data = written({"id": point, "v": maps, "w": maps}, [{"id": {"x": 1}, "v": {"k": {"x": 2}}, "w": {}}])
    columns = {
        "id": {"type": "int", "from": "id.x"},
        "v": "map<string, struct<x: int>>",
        "w": "map<string, struct<x: int>>",
    }
    assert stage(data, columns).rows == [(1, {"k": {"x": 2}}, {})]
