"""Loads on the real stack: S3, Iceberg REST catalog, bookmark in the commit. Field cases carry their number."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse import naming
from lakehouse.audit.status import status_of
from lakehouse.ledger import BATCHES, FILES, LEDGERS, RECONCILIATIONS, REJECTS
from lakehouse.model import Decision, Mode, State
from lakehouse.naming import sha256
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order, slow_down, uris


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def test_a_partition_is_loaded_with_bookmark_receipt_and_ledger_in_agreement(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1, "10.00"), order(2, "20.00")))
    lake.put(DAY_2, "b.csv", csv(order(3)))
    receipt = lake.load(day=DAY_1)
    assert (receipt.state, receipt.exit_code, receipt.bookmark_version) == (State.COMMITTED, 0, 1)
    assert receipt.objects == {
        "read": 1,
        "deferred": 0,
        "ignored": 0,
        "outside_window": 0,
        "quarantined": 0,
        "skipped": 0,
    }
    assert lake.amounts() == {1: "10.00", 2: "20.00"}

    table = lake.stack.catalog().load_table(lake.table)
    snapshot = table.current_snapshot()
    keys = snapshot.summary.additional_properties
    assert len(table.metadata.snapshots) == 1
    assert table.metadata.refs[naming.tag("orders")].snapshot_id == snapshot.snapshot_id == receipt.snapshot_id
    assert table.metadata.refs[naming.tag("orders")].max_ref_age_ms == 2**63 - 1
    assert (keys[naming.BATCH_ID], keys[naming.BOOKMARK_VERSION]) == (receipt.batches[0].batch_id, "1")
    manifest = lake.services().state.read(keys[naming.MANIFEST].removeprefix(f"s3://state/{lake.name}/"))
    assert manifest is not None and sha256(manifest) == keys[naming.MANIFEST_SHA256]
    assert keys[naming.rows_key("inserted")] == "2"

    (batch,) = lake.ledger(BATCHES)
    (file,) = lake.ledger(FILES)
    assert (batch["rows_inserted"], batch["snapshot_id"], batch["run_id"]) == (2, receipt.snapshot_id, "test")
    assert (file["uri"], file["rows_read"], file["decision"], file["landing_date"]) == (uri, 2, "consumed", DAY_1)
    stored = lake.ledger(RECONCILIATIONS)
    assert stored and all(r["left_value"] == r["right_value"] for r in stored)
    assert lake.differences(reread=True) == []


def test_duckdb_reads_the_same_rows_from_the_data_files(lake: Lake, tmp_path: Path) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1, "10.00"), order(2, "20.00")))
    lake.put(DAY_2, "b.csv", csv(order(1, "11.00", 30)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    local = []
    for number, task in enumerate(table.scan().plan_files()):
        path = tmp_path / f"{number}.parquet"
        bucket, _, key = task.file.file_path.removeprefix("s3://").partition("/")
        path.write_bytes(lake.stack.s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        local.append(str(path))
    rows = duckdb.execute("select order_id, amount::varchar from read_parquet(?) order by 1", [local]).fetchall()
    assert rows == [(1, "11.00"), (2, "20.00")]


def test_a_second_load_reads_only_what_is_new_and_a_rerun_changes_nothing(lake: Lake) -> None:
    """D01: two files of one second; D02: mtime decides nothing."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert uris(lake.plan()) == ["b.csv"]
    assert lake.load().rows.inserted == 1
    before = lake.snapshots()
    again = lake.load()
    assert (again.state, again.exit_code, again.bookmark_version, again.batches) == (State.NOTHING_TO_DO, 0, 2, ())
    assert lake.snapshots() == before


def test_an_empty_prefix_is_nothing_to_do(lake: Lake) -> None:
    """D17."""
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code, receipt.bookmark_version) == (State.NOTHING_TO_DO, 0, 0)
    assert not lake.stack.catalog().table_exists(lake.table)


def test_siblings_markers_and_empty_objects_are_not_loaded(lake: Lake) -> None:
    """D12, D13."""
    s3 = lake.stack.s3
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "empty.csv", b"")
    lake.put(DAY_1, "note.txt", b"x")
    s3.put_object(Bucket="landing", Key=f"{lake.name}_backup/input_date=2026-08-30/b.csv", Body=csv(order(2)))
    s3.put_object(Bucket="landing", Key=f"{lake.name}/input_date=2026-08-30_$folder$", Body=b"")
    receipt = lake.load()
    assert (receipt.objects["read"], receipt.objects["ignored"]) == (1, 3)
    assert set(lake.amounts()) == {1}


def test_an_overwritten_object_and_its_old_content_again_are_read_each_time(lake: Lake) -> None:
    """D08, and A → B → A of DESIGN §2."""
    first, second = csv("1,c,10.00,2026-08-30T10:00:00Z"), csv("1,c,11.00,2026-08-30T10:00:00Z", order(2, "5.00"))
    lake.put(DAY_1, "a.csv", first)
    lake.load()
    for content, amount in ((second, "11.00"), (first, "10.00")):
        lake.put(DAY_1, "a.csv", content)
        _wait_for_a_new_second(lake)
        lake.put(DAY_1, "a.csv", content)
        assert lake.load().objects["read"] == 1
        assert lake.amounts()[1] == amount
    assert len({f["etag"] for f in lake.ledger(FILES)}) == 2
    assert len(lake.ledger(FILES)) == 3
    assert lake.differences() == []


def _wait_for_a_new_second(lake: Lake) -> None:
    """S3 times have whole seconds: poll the store until a new object is younger than the one that is there."""
    key = f"{lake.name}/input_date=2026-08-30/a.csv"
    s3 = lake.stack.s3
    start = s3.head_object(Bucket="landing", Key=key)["LastModified"]
    for _ in range(1000):
        s3.put_object(Bucket="landing", Key="clock", Body=b"")
        if s3.head_object(Bucket="landing", Key="clock")["LastModified"] > start:
            return
    raise AssertionError("the store's clock stands still")


def test_a_deleted_object_does_not_disturb(lake: Lake) -> None:
    """D03: no object is an anchor."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.stack.s3.delete_object(Bucket="landing", Key=f"{lake.name}/input_date={DAY_1}/a.csv")
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert lake.load().rows.inserted == 1
    assert set(lake.amounts()) == {1, 2}


def test_an_object_that_cannot_be_fetched_now_is_left_for_the_next_load(lake: Lake) -> None:
    """D04."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    with pytest.MonkeyPatch.context() as patch:
        slow_down(patch, "a.csv")
        receipt = lake.load()
    assert (receipt.exit_code, receipt.objects["read"], receipt.objects["deferred"]) == (3, 1, 1)
    assert set(lake.amounts()) == {2}
    assert lake.load().exit_code == 0
    assert set(lake.amounts()) == {1, 2}


def test_a_bug_leaves_its_attempt_and_names_the_object(lake: Lake) -> None:
    rows = (order(number) for number in range(20_000))
    uri = lake.put(DAY_1, "a.csv", csv(*rows))

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("quotes a value")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError) as caught:
        patch.setattr("lakehouse.batch.staging.stage_object", broken)
        lake.load()
    assert caught.value.__notes__ == [f"uri={uri}"]
    status = status_of(lake.declaration, lake.services())
    assert (status.state, status.next) == ("failed", f"lakehouse load {lake.table}")
    assert f": a bug of lakehouse: RuntimeError uri={uri}" in status.detail
    assert "quotes a value" not in status.detail
    assert lake.load().rows.inserted == 20_000


def test_an_older_row_stays_out_whatever_the_order_of_arrival(lake: Lake) -> None:
    """M03."""
    lake.put(DAY_3, "new.csv", csv(order(1, "9.00", 9)))
    lake.load()
    lake.put(DAY_1, "late.csv", csv(order(1, "2.00", 2)))
    receipt = lake.load()
    assert (receipt.rows.stale, receipt.files.added) == (1, 0)
    assert lake.amounts() == {1: "9.00"}
    assert lake.differences(reread=True) == []


def test_duplicates_null_keys_and_bad_values_are_counted_and_listed(lake: Lake) -> None:
    """V01, V02, C01."""
    uri = lake.put(
        DAY_1,
        "a.csv",
        csv(order(1, "1.00", 1), order(1, "2.00", 2), order("", "3.00"), order(4, "12.505"), order(5, "5.00")),
    )
    receipt = lake.load()
    rows = receipt.rows
    assert (rows.read, rows.rejected, rows.staged, rows.superseded, rows.inserted) == (5, 2, 3, 1, 2)
    assert lake.amounts() == {1: "2.00", 5: "5.00"}
    rejects = lake.ledger(REJECTS)
    assert [(r["uri"], r["line_number"], r["column_name"]) for r in rejects] == [
        (uri, 4, "order_id"),
        (uri, 5, "amount"),
    ]
    assert rejects[1]["raw"] == "4,c4,12.505,2026-08-30T10:00:00Z"
    code, shown, _ = lake.cli("rejects", "show", lake.table, "--json")
    assert code == 0 and [r["line_number"] for r in shown] == [4, 5]


def test_columns_are_matched_by_name(lake: Lake) -> None:
    """R01."""
    lake.put(DAY_1, "a.csv", b"order_time,amount,order_id,customer_id\n2026-08-30T10:00:00Z,9.00,1,c\n")
    lake.load()
    assert lake.amounts() == {1: "9.00"}


def test_a_file_that_cannot_be_read_as_declared_is_quarantined_and_the_others_load(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", b"order_id,surprise\n1,2\n")
    lake.put(DAY_1, "b.csv", csv(order(2)))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code, receipt.objects["quarantined"]) == (State.COMMITTED, 1, 1)
    assert "surprise" in receipt.error
    again = lake.load()
    assert (again.state, again.exit_code, again.objects["quarantined"]) == (State.NOTHING_TO_DO, 0, 1)
    lake.write_declaration(lake.declaration_text() + "  unknown_columns: ignore\n")
    assert [d.reason[:11] for d in lake.plan().decisions if d.decision is Decision.PLANNED] == ["quarantined"]


def test_a_failed_gate_leaves_everything_as_it_was(stack: Any, tmp_path: Path) -> None:
    """V08: at the default ratio of 0.0 one reject blocks the batch."""
    lake = Lake(stack, tmp_path, gates="")
    lake.put(DAY_1, "good.csv", csv(order(1)))
    lake.load()
    version, snapshots = lake.version(), lake.snapshots()
    lake.put(DAY_2, "bad.csv", csv(order(2), order("", "1.00")))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code) == (State.BLOCKED, 1)
    assert "max_rejected_ratio: 0.5 is over 0.0" in receipt.error
    assert (lake.version(), lake.snapshots(), set(lake.amounts())) == (version, snapshots, {1})
    code, shown, _ = lake.cli("rejects", "show", lake.table, "--json")
    assert code == 0 and [(r["state"], r["line_number"]) for r in shown] == [("blocked", 3)]
    staged = [o.uri for o in lake.services().state.list("") if o.uri.endswith("staged.parquet")]
    assert len(staged) == 1
    code, (status,), _ = lake.cli("status", lake.table, "--json")
    assert status["state"] == "blocked"
    lake.put(DAY_2, "bad.csv", csv(order(2)))
    assert lake.load().state is State.COMMITTED
    assert not [o for o in lake.services().state.list("") if o.uri.endswith("staged.parquet")]
    code, (status,), _ = lake.cli("status", lake.table, "--json")
    assert status["state"] == "committed"


def test_full_mode_reads_everything_again_and_changes_nothing(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_2, "b.csv", csv(order(2, "3.00", 5)))
    lake.load()
    receipt = lake.load(mode=Mode.FULL)
    assert (receipt.state, receipt.objects["read"], receipt.files.added) == (State.COMMITTED, 2, 0)
    assert (receipt.rows.inserted, receipt.rows.updated, receipt.bookmark_version) == (0, 0, 2)
    assert lake.differences(reread=True) == []


def test_bounds_commit_batch_after_batch(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="max_files: 2")
    for number in range(5):
        lake.put(DAY_1, f"{number}.csv", csv(order(number)))
    plan = lake.plan()
    assert [len(b) for b in plan.batches] == [2, 2, 1]
    receipt = lake.load()
    assert [b.objects for b in receipt.batches] == [2, 2, 1]
    assert [b.bookmark_version for b in receipt.batches] == [1, 2, 3]
    assert receipt.batches[0].batch_id == plan.batch_id
    assert (len(lake.amounts()), lake.snapshots()) == (5, 3)
    assert lake.load(mode=Mode.FULL).bookmark_version == 6


def test_young_objects_wait(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="settle_seconds: 3600")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    receipt = lake.load()
    assert (receipt.state, receipt.objects["deferred"]) == (State.NOTHING_TO_DO, 1)
    services = lake.services()
    later = lake.services(now=lambda: services.now() + timedelta(hours=2))
    assert lake.load(services=later).objects["read"] == 1


def test_a_dropped_ledger_is_rebuilt_from_the_manifests(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order("", "1.00")))
    lake.load()
    lake.put(DAY_1, "a.csv", csv(order(1, "2.00", 5)))
    lake.load()
    before = {name: lake.ledger(name) for name in LEDGERS}
    assert before[FILES]
    services = lake.services()
    for name in LEDGERS:
        services.catalog.drop_table(f"{services.settings.ops_namespace}.{name}")
    services.catalog.drop_namespace(services.settings.ops_namespace)
    assert uris(lake.plan()) == []
    code, files, errors = lake.cli("files", lake.table, "--json")
    assert (code, files) == (0, []) and "ledger is behind" in errors
    assert lake.cli("ledger", "rebuild", lake.table)[0] == 0
    code, told, _ = lake.cli("ledger", "compact", lake.table, "--dry-run", "--json")
    assert (code, [one["files_after"] for one in told["ledgers"]]) == (0, [1, 1, 1, 1])
    assert {name: lake.ledger(name) for name in LEDGERS} == before
    code, files, errors = lake.cli("files", lake.table, "--json")
    assert len(files) == 2 and errors == ""


def test_the_command_line_prints_the_receipt(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    code, receipt, _ = lake.cli("load", lake.table, "--partition", "2026-08-30", "--json")
    assert code == 0
    assert receipt["state"] == "committed" and receipt["dates"]["2026-08-30"]["inserted"] == 1
    assert set(receipt) >= {
        "table", "context", "run_id", "state", "bookmark_version", "snapshot_id", "declaration", "next", "objects",
        "rows", "dates", "files", "gates", "seconds", "batches",
    }  # fmt: skip
    assert set(receipt["seconds"]) == {"plan", "read", "stage", "merge", "publish", "ledger", "total"}
    code, plan, _ = lake.cli("plan", lake.table, "--json")
    assert code == 0 and [d["decision"] for d in plan["decisions"]] == ["consumed"]
    code, result, _ = lake.cli("reconcile", lake.table, "--reread", "--json")
    assert code == 0 and result["holds"] is True
    assert json.dumps(receipt)


def test_foreign_rows_are_named_by_reconcile(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    extra = table.scan().to_arrow()
    table.append(extra.set_column(0, extra.schema.field("order_id"), [[99]]))
    names = {e.name for e in lake.differences()}
    assert "table: snapshots of other writers = 0" in names
    code, result, _ = lake.cli("reconcile", lake.table, "--json")
    assert code == 1 and "net rows +1" in result["foreign"][0]
    lake.put(DAY_1, "b.csv", csv(order(99, "7.00", 5)))
    receipt = lake.load()
    assert receipt.rows.updated == 1 and "1 snapshots of other writers" in receipt.warnings[0]
