"""Stages every object of a landing folder in a process of its own, as the first half of a load does.

    python -m benchmarks.reading.ours COUNT ROWS LANDING FOLDER

From listing the folder LANDING (`s3://…/` or `file:///…/`) to the last staged row; opening the session and imports are
not counted. FOLDER gets the local copies and then, after the clock has stopped, `staged.parquet` and `rejects.parquet`.
Prints one JSON object: seconds, peak memory, and a receipt with the seconds of each step and the counts.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import json
import os
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import Meter
from benchmarks.ours import declaration_text
from benchmarks.reading.files import Files
from benchmarks.workload import NEW_DAY, Batch, Case
from lakehouse.batch.staging import Staged, stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.declaration.load import parse_declarations
from lakehouse.engines.duckdb import open_session
from lakehouse.model import Bookmark, Decision, ObjectDecision, RowCounts
from lakehouse.services import Services, open_services
from lakehouse.storage import Storage, open_storage

if TYPE_CHECKING:
    import duckdb

    from lakehouse.declaration import Declaration


def declared(files: Files) -> Declaration:
    """The declaration of the files' table, the one that whole loads of the benchmark have."""
    text = declaration_text(Case(files.target, Batch(0, 1)))
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={})
    return declaration


def stage(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    landing: Storage,
    folder: Path,
    *,
    services: Services,
    watch: Stopwatch,
) -> Staged:
    """List the folder and stage what is there."""
    with watch.step("plan"):
        listed = sorted(landing.list(""), key=lambda found: found.uri)
    return stage_objects(
        con,
        declaration,
        [ObjectDecision(found, NEW_DAY, Decision.PLANNED, "new") for found in listed],
        table=None,
        bookmark=Bookmark(),
        landing=landing,
        folder=folder / "landing",
        now=services.now(),
        services=services,
        watch=watch,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.ours", description=__doc__)
    parser.add_argument("count", type=int, help="files")
    parser.add_argument("rows", type=int, help="records of each")
    parser.add_argument("landing")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", type=Path, help="write what cProfile saw to this file; slows the work")
    options = parser.parse_args()
    services, declaration = open_services(os.environ), declared(Files(options.count, options.rows))
    landing = open_storage(options.landing, os.environ)
    memory = services.settings.memory_bytes
    profile = cProfile.Profile() if options.profile else None
    with closing(open_session(spill=options.folder / "spill", memory_bytes=memory)) as con:
        meter, watch = Meter(), Stopwatch(time.monotonic)
        with profile or nullcontext():
            staged = stage(con, declaration, landing, options.folder, services=services, watch=watch)
        seconds, measured = watch.seconds(), meter.read()
        if profile:
            profile.dump_stats(options.profile)
        for name in ("staged", "rejects"):
            con.execute(f"copy {name} to '{options.folder}/{name}.parquet' (format parquet)")
    rows = dataclasses.asdict(sum((outcome.rows for outcome in staged.outcomes), RowCounts()))
    consumed = sum(outcome.decision is Decision.CONSUMED for outcome in staged.outcomes)
    receipt = {"seconds": seconds, "rows": rows, "objects": consumed}
    print(json.dumps({**measured, "receipt": receipt}))


if __name__ == "__main__":
    main()
