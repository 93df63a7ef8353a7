"""Gives columns of Iceberg's type fixed(n) their Parquet type. Rewrites a local file; touches nothing else.

DuckDB writes every BLOB with variable length, and readers of Iceberg refuse that for a fixed column. pyarrow writes the
same rows again, one row group at a time; a file without such a column is left as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType


def fix_lengths(path: Path, schema: Schema, *, compression_level: int) -> None:
    """Rewrite a data file whose columns are those of `schema`, in its order, if one of them holds a fixed type."""
    if not any(_holds_fixed(field.field_type) for field in schema.fields):
        return
    other = path.with_suffix(".fixed")
    with pq.ParquetFile(path) as file:
        old = file.schema_arrow
        new = pa.schema([_fixed_field(old.field(f.name), f.field_type) for f in schema.fields])
        names = [field.name for field in schema.fields]
        with pq.ParquetWriter(
            other,
            new,
            compression="zstd",
            compression_level=compression_level,
            store_decimal_as_integer=True,
            store_schema=False,
        ) as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).select(names)
                arrays = [_fixed(table.column(f.name).combine_chunks(), new.field(f.name).type) for f in schema.fields]
                writer.write_table(pa.Table.from_arrays(arrays, schema=new))
    other.replace(path)


def _holds_fixed(kind: IcebergType) -> bool:
    match kind:
        case FixedType():
            return True
        case StructType():
            return any(_holds_fixed(field.field_type) for field in kind.fields)
        case ListType():
            return _holds_fixed(kind.element_type)
        case MapType():
            return _holds_fixed(kind.key_type) or _holds_fixed(kind.value_type)
        case _:
            return False


def _fixed_field(field: pa.Field[Any], want: IcebergType) -> pa.Field[Any]:
    return field.with_type(_fixed_type(field.type, want))


def _fixed_type(kind: Any, want: IcebergType) -> Any:
    """The file's type with the lengths of the table's; names and field ids stay."""
    match want:
        case FixedType():
            return pa.binary(len(want))
        case StructType():
            return pa.struct([_fixed_field(kind.field(i), part.field_type) for i, part in enumerate(want.fields)])
        case ListType():
            return pa.list_(_fixed_field(kind.field(0), want.element_type))
        case MapType():
            key = _fixed_field(kind.key_field, want.key_type)
            return pa.map_(key, _fixed_field(kind.item_field, want.value_type))
        case _:
            return kind


def _fixed(array: Any, kind: Any) -> Any:
    """The array as `kind`, which differs in lengths alone; offsets and NULLs stay."""
    if array.type == kind:
        return array
    if types.is_fixed_size_binary(kind):
        return array.cast(kind)
    nulls = array.is_null()
    if types.is_struct(kind):
        parts = [_fixed(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=[kind.field(i) for i in range(kind.num_fields)], mask=nulls)
    if types.is_map(kind):
        keys, items = _fixed(array.keys, kind.key_type), _fixed(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=nulls)  # type: ignore[call-overload]
    return pa.ListArray.from_arrays(array.offsets, _fixed(array.values, kind.value_type), type=kind, mask=nulls)
