"""Partition values as SQL: every Iceberg transform over the rows of a batch. Pure; NULL stays NULL.

The values are those that manifests hold, once `data_file.stored_values` has made numbers of dates and times.
"""

from __future__ import annotations

import re

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema

from lakehouse.errors import NotAvailable
from lakehouse.merge.bucket import bucket
from lakehouse.naming import quote_name
from lakehouse.schema import column_type
from lakehouse.types import ColumnType

_MICROS = {"hour": 3_600_000_000, "day": 86_400_000_000}
_BITS = {"int": 32, "long": 64}


def partition_expressions(schema: Schema, spec: PartitionSpec) -> list[str]:
    """DuckDB expressions over the table's columns that give the partition values, in spec order.

    Raises NotAvailable for a transform that Iceberg does not define and for a source inside a struct.
    """
    return [_expression(schema, field) for field in spec.fields]


def _expression(schema: Schema, field: PartitionField) -> str:
    transform = str(field.transform)
    if transform == "void":
        return "NULL"
    column = next((f for f in schema.fields if f.field_id == field.source_id), None)
    if column is None:
        raise NotAvailable(f"partition field {field.name}: a source that is no column is not available yet")
    name, kind = quote_name(column.name), column_type(column.field_type)
    if transform == "identity":
        # a manifest holds microseconds
        return f"epoch_us({name})" if kind.name == "time" else name
    if transform in ("year", "month", "day", "hour"):
        return _time(transform, kind, name)
    if sized := re.fullmatch(r"(truncate|bucket)\[(\d+)\]", transform):
        width = int(sized[2])
        return bucket(kind.name, width, name) if sized[1] == "bucket" else _truncate(kind, width, name)
    raise NotAvailable(f"partition field {field.name}: the transform {transform} is not available yet")


def _time(transform: str, kind: ColumnType, name: str) -> str:
    if transform in _MICROS:
        if kind.name == "date":
            return f"({name} - DATE '1970-01-01')::INTEGER"
        # whole numbers rounded down: a double is too coarse for a microsecond of a far year
        micros, unit = f"epoch_us({name})", _MICROS[transform]
        return f"(({micros} - (({micros} % {unit}) + {unit}) % {unit}) // {unit})::INTEGER"
    # the session's zone is not asked
    naive = f"make_timestamp(epoch_us({name}))" if kind.name == "timestamptz" else name
    years = f"(year({naive}) - 1970)"
    return f"{years}::INTEGER" if transform == "year" else f"({years} * 12 + month({naive}) - 1)::INTEGER"


def _truncate(kind: ColumnType, width: int, name: str) -> str:
    match kind.name:
        case "string":
            return f"left({name}, {width})"
        case "decimal":
            unit = f"{_scaled(width, kind.scale)}::DECIMAL(38,{kind.scale})"
            whole = f"{name}::DECIMAL(38,{kind.scale})"
            return f"({whole} - (({whole} % {unit}) + {unit}) % {unit})"
        case "int" | "long":
            return _truncated_integer(name, width, _BITS[kind.name])
        case _:
            return f"array_slice({name}, 1, {width})"


def _scaled(unscaled: int, scale: int) -> str:
    """The decimal literal of an unscaled number; a literal with a point is no double in DuckDB."""
    digits = str(unscaled).rjust(scale + 1, "0")
    return f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits


def _truncated_integer(name: str, width: int, bits: int) -> str:
    """Rounded down to a multiple of `width`; below the least number it wraps around, as it does in Iceberg's Java."""
    value = f"{name}::HUGEINT"
    down = f"({value} - (({value} % {width}) + {width}) % {width})"
    sql = "INTEGER" if bits == 32 else "BIGINT"
    return f"(CASE WHEN {down} < {-(1 << bits - 1)} THEN {down} + {1 << bits} ELSE {down} END)::{sql}"
