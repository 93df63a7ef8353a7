"""Small files of Spark 3.5 in `tests/samples/`, so that what it writes is read in tests without Spark.

`python -m tests.spark_samples` writes them again. Each has the rows of `ROWS` that its format holds.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.readers.reader import SparkReader
from tests.spark_corpus import CORRECTED, INSTANT, LEGACY, NAIVE, int96

SAMPLES = Path(__file__).parent / "samples"
MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "0001-01-01T00:00:00", "1000-02-28T12:00:00.000001", "1582-10-04T23:59:59.999999", "1582-10-15T00:00:00",
        "1850-06-01T12:00:00", "1900-01-02T00:00:00", "1969-12-31T23:59:58.5", "1969-12-31T23:59:59.000999",
        "1970-01-01T00:00:00.5", "1970-01-01T04:59:59.5", "2020-03-29T01:00:00", "2020-10-25T00:30:00",
        "2020-10-25T01:30:00", "9999-12-31T23:59:59.999999",
    )
]  # fmt: skip
COLUMNS = {
    "id": "long",
    "d": "date",
    "t": "timestamp",
    "z": "timestamptz",
    "n": "struct<z: timestamptz, d: date>",
    "m": "map<string, date>",
    "l": "list<timestamp>",
}


@dataclass(frozen=True)
class Sample:
    """How Spark wrote a file, of the moments between two years (of which the first and last dates are always there)."""

    format: str
    zone: str
    settings: Mapping[str, str]
    years: tuple[int, int] = (1, 9999)
    without: tuple[str, ...] = ()


FILES = {
    "spark-int96.parquet": Sample("parquet", "Europe/Berlin", CORRECTED | int96(True)),
    "spark-int96-legacy.parquet": Sample("parquet", "UTC", LEGACY | int96(True)),
    "spark-micros-legacy.parquet": Sample("parquet", "Europe/Berlin", LEGACY | int96(False)),
    "spark.avro": Sample("avro", "Europe/Berlin", CORRECTED),
    "spark-legacy.avro": Sample("avro", "UTC", LEGACY),
    "spark-native.orc": Sample("orc", "Europe/Berlin", {"spark.sql.orc.impl": "native"}, (1678, 2261)),
    "spark-hive.orc": Sample("orc", "America/New_York", {"spark.sql.orc.impl": "hive"}, (1678, 2261), ("t", "l")),
}


def rows(sample: Sample) -> list[dict[str, object]]:
    """What Spark was given. Dates are of all moments, timestamps those that the format holds, else none."""
    first, last = sample.years
    found = []
    for number, moment in enumerate(MOMENTS):
        naive = moment if first <= moment.year <= last else None
        instant = naive and naive.replace(tzinfo=UTC)
        day = moment.date()
        row = {
            "id": number,
            "d": day,
            "t": naive,
            "z": instant,
            "n": {"z": instant, "d": day},
            "m": {"a": day, "b": None},
            "l": [naive, None],
        }
        found.append({name: value for name, value in row.items() if name not in sample.without})
    return found


def table(sample: Sample) -> pa.Table:
    kinds = {
        "id": pa.int64(),
        "d": pa.date32(),
        "t": NAIVE,
        "z": INSTANT,
        "n": pa.struct([("z", INSTANT), ("d", pa.date32())]),
        "m": pa.map_(pa.string(), pa.date32()),
        "l": pa.list_(NAIVE),
    }
    given = [{**row, "m": list(dict(row["m"]).items())} for row in rows(sample)]  # type: ignore[call-overload]
    return pa.Table.from_pylist(given, pa.schema([(name, kinds[name]) for name in given[0]]))


def write_all() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = SparkReader(folder / "spark")
        try:
            for file, sample in FILES.items():
                pq.write_table(table(sample), folder / "given.parquet")
                written = spark.write(
                    folder / "given.parquet",
                    folder / "written",
                    format=sample.format,
                    zone=sample.zone,
                    settings=sample.settings,
                )
                shutil.copyfile(written, SAMPLES / file)
        finally:
            spark.close()


if __name__ == "__main__":
    write_all()
