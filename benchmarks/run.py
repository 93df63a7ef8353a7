"""The benchmark: our whole load beside other engines' merges, and beside itself; same input, same stack, same run.

    python -m benchmarks.run [--full] [--rows N] [--workloads daily growth] [--peers pyiceberg duckdb] [--repeat N]

For each target it starts a throw-away S3 and Iceberg REST catalog, makes the data, fills the tables once, times each
load in a process of its own and checks every result. Exit 1 if a result differs from the expected one, if a part
fails, or if a figure misses what is required (`--no-require` only reports).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.claims import Claim, claims
from benchmarks.discovery.measure import measure_discovery
from benchmarks.machine import facts
from benchmarks.measure import Job, Measured, Repeats, jobs, measure_target, result_of
from benchmarks.peers import KINDS, Environment, PeerMissing, environment
from benchmarks.reading.measure import measure_reading
from benchmarks.report import show, show_claims, write
from benchmarks.result import Result
from benchmarks.scenario import PartFailed, Stage, running_stack
from benchmarks.upkeep.measure import measure_upkeep
from benchmarks.upkeep.sizes import READERS
from benchmarks.workload import (
    FINDING,
    FULL_ROWS,
    KEEPING,
    MERGING,
    READING,
    TENTH_ROWS,
    WORKLOADS,
    Case,
    Target,
    needed,
)

RESULTS = Path(__file__).parent / "results"
_WIDTH = 120  # of output that goes to a file


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    rows = options.rows or (FULL_ROWS if options.full else TENTH_ROWS)
    repeats = Repeats(options.repeat or (5 if options.full else 3), options.peer_repeat)
    workloads = needed(tuple(options.workloads))
    targets = jobs([name for name in workloads if name in MERGING], rows, options.peers)
    wanted = {peer.kind for todo in targets.values() for job in todo for peer in job.peers}
    if set(workloads) & set(KEEPING):
        wanted |= {kind for kind in READERS.values() if kind in options.peers}
    environments, skipped = _environments(wanted, console)
    measured: dict[Case, Measured] = {}
    results: dict[str, Result] = {}
    told: list[Claim] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-", dir=options.folder) as folder:
        for target, todo in targets.items():
            try:
                measured |= _measure(Path(folder), target, todo, repeats, environments, console)
            except PartFailed as error:  # what the other targets have to say is worth having all the same
                console.print(str(error), style="red", markup=False, highlight=False)
                failed = True
            for name in [name for name in workloads if name in MERGING and name not in results]:
                if result := result_of(name, rows, measured, skipped=skipped):
                    results[name] = result
                    found = claims(result, results)
                    told += found
                    _tell(console, result, found, folder=options.results, record=options.record)
        alone: dict[str, Callable[..., Result]] = {
            **dict.fromkeys(READING, measure_reading),
            **dict.fromkeys(FINDING, measure_discovery),
            **dict.fromkeys(KEEPING, partial(measure_upkeep, environments=environments, skipped=skipped)),
        }
        for name in [name for name in workloads if name in alone]:
            try:
                results[name] = _measure_alone(Path(folder), name, rows, repeats, console, measure=alone[name])
            except PartFailed as error:
                console.print(str(error), style="red", markup=False, highlight=False)
                failed = True
                continue
            found = claims(results[name], results)
            told += found
            _tell(console, results[name], found, folder=options.results, record=options.record)
    for name in workloads:
        if name not in results:
            console.print(f"not measured: {name}", style="red", highlight=False)
    show_claims(console, sorted(told, key=lambda claim: WORKLOADS.index(claim.workload)))
    missed = any(claim.missed for claim in told)
    return 1 if failed or (missed and options.require) else 0


def _measure(
    folder: Path,
    target: Target,
    todo: Sequence[Job],
    repeats: Repeats,
    environments: dict[str, Environment],
    console: Console,
) -> dict[Case, Measured]:
    """Measure a target on a stack of its own, whose files are gone afterwards: they are the largest part of all."""
    own = folder / target.title
    try:
        with console.status(target.title) as status, running_stack(own) as env:
            stage = Stage(target, own, env)
            say = status.update if console.is_terminal else partial(console.print, highlight=False)
            return measure_target(stage, todo, repeats=repeats, environments=environments, say=say)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _measure_alone(
    folder: Path, name: str, rows: int, repeats: Repeats, console: Console, *, measure: Callable[..., Result]
) -> Result:
    """Measure a workload that shares no target, on a stack of its own as well."""
    own = folder / name
    try:
        with console.status(name) as status, running_stack(own) as env:
            say = status.update if console.is_terminal else partial(console.print, highlight=False)
            return measure(name, rows, own, env, repeats=repeats, say=say)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _environments(wanted: set[str], console: Console) -> tuple[dict[str, Environment], dict[str, str]]:
    """How to start the peers that are wanted, and why others of them cannot be."""
    found, skipped = {}, {}
    for kind in KINDS:
        if kind in wanted:
            try:
                found[kind] = environment(kind, console.print)
            except PeerMissing as error:
                skipped[kind] = str(error)
                console.print(f"skipped: {kind}: {error}", style="yellow", markup=False, highlight=False)
    return found, skipped


def _tell(console: Console, result: Result, found: Sequence[Claim], *, folder: Path, record: bool) -> None:
    show(console, result)
    for path in write(folder, result, found, facts(), suffix="" if record else ".local"):
        console.print(f"written: {path}", highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows in the target, not {TENTH_ROWS:,}")
    parser.add_argument("--rows", type=int, help="rows of the usual target, in place of both")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--peers", nargs="*", choices=KINDS, default=list(KINDS), help="without a name: none")
    parser.add_argument("--repeat", type=int, help="timed runs of our loads and of DuckDB; the median counts")
    parser.add_argument("--peer-repeat", type=int, default=1, help="timed runs of the slow peers, PyIceberg and Spark")
    parser.add_argument("--folder", type=Path, help="folder on a disk with room, for stacks and data")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--record", action="store_true", help="results to keep in the repository, not *.local.*")
    parser.add_argument(
        "--no-require", dest="require", action="store_false", help="report a missed figure without failing"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
