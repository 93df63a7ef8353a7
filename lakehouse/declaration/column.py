"""One column of a declaration. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakehouse.declaration.fields import (
    DateFormat,
    FolderName,
    Name,
    Switch,
    Text,
    Thousands,
    TimestampFormat,
    TypeOfColumn,
    Values,
    Zone,
)
from lakehouse.declaration.formats import BooleanWords

COLUMN_NAME = "\0name"
"""Where a column's name is put for validation: no field of a column can be called like this."""


class Column(Values):
    """One column of the target. `source_name` is its name in the file, `from_path` where in the path it is instead;
    `Declaration.origin` knows whether the name's dots lead into a nested value. A `computed` one is in neither: the SQL
    of the declaration gives its values.

    What it says of spellings (`date_format` to `thousands`) goes before what the format says; `null_values` are the
    column's whole list.
    """

    name: Name = Field(alias=COLUMN_NAME)
    type: TypeOfColumn
    required: Switch = False
    computed: Switch = False
    source_name: Text = Field(alias="from", min_length=1)
    from_path: FolderName | None = None
    pii: Switch = False
    mixed: Literal["cast", "string", "struct", "columns"] | None = None
    date_format: DateFormat | None = None
    timestamp_format: TimestampFormat | None = None
    timezone: Zone | None = None
    dst_overlap: Literal["later", "earlier"] | None = None
    booleans: BooleanWords | None = None
    binary: Literal["hex", "base64"] | None = None
    null_values: tuple[Text, ...] | None = None
    decimal: Literal[".", ","] | None = None
    thousands: Thousands | None = None


def named_columns(value: object) -> object:
    """`{id: bigint, n: {type: int}}` as a list of mappings that hold their name and their name in the file."""
    if not isinstance(value, dict):
        return value
    return [
        {"from": name, **spec, COLUMN_NAME: name}
        if isinstance(spec, dict)
        else {"from": name, "type": spec, COLUMN_NAME: name}
        for name, spec in value.items()
    ]


def plain_column(name: str, kind: str) -> Column:
    """A column of a type, read under its own name."""
    return Column.model_validate({COLUMN_NAME: name, "from": name, "type": kind})
