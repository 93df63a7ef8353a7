"""What `mixed` asks of a column: values whose JSON kind differs from record to record. Pure.

Owns which types take which kind of JSON value, and which of several numbers' types goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.declaration.problem import Finding
from lakehouse.types import ColumnType

NARROWEST_FIRST = ("int", "long", "decimal", "float", "double")
"""The types of numbers in the order in which they are asked to hold one."""

TEXT, NUMBER, BOOLEAN, OBJECT, ARRAY = "a JSON text", "a JSON number", "a JSON boolean", "a JSON object", "a JSON array"
_KINDS = {
    "string": TEXT,
    "boolean": BOOLEAN,
    **dict.fromkeys(NARROWEST_FIRST, NUMBER),
    "struct": OBJECT,
    "map": OBJECT,
    "list": ARRAY,
}
_WHOLE, _BINARY = ("int", "integer", "long", "bigint"), ("double", "float", "real")
_FIELD_NAMES = {
    "string": ("string",),
    "boolean": ("boolean", "bool"),
    "int": _WHOLE,
    "long": _WHOLE,
    "float": _BINARY,
    "double": _BINARY,
    "decimal": ("decimal", "numeric"),
    "struct": ("struct", "object"),
    "map": ("map", "object"),
    "list": ("list", "array"),
}
"""What a field of `mixed: struct` may be called, by its type."""
_EXPECTED = "string, boolean, int, bigint, decimal, float, double, struct, map or list"


def kind_for(kind: ColumnType) -> str | None:
    """The kind of JSON value that a type takes; None if no kind is its own."""
    return _KINDS.get(kind.name)


def broken_mixed_rules(
    types: Mapping[str, ColumnType],
    *,
    columns: Mapping[str, Mapping[str, Any]],
    format_type: object,
    key: Sequence[tuple[int, str]],
) -> Iterator[Finding]:
    """Every rule about `mixed` that columns break; `key` are names with their place."""
    groups: dict[str, list[str]] = {}
    for name, spec in columns.items():
        mixed, place = spec.get("mixed"), ("columns", name, "mixed")
        if mixed is None:
            continue
        if spec.get("from_path") is not None:
            yield Finding(place, "the value comes from the path, where it is always a text; leave it out")
        elif format_type == "xml" and mixed != "cast":
            yield Finding(
                place, "in XML every value is a text, shaped as the type says; expected cast, or leave it out"
            )
        elif format_type in ("csv", "parquet", "orc", "avro"):
            yield Finding(place, f"values of a {format_type} column have one kind, JSON's alone differ; leave it out")
        elif name in types and mixed == "string" and types[name].name != "string":
            yield Finding((*place[:2], "type"), f"got {types[name]}; expected string, for mixed: string")
        elif name in types and mixed == "struct":
            yield from _struct((*place[:2], "type"), types[name])
        elif name in types and mixed == "columns":
            origin = spec.get("from")
            groups.setdefault(origin if isinstance(origin, str) else name, []).append(name)
    keys = {name for _, name in key}
    for names in groups.values():
        yield from _group(names, types, columns, keys)


def _struct(place: tuple[str, ...], kind: ColumnType) -> Iterator[Finding]:
    if kind.name != "struct":
        yield Finding(place, f"got {kind}; expected a struct such as struct<long: bigint, string: string>")
        return
    for name, part in kind.fields:
        if part.name not in _FIELD_NAMES:
            yield Finding(place, f"no JSON value is a {part}, the type of {name}; expected {_EXPECTED}")
        elif name.lower() not in _FIELD_NAMES[part.name]:
            known = " or ".join(_FIELD_NAMES[part.name])
            yield Finding(place, f"the field {name} of type {part} is called after its type: expected {known}")
    yield from _doubles(place, [(name, part) for name, part in kind.fields if part.name in _FIELD_NAMES])


def _group(
    names: Sequence[str],
    types: Mapping[str, ColumnType],
    columns: Mapping[str, Mapping[str, Any]],
    keys: set[str],
) -> Iterator[Finding]:
    """The columns that share the values of one name in the file."""
    for name in names:
        place = ("columns", name)
        if kind_for(types[name]) is None:
            yield Finding((*place, "type"), f"no JSON value is a {types[name]}; expected {_EXPECTED}")
        if columns[name].get("required") is True:
            yield Finding((*place, "required"), "with mixed: columns only one of the columns has a value; leave it out")
        if name in keys:
            yield Finding(
                (*place, "mixed"), "with mixed: columns a column of the key would have no value; leave it out"
            )
        if columns[name].get("null_values") is not None and types[name].name != "string":
            message = "with mixed: columns only the string column takes texts; declare it there"
            yield Finding((*place, "null_values"), message)
        if columns[name].get("pii", False) != columns[names[0]].get("pii", False):
            yield Finding((*place, "pii"), f"{name} and {names[0]} hold the same values; declare it for both")
    fitting = [(name, types[name]) for name in names if kind_for(types[name])]
    yield from _doubles(("columns", names[-1], "type"), fitting)


def _doubles(place: tuple[str, ...], parts: Sequence[tuple[str, ColumnType]]) -> Iterator[Finding]:
    """Two parts for one kind of value: numbers differ by their type, others by what JSON calls them."""
    seen: dict[str, str] = {}
    for name, part in parts:
        kind = kind_for(part)
        own = part.name if kind == NUMBER else str(kind)
        if first := seen.get(own):
            yield Finding(place, f"{first} and {name} are for the same values; keep one of them")
        seen.setdefault(own, name)
