"""SQL that a user declares, taken apart by DuckDB's own parser in a session that can reach neither files nor network.

Owns how such SQL is parsed and which functions give the same result every time. Says nothing of what may stand where:
that is for those who run it. Never runs it over rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any

import duckdb

from lakehouse.naming import quote_text

PLAIN_EXPRESSIONS = frozenset(
    {
        "COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "FUNCTION", "CAST", "TYPE", "BETWEEN",
        "CASE", "COLLATE",
    }
)  # fmt: skip
"""Classes of expressions that are about one row."""

_NAMED = {
    "SUBQUERY": "a subquery",
    "STAR": "*",
    "WINDOW": "a window function",
    "PARAMETER": "a parameter",
    "LAMBDA": "a lambda",
    "LAMBDA_REF": "a lambda",
    "DEFAULT": "DEFAULT",
}
_MACROS = frozenset(
    {
        "array_append", "array_pop_back", "array_pop_front", "array_prepend", "array_push_back",
        "array_push_front", "array_reverse", "array_to_string", "date_add", "days_in_month", "fdiv", "if",
        "ifnull", "list_any_value", "list_append", "list_avg", "list_bit_and", "list_bit_or",
        "list_bit_xor", "list_bool_and", "list_bool_or", "list_count", "list_first", "list_last",
        "list_max", "list_median", "list_min", "list_mode", "list_prepend", "list_product", "list_reverse",
        "list_stddev_pop", "list_stddev_samp", "list_string_agg", "list_sum", "list_var_pop",
        "list_var_samp", "map_contains_entry", "map_contains_value", "nullif", "split_part",
    }
)  # fmt: skip
"""DuckDB's macros that are plain expressions of their arguments."""
_NEVER = frozenset({"json_serialize_plan", "version"})
"""The first binds a statement of its own, and so may open what that one names; the other is the installation's."""


@contextmanager
def closed_session() -> Iterator[duckdb.DuckDBPyConnection]:
    """A small session of its own whose configuration cannot be changed."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "threads": "1",
        "memory_limit": "64MB",
    }
    with closing(duckdb.connect(":memory:", config=config)) as con:
        con.execute("set lock_configuration = true")
        yield con


def syntax(con: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    """The syntax tree of SELECT statements, or `error` with its `error_message` and `position` in bytes."""
    return _as_json(con, "json_serialize_sql", text)


def binding(con: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    """What is wrong with a statement over the session's tables, as `syntax` tells it."""
    return _as_json(con, "json_serialize_plan", text)


def _as_json(con: duckdb.DuckDBPyConnection, function: str, text: str) -> dict[str, Any]:
    ((found,),) = con.execute(f"select {function}({quote_text(text)})").fetchall()
    try:
        parsed: dict[str, Any] = json.loads(found)
    except RecursionError:
        return {"error": True, "error_message": "it is nested too deeply; write it in several steps"}
    return parsed


def expressions(value: object) -> Iterator[dict[str, Any]]:
    """Every expression in a part of a syntax tree, from the outside."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and "class" in part:
            yield part
        waiting += inside(part)


def inside(part: object) -> list[object]:
    """What a part of a syntax tree directly holds, the last first: such trees are deeper than Python recurses."""
    if isinstance(part, dict):
        return list(part.values())[::-1]
    return part[::-1] if isinstance(part, list) else []


def called(expression: str) -> str:
    """What a message calls a class of expressions."""
    return _NAMED.get(expression, expression.lower())


def plain_functions(con: duckdb.DuckDBPyConnection, names: Collection[str], *, kinds: Collection[str]) -> set[str]:
    """Those of the names that mean a function of these kinds which depends on its arguments alone.

    Kinds are DuckDB's: scalar, aggregate, window.
    """
    if not names:
        return set()
    known = con.execute(
        f"select distinct function_name from duckdb_functions() where function_type in ({_listed(kinds)}) "
        f"and stability = 'CONSISTENT' and function_name in ({_listed(names)})"
    ).fetchall()
    return {name for (name,) in known if not name.startswith("__")} - _NEVER | _MACROS


def unsteady(function: dict[str, Any], plain: Collection[str]) -> str:
    """The name of a function that is none of the `plain` ones; empty if it is one.

    Of one name, `age`, a form with one argument counts from today.
    """
    name = function["function_name"].lower()
    if function["schema"] or name not in plain or (name == "age" and len(function["arguments"]) < 2):
        return ".".join(function["qualified_name"]["path"])
    return ""


def first_line(error: duckdb.Error) -> str:
    """What an error says, without the place in a statement that its reader does not know."""
    return str(error).splitlines()[0]


def _listed(texts: Collection[str]) -> str:
    return ", ".join(map(quote_text, texts))
