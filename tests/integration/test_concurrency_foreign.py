"""Another engine commits between match and publish, on every kind of catalog: the load plans and matches again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from lakehouse.ledger import BATCHES
from lakehouse.model import Receipt, State
from lakehouse.services import Services
from tests.catalogs import CatalogLake, CatalogStack
from tests.lake import DAY_1, DAY_2, Lake, csv, order
from tests.racer import Racer, Task, race

Foreign = Callable[[Table], None]


@pytest.fixture
def lake(catalog_stack: CatalogStack, tmp_path: Path) -> Lake:
    return CatalogLake(catalog_stack, tmp_path)


def land(lake: Lake) -> None:
    """Keys 1 and 2 are in the table; 1 is updated and 7 inserted by what is loaded next."""
    lake.put(DAY_1, "base.csv", csv(order(1), order(2)))
    assert lake.load().state is State.COMMITTED
    lake.put(DAY_1, "next.csv", csv(order(1, "5.00", 5), order(7, "5.00", 5)))


def load_around(lake: Lake, foreign: Foreign) -> tuple[Receipt, int]:
    """Load, with one foreign commit after the first match; the receipt and how many commits the load sent."""
    services = lake.services()
    sent = 0
    commit = services.catalog.commit_table

    def commit_second(table: Table, *rest: Any) -> Any:
        nonlocal sent
        if table.name()[-1] == "orders":
            sent += 1
            if sent == 1:
                foreign(lake.stack.catalog().load_table(lake.table))
        return commit(table, *rest)

    services.catalog.commit_table = commit_second  # type: ignore[method-assign]
    return lake.load(services=services), sent


def rows_with_key(table: Table, key: int, like: int) -> pa.Table:
    """The row of key `like` under another key."""
    row = table.scan(row_filter=f"order_id = {like}").to_arrow()
    return row.set_column(0, row.schema.field(0), pa.array([key], pa.int64()))


def append(table: Table) -> None:
    table.append(rows_with_key(table, 7, like=1))


def compact(table: Table) -> None:
    table.overwrite(table.scan().to_arrow())


def delete(table: Table) -> None:
    table.delete("order_id = 1")


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", StringType())


def rename_column(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("customer_id", "client_id")


def change_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("customer_id", BucketTransform(4), "customer_bucket")


def set_property(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"comment": "a person was here"})


@pytest.mark.parametrize("catalog_stack", ["rest"], indirect=True)
@pytest.mark.parametrize(
    ("foreign", "inserted", "updated"),
    [
        pytest.param(append, 0, 2, id="append of the new key"),
        pytest.param(compact, 1, 1, id="compaction of the same file"),
        pytest.param(delete, 2, 0, id="delete of the matched key"),
        pytest.param(add_column, 1, 1, id="new column"),
        pytest.param(change_spec, 1, 1, id="new partition spec"),
    ],
)
def test_m14_a_foreign_commit_is_matched_again(lake: Lake, foreign: Foreign, inserted: int, updated: int) -> None:
    """M14: each attempt reloads the table and matches again, so that the second one succeeds."""
    check_matched_again(lake, foreign, inserted=inserted, updated=updated)


@pytest.mark.parametrize("catalog_stack", ["postgres", "glue"], indirect=True)
@pytest.mark.parametrize(
    ("foreign", "inserted", "updated"),
    [
        pytest.param(delete, 2, 0, id="delete of the matched key"),
        pytest.param(append, 0, 2, id="append of the new key", marks=pytest.mark.chaos),
        pytest.param(compact, 1, 1, id="compaction of the same file", marks=pytest.mark.chaos),
        pytest.param(add_column, 1, 1, id="new column", marks=pytest.mark.chaos),
        pytest.param(change_spec, 1, 1, id="new partition spec", marks=pytest.mark.chaos),
    ],
)
def test_m14_on_client_checked_catalogs(lake: Lake, foreign: Foreign, inserted: int, updated: int) -> None:
    check_matched_again(lake, foreign, inserted=inserted, updated=updated)


def check_matched_again(lake: Lake, foreign: Foreign, *, inserted: int, updated: int) -> None:
    land(lake)
    receipt, sent = load_around(lake, foreign)
    assert (receipt.state, sent) == (State.COMMITTED, 2), receipt.error
    assert (receipt.rows.inserted, receipt.rows.updated) == (inserted, updated)
    assert lake.amounts() == {1: "5.00", 2: "1.00", 7: "5.00"}
    assert (lake.version(), len(lake.ledger(BATCHES))) == (2, 2)


@pytest.mark.parametrize("catalog_stack", ["rest"], indirect=True)
def test_a_renamed_column_is_not_written_under_its_old_name(lake: Lake) -> None:
    """The second plan sees a table that the declaration no longer fits, and stops there."""
    land(lake)
    receipt, sent = load_around(lake, rename_column)
    assert (receipt.exit_code, sent) == (2, 1), receipt.error
    assert "client_id" in receipt.error
    assert lake.amounts() == {1: "1.00", 2: "1.00"}
    assert lake.snapshots() == 1


@pytest.mark.parametrize("catalog_stack", ["rest"], indirect=True)
def test_a_property_that_is_set_meanwhile_is_no_conflict(lake: Lake) -> None:
    land(lake)
    receipt, sent = load_around(lake, set_property)
    assert (receipt.state, sent) == (State.COMMITTED, 1), receipt.error
    assert lake.amounts() == {1: "5.00", 2: "1.00", 7: "5.00"}


def change_in_the_last_moment(lake: Lake, services: Services, foreign: Foreign) -> None:
    """Between a client-checked commit's own look at the table and its compare-and-set."""
    catalog: Any = services.catalog
    write = catalog._write_metadata
    done = False

    def write_after(*rest: Any, **named: Any) -> None:
        nonlocal done
        if not done:
            done = True
            foreign(lake.stack.catalog().load_table(lake.table))
        write(*rest, **named)

    catalog._write_metadata = write_after


@pytest.mark.parametrize("catalog_stack", ["postgres", "glue"], indirect=True)
def test_a_conflict_that_moves_no_ref_is_tried_again(lake: Lake) -> None:
    """A property or an expiry loses the compare-and-set too; nothing in the table says so, the catalog's error does."""
    land(lake)
    services = lake.services(pause=lambda _: pytest.fail("there is nothing to wait for"))
    change_in_the_last_moment(lake, services, set_property)
    receipt = lake.load(services=services)
    assert receipt.state is State.COMMITTED, receipt.error
    assert lake.amounts() == {1: "5.00", 2: "1.00", 7: "5.00"}
    assert (lake.version(), lake.snapshots()) == (2, 2)


@pytest.fixture
def sqlite_lake(stack: Any, tmp_path: Path) -> Lake:
    (tmp_path / "warehouse").mkdir()
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db?timeout=0.1",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    return CatalogLake(CatalogStack(stack, "sqlite", properties), tmp_path)


def test_m15_a_locked_sqlite_catalog_is_tried_later(sqlite_lake: Lake, tmp_path: Path) -> None:
    """M15: `database is locked` changes nothing: the loser exits 3, its rerun succeeds."""
    lake = sqlite_lake
    land(lake)
    with sqlite3.connect(tmp_path / "catalog.db", isolation_level=None) as other:
        other.execute("begin immediate")
        receipt = lake.load(services=lake.services(pause=lambda _: None))
        other.execute("rollback")
    assert (receipt.exit_code, lake.version()) == (3, 1), receipt.error
    assert lake.load().state is State.COMMITTED
    assert lake.amounts() == {1: "5.00", 2: "1.00", 7: "5.00"}
    assert (lake.version(), lake.snapshots(), len(lake.ledger(BATCHES))) == (2, 2, 2)


def test_m15_two_processes_share_one_sqlite_catalog(sqlite_lake: Lake, crew: Sequence[Racer]) -> None:
    """M15 with real processes: whoever meets the other's lock ends with 3, and nothing is lost or doubled."""
    lake = sqlite_lake
    lake.put(DAY_1, "base.csv", csv(order(1)))
    lake.load()
    for number, day in enumerate((DAY_1, DAY_2)):
        lake.put(day, f"{number}.csv", csv(order(1, f"{number + 2}.00", number + 1), order(number + 10)))
    meeting = lake.folder / "meeting"
    meeting.mkdir()
    days = [(n, day.isoformat()) for n, day in enumerate((DAY_1, DAY_2))]
    receipts = race(crew, [Task(lake.env, lake.table, f"run-{n}", day=day, meet=(str(meeting), 2)) for n, day in days])
    assert {r["exit_code"] for r in receipts} <= {0, 3}, receipts
    assert lake.load().exit_code == 0
    assert lake.amounts() == {1: "3.00", 10: "1.00", 11: "1.00"}
    assert lake.version() == lake.snapshots() == len(lake.ledger(BATCHES))
    assert lake.differences() == []
