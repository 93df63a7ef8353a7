"""Pruning keeps every file that holds a staged key, whatever its type, and drops those that cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
)

from lakehouse.declaration import Declaration
from lakehouse.errors import TargetDamaged
from lakehouse.merge.prune import candidates
from lakehouse.schema import iceberg_type
from lakehouse.types import parse_type
from tests.merge_bench import Bench, Row, declare

moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": moments,
    "timestamptz": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "string": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=24),
    "uuid": st.uuids(),
    "binary": st.binary(max_size=24),
    "fixed(2)": st.binary(min_size=2, max_size=2),
    "decimal(9,2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(30,0)": st.integers(-(10**27), 10**27).map(Decimal),
}


def declared(kind: str) -> Declaration:
    return declare(columns=f"{{k: '{kind}', n: int, t: timestamptz}}", key="[k]")


def stored(value: Any) -> Any:
    """A value as a manifest counts it."""
    match value:
        case datetime():
            since = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            return (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
        case date():
            return (value - date(1970, 1, 1)).days
        case time():
            return (value.hour * 3600 + value.minute * 60 + value.second) * 10**6 + value.microsecond
        case UUID():
            return value.bytes
        case _:
            return value


def data_file(path: str, kind: PrimitiveType, low: Any, high: Any, **counts: dict[int, int]) -> DataFile:
    """A data file with bounds of its field 1; None leaves one out."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
        lower_bounds={} if low is None else {1: to_bytes(kind, low)},
        upper_bounds={} if high is None else {1: to_bytes(kind, high)},
        **counts,
    )


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'")
        yield con


def reached(con: duckdb.DuckDBPyConnection, kind: str, staged: Sequence[Any], files: Sequence[DataFile]) -> set[str]:
    con.execute(f"CREATE OR REPLACE TEMP TABLE winners (k {parse_type(kind).sql})")
    if staged:
        # bound as a number, a small decimal would come as a double
        texts = [format(value, "f") if isinstance(value, Decimal) else value for value in staged]
        con.executemany("INSERT INTO winners VALUES (?)", [[value] for value in texts])
    schema = Schema(NestedField(1, "k", iceberg_type(parse_type(kind)), required=False))
    return {f.file_path for f in candidates(con, declared(kind), schema, files)}


def truncated(low: Any, high: Any, length: int) -> tuple[Any, Any]:
    """Bounds as most writers shorten them: the upper one is counted up, or left out where that cannot be."""
    if isinstance(high, str) and len(high) > length:
        last = ord(high[length - 1]) + 1
        cut = high[: length - 1] + chr(last)
        high = cut if last <= 0x10FFFF and not 0xD800 <= last <= 0xDFFF else None
    if isinstance(high, bytes) and len(high) > length:
        high = high[: length - 1] + bytes([high[length - 1] + 1]) if high[length - 1] < 255 else None
    return low[:length] if isinstance(low, str | bytes) else low, high


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_file_that_holds_a_staged_key_is_always_a_candidate(
    con: duckdb.DuckDBPyConnection, kind: str, data: st.DataObject
) -> None:
    field_type = iceberg_type(parse_type(kind))
    assert isinstance(field_type, PrimitiveType)
    contents = data.draw(st.lists(st.lists(KEYS[kind], min_size=1, max_size=4), min_size=1, max_size=4))
    staged = data.draw(st.lists(st.sampled_from([v for values in contents for v in values]) | KEYS[kind], max_size=3))
    files = []
    for number, values in enumerate(contents):
        numbers = [stored(v) for v in values if not (isinstance(v, float) and math.isnan(v))]
        low, high = truncated(min(numbers, default=None), max(numbers, default=None), 3 if kind != "fixed(2)" else 2)
        files.append(data_file(str(number), field_type, low, high))
    found = reached(con, kind, staged, files)
    for number, values in enumerate(contents):
        if any(v == s or (v != v and s != s) for v in values for s in staged):
            assert str(number) in found


@pytest.mark.parametrize(
    ("kind", "field_type", "low", "high", "inside", "below", "above"),
    [
        ("long", IntegerType(), 10, 20, 15, 9, 21),  # bounds from before the column was widened
        ("double", FloatType(), 0.5, 1.5, 1.0, 0.25, 2.0),
        ("decimal(30,2)", DecimalType(9, 2), Decimal("-1.10"), Decimal("2.00"), Decimal(0), Decimal(-2), Decimal(3)),
        ("uuid", None, b"\x01" + bytes(15), b"\xf0" + bytes(15), UUID(int=2**127), UUID(int=5), UUID(int=2**128 - 1)),
        ("boolean", None, True, True, True, False, None),
        ("string", None, "b", "é", "c", "a", "😀"),  # by code point, as UTF-8 is ordered
        ("binary", None, b"\x10", b"\x80", b"\x7f\xff", b"\x0f", b"\x81"),
        ("time", None, 10**6, 2 * 10**6, time(0, 0, 1, 5), time(0), time(0, 0, 3)),
        ("date", None, -10, 0, date(1970, 1, 1), date(1969, 1, 1), date(1970, 1, 2)),
    ],
)
def test_files_beside_the_keys_are_dropped(
    con: duckdb.DuckDBPyConnection, kind: str, field_type: Any, low: Any, high: Any, inside: Any, below: Any, above: Any
) -> None:
    file = data_file("f", field_type or iceberg_type(parse_type(kind)), low, high)
    assert reached(con, kind, [inside], [file]) == {"f"}
    assert reached(con, kind, [below, inside], [file]) == {"f"}
    assert reached(con, kind, [below], [file]) == set()
    assert above is None or reached(con, kind, [above], [file]) == set()
    assert reached(con, kind, [], [file]) == set()


def test_bounds_that_say_nothing_keep_the_file(con: duckdb.DuckDBPyConnection) -> None:
    long = LongType()
    no_text = data_file("broken", BinaryType(), b"\xff", b"\xff")
    assert reached(con, "string", ["z"], [no_text]) == {"broken"}
    files = [
        data_file("none", long, None, None),
        data_file("half", long, 9, None),
        data_file("swapped", long, 20, 10),
        data_file("beside", long, 9, 10),
    ]
    assert reached(con, "long", [5], files) == {"none", "swapped"}


def test_nan_and_zeros(con: duckdb.DuckDBPyConnection) -> None:
    """NaN is no bound and equals NaN, -0.0 equals 0.0."""
    nan, double = float("nan"), DoubleType()
    files = [
        data_file("zeros", double, -0.0, -0.0, nan_value_counts={1: 0}),
        data_file("ones", double, 1.0, 1.0, nan_value_counts={1: 0}),
        data_file("unknown", double, 1.0, 1.0),
        data_file("nan", double, None, None, nan_value_counts={1: 1}),
    ]
    assert reached(con, "double", [0.0], files) == {"zeros", "nan"}
    assert reached(con, "double", [nan], files) == {"unknown", "nan"}
    assert reached(con, "double", [nan, 0.0], files) == {"zeros", "unknown", "nan"}
    assert reached(con, "double", [math.inf], files) == {"nan"}


def test_a_known_null_key_is_named_unless_the_row_may_be_deleted(con: duckdb.DuckDBPyConnection) -> None:
    file = data_file("f", LongType(), 1, 1, null_value_counts={1: 2})
    schema = Schema(NestedField(1, "k", LongType(), required=False))
    with pytest.raises(TargetDamaged, match="NULL key: column=k rows=2 file=f"):
        reached(con, "long", [7], [file])
    con.execute("CREATE OR REPLACE TEMP TABLE winners AS SELECT 7::BIGINT AS k")
    assert candidates(con, declared("long"), schema, [file], with_deletes={"f"}) == (file,)


def test_a_key_column_that_a_file_lacks_is_a_live_null_key(tmp_path: Path) -> None:
    before = declare(columns="{id: bigint, n: int, t: timestamptz}")
    bench = Bench(before, tmp_path)
    bench.merge([Row({"id": 1, "n": 1, "t": datetime(2026, 1, 1, tzinfo=UTC)}, 1)])
    with bench.catalog.load_table(before.table).update_schema() as change:
        change.add_column("region", iceberg_type(parse_type("string")))
    bench.declaration = declare(columns="{id: bigint, n: int, t: timestamptz, region: string}", key="[id, region]")
    with pytest.raises(TargetDamaged, match="NULL key: column=region rows=1"):
        bench.merge([Row({"id": 1, "n": 2, "t": datetime(2026, 1, 2, tzinfo=UTC), "region": "x"}, 1)])


VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "float": (-0.0, float("nan")),
    "double": (float("nan"), math.inf),
    "date": (date(1, 1, 1), date(9999, 12, 31)),
    "time": (time(0), time(23, 59, 59, 999999)),
    "timestamp": (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    "timestamptz": (datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    "string": ("", "x" * 100 + "\U0010ffff"),
    "uuid": (str(UUID(int=0)), str(UUID(int=2**128 - 1))),
    "binary": (b"", b"\xff" * 100),
    "fixed(2)": (b"\x00\x00", b"\xff\xff"),
    "decimal(9,2)": (Decimal("-9999999.99"), Decimal("0.01")),
    "decimal(38,0)": (Decimal(10**27), Decimal(-(10**27))),
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_primitive_type_makes_a_key(tmp_path: Path, kind: str) -> None:
    bench = Bench(declared(kind), tmp_path)
    one, two = VALUES[kind]
    first, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    bench.merge([Row({"k": one, "n": 1, "t": first}, 1)])
    same = 0.0 if kind == "float" else one
    merged = bench.merge([Row({"k": same, "n": 1, "t": first}, 1), Row({"k": two, "n": 2, "t": first}, 2)])
    counts = merged.match.counts
    assert (counts.unchanged, counts.inserted, counts.updated) == (1, 1, 0)
    counts = bench.merge([Row({"k": two, "n": 3, "t": later}, 1)]).match.counts
    assert (counts.updated, counts.inserted) == (1, 0)
    assert sorted(row["n"] for row in bench.rows()) == [1, 3]


def test_v04_unchanged_rows_with_nan_and_zones_write_no_data_file(tmp_path: Path) -> None:
    """V04, also for NaN inside nested values and with it in the key."""
    columns = (
        "{k: string, x: double, y: real, t: timestamptz, s: 'struct<a: double, b: list<float>>', l: 'list<double>'}"
    )
    source = "{uri: s3://landing/orders, partition: input_date=%Y-%m-%d, format: {type: parquet}}"
    nan = float("nan")
    for key in ("[k]", "[k, x]"):
        bench = Bench(declare(columns=columns, key=key, source=source), tmp_path / key)
        row = Row(
            {
                "k": "a",
                "x": nan,
                "y": nan,
                "t": datetime(2026, 1, 1, tzinfo=UTC),
                "s": {"a": nan, "b": [nan]},
                "l": [nan, -0.0],
            },
            1,
        )
        bench.merge([row])
        before = len(bench.catalog.load_table("analytics.orders").metadata.snapshots)
        again = bench.merge([row])
        counts = again.match.counts
        assert (counts.updated, counts.inserted, counts.unchanged) == (0, 0, 1)
        assert again.written.added == ()
        assert len(bench.catalog.load_table("analytics.orders").metadata.snapshots) == before + 1
