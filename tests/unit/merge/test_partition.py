"""Partition values: every transform of every type gives what PyIceberg's own transform gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, localcontext
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import LongType, NestedField, StructType

from lakehouse.errors import NotAvailable
from lakehouse.merge.data_file import stored_values
from lakehouse.merge.layout import duckdb_type
from lakehouse.merge.partition import partition_expressions
from lakehouse.schema import iceberg_type, target_schema, target_spec
from lakehouse.types import parse_type
from tests.merge_bench import declare

NAME = 'a "column'
TRANSFORMS: tuple[Transform[Any, Any], ...] = (
    IdentityTransform(), BucketTransform(1), BucketTransform(16), BucketTransform(2**31 - 1), TruncateTransform(1),
    TruncateTransform(7), TruncateTransform(1000), YearTransform(), MonthTransform(), DayTransform(), HourTransform(),
)  # fmt: skip
WIDEST = 1000
moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31) + WIDEST, 2**31 - 1),
    "long": st.integers(-(2**63) + WIDEST, 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": moments,
    "timestamptz": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "uuid": st.uuids(),
    "binary": st.binary(max_size=20),
    "fixed(3)": st.binary(min_size=3, max_size=3),
    "decimal(9,2)": st.integers(-(10**9) + WIDEST, 10**9 - 1).map(lambda n: _decimal(n, 2)),
    "decimal(38,0)": st.integers(-(10**38) + WIDEST, 10**38 - 1).map(lambda n: _decimal(n, 0)),
    "decimal(38,38)": st.integers(-(10**38) + WIDEST, 10**38 - 1).map(lambda n: _decimal(n, 38)),
}


def _decimal(unscaled: int, scale: int) -> Decimal:
    with localcontext(prec=40):
        return Decimal(unscaled).scaleb(-scale)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        # Iceberg's days and hours are those of UTC, whatever the session's zone
        con.execute("SET TimeZone = 'America/New_York'")
        yield con


def ours(
    con: duckdb.DuckDBPyConnection, kind: str, transforms: Sequence[Transform[Any, Any]], values: Sequence[Any]
) -> list[list[Any]]:
    """The partition values by transform, in the order of the values."""
    field_type = iceberg_type(parse_type(kind))
    fields = (PartitionField(7, 1000 + n, transform, f"part{n}") for n, transform in enumerate(transforms))
    schema = Schema(NestedField(7, NAME, field_type, required=False))
    expressions = ", ".join(partition_expressions(schema, PartitionSpec(*fields)))
    con.execute(f'CREATE OR REPLACE TEMP TABLE t (n INT, "a ""column" {duckdb_type(field_type)})')
    # bound as a number, a small decimal would come as a double
    texts = [format(value, "f") if isinstance(value, Decimal) else value for value in values]
    con.executemany("INSERT INTO t VALUES (?, ?)", [[n, value] for n, value in enumerate(texts)])
    rows = [stored_values(row) for row in con.execute(f"SELECT {expressions} FROM t ORDER BY n").fetchall()]
    return [[row[n] for row in rows] for n in range(len(transforms))]


def theirs(kind: str, transform: Transform[Any, Any], value: Any) -> Any:
    with localcontext(prec=80):
        found = transform.transform(iceberg_type(parse_type(kind)))(value)
    if isinstance(found, time):
        return (found.hour * 3600 + found.minute * 60 + found.second) * 10**6 + found.microsecond
    return stored_values([found])[0]


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=8)
@given(data=st.data())
def test_values_are_those_of_pyiceberg(con: duckdb.DuckDBPyConnection, kind: str, data: st.DataObject) -> None:
    values = [*data.draw(st.lists(VALUES[kind], min_size=1, max_size=30)), None]
    transforms = [t for t in TRANSFORMS if t.can_transform(iceberg_type(parse_type(kind)))]
    found = ours(con, kind, transforms, values)
    for transform, column in zip(transforms, found, strict=True):
        assert column == [theirs(kind, transform, value) for value in values], transform


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        # the values of the Iceberg specification, Appendix B
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", Decimal("14.20"), -500754589),
        ("date", date(2017, 11, 16), -653330422),
        ("time", time(22, 31, 8), -662762989),
        ("timestamp", datetime(2017, 11, 16, 22, 31, 8), -2047944441),  # noqa: DTZ001
        ("timestamp", datetime(2017, 11, 16, 22, 31, 8, 1), -1207196810),  # noqa: DTZ001
        ("timestamptz", datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), -2047944441),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        ("fixed(4)", b"\x00\x01\x02\x03", -188683207),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_of_the_specification(con: duckdb.DuckDBPyConnection, kind: str, value: Any, hashed: int) -> None:
    width = 2**31 - 1
    assert ours(con, kind, [BucketTransform(width)], [value]) == [[(hashed & 0x7FFFFFFF) % width]]


def test_a_truncated_number_below_the_least_wraps_around_as_in_java(con: duckdb.DuckDBPyConnection) -> None:
    assert ours(con, "int", [TruncateTransform(10)], [-(2**31)]) == [[2**31 - 2]]
    assert ours(con, "long", [TruncateTransform(10)], [-(2**63)]) == [[2**63 - 2]]


def test_nan_and_negative_zero_are_partitions(con: duckdb.DuckDBPyConnection) -> None:
    found = ours(con, "double", [IdentityTransform()], [float("nan"), -0.0])
    assert str(found) == "[[nan, -0.0]]"


def test_void_is_null_whatever_became_of_its_source(con: duckdb.DuckDBPyConnection) -> None:
    spec = PartitionSpec(PartitionField(99, 1000, VoidTransform(), "gone"))
    assert partition_expressions(Schema(NestedField(1, "id", LongType())), spec) == ["NULL"]


@pytest.mark.parametrize("transform", [UnknownTransform("zorder[3]"), IdentityTransform()])
def test_what_is_not_defined_is_refused(transform: Transform[Any, Any]) -> None:
    inner = StructType(NestedField(2, "x", LongType(), required=False))
    source = 1 if isinstance(transform, UnknownTransform) else 2
    schema = Schema(NestedField(1, "id", LongType()), NestedField(3, "s", inner, required=False))
    with pytest.raises(NotAvailable, match=r"partition field part: .* is not available yet"):
        partition_expressions(schema, PartitionSpec(PartitionField(source, 1000, transform, "part")))


def test_several_fields_and_their_names() -> None:
    declaration = declare(
        columns="{id: bigint, n: double, t: timestamptz, day: date}",
        partition_by="[day, 'bucket(4, id)', 'bucket(8, id)', 'truncate(10, id)', 'hour(t)', n]",
    )
    schema = target_schema(declaration)
    spec = target_spec(declaration, schema)
    assert [field.name for field in spec.fields] == ["day", "id_bucket_4", "id_bucket_8", "id_trunc", "t_hour", "n"]
    assert len(partition_expressions(schema, spec)) == 6
