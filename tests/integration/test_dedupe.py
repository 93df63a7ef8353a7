"""Keys that stand in several live rows: named by a load, and repaired by `lakehouse maintain TABLE dedupe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakehouse import naming
from lakehouse.errors import UsageError
from lakehouse.ledger import BATCHES
from lakehouse.model import State
from lakehouse.operate.adopt import adopt
from lakehouse.operate.dedupe import Deduplication, dedupe
from tests.evolving_lake import OPERATOR, failure, foreign_table, lake_on, orders
from tests.lake import DAY_1, DAY_2, Lake, csv, order

MERGE_ON_READ = ("  key: [order_id]", "  table_properties: {write.merge.mode: merge-on-read}\n  key: [order_id]")


@pytest.fixture(params=["rest", "sql"])
def lake(request: pytest.FixtureRequest, stack: Any, tmp_path: Path) -> Lake:
    return lake_on(request.param, stack, tmp_path)


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    return lake_on("sql", stack, tmp_path)


def repair(lake: Lake, **how: bool) -> Deduplication:
    return dedupe(lake.declaration, lake.services(), OPERATOR, **how)


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def append_again(lake: Lake, *keys: int) -> None:
    """Another engine appends rows that are there already, byte for byte."""
    table = table_of(lake)
    there = table.scan().to_arrow()
    table.append(there.filter(pa.compute.is_in(there["order_id"], pa.array(keys))).cast(table.schema().as_arrow()))


def unexplained(lake: Lake) -> list[str]:
    return sorted(e.name for e in lake.differences())


def test_m07_a_load_names_the_doubled_key_and_its_repair_keeps_the_newest_row(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(7), order(8)))
    lake.load()
    append_again(lake, 7)
    lake.put(DAY_2, "b.csv", csv(order(7, "5.00", 9, day="2026-08-31")))
    code, _, errors = lake.cli("load", lake.table)
    assert code == 1 and "order_id=7" in errors and f"lakehouse maintain {lake.table} dedupe" in errors, errors

    dry = repair(lake, dry_run=True)
    assert (dry.state, dry.doubled, dry.removed, dry.first[0].key) == (State.NOTHING_TO_DO, 1, 1, "order_id=7")
    assert lake.snapshots() == 2
    code, done, errors = lake.cli("maintain", lake.table, "dedupe", "--reason", "appended twice", "--json")
    assert (code, done["state"], done["doubled"], done["removed"]) == (0, "committed", 1, 1), errors
    assert (done["bookmark_version"], lake.version(), lake.snapshots()) == (2, 2, 3)
    assert lake.amounts() == {7: "1.00", 8: "1.00"}

    assert lake.load().rows.updated == 1
    assert lake.amounts() == {7: "5.00", 8: "1.00"}
    assert unexplained(lake) == [
        "date: rows = gained - lost",
        "dates: sum of dates = rows",
        "table: rows = published rows",
        "table: snapshots of other writers = 0",
    ], "the row of the other writer stays unaccounted for until its snapshot is accepted"
    again = repair(lake)
    assert (again.state, again.removed, again.bookmark_version) == (State.NOTHING_TO_DO, 0, 3)


def test_a_repair_is_marked_and_stands_in_the_ledger(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(7), order(8)))
    local.load()
    append_again(local, 7, 8)
    done = repair(local)
    snapshot = table_of(local).current_snapshot()
    assert snapshot is not None and snapshot.snapshot_id == done.snapshot_id and snapshot.summary is not None
    keys = snapshot.summary.additional_properties
    assert (keys[naming.MAINTAIN], keys[naming.BOOKMARK_VERSION], keys["lakehouse.rows-deleted"]) == (
        "dedupe",
        "2",
        "2",
    )
    assert keys["total-records"] == "2" or int(keys["total-records"]) - int(keys["total-position-deletes"]) == 2
    batch = max(local.ledger(BATCHES), key=lambda b: b["bookmark_version"])
    assert (batch["kind"], batch["rows_deleted"], batch["rows_replaced"]) == ("dedupe", 2, 2)
    assert (batch["author"], batch["reason"]) == ("ann@host", "it is ours now")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_the_order_guard_says_which_row_stays_and_then_the_file(local: Lake, mode: str) -> None:
    table = foreign_table(local, orders((1, "1.00", 5), (2, "2.00", 5)), **{"write.merge.mode": mode})
    adopt(local.declaration, local.services(), OPERATOR)
    table.refresh()
    # the newer order value is in the older file; key 2 ties, so the younger file wins; key 3 ties inside one file
    late = orders((1, "9.00", 1), (2, "3.00", 5), (3, "4.00", 1), (3, "5.00", 1), (4, "6.00", 1))
    table.append(_with_lineage(table, late))
    done = repair(local)
    assert (done.doubled, done.removed, done.rows) == (3, 3, 7)
    assert local.amounts() == {1: "1.00", 2: "3.00", 3: "5.00", 4: "6.00"}
    local.put(DAY_1, "a.csv", csv(order(1, "7.00", 9), order(4, "8.00", 9)))
    receipt = local.load()
    assert receipt.rows.updated == 2, receipt.error
    assert local.amounts() == {1: "7.00", 2: "3.00", 3: "5.00", 4: "8.00"}


def _with_lineage(table: Table, rows: pa.Table) -> pa.Table:
    for field in table.schema().as_arrow():
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(table.schema().as_arrow().names)


def test_rows_that_are_deleted_already_are_no_doubles(local: Lake) -> None:
    local.write_declaration(local.declaration_text().replace(*MERGE_ON_READ))
    local.put(DAY_1, "a.csv", csv(*(order(n) for n in range(1, 6))))
    local.load()
    local.put(DAY_1, "b.csv", csv(order(1, "5.00", 9), order(2, "5.00", 9)))
    local.load()
    assert repair(local, dry_run=True).doubled == 0
    append_again(local, 3, 4)
    done = repair(local)
    assert (done.doubled, done.removed, done.rows) == (2, 2, 7)
    assert local.amounts() == {1: "5.00", 2: "5.00", 3: "1.00", 4: "1.00", 5: "1.00"}


def test_a_table_without_doubled_keys_is_left_alone(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1), order(2)))
    local.load()
    found = repair(local)
    assert (found.state, found.rows, found.doubled, found.removed) == (State.NOTHING_TO_DO, 2, 0, 0)
    assert (local.snapshots(), local.version()) == (1, 1)


def test_a_table_that_was_never_adopted_is_sent_to_adopt(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1)), orders((1, "1.00", 1)))
    error = failure(lambda: repair(local))
    assert isinstance(error, UsageError) and error.next == f"lakehouse adopt {local.table}"
    assert local.snapshots() == 2


def test_a_table_that_does_not_exist_and_a_table_without_keys(local: Lake) -> None:
    assert "does not exist" in failure(lambda: repair(local)).message
    text = local.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", "  write: append\n")
    local.write_declaration(text)
    assert "keys may repeat" in failure(lambda: repair(local)).message


def test_a_kind_of_upkeep_that_nobody_knows_is_refused(local: Lake) -> None:
    code, _, errors = local.cli("maintain", local.table, "polish")
    assert code == 2 and "Traceback" not in errors
