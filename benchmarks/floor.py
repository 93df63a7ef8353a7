"""The least that each large step of a load can cost: the bare work, without checks, lineage, order guard or counts.

    python -m benchmarks.floor FOLDER KEY

read     fetching the same bytes from S3 with obstore, in parallel ranges, into a file
stage    DuckDB turning the same file into one Parquet file
merge    DuckDB joining the batch with all keys of the updated days, and writing the same rows as Parquet by day
plan     one listing of the landing folder and one load of a table
publish  one commit to a table
ledger   a load of a table and a commit for each of the four tables of the ledger

Prints one JSON object: seconds by step. Yardsticks, not peers: none of them does the work.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from benchmarks.checker import Expected, read_expected
from benchmarks.generate import session
from benchmarks.rows import old_rows
from benchmarks.workload import BUCKET, NAMESPACE, Batch, updated_days

if TYPE_CHECKING:
    from obstore.store import S3Config

_RANGE = 16 << 20
_LEDGER_TABLES = 4


def fetch(store: S3Store, key: str, path: Path) -> None:
    """Write an object to a file, ranges in parallel."""
    size = obstore.head(store, key)["size"]
    starts = range(0, size, _RANGE)
    with path.open("wb") as file, ThreadPoolExecutor(8) as pool:
        for part in pool.map(lambda at: obstore.get_range(store, key, start=at, end=min(at + _RANGE, size)), starts):
            file.write(part)


def convert(source: Path, target: Path, columns: dict[str, str]) -> None:
    """Cast every column of a CSV file with a header and write Parquet; rows that cannot be cast are dropped."""
    session().execute(
        f"""copy (from read_csv('{source}', header = true, columns = {columns}, auto_detect = false,
            ignore_errors = true)) to '{target}' (format parquet)"""
    )


def prepare_merge(expected: Expected, folder: Path) -> Callable[[], None]:
    """Lay ready what a merge finds: the batch in a table, the keys of the updated days in a file. Gives the merge."""
    days = updated_days(Batch(**expected.counts["made"]["batch"]))
    first, stop = expected.target.first_row(days[0]), expected.target.rows
    con = session()
    keys = f"select order_id, seq from ({old_rows(expected.target, f'range({first}, {stop}) r(i)')})"
    con.execute(f"copy ({keys}) to '{folder}/keys.parquet' (format parquet, compression zstd)")
    con.execute(f"create temp table staged as from '{expected.dataset.changes}'")

    def merge() -> None:
        con.execute(
            f"""create temp table hits as
                select s.order_id, k.seq from '{folder}/keys.parquet' k join staged s using (order_id)"""
        )
        con.execute(
            f"""copy (from staged order by input_date, order_id) to '{folder}/written'
                (format parquet, compression zstd, partition_by (input_date))"""
        )

    return merge


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - start


def measure(expected: Expected, key: str, folder: Path) -> dict[str, float]:
    """Seconds of each floor, by step."""
    seconds: dict[str, float] = {}
    store = S3Store(BUCKET, config=_s3(), client_options={"allow_http": True})
    with _timed(seconds, "read"):
        fetch(store, key, folder / "fetched.csv")
    with _timed(seconds, "stage"):
        convert(folder / "fetched.csv", folder / "staged.parquet", expected.target.columns)
    merge = prepare_merge(expected, folder)
    with _timed(seconds, "merge"):
        merge()
    catalog, name = load_catalog(), f"{NAMESPACE}.floor"
    catalog.create_namespace_if_not_exists(NAMESPACE)
    table = catalog.create_table(name, Schema(NestedField(1, "n", LongType())))
    with _timed(seconds, "plan"):
        list(obstore.list(store, expected.target.prefix))
        catalog.load_table(name)
    with _timed(seconds, "publish"):
        table.transaction().set_properties(n="0").commit_transaction()
    with _timed(seconds, "ledger"):
        for number in range(_LEDGER_TABLES):
            catalog.load_table(name).transaction().set_properties(n=str(number)).commit_transaction()
    catalog.drop_table(name)
    return seconds


def _s3() -> S3Config:
    return {"endpoint": os.environ["AWS_ENDPOINT_URL_S3"], "region": os.environ["AWS_REGION"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("folder", type=Path, help="what the generator made")
    parser.add_argument("key", help="the landed file in the landing bucket")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(read_expected(arguments.folder), arguments.key, Path(folder))))


if __name__ == "__main__":
    main()
