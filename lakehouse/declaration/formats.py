"""How the objects of a source are written: one model per format. Pure; reads no file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lakehouse.declaration.fields import (
    Character,
    Count,
    DateFormat,
    Encoding,
    Text,
    Thousands,
    TimestampFormat,
    Values,
    Zone,
    later,
    not_available,
    only,
    show,
)

LATER_FORMATS = ("json", "avro", "orc", "xml")
LATER_FORMAT_FIELDS = ("records_path", "row_element")


def _null_is_a_word(value: object) -> object:
    # `quoted_empty: null` without quotes is what the documentation shows, and YAML reads it as nothing
    return "null" if value is None else value


class BooleanWords(Values):
    """The words that stand for true and for false."""

    true: Annotated[tuple[Text, ...], Field(min_length=1)]
    false: Annotated[tuple[Text, ...], Field(min_length=1)]


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
    """Comma-separated values, the header matched by name."""

    type: Literal["csv"]
    delimiter: Character = ","
    quote: Annotated[Character, later(None, "")] = '"'
    escape: Character | None = None
    header: Annotated[Literal[True], later(False)] = True
    null_values: tuple[Text, ...] = ("",)
    skip_lines: Count = 0
    quoted_empty: Annotated[Literal["null", "text"], BeforeValidator(_null_is_a_word)] = "null"
    blank_lines: Literal["skip", "reject"] = "skip"
    columns_by_position: Annotated[Literal[False], later(True)] = False
    trailer: Annotated[None, only(None)] = None
    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None


class JsonlFormat(_TextFormat):
    """One JSON object per line."""

    type: Literal["jsonl"]
    null_values: tuple[Text, ...] = ()


class ParquetFormat(Values):
    """Parquet; `timezone` is that of timestamps without a zone that are declared with one."""

    type: Literal["parquet"]
    timezone: Zone = "UTC"


FORMATS: dict[str, type[Values]] = {"csv": CsvFormat, "jsonl": JsonlFormat, "parquet": ParquetFormat}


def _refuse_later(value: object) -> object:
    if isinstance(value, dict) and value.get("type") in LATER_FORMATS:
        raise not_available(f"the format {show(value['type'])}", at="type")
    return value


Format = Annotated[
    Annotated[CsvFormat | JsonlFormat | ParquetFormat, Field(discriminator="type")], BeforeValidator(_refuse_later)
]
