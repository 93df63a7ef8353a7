"""`delete_when`: checks the declared condition before anything is read, and marks the staged rows that it is true for.

The condition is SQL of a user, so it is held to one expression over the declared columns: no subquery, no statement of
its own, no function that is not the same for the same row every time. It is parsed by DuckDB and bound against an empty
table in a session that can reach neither files nor network. Never reads rows to judge a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb

from lakehouse.declaration.problem import Problem
from lakehouse.engines.user_sql import (
    PLAIN_EXPRESSIONS,
    called,
    closed_session,
    expressions,
    first_line,
    plain_functions,
    syntax,
    unsteady,
)
from lakehouse.errors import DeclarationError
from lakehouse.masking import hides, shown_text
from lakehouse.naming import IS_DELETE, quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def mark_deletes(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> int:
    """Add `_is_delete BOOLEAN`, never NULL, to `staged` by the declared condition; NULL is false. Returns the deletes.

    Does nothing, and returns 0, without `delete_when`. Only rows that are deletes are touched. Raises DeclarationError
    if the condition is wrong or fails on a row.
    """
    if declaration.delete_when is None:
        return 0
    check_delete_condition(declaration)
    con.execute(f"alter table staged add column {quote_name(IS_DELETE)} boolean default false")
    try:
        con.execute(f"update staged set {quote_name(IS_DELETE)} = true where {_wrapped(declaration.delete_when)}")
    except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException) as error:
        shown = shown_text(first_line(error), declaration)
        # a traceback would quote the value that the error quotes
        cause = None if hides(declaration) else error
        raise _wrong(declaration, f"it fails on a staged row: {shown}; use try_cast") from cause
    ((deletes,),) = con.execute(f"select count(*) from staged where {quote_name(IS_DELETE)}").fetchall()
    return int(deletes)


def check_delete_condition(declaration: Declaration) -> None:
    """Raise DeclarationError, with file, line and column, unless `delete_when` is a condition over declared columns."""
    if declaration.delete_when is None:
        return
    columns = tuple((column.name, column.type.sql) for column in declaration.columns)
    if fault := _fault(declaration.delete_when, columns):
        raise _wrong(declaration, fault)


def _wrong(declaration: Declaration, fault: str) -> DeclarationError:
    place = declaration.position_of("delete_when")
    return DeclarationError(str(Problem(declaration.path, place, "delete_when", fault)))


def _wrapped(condition: str) -> str:
    # a comment at its end must not swallow what follows
    return f"({condition}\n)"


@lru_cache(maxsize=64)
def _fault(condition: str, columns: tuple[tuple[str, str], ...]) -> str:
    """What is wrong with the condition and what would be right; empty if nothing is."""
    with closed_session() as con:
        expression = _parsed(con, condition)
        if isinstance(expression, str):
            return expression
        if fault := next(_forbidden(con, expression, {name.lower() for name, _ in columns}), ""):
            return fault
        typed = ", ".join(f"{quote_name(name)} {kind}" for name, kind in columns)
        con.execute(f"create table staged ({typed})")
        try:
            con.execute(f"select 1 from staged where {_wrapped(condition)}").fetchall()
            ((kind,),) = con.execute(
                f"select column_type from (describe select {_wrapped(condition)} from staged)"
            ).fetchall()
        except duckdb.Error as error:
            return f"{first_line(error)}; expected a condition such as \"op = 'D'\""
    return "" if kind == "BOOLEAN" else f"it gives {kind}; expected a condition that is true or false"


def _parsed(con: duckdb.DuckDBPyConnection, condition: str) -> dict[str, Any] | str:
    """The only expression of the condition, or what is wrong."""
    stray = "expected one condition such as \"op = 'D'\", with nothing before or after it"
    plain = syntax(con, "select (true\n)")
    found = syntax(con, f"select {_wrapped(condition)}")
    # `a) or (b` is whole between the parentheses alone
    for parsed in (found, syntax(con, f"select {condition}")):
        if parsed.get("error"):
            return f"{parsed.get('error_message', 'it cannot be parsed')}; {stray}"
    if len(found["statements"]) != 1:
        return stray
    node = found["statements"][0]["node"]
    shell = plain["statements"][0]["node"]
    around = {name: value for name, value in node.items() if name != "select_list"}
    if around != {name: value for name, value in shell.items() if name != "select_list"}:
        return stray
    listed: list[dict[str, Any]] = node["select_list"]
    return listed[0] if len(listed) == 1 and not listed[0].get("alias") else stray


def _forbidden(con: duckdb.DuckDBPyConnection, expression: dict[str, Any], columns: set[str]) -> Iterator[str]:
    """What the expression holds that a condition may not."""
    parts = [*expressions(expression)]
    names = {part["function_name"].lower() for part in parts if part["class"] == "FUNCTION"}
    plain = plain_functions(con, names, kinds=("scalar",))
    for part in parts:
        kind = part["class"]
        if kind not in PLAIN_EXPRESSIONS:
            yield f"{called(kind)} is not allowed; expected a condition over the declared columns"
        elif kind == "COLUMN_REF" and part["column_names"][0].lower() not in columns:
            known = ", ".join(sorted(columns))
            yield f"no column {'.'.join(part['column_names'])}; known are {known}; text goes in single quotes"
        elif kind == "FUNCTION" and (name := unsteady(part, plain)):
            yield f"the function {name} is not allowed; expected one that depends on its arguments alone"
