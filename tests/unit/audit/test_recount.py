from __future__ import annotations

from dataclasses import replace

from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from lakehouse.audit.recount import foreign_snapshots
from lakehouse.model import Bookmark
from tests.landing_values import manifest_of


def snapshot(number: int, **summary: str) -> Snapshot:
    counts = {name.replace("__", ".").replace("_", "-"): value for name, value in summary.items()}
    made = Summary(Operation.APPEND, **counts)
    return Snapshot(**{"snapshot-id": number, "timestamp-ms": 0, "manifest-list": "m", "summary": made})


def test_foreign_snapshots_are_those_that_nobody_made_or_accepted() -> None:
    first, accepting = manifest_of(Bookmark()), replace(manifest_of(Bookmark(version=1)), foreign=3)
    line = [
        snapshot(7, added_position_deletes="2"),
        snapshot(6, lakehouse__attempt_id=accepting.attempt_id),
        snapshot(5, added_records="8", deleted_records="10", removed_position_deletes="2"),
        snapshot(4, added_records="3", lakehouse__maintain="compact"),
        snapshot(3, added_records="9"),
        snapshot(2, lakehouse__attempt_id=first.attempt_id),
        snapshot(1, added_records="5"),
    ]
    found = foreign_snapshots(line, [(accepting, first)])
    assert [one.text for one in found] == ["snapshot 7: net rows -2", "snapshot 5: net rows +0"]
