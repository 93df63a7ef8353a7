"""How the objects of a source are written: one model per format. Pure; reads no file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lakehouse.declaration.fields import (
    Character,
    Count,
    DateFormat,
    ElementName,
    Encoding,
    Positive,
    RecordsPath,
    Switch,
    Text,
    Thousands,
    TimestampFormat,
    Values,
    Zone,
)


def _null_is_a_word(value: object) -> object:
    # `quoted_empty: null` without quotes is what the documentation shows, and YAML reads it as nothing
    return "null" if value is None else value


class BooleanWords(Values):
    """The words that stand for true and for false."""

    true: Annotated[tuple[Text, ...], Field(min_length=1)]
    false: Annotated[tuple[Text, ...], Field(min_length=1)]


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


def _as_mapping(value: object) -> object:
    if isinstance(value, str):
        return {"starts_with": value}
    if not isinstance(value, (dict, Trailer)):
        raise ValueError("expected how the last line begins, such as TRL, or {starts_with: TRL, count: 2}")
    return value


class Trailer(Values):
    """The last line of every file: how it begins, and which of its fields, from 1, counts the records above it."""

    starts_with: Annotated[Text, Field(min_length=1)]
    count: Positive | None = None


class _TextFormat(Values):
    """What all text formats share. Formats are those of strptime; `timezone` is that of times without an offset."""

    encoding: Encoding = "utf-8"
    timezone: Zone = "UTC"
    date_format: DateFormat | None = None
    timestamp_format: TimestampFormat | None = None
    dst_overlap: Literal["later", "earlier"] = "later"
    booleans: BooleanWords | None = None
    binary: Literal["hex", "base64"] = "hex"


class CsvFormat(_TextFormat):
    """Comma-separated values, the header matched by name.

    Without a header, or with `columns_by_position`, the fields are the declared columns in order.
    """

    type: Literal["csv"]
    delimiter: Character = ","
    quote: Annotated[Character | None, BeforeValidator(_none_if_empty)] = '"'
    escape: Character | None = None
    header: Switch = True
    null_values: tuple[Text, ...] = ("",)
    skip_lines: Count = 0
    quoted_empty: Annotated[Literal["null", "text"], BeforeValidator(_null_is_a_word)] = "null"
    blank_lines: Literal["skip", "reject"] = "skip"
    columns_by_position: Switch = False
    trailer: Annotated[Trailer, BeforeValidator(_as_mapping)] | None = None
    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None


class JsonlFormat(_TextFormat):
    """One JSON object per line."""

    type: Literal["jsonl"]
    null_values: tuple[Text, ...] = ()


class JsonFormat(_TextFormat):
    """One JSON document: its records are the array, or the one object, at the dotted `records_path` or at the top."""

    type: Literal["json"]
    records_path: RecordsPath | None = None
    null_values: tuple[Text, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the records, from the outside."""
        return tuple(self.records_path.split(".")) if self.records_path else ()


class XmlFormat(_TextFormat):
    """One XML document: its records are the elements `row_element`, wherever they stand.

    A child element is a field; attributes are fields `_name`, and the text of an element that has any is `_VALUE`.
    """

    type: Literal["xml"]
    row_element: ElementName
    null_values: tuple[Text, ...] = ("",)


class ParquetFormat(Values):
    """Parquet; `timezone` is that of timestamps without a zone that are declared with one."""

    type: Literal["parquet"]
    timezone: Zone = "UTC"


class OrcFormat(Values):
    """ORC, as ParquetFormat."""

    type: Literal["orc"]
    timezone: Zone = "UTC"


class AvroFormat(Values):
    """Avro container files, as ParquetFormat."""

    type: Literal["avro"]
    timezone: Zone = "UTC"


FORMATS: dict[str, type[Values]] = {
    "csv": CsvFormat,
    "jsonl": JsonlFormat,
    "json": JsonFormat,
    "xml": XmlFormat,
    "parquet": ParquetFormat,
    "orc": OrcFormat,
    "avro": AvroFormat,
}


Format = Annotated[
    CsvFormat | JsonlFormat | JsonFormat | XmlFormat | ParquetFormat | OrcFormat | AvroFormat,
    Field(discriminator="type"),
]
