"""How loads and batches end, and what is reported of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakehouse.model.counts import DateCounts, FileCounts, GateResult, RowCounts


class State(StrEnum):
    """How a load or a batch ended."""

    COMMITTED = "committed"
    NOTHING_TO_DO = "nothing_to_do"
    BLOCKED = "blocked"
    HELD = "held"
    DETACHED = "detached"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """How one batch of a load ended."""

    batch_id: str
    state: State
    snapshot_id: int | None
    bookmark_version: int
    objects: int
    rows: RowCounts
    ledger: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a load reports, also on failure. `seconds` maps a step's name to wall-clock seconds.

    `bookmark_version` is None if the load failed before it could read the bookmark. Of several sources everything but
    `sources` is the total (`lakehouse.receipt_total`), and `bookmark_version` is None: each has its own.
    `table_rows` counts the rows of the whole table after the load, from its manifests; None if that is not known.
    `merge_rule` is the rule by which files with dead rows were rewritten or left with position deletes.
    `added_columns` are the table's columns that files brought undeclared, in this load or before.
    """

    table: str
    context: str
    run_id: str
    state: State
    bookmark_version: int | None
    snapshot_id: int | None
    declaration: str
    next: str
    objects: Mapping[str, int]
    rows: RowCounts
    dates: Mapping[str, DateCounts]
    files: FileCounts
    gates: tuple[GateResult, ...]
    seconds: Mapping[str, float]
    batches: tuple[BatchReceipt, ...]
    warnings: tuple[str, ...] = ()
    error: str = ""
    exit_code: int = 0
    table_rows: int | None = None
    merge_rule: str = ""
    added_columns: tuple[str, ...] = ()
    sources: tuple[Receipt, ...] = ()
