"""What the SQL of a declaration may say: one SELECT over `staged` that gives the same rows every time. Runs nothing.

Whatever is not known to be harmless is refused: tables but `staged` and the query's own, functions that read, look at
the clock or draw lots, and what takes rows in the order in which they happen to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from lakehouse.engines.user_sql import (
    PLAIN_EXPRESSIONS,
    called,
    expressions,
    inside,
    plain_functions,
    syntax,
    unsteady,
)

_EXPRESSIONS = PLAIN_EXPRESSIONS | {"SUBQUERY", "STAR", "WINDOW", "LAMBDA", "LAMBDA_REF", "POSITIONAL_REFERENCE"}
_PARTS = {
    "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
    "BASE_TABLE", "JOIN", "SUBQUERY", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT",
    "ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
}  # fmt: skip
"""Parts of a syntax tree that are no expressions."""
_TABLE_FUNCTIONS = {"unnest", "range", "generate_series"}
_NO_COLUMNS = {
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_user", "session_user",
    "user", "current_role", "current_catalog", "current_schema", "current_database",
}  # fmt: skip
"""Look like columns, and are functions of clock and session where no column has their name."""
_ORDERED = {
    "first", "last", "any_value", "arbitrary", "list", "array_agg", "string_agg", "group_concat", "listagg", "mode",
    "approx_quantile", "approx_top_k", "lttb",
}  # fmt: skip
"""Aggregates that take rows as they come unless told an order."""
_ORDERED_WINDOWS = _ORDERED | {
    "row_number", "lead", "lag", "first_value", "last_value", "nth_value", "ntile", "fill",
}  # fmt: skip
_DRAWS = {"reservoir_quantile"}
_NOWHERE = 2**64 - 1
"""Where DuckDB says that something stands that nobody wrote."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a text and what would be right; `at` is where, in bytes, None for the whole."""

    message: str
    at: int | None = None


def vet(con: duckdb.DuckDBPyConnection, text: str, columns: Collection[str]) -> Fault | None:
    """The first thing in the text that may not be there; `columns` are the names of those of `staged`."""
    parsed = syntax(con, text)
    if parsed.get("error"):
        if parsed.get("error_type") == "not implemented":
            return Fault("it is no SELECT; expected one SELECT over staged")
        at = parsed.get("position")
        return Fault(f"{parsed.get('error_message', 'it cannot be parsed')}", int(at) if at else None)
    if len(parsed["statements"]) != 1:
        return Fault(f"it has {len(parsed['statements'])} statements; expected one SELECT over staged")
    node = parsed["statements"][0]["node"]
    found = [*_parts(node), *_tables(node), *_expressions(con, node, columns)]
    return min(found, key=lambda fault: _NOWHERE if fault.at is None else fault.at, default=None)


def _at(part: dict[str, Any]) -> int | None:
    at = part.get("query_location")
    return None if at is None or at == _NOWHERE else int(at)


def _parts(node: dict[str, Any]) -> Iterator[Fault]:
    """Tables, queries and their modifiers that are refused, each with the nearest known place around it."""
    waiting: list[tuple[object, int | None]] = [(node, None)]
    while waiting:
        part, around = waiting.pop()
        if isinstance(part, dict):
            found = _at(part)
            around = around if found is None else found
            yield from (Fault(message, around) for message in _refused(part))
        waiting += ((item, around) for item in inside(part))


def _refused(part: dict[str, Any]) -> Iterator[str]:
    kind = part.get("type")
    if "class" not in part and isinstance(kind, str):
        if kind not in _PARTS:
            yield f"{kind.lower().replace('_', ' ')} is not allowed; expected one SELECT over staged"
        if kind == "TABLE_FUNCTION" and (name := part["function"]["function_name"]).lower() not in _TABLE_FUNCTIONS:
            yield f"the table function {name} is not allowed; known are {', '.join(sorted(_TABLE_FUNCTIONS))}"
    if part.get("sample") is not None:
        yield "a sample takes other rows each time; leave it out"
    if part.get("ref_type") == "POSITIONAL":
        yield "a positional join takes rows as they come; join by a column"
    kinds = {modifier["type"] for modifier in part.get("modifiers") or ()}
    picks = "LIMIT" if "LIMIT_MODIFIER" in kinds else "DISTINCT ON" if _distinct_on(part) else ""
    if picks and "ORDER_MODIFIER" not in kinds:
        yield f"{picks} takes rows as they come; add ORDER BY"


def _distinct_on(node: dict[str, Any]) -> bool:
    return any(modifier.get("distinct_on_targets") for modifier in node.get("modifiers") or ())


def _tables(node: dict[str, Any]) -> Iterator[Fault]:
    """Tables that are neither `staged` nor one of the WITH queries that are known where they are named."""
    waiting: list[tuple[object, frozenset[str]]] = [(node, frozenset({"staged"}))]
    while waiting:
        part, known = waiting.pop()
        if not isinstance(part, dict):
            waiting += ((item, known) for item in inside(part))
            continue
        if part.get("type") == "BASE_TABLE" and "class" not in part:
            path = part["qualified_name"]["path"]
            if len(path) > 1 or part["at_clause"] is not None or path[0].lower() not in known:
                yield Fault(f"no table {'.'.join(path)}; the SQL reads staged alone", _at(part))
        for entry in part.get("cte_map", {}).get("map", ()):
            name, query = entry["key"].lower(), entry["value"]
            if name == "staged":
                yield Fault("a WITH query cannot be called staged; choose another name")
            # none reads one behind it
            waiting.append((query, known))
            known |= {name}
        for key, item in part.items():
            # a recursive one reads itself where it goes on, and not where it begins
            itself = part.get("type") == "RECURSIVE_CTE_NODE" and key == "right"
            if key != "cte_map":
                waiting.append((item, known | {part["cte_name"].lower()} if itself else known))


def _expressions(con: duckdb.DuckDBPyConnection, node: dict[str, Any], columns: Collection[str]) -> Iterator[Fault]:
    parts = [*expressions(node)]
    names = {part["function_name"].lower() for part in parts if part["class"] in ("FUNCTION", "WINDOW")}
    plain = plain_functions(con, names, kinds=("scalar", "aggregate", "window")) - _DRAWS | _TABLE_FUNCTIONS
    lower = {name.lower() for name in columns}
    for part in parts:
        kind = part["class"]
        if kind not in _EXPRESSIONS:
            yield Fault(f"{called(kind)} is not allowed; write the value itself", _at(part))
        elif kind == "COLUMN_REF":
            name = part["column_names"][0].lower()
            if len(part["column_names"]) == 1 and name in _NO_COLUMNS and name not in lower:
                yield Fault(f"{name} differs from run to run; take a column such as _source_mtime", _at(part))
        elif kind in ("FUNCTION", "WINDOW"):
            yield from _function(part, plain)


def _function(part: dict[str, Any], plain: Collection[str]) -> Iterator[Fault]:
    if name := unsteady(part, plain):
        yield Fault(f"the function {name} is not allowed; expected one that depends on its arguments alone", _at(part))
        return
    name = part["function_name"].lower()
    if part["class"] == "WINDOW":
        ordered = part["orders"] or part["arg_orders"]
        if not ordered and (name in _ORDERED_WINDOWS or _framed(part)):
            yield Fault(f"{name} takes rows as they come; add ORDER BY to its OVER (…)", _at(part))
    elif name in _ORDERED and not part["order_bys"]["orders"]:
        example = f"{name}(x ORDER BY _source_file, _source_line)"
        yield Fault(f"{name} takes rows as they come; write {example}, or take min or max", _at(part))


def _framed(window: dict[str, Any]) -> bool:
    """Whether a window is less than its partition although it has no order."""
    return window["start"] != "UNBOUNDED_PRECEDING" or window["end"] not in ("CURRENT_ROW_RANGE", "UNBOUNDED_FOLLOWING")
