"""The least that reading the file can cost: DuckDB turns it into one Parquet file. No S3, no merge, no checks.

`python -m benchmarks.floor FILE.csv` prints one JSON object. A yardstick, not a peer: it does none of the work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import duckdb

from benchmarks.machine import Meter
from benchmarks.workload import COLUMNS


def convert(source: Path, target: Path) -> None:
    """Cast every column of a CSV file with a header and write Parquet; rows that cannot be cast are dropped."""
    types = ", ".join(f"'{name}': '{text}'" for name, text in COLUMNS.items())
    con = duckdb.connect()
    con.execute(
        f"""copy (from read_csv('{source}', header = true, columns = {{{types}}}, auto_detect = false,
            ignore_errors = true)) to '{target}' (format parquet)"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("source", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        meter = Meter()
        convert(arguments.source, Path(folder) / "floor.parquet")
        measured = meter.read()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
