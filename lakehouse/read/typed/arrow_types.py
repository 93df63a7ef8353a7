"""Which types of a typed file become which declared types, and how: widening only, never a value changed. Pure.

Types are Arrow's, as pyarrow shows a file's schema. What is not listed is refused, at every depth of a nested type; a
value that does not survive (nanoseconds below a microsecond, a year above 9999, 24:00:00, a time in a DST gap) is NULL
in the SQL and so a reject. Fields of a struct are matched by name; one that the file lacks is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakehouse.declaration import Column, Declaration
from lakehouse.engines.nested import entry_key, entry_value, field_of, variable
from lakehouse.errors import UnreadableObject
from lakehouse.read.casts import CastRules, in_zone, of_length, within_years
from lakehouse.read.cells import Cell, missing_cell, rules_of
from lakehouse.read.nested import (
    Taken,
    checked,
    nested_cell,
    refuse_unknown_fields,
    taken_list,
    taken_map,
    taken_struct,
)
from lakehouse.types import ColumnType

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MANTISSA = {"float": 16, "double": 32}
"""Bits of the widest integer of a file that a floating type holds exactly."""
_LISTS = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)


@dataclass(frozen=True, slots=True)
class TypedFile:
    """What the types of one file are judged by: `uri` names it in errors, `entries` says that its maps come as lists of
    entries."""

    uri: str
    rules: CastRules
    declaration: Declaration
    entries: bool = False


def arrow_cell(column: Column, source: str, kind: pa.DataType, file: TypedFile) -> Cell:
    """The cell of a declared column over the SQL expression `source` of Arrow type `kind`.

    Raises UnreadableObject that names the column, or the path of the part in it, whose type is refused.
    """
    if types.is_null(kind):
        return missing_cell(column)
    file = replace(file, rules=rules_of(column, file.rules))
    taken = _taken(column.type, source, kind, file, path=column.source_name, depth=0)
    if column.type.nested:
        return nested_cell(column, source, taken)
    if taken.fits == "true":
        return Cell(column, taken.value)
    return Cell(column, taken.value, f"{source} IS NOT NULL", f"the value does not fit a {column.type} exactly")


def _taken(declared: ColumnType, source: str, kind: Any, file: TypedFile, *, path: str, depth: int) -> Taken:
    if types.is_null(kind):
        return Taken(f"NULL::{declared.sql}")
    if types.is_dictionary(kind):
        kind = kind.value_type
    taken: Taken | None = None
    match declared.name:
        case "struct" if types.is_struct(kind):
            taken = _struct(declared, source, kind, file, path=path, depth=depth)
        case "list" if any(is_one(kind) for is_one in _LISTS):
            ((_, part),) = declared.fields
            element = _taken(part, variable(depth), kind.value_type, file, path=f"{path}.element", depth=depth + 1)
            taken = taken_list(source, depth, element)
        case "map" if types.is_map(kind):
            (_, key), (_, value) = declared.fields
            taken = taken_map(
                source if file.entries else f"map_entries({source})",
                depth,
                _taken(key, entry_key(depth), kind.key_type, file, path=f"{path}.key", depth=depth + 1),
                _taken(value, entry_value(depth), kind.item_type, file, path=f"{path}.value", depth=depth + 1),
            )
        case "struct" | "list" | "map":
            pass
        case _:
            taken = _single(declared, source, kind, file.rules)
    if taken is None:
        raise UnreadableObject(
            f"a type that is not the declared one and not a narrower one: "
            f"uri={file.uri} column={path!r} file={kind} declared={declared}"
        )
    return taken


def _struct(declared: ColumnType, source: str, kind: pa.DataType, file: TypedFile, *, path: str, depth: int) -> Taken:
    names = [kind.field(i).name for i in range(kind.num_fields)]
    if len({name.lower() for name in names}) < len(names):
        raise UnreadableObject(
            f"two fields have the same name but for case: uri={file.uri} column={path!r} "
            f"fields={','.join(repr(name) for name in names)}"
        )
    known = [name for name, _ in declared.fields]
    refuse_unknown_fields(names, known, declaration=file.declaration, where=f"uri={file.uri} column={path!r}")
    fields = []
    for name, part in declared.fields:
        found = kind.field(names.index(name)).type if name in names else pa.null()
        inner = _taken(part, field_of(source, name), found, file, path=f"{path}.{name}", depth=depth)
        fields.append((name, inner))
    return taken_struct(source, fields)


def _single(declared: ColumnType, source: str, kind: pa.DataType, rules: CastRules) -> Taken | None:
    if types.is_timestamp(kind):
        return _timestamp(declared, source, kind, rules)
    if types.is_time(kind):
        if declared.name != "time":
            return None
        kept = f"({source}::TIME)::TIME_NS = {source}" if kind.unit == "ns" else f"{source} < TIME '24:00:00'"
        return _kept(source, f"{source}::TIME", kept)
    if types.is_date(kind):
        return _kept(source, f"{source}::DATE", within_years(source, "DATE")) if declared.name == "date" else None
    if declared.name == "fixed" and (types.is_binary(kind) or types.is_large_binary(kind)):
        return checked(source, of_length(source, declared.length))
    if not _widens(kind, declared):
        return None
    value = f"{source}::{declared.sql}"
    if not types.is_decimal(kind):
        return Taken(value)
    # a damaged file has numbers of more digits, and no library looks
    whole = kind.precision - kind.scale
    most = f"'{'9' * whole}.{'9' * kind.scale}'::DECIMAL({kind.precision},{kind.scale})"
    return _kept(source, value, f"{source} BETWEEN -({most}) AND {most}")


def _kept(source: str, value: str, kept: str) -> Taken:
    """A value that counts only under the condition `kept`."""
    return checked(source, f"CASE WHEN {kept} THEN {value} END")


def _timestamp(declared: ColumnType, source: str, kind: pa.TimestampType[Any, Any], rules: CastRules) -> Taken | None:
    sql = "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    nanos = "TIMESTAMP_NS" if kind.tz is None else "TIMESTAMPTZ_NS"
    value = f"{source}::{sql}"
    kept = within_years(value, sql)
    if kind.unit == "ns":
        # a time at the very end of nanoseconds is infinite, and that has none
        kept = f"try_cast({value} AS {nanos}) = {source} AND {kept}"
    if declared.name == "timestamptz" and kind.tz is None:
        value = in_zone(value, timezone=rules.timezone, dst_overlap=rules.dst_overlap)
    elif declared.name != ("timestamp" if kind.tz is None else "timestamptz"):
        return None
    return _kept(source, value, kept)


def _widens(kind: pa.DataType, declared: ColumnType) -> bool:
    match declared.name:
        case "boolean":
            return types.is_boolean(kind)
        case "string":
            return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        case "uuid":
            return isinstance(kind, pa.UuidType)
        case "binary":
            return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        case "fixed":
            return types.is_fixed_size_binary(kind) and kind.byte_width == declared.length
        case "int" | "long":
            return types.is_integer(kind) and _signed_bits(kind) <= (32 if declared.name == "int" else 64)
        case "float" | "double":
            return _widens_to_floating(kind, declared)
        case "decimal":
            return _widens_to_decimal(kind, declared)
        case _:
            return False


def _signed_bits(kind: pa.DataType) -> int:
    """Bits of the smallest signed integer that holds the type."""
    return kind.bit_width + types.is_unsigned_integer(kind)


def _widens_to_floating(kind: pa.DataType, declared: ColumnType) -> bool:
    if types.is_integer(kind):
        return kind.bit_width <= _MANTISSA[declared.name]
    return types.is_floating(kind) and (declared.name == "double" or kind.bit_width <= 32)


def _widens_to_decimal(kind: pa.DataType, declared: ColumnType) -> bool:
    whole = declared.precision - declared.scale
    if types.is_integer(kind):
        # 2^64 has one digit more than 2^63
        return whole >= _DIGITS[kind.bit_width] + (types.is_uint64(kind))
    return types.is_decimal(kind) and declared.scale >= kind.scale and whole >= kind.precision - kind.scale
