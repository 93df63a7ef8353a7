"""Puts a table back to where it stood before a timed run, so that every repeat starts from the same target.

Files that a run added stay in the warehouse, named by nothing. For tables of the benchmark alone: a bookmark of a real
table must never be moved like this.
"""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)


def mark(table: Table) -> dict[str, Any]:
    """Refs and snapshot ids of the table, as JSON can hold them."""
    refs = {name: json.loads(ref.model_dump_json(exclude_none=True)) for name, ref in table.metadata.refs.items()}
    return {"refs": refs, "snapshots": [s.snapshot_id for s in table.metadata.snapshots]}


def back(table: Table, marked: dict[str, Any]) -> None:
    """Set the refs of `marked` again and remove the snapshots that came since, in one commit; nothing if none did."""
    if mark(table) == marked:
        return
    refs = marked["refs"]
    updates: list[TableUpdate] = [
        SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", "ref-name": name, **ref})
        for name, ref in refs.items()
    ]
    updates += [RemoveSnapshotRefUpdate(ref_name=name) for name in table.metadata.refs if name not in refs]
    since = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in marked["snapshots"]]
    if since:
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=since))
    table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), tuple(updates))
