"""`bookmark rewind --with-table` and `--to-table` on the real stack (BOOKMARKS G35): rows, counts, position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from lakehouse.audit.bookmark_history import changes
from lakehouse.bookmark import SKIP
from lakehouse.errors import DataError, UsageError
from lakehouse.ledger import BATCHES
from lakehouse.model import State
from lakehouse.operate.hold import hold
from lakehouse.operate.object_change import change_object
from lakehouse.operate.operator_change import Operator
from lakehouse.operate.reattach import rewind_to_table
from lakehouse.operate.rewind_table import rewind_with_table
from tests.evolving_lake import failure, foreign_table, lake_on, orders
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order, uris

ANNA = Operator("anna@host", "a wrong export", "test")


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def table_of(lake: Lake) -> Table:
    return lake.stack.catalog().load_table(lake.table)


def roll_back(lake: Lake, snapshot_id: int | None) -> None:
    assert snapshot_id is not None
    with table_of(lake).manage_snapshots() as change:
        change.rollback_to_snapshot(snapshot_id)


def names(objects: Any) -> list[str]:
    return [uri.rpartition("/")[2] for uri in objects.first]


@pytest.mark.parametrize("catalog", ["rest", "sql"])
def test_g35_rows_and_bookmark_go_back_in_one_commit(catalog: str, stack: Any, tmp_path: Path) -> None:
    """Batches since have rewritten files, deleted positions, removed rows and moved others to other dates."""
    lake = lake_on(catalog, stack, tmp_path)
    lake.more = "delete_when: \"customer_id = 'gone'\"\n  table_properties: {write.merge.mode: merge-on-read}"
    lake.write_declaration()
    lake.put(DAY_1, "a.csv", csv(*(order(n) for n in range(1, 9))))
    lake.load()
    lake.put(DAY_2, "b.csv", csv(order(1, "2.00", 1), order(2, "2.00", 1)))
    wanted = lake.load()
    rows = lake.rows()
    lake.put(DAY_3, "c.csv", csv(order(3, "3.00", 2), "4,gone,1.00,2026-08-30T11:00:00Z", order(9)))
    lake.load()
    lake.write_declaration(lake.declaration_text().replace("merge-on-read", "copy-on-write"))
    lake.put(DAY_3, "d.csv", csv(order(5, "4.00", 3), order(6, "4.00", 3), order(10)))
    lake.load()
    assert len(lake.rows()) == 9

    dry = rewind_with_table(lake.declaration, "2", ANNA, lake.services(), dry_run=True)
    assert (dry.state, dry.inserted, dry.deleted, names(dry.to_read)) == (
        State.NOTHING_TO_DO, 4, 5, ["c.csv", "d.csv"],
    )  # fmt: skip
    before = table_of(lake).metadata
    done = rewind_with_table(lake.declaration, wanted.batches[0].batch_id, ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.to_version, done.again) == (State.COMMITTED, 5, 2, 2)
    assert lake.rows() == rows
    after = table_of(lake).metadata
    assert len(after.snapshots) == len(before.snapshots) + 1
    assert after.current_snapshot_id == after.refs["lakehouse.bookmark.orders"].snapshot_id == done.snapshot_id
    snapshot, then = after.current_snapshot(), after.snapshot_by_id(wanted.snapshot_id)
    assert snapshot and then and snapshot.summary and then.summary
    assert snapshot.parent_snapshot_id == before.current_snapshot_id
    for total in ("total-records", "total-data-files", "total-position-deletes", "total-delete-files"):
        assert snapshot.summary[total] == then.summary[total]
    assert lake.differences(reread=True) == []
    (kind,) = [b for b in lake.ledger(BATCHES) if b["kind"] == "bookmark-rewind-with-table"]
    assert (kind["rows_inserted"], kind["rows_deleted"], kind["snapshot_id"]) == (4, 5, done.snapshot_id)

    receipt = lake.load()
    assert (receipt.objects["read"], receipt.rows.inserted, receipt.rows.updated, receipt.rows.removed) == (2, 2, 3, 1)
    assert len(lake.rows()) == 9
    assert lake.differences(reread=True) == []
    nothing = rewind_with_table(lake.declaration, "6", ANNA, lake.services())
    assert (nothing.state, nothing.bookmark_version) == (State.NOTHING_TO_DO, 6)


def test_g35_columns_and_partitions_that_came_since_stay(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    text = lake.declaration_text().replace("customer_id: string", "customer_id: string\n    note: string")
    lake.write_declaration(text)
    with table_of(lake).update_spec() as spec:
        spec.add_field("order_id", BucketTransform(4))
    lake.put(DAY_1, "a.csv", b"order_id,customer_id,amount,order_time,note\n1,c1,9.00,2026-08-30T11:00:00Z,new\n")
    lake.load()
    assert lake.rows()[1]["note"] == "new"
    done = rewind_with_table(lake.declaration, "1", ANNA, lake.services())
    assert (done.inserted, done.deleted, names(done.to_read)) == (0, 0, ["a.csv"])
    assert {key: (str(row["amount"]), row["note"]) for key, row in lake.rows().items()} == {
        1: ("1.00", None), 2: ("1.00", None),
    }  # fmt: skip
    field = table_of(lake).schema().find_field("note")
    assert (field.field_type, lake.differences()) == (StringType(), [])
    assert lake.load().rows.updated == 1
    assert (lake.rows()[1]["note"], lake.rows()[2]["note"], lake.differences(reread=True)) == ("new", None, [])


def test_g35_an_append_table_goes_back_without_doubling(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, more="write: append")
    lake.write_declaration(lake.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", ""))
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "a.csv", csv(order(2)))
    lake.put(DAY_2, "b.csv", csv(order(3)))
    lake.load()
    rewind_with_table(lake.declaration, "1", ANNA, lake.services())
    assert set(lake.rows()) == {1}
    receipt = lake.load()
    assert (set(lake.rows()), receipt.rows.inserted, receipt.rows.replaced) == ({2, 3}, 2, 1)
    assert lake.differences(reread=True) == []


def test_g35_it_is_refused_where_others_published_or_files_are_gone(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    first = lake.load()
    lake.put(DAY_1, "b.csv", csv(order(1, "2.00", 1)))
    second = lake.load()

    def refused(to: str = "1") -> Any:
        return failure(lambda: rewind_with_table(lake.declaration, to, ANNA, lake.services(), dry_run=True))

    assert isinstance(refused("0"), UsageError) and "bookmark reset" in refused("0").next
    (gone,) = [f["file_path"] for f in table_of(lake).inspect.files(first.snapshot_id).to_pylist()]
    io = table_of(lake).io
    data = io.new_input(gone).open().read()
    io.delete(gone)
    error = refused()
    assert isinstance(error, DataError) and gone in error.message
    with io.new_output(gone).create() as file:
        file.write(data)
    assert rewind_with_table(lake.declaration, "1", ANNA, lake.services(), dry_run=True).to_version == 1

    lake.write_declaration(lake.declaration_text().replace("files:", "bookmark: other\n    files:"))
    lake.put(DAY_2, "c.csv", csv(order(5)))
    other = lake.load(accept_new=True)
    lake.write_declaration()
    error = refused()
    assert isinstance(error, UsageError) and f"snapshot {other.snapshot_id} of bookmark other" in error.message
    table = table_of(lake)
    table.append(table.scan().to_arrow().slice(0, 0))
    assert f"snapshot {table_of(lake).metadata.current_snapshot_id} of another writer" in refused().message

    with table_of(lake).maintenance.expire_snapshots() as expire:
        expire.by_id(first.snapshot_id)
    error = refused()
    assert isinstance(error, DataError) and "expired" in error.message
    assert second.bookmark_version == lake.version() == 2


@pytest.mark.parametrize("how", ["rolled back", "and written by another", "robbed of the tag"])
def test_g35_a_detached_bookmark_goes_to_where_the_table_is(lake: Lake, how: str) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    first = lake.load()
    lake.put(DAY_1, "a.csv", csv(order(1, "2.00", 1)))
    poison = lake.put(DAY_2, "b.csv", csv(order(2)))
    lake.load()
    change_object(lake.declaration, poison, SKIP, ANNA, lake.services())
    hold(lake.declaration, ANNA, lake.services())
    roll_back(lake, first.snapshot_id)
    if how == "and written by another":
        table_of(lake).append(table_of(lake).scan().to_arrow().slice(0, 0))
    if how == "robbed of the tag":
        with table_of(lake).manage_snapshots() as change:
            change.remove_tag("lakehouse.bookmark.orders")
    receipt = lake.load()
    assert receipt.state is State.DETACHED
    assert f"lakehouse bookmark rewind {lake.table} --to-table --reason TEXT" in receipt.next

    dry = rewind_to_table(lake.declaration, ANNA, lake.services(), dry_run=True)
    assert (dry.state, dry.to_version, lake.load().state) == (State.NOTHING_TO_DO, 1, State.DETACHED)
    code, done, _ = lake.said("bookmark", "rewind", lake.table, "--to-table", "--reason", "mend", "--json")
    assert (code, done["state"], done["bookmark_version"], done["to_version"]) == (0, "committed", 5, 1)
    assert [c.bookmark_version for c in changes(lake.declaration, lake.services())] == [5, 1]
    if how != "robbed of the tag":  # what operators said stands at the tag alone
        assert lake.load().state is State.HELD
        assert lake.said("release", lake.table, "--reason", "x")[0] == 0
    assert sorted({b["bookmark_version"] for b in lake.ledger(BATCHES)})[:2] == [1, 5]
    left = [] if how != "and written by another" else ["table: snapshots of other writers = 0"]
    assert [e.name for e in lake.differences()] == left

    receipt = lake.load()
    skipped = how != "robbed of the tag"
    assert (receipt.state, receipt.rows.updated) == (State.COMMITTED, 1)
    assert lake.amounts() == ({1: "2.00"} if skipped else {1: "2.00", 2: "1.00"})
    assert [e.name for e in lake.differences(reread=True)] == left
    assert lake.said("ledger", "rebuild", lake.table)[0] == 0
    assert rewind_to_table(lake.declaration, ANNA, lake.services()).state is State.NOTHING_TO_DO


def test_g35_a_recreated_table_has_an_empty_bookmark(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    table = table_of(lake)
    lake.stack.catalog().drop_table(lake.table)
    dry = rewind_to_table(lake.declaration, ANNA, lake.services(), dry_run=True)
    assert (dry.to_version, names(dry.to_read)) == (0, ["a.csv"])
    lake.stack.catalog().create_table(lake.table, schema=table.schema(), partition_spec=table.spec())
    assert lake.load().state is State.DETACHED
    done = rewind_to_table(lake.declaration, ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.to_version) == (State.COMMITTED, 1, 0)
    assert "the table was dropped" in done.warnings[0]
    assert (uris(lake.plan()), lake.load().rows.inserted, lake.differences(reread=True)) == (["a.csv"], 1, [])

    lake.stack.catalog().drop_table(lake.table)
    done = rewind_to_table(lake.declaration, ANNA, lake.services())
    assert (done.bookmark_version, lake.load().rows.inserted, lake.differences()) == (1, 1, [])


def test_g35_a_recreated_table_with_rows_is_adopted(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.stack.catalog().drop_table(lake.table)
    foreign_table(lake, orders((7, "1.00", 0)))
    assert lake.load().state is State.DETACHED
    error = failure(lambda: rewind_to_table(lake.declaration, ANNA, lake.services()))
    assert isinstance(error, UsageError) and error.next == f"lakehouse adopt {lake.table}"
    assert lake.said("adopt", lake.table)[0] == 0
    assert (lake.load().rows.inserted, set(lake.amounts()), lake.differences()) == (1, {1, 7}, [])


def test_g35_main_before_every_batch_is_refused_if_it_has_rows(lake: Lake) -> None:
    foreign = foreign_table(lake, orders((7, "1.00", 0)))
    assert lake.said("adopt", lake.table)[0] == 0
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    roll_back(lake, foreign.metadata.current_snapshot_id)
    error = failure(lambda: rewind_to_table(lake.declaration, ANNA, lake.services()))
    assert isinstance(error, UsageError) and "not accounted for" in error.message
