"""What was measured, as values: one timed run, and all of one workload. Measures, shows and stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

OURS = "lakehouse"
STEPS = ("plan", "read", "stage", "merge", "publish", "ledger")


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run. `seconds` is the work, `cpu_seconds` what it took of the processor in its own process (not in
    the catalog or in S3), `process_seconds` also starts Python, imports and stops; `details` is what the receipt says,
    `checked` the rows and the sum that the result was found to have."""

    seconds: float
    cpu_seconds: float
    process_seconds: float
    rss_bytes: int
    details: Mapping[str, Any] = field(default_factory=dict)
    checked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """All timed runs of one workload, every one of them checked. `runs` maps who ran, or what, to the runs; `ours`
    names those of our loader; `floors` are seconds by step; `requests` counts by kind; `skipped` says who did not
    run and why."""

    workload: str
    rows: int
    counts: Mapping[str, Any]
    runs: Mapping[str, Sequence[Run]]
    ours: tuple[str, ...]
    floors: Sequence[Mapping[str, float]] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.workload}-{self.rows}"

    def seconds(self, who: str) -> float | None:
        """Median seconds of the work; None if it did not run."""
        return median(run.seconds for run in self.runs[who]) if self.runs.get(who) else None

    def seconds_behind_listing(self, who: str) -> float | None:
        """Median seconds of the work that follows the listing; None if it did not run."""
        runs = self.runs.get(who)
        return median(run.seconds - run.details["seconds"]["plan"] for run in runs) if runs else None

    def ratio(self, over: str, under: str) -> float | None:
        """Median seconds of one through those of another; None if either did not run."""
        a, b = self.seconds(over), self.seconds(under)
        return None if a is None or b is None else a / b


def step_seconds(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Seconds of every run by step: the receipt's, what lies between them, the load, and the rest of the process."""
    receipts = [run.details["seconds"] for run in runs]
    first = (*STEPS, "total")
    names = [*first, *sorted({name for receipt in receipts for name in receipt} - set(first))]
    steps = {name: [float(receipt.get(name, 0.0)) for receipt in receipts] for name in names}
    steps["between the steps"] = [2 * seconds["total"] - sum(seconds.values()) for seconds in receipts]
    steps["whole load, wall clock"] = [run.seconds for run in runs]
    steps["whole load, CPU"] = [run.cpu_seconds for run in runs]
    steps["start of Python and imports"] = [run.process_seconds - run.seconds for run in runs]
    return steps


@dataclass(frozen=True, slots=True)
class Distance:
    """A step's median seconds beside the median of its floor."""

    step: str
    seconds: float
    floor: float | None

    @property
    def times(self) -> float | None:
        return self.seconds / self.floor if self.floor else None


def distances(result: Result, number: int = 2) -> list[Distance]:
    """The `number` largest steps of our load with their floors, the largest first."""
    steps = step_seconds(result.runs[result.ours[0]])
    medians = sorted(((median(steps[name]), name) for name in STEPS), reverse=True)[:number]
    floors = {name: [f[name] for f in result.floors if name in f] for name in STEPS}
    return [Distance(name, seconds, median(floors[name]) if floors[name] else None) for seconds, name in medians]
