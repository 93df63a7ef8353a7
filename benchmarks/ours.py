"""Runs our loader in a process of its own, as a user's run does: `python -m benchmarks.ours TABLE PART`.

`first` loads the days that the target starts from, `timed` the new day, `full` the new day again in mode full, `rest`
whatever is unseen. Prints one JSON object: seconds of the whole load (from reading the declaration to the ledger;
imports and process start not counted), peak memory, receipt. The environment names the stack; LAKEHOUSE_ASSETS the
folder of the declarations.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lakehouse.storage.s3  # noqa: F401  # the peers' S3 clients are imported before their clocks start, too
from benchmarks.machine import Meter
from benchmarks.workload import BUCKET, FIRST_DAY, NEW_DAY, Case, first_days
from lakehouse.declaration import find_declaration
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Mode, Receipt, Window
from lakehouse.services import open_services

PARTS = {
    "first": LoadRequest(window=Window(FIRST_DAY, first_days()[-1]), run_id="benchmark"),
    "timed": LoadRequest(window=Window(NEW_DAY, NEW_DAY), run_id="benchmark"),
    "full": LoadRequest(mode=Mode.FULL, window=Window(NEW_DAY, NEW_DAY), run_id="benchmark"),
    "rest": LoadRequest(run_id="benchmark"),
}
_TYPES = {
    "BIGINT": "bigint",
    "VARCHAR": "string",
    "DECIMAL(12,2)": "decimal(12,2)",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "DATE": "date",
}


def declaration_text(case: Case) -> str:
    """The declaration of a case's table."""
    target = case.target
    return table_text(case.table, target.prefix, target.columns, key=case.key, max_files=target.max_files)


def table_text(
    table: str,
    prefix: str,
    columns: Mapping[str, str],
    *,
    key: Sequence[str] = ("order_id",),
    max_files: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> str:
    """The declaration of a table whose files are below `prefix` in the landing bucket. `input_date` is a column of the
    file: an update stays in its partition."""
    required = {"order_id", *key}
    fields = "\n".join(
        f"    {name}: {{type: {_quoted(_TYPES[text])}, required: {str(name in required).lower()}}}"
        for name, text in columns.items()
    )
    bound = f"\n    max_files: {max_files}" if max_files else ""
    set_properties = ", ".join(f"{name}: {_quoted(text)}" for name, text in (properties or {}).items())
    return f"""\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://{BUCKET}/{prefix}
    partition: landing_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}{bound}
  columns:
{fields}
  key: [{", ".join(key)}]
  order_by: [order_time]
  partition_by: [input_date]
  table_properties: {{{set_properties}}}
  gates: {{max_rejected_ratio: 0.2}}
  start_date: {FIRST_DAY:%Y-%m-%d}
"""


def load(table: str, request: LoadRequest, env: Mapping[str, str], *, clock: Callable[[], float]) -> Receipt:
    """One load, from the declaration's file to the ledger; `clock` times its steps."""
    declaration = find_declaration(Path(env["LAKEHOUSE_ASSETS"]), table, env)
    services = dataclasses.replace(open_services(env), clock=clock)
    return ingest(declaration, request, services)


def _quoted(text: str) -> str:
    return f'"{text}"'


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ours", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--profile", type=Path, help="write what cProfile saw to this file; slows the load")
    parser.add_argument("--cpu", action="store_true", help="the receipt tells CPU seconds of this process by step")
    arguments = parser.parse_args()
    profile = cProfile.Profile() if arguments.profile else None
    meter = Meter()
    if profile:
        profile.enable()
    clock = time.process_time if arguments.cpu else time.monotonic
    receipt = load(arguments.table, PARTS[arguments.part], os.environ, clock=clock)
    if profile:
        profile.disable()
        profile.dump_stats(arguments.profile)
    measured = meter.read()
    print(json.dumps({**measured, "receipt": dataclasses.asdict(receipt)}, default=str))


if __name__ == "__main__":
    main()
