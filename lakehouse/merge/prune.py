"""Which target files can hold a staged key, by the bounds in the manifests. Reads no data file.

A bound that is missing, cannot be read or contradicts its counterpart makes a file a candidate: pruning may keep a file
too many, never one too few. Keys are compared as DuckDB joins them: NaN equals NaN and is above every number, -0.0
equals 0.0. Bounds never count NaN (Iceberg specification, section Manifests), so a staged NaN reaches every file that
is not known to hold none.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, PrimitiveType

from lakehouse.errors import TargetDamaged
from lakehouse.naming import quote_name, quote_text

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

Bound: TypeAlias = bool | int | float | Decimal | str | bytes

# How a bound is written in a manifest, so that staged values can be compared with it.
_AS_STORED = {
    "date": "({0} - date '1970-01-01')::int",
    "time": "epoch_us({0})",
    "timestamp": "epoch_us({0})",
    "timestamptz": "epoch_us({0})",
    "uuid": "unhex(replace({0}::varchar, '-', ''))",
}
_FLOATING = ("float", "double")


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What the winners hold in one key column, as manifests write it; both bounds None if it is NaN in all of them."""

    low: Bound | None
    high: Bound | None
    nan: bool = False

    def may_meet(self, file: DataFile, field: NestedField) -> bool:
        """Whether a file can hold one of the values."""
        if self.nan and (file.nan_value_counts or {}).get(field.field_id) != 0:
            return True
        if self.low is None or self.high is None:
            return False
        lower = _bound(field.field_type, (file.lower_bounds or {}).get(field.field_id))
        upper = _bound(field.field_type, (file.upper_bounds or {}).get(field.field_id))
        if lower is not None and upper is not None and lower > upper:
            # written in another order than the specification's, as some writers did for UUIDs
            return True
        return not ((lower is not None and self.high < lower) or (upper is not None and self.low > upper))


def candidates(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    schema: Schema,
    files: Sequence[DataFile],
    *,
    with_deletes: Collection[str] = (),
) -> tuple[DataFile, ...]:
    """Files whose key bounds meet those of `winners`.

    Raises TargetDamaged if a file is known to hold a NULL in a key column: such a row can never be matched. Of the
    paths `with_deletes` the counts say nothing about live rows, so they are candidates for whoever reads them.
    """
    fields = {name: schema.find_field(name) for name in declaration.key}
    hollow: set[str] = set()
    for name, field in fields.items():
        for file in files:
            if nulls := (file.null_value_counts or {}).get(field.field_id, 0):
                if file.file_path not in with_deletes:
                    raise null_keys(declaration.table, name, nulls, file.file_path)
                hollow.add(file.file_path)
    ranges = _ranges(con, declaration)
    if ranges is None:
        return ()
    return tuple(
        file
        for file in files
        if file.file_path in hollow or all(ranges[name].may_meet(file, field) for name, field in fields.items())
    )


def between_bounds(declaration: Declaration, schema: Schema, files: Sequence[DataFile]) -> str:
    """An SQL condition that every winner meets which these files can hold, by the first key column alone."""
    name = declaration.key[0]
    field, kind = schema.find_field(name), next(c.type.name for c in declaration.columns if c.name == name)
    bounds = [
        _bound(field.field_type, (found or {}).get(field.field_id))
        for file in files
        for found in (file.lower_bounds, file.upper_bounds)
    ]
    value = _AS_STORED.get(kind, "{0}").format(quote_name(name))
    if bounds and all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds):
        return f"{value} between {min(bounds)} and {max(bounds)}"
    if bounds and all(isinstance(bound, str) and "\0" not in bound for bound in bounds):
        return f"{value} between {quote_text(min(bounds))} and {quote_text(max(bounds))}"
    return "true"


def above_bounds(declaration: Declaration, schema: Schema, files: Sequence[DataFile]) -> str:
    """An SQL condition that only winners meet which are newer, by the first column of `order_by`, than every row of
    these files."""
    name = next(iter(declaration.order_by), None)
    if name is None:
        return "false"
    field, kind = schema.find_field(name), next(c.type.name for c in declaration.columns if c.name == name)
    bounds = [_bound(field.field_type, (file.upper_bounds or {}).get(field.field_id)) for file in files]
    if not bounds or not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds):
        return "false"
    return f"{_AS_STORED.get(kind, '{0}').format(quote_name(name))} > {max(bounds)}"


def null_keys(table: str, column: str, count: int, path: str) -> TargetDamaged:
    return TargetDamaged(
        f"table {table} has live rows with a NULL key: column={column} rows={count} file={path}",
        next=f"delete or repair them: delete from {table} where {column} is null",
    )


def _ranges(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> dict[str, KeyRange] | None:
    """The range of every key column over `winners`; None if there is no winner."""
    types = {c.name: c.type.name for c in declaration.columns}
    picked = ["count(*)"]
    for name in declaration.key:
        column, kind = quote_name(name), types[name]
        value = _AS_STORED.get(kind, "{0}").format(column)
        nan = f"coalesce(bool_or(isnan({column})), false)" if kind in _FLOATING else "false"
        # DuckDB's greatest number is NaN, which would hide the others
        numbers = f" filter (where not isnan({column}))" if kind in _FLOATING else ""
        picked += [f"min({value}){numbers}", f"max({value}){numbers}", nan]
    ((count, *found),) = con.execute(f"select {', '.join(picked)} from winners").fetchall()
    if not count:
        return None
    return {name: KeyRange(*found[3 * i : 3 * i + 3]) for i, name in enumerate(declaration.key)}


def _bound(field_type: IcebergType, raw: bytes | None) -> Any:
    """The value of a bound; None if there is none that could prune. A promoted column keeps its old, shorter bounds."""
    if raw is None or not isinstance(field_type, PrimitiveType):
        return None
    try:
        value = from_bytes(field_type, raw)
    except (struct.error, UnicodeDecodeError):
        return None
    return None if isinstance(value, float) and math.isnan(value) else value
