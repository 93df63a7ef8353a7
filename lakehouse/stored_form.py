"""The stored form that manifests and checkpoints share: Parquet with one row per object, all else as JSON in a footer.

Owns the numbers of the formats, and how objects and times are kept. The same value always gives the same bytes. Never
reads or writes storage: that is `lakehouse.state`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.model import LandingObject, ObjectOutcome, SeenObject

MANIFEST = "manifest"
CHECKPOINT = "checkpoint"
PART = "part of a checkpoint"
FORMATS = {MANIFEST: 2, CHECKPOINT: 3, PART: 1}
"""The formats that are written. A change of columns or of the header's meaning is another number."""

_FORMAT_KEY = "lakehouse.format"
_CONTENT_KEY = "lakehouse.content"
_HEADER_KEY = "lakehouse.header"

_ROW_GROUP = 50_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME = pa.timestamp("us", tz="UTC")

OBJECT_FIELDS: list[tuple[str, pa.DataType]] = [
    ("landing_date", pa.date32()),
    ("uri", pa.string()),
    ("etag", pa.string()),
    ("version_id", pa.string()),
    ("size", pa.int64()),
    ("last_modified", _TIME),
    ("decision", pa.string()),
    ("reason", pa.string()),
    ("first_seen", _TIME),
]

_Item = TypeVar("_Item", ObjectOutcome, SeenObject)
_Value = TypeVar("_Value")


def encode_table(table: pa.Table, *, content: str, header: Mapping[str, Any]) -> bytes:
    """The rows as Parquet, with what kind of content they are, its format and its header."""
    text = json.dumps(header, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        writer.add_key_value_metadata({_FORMAT_KEY: str(FORMATS[content]), _CONTENT_KEY: content, _HEADER_KEY: text})
        writer.write_table(table, row_group_size=_ROW_GROUP)
    return sink.getvalue().to_pybytes()


def table_of(columns: Mapping[str, list[Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)


def decode_table(
    data: bytes,
    content: str,
    build: Callable[[pa.Table, dict[str, Any], int], _Value],
    *,
    columns: list[str] | None = None,
) -> _Value:
    """Read what `encode_table` wrote, of this or an older format: `build` gets rows, header and format.

    Raises NotAvailable for a format newer than this lakehouse, DataError for bytes that are no such content.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        stored = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
        format = _check_format(stored, content)
        return build(file.read(columns), json.loads(stored[_HEADER_KEY]), format)
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
        raise DataError(f"not a {content} of format {FORMATS[content]}: {error!r}") from error


def _check_format(stored: Mapping[str, str], content: str) -> int:
    version, found = int(stored.get(_FORMAT_KEY, "0")), stored.get(_CONTENT_KEY, "")
    if version > FORMATS.get(found, FORMATS[content]):
        raise NotAvailable(
            f"a newer lakehouse wrote this {found or content}: format={version}, this one reads up to "
            f"format={FORMATS[content]}; upgrade lakehouse"
        )
    if version < 1 or found != content:
        raise DataError(f"not a {content} of lakehouse: format={version} content={found or None}")
    return version


def object_columns(items: Sequence[_Item]) -> dict[str, list[Any]]:
    return {
        "landing_date": [item.landing_date for item in items],
        "uri": [item.object.uri for item in items],
        "etag": [item.object.etag for item in items],
        "version_id": [item.object.version_id for item in items],
        "size": [item.object.size for item in items],
        "last_modified": [_micros(item.object.last_modified) for item in items],
        "decision": [item.decision.value for item in items],
        "reason": [item.reason for item in items],
        "first_seen": [_micros(item.first_seen) for item in items],
    }


def read_objects(table: pa.Table) -> Iterable[LandingObject]:
    return map(
        LandingObject,
        read_column(table, "uri"),
        read_column(table, "etag"),
        read_column(table, "size"),
        read_times(table, "last_modified"),
        read_column(table, "version_id"),
    )


def read_column(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()


def read_repeated(table: pa.Table, name: str) -> list[Any]:
    """As `read_column`, for a column of few values: each is made once."""
    encoded = table.column(name).combine_chunks().dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return [values[-1 if place is None else place] for place in encoded.indices.to_pylist()]


def read_times(table: pa.Table, name: str) -> list[datetime]:
    encoded = table.column(name).cast(pa.int64()).combine_chunks().dictionary_encode()
    distinct: list[Any] = encoded.dictionary.to_pylist()
    places: list[Any] = encoded.indices.to_pylist()
    moments = [_EPOCH + timedelta(microseconds=value) for value in distinct]
    return [moments[place] for place in places]


def moment_text(moment: datetime | None) -> str | None:
    """ISO, in UTC, to the microsecond."""
    return None if moment is None else (_EPOCH + _micros(moment) * _MICROSECOND).isoformat()


def _micros(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise LakehouseError(f"a stored time needs a zone: {moment.isoformat()}")
    return (moment - _EPOCH) // _MICROSECOND
