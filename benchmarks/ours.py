"""Runs our loader in a process of its own, as a user's run does: `python -m benchmarks.ours TABLE first|timed`.

`first` loads the days that the target starts from, `timed` the new day. Prints one JSON object: seconds of the whole
load (from reading the declaration to the ledger; imports and process start not counted), peak memory, receipt.
The environment names the stack; LAKEHOUSE_ASSETS the folder of the declarations.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import lakehouse.storage.s3  # noqa: F401  # the peer's S3 client is imported before its clock starts, too
from benchmarks.machine import Meter
from benchmarks.workload import BUCKET, FIRST_DAY, NEW_DAY, Workload, first_days, landing_prefix
from lakehouse.declaration import find_declaration
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Receipt, Window
from lakehouse.services import open_services

WINDOWS = {"first": Window(FIRST_DAY, first_days()[-1]), "timed": Window(NEW_DAY, NEW_DAY)}


def declaration_text(table: str, workload: Workload) -> str:
    """The declaration of a benchmark table. `input_date` is a column of the file: an update stays in its partition."""
    return f"""\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://{BUCKET}/{landing_prefix(workload)}
    partition: landing_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}
  columns:
    order_id: {{type: bigint, required: true}}
    customer_id: string
    amount: decimal(12,2)
    status: string
    order_time: timestamptz
    input_date: date
    note: string
  key: [order_id]
  order_by: [order_time]
  partition_by: [input_date]
  gates: {{max_rejected_ratio: 0.1}}
  start_date: {FIRST_DAY:%Y-%m-%d}
"""


def load(table: str, window: Window, env: Mapping[str, str], *, clock: Callable[[], float]) -> Receipt:
    """One load of the dates of `window`, from the declaration's file to the ledger; `clock` times its steps."""
    declaration = find_declaration(Path(env["LAKEHOUSE_ASSETS"]), table, env)
    services = dataclasses.replace(open_services(env), clock=clock)
    return ingest(declaration, LoadRequest(window=window, run_id="benchmark"), services)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ours", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("part", choices=tuple(WINDOWS))
    parser.add_argument("--profile", type=Path, help="write what cProfile saw to this file; slows the load")
    parser.add_argument("--cpu", action="store_true", help="the receipt tells CPU seconds of this process by step")
    arguments = parser.parse_args()
    profile = cProfile.Profile() if arguments.profile else None
    meter = Meter()
    if profile:
        profile.enable()
    clock = time.process_time if arguments.cpu else time.monotonic
    receipt = load(arguments.table, WINDOWS[arguments.part], os.environ, clock=clock)
    if profile:
        profile.disable()
        profile.dump_stats(arguments.profile)
    measured = meter.read()
    print(json.dumps({**measured, "receipt": dataclasses.asdict(receipt)}, default=str))


if __name__ == "__main__":
    main()
