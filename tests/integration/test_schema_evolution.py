"""Schemas that change between loads, by the declaration and by others: by field id, in the commit of the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, StringType

from lakehouse.model import State
from tests.evolving_lake import at_step, lake_on
from tests.lake import DAY_1, DAY_2, Lake, csv, order


@pytest.fixture(params=["rest", "sql"])
def lake(request: pytest.FixtureRequest, stack: Any, tmp_path: Path) -> Lake:
    return lake_on(request.param, stack, tmp_path)


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    return lake_on("sql", stack, tmp_path)


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def declare(lake: Lake, *changes: tuple[str, str], base: str | None = None) -> str:
    text = base or lake.declaration_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    lake.write_declaration(text)
    return text


def with_n(*rows: str) -> bytes:
    """Orders with a column n at the end."""
    return ("order_id,customer_id,amount,order_time,n\n" + "".join(f"{row}\n" for row in rows)).encode()


ADD_N = ("order_time: timestamptz\n", "order_time: timestamptz\n    n: bigint\n")


def column(lake: Lake, name: str) -> dict[Any, Any]:
    return {key: row[name] for key, row in lake.rows().items()}


def test_m06_a_declared_column_is_added_in_the_commit_of_its_rows(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    declare(lake, ADD_N)
    lake.put(DAY_1, "b.csv", with_n(order(1, "5.00", 9) + ",7"))
    assert any("column n long added" in w for w in lake.plan().warnings)
    receipt = lake.load()
    assert receipt.state is State.COMMITTED, receipt.error
    assert (receipt.rows.updated, receipt.rows.inserted, receipt.rows.unchanged) == (1, 0, 0)
    assert any("column n long added" in w for w in receipt.warnings)
    assert column(lake, "n") == {1: 7, 2: None}
    table = table_of(lake)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.schema_id == table.metadata.current_schema_id == 1
    assert lake.snapshots() == 2 and table.metadata.last_column_id == table.schema().find_field("n").field_id == 12
    assert lake.differences(reread=True) == []
    assert lake.load().state is State.NOTHING_TO_DO


def test_m06_a_column_added_by_another_engine_is_carried_and_then_declared(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    with table_of(lake).update_schema() as update:
        update.add_column("n", LongType())
    lake.put(DAY_1, "b.csv", csv(order(1, "5.00", 9), order(3)))
    assert lake.load().state is State.COMMITTED
    assert column(lake, "n") == {1: None, 2: None, 3: None}
    declare(lake, ADD_N)
    lake.put(DAY_1, "c.csv", with_n(order(1, "6.00", 10) + ",7"))
    receipt = lake.load()
    assert (receipt.state, receipt.rows.updated) == (State.COMMITTED, 1), receipt.error
    assert not any("the table changes" in w for w in receipt.warnings)
    assert column(lake, "n") == {1: 7, 2: None, 3: None}
    declare(lake)
    lake.put(DAY_1, "d.csv", csv(order(1, "8.00", 11)))
    assert lake.load().rows.updated == 1
    assert column(lake, "n") == {1: 7, 2: None, 3: None}
    assert lake.differences() == []


def test_a_renamed_column_is_refused_until_it_is_declared_with_its_source_name(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    before = table_of(lake).schema().find_field("amount").field_id
    with table_of(lake).update_schema() as update:
        update.rename_column("amount", "total")
    lake.put(DAY_2, "b.csv", csv(order(1, "5.00", 9), order(3, "3.00")))
    code, _, errors = lake.cli("load", lake.table)
    assert code == 2 and f"ALTER TABLE {lake.table} RENAME COLUMN total TO amount" in errors, errors
    declare(lake, ('amount: "decimal(12,2)"', 'total: {type: "decimal(12,2)", from: amount}'))
    receipt = lake.load()
    assert (receipt.state, receipt.rows.updated, receipt.rows.inserted) == (State.COMMITTED, 1, 1), receipt.error
    assert {k: str(v) for k, v in column(lake, "total").items()} == {1: "5.00", 2: "1.00", 3: "3.00"}
    assert table_of(lake).schema().find_field("total").field_id == before
    assert lake.differences() == []


def test_a_dropped_column_is_gone_and_comes_back_under_another_id(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1), order(2)))
    local.load()
    before = table_of(local).schema().find_field("customer_id").field_id
    with table_of(local).update_schema() as update:
        update.delete_column("customer_id")
    text = declare(
        local, ("    customer_id: string\n", ""), ("  key: [order_id]", "  unknown_columns: ignore\n  key: [order_id]")
    )
    local.put(DAY_1, "b.csv", csv(order(1, "5.00", 9)))
    assert local.load().rows.updated == 1
    assert "customer_id" not in local.rows()[1]
    declare(local, ("    amount:", "    customer_id: string\n    amount:"), base=text)
    local.put(DAY_1, "c.csv", csv(order(2, "6.00", 10)))
    assert local.load().rows.updated == 1
    assert column(local, "customer_id") == {1: None, 2: "c2"}
    assert table_of(local).schema().find_field("customer_id").field_id > before
    assert local.differences() == []


def test_a_key_is_widened_by_the_declaration(lake: Lake) -> None:
    narrow = declare(lake, ("{type: bigint, required: true}", "{type: int, required: true}"))
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    assert table_of(lake).schema().find_field("order_id").field_type == IntegerType()
    declare(lake, ("{type: int, required: true}", "{type: bigint, required: true}"), base=narrow)
    lake.put(DAY_1, "b.csv", csv(order(1, "5.00", 9), order(3_000_000_000)))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.inserted) == (1, 1), receipt.error
    assert table_of(lake).schema().find_field("order_id").field_type == LongType()
    assert lake.amounts() == {1: "5.00", 2: "1.00", 3_000_000_000: "1.00"}
    assert lake.differences() == []


def test_a_column_that_another_engine_widened_stays_wide(local: Lake) -> None:
    declare(local, ("{type: bigint, required: true}", "{type: int, required: true}"))
    local.put(DAY_1, "a.csv", csv(order(1), order(2)))
    local.load()
    with table_of(local).update_schema() as update:
        update.update_column("order_id", LongType())
    local.put(DAY_1, "b.csv", csv(order(1, "5.00", 9), order(3)))
    receipt = local.load()
    assert (receipt.rows.updated, receipt.rows.inserted) == (1, 1), receipt.error
    assert table_of(local).schema().find_field("order_id").field_type == LongType()
    assert local.amounts() == {1: "5.00", 2: "1.00", 3: "1.00"}
    assert local.differences() == []


def test_reordered_columns_do_not_matter(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1), order(2)))
    local.load()
    with table_of(local).update_schema() as update:
        update.move_first("order_time")
        update.move_after("order_id", "_source_file")
    local.put(DAY_1, "b.csv", csv(order(1, "5.00", 9), order(3)))
    receipt = local.load()
    assert (receipt.rows.updated, receipt.rows.inserted, receipt.warnings) == (1, 1, ()), receipt.error
    assert local.amounts() == {1: "5.00", 2: "1.00", 3: "1.00"}
    assert local.differences() == []


def test_a_schema_change_between_plan_and_publish_loses_the_commit_and_is_planned_again(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    declare(lake, ADD_N)
    lake.put(DAY_1, "b.csv", with_n(order(1, "5.00", 9) + ",7"))

    def alter() -> None:
        with table_of(lake).update_schema() as update:
            update.add_column("note", StringType())

    services = lake.services()
    receipt = lake.load(services=replace(services, progress=at_step(services, "publish", alter)))
    assert (receipt.state, receipt.rows.updated) == (State.COMMITTED, 1), receipt.error
    assert (lake.version(), lake.snapshots()) == (2, 2)
    schema = table_of(lake).schema()
    assert (schema.find_field("note").field_id, schema.find_field("n").field_id) == (12, 13)
    assert column(lake, "n") == {1: 7, 2: None} and column(lake, "note") == {1: None, 2: None}
    assert lake.differences() == []


def test_a_rename_between_plan_and_publish_is_not_overlooked(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1), order(2)))
    local.load()
    local.put(DAY_1, "b.csv", csv(order(1, "5.00", 9)))

    def alter() -> None:
        with table_of(local).update_schema() as update:
            update.rename_column("amount", "total")

    services = local.services()
    receipt = local.load(services=replace(services, progress=at_step(services, "publish", alter)))
    assert (receipt.state, receipt.exit_code) == (State.FAILED, 2)
    assert "could be its old name: total" in receipt.error
    assert local.snapshots() == 1 and {str(v) for v in column(local, "total").values()} == {"1.00"}


def test_properties_are_set_with_the_next_batch(local: Lake) -> None:
    name = "write.target-file-size-bytes"
    local.put(DAY_1, "a.csv", csv(order(1)))
    declare(local, ("  key: [order_id]", f"  table_properties: {{{name}: '1000000'}}\n  key: [order_id]"))
    local.load()
    assert table_of(local).properties[name] == "1000000"
    declare(local, ("  key: [order_id]", f"  table_properties: {{{name}: '2000000'}}\n  key: [order_id]"))
    assert local.load().state is State.NOTHING_TO_DO
    local.put(DAY_1, "b.csv", csv(order(2)))
    receipt = local.load()
    assert any(f"table property {name}=2000000 set" in w for w in receipt.warnings)
    assert table_of(local).properties[name] == "2000000"
    assert local.snapshots() == 2


def test_a_declared_location_is_the_place_of_a_new_table_only(local: Lake, tmp_path: Path) -> None:
    lake = local
    place = f"file://{tmp_path}/elsewhere/orders"
    lake.put(DAY_1, "a.csv", csv(order(1)))
    declare(lake, ("  key: [order_id]", f"  location: {place}\n  key: [order_id]"))
    assert lake.load().state is State.COMMITTED
    assert table_of(lake).location() == place and list((tmp_path / "elsewhere").rglob("*.parquet"))
    declare(lake, ("  key: [order_id]", f"  location: {place}2\n  key: [order_id]"))
    receipt = lake.load()
    assert receipt.exit_code == 2 and f"the table is at {place}" in receipt.error


def test_columns_that_nobody_declared_are_rescued(lake: Lake) -> None:
    declare(lake, ("  key: [order_id]", "  unknown_columns: rescue\n  key: [order_id]"))
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_1, "b.csv", with_n(order(3) + ",7", order(4) + ","))
    assert lake.load().rows.inserted == 4
    assert column(lake, "_rescued") == {1: None, 2: None, 3: [("n", "7")], 4: None}
    lake.put(DAY_1, "c.csv", with_n(order(1, "5.00", 9) + ",8", order(3) + ",7"))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.unchanged) == (1, 1)
    assert column(lake, "_rescued") == {1: [("n", "8")], 2: None, 3: [("n", "7")], 4: None}
    assert lake.differences(reread=True) == []
