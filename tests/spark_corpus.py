"""Random tables of every type that Spark can write, the ways in which it writes them, and what each of them means.

Spark's values are what a query of Spark shows; what a writer itself changes is told by `SparkWriter.dates` and
`SparkWriter.instants`, and nothing else may differ.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tests.corpus_values import ATOMS, LINE_ENDS
from tests.readers.canonical import canonical
from tests.readers.reader import SparkReader

NAIVE, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "0001-01-01T00:00:00", "1000-02-28T23:59:59.999999", "1582-10-04T23:59:59.999999", "1582-10-15T00:00:00",
        "1677-12-31T23:59:59.000001", "1883-11-18T17:00:00", "1893-03-31T23:06:32", "1899-12-31T23:59:59.999999",
        "1900-01-01T00:00:00", "1900-03-01T00:00:00.5", "1937-06-30T22:40:28", "1969-12-31T23:59:58.5",
        "1969-12-31T23:59:59", "1969-12-31T23:59:59.000999", "1969-12-31T23:59:59.001", "1969-12-31T23:59:59.999999",
        "1970-01-01T00:00:00", "1970-01-01T00:00:00.000999", "1970-01-01T00:00:00.001", "1970-01-01T04:59:59.5",
        "2020-03-29T00:59:59.999999", "2020-03-29T01:00:00", "2020-10-25T00:30:00", "2020-10-25T01:30:00",
        "2020-03-08T07:00:00", "2020-11-01T05:30:00", "2020-11-01T06:30:00", "2015-01-01T00:00:00",
        "2038-01-19T03:14:08", "2261-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999",
    )
]  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 1e-45, 3.4e38]
_EXACT = Context(prec=100)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GREGORIAN = date(1582, 10, 15)
LEGACY = {
    f"spark.sql.{name}RebaseModeInWrite": "LEGACY" for name in ("parquet.datetime", "parquet.int96", "avro.datetime")
}
CORRECTED = dict.fromkeys(LEGACY, "CORRECTED")
HIVE_SHAPES = {"spark.sql.parquet.writeLegacyFormat": "true"}


def int96(yes: bool) -> dict[str, str]:
    return {
        "spark.sql.parquet.outputTimestampType": "INT96" if yes else "TIMESTAMP_MICROS",
        "spark.sql.parquet.writeLegacyFormat": "false",
    }


@dataclass(frozen=True)
class SparkWriter:
    """How Spark writes: as which format, in which zone. `first` and `last` bound its timestamps."""

    format: dict[str, Any]
    zone: str
    settings: Mapping[str, str]
    compression: str = "snappy"
    first: datetime = datetime(1, 1, 1)  # noqa: DTZ001
    last: datetime = datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    without: tuple[str, ...] = ()
    dates: Callable[[date], date] = lambda value: value
    instants: Callable[[datetime], datetime] = lambda value: value

    def write(self, spark: SparkReader, given: pa.Table, folder: Path) -> bytes:
        pq.write_table(given, folder / "given.parquet")
        kind = self.format["type"]
        path = spark.write(
            folder / "given.parquet",
            folder / "written",
            format=kind,
            zone=self.zone,
            settings=self.settings,
            options={"compression": self.compression},
        )
        return path.read_bytes()


def in_old_calendar(value: date) -> date:
    """The old calendar has no days between 1582-10-04 and 1582-10-15: Spark moves them to its end."""
    return GREGORIAN if date(1582, 10, 4) < value < GREGORIAN else value


def instant_in_old_calendar(value: datetime) -> datetime:
    """The same of times in UTC."""
    return datetime.combine(in_old_calendar(value.date()), value.timetz())


def shown_by_clock(zone: str) -> Callable[[datetime], datetime]:
    """ORC keeps what the clock of a zone showed, which is declared: of an hour shown twice, the later one is read.

    Java's writer makes the last second before 1970 the first one after it, but for times within its first millisecond.
    """

    def meant(value: datetime) -> datetime:
        if timedelta(seconds=-1) < value - EPOCH < timedelta() and value.microsecond > 999:
            value += timedelta(seconds=1)
        shown = value.astimezone(ZoneInfo(zone))
        return shown.replace(fold=1).astimezone(UTC)

    return meant


def orc(impl: str, zone: str, first: int, **more: Any) -> SparkWriter:
    """Nanoseconds bound what ORC can hold."""
    return SparkWriter(
        {"type": "orc", "timezone": zone},
        zone,
        {"spark.sql.orc.impl": impl},
        first=datetime(first, 1, 2),  # noqa: DTZ001
        last=datetime(2261, 12, 31),  # noqa: DTZ001
        instants=shown_by_clock(zone),
        **more,
    )


PARQUET, AVRO = {"type": "parquet"}, {"type": "avro"}
OLD: dict[str, Any] = {"dates": in_old_calendar, "instants": instant_in_old_calendar}
FROM_1900: dict[str, Any] = {"first": datetime(1900, 1, 1), "dates": in_old_calendar}  # noqa: DTZ001
WRITERS = {
    "parquet spark int96": SparkWriter(PARQUET, "America/New_York", CORRECTED | int96(True)),
    "parquet spark micros": SparkWriter(PARQUET, "Europe/Berlin", CORRECTED | int96(False), "zstd"),
    "parquet spark int96 legacy": SparkWriter(PARQUET, "UTC", LEGACY | int96(True) | HIVE_SHAPES, "gzip", **OLD),
    "parquet spark micros legacy": SparkWriter(PARQUET, "Asia/Kolkata", LEGACY | int96(False), **FROM_1900),
    "orc spark native": orc("native", "Europe/Berlin", 1900),
    "orc spark native utc": orc("native", "UTC", 1678, compression="zlib"),
    "orc spark hive": orc("hive", "America/New_York", 1900, without=("t", "lt")),
    "avro spark": SparkWriter(AVRO, "Australia/Lord_Howe", CORRECTED),
    "avro spark legacy": SparkWriter(AVRO, "UTC", LEGACY, "deflate", **OLD),
}


@dataclass(frozen=True)
class Corpus:
    """Columns by name, each with its declared type and that of Arrow."""

    columns: dict[str, tuple[str, Any]]
    values: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def declared(self) -> dict[str, str]:
        return {name: declared for name, (declared, _) in self.columns.items()}

    @property
    def table(self) -> pa.Table:
        arrays = [
            pa.array([_for_arrow(v, kind) for v in values], kind)
            for values, (_, kind) in zip(zip(*self.values, strict=True), self.columns.values(), strict=True)
        ]
        return pa.table(dict(zip(self.columns, arrays, strict=True)))

    def meant(self, writer: SparkWriter) -> list[list[Any]]:
        """What is to be read, in canonical form."""
        kinds = [kind for _, kind in self.columns.values()]
        return [
            [canonical(_meant(value, kind, writer)) for value, kind in zip(row, kinds, strict=True)]
            for row in self.values
        ]


def columns(random_: random.Random) -> dict[str, tuple[str, Any]]:
    """Every type of Iceberg's that Spark has, decimals of all precisions at random scales."""
    found: dict[str, tuple[str, Any]] = {
        "id": ("long", pa.int64()),
        "b": ("boolean", pa.bool_()),
        "y": ("int", pa.int8()),
        "h": ("int", pa.int16()),
        "i": ("int", pa.int32()),
        "l": ("long", pa.int64()),
        "f": ("float", pa.float32()),
        "g": ("double", pa.float64()),
        "s": ("string", pa.string()),
        "x": ("binary", pa.binary()),
        "q": ("fixed[4]", pa.binary(4)),
        "d": ("date", pa.date32()),
        "t": ("timestamp", NAIVE),
        "z": ("timestamptz", INSTANT),
        "st": (
            "struct<a: int, s: string, d: date, z: timestamptz, m: decimal(20,5)>",
            pa.struct(
                [("a", pa.int32()), ("s", pa.string()), ("d", pa.date32()), ("z", INSTANT), ("m", pa.decimal128(20, 5))]
            ),
        ),
        "ld": ("list<date>", pa.list_(pa.date32())),
        "lt": ("list<timestamp>", pa.list_(NAIVE)),
        "ls": (
            "list<struct<z: timestamptz, x: binary>>",
            pa.list_(pa.struct([("z", INSTANT), ("x", pa.binary())])),
        ),
        "md": ("map<string, date>", pa.map_(pa.string(), pa.date32())),
        "mz": ("map<string, timestamptz>", pa.map_(pa.string(), INSTANT)),
        "ml": ("map<string, list<long>>", pa.map_(pa.string(), pa.list_(pa.int64()))),
    }
    for precision in range(1, 39):
        scale = random_.choice([0, precision, random_.randrange(precision + 1)])
        found[f"p{precision}"] = (f"decimal({precision},{scale})", pa.decimal128(precision, scale))
    return found


def made(random_: random.Random, count: int, writer: SparkWriter) -> Corpus:
    """A random table; a value in ten is None, at every depth, but for the id, which counts from 0."""
    chosen = {name: kind for name, kind in columns(random_).items() if name not in writer.without}
    _, *kinds = (kind for _, kind in chosen.values())
    rows = [(i, *(_value(random_, kind, writer) for kind in kinds)) for i in range(count)]
    return Corpus(chosen, rows)


def _value(random_: random.Random, kind: Any, writer: SparkWriter) -> Any:
    if random_.random() < 0.1:
        return None
    if types.is_struct(kind):
        return {part.name: _value(random_, part.type, writer) for part in kind.fields}
    if types.is_list(kind):
        return [_value(random_, kind.value_type, writer) for _ in range(random_.choice([0, 1, 3]))]
    if types.is_map(kind):
        keys = {_text(random_) for _ in range(random_.choice([0, 1, 3]))}
        return {key: _value(random_, kind.item_type, writer) for key in sorted(keys)}
    return _single(random_, kind, writer)


def _single(random_: random.Random, kind: Any, writer: SparkWriter) -> Any:
    if types.is_boolean(kind):
        return random_.random() < 0.5
    if types.is_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return random_.choice([-most, most - 1, 0, random_.randrange(-most, most)])
    if types.is_floating(kind):
        value = random_.choice([random_.choice(FLOATS), random_.uniform(-1e3, 1e3)])
        return value if kind.bit_width == 64 else struct.unpack("f", struct.pack("f", value))[0]
    if types.is_decimal(kind):
        digits = random_.choice([kind.precision, kind.precision, random_.randrange(kind.precision) + 1])
        return Decimal(random_.choice([-1, 1]) * random_.randrange(10**digits)).scaleb(-kind.scale, _EXACT)
    if types.is_string(kind):
        return _text(random_)
    if types.is_fixed_size_binary(kind):
        return random_.randbytes(kind.byte_width)
    if types.is_binary(kind):
        return random_.randbytes(random_.randrange(9))
    if types.is_date(kind):
        if random_.random() < 0.2:
            return random_.choice(MOMENTS).date()
        return date.fromordinal(random_.randrange(1, date.max.toordinal() + 1))
    return _moment(random_, writer).replace(tzinfo=UTC if kind.tz else None)


def _moment(random_: random.Random, writer: SparkWriter) -> datetime:
    if random_.random() < 0.2:
        found = random_.choice(MOMENTS)
        if writer.first <= found <= writer.last:
            return found
    seconds = int((writer.last - writer.first).total_seconds())
    fraction = random_.choice([0, 0, 500_000, random_.randrange(1_000_000)])
    return writer.first + timedelta(seconds=random_.randrange(seconds), microseconds=fraction)


def _text(random_: random.Random) -> str:
    return "".join(random_.choices([*ATOMS, *LINE_ENDS], k=random_.randrange(6)))


def _for_arrow(value: Any, kind: Any) -> Any:
    if value is None or not types.is_map(kind):
        return value
    return list(value.items())


def _meant(value: Any, kind: Any, writer: SparkWriter) -> Any:
    if value is None:
        return None
    if types.is_struct(kind):
        return {part.name: _meant(value[part.name], part.type, writer) for part in kind.fields}
    if types.is_list(kind):
        return [_meant(item, kind.value_type, writer) for item in value]
    if types.is_map(kind):
        return {key: _meant(item, kind.item_type, writer) for key, item in value.items()}
    if types.is_date(kind):
        return writer.dates(value)
    return writer.instants(value) if kind == INSTANT else value
