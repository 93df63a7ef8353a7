"""Which Parquet types become which declared types, and how: widening only, never a value changed. Pure.

Types are Arrow's, as pyarrow shows a file's schema. What is not listed is refused; a value that does not survive
(nanoseconds below a microsecond, a year above 9999, a time in a DST gap) is NULL in the SQL and so a reject.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

from lakehouse.declaration import Column
from lakehouse.read.casts import CastRules, in_zone, within_years
from lakehouse.read.cells import Cell, missing_cell
from lakehouse.types import ColumnType

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MANTISSA = {"float": 16, "double": 32}
"""Bits of the widest integer of a Parquet file that a floating type holds exactly."""


def parquet_cell(column: Column, source: str, kind: pa.DataType, rules: CastRules) -> Cell | None:
    """The cell of a declared column over the SQL expression `source` of Arrow type `kind`; None where it is refused."""
    if types.is_null(kind):
        return missing_cell(column)
    if types.is_dictionary(kind):
        kind = kind.value_type
    declared = column.type
    if types.is_timestamp(kind):
        return _timestamp(column, source, kind, rules)
    if types.is_time(kind):
        if declared.name != "time":
            return None
        kept = f"({source}::TIME)::TIME_NS = {source}" if kind.unit == "ns" else "true"
        return _checked(column, source, f"{source}::TIME", kept)
    if types.is_date(kind):
        if declared.name != "date":
            return None
        return _checked(column, source, f"{source}::DATE", within_years(source, "DATE"))
    return Cell(column, f"{source}::{declared.sql}") if _widens(kind, declared) else None


def _checked(column: Column, source: str, value: str, kept: str) -> Cell:
    """A value that counts only under the condition `kept`."""
    return Cell(
        column,
        f"CASE WHEN {kept} THEN {value} END",
        f"{source} IS NOT NULL",
        f"the value does not fit a {column.type} exactly",
    )


def _timestamp(column: Column, source: str, kind: pa.TimestampType[Any, Any], rules: CastRules) -> Cell | None:
    sql = "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    nanos = "TIMESTAMP_NS" if kind.tz is None else "TIMESTAMPTZ_NS"
    value = f"{source}::{sql}"
    kept = within_years(value, sql)
    if kind.unit == "ns":
        kept = f"({value})::{nanos} = {source} AND {kept}"
    if column.type.name == "timestamptz" and kind.tz is None:
        value = in_zone(value, timezone=rules.timezone, dst_overlap=rules.dst_overlap)
    elif column.type.name != ("timestamp" if kind.tz is None else "timestamptz"):
        return None
    return _checked(column, source, value, kept)


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
