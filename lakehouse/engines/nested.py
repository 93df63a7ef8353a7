"""SQL of nested values in DuckDB, made part by part from another nested value. Pure.

Each function takes the SQL of a source value and of its parts, and gives NULL where the source is NULL. What becomes of
the parts is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.naming import quote_name, quote_text


def variable(depth: int) -> str:
    """The name by which the parts of a list or a map are called `depth` levels deep, so that no two are mixed up."""
    return f"part{depth}"


def field_of(source: str, name: str) -> str:
    """One field of a struct."""
    return f"struct_extract({source}, {quote_text(name)})"


def struct_value(source: str, fields: Iterable[tuple[str, str]]) -> str:
    """A struct of (name, SQL) fields."""
    packed = ", ".join(f"{quote_name(name)} := {value}" for name, value in fields)
    return f"CASE WHEN {source} IS NOT NULL THEN struct_pack({packed}) END"


def list_value(source: str, depth: int, element: str) -> str:
    """A list whose elements are the SQL `element` over `variable(depth)`."""
    return f"list_transform({source}, lambda {variable(depth)}: {element})"


def entry_key(depth: int) -> str:
    """The key of the map's entry that `variable(depth)` stands for."""
    return field_of(variable(depth), "key")


def entry_value(depth: int) -> str:
    """The value of the map's entry that `variable(depth)` stands for."""
    return field_of(variable(depth), "value")


def map_value(entries: str, depth: int, key: str, value: str) -> str:
    """A map from a list of entries; `key` and `value` are SQL over `entry_key(depth)` and `entry_value(depth)`.

    DuckDB raises on a key that is NULL or there twice.
    """
    entry = f"struct_pack(key := {key}, value := {value})"
    return f"map_from_entries({list_value(entries, depth, entry)})"


def every(source: str, depth: int, condition: str) -> str:
    """Whether the condition over `variable(depth)` holds for all elements of a list; true if it is NULL or empty."""
    return f"coalesce(list_bool_and(list_transform({source}, lambda {variable(depth)}: {condition})), true)"
