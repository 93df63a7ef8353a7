"""Shows and stores results: tables on the terminal, one JSON and one SVG file per workload. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.scenario import Run
from benchmarks.workload import Workload

OURS, PEER, FLOOR = "lakehouse", "PyIceberg upsert", "CSV to Parquet only"
_STEPS = ("plan", "read", "stage", "merge", "publish", "ledger", "total")


@dataclass(frozen=True, slots=True)
class Result:
    """All timed runs of one workload; `runs` maps who ran to the runs, every one of them checked."""

    workload: Workload
    counts: Mapping[str, Any]
    runs: Mapping[str, Sequence[Run]]

    def seconds(self, who: str) -> float:
        """Median seconds of the work."""
        return median(run.seconds for run in self.runs[who])

    @property
    def ratio(self) -> float | None:
        """How many times faster our load is than the peer; None if the peer did not run."""
        return self.seconds(PEER) / self.seconds(OURS) if self.runs.get(PEER) else None

    @property
    def process_ratio(self) -> float | None:
        """The same over whole processes, Python's start and imports included."""
        if not self.runs.get(PEER):
            return None
        peer, ours = (median(run.process_seconds for run in self.runs[who]) for who in (PEER, OURS))
        return peer / ours

    @property
    def misses(self) -> str:
        """What was promised and not reached; empty if all was."""
        required = self.workload.required_ratio
        if required is None or self.ratio is None or self.ratio >= required:
            return ""
        return f"{self.workload.title}: {self.ratio:.1f} times faster than {PEER}, required {required:.0f} times"


def show(console: Console, result: Result) -> None:
    """Print ratios, counts and the seconds of our steps."""
    counts = result.counts["batch"]
    title = f"{result.workload.name}: {counts['read']:,} CSV rows into {result.workload.rows:,} rows, 30 partitions"
    table = Table(title=title, caption="medians; process: with Python's start and imports; ratio: times our seconds")
    for header in ("", "seconds", "CPU", "process", "ratio", "peak MB", "runs"):
        table.add_column(header, justify="left" if not header else "right")
    for who, runs in result.runs.items():
        if runs:
            table.add_row(
                who,
                f"{result.seconds(who):.2f}",
                f"{median(r.cpu_seconds for r in runs):.2f}",
                f"{median(r.process_seconds for r in runs):.2f}",
                f"{result.seconds(who) / result.seconds(OURS):.1f}",
                f"{max(r.rss_bytes for r in runs) / 1e6:,.0f}",
                str(len(runs)),
            )
    console.print(table)
    counted = ", ".join(f"{name} {number:,}" for name, number in counts.items() if number)
    console.print(f"every row, reject and count checked: {counted}", highlight=False)
    if result.ratio is not None and result.process_ratio is not None:
        required = result.workload.required_ratio
        told = f"{result.ratio:.1f} times faster than {PEER}, {result.process_ratio:.1f} times as whole processes"
        console.print(told + (f"; required: {required:.0f} times" if required else ""), highlight=False)
    show_steps(console, result.runs[OURS])


def show_steps(console: Console, runs: Sequence[Run]) -> None:
    """Print the seconds of each step of our loads, as their receipts tell, with the median."""
    table = Table(title="seconds of our steps")
    table.add_column("step")
    for number in range(1, len(runs) + 1):
        table.add_column(f"run {number}", justify="right")
    table.add_column("median", justify="right")
    for step, seconds in step_seconds(runs).items():
        table.add_row(step, *(f"{s:.3f}" for s in seconds), f"{median(seconds):.3f}")
    console.print(table)


def step_seconds(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Seconds of every run by step: the receipt's, what lies between them, the load, and the rest of the process."""
    receipts = [run.details["seconds"] for run in runs]
    names = [*_STEPS, *sorted({name for receipt in receipts for name in receipt} - set(_STEPS))]
    steps = {name: [float(receipt.get(name, 0.0)) for receipt in receipts] for name in names}
    steps["between the steps"] = [2 * seconds["total"] - sum(seconds.values()) for seconds in receipts]
    steps["whole load, wall clock"] = [run.seconds for run in runs]
    steps["whole load, CPU"] = [run.cpu_seconds for run in runs]
    steps["start of Python and imports"] = [run.process_seconds - run.seconds for run in runs]
    return steps


def write(folder: Path, result: Result, facts: Mapping[str, object], *, suffix: str = "") -> tuple[Path, Path]:
    """Store the result as JSON and as a bar chart, `suffix` before their extensions; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {
        "version": 1,
        "workload": asdict(result.workload),
        "required_ratio": result.workload.required_ratio,
        "ratio": result.ratio,
        "process_ratio": result.process_ratio,
        "machine": dict(facts),
        "counts": result.counts,
        "step_seconds": {step: median(seconds) for step, seconds in step_seconds(result.runs[OURS]).items()},
        "runs": {who: [asdict(run) for run in runs] for who, runs in result.runs.items()},
    }
    figures, chart = (folder / f"{result.workload.title}{suffix}.{kind}" for kind in ("json", "svg"))
    figures.write_text(json.dumps(data, indent=1) + "\n")
    chart.write_text(bar_chart(result))
    return figures, chart


def bar_chart(result: Result) -> str:
    """An SVG of the median seconds, one bar each, on a linear scale."""
    bars = [(who, result.seconds(who)) for who, runs in result.runs.items() if runs]
    longest = max(seconds for _, seconds in bars)
    counts = result.counts["batch"]
    title = f"{counts['read']:,} CSV rows into {result.workload.rows:,} rows ({result.workload.name})"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{60 + 34 * len(bars)}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="16" fill="#222222">{escape(title)}: seconds, less is better</text>',
    ]
    for index, (who, seconds) in enumerate(bars):
        top = 46 + 34 * index
        width = max(2.0, 380 * seconds / longest)
        colour = "#1b7f5c" if who == OURS else "#9aa5b1"
        label = f"{seconds:.2f}" + ("" if who == OURS else f"  ({seconds / result.seconds(OURS):.1f}×)")
        parts += [
            f'<text x="196" y="{top + 16}" text-anchor="end" fill="#222222">{escape(who)}</text>',
            f'<rect x="206" y="{top}" width="{width:.1f}" height="22" fill="{colour}"/>',
            f'<text x="{214 + width:.1f}" y="{top + 16}" fill="#222222">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
