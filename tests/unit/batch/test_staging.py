from __future__ import annotations

from pathlib import Path

import duckdb
from pyiceberg.catalog.noop import NoopCatalog

from lakehouse.batch.staging import stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.model import Bookmark, Decision, ObjectDecision
from lakehouse.storage import open_storage
from tests.ledger_values import services_of
from tests.staging_values import DAY, MTIME, declared


def test_missing_columns_stand_in_the_reason_and_in_a_warning(tmp_path: Path) -> None:
    landing = open_storage(f"file://{tmp_path}/landing", {})
    for key, data in {"a.csv": b"id,v,w\n1,2,3\n", "b.csv": b"id\n1\n", "c.csv": b"v\n1\n"}.items():
        landing.put(key, data)
    listed = sorted(landing.list(""), key=lambda obj: obj.uri)
    with duckdb.connect() as con:
        staged = stage_objects(
            con,
            declared({"id": "string", "v": "string", "w": "string"}),
            [ObjectDecision(obj, DAY, Decision.PLANNED, "new") for obj in listed],
            bookmark=Bookmark(),
            landing=landing,
            folder=tmp_path / "fetched",
            now=MTIME,
            services=services_of(NoopCatalog("none"), landing, spill=tmp_path, ops_namespace="ops"),
            watch=Stopwatch(lambda: 0.0),
        )
    told = "columns missing in the file are NULL: v, w"
    decisions = [outcome.decision for outcome in staged.outcomes]
    assert decisions == [Decision.CONSUMED, Decision.CONSUMED, Decision.QUARANTINED]
    assert [outcome.reason for outcome in staged.outcomes[:2]] == ["new", f"new; {told}"]
    assert staged.warnings == (f"{listed[1].uri}: {told}",)
