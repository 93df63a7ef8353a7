"""Runs PyIceberg's `Table.upsert` in a process of its own.

    python -m benchmarks.peer_pyiceberg TABLE FOLDER URI first|timed

Same catalog, same S3, same rows in the target, same file as our loader. `upsert` refuses duplicates and NULL keys, so
the file is read and cleaned by DuckDB first, as a user of PyIceberg would have to; that takes a small part of the time
and counts, because for us it counts too. What the peer does not do (bookmark, rejects, counts, order guard, staging)
is not asked of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from benchmarks.machine import Meter
from benchmarks.workload import COLUMNS, NAMESPACE, Dataset

_TYPES = {
    "BIGINT": LongType(),
    "VARCHAR": StringType(),
    "DECIMAL(12,2)": DecimalType(12, 2),
    "TIMESTAMP WITH TIME ZONE": TimestamptzType(),
    "DATE": DateType(),
}


def make_target(catalog: Catalog, table: str, dataset: Dataset) -> None:
    """Create the table with the rows that our own target starts from, partitioned and sorted alike."""
    fields = (NestedField(n, name, _TYPES[text]) for n, (name, text) in enumerate(COLUMNS.items(), start=1))
    schema = Schema(*fields)
    source_id = schema.find_field("input_date").field_id
    spec = PartitionSpec(PartitionField(source_id, 1000, IdentityTransform(), "input_date"))
    catalog.create_namespace_if_not_exists(NAMESPACE)
    target = catalog.create_table(table, schema=schema, partition_spec=spec)
    rows = pq.read_table(dataset.target, columns=list(COLUMNS))
    target.append(rows.cast(target.schema().as_arrow()))


def upsert(catalog: Catalog, table: str, uri: str) -> None:
    """Read the file from S3, clean it, upsert it."""
    target = catalog.load_table(table)
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "source.csv"
        boto3.client("s3").download_file(bucket, key, str(local))
        rows = read_source(local)
    target.upsert(rows.cast(target.schema().as_arrow()), join_cols=["order_id"])


def read_source(path: Path) -> pa.Table:
    """The good rows of a file, the newest of each key."""
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    casts = ", ".join(f"{name}::{text} as {name}" for name, text in COLUMNS.items())
    rows: pa.Table = con.sql(
        f"""select {casts} from (
            select *, row_number() over () as line from read_csv('{path}', header = true, all_varchar = true))
        where order_id is not null
            and regexp_full_match(amount, '\\d{{1,10}}(\\.\\d{{1,2}})?')
        qualify row_number() over (
            partition by order_id order by order_time::timestamptz desc, line desc) = 1"""
    ).to_arrow_table()
    return rows.combine_chunks()  # upsert slices row by row, which costs more the more chunks there are


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_pyiceberg", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("folder", type=Path, help="what the generator made")
    parser.add_argument("uri", help="the file of the new day")
    parser.add_argument("part", choices=("first", "timed"))
    arguments = parser.parse_args()
    meter = Meter()
    catalog = load_catalog()
    if arguments.part == "first":
        make_target(catalog, arguments.table, Dataset(arguments.folder))
    else:
        upsert(catalog, arguments.table, arguments.uri)
    measured = meter.read()
    snapshots = len(catalog.load_table(arguments.table).metadata.snapshots)
    print(json.dumps({**measured, "snapshots": snapshots}))


if __name__ == "__main__":
    main()
