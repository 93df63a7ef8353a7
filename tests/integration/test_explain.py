"""`lakehouse explain`: every decision on an object, whatever became of it since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.audit.object_history import explain_object
from lakehouse.errors import UsageError
from lakehouse.model import Mode
from tests.lake import DAY_1, Lake, csv, order


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def test_an_object_through_its_life(lake: Lake) -> None:
    services = lake.services()
    uri = lake.put(DAY_1, "a.csv", csv(order(1), order(2), "x,c,1.00,2026-08-30T10:00:00Z"))
    waiting = explain_object(lake.declaration, uri, services)
    assert (waiting.decision, waiting.reason, waiting.events) == ("planned", "new object", ())
    assert waiting.next == f"lakehouse load {lake.table}"

    first = lake.load()
    etag = explain_object(lake.declaration, uri, services).etag
    lake.put(DAY_1, "a.csv", csv(order(1, "2.00", 5)))
    second = lake.load()
    lake.load(mode=Mode.FULL)
    assert lake.cli("object", "skip", uri, "--reason", "poison")[0] == 0

    found = explain_object(lake.declaration, uri, services)
    assert (found.listed, found.decision, found.landing_date) == (True, "skipped", "2026-08-30")
    assert "poison" in found.reason
    assert [(e.bookmark_version, e.what, e.decision) for e in found.events] == [
        (4, "object-skip", "skipped"),
        (3, "full", "consumed"),
        (2, "incremental", "consumed"),
        (1, "incremental", "consumed"),
    ]
    _, again, newer, oldest = found.events
    assert (oldest.rows_read, oldest.rows_rejected, oldest.rows_inserted) == (3, 1, 2)
    assert (newer.rows_updated, newer.supersedes, again.supersedes, again.rows_unchanged) == (1, etag, None, 1)
    assert [e.snapshot_id for e in (newer, oldest)] == [second.snapshot_id, first.snapshot_id]
    assert [e.batch_id for e in (newer, oldest)] == [second.batches[0].batch_id, first.batches[0].batch_id]

    lake.stack.s3.delete_object(Bucket="landing", Key=uri.removeprefix("s3://landing/"))
    gone = explain_object(lake.declaration, uri, services)
    assert (gone.listed, gone.decision, len(gone.events)) == (False, None, 4)


def test_a_blocked_attempt_is_named(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, gates="max_rejected_ratio: 0.0")
    uri = lake.put(DAY_1, "a.csv", csv("x,c,1.00,2026-08-30T10:00:00Z"))
    lake.load()
    (attempt,) = explain_object(lake.declaration, uri, lake.services()).attempts
    assert (attempt.state, attempt.step, "max_rejected_ratio" in attempt.error) == ("blocked", "gate", True)


def test_the_command_line_and_an_object_that_never_was(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    with pytest.raises(UsageError, match="no such object") as caught:
        explain_object(lake.declaration, uri.replace("a.csv", "b.csv"), lake.services())
    assert uri in caught.value.message
    lake.load()
    code, found, _ = lake.cli("explain", uri, "--json")
    assert (code, found["decision"], found["events"][0]["rows_inserted"]) == (0, "consumed", 1)
    process = lake.start("explain", uri)
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, "consumed: batch_id=" in out, "object reload" in out) == (0, True, True)
    assert lake.cli("explain", "s3://landing/elsewhere/a.csv")[0] == 2
