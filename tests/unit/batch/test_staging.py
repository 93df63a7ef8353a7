from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog.noop import NoopCatalog

from lakehouse.batch import staging
from lakehouse.batch.staging import Staged, stage_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.declaration import Declaration
from lakehouse.model import Bookmark, Decision, ObjectDecision
from lakehouse.services import Progress
from lakehouse.storage import Storage, open_storage
from tests.ledger_values import services_of
from tests.staging_values import DAY, MTIME, declared


def stage_all(
    folder: Path, landing: Storage, declaration: Declaration, *, progress: Callable[[Progress], None] = lambda _: None
) -> Staged:
    """Stage every object of `landing` in the order of the URIs."""
    listed = sorted(landing.list(""), key=lambda obj: obj.uri)
    services = services_of(NoopCatalog("none"), landing, spill=folder, ops_namespace="ops")
    with duckdb.connect() as con:
        return stage_objects(
            con,
            declaration,
            [ObjectDecision(obj, DAY, Decision.PLANNED, "new") for obj in listed],
            table=None,
            bookmark=Bookmark(),
            landing=landing,
            folder=folder / "fetched",
            now=MTIME,
            services=replace(services, progress=progress),
            watch=Stopwatch(lambda: 0.0),
        )


def test_missing_columns_stand_in_the_reason_and_in_a_warning(tmp_path: Path) -> None:
    landing = open_storage(f"file://{tmp_path}/landing", {})
    for key, data in {"a.csv": b"id,v,w\n1,2,3\n", "b.csv": b"id\n1\n", "c.csv": b"v\n1\n"}.items():
        landing.put(key, data)
    listed = sorted(landing.list(""), key=lambda obj: obj.uri)
    staged = stage_all(tmp_path, landing, declared({"id": "string", "v": "string", "w": "string"}))
    told = "columns missing in the file are NULL: v, w"
    decisions = [outcome.decision for outcome in staged.outcomes]
    assert decisions == [Decision.CONSUMED, Decision.CONSUMED, Decision.QUARANTINED]
    assert [outcome.reason for outcome in staged.outcomes[:2]] == ["new", f"new; {told}"]
    assert staged.warnings == (f"{listed[1].uri}: {told}",)


def test_outcomes_stand_in_the_order_of_the_objects_whatever_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL", 100)
    monkeypatch.setattr(staging, "MOST_TOGETHER", 3)
    landing = open_storage(f"file://{tmp_path}/landing", {})
    rows = [1, 2, 500, 3, 1, 2, 3, 4, 500, 500, 1]
    for number, count in enumerate(rows):
        landing.put(f"{number:02d}.csv", b"id,v\n" + b"".join(b"%d-%d,v\n" % (number, i) for i in range(count)))
    listed = sorted(landing.list(""), key=lambda obj: obj.uri)
    told: list[Progress] = []
    staged = stage_all(tmp_path, landing, declared(), progress=told.append)
    assert [outcome.object for outcome in staged.outcomes] == listed
    assert [outcome.rows.staged for outcome in staged.outcomes] == rows
    assert not [*(tmp_path / "fetched").iterdir()]
    assert (told[-1].done, len(told)) == (len(rows), len(rows))


def test_compressed_objects_wait_by_their_plain_size_and_damaged_ones_are_quarantined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "SMALL", 1000)
    together: list[int] = []
    small = staging.stage_small_objects
    monkeypatch.setattr(
        staging,
        "stage_small_objects",
        lambda con, **named: together.append(len(named["objects"])) or small(con, **named),
    )
    landing = open_storage(f"file://{tmp_path}/landing", {})
    packed = gzip.compress(b"id,v\n1,2\n")
    for key, data in {
        "a.csv": b"id,v\n1,2\n",
        "b.csv.gz": packed,
        "c.csv.gz": packed[:-4],
        "d.csv": b"id,v\n1,2\n",
        "e.csv.gz": gzip.compress(b"id,v\n" + b"1,2\n" * 1000),
    }.items():
        landing.put(key, data)
    staged = stage_all(tmp_path, landing, declared())
    assert [o.rows.staged for o in staged.outcomes] == [1, 1, 0, 1, 1000]
    assert [o.decision for o in staged.outcomes].index(Decision.QUARANTINED) == 2
    assert "the gzip file is damaged: uri=" in staged.outcomes[2].reason
    assert [count for count in together if count] == [2, 1]
    assert not [*(tmp_path / "fetched").iterdir()]
