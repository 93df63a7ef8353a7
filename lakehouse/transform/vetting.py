"""What the SQL of a declaration may say: one SELECT over `staged` that gives the same rows every time. Runs nothing.

Whatever is not known to be harmless is refused: tables but `staged` and the query's own, functions that read, look at
the clock or draw lots, and what takes rows in the order in which they happen to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from lakehouse.engines.user_sql import PLAIN_EXPRESSIONS, called, expressions, plain_functions, syntax, unsteady

_EXPRESSIONS = PLAIN_EXPRESSIONS | {"SUBQUERY", "STAR", "WINDOW", "LAMBDA", "LAMBDA_REF", "POSITIONAL_REFERENCE"}
_PARTS = {
    "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
    "BASE_TABLE", "JOIN", "SUBQUERY", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT",
    "ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
}  # fmt: skip
"""Parts of a syntax tree that are no expressions."""
_TABLE_FUNCTIONS = {"unnest", "range", "generate_series"}
_CLOCKS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
"""Look like columns, and are functions where no column has their name."""
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
    found = [*_parts(node), *_tables(node, frozenset()), *_expressions(con, node, columns)]
    return min(found, key=lambda fault: _NOWHERE if fault.at is None else fault.at, default=None)


def _at(part: dict[str, Any]) -> int | None:
    at = part.get("query_location")
    return None if at is None or at == _NOWHERE else int(at)


def _parts(value: object, at: int | None = None) -> Iterator[Fault]:
    """Tables, queries and their modifiers that are refused; `at` is the nearest known place around them."""
    if isinstance(value, list):
        for item in value:
            yield from _parts(item, at)
    if not isinstance(value, dict):
        return
    found = _at(value)
    at = at if found is None else found
    kind = value.get("type")
    if "class" not in value and isinstance(kind, str) and kind not in _PARTS:
        yield Fault(f"{kind.lower().replace('_', ' ')} is not allowed; expected one SELECT over staged", at)
    if value.get("sample") is not None:
        yield Fault("a sample takes other rows each time; leave it out", at)
    if value.get("ref_type") == "POSITIONAL":
        yield Fault("a positional join takes rows as they come; join by a column", at)
    kinds = {modifier["type"] for modifier in value.get("modifiers") or ()}
    picks = "LIMIT" if "LIMIT_MODIFIER" in kinds else "DISTINCT ON" if _distinct_on(value) else ""
    if picks and "ORDER_MODIFIER" not in kinds:
        yield Fault(f"{picks} takes rows as they come; add ORDER BY", at)
    for item in value.values():
        yield from _parts(item, at)


def _distinct_on(node: dict[str, Any]) -> bool:
    return any(modifier.get("distinct_on_targets") for modifier in node.get("modifiers") or ())


def _tables(value: object, known: frozenset[str]) -> Iterator[Fault]:
    """Tables that are neither `staged` nor one of the WITH queries that are known where they are named."""
    if isinstance(value, list):
        for item in value:
            yield from _tables(item, known)
    if not isinstance(value, dict):
        return
    if value.get("type") == "BASE_TABLE" and "class" not in value:
        path = value["qualified_name"]["path"]
        if len(path) > 1 or value["at_clause"] is not None or path[0].lower() not in known | {"staged"}:
            yield Fault(f"no table {'.'.join(path)}; the SQL reads staged alone", _at(value))
    for entry in value.get("cte_map", {}).get("map", ()):
        name, query = entry["key"].lower(), entry["value"]
        if name == "staged":
            yield Fault("a WITH query cannot be called staged; choose another name")
        itself = {name} if query["query_node"]["type"] == "RECURSIVE_CTE_NODE" else set()
        yield from _tables(query, known | itself)
        known |= {name}
    for key, item in value.items():
        if key != "cte_map":
            yield from _tables(item, known)


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
            if len(part["column_names"]) == 1 and name in _CLOCKS and name not in lower:
                yield Fault(f"{name} differs from run to run; take a column such as _source_mtime", _at(part))
        elif kind in ("FUNCTION", "WINDOW"):
            yield from _function(part, plain)
    yield from _table_functions(node)


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


def _table_functions(value: object) -> Iterator[Fault]:
    if isinstance(value, list):
        for item in value:
            yield from _table_functions(item)
    if not isinstance(value, dict):
        return
    if value.get("type") == "TABLE_FUNCTION" and "class" not in value:
        name = value["function"]["function_name"]
        if name.lower() not in _TABLE_FUNCTIONS:
            known = ", ".join(sorted(_TABLE_FUNCTIONS))
            yield Fault(f"the table function {name} is not allowed; known are {known}", _at(value))
    for item in value.values():
        yield from _table_functions(item)
