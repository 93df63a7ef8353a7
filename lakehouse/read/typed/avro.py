"""Avro container files into a sink, block by block: fastavro reads them, DuckDB casts the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.schema import expand_schema, parse_schema

from lakehouse.errors import LakehouseError, UnreadableObject
from lakehouse.masking import shown_text
from lakehouse.read.sink import BATCH_ROWS, Sink, transaction
from lakehouse.read.typed.avro_blocks import Block, blocks, open_container
from lakehouse.read.typed.avro_types import (
    Converter,
    Schema,
    UnsupportedType,
    arrow_type,
    converter,
    has_endless_array,
    stored_type,
    without_logical,
)
from lakehouse.read.typed.far_times import has_infinite
from lakehouse.read.typed.old_calendar import Calendar, calendar_of_spark, has_times, modern, with_leaves
from lakehouse.read.typed.rows import Rows, add_rows, typed_columns


def read_avro(sink: Sink, path: Path) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that it lacks.

    Raises UnreadableObject if it is broken, its columns are not the declared ones, or a type would lose something.
    """
    with path.open("rb") as binary, transaction(sink.con):
        with _blamed(sink):
            container = open_container(binary, path)
            schema = expand_schema(container.schema)
            endless = has_endless_array(schema)
            plain = parse_schema(without_logical(container.schema))
        if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
            raise UnreadableObject(f"the Avro file does not hold records: uri={sink.uri}")
        if endless:
            raise UnreadableObject(f"an array has items that take no bytes, so any number of them: uri={sink.uri}")
        fields = schema["fields"]
        names = [field["name"] for field in fields]
        columns = typed_columns(sink, names, lambda at: _type(sink, fields[at]), entries=True)
        calendar = calendar_of_spark(container.metadata)
        taken = [_column(fields[at], calendar, rescued=at in columns.rescued) for at in columns.positions]
        add_rows(sink, columns, _rows(sink, blocks(binary, container), plain, taken))
    return columns.missing


def _type(sink: Sink, field: Mapping[str, Any]) -> pa.DataType:
    try:
        return arrow_type(field["type"])
    except UnsupportedType as error:
        raise UnreadableObject(
            f"no column can have the type: uri={sink.uri} column={field['name']!r} type={error}"
        ) from None


def _rows(sink: Sink, found: Iterator[Block], plain: Schema, columns: Sequence[_Column]) -> Iterator[Rows]:
    with _blamed(sink):
        waiting: list[Mapping[str, Any]] = []
        for block in found:
            data = BytesIO(block.data)
            for _ in range(block.records):
                record: Any = schemaless_reader(data, plain, None)
                waiting.append(record)
            if data.read(1):
                raise ValueError("a block is longer than its records")
            if len(waiting) >= BATCH_ROWS:
                yield Rows(len(waiting), [column.array(waiting) for column in columns])
                waiting = []
        if waiting:
            yield Rows(len(waiting), [column.array(waiting) for column in columns])


class _Column(NamedTuple):
    """A field of the records on its way into an array."""

    name: str
    type: pa.DataType
    convert: Converter | None
    calendar: Calendar
    rescued: bool

    def array(self, records: Sequence[Mapping[str, Any]]) -> pa.Array[Any]:
        values = [record[self.name] for record in records]
        array: pa.Array[Any] = pa.array(map(self.convert, values) if self.convert else values, self.type)
        if not self.calendar.is_old() or not has_times(self.type):
            return array
        found: pa.Array[Any] = with_leaves(array, lambda leaf: modern(leaf, self.calendar))
        if self.rescued and has_infinite(found):
            raise ValueError(f"a time before 1900 in a zone of the writer: field={self.name!r}")
        return found


def _column(field: Mapping[str, Any], calendar: Calendar, *, rescued: bool) -> _Column:
    """What nobody declared is kept exactly or not at all: it makes no row a reject."""
    kind = stored_type(arrow_type(field["type"]), exact=rescued)
    return _Column(field["name"], kind, converter(field["type"], exact=rescued), calendar, rescued)


@contextmanager
def _blamed(sink: Sink) -> Iterator[None]:
    """What fails in here is the file's fault."""
    try:
        yield
    except (LakehouseError, GeneratorExit):
        raise
    except Exception as error:
        # fastavro promises no error of its own: bad bytes end as any of Python's, or a codec's
        if isinstance(error, OSError) and error.errno:
            raise
        text = " ".join(str(error).split())[:200]
        reason = f"{type(error).__name__}: {shown_text(text, sink.declaration)}"
        raise UnreadableObject(f"the Avro file is broken: uri={sink.uri} reason={reason}") from None
