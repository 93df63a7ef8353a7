"""Columns that only the SQL computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.errors import DeclarationError
from tests.declaration_text import document

JSON = "{uri: s3://landing/orders, partition: input_date=%Y-%m-%d, format: {type: jsonl}}"


def parse(folder: Path, columns: str, *, sql: str | None = "x.sql", **fields: str) -> Declaration:
    (folder / "x.sql").write_text("select * from staged")
    text = document(columns=f"{{id: bigint, t: timestamptz, {columns}}}", sql=sql, **fields)
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={"YES": "true"}, folder=folder)
    return declaration


def test_no_file_has_a_computed_column(tmp_path: Path) -> None:
    declaration = parse(tmp_path, "n: {type: int, computed: true, required: true}", key="[id, n]")
    assert [column.name for column in declaration.file_columns] == ["id", "t"]
    assert declaration.needs_value(declaration.columns[2])
    assert not parse(tmp_path, "n: {type: int, computed: false}").columns[2].computed


@pytest.mark.parametrize(
    ("columns", "source"),
    [
        ("id2: {type: string, from: a}, a: {type: int, computed: true}", None),
        ("s: {type: 'struct<a: int>', computed: true}", None),
        ("m: {type: 'map<struct<a: int>, int>', computed: '{{ env.YES }}'}", JSON),
    ],
)
def test_what_files_cannot_have_may_be_computed(tmp_path: Path, columns: str, source: str | None) -> None:
    assert parse(tmp_path, columns, **({"source": source} if source else {})).columns[-1].computed


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("{type: int, computed: true, from: a}", "columns.n.from: the SQL gives the values of a computed column"),
        ("{type: date, computed: true, from_path: date}", "columns.n.from_path: the SQL gives the values"),
        ("{type: date, computed: true, date_format: '%d/%m/%Y'}", "columns.n.date_format: the SQL gives the values"),
        ("{type: int, computed: maybe}", "columns.n.computed: got 'maybe'; expected true or false"),
    ],
)
def test_what_a_computed_column_cannot_say(tmp_path: Path, column: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse(tmp_path, f"n: {column}")
    (line,) = caught.value.message.splitlines()
    assert message in line


def test_without_sql_nothing_is_computed(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"columns\.n\.computed: only SQL computes a column; add sql"):
        parse(tmp_path, "n: {type: int, computed: true}", sql=None)


def test_some_column_must_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("select * from staged")
    text = document(columns="{id: {type: int, computed: true}}", order_by="arrival", sql="x.sql")
    with pytest.raises(DeclarationError, match="columns: all columns are computed"):
        parse_declarations(text, path=Path("defs.yaml"), env={}, folder=tmp_path)


def test_files_add_no_columns_to_those_of_the_sql(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="unknown_columns: the SQL says which columns there are"):
        parse(tmp_path, "n: int", unknown_columns="add")
    assert parse(tmp_path, "n: int", unknown_columns="rescue").sql is not None
