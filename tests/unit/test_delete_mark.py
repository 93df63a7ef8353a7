"""`delete_when`: which conditions are conditions, and which rows they mark."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakehouse.declaration import parse_declarations
from lakehouse.delete_mark import check_delete_condition, mark_deletes
from lakehouse.errors import DeclarationError
from tests.declaration_text import document
from tests.landing_values import declared

COLUMNS = {"id": {"type": "bigint", "required": True}, "op": "string", "n": "int", "at": "timestamptz"}


def check(condition: str) -> None:
    check_delete_condition(declared(columns=COLUMNS, delete_when=condition))


@pytest.mark.parametrize(
    "condition",
    [
        "op = 'D'",
        "OP in ('D', 'X') and n > 2",
        "not lower(trim(op)) = 'd'",
        "coalesce(op, '') = 'D'",
        "case op when 'D' then true end",
        "op is not distinct from 'D' or n between 1 and 2",
        "op like 'D%' and regexp_matches(op, '^D')",
        "try_cast(op as int) = 1 and op::varchar <> ''",
        'year("at") = 2020 and date_trunc(\'day\', "at") is not null',
        "op = 'D' -- a comment",
        "nullif(op, '') is null",
        "split_part(op, '-', 1) = 'D'",
        "age(timestamptz '2026-01-01', \"at\") > interval 1 day",
        "true",
    ],
)
def test_conditions(condition: str) -> None:
    check(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nope = 'D'", "no column nope; known are at, id, n, op; text goes in single quotes"),
        ('op = "D"', "no column D"),
        ("_source_line = 1", "no column _source_line"),
        ("rowid = 1", "no column rowid"),
        ("staged.op = 'D'", "no column staged.op"),
        ("current_date = date '2026-01-01'", "no column current_date"),
        ("op", "it gives VARCHAR; expected a condition"),
        ("n + 1", "it gives INTEGER; expected a condition"),
        ("null", "expected a condition"),
        (" ", "expected one condition"),
        ("op =", "syntax error"),
        ("lower(op, n) = 'd'", "expected a condition such as"),
        ("op = (select 'D')", "a subquery is not allowed"),
        ("exists (from read_csv('/etc/passwd'))", "a subquery is not allowed"),
        ("op in (from staged select op)", "a subquery is not allowed"),
        ("read_text('/etc/passwd') = ''", "the function read_text is not allowed"),
        ("glob('*') = ''", "the function glob is not allowed"),
        ("getenv('HOME') = ''", "the function getenv is not allowed"),
        ("current_setting('home_directory') = ''", "the function current_setting is not allowed"),
        ("random() < 0.5", "the function random is not allowed"),
        ('"at" < now()', "the function now is not allowed"),
        ('age("at") > interval 1 day', "the function age is not allowed"),
        ("error('x')", "the function error is not allowed"),
        ("max(op) = 'D'", "the function max is not allowed"),
        ("main.lower(op) = 'd'", "the function main.lower is not allowed"),
        ("row_number() over () = 1", "a window function is not allowed"),
        ("?", "a parameter is not allowed"),
        ("*", "is not allowed"),
        ("[x for x in [op]] = ['D']", "a lambda is not allowed"),
        ("op = 'D'; drop table staged", "expected one condition"),
        ("op = 'D') or (true", "expected one condition"),
        ("op = 'D'), (true", "expected one condition"),
        ("op = 'D') from staged where (true", "expected one condition"),
        ("op = 'D' limit 1", "expected one condition"),
        ("op = 'D' union select true", "expected one condition"),
        ("op = 'D' as x", "expected one condition"),
    ],
)
def test_what_is_no_condition(condition: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        check(condition)
    assert message in str(caught.value)


def test_a_mistake_is_told_with_its_place() -> None:
    text = document(delete_when="\"opp = 'D'\"", columns="{id: bigint, t: timestamptz, op: string}")
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={})
    with pytest.raises(DeclarationError, match=r"^defs.yaml:9:16: delete_when: no column opp; known are id, op, t"):
        check_delete_condition(declaration)


def staged(*rows: tuple[int, str | None]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:")
    con.execute('create temp table staged (id bigint, op varchar, n int, "at" timestamptz, _source_line bigint)')
    con.executemany("insert into staged values (?, ?, 1, null, 1)", [list(row) for row in rows])
    return con


def marks(con: duckdb.DuckDBPyConnection) -> dict[int, bool]:
    return dict(con.execute("select id, _is_delete from staged order by rowid").fetchall())


def test_rows_are_marked_and_null_is_no_delete() -> None:
    con = staged((1, "D"), (2, "I"), (3, None))
    assert mark_deletes(con, declared(columns=COLUMNS, delete_when="op = 'D' -- gone")) == 1
    assert marks(con) == {1: True, 2: False, 3: False}


def test_without_a_condition_nothing_is_added() -> None:
    con = staged((1, "D"))
    assert mark_deletes(con, declared(columns=COLUMNS)) == 0
    assert "_is_delete" not in [name for name, *_ in con.execute("describe staged").fetchall()]


def test_a_condition_that_fails_on_a_row_is_a_mistake_of_the_declaration() -> None:
    with pytest.raises(DeclarationError, match=r"delete_when: it fails on a staged row: .*use try_cast"):
        mark_deletes(staged((1, "x")), declared(columns=COLUMNS, delete_when="op::int = 1"))
