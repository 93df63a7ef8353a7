"""What stays of an attempt: it is read as it was written, and what nobody can read is named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse import naming
from lakehouse.attempt import CLOCKS_DIFFER, AttemptRecord, read_records, write_record
from lakehouse.errors import DataError
from lakehouse.model import GateResult, Reference, State
from lakehouse.storage import Storage, open_storage

ROOT = "default/analytics.orders/u/"
RECORD = AttemptRecord(
    attempt_id="a", batch_id="b", context="orders", run_id="r", bookmark_version=3, declaration="d",
    state=State.BLOCKED, step="gate", error="over the limit", ended_at=datetime(2026, 9, 1, 12, tzinfo=UTC),
    objects=(("s3://l/a.csv", "e", None), ("s3://l/b.csv", "e", "v")),
    gates=(GateResult("max_rejected_ratio", False, 0.5, 0.1), GateResult("control_file", False, 3, 0)),
    rejects=Reference("s3://state/rejects.parquet", "0" * 64), exit_code=1,
)  # fmt: skip


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"file://{tmp_path}", {})


def test_records_are_read_as_they_were_written_the_newest_first(storage: Storage) -> None:
    newer = replace(RECORD, attempt_id="c", ended_at=datetime(2026, 9, 1, 13, tzinfo=UTC), gates=(), rejects=None)
    for record in (RECORD, newer):
        write_record(storage, ROOT, record)
    found = [*read_records(storage, ROOT)]
    assert found == [newer, RECORD]
    assert isinstance(found[1].gates[1].value, int), "a count is told as a count"


def changed(**fields: Any) -> bytes:
    body = {"format": 1, "attempt_id": "a", "batch_id": "b", "context": "c", "run_id": "r", "bookmark_version": 1,
            "declaration": "d", "state": "failed", "step": "s", "error": "e", "ended_at": "2026-09-01T12:00:00+00:00",
            "objects": []}  # fmt: skip
    return json.dumps({name: value for name, value in {**body, **fields}.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"garbage", b"", b"\xff\xfe", b"[]", b"null", b"7", b"{}",
        changed(format=2), changed(state="odd"), changed(objects=7), changed(objects=[["uri"]]), changed(gates=[{}]),
        changed(ended_at="yesterday"), changed(ended_at="2026-09-01T12:00:00"), changed(bookmark_version="many"),
        changed(rejects="here"), changed(context="absent"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_named(storage: Storage, data: bytes) -> None:
    write_record(storage, ROOT, RECORD)
    key = ROOT + naming.attempt_record("broken")
    storage.put(key, data)
    with pytest.raises(DataError, match="the record of an attempt cannot be read") as caught:
        [*read_records(storage, ROOT)]
    assert storage.uri(key) in caught.value.message and storage.uri(key) in caught.value.next


def test_what_is_no_record_is_no_obstacle_once_it_is_surely_history(storage: Storage) -> None:
    write_record(storage, ROOT, RECORD)
    storage.put(ROOT + naming.attempt_record("broken"), b"garbage")
    (broken,) = [item for item in storage.list(ROOT) if "broken" in item.uri]
    later = broken.last_modified + CLOCKS_DIFFER
    assert [*read_records(storage, ROOT, answered=later + timedelta(seconds=1))] == [RECORD]
    with pytest.raises(DataError):
        [*read_records(storage, ROOT, answered=later)]


def test_a_record_of_an_earlier_release_has_no_fields_of_a_later_one(storage: Storage) -> None:
    storage.put(ROOT + naming.attempt_record("a"), changed())
    (found,) = read_records(storage, ROOT)
    assert (found.command, found.exit_code, found.gates) == ("", 3, ())
