"""Shows and stores results: tables on the terminal, one JSON and one SVG file per workload. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.claims import Claim
from benchmarks.counting import ALLOWED
from benchmarks.result import Distance, Result, Run, distances, step_seconds
from benchmarks.workload import FINDING, KEEPING, READING

_READING = (
    "of the peers boto3's loop alone judges values as ours does; DuckDB drops or bends what it cannot cast, and writes "
    "Parquet where ours fills the rows, with lineage and rejects, that a load goes on with"
)
_MERGING = (
    "peers get the good rows of the file once: rejects and superseded rows are taken out before, because none of them "
    "refuses rows one by one and a merge refuses or doubles on duplicate keys; none has an order guard (a stale row "
    "wins), a bookmark, lineage, gates or a ledger; their rows are checked by count and sum, ours one by one"
)
_INPUT = dict.fromkeys(FINDING, "listed objects") | dict.fromkeys(KEEPING, "rows")
"""What is read where it is no CSV file."""


def notes(result: Result) -> str:
    """What a reader of the comparison has to know; empty without peers."""
    if result.workload in (*FINDING, *KEEPING) or len(result.runs) == len(result.ours):
        return ""
    return _READING if result.workload in READING else _MERGING


def show(console: Console, result: Result) -> None:
    """Print who took how long, the counts, our steps and the floors of the largest."""
    counts = result.counts["batch"]
    title = f"{result.workload} ({result.rows:,} rows as the usual target)"
    table = Table(title=title, caption="medians; process: with Python's start and imports; ratio: to the first line")
    for header in ("", "seconds", "CPU", "process", "ratio", "peak MB", "runs"):
        table.add_column(header, justify="left" if not header else "right")
    first = next(iter(result.runs))
    for who, runs in result.runs.items():
        if runs:
            table.add_row(
                who,
                f"{result.seconds(who):.2f}",
                f"{median(r.cpu_seconds for r in runs):.2f}",
                f"{median(r.process_seconds for r in runs):.2f}",
                f"{result.ratio(who, first):.2f}",
                f"{max(r.rss_bytes for r in runs) / 1e6:,.0f}",
                str(len(runs)),
            )
    console.print(table)
    for who, why in result.skipped.items():
        console.print(f"skipped: {who}: {why}", style="yellow", markup=False, highlight=False)
    counted = ", ".join(f"{name} {number:,}" for name, number in counts.items() if number)
    console.print(f"every row, reject and count of ours checked: {counted}", highlight=False)
    if told := notes(result):
        console.print(told, highlight=False, style="dim")
    if result.requests:
        kinds = ", ".join(f"{kind} {n}" + ("" if kind in ALLOWED else " (!)") for kind, n in result.requests.items())
        console.print(f"requests: {kinds}", highlight=False)
    if result.floors:
        show_steps(console, result.runs[result.ours[0]])
        show_distances(console, distances(result))


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


def show_distances(console: Console, found: Sequence[Distance]) -> None:
    """Print the largest steps beside the bare work (see `floor`)."""
    for distance in found:
        floor = f"floor {distance.floor:.3f} s: {distance.times:.1f} times" if distance.floor else "no floor measured"
        console.print(f"largest steps: {distance.step} {distance.seconds:.3f} s, {floor}", highlight=False)


def show_claims(console: Console, claims: Sequence[Claim]) -> None:
    """Print what was promised beside what was measured."""
    table = Table(title="acceptance")
    for header in ("workload", "figure", "measured", "must", "aim", ""):
        table.add_column(header, justify="right" if header in ("measured", "must", "aim") else "left")
    for claim in claims:
        sign = "≥" if claim.at_least else "≤"
        bounds = ("" if bound is None else f"{sign} {bound:g}" for bound in (claim.must, claim.aim))
        value = "–" if claim.value is None else f"{claim.value:.4g} {claim.unit}".strip()
        style = "red" if claim.missed else None
        table.add_row(claim.workload, claim.what, value, *bounds, claim.verdict, style=style)
    console.print(table)


def write(
    folder: Path, result: Result, claims: Sequence[Claim], facts: Mapping[str, object], *, suffix: str = ""
) -> tuple[Path, Path]:
    """Store the result as JSON and as a bar chart, `suffix` before their extensions; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {
        "version": 2,
        "workload": result.workload,
        "rows": result.rows,
        "claims": [{**asdict(claim), "verdict": claim.verdict} for claim in claims],
        "machine": dict(facts),
        "counts": result.counts,
        "medians": {who: result.seconds(who) for who in result.runs},
        "step_seconds": {
            who: {step: median(seconds) for step, seconds in step_seconds(result.runs[who]).items()}
            for who in result.ours
        },
        "floors": [dict(floors) for floors in result.floors],
        "largest_steps": [asdict(distance) for distance in distances(result)] if result.floors else [],
        "requests": dict(result.requests),
        "skipped": dict(result.skipped),
        "notes": notes(result),
        "runs": {who: [asdict(run) for run in runs] for who, runs in result.runs.items()},
    }
    figures, chart = (folder / f"{result.title}{suffix}.{kind}" for kind in ("json", "svg"))
    figures.write_text(json.dumps(data, indent=1) + "\n")
    chart.write_text(bar_chart(result))
    return figures, chart


def bar_chart(result: Result) -> str:
    """An SVG of the median seconds, one bar each, on a linear scale; beside it how many times the first bar."""
    bars = [(who, seconds) for who in result.runs if (seconds := result.seconds(who)) is not None]
    longest = max(seconds for _, seconds in bars)
    first, unit = bars[0]
    title = f"{result.workload}, {result.counts['batch']['read']:,} {_INPUT.get(result.workload, 'CSV rows')}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="780" height="{60 + 34 * len(bars)}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="16" fill="#222222">{escape(title)}: seconds, less is better</text>',
    ]
    for index, (who, seconds) in enumerate(bars):
        top = 46 + 34 * index
        width = max(2.0, 380 * seconds / longest)
        colour = "#1b7f5c" if who in result.ours else "#9aa5b1"
        label = f"{seconds:.2f}" + ("" if who == first else f"  ({seconds / unit:.1f}×)")
        parts += [
            f'<text x="256" y="{top + 16}" text-anchor="end" fill="#222222">{escape(who)}</text>',
            f'<rect x="266" y="{top}" width="{width:.1f}" height="22" fill="{colour}"/>',
            f'<text x="{274 + width:.1f}" y="{top + 16}" fill="#222222">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
