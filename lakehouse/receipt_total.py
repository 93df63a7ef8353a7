"""The receipt of a table out of those of its sources: sums, and the ending of the source that needs most. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lakehouse.model import DateCounts, FileCounts, Receipt, RowCounts, State

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_Value = TypeVar("_Value")

_WORST_FIRST = (70, 4, 2, 1, 3, 0)
"""Exit codes by what they ask of an operator: to find out, to mend something, to run it again, nothing."""
_GOOD = (State.COMMITTED, State.NOTHING_TO_DO)


def total(declaration: Declaration, parts: Sequence[Receipt]) -> Receipt:
    """One receipt of all sources: of an only source its own.

    State, exit code, error and next command are those of the source that ended worst, the first of several. What each
    source has for itself, such as its bookmark version, stands in `sources` alone.
    """
    if len(parts) == 1:
        return parts[0]
    worst = min(parts, key=lambda part: (_WORST_FIRST.index(part.exit_code), part.state in _GOOD))
    committed = [part for part in parts if part.batches and part.snapshot_id is not None]
    standing = [part for part in parts if part.snapshot_id is not None]
    return Receipt(
        table=declaration.table,
        context=", ".join(part.context for part in parts),
        run_id=worst.run_id,
        state=worst.state if worst.exit_code else _state(parts),
        bookmark_version=None,
        snapshot_id=next((part.snapshot_id for part in reversed(committed or standing)), None),
        declaration=declaration.hash,
        next=worst.next or next((part.next for part in parts if part.next), ""),
        objects=_sums([part.objects for part in parts], lambda a, b: a + b),
        rows=sum((part.rows for part in parts), RowCounts()),
        dates=dict(sorted(_sums([part.dates for part in parts], DateCounts.__add__).items())),
        files=sum((part.files for part in parts), FileCounts()),
        gates=tuple(replace(gate, name=f"{part.context}: {gate.name}") for part in parts for gate in part.gates),
        seconds=_sums([part.seconds for part in parts], lambda a, b: round(a + b, 4)),
        batches=tuple(batch for part in parts for batch in part.batches),
        warnings=tuple(f"{part.context}: {warning}" for part in parts for warning in part.warnings),
        error="; ".join(f"{part.context}: {part.error}" for part in parts if part.error),
        exit_code=worst.exit_code,
        table_rows=_last([part.table_rows for part in parts]),
        merge_rule=_last([part.merge_rule or None for part in parts]) or "",
        added_columns=_last([part.added_columns or None for part in parts]) or (),
        sources=tuple(parts),
    )


def worst_exit_code(codes: Sequence[int]) -> int:
    """The one that asks most of an operator."""
    return min(codes, key=_WORST_FIRST.index, default=0)


def _state(parts: Sequence[Receipt]) -> State:
    return State.COMMITTED if any(part.state is State.COMMITTED for part in parts) else State.NOTHING_TO_DO


def _sums(parts: Sequence[Mapping[str, _Value]], add: Callable[[_Value, _Value], _Value]) -> dict[str, _Value]:
    totals: dict[str, _Value] = {}
    for part in parts:
        for name, value in part.items():
            totals[name] = add(totals[name], value) if name in totals else value
    return totals


def _last(values: Sequence[_Value | None]) -> _Value | None:
    """What the source that was loaded last knew, for it knew what the others had done."""
    return next((value for value in reversed(values) if value is not None), None)
