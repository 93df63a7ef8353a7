"""The same records as a file of every format. A record is a tuple of values in order of the names, or its own bytes.

Texts and None stand in every format; a number is a number where the format knows one and its text elsewhere.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

Record = tuple[Any, ...] | bytes
TEXT = ("csv", "jsonl", "json", "xml")
TYPED = ("parquet", "orc", "avro")
ALL = (*TEXT, *TYPED)
OPTIONS: dict[str, dict[str, Any]] = {"xml": {"row_element": "r"}}
FIRST_LINE = {"csv": 2, "jsonl": 1, "json": 2, "xml": 2} | dict.fromkeys(TYPED, 1)
"""The line of the first record."""
Types = Mapping[str, pa.DataType]


def render(format: str, names: Sequence[str], records: Sequence[Record], types: Types | None = None) -> bytes:
    """A file with one record per line. `types` of the typed formats; a column without one is a string."""
    return _WRITERS[format](names, records, types or {})


def _csv(names: Sequence[str], records: Sequence[Record], _: Types) -> bytes:
    return b"".join(line + b"\n" for line in [_csv_record(tuple(names)), *map(_csv_record, records)])


def _csv_record(record: Record) -> bytes:
    return record if isinstance(record, bytes) else ",".join(map(_field, record)).encode()


def _field(value: Any) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def _objects(names: Sequence[str], records: Sequence[Record]) -> list[bytes]:
    return [r if isinstance(r, bytes) else _object(names, r) for r in records]


def _object(names: Sequence[str], record: tuple[Any, ...]) -> bytes:
    fields = zip(names, record, strict=False)
    return ("{" + ", ".join(f"{json.dumps(name)}: {_json(value)}" for name, value in fields) + "}").encode()


def _json(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _jsonl(names: Sequence[str], records: Sequence[Record], _: Types) -> bytes:
    return b"".join(line + b"\n" for line in _objects(names, records))


def _document(names: Sequence[str], records: Sequence[Record], _: Types) -> bytes:
    return b"[\n" + b",\n".join(_objects(names, records)) + b"\n]\n"


def _xml(names: Sequence[str], records: Sequence[Record], _: Types) -> bytes:
    lines = [r if isinstance(r, bytes) else _element(names, r) for r in records]
    return b"".join(line + b"\n" for line in [b"<all>", *lines, b"</all>"])


def _element(names: Sequence[str], record: tuple[Any, ...]) -> bytes:
    fields = [(n, v) for n, v in zip(names, record, strict=False) if v is not None]
    return ("<r>" + "".join(_child(name, value) for name, value in fields) + "</r>").encode()


def _child(name: str, value: Any) -> str:
    inner = (
        "".join(_child(*field) for field in value.items() if field[1] is not None) if isinstance(value, dict) else ""
    )
    return f"<{name}>{inner or escape(str(value))}</{name}>"


def _table(names: Sequence[str], records: Sequence[Record], types: Types) -> pa.Table:
    columns = [*zip(*records, strict=True)] if records else [()] * len(names)
    arrays = [pa.array([*column], types.get(name, pa.string())) for name, column in zip(names, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=[*names])


def _parquet(names: Sequence[str], records: Sequence[Record], types: Types) -> bytes:
    file = io.BytesIO()
    pq.write_table(_table(names, records, types), file, row_group_size=1000)
    return file.getvalue()


def _orc(names: Sequence[str], records: Sequence[Record], types: Types) -> bytes:
    file = io.BytesIO()
    orc.write_table(_table(names, records, types), file)
    return file.getvalue()


def _avro(names: Sequence[str], records: Sequence[Record], types: Types) -> bytes:
    kinds = [_avro_type(types.get(name, pa.string()), name) for name in names]
    fields = [{"name": n, "type": k if k == "null" else ["null", k]} for n, k in zip(names, kinds, strict=True)]
    file = io.BytesIO()
    fastavro.writer(
        file,
        {"type": "record", "name": "r", "fields": fields},
        [dict(zip(names, record, strict=True)) for record in records],
    )
    return file.getvalue()


def _avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": ["null", _avro_type(f.type, f.name)]} for f in kind]
        return {"type": "record", "name": f"{name}_record", "fields": fields}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return {
        pa.null(): "null",
        pa.string(): "string",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float64(): "double",
        pa.date32(): {"type": "int", "logicalType": "date"},
    }[kind]


_WRITERS: dict[str, Callable[[Sequence[str], Sequence[Record], Types], bytes]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _document,
    "xml": _xml,
    "parquet": _parquet,
    "orc": _orc,
    "avro": _avro,
}
