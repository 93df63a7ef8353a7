"""Where nested types, floating keys and partition transforms may stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.declaration.partition_field import PartitionField, field_names
from lakehouse.errors import DeclarationError
from tests.declaration_text import document

JSONL = "{uri: s3://landing/orders, format: {type: jsonl}}"
PARQUET = "{uri: s3://landing/orders, format: {type: parquet}}"
COLUMNS = "{id: bigint, x: double, t: timestamptz, b: binary, s: 'struct<a: int>', m: 'map<list<int>, int>'}"


def parse(**fields: str | None) -> Declaration:
    fields = {"source": PARQUET, "columns": COLUMNS, **fields}
    (declaration,) = parse_declarations(document(**fields), path=Path("defs.yaml"), env={})
    return declaration


def test_nested_columns_of_every_format_that_has_them() -> None:
    assert str(parse().columns[5].type) == "map<list<int>, int>"
    columns = COLUMNS.replace("map<list<int>, int>", "map<int, array<row(x int)>>")
    assert str(parse(source=JSONL, columns=columns).columns[5].type) == "map<int, list<struct<x: int>>>"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"source": "{uri: s3://landing/, format: {type: csv}}"},
            "columns.s.type: got struct<a: int>; a CSV field holds",
        ),
        ({"source": JSONL}, "columns.m.type: got map<list<int>, int>; names in a text file are texts"),
        (
            {"columns": "{id: bigint, t: date, s: {type: 'list<int>', from_path: x}}"},
            "a value of the path is a single one",
        ),
        ({"key": "[s]"}, "key[0]: s is of type struct<a: int>; expected a column whose type is not nested"),
        ({"order_by": "[m]"}, "order_by[0]: m is of type map<list<int>, int>; expected"),
        ({"partition_by": "[s]"}, "identity does not fit s of type struct<a: int>; expected any type but struct"),
        ({"partition_by": "['bucket(4, x)']"}, "bucket does not fit x of type double; expected int, long, decimal"),
        ({"partition_by": "['bucket(4, id)', 'bucket(4, id)']"}, "id is partitioned like this already"),
        ({"partition_by": "['day(t)', 'month(t)']"}, "t is partitioned like this already"),
        ({"columns": "{id: bigint, t: date, s: 'struct<a: money>'}"}, "columns.s: unknown type 'money'"),
        ({"columns": "{id: bigint, t: date, s: 'struct<a: int'}"}, "expected '>' in the type"),
    ],
)
def test_mistakes(fields: dict[str, str], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse(**fields)
    assert message in str(caught.value)


def test_floating_keys_and_several_transforms_of_one_column() -> None:
    found = parse(key="[x]", partition_by="[id, 'bucket(4, id)', 'bucket(8, id)', 'truncate(2, b)', 'hour(t)']")
    assert found.key == ("x",)
    assert field_names(found.partition_by) == ("id", "id_bucket_4", "id_bucket_8", "b_trunc", "t_hour")
    assert field_names([PartitionField("id", "bucket", 4)]) == ("id_bucket",)
