"""Where the time of our load goes, without any peer: seconds of each step, and what cProfile sees.

    python -m benchmarks.stages [--rows 1000000] [--workload daily] [--repeat 3] [--cpu] [--profile]

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
from benchmarks.scenario import Stage, fill_ours, land_batch, land_target, running_stack, start_over, time_ours
from benchmarks.workload import MERGING, TENTH_ROWS, cases

MOST_LINES = 45


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--rows", type=int, default=TENTH_ROWS, help="rows of the usual target")
    parser.add_argument("--workload", choices=MERGING, default="daily", help="its last case is loaded")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of each step, all threads")
    parser.add_argument("--profile", action="store_true", help="also print where one more load spends its time")
    options = parser.parse_args()
    case = list(cases(options.workload, options.rows).values())[-1]
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder, running_stack(Path(folder)) as env:
        stage = Stage(case.target, Path(folder), env)
        land_target(stage)
        fill_ours(stage, case)
        land_batch(stage, case)
        clock = ["--cpu"] if options.cpu else []
        runs = []
        for number in range(1, options.repeat + 1):
            runs.append(time_ours(stage, case, start_over(stage, case, number), *clock))
        show_steps(Console(), runs)
        if options.profile:
            path = Path(folder) / "profile"
            time_ours(stage, case, start_over(stage, case, options.repeat + 1), "--profile", path)
            pstats.Stats(str(path), stream=sys.stdout).sort_stats("cumulative").print_stats(MOST_LINES)


if __name__ == "__main__":
    main()
