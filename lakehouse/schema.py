"""How a declaration looks as an Iceberg schema and partition spec. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakehouse.declaration.partition_field import field_names
from lakehouse.errors import NotAvailable
from lakehouse.naming import DELETED_AT, LINEAGE
from lakehouse.types import ColumnType, list_of, map_of, parse_type, struct_of

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_PRIMITIVES: dict[str, type[IcebergType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "time": TimeType,
    "timestamp": TimestampType,
    "timestamptz": TimestamptzType,
    "string": StringType,
    "uuid": UUIDType,
    "binary": BinaryType,
}
_SIMPLE_TRANSFORMS = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}


def iceberg_type(column: ColumnType) -> IcebergType:
    """The Iceberg type, its nested fields numbered from 1: the numbers are no field ids yet."""
    return _numbered(column, itertools.count(1))


def _numbered(column: ColumnType, ids: Iterator[int]) -> IcebergType:
    match column.name:
        case "decimal":
            return DecimalType(column.precision, column.scale)
        case "fixed":
            return FixedType(column.length)
        case "struct" | "list" | "map":
            return _nested(column, ids)
        case _:
            return _PRIMITIVES[column.name]()


def _nested(column: ColumnType, ids: Iterator[int]) -> IcebergType:
    numbered = [(next(ids), name, kind) for name, kind in column.fields]
    parts = [(number, name, _numbered(kind, ids)) for number, name, kind in numbered]
    if column.name == "struct":
        return StructType(*(NestedField(number, name, kind, required=False) for number, name, kind in parts))
    if column.name == "list":
        ((number, _, element),) = parts
        return ListType(element_id=number, element_type=element, element_required=False)
    (key_id, _, key), (value_id, _, value) = parts
    return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=False)


def column_type(field_type: IcebergType) -> ColumnType:
    """The type of a table's column as a declaration names it: field ids and requirements are left out.

    Raises NotAvailable for a type that format version 2 does not have.
    """
    match field_type:
        case DecimalType():
            return ColumnType("decimal", field_type.precision, field_type.scale)
        case FixedType():
            return ColumnType("fixed", length=len(field_type))
        case StructType():
            return struct_of(tuple((field.name, column_type(field.field_type)) for field in field_type.fields))
        case ListType():
            return list_of(column_type(field_type.element_type))
        case MapType():
            return map_of(column_type(field_type.key_type), column_type(field_type.value_type))
    found = next((name for name, known in _PRIMITIVES.items() if isinstance(field_type, known)), None)
    if found is None:
        raise NotAvailable(f"the column type {field_type} is not available yet")
    return ColumnType(found)


def target_columns(declaration: Declaration) -> dict[str, ColumnType]:
    """Name and type of every column of the target: the declared ones, lineage, the mark of soft deletes, added ones."""
    columns = {c.name: c.type for c in declaration.declared.columns}
    if declaration.lineage:
        columns.update({name: parse_type(text) for name, text in LINEAGE.items()})
    if declaration.soft_deletes:
        columns[DELETED_AT] = parse_type("timestamptz")
    columns.update({name: parse_type("string") for name in declaration.added})
    return columns


def target_schema(declaration: Declaration) -> Schema:
    """The Iceberg schema of a new target: field ids count from 1 in declared order, those of nested fields after."""
    required = {c.name for c in declaration.columns if c.required}
    ids = itertools.count(1)
    fields = [
        NestedField(next(ids), name, _numbered(column, ids), required=name in required)
        for name, column in target_columns(declaration).items()
    ]
    return assign_fresh_schema_ids(Schema(*fields))


def target_spec(declaration: Declaration, schema: Schema) -> PartitionSpec:
    """The partition spec of a new target, over a schema that has its field ids."""
    names = field_names(declaration.partition_by)
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(field.source).field_id,
                field_id=1000 + number,
                transform=_transform(field.transform, field.width or 1),
                name=name,
            )
            for number, (field, name) in enumerate(zip(declaration.partition_by, names, strict=True))
        )
    )


def _transform(name: str, width: int) -> Transform[Any, Any]:
    if name == "truncate":
        return TruncateTransform(width=width)
    if name == "bucket":
        return BucketTransform(num_buckets=width)
    return _SIMPLE_TRANSFORMS[name]()  # type: ignore[no-any-return]
