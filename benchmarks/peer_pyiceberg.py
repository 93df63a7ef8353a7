"""Runs PyIceberg's `Table.upsert` in a process of its own, and fills the target of all peers.

    python -m benchmarks.peer_pyiceberg fill TABLE SHAPE ROWS
    python -m benchmarks.peer_pyiceberg run TABLE SHAPE KEY

Same catalog, same S3, same rows in the target as our loader's, partitioned and sorted alike. Every peer starts from
this one table. What the peer does not do (bookmark, rejects, counts, order guard, staging) is not asked of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import boto3
import pyarrow as pa
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

from benchmarks.generate import session
from benchmarks.machine import Meter
from benchmarks.rows import names, old_rows
from benchmarks.workload import BUCKET, NAMESPACE, Target

_TYPES = {
    "BIGINT": LongType(),
    "VARCHAR": StringType(),
    "DECIMAL(12,2)": DecimalType(12, 2),
    "TIMESTAMP WITH TIME ZONE": TimestamptzType(),
    "DATE": DateType(),
}


def make_target(catalog: Catalog, table: str, target: Target) -> None:
    """Create the table with the rows that our own target starts from."""
    fields = (NestedField(n, name, _TYPES[text]) for n, (name, text) in enumerate(target.columns.items(), start=1))
    schema = Schema(*fields)
    source_id = schema.find_field("input_date").field_id
    spec = PartitionSpec(PartitionField(source_id, 1000, IdentityTransform(), "input_date"))
    catalog.create_namespace_if_not_exists(NAMESPACE)
    created = catalog.create_table(table, schema=schema, partition_spec=spec, properties={"format-version": "2"})
    sql = f"select {names(target)} from ({old_rows(target, f'range(0, {target.rows}) r(i)')}) order by seq"
    created.append(session().sql(sql).to_arrow_table().cast(created.schema().as_arrow()))


def upsert(catalog: Catalog, table: str, target: Target, key: str) -> None:
    """Read the file from S3 and upsert it."""
    into = catalog.load_table(table)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "clean.csv"
        boto3.client("s3").download_file(BUCKET, key, str(local))
        rows = read_source(local, target)
    into.upsert(rows.cast(into.schema().as_arrow()), join_cols=["order_id"])


def read_source(path: Path, target: Target) -> pa.Table:
    """The rows of a peers' file, in one chunk: upsert slices row by row, which costs more the more chunks there are."""
    rows: pa.Table = (
        session()
        .sql(f"from read_csv('{path}', header = true, auto_detect = false, columns = {target.columns})")
        .to_arrow_table()
    )
    return rows.combine_chunks()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_pyiceberg", description=__doc__)
    parser.add_argument("what", choices=("fill", "run"))
    parser.add_argument("table")
    parser.add_argument("shape")
    parser.add_argument("rows_or_key", help="fill: rows of the target; run: the peers' file in the landing bucket")
    options = parser.parse_args()
    meter = Meter()
    catalog = load_catalog()
    if options.what == "fill":
        make_target(catalog, options.table, Target(options.shape, int(options.rows_or_key)))
    else:
        upsert(catalog, options.table, Target(options.shape, 0), options.rows_or_key)
    measured = meter.read()
    snapshots = len(catalog.load_table(options.table).metadata.snapshots)
    print(json.dumps({**measured, "snapshots": snapshots}))


if __name__ == "__main__":
    main()
