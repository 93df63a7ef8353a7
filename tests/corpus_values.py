"""Random typed tables and the writers of every format: what others write must be read as it was meant."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.dom import minidom
from xml.etree import ElementTree
from xml.sax.saxutils import XMLGenerator

import duckdb
import fastavro
import polars
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import orc

ATOMS = [
    *"aZ09 .,;:|'\"#\\/-_<>&=%@", "é", "日本", "🙂", "\t", "NULL", "null", "NaN", "true", "007", "1e5", "\u00a0",
]  # fmt: skip
LINE_ENDS = ["\n", "\r\n", "\r"]
DECLARED = {
    "id": "long",
    "i": "int",
    "m": "decimal(12,2)",
    "w": "decimal(38,10)",
    "f": "double",
    "b": "boolean",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "z": "timestamptz",
    "u": "string",
    "x": "binary",
}
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("m", pa.decimal128(12, 2)),
        ("w", pa.decimal128(38, 10)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", tz="UTC")),
        ("u", pa.string()),
        ("x", pa.binary()),
    ]
)
Row = tuple[Any, ...]


def rows(random_: random.Random, count: int, *, atoms: Sequence[str], years: tuple[int, int]) -> list[Row]:
    """Random rows in the order of DECLARED; a value in ten is None, but for the id, which counts from 0."""

    def moment() -> datetime:
        first = datetime(years[0], 1, 1)  # noqa: DTZ001
        seconds = int((datetime(years[1], 12, 31) - first).total_seconds())  # noqa: DTZ001
        fraction = random_.choice([0, 0, 500_000, random_.randrange(1_000_000)])
        return first + timedelta(seconds=random_.randrange(seconds), microseconds=fraction)

    def number() -> float:
        found = random_.choice(
            [
                random_.uniform(-1e3, 1e3),
                float(random_.randrange(10**6)),
                random_.random() * 10 ** random_.randrange(-300, 300),
            ]
        )
        return found if math.isfinite(found) else 0.5

    makers: list[Callable[[], Any]] = [
        lambda: random_.choice([random_.randrange(-(2**31), 2**31), random_.randrange(100), 2**31 - 1]),
        lambda: Decimal(random_.randrange(-(10**12) + 1, 10**12)).scaleb(-2),
        lambda: Decimal(random_.randrange(-(10**27), 10**27)).scaleb(-10),
        number,
        lambda: random_.random() < 0.5,
        lambda: "".join(random_.choices(atoms, k=random_.randrange(1, 6))),
        lambda: moment().date(),
        moment,
        lambda: moment().replace(tzinfo=UTC),
        lambda: str(uuid.UUID(int=random_.getrandbits(128))),
        lambda: random_.randbytes(random_.randrange(1, 9)),
    ]
    return [(i, *(None if random_.random() < 0.1 else make() for make in makers)) for i in range(count)]


def table(values: Sequence[Row]) -> pa.Table:
    columns = zip(*values, strict=True) if values else [[] for _ in ARROW]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW)


def hexed(given: pa.Table) -> pa.Table:
    """The same with binary values as hex texts."""
    texts = [None if v is None else v.hex() for v in given["x"].to_pylist()]
    return given.set_column(given.schema.get_field_index("x"), "x", pa.array(texts, pa.string()))


@dataclass(frozen=True)
class Writer:
    """Writes a table in a format, which is declared like this. It cannot write the columns `without`."""

    format: dict[str, Any]
    write: Callable[[pa.Table], bytes]
    without: tuple[str, ...] = ()
    atoms: tuple[str, ...] = (*ATOMS, *LINE_ENDS)
    years: tuple[int, int] = (1, 9999)


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case bytes():
            return value.hex()
        case datetime() | date():
            return value.isoformat()
        case _:
            return str(value)


def csv_of_python(given: pa.Table) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(given.column_names)
    writer.writerows(["" if v is None else _text(v) for v in row.values()] for row in given.to_pylist())
    return file.getvalue().encode()


def copied_by_duckdb(given: pa.Table, options: str, path: Path) -> bytes:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("given", given)
        con.execute(f"COPY given TO '{path}' ({options})")
    return path.read_bytes()


def csv_of_arrow(given: pa.Table) -> bytes:
    file = io.BytesIO()
    pa_csv.write_csv(hexed(given), file)
    return file.getvalue()


def csv_of_polars(given: pa.Table) -> bytes:
    file = io.BytesIO()
    polars.from_arrow(hexed(given)).write_csv(file)
    return file.getvalue()


def jsonl_of_python(given: pa.Table) -> bytes:
    lines = []
    for row in given.to_pylist():
        texts = {
            name: value if isinstance(value, (bool, int, float, str)) or value is None else _text(value)
            for name, value in row.items()
        }
        lines.append(json.dumps(texts, ensure_ascii=len(lines) % 2 == 0))
    return "\n".join(lines).encode()


def json_of_python(given: pa.Table) -> bytes:
    return b'{"data": [' + jsonl_of_python(given).replace(b"\n", b",\n ") + b"]}"


def json_of_polars(given: pa.Table) -> bytes:
    file = io.BytesIO()
    polars.from_arrow(hexed(given)).write_json(file)
    return file.getvalue()


def jsonl_of_polars(given: pa.Table) -> bytes:
    file = io.BytesIO()
    polars.from_arrow(hexed(given)).write_ndjson(file)
    return file.getvalue()


def parquet_of_arrow(given: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(given, file, row_group_size=1000)
    return file.getvalue()


def parquet_of_polars(given: pa.Table) -> bytes:
    file = io.BytesIO()
    polars.from_arrow(given).write_parquet(file, row_group_size=1000)
    return file.getvalue()


def orc_of_arrow(given: pa.Table) -> bytes:
    file = io.BytesIO()
    orc.write_table(given, file)
    return file.getvalue()


_AVRO: dict[str, Any] = {
    "id": "long",
    "i": "int",
    "m": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "w": {"type": "fixed", "name": "w16", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10},
    "f": "double",
    "b": "boolean",
    "s": "string",
    "d": {"type": "int", "logicalType": "date"},
    "t": {"type": "long", "logicalType": "local-timestamp-micros"},
    "z": {"type": "long", "logicalType": "timestamp-micros"},
    "u": "string",
    "x": "bytes",
}


def avro_of_fastavro(codec: str) -> Callable[[pa.Table], bytes]:
    def write(given: pa.Table) -> bytes:
        fields = [{"name": name, "type": ["null", _AVRO[name]]} for name in given.column_names]
        file = io.BytesIO()
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, given.to_pylist(), codec=codec)
        return file.getvalue()

    return write


def avro_of_polars(given: pa.Table) -> bytes:
    file = io.BytesIO()
    polars.from_arrow(given).write_avro(file)
    return file.getvalue()


def xml_of_elementtree(given: pa.Table) -> bytes:
    root = ElementTree.Element("all")
    for row in given.to_pylist():
        record = ElementTree.SubElement(root, "r")
        for name, value in row.items():
            if value is not None:
                ElementTree.SubElement(record, name).text = _text(value)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def xml_of_minidom(given: pa.Table) -> bytes:
    document = minidom.Document()
    root = document.appendChild(document.createElement("all"))
    for row in given.to_pylist():
        record = root.appendChild(document.createElement("r"))
        for name, value in row.items():
            element = record.appendChild(document.createElement(name))
            if value is not None:
                element.appendChild(document.createTextNode(_text(value)))
    return document.toxml(encoding="utf-8")


def xml_of_sax(given: pa.Table) -> bytes:
    file = io.BytesIO()
    writer = XMLGenerator(file, encoding="utf-8", short_empty_elements=True)
    writer.startDocument()
    writer.startElement("all", {})
    for row in given.to_pylist():
        writer.startElement("r", {})
        writer.ignorableWhitespace("\n  ")
        for name, value in row.items():
            writer.startElement(name, {} if value is not None else {"xsi:nil": "true"})
            writer.characters("" if value is None else _text(value))
            writer.endElement(name)
        writer.endElement("r")
    writer.endElement("all")
    writer.endDocument()
    return file.getvalue()
