"""What runs of faults have seen: collected from the reports of tests, shown as tables, kept as a file for the page."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from tests.fault.matrix import FAULTS
from tests.fault.tables import MODES

SEEN = "fault"
"""The property of a test's report: a mapping with `kind`, and `passed` once that is known."""
RECORD = Path(__file__).with_name("record.json")
"""What `LAKEHOUSE_CHAOS_RECORD=1 make chaos` has seen last of each fault, and of random ones."""
Seen = Mapping[str, Any]


def show(reports: Iterable[Any], terminal: Any) -> None:
    """Print what the reports of tests have told, and keep it where that is asked for."""
    cells, random = read_reports(reports)
    for title, lines in (("kill matrix", matrix_lines(cells)), ("random fault runs", random_lines(random))):
        if lines:
            terminal.section(title)
            terminal.write("\n".join(lines) + "\n")
    write_record(cells, random)


def read_reports(reports: Iterable[Any]) -> tuple[list[Seen], list[Seen]]:
    """What cells and what random runs have told, each with `passed`."""
    cells, random = [], []
    for report in reports:
        for name, value in report.user_properties:
            if name == SEEN:
                (cells if value["kind"] == "cell" else random).append({**value, "passed": report.passed})
    return cells, random


def matrix_lines(cells: Sequence[Seen]) -> list[str]:
    """One line per fault, one column per mode: cells that are green, of those that were run."""
    if not cells:
        return []
    green: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for cell in cells:
        green[cell["fault"], cell["mode"]][cell["passed"]] += cell["cells"]
    names = [fault.name for fault in FAULTS if any(cell["fault"] == fault.name for cell in cells)]
    wide = max(len(name) for name in names)
    lines = [f"{'':{wide}}  " + "  ".join(MODES)]
    for name in names:
        counts = [(green[name, mode][True], green[name, mode].total()) for mode in MODES]
        texts = [f"{good}/{total}" if total else "-" for good, total in counts]
        lines.append(f"{name:{wide}}  " + "  ".join(f"{t:>{len(m)}}" for t, m in zip(texts, MODES, strict=True)))
    return [*lines, _summary(cells)]


def _summary(cells: Sequence[Seen]) -> str:
    good = sum(cell["cells"] for cell in cells if cell["passed"])
    seconds = [second for cell in cells for second in cell["seconds"]]
    confirmed = f", state named {median(seconds):.2f} s after the fault (median)" if seconds else ""
    return f"{good} of {sum(cell['cells'] for cell in cells)} cells green{confirmed}"


def random_lines(found: Sequence[Seen]) -> list[str]:
    """Figures of the random runs, as a table of Markdown."""
    if not found:
        return []
    by_state: dict[str, Counter[bool]] = defaultdict(Counter)
    by_fault: Counter[str] = Counter()
    for run in found:
        by_state[run["state"]][not run["why"]] += 1
        by_fault[run["fault"]] += 1
    lost, extra = sum(run["lost"] for run in found), sum(run["extra"] for run in found)
    named = ", ".join(f"{count} {name}" for name, count in sorted(by_fault.items()))
    return [
        f"{len(found)} runs ({named}): {lost} rows lost, {extra} doubled; the state was named "
        f"{median(run['seconds'] for run in found):.2f} s after the fault (median).",
        "",
        "| `diagnose` said | right | wrong |",
        "|---|---|---|",
        *(f"| {state} | {count[True]} | {count[False]} |" for state, count in sorted(by_state.items())),
    ]


def write_record(cells: Sequence[Seen], found: Sequence[Seen]) -> None:
    """Keep the figures, where they are asked for: of each cell the last, of random runs the last that were made."""
    if not os.environ.get("LAKEHOUSE_CHAOS_RECORD"):
        return
    record, now = read_record(), _now()
    for cell in cells:
        record["cells"].setdefault(cell["fault"], {})[cell["cell"]] = [cell["cells"] * cell["passed"], now]
    if found:
        record["random"] = {"when": now, "lines": random_lines(found)}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def read_record() -> dict[str, Any]:
    """`cells`: by fault and cell, how many are green, and when that was; `random`: the figures of random runs."""
    return {"cells": {}, "random": {}} | (json.loads(RECORD.read_text()) if RECORD.exists() else {})


def _now() -> str:
    """The day, the commit, and the seed if one was asked for."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
    seed = os.environ.get("LAKEHOUSE_CHAOS_SEED")
    return f"{datetime.now(UTC).date()} `{commit.stdout.strip()}`" + (f", seed {seed}" if seed else "")
