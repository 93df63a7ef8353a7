"""Which columns the result of the declared SQL must have, and which of DuckDB's types fit a declared one. Runs nothing.

A type fits if every value of it is one of the declared type: what would bend a value is refused, for a cast in the SQL
says what is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakehouse.naming import LINEAGE, STAGED_LINEAGE
from lakehouse.types import ColumnType

_BITS = {
    "tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "utinyint": 9, "usmallint": 17, "uinteger": 33,
    "ubigint": 65,
}  # fmt: skip
"""Of the smallest signed integer that holds the type."""
_DIGITS = {
    "tinyint": 3, "smallint": 5, "integer": 10, "bigint": 19, "utinyint": 3, "usmallint": 5, "uinteger": 10,
    "ubigint": 20,
}  # fmt: skip
_MANTISSA = {"float": 24, "double": 53}
_IDS = {
    "boolean": ("boolean",),
    "float": ("float",),
    "double": ("double", "float"),
    "date": ("date",),
    "time": ("time",),
    "timestamp": ("timestamp", "timestamp_s", "timestamp_ms"),
    "timestamptz": ("timestamp with time zone",),
    "string": ("varchar",),
    "uuid": ("uuid",),
    "binary": ("blob",),
    "fixed": ("blob",),
}
"""DuckDB's types that hold nothing but values of the declared one."""


def misfits(names: Sequence[str], types: Sequence[DuckDBPyType], columns: Mapping[str, ColumnType]) -> Iterator[str]:
    """What is wrong with a result of these columns, where `columns` and the staged lineage are wanted, in any order.

    DuckDB takes names without case, and so does this.
    """
    wanted = {**columns, **{name: ColumnType(LINEAGE[name]) for name in STAGED_LINEAGE}}
    found: dict[str, DuckDBPyType] = {}
    for name, kind in zip(names, types, strict=True):
        if name.lower() in found:
            yield f"the result has two columns {name}; leave one of them out"
        found[name.lower()] = kind
    lower = {name.lower() for name in wanted}
    if surplus := [name for name in dict.fromkeys(names) if name.lower() not in lower]:
        yield f"the result has columns that are not declared: {', '.join(surplus)}; declare them, or leave them out"
    if missing := [name for name in columns if name.lower() not in found]:
        yield f"the result lacks declared columns: {', '.join(missing)}; add them to the SELECT"
    if lost := [name for name in STAGED_LINEAGE if name not in found]:
        yield (
            f"the result lacks {', '.join(lost)}, which say where a row comes from; keep them, "
            f"of several rows those of one: arg_max({lost[0]}, _source_line)"
        )
    for name, declared in wanted.items():
        given = found.get(name.lower())
        if given is not None and not fits(given, declared):
            said = f"the result's {given} does not fit the declared {declared}"
            yield f"column {name}: {said}; write CAST(… AS {declared.sql}) AS {name}"


def fits(kind: DuckDBPyType, declared: ColumnType) -> bool:
    """Whether every value of the type is one of the declared type. NULL alone fits any."""
    found = kind.id
    if found == "null":
        return True
    match declared.name:
        case "int" | "long":
            return _BITS.get(found, 128) <= (32 if declared.name == "int" else 64)
        case "decimal":
            return _fits_decimal(kind, declared)
        case "struct" | "list" | "map":
            return found == declared.name and _parts_fit(kind, declared)
    if declared.name in _MANTISSA and found in _BITS:
        return _BITS[found] <= _MANTISSA[declared.name]
    return found in _IDS[declared.name]


def _fits_decimal(kind: DuckDBPyType, declared: ColumnType) -> bool:
    whole = declared.precision - declared.scale
    if kind.id in _DIGITS:
        return whole >= _DIGITS[kind.id]
    if kind.id != "decimal":
        return False
    size: dict[str, Any] = dict(kind.children)
    return bool(declared.scale >= size["scale"] and whole >= size["precision"] - size["scale"])


def _parts_fit(kind: DuckDBPyType, declared: ColumnType) -> bool:
    """A cast goes by the names of a struct's fields, so all of them must be there, in order."""
    parts: list[tuple[str, Any]] = kind.children
    if len(parts) != len(declared.fields):
        return False
    named = declared.name != "struct" or [name for name, _ in parts] == [name for name, _ in declared.fields]
    return named and all(fits(part, wanted) for (_, part), (_, wanted) in zip(parts, declared.fields, strict=True))
