"""The benchmark: our whole load against PyIceberg's upsert, same input, same stack, same run.

    python -m benchmarks.run [--full] [--rows N] [--workloads daily scatter] [--repeat N] [--peer-repeat N]

Starts a throw-away S3 and Iceberg REST catalog, makes the data, fills the targets, lands the new file, times each load
in a process of its own and checks every row of every result. Exit 1 if a result differs from the expected one, or if
our load is not as many times faster as promised (`--no-require` only reports).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.machine import facts
from benchmarks.report import FLOOR, OURS, PEER, Result, show, write
from benchmarks.scenario import (
    PartFailed,
    Run,
    Stage,
    fill_ours,
    fill_peer,
    generate_data,
    land_new_day,
    running_stack,
    time_floor,
    time_ours,
    time_peer,
)
from benchmarks.workload import DEFAULT_ROWS, FULL_ROWS, WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results"


def measure(stage: Stage, *, repeat: int, peer_repeat: int, console: Console) -> Result:
    """Prepare, time and check one workload. Raises PartFailed if a part fails or a result is not the expected one."""
    rows = f"{stage.workload.rows:,} rows"
    with console.status(f"{stage.workload.name}: making {rows}") as status:
        counts = generate_data(stage)
        for number in range(1, repeat + 1):
            status.update(f"{stage.workload.name}: filling target {number} of {repeat} of our own")
            fill_ours(stage, number)
        for number in range(1, peer_repeat + 1):
            status.update(f"{stage.workload.name}: filling target {number} of {peer_repeat} of {PEER}")
            fill_peer(stage, number)
        land_new_day(stage)
        runs: dict[str, list[Run]] = {OURS: [], PEER: [], FLOOR: []}
        for number in range(1, max(repeat, peer_repeat) + 1):  # in turns: a noisy minute then hits both
            if number <= repeat:
                status.update(f"{stage.workload.name}: timing and checking our load {number} of {repeat}")
                runs[OURS].append(time_ours(stage, number))
                runs[FLOOR].append(time_floor(stage))
            if number <= peer_repeat:
                status.update(f"{stage.workload.name}: timing and checking {PEER} {number} of {peer_repeat}")
                runs[PEER].append(time_peer(stage, number))
    return Result(stage.workload, counts, runs)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console()
    rows = options.rows or (FULL_ROWS if options.full else DEFAULT_ROWS)
    misses = []
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder, running_stack(Path(folder)) as env:
        for name in options.workloads:
            stage = Stage(Workload(name, rows), Path(folder), env)
            try:
                result = measure(stage, repeat=options.repeat, peer_repeat=options.peer_repeat, console=console)
            except PartFailed as error:
                console.print(str(error), style="red", markup=False, highlight=False)
                return 1
            show(console, result)
            for path in write(options.results, result, facts(), suffix="" if options.record else ".local"):
                console.print(f"written: {path}", highlight=False)
            misses += [result.misses] if result.misses else []
    for miss in misses:
        console.print(miss, style="red", markup=False, highlight=False)
    return 1 if misses and options.require else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows in the target, not {DEFAULT_ROWS:,}")
    parser.add_argument("--rows", type=int, help="rows of the target, in place of both")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=["daily"])
    parser.add_argument("--repeat", type=int, default=3, help="timed runs of our load; the median counts")
    parser.add_argument("--peer-repeat", type=int, default=1, help="timed runs of the peer; 0 leaves it out")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--record", action="store_true", help="results to keep in the repository, not *.local.*")
    parser.add_argument(
        "--no-require", dest="require", action="store_false", help="report a missed ratio without failing"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
