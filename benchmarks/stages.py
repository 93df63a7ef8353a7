"""Where the time of our load goes, without the peer: seconds of each step, and what cProfile sees.

    python -m benchmarks.stages [--rows 2000000] [--workload daily] [--repeat 3] [--cpu] [--profile]

`--cpu` tells CPU seconds of our process instead of wall-clock seconds: they say more on a busy machine. The profiled
load is one more than the timed ones: profiling slows it.
"""

from __future__ import annotations

import argparse
import pstats
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.report import show_steps
from benchmarks.scenario import Stage, fill_ours, generate_data, land_new_day, running_stack, time_ours
from benchmarks.workload import DEFAULT_ROWS, WORKLOADS, Workload

MOST_LINES = 45


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="rows of the target")
    parser.add_argument("--workload", choices=WORKLOADS, default="daily")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of each step, all threads")
    parser.add_argument("--profile", action="store_true", help="also print where one more load spends its time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder, running_stack(Path(folder)) as env:
        stage = Stage(Workload(options.workload, options.rows), Path(folder), env)
        generate_data(stage)
        for number in range(1, options.repeat + options.profile + 1):
            fill_ours(stage, number)
        land_new_day(stage)
        clock = ["--cpu"] if options.cpu else []
        show_steps(Console(), [time_ours(stage, number, *clock) for number in range(1, options.repeat + 1)])
        if options.profile:
            path = Path(folder) / "profile"
            time_ours(stage, options.repeat + 1, "--profile", path)
            pstats.Stats(str(path), stream=sys.stdout).sort_stats("cumulative").print_stats(MOST_LINES)


if __name__ == "__main__":
    main()
