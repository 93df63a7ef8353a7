"""Which target files can hold a staged key, by the bounds in the manifests. Reads no data file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from lakehouse.errors import TargetDamaged
from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

# How a bound is written in a manifest, so that staged values can be compared with it.
_AS_STORED = {
    "date": "({0} - date '1970-01-01')::int",
    "time": "datediff('microsecond', time '00:00:00', {0})",
    "timestamp": "epoch_us({0})",
    "timestamptz": "epoch_us({0})",
    "uuid": "unhex(replace({0}::varchar, '-', ''))",
}


def candidates(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    schema: Schema,
    files: Sequence[DataFile],
) -> tuple[DataFile, ...]:
    """Files whose key bounds meet those of `winners`; a missing bound makes a file a candidate.

    Raises TargetDamaged if a file is known to hold a NULL in a key column: such a row can never be matched.
    """
    kept = list(files)
    for name in declaration.key:
        field = schema.find_field(name)
        for file in files:
            if nulls := (file.null_value_counts or {}).get(field.field_id, 0):
                raise null_keys(declaration.table, name, nulls, file.file_path)
        low, high = _staged_bounds(con, declaration, name)
        if low is None:
            return ()
        kept = [f for f in kept if _may_hold(f, field.field_id, field.field_type, low, high)]
    return tuple(kept)


def null_keys(table: str, column: str, count: int, path: str) -> TargetDamaged:
    return TargetDamaged(
        f"table {table} has live rows with a NULL key: column={column} rows={count} file={path}",
        next=f"delete or repair them: delete from {table} where {column} is null",
    )


def _staged_bounds(con: duckdb.DuckDBPyConnection, declaration: Declaration, name: str) -> tuple[Any, Any]:
    column = next(c for c in declaration.columns if c.name == name)
    expression = _AS_STORED.get(column.type.name, "{0}").format(quote_name(name))
    low, high = con.execute(f"select min({expression}), max({expression}) from winners").fetchall()[0]
    return low, high


def _may_hold(file: DataFile, field_id: int, field_type: Any, low: Any, high: Any) -> bool:
    lower = _bound(field_type, (file.lower_bounds or {}).get(field_id))
    upper = _bound(field_type, (file.upper_bounds or {}).get(field_id))
    return not ((lower is not None and high < lower) or (upper is not None and low > upper))


def _bound(field_type: Any, raw: bytes | None) -> Any:
    if raw is None or not isinstance(field_type, PrimitiveType):
        return None
    value = from_bytes(field_type, raw)
    return value.bytes if hasattr(value, "bytes") else value
