"""Column types: every spelling that is read, its canonical form, its DuckDB and Iceberg counterparts."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.schema import column_type, iceberg_type
from lakehouse.types import MAX_DEPTH, ColumnType, list_of, map_of, parse_type, struct_of


@pytest.mark.parametrize(
    ("text", "canonical", "sql"),
    [
        ("BIGINT", "long", "BIGINT"),
        (" double  precision ", "double", "DOUBLE"),
        ("timestamp with  time zone", "timestamptz", "TIMESTAMP WITH TIME ZONE"),
        ("Timestamp Without Time Zone", "timestamp", "TIMESTAMP"),
        ("numeric( 12 , 2 )", "decimal(12,2)", "DECIMAL(12,2)"),
        ("fixed[16]", "fixed(16)", "BLOB"),
        ("array<int>", "list<int>", "INTEGER[]"),
        ("list(varchar)", "list<string>", "VARCHAR[]"),
        ("struct<a: int, B: array<date>>", "struct<a: int, B: list<date>>", 'STRUCT("a" INTEGER, "B" DATE[])'),
        ("ROW(a int, b timestamp with time zone)", "struct<a: int, b: timestamptz>", None),
        ('struct<`a b`:int, "c""d": int>', 'struct<`a b`: int, `c"d`: int>', 'STRUCT("a b" INTEGER, "c""d" INTEGER)'),
        ("map<string, map<int, struct<x decimal(3,1)>>>", "map<string, map<int, struct<x: decimal(3,1)>>>", None),
        ("struct<list: list<int>, map: int, struct: int>", "struct<list: list<int>, map: int, struct: int>", None),
    ],
)
def test_spellings(text: str, canonical: str, sql: str | None) -> None:
    found = parse_type(text)
    assert str(found) == canonical
    assert parse_type(canonical) == found
    assert sql is None or found.sql == sql


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown type"),
        ("money", "unknown type 'money'; one of binary, "),
        ("list", "what the list holds, such as list<int>"),
        ("struct<>", "the name of a field"),
        ("struct<a: int", "expected '>' .* got the end"),
        ("struct<a: int)", "expected '>' .* got '\\)'"),
        ("struct<a: int NOT NULL>", "unknown type 'int not null'"),
        ("struct<a: int, A: int>", "the same name but for case: a, A"),
        ("struct<`a.b`: int>", "neither dot nor NUL"),
        ("map<int>", "expected ','"),
        ("list<int, int>", "expected '>'"),
        ("int>", "expected the end of the type"),
        ("int; drop", "';' cannot stand there"),
        ("decimal", "decimal with its size"),
        ("decimal(39,2)", "precision <= 38"),
        ("decimal(3,4)", "scale <= precision"),
        ("decimal(3)", "decimal with its size"),
        ("fixed(0)", "a length from 1"),
        ("fixed(x)", "a whole number"),
        ("list<" * 20 + "int" + ">" * 20, f"deeper than {MAX_DEPTH}"),
        ("list<" * 100_000, f"deeper than {MAX_DEPTH}"),
    ],
)
def test_mistakes_say_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_type(text)


primitives = st.one_of(
    st.sampled_from(["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz"]).map(
        ColumnType
    ),
    st.sampled_from(["string", "uuid", "binary"]).map(ColumnType),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: ColumnType("decimal", p, s))),
    st.integers(1, 99).map(lambda n: ColumnType("fixed", length=n)),
)
names = st.text(st.characters(exclude_characters="\0.", exclude_categories=["Cs"]), min_size=1, max_size=4)
column_types = st.recursive(
    primitives,
    lambda inner: st.one_of(
        inner.map(list_of),
        st.tuples(inner, inner).map(lambda kinds: map_of(*kinds)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda field: field[0].lower()).map(
            lambda fields: struct_of(tuple(fields))
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(column_types)
def test_every_type_comes_back_from_its_text_and_from_iceberg(kind: ColumnType) -> None:
    assert parse_type(str(kind)) == kind
    assert column_type(iceberg_type(kind)) == kind


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


@settings(max_examples=60)
@given(column_types)
def test_every_type_is_one_of_duckdb(con: duckdb.DuckDBPyConnection, kind: ColumnType) -> None:
    ((found,),) = con.execute(f"SELECT typeof(NULL::{kind.sql})").fetchall()
    ((same,),) = con.execute(f"SELECT typeof(NULL::{found})").fetchall()
    assert found == same
