from __future__ import annotations

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from lakehouse.errors import DataError
from lakehouse.ledger.rows import ROWS, Entry, batch_rows, file_rows, reconciliation_rows, reject_rows
from lakehouse.ledger.schema import COLUMNS, REJECTS, ledger_schema
from lakehouse.model import Bookmark, Decision, Equation, Manifest, Mode, Reference, RowCounts
from tests.landing_values import START, landed, manifest_of, outcome
from tests.ledger_values import rejects_table

DAY = date(2026, 9, 1)

# INTERFACE, What is stored: users query these.
PROMISED = {
    "files": "target, table_uuid, context, bookmark_version, batch_id, uri, etag, version_id, size, last_modified, "
    "first_seen, landing_date, decision, reason, rows_read, rows_rejected, rows_inserted, rows_updated",
    "batches": "target, table_uuid, context, batch_id, run_id, state, mode, bookmark_version, snapshot_id, objects, "
    "rows_read, rows_rejected, rows_staged, rows_inserted, rows_updated, rows_unchanged, rows_stale, rows_superseded, "
    "rows_deleted, rows_removed, rows_vanished, rows_replaced, rows_absent, started_at, merge_started_at, "
    "merge_ended_at, ended_at, lookback_days",
    "rejects": "target, table_uuid, context, bookmark_version, batch_id, uri, line_number, column_name, reason, raw",
    "reconciliations": "target, table_uuid, context, bookmark_version, snapshot_id, equation, landing_date, "
    "left_value, right_value",
}


def entry_of(manifest: Manifest, snapshot_id: int | None = 7) -> Entry:
    return Entry(manifest, Reference("s3://state/m", "ab"), "u-1", "orders", snapshot_id)


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_column_is_there(name: str) -> None:
    assert set(PROMISED[name].split(", ")) <= set(COLUMNS[name])


@pytest.mark.parametrize("name", ROWS)
def test_rows_fill_exactly_the_columns_of_their_table(name: str) -> None:
    manifest = replace(manifest_of(Bookmark(), [outcome(landed("a.csv"))]), equations=(Equation("e", 1, 2),))
    (row,) = ROWS[name](entry_of(manifest))
    assert set(row) == set(COLUMNS[name])
    assert pa.Table.from_pylist([row], schema=ledger_schema(name).as_arrow()).num_rows == 1


def test_each_object_is_one_row_with_its_own_counts_and_its_key_unchanged() -> None:
    read = replace(outcome(landed("a b%20+é.csv", "v2"), day=DAY), rows=RowCounts(read=3, rejected=1, updated=2))
    bad = outcome(landed("c.csv"), Decision.QUARANTINED, reason="no header")
    first, second = file_rows(entry_of(manifest_of(Bookmark(), [read, bad])))
    assert (first["uri"], first["etag"], first["landing_date"]) == ("s3://landing/in/a b%20+é.csv", "v2", DAY)
    assert (first["rows_read"], first["rows_rejected"], first["rows_updated"]) == (3, 1, 2)
    assert (second["decision"], second["reason"], second["landing_date"]) == ("quarantined", "no header", None)


def test_the_batch_row_says_what_was_published() -> None:
    manifest = replace(
        manifest_of(Bookmark(version=4), [outcome(landed("a.csv"))], mode=Mode.NO_ADVANCE, advance=False),
        table_uuid="new",
    )
    (row,) = batch_rows(entry_of(manifest, snapshot_id=None))
    assert (row["table_uuid"], row["bookmark_version"], row["snapshot_id"]) == ("u-1", 5, None)
    assert (row["state"], row["mode"], row["advance"], row["objects"]) == ("committed", "no-advance", False, 1)
    assert (row["ended_at"], row["merge_started_at"], row["lookback_days"]) == (START, None, 3)


def test_equations_keep_both_sides() -> None:
    manifest = replace(manifest_of(Bookmark()), equations=(Equation("live", 4, 5, DAY), Equation("batch", 1, 1)))
    rows = reconciliation_rows(entry_of(manifest))
    assert [(r["equation"], r["landing_date"], r["left_value"], r["right_value"]) for r in rows] == [
        ("live", DAY, 4, 5),
        ("batch", None, 1, 1),
    ]


def test_rejects_get_the_key_of_their_batch() -> None:
    schema = ledger_schema(REJECTS).as_arrow()
    rows = reject_rows(entry_of(manifest_of(Bookmark())), rejects_table(12), schema=schema)
    assert rows.schema == schema
    (row,) = rows.to_pylist()
    assert (row["batch_id"], row["bookmark_version"], row["line_number"]) == ("batch1", 1, 12)
    assert row["raw"] == "1,é,'x'"


@pytest.mark.parametrize(
    "broken",
    [
        rejects_table(1).drop_columns(["raw"]),
        rejects_table(1).set_column(1, "line_number", pa.array(["first"])),
    ],
)
def test_rejects_of_another_shape_are_named(broken: pa.Table) -> None:
    with pytest.raises(DataError, match="batch=batch1"):
        reject_rows(entry_of(manifest_of(Bookmark())), broken, schema=ledger_schema(REJECTS).as_arrow())
