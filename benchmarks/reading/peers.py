"""Other ways to read the same files, each in a process of its own.

    python -m benchmarks.reading.peers PEER FOLDER PREFIX OUTPUT

copy-texts, copy-types, copy-sniffed
           DuckDB's `COPY (FROM read_csv(…)) TO …parquet` of the local files below FOLDER, with the threads that ours
           has: columns of text; the declared types; sniffed ones. A record that is then no value is dropped or bent
           without a word
boto3      list PREFIX, then one get_object after the other, Python's csv and casts to the declared types into an Arrow
           table; a record that cannot be cast is counted
obstore    list PREFIX, then the bytes alone, as many requests at once as ours sends

Prints one JSON object: seconds (`plan` is listing), peak memory, and what was found, for the check.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import boto3
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import S3Store

from benchmarks.generate import session
from benchmarks.machine import Meter
from benchmarks.workload import BUCKET, ORDERS

AT_ONCE = 8
"""Requests under way, as many as `lakehouse.landing.fetch_all` has."""
_SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("status", pa.string()),
        ("order_time", pa.timestamp("us", "UTC")),
        ("input_date", pa.date32()),
        ("note", pa.string()),
    ]
)
_CENT, _TOO_MUCH = Decimal("0.01"), Decimal(10) ** 10
_COPIES = {
    "copy-texts": f"auto_detect = false, columns = {dict.fromkeys(ORDERS, 'VARCHAR')}",
    "copy-types": f"auto_detect = false, columns = {ORDERS}, ignore_errors = true",
    "copy-sniffed": "ignore_errors = true",
}
PEERS = (*_COPIES, "boto3", "obstore")

Found = dict[str, Any]
"""`rows`, `rejected`, `sum` (of the amounts) and `bytes`, where a peer knows them, and `listing_seconds`."""


def copier(options: str, folder: Path, output: Path) -> Callable[[], Found]:
    con = session()
    files = f"read_csv('{folder}/**/*.csv', header = true, hive_partitioning = false, {options})"

    def run() -> Found:
        ((rows,),) = con.execute(f"copy (from {files}) to '{output}' (format parquet)").fetchall()
        return {"rows": rows}

    return run


def by_boto3(prefix: str) -> Found:
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"])
    start = time.perf_counter()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    listed = time.perf_counter() - start
    tables, rejected = [], 0
    for key in keys:
        text = client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()
        rows = []
        for record in _records(text):
            try:
                rows.append(_typed(*record))
            except (ValueError, InvalidOperation):
                rejected += 1
        tables.append(pa.table([*zip(*rows, strict=True)], schema=_SCHEMA))
    table = pa.concat_tables(tables)
    total = pc.sum(table["amount"]).as_py()
    return {"rows": table.num_rows, "rejected": rejected, "sum": str(total), "listing_seconds": listed}


def _records(text: str) -> Iterator[list[str]]:
    records = csv.reader(io.StringIO(text, newline=""))
    next(records)
    return records


def _typed(
    order_id: str, customer_id: str, amount: str, status: str, order_time: str, input_date: str, note: str
) -> tuple[Any, ...]:
    """The values of a record; raises ValueError or InvalidOperation."""
    value = Decimal(amount)
    if value != value.quantize(_CENT) or not -_TOO_MUCH < value < _TOO_MUCH:
        raise ValueError(amount)
    moment, day = datetime.fromisoformat(order_time), date.fromisoformat(input_date)
    return int(order_id), customer_id or None, value, status or None, moment, day, note or None


def by_obstore(prefix: str) -> Found:
    store = S3Store(BUCKET, config={"endpoint": os.environ["AWS_ENDPOINT_URL_S3"]}, client_options={"allow_http": True})
    start = time.perf_counter()
    keys = [meta["path"] for page in obstore.list(store, prefix) for meta in page]
    listed = time.perf_counter() - start
    with ThreadPoolExecutor(AT_ONCE) as pool:
        total = sum(pool.map(lambda key: len(obstore.get(store, key).bytes()), keys))
    return {"bytes": total, "listing_seconds": listed}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.peers", description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path, help="the local files")
    parser.add_argument("prefix", help="the same files in the landing bucket")
    parser.add_argument("output", type=Path, help="a Parquet file that is written")
    options = parser.parse_args()
    work: Callable[[], Found]
    if options.peer in _COPIES:
        work = copier(_COPIES[options.peer], options.folder, options.output)
    else:
        work = {"boto3": lambda: by_boto3(options.prefix), "obstore": lambda: by_obstore(options.prefix)}[options.peer]
    meter = Meter()
    found = work()
    measured = meter.read()
    steps = {"plan": found.pop("listing_seconds", 0.0), "total": measured["seconds"]}
    print(json.dumps({**measured, "receipt": {"seconds": steps}, "found": found}))


if __name__ == "__main__":
    main()
