"""Gates: may this staged batch touch the target? Pure: measured numbers in, verdicts out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import median
from typing import TYPE_CHECKING

from lakehouse.model import GateResult

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MEDIAN_OF = 7
"""`row_count_change` compares a date with the median of at most this many earlier dates."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What staging counted. `control` maps uri to (expected, found) records, expected None if the file is missing.

    `earlier` maps earlier landing dates to their staged rows, `dates` the dates of this batch.
    """

    records: int
    rejected: int
    staged: int
    superseded: int
    conflicting: int
    dates: Mapping[date, int] = field(default_factory=dict)
    earlier: Mapping[date, int] = field(default_factory=dict)
    control: Mapping[str, tuple[int | None, int]] = field(default_factory=dict)


def evaluate(declaration: Declaration, measured: Measured, *, scheduled: bool) -> tuple[GateResult, ...]:
    """Every gate with its numbers; those that were not declared pass and carry `limit` None.

    `row_count_change` is asked of scheduled runs alone: a late file or a backfill is small by nature.
    """
    gates = declaration.gates
    results = [
        _at_most("max_rejected_ratio", _ratio(measured.rejected, measured.records), gates.max_rejected_ratio),
        _at_most("max_duplicate_ratio", _ratio(measured.superseded, measured.staged), gates.max_duplicate_ratio),
        _at_most("max_conflicting_duplicates", measured.conflicting, gates.max_conflicting_duplicates),
    ]
    if gates.row_count_change is not None and scheduled:
        results.append(_row_count_change(measured, gates.row_count_change))
    if gates.control_file is not None:
        results.append(_control(measured, declaration.tolerance))
    return tuple(results)


def accept(results: Sequence[GateResult], accepted: Mapping[str, str]) -> tuple[GateResult, ...]:
    """The results with what operators accepted, by gate; one that passed needs nobody's word."""
    return tuple(replace(g, accepted=accepted.get(g.name, "") if not g.passed else "") for g in results)


def accept_command(batch_id: str, gate: str) -> str:
    """The command that lets a batch pass a gate."""
    return f"lakehouse gate accept {shlex.quote(batch_id)} {shlex.quote(gate)} --reason TEXT"


def after_refusal(declaration: Declaration, batch_id: str, results: Sequence[GateResult]) -> str:
    """What an operator does about a batch that was blocked: look and correct, or accept."""
    stopped = [g.name for g in results if g.stops]
    accepting = " && ".join(accept_command(batch_id, name) for name in stopped)
    if stopped == ["max_rejected_ratio"]:
        return f"lakehouse rejects show {declaration.table} --batch {batch_id}; correct the files, or {accepting}"
    return (
        f"look at the files of batch {batch_id}; correct them, or {', '.join(stopped)} in {declaration.path}, "
        f"then lakehouse load {declaration.table}; or {accepting}"
    )


def deleted_ratio_gate(vanished: int, live_before: int, limit: float) -> GateResult:
    """Whether a snapshot feed may take so many of the rows that live in the table; asked after the match."""
    passed = vanished <= limit * live_before
    detail = "" if passed else f"{vanished} of {live_before} rows are absent from the newest date"
    return GateResult("max_deleted_ratio", passed, round(_ratio(vanished, live_before), 6), limit, detail)


def _at_most(name: str, value: float | int, limit: float | int | None) -> GateResult:
    return GateResult(name, limit is None or value <= limit, value, limit)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _row_count_change(measured: Measured, limit: float) -> GateResult:
    worst, detail = 0.0, "no earlier date to compare with"
    for day, rows in sorted(measured.dates.items()):
        before = [n for d, n in sorted(measured.earlier.items()) if d < day][-MEDIAN_OF:]
        if not before or not (middle := median(before)):
            continue
        change = abs(rows - middle) / middle
        if change >= worst:
            worst, detail = change, f"date={day} rows={rows} median={middle:g} of {len(before)} earlier dates"
    return GateResult("row_count_change", worst <= limit, round(worst, 6), limit, detail)


def _control(measured: Measured, tolerance: int) -> GateResult:
    faults, worst = [], 0
    for uri, (expected, found) in sorted(measured.control.items()):
        if expected is None:
            faults.append(f"control file of {uri} is missing or no number")
        elif abs(expected - found) > tolerance:
            faults.append(f"{uri}: control file says {expected}, file has {found}")
        worst = max(worst, abs((expected or 0) - found))
    return GateResult("control_file", not faults, worst, tolerance, "; ".join(faults[:5]))
