"""How a column of the table lies in one of its data files, and how new files are laid out. Makes SQL; reads nothing.

A file keeps the schema that it was written with. Columns are found in it by field id, at every depth: renamed, added,
dropped, reordered and widened fields are read as the table has them now. Names count only for a file without any id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from lakehouse.engines.nested import (
    entry_key,
    entry_value,
    field_of,
    list_value,
    map_value,
    struct_value,
    variable,
)
from lakehouse.naming import quote_name, quote_text
from lakehouse.schema import column_type

FIELD_ID = b"PARQUET:field_id"
_OWN_ID = quote_text("__duckdb_field_id")


def duckdb_type(field_type: IcebergType) -> str:
    """The DuckDB type of a column of the table. Raises NotAvailable for one that no release of format 2 has."""
    return column_type(field_type).sql


def column_expressions(fields: Sequence[NestedField], file_schema: pa.Schema) -> list[str]:
    """SQL over the columns of a data file that gives `fields` of the table, typed as the table has them now.

    `file_schema` is what pyarrow reads from the file. A field that the file does not have is NULL.
    """
    have = list(file_schema)
    by_id = _has_ids(have)
    known: dict[Any, pa.Field[Any]] = {(_id_of(f) if by_id else f.name): f for f in reversed(have)}

    def value(field: NestedField) -> str:
        found = known.get(field.field_id if by_id else field.name)
        if found is None:
            return f"NULL::{duckdb_type(field.field_type)}"
        return _value(quote_name(found.name), field.field_type, found.type, by_id=by_id, depth=0)

    return [value(field) for field in fields]


def identified(file_schema: pa.Schema, mapping: NameMapping | None) -> pa.Schema:
    """The schema of a file without field ids with those that the table's name mapping gives it; others as they are.

    A field that the mapping does not know stays without an id, so that the table reads NULL.
    """
    if mapping is None or _has_ids(list(file_schema)):
        return file_schema
    return pa.schema([_identified(field, mapping.root) for field in file_schema])


def field_ids_sql(schema: Schema, names: Sequence[str]) -> str:
    """What DuckDB's COPY takes as FIELD_IDS, for the columns `names` with everything inside them."""
    return f"{{{', '.join(_ids(schema.find_field(name)) for name in names)}}}"


def _ids(field: NestedField) -> str:
    name = quote_text(field.name)
    parts = list(_parts(field.field_type))
    if not parts:
        return f"{name}: {field.field_id}"
    return f"{name}: {{{_OWN_ID}: {field.field_id}, {', '.join(_ids(part) for part in parts)}}}"


def _parts(field_type: IcebergType) -> Iterator[NestedField]:
    match field_type:
        case StructType():
            yield from field_type.fields
        case ListType():
            yield field_type.element_field
        case MapType():
            yield field_type.key_field
            yield field_type.value_field


def _has_ids(fields: Sequence[pa.Field[Any]]) -> bool:
    return any(_id_of(field) is not None or _has_ids(_inside(field.type)) for field in fields)


def _id_of(field: pa.Field[Any]) -> int | None:
    found = (field.metadata or {}).get(FIELD_ID)
    return int(found) if found is not None else None


def _inside(kind: pa.DataType) -> list[pa.Field[Any]]:
    return [kind.field(i) for i in range(kind.num_fields)] if types.is_nested(kind) else []


def _identified(field: pa.Field[Any], known: Sequence[MappedField], name: str | None = None) -> pa.Field[Any]:
    found = next((mapped for mapped in known if (name or field.name) in mapped.names), None)
    if found is None:
        return field
    kind: Any = field.type
    if types.is_struct(kind):
        kind = pa.struct([_identified(part, found.fields) for part in _inside(kind)])
    elif types.is_map(kind):
        key = _identified(kind.key_field, found.fields, "key")
        kind = pa.map_(key, _identified(kind.item_field, found.fields, "value"))
    elif types.is_nested(kind):
        kind = pa.list_(_identified(_inside(kind)[0], found.fields, "element"))
    if found.field_id is None:
        return field.with_type(kind)
    return field.with_type(kind).with_metadata({FIELD_ID: str(found.field_id).encode()})


def _find(field: NestedField, fields: Sequence[pa.Field[Any]], by_id: bool) -> pa.Field[Any] | None:
    if by_id:
        return next((f for f in fields if _id_of(f) == field.field_id), None)
    return next((f for f in fields if f.name == field.name), None)


def _value(source: str, want: IcebergType, have: Any, *, by_id: bool, depth: int) -> str:
    """`source`, of Arrow type `have` in the file, as the table's type `want`."""
    if not _same_shape(want, have, by_id):
        match want:
            case StructType():
                fields = _inside(have)
                return struct_value(
                    source,
                    ((part.name, _field(source, part, fields, by_id=by_id, depth=depth)) for part in want.fields),
                )
            case ListType():
                element = _value(
                    variable(depth), want.element_type, _inside(have)[0].type, by_id=by_id, depth=depth + 1
                )
                return list_value(source, depth, element)
            case MapType():
                key = _value(entry_key(depth), want.key_type, have.key_type, by_id=by_id, depth=depth + 1)
                item = _value(entry_value(depth), want.value_type, have.item_type, by_id=by_id, depth=depth + 1)
                return map_value(f"map_entries({source})", depth, key, item)
    return f"{_decoded(source, want, have)}::{duckdb_type(want)}"


def _field(source: str, field: NestedField, fields: Sequence[pa.Field[Any]], *, by_id: bool, depth: int) -> str:
    found = _find(field, fields, by_id)
    if found is None:
        return f"NULL::{duckdb_type(field.field_type)}"
    return _value(field_of(source, found.name), field.field_type, found.type, by_id=by_id, depth=depth)


def _same_shape(want: IcebergType, have: Any, by_id: bool) -> bool:
    """Whether a cast is all that the value needs: it is primitive, or its fields are the table's, in its order."""
    parts = list(_parts(want))
    if not parts:
        return True
    fields = _inside(have.field(0).type) if types.is_map(have) else _inside(have)
    if len(parts) != len(fields):
        return False
    for part, field in zip(parts, fields, strict=True):
        named = part.name == field.name or not isinstance(want, StructType)
        if not named or (isinstance(want, StructType) and by_id and _id_of(field) != part.field_id):
            return False
        if not _same_shape(part.field_type, field.type, by_id) or _decoded("", part.field_type, field.type):
            return False
    return True


def _decoded(source: str, want: IcebergType, have: pa.DataType) -> str:
    """`source` where DuckDB reads the file's bytes as another type than its writer meant."""
    bytes_ = types.is_binary(have) or types.is_large_binary(have) or types.is_fixed_size_binary(have)
    match want:
        case UUIDType() if bytes_:
            return f"hex({source})"
        case StringType() if bytes_:
            return f"decode({source})"
        case BinaryType() | FixedType() if types.is_string(have) or types.is_large_string(have):
            return f"encode({source})"
        case _:
            return source
