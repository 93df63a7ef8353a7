"""A batch manifest as rows of the ledger tables. Pure.

Every column comes from the manifest or its rejects, but for the snapshot id and the key of the target's life: so a
ledger that was dropped can be made again with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse.errors import DataError
from lakehouse.ledger.schema import BATCHES, FILES, RECONCILIATIONS
from lakehouse.model import Manifest, Reference, RowCounts, State

Row: TypeAlias = dict[str, Any]
"""Values by column name, as pyarrow takes them."""

_REJECT_COLUMNS = ("uri", "line_number", "column_name", "reason", "raw")


@dataclass(frozen=True, slots=True)
class Entry:
    """One bookmark version. `table_uuid` and `context` are the target's own: a manifest written before the target
    existed, or before its context was renamed, says something else."""

    manifest: Manifest
    reference: Reference
    table_uuid: str
    context: str
    snapshot_id: int | None


def file_rows(entry: Entry) -> list[Row]:
    """One row per object that the batch consumed or quarantined, or that an operator decided about; another version of
    a key is another batch's row."""
    return [
        {
            **_key(entry),
            "uri": outcome.object.uri,
            "etag": outcome.object.etag,
            "version_id": outcome.object.version_id,
            "size": outcome.object.size,
            "last_modified": outcome.object.last_modified,
            "first_seen": outcome.first_seen,
            "landing_date": outcome.landing_date,
            "decision": outcome.decision.value,
            "reason": outcome.reason,
            **_counts(outcome.rows),
        }
        for outcome in entry.manifest.objects
    ]


def batch_rows(entry: Entry) -> list[Row]:
    """The one row of the batch. Only published batches have a manifest in the chain, so each is committed."""
    manifest = entry.manifest
    return [
        {
            **_key(entry),
            "attempt_id": manifest.attempt_id,
            "run_id": manifest.run_id,
            "state": State.COMMITTED.value,
            "kind": manifest.kind,
            "mode": manifest.mode.value,
            "advance": manifest.advance,
            "declaration": manifest.declaration,
            "snapshot_id": entry.snapshot_id,
            "objects": len(manifest.objects),
            **_counts(manifest.rows),
            "started_at": manifest.started_at,
            "merge_started_at": manifest.merge_started_at,
            "merge_ended_at": manifest.merge_ended_at,
            "ended_at": manifest.written_at,
            "lookback_days": manifest.lookback_days,
            "author": manifest.author,
            "reason": manifest.reason,
            "manifest": entry.reference.uri,
            "manifest_sha256": entry.reference.sha256,
        }
    ]


def reconciliation_rows(entry: Entry) -> list[Row]:
    """One row per equation, with both sides."""
    return [
        {
            **_key(entry),
            "snapshot_id": entry.snapshot_id,
            "equation": equation.name,
            "landing_date": equation.landing_date,
            "left_value": equation.left,
            "right_value": equation.right,
        }
        for equation in entry.manifest.equations
    ]


ROWS: Mapping[str, Callable[[Entry], list[Row]]] = {
    FILES: file_rows,
    BATCHES: batch_rows,
    RECONCILIATIONS: reconciliation_rows,
}
"""What a manifest gives to each ledger table but the rejects, which it only refers to."""


def reject_rows(entry: Entry, rejects: pa.Table, *, schema: pa.Schema) -> pa.Table:
    """The batch's rejects (uri, line_number, column_name, reason, raw) as rows of `schema`.

    Raises DataError if a column is missing or has another type.
    """
    missing = [name for name in _REJECT_COLUMNS if name not in rejects.column_names]
    if missing:
        raise DataError(f"the rejects of a batch lack columns: batch={entry.manifest.batch_id} missing={missing}")
    key = _key(entry)
    arrays = []
    for field in schema:
        if field.name in key:
            arrays.append(pa.repeat(pa.scalar(key[field.name], field.type), rejects.num_rows))
        elif field.name in _REJECT_COLUMNS:
            arrays.append(_cast(rejects.column(field.name), field, entry))
        else:
            arrays.append(pa.nulls(rejects.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _cast(column: pa.ChunkedArray[Any], field: pa.Field[Any], entry: Entry) -> pa.ChunkedArray[Any]:
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise DataError(
            f"the rejects of a batch cannot be read: batch={entry.manifest.batch_id} column={field.name}: {error}"
        ) from error


def _key(entry: Entry) -> Row:
    return {
        "target": entry.manifest.table,
        "table_uuid": entry.table_uuid,
        "context": entry.context,
        "bookmark_version": entry.manifest.bookmark_version,
        "batch_id": entry.manifest.batch_id,
    }


def _counts(rows: RowCounts) -> Row:
    return {f"rows_{name}": count for name, count in rows.as_dict().items()}
