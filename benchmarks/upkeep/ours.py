"""Fills or compacts a table in a process of its own: `… .ours fill|maintain TABLE`.

`fill` loads the first days at once and then, timed, one day after the other; the table that is loaded once gets all
its days at once, not timed. `maintain` compacts, timed, and then expires the old snapshots. Opening the catalog and
imports are not counted. Prints one JSON object: seconds, peak memory, the row counts of every load, what the compaction
says (of a dry run after filling), and the snapshot that has it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import Meter
from benchmarks.upkeep.sizes import ALL_DAYS, ONCE, TABLES, date_of, name_of
from benchmarks.workload import DAYS, FIRST_DAY
from lakehouse.declaration import find_declaration
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.maintain.compaction import compact
from lakehouse.maintain.expiry import expire
from lakehouse.model import State, Window
from lakehouse.operate.operator_change import Operator
from lakehouse.services import Services, open_services

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.declaration import Declaration

_OPERATOR = Operator("benchmark", "after daily merges", "benchmark")


def fill(table: str, declaration: Declaration, services: Services) -> dict[str, Any]:
    def load(first: date, last: date) -> dict[str, int]:
        receipt = ingest(declaration, LoadRequest(window=Window(first, last), run_id="benchmark"), services)
        if receipt.state is not State.COMMITTED:
            raise SystemExit(f"the load of {first} to {last} was not committed: {receipt}")
        return dataclasses.asdict(receipt.rows)

    start = ALL_DAYS if table == ONCE else DAYS
    first = load(FIRST_DAY, date_of(start - 1))
    meter = Meter()
    days = [load(date_of(day), date_of(day)) for day in range(start, ALL_DAYS)]
    measured = meter.read()
    standing = dataclasses.asdict(compact(declaration, services, _OPERATOR, dry_run=True))
    return {**measured, "loads": [first, *days], "standing": standing, "snapshot_id": standing["snapshot_id"]}


def maintain(_: str, declaration: Declaration, services: Services) -> dict[str, Any]:
    meter = Meter()
    done = compact(declaration, services, _OPERATOR)
    measured = meter.read()
    # a reader parses the whole history: the one that is compared has none
    expiry = expire(declaration, services, _OPERATOR, older_than=timedelta())
    return {**measured, "standing": dataclasses.asdict(done), "snapshot_id": expiry.snapshot_id}


PARTS = {"fill": fill, "maintain": maintain}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upkeep.ours", description=__doc__)
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("table", choices=TABLES)
    options = parser.parse_args()
    declaration = find_declaration(Path(os.environ["LAKEHOUSE_ASSETS"]), name_of(options.table), os.environ)
    services = open_services(os.environ)
    print(json.dumps(PARTS[options.what](options.table, declaration, services), default=str))


if __name__ == "__main__":
    main()
