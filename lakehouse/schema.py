"""How a declaration looks as an Iceberg schema and partition spec, and whether an existing table fits it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
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
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakehouse.errors import DeclarationError, NotAvailable
from lakehouse.naming import LINEAGE
from lakehouse.types import ColumnType, parse_type

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
    if column.name == "decimal":
        return DecimalType(column.precision, column.scale)
    return _PRIMITIVES[column.name]()


def target_columns(declaration: Declaration) -> dict[str, ColumnType]:
    """Name and type of every column of the target, lineage last."""
    columns = {c.name: c.type for c in declaration.columns}
    if declaration.lineage:
        columns.update({name: parse_type(text) for name, text in LINEAGE.items()})
    return columns


def target_schema(declaration: Declaration) -> Schema:
    """The Iceberg schema of a new target; field ids count from 1 in declared order."""
    required = {c.name for c in declaration.columns if c.required}
    return Schema(
        *(
            NestedField(number, name, iceberg_type(column), required=name in required)
            for number, (name, column) in enumerate(target_columns(declaration).items(), start=1)
        )
    )


def target_spec(declaration: Declaration, schema: Schema) -> PartitionSpec:
    """The partition spec of a new target, over a schema that has its field ids."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(field.source).field_id,
                field_id=1000 + number,
                transform=_transform(field.transform, field.width),
                name=field.source if field.transform == "identity" else f"{field.source}_{field.transform}",
            )
            for number, field in enumerate(declaration.partition_by)
        )
    )


def _transform(name: str, width: int | None) -> Transform[object, object]:
    if name == "truncate":
        return TruncateTransform(width=width or 1)
    if name in _SIMPLE_TRANSFORMS:
        return _SIMPLE_TRANSFORMS[name]()  # type: ignore[no-any-return]
    raise NotAvailable(f"partition_by: the transform {name} is not available yet")


def check_fit(declaration: Declaration, schema: Schema) -> None:
    """Raise DeclarationError unless the table has exactly the declared columns (names and types, any order)."""
    have = {field.name: str(field.field_type).replace(" ", "") for field in schema.fields}
    want = {name: str(iceberg_type(column)).replace(" ", "") for name, column in target_columns(declaration).items()}
    faults = [f"column {n} is declared as {want[n]} and missing in the table" for n in want if n not in have]
    faults += [f"column {n} is in the table and not declared" for n in have if n not in want]
    faults += [
        f"column {n} is declared as {want[n]}, and {have[n]} in the table"
        for n in want
        if n in have and have[n] != want[n]
    ]
    if faults:
        raise DeclarationError(
            f"table {declaration.table} does not fit its declaration: {'; '.join(faults)}",
            next=f"change the columns in {declaration.path}, or alter the table",
        )
