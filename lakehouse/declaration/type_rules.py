"""Where a nested type may stand in a declaration. Pure.

Any primitive type makes a key: NaN equals NaN and -0.0 equals 0.0. A struct, a list and a map are data alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.declaration.computed_rules import is_computed
from lakehouse.declaration.problem import Finding
from lakehouse.types import ColumnType


def broken_type_rules(
    types: Mapping[str, ColumnType],
    *,
    columns: Mapping[str, Mapping[str, Any]],
    format_type: object,
    key: Sequence[tuple[int, str]],
    order_by: Sequence[tuple[int, str]],
) -> Iterator[Finding]:
    """Every rule about nested types that columns break; `key` and `order_by` are names with their place."""
    nested = {name: kind for name, kind in types.items() if kind.nested}
    for name, kind in nested.items():
        place = ("columns", name, "type")
        if columns[name].get("from_path") is not None:
            yield Finding(place, f"got {kind}; a value of the path is a single one")
        elif is_computed(columns[name]):
            continue
        elif format_type == "csv":
            yield Finding(
                place, f"got {kind}; a CSV field holds a single value, nested ones are read from other formats"
            )
        elif format_type in ("json", "jsonl", "xml") and any(k.nested for k in _map_keys(kind)):
            yield Finding(place, f"got {kind}; names in a text file are texts, so a map's key cannot be nested")
    for field, named in (("key", key), ("order_by", order_by)):
        for index, name in named:
            if name in nested:
                message = f"{name} is of type {nested[name]}; expected a column whose type is not nested"
                yield Finding((field, index), message)


def _map_keys(kind: ColumnType) -> Iterator[ColumnType]:
    if kind.name == "map":
        yield kind.fields[0][1]
    for _, part in kind.fields:
        yield from _map_keys(part)
