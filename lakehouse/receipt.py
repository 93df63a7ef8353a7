"""Collects what a load did into its receipt, also when it fails, and writes the receipt as JSON. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from lakehouse.batch import BatchResult
from lakehouse.errors import Blocked, Conflict, Detached, Held, LakehouseError, LeaseHeld, OutcomeUnknown, Unaccepted
from lakehouse.gate import after_refusal
from lakehouse.model import (
    BatchReceipt,
    DateCounts,
    Decision,
    FileCounts,
    GateResult,
    ObjectDecision,
    Plan,
    Receipt,
    RowCounts,
    State,
)
from lakehouse.receipt_total import total

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_STATES: tuple[tuple[type[LakehouseError], State], ...] = (
    (Detached, State.DETACHED),
    (Held, State.HELD),
    (Blocked, State.BLOCKED),
    (Unaccepted, State.BLOCKED),
    (LeaseHeld, State.CONFLICT),
    (Conflict, State.CONFLICT),
    (OutcomeUnknown, State.UNKNOWN),
)


class ReceiptBuilder:
    """The one mutable value of a load: what has happened so far."""

    def __init__(self, declaration: Declaration, run_id: str) -> None:
        self._declaration = declaration
        self._run_id = run_id
        self._plan: Plan | None = None
        self._results: list[BatchResult] = []
        self._failed: dict[str, ObjectDecision] = {}
        self._failure = ""
        self._error: LakehouseError | None = None
        self._version: int | None = None
        self._snapshot_id: int | None = None
        self._table_rows: int | None = None
        self._added_columns: tuple[str, ...] = ()
        self._ledger = "ok"
        self._warnings: list[str] = []

    def planned(self, plan: Plan) -> None:
        """The newest plan counts the objects that were not read."""
        self._plan = plan
        self._version = plan.bookmark_version

    def warn(self, text: str) -> None:
        self._warnings.append(text)

    def stands_at(self, *, snapshot_id: int | None, table_rows: int | None, added_columns: tuple[str, ...]) -> None:
        self._snapshot_id = snapshot_id
        self._table_rows = table_rows
        self._added_columns = added_columns

    def ended(self, result: BatchResult) -> None:
        self._results.append(result)
        if result.state is State.COMMITTED:
            self._version = result.task.position.bookmark.version + 1
            self._snapshot_id = result.snapshot_id
        self._warnings.extend(result.warnings)
        for item, reason in result.failed:
            self._failed[item.object.uri] = item
            self._failure = f"{item.object.uri}: {reason}"

    def raised(self, error: LakehouseError) -> None:
        self._error = error

    def ledger_behind(self, error: LakehouseError) -> None:
        self._ledger = "behind"
        self._warnings.append(f"the load succeeded, the ledger is behind: {error.message}")

    def build(self, seconds: Mapping[str, float]) -> Receipt:
        state, exit_code, error, next_step = self._verdict()
        done = [r for r in self._results if r.state is State.COMMITTED]
        shown = [r for r in self._results if r.state in (State.COMMITTED, State.BLOCKED)]
        return Receipt(
            table=self._declaration.table,
            context=self._declaration.context,
            run_id=self._run_id,
            state=state,
            bookmark_version=self._version,
            snapshot_id=self._snapshot_id,
            declaration=self._declaration.hash,
            next=next_step,
            objects=self._objects(done),
            rows=sum((r.rows for r in shown), RowCounts()),
            dates=_add_dates(done),
            files=sum((r.files for r in done), FileCounts()),
            gates=_last_gates(self._results),
            seconds=dict(seconds),
            batches=tuple(self._batch(r) for r in shown),
            warnings=(*(self._plan.warnings if self._plan else ()), *self._warnings),
            error=error,
            exit_code=exit_code,
            table_rows=self._table_rows,
            merge_rule=next((r.merge_rule for r in reversed(done)), ""),
            added_columns=self._added_columns,
        )

    def _batch(self, result: BatchResult) -> BatchReceipt:
        version = result.task.position.bookmark.version
        committed = result.state is State.COMMITTED
        return BatchReceipt(
            batch_id=result.task.batch_id,
            state=result.state,
            snapshot_id=result.snapshot_id,
            bookmark_version=version + 1 if committed else version,
            objects=len(result.outcomes),
            rows=result.rows,
            ledger=self._ledger if committed else "none",
        )

    def _objects(self, done: Sequence[BatchResult]) -> dict[str, int]:
        plan = self._plan
        count = plan.count if plan else lambda _: 0
        return {
            "read": sum(o.decision is Decision.CONSUMED for r in done for o in r.outcomes),
            "deferred": count(Decision.DEFERRED) + len(self._failed),
            "ignored": count(Decision.IGNORED),
            "outside_window": count(Decision.OUTSIDE_WINDOW),
            "quarantined": count(Decision.QUARANTINED) if not self._error else _quarantined(done),
            "skipped": count(Decision.SKIPPED),
        }

    def _verdict(self) -> tuple[State, int, str, str]:
        table = self._declaration.table
        if self._error is not None:
            state = next((s for kind, s in _STATES if isinstance(self._error, kind)), State.FAILED)
            return state, self._error.exit_code, self._error.message, self._error.next
        last = self._results[-1] if self._results else None
        if last is not None and last.state is State.BLOCKED:
            return State.BLOCKED, 1, last.detail, after_refusal(self._declaration, last.task.batch_id, last.gates)
        done = [r for r in self._results if r.state is State.COMMITTED]
        state = State.COMMITTED if done else State.NOTHING_TO_DO
        if self._failed:
            more = f" (and {len(self._failed) - 1} more)" if len(self._failed) > 1 else ""
            state = state if done else State.FAILED
            return state, 3, f"read failed, left for the next load: {self._failure}{more}", f"lakehouse load {table}"
        if _quarantined(done):
            first = next(o for r in done for o in r.outcomes if o.decision is Decision.QUARANTINED)
            count = _quarantined(done)
            named = first.reason if first.object.uri in first.reason else f"{first.object.uri}: {first.reason}"
            text = f"quarantined: {named}" if count == 1 else f"{count} objects quarantined, the first: {named}"
            return state, 1, text, f"lakehouse files {table}"
        if self._ledger == "behind":
            return state, 0, "", f"lakehouse ledger rebuild {table}"
        return state, 0, "", ""


def plan_line(plan: Plan, run_id: str) -> dict[str, object]:
    """What a log says of a plan: the batch that comes next, and what is decided about how many objects."""
    return {
        "table": plan.table,
        "source": plan.context,
        "run_id": run_id,
        "batch_id": plan.batch_id if plan.batches else "",
        "step": "planned",
        "bookmark_version": plan.bookmark_version,
        **{f"objects_{decision.value}": plan.count(decision) for decision in Decision},
    }


def batch_line(result: BatchResult) -> dict[str, object]:
    """What a log says of a batch that ended: the audit record."""
    task = result.task
    return {
        "table": task.declaration.table,
        "source": task.declaration.context,
        "run_id": task.run_id,
        "batch_id": task.batch_id,
        "attempt_id": task.attempt_id,
        "step": "ended",
        "state": result.state.value,
        "bookmark_version": task.position.bookmark.version + (result.state is State.COMMITTED),
        "snapshot_id": result.snapshot_id,
        "objects": len(result.outcomes),
        "failed_objects": len(result.failed),
        "lookback_days": task.declaration.source.lookback_days,
        "gates": [gate.name for gate in result.gates if gate.stops],
        **{f"rows_{name}": count for name, count in result.rows.as_dict().items()},
    }


def failed_receipt(
    declaration: Declaration, run_id: str, error: LakehouseError, seconds: Mapping[str, float] | None = None
) -> Receipt:
    """The receipt of a load that failed before it began."""
    parts = []
    for one in declaration.by_source:
        builder = ReceiptBuilder(one, run_id)
        builder.raised(error)
        parts.append(builder.build(seconds or {}))
    return total(declaration, parts)


def _quarantined(results: Sequence[BatchResult]) -> int:
    return sum(o.decision is Decision.QUARANTINED for r in results for o in r.outcomes)


def _add_dates(results: Sequence[BatchResult]) -> dict[str, DateCounts]:
    totals: dict[str, DateCounts] = {}
    for result in results:
        for day, counts in result.dates.items():
            totals[day] = totals.get(day, DateCounts()) + counts
    return dict(sorted(totals.items()))


def _last_gates(results: Sequence[BatchResult]) -> tuple[GateResult, ...]:
    """The gates of the batch that was blocked, else of the last one that was asked."""
    asked = [r.gates for r in results if r.gates]
    return asked[-1] if asked else ()


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """The receipt as INTERFACE.md gives it; of several sources the totals, and `sources` with one receipt each."""
    body = {f.name: getattr(receipt, f.name) for f in fields(receipt)}
    body["rows"] = _rows(receipt.rows)
    body["dates"] = {
        day: {"objects": c.objects, **_rows(c.rows), "gained": c.gained, "lost": c.lost}
        for day, c in receipt.dates.items()
    }
    body["files"] = {**asdict(receipt.files), "rule": body.pop("merge_rule")}
    body["gates"] = {
        g.name: {"passed": g.passed, "value": g.value, "limit": g.limit, "detail": g.detail, "accepted": g.accepted}
        for g in receipt.gates
    }
    body["batches"] = [{**asdict(b), "rows": _rows(b.rows)} for b in receipt.batches]
    body["warnings"] = list(receipt.warnings)
    body["added_columns"] = list(receipt.added_columns)
    del body["sources"]
    if receipt.sources:
        body["sources"] = [receipt_json(part) for part in receipt.sources]
    return body


def _rows(rows: RowCounts) -> dict[str, int]:
    """The counts with both sides of a declared SQL: accepted records, and the rows that are staged."""
    counts = rows.as_dict()
    return {"read": counts.pop("read"), "rejected": counts.pop("rejected"), "accepted": rows.accepted, **counts}
