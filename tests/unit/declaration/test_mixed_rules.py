"""Which columns may say `mixed`, `null_values` and `pii`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.errors import DeclarationError
from tests.declaration_text import document

KEY = "id: bigint, t: date"


def parse(columns: str, format: str = "jsonl", **fields: str) -> Declaration:
    more = ", row_element: r" if format == "xml" else ""
    source = f"{{uri: s3://landing/orders, partition: 'd=%Y-%m-%d', format: {{type: {format}{more}}}}}"
    text = document(source=source, columns=f"{{{KEY}, {columns}}}", **fields)
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={})
    return declaration


@pytest.mark.parametrize(
    "columns",
    [
        "v: {type: bigint, mixed: cast}",
        "v: {type: string, mixed: string, required: true}",
        "v: {type: 'struct<long: int, string: string>', mixed: struct}",
        "v: {type: 'struct<INT: bigint, bigint: int, decimal: decimal(9,2), bool: boolean>', mixed: struct}",
        "v: {type: 'struct<array: list<int>, object: map<string, int>>', mixed: struct}",
        "a: {type: bigint, from: v, mixed: columns}, v: {type: string, mixed: columns, null_values: ['-']}",
        "a: {type: bigint, from: v, mixed: columns}, b: {type: string, from: w, mixed: columns}",
    ],
)
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_rules_for_json(columns: str, format: str) -> None:
    assert parse(columns, format).columns[2].mixed is not None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("v: {type: bigint, mixed: string}", "columns.v.type: got long; expected string, for mixed: string"),
        ("v: {type: bigint, mixed: struct}", "columns.v.type: got long; expected a struct such as"),
        (
            "v: {type: 'struct<day: date>', mixed: struct}",
            "columns.v.type: no JSON value is a date, the type of day; expected string, boolean",
        ),
        (
            "v: {type: 'struct<long: string>', mixed: struct}",
            "the field long of type string is called after its type: expected string",
        ),
        (
            "v: {type: 'struct<struct: struct<a: int>, map: map<string, int>>', mixed: struct}",
            "struct and map are for the same values; keep one of them",
        ),
        ("v: {type: 'struct<long: bigint, int: bigint>', mixed: struct}", "long and int are for the same values"),
        ("v: {type: bigint, mixed: project}", "columns.v.mixed: got 'project'; expected cast, string, struct"),
        ("v: {type: date, mixed: columns}", "columns.v.type: no JSON value is a date"),
        (
            "a: {type: bigint, from: v, mixed: columns}, b: {type: bigint, from: v, mixed: columns}",
            "columns.b.type: a and b are for the same values",
        ),
        (
            "a: {type: bigint, from: v, mixed: columns}, b: {type: string, from: v}",
            "columns.b.from: 'v' is read into a already; keep one of them, or give both mixed: columns",
        ),
        (
            "a: {type: bigint, from: v, mixed: columns, required: true}, b: {type: string, from: v, mixed: columns}",
            "columns.a.required: with mixed: columns only one of the columns has a value",
        ),
        (
            "a: {type: bigint, from: v, mixed: columns, null_values: ['-']}",
            "columns.a.null_values: with mixed: columns only the string column takes texts",
        ),
        (
            "a: {type: bigint, from: v, mixed: columns, pii: true}, b: {type: string, from: v, mixed: columns}",
            "columns.b.pii: b and a hold the same values; declare it for both",
        ),
        ("v: {type: string, from_path: v, mixed: cast}", "the value comes from the path, where it is always a text"),
    ],
)
def test_what_no_json_value_can_be(columns: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse(columns)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_key_has_one_column() -> None:
    with pytest.raises(DeclarationError, match=r"columns\.a\.mixed: .* a column of the key would have no value"):
        parse("a: {type: bigint, from: v, mixed: columns}", key="[a]")


@pytest.mark.parametrize("format", ["csv", "parquet", "orc", "avro"])
@pytest.mark.parametrize("rule", ["cast", "string", "struct", "columns"])
def test_other_formats_have_no_mixed_values(format: str, rule: str) -> None:
    with pytest.raises(DeclarationError, match=f"values of a {format} column have one kind"):
        parse(f"v: {{type: string, mixed: {rule}}}", format)


def test_xml_has_texts_alone() -> None:
    assert parse("v: {type: string, mixed: cast}", "xml").columns[2].mixed == "cast"
    with pytest.raises(DeclarationError, match="in XML every value is a text"):
        parse("v: {type: string, mixed: string}", "xml")


@pytest.mark.parametrize("format", ["csv", "jsonl", "json", "xml"])
def test_null_values_of_a_column(format: str) -> None:
    assert parse("v: {type: int, null_values: ['-', '']}", format).columns[2].null_values == ("-", "")
    assert parse("v: {type: string, null_values: []}", format).columns[2].null_values == ()
    with pytest.raises(DeclarationError, match="the value comes from the path"):
        parse("v: {type: string, from_path: v, null_values: ['-']}", format)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_typed_formats_have_no_texts_that_mean_null(format: str) -> None:
    with pytest.raises(DeclarationError, match=f"columns of a {format} file have no null_values"):
        parse("v: {type: string, null_values: ['-']}", format)


def test_a_hidden_column_comes_from_the_file() -> None:
    assert [column.pii for column in parse("v: {type: string, pii: true}, w: string").columns] == [
        False,
        False,
        True,
        False,
    ]
    with pytest.raises(DeclarationError, match=r"columns\.v\.pii: the value stands in the object's path"):
        parse("v: {type: string, from_path: v, pii: true}")
    with pytest.raises(DeclarationError, match=r"columns\.v\.pii: got 'yes'; expected true or false"):
        parse("v: {type: string, pii: 'yes'}")
