"""`unknown_columns: add`: columns that files bring become columns of the table, in the commit of their rows."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from lakehouse.model import State
from lakehouse.naming import ADDED
from tests.evolving_lake import at_step, lake_on
from tests.lake import DAY_1, DAY_2, HEADER, Lake, order

ADD = "unknown_columns: add"


@pytest.fixture(params=["rest", "sql"])
def lake(request: pytest.FixtureRequest, stack: Any, tmp_path: Path) -> Lake:
    lake = lake_on(request.param, stack, tmp_path)
    lake.more = ADD
    lake.write_declaration()
    return lake


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    lake = lake_on("sql", stack, tmp_path)
    lake.more = ADD
    lake.write_declaration()
    return lake


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def column(lake: Lake, name: str) -> dict[Any, Any]:
    return {key: row[name] for key, row in lake.rows().items()}


def csv(rows: list[str], *names: str) -> bytes:
    """Orders with more columns at the end."""
    header = ",".join([HEADER.strip(), *(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)])
    return "\n".join([header, *rows, ""]).encode()


def parquet(rows: list[str], *names: str) -> bytes:
    """The same rows as typed ones, the added columns texts."""
    records = [row.split(",") for row in rows]
    columns: dict[str, list[Any]] = {
        "order_id": [int(r[0]) for r in records],
        "customer_id": [r[1] for r in records],
        "amount": [Decimal(r[2]) for r in records],
        "order_time": [datetime.fromisoformat(r[3]).astimezone(UTC) for r in records],
        **{name: [r[4 + i] or None for r in records] for i, name in enumerate(names)},
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=["plain first", "extra first"])
@pytest.mark.parametrize(
    ("format", "write", "together"),
    [("csv", csv, True), ("csv", csv, False), ("parquet", parquet, True)],
    ids=["csv in one batch", "csv in two batches", "parquet"],
)
def test_r05_the_extra_column_is_kept_in_both_orders(
    local: Lake, names: tuple[str, str], format: str, write: Callable[..., bytes], together: bool
) -> None:
    local.write_declaration(local.declaration_text().replace("csv", format))
    files = [([order(1), order(2)], ()), ([order(3) + ",007", order(4) + ","], ("extra",))]
    if names[0] == "b":
        files.reverse()
    for name, (rows, more) in zip(names, files, strict=True):
        local.put(DAY_1, f"{name}.{format}", write(rows, *more))
        if not together:
            assert local.load().state is State.COMMITTED
    receipt = local.load()
    assert receipt.state is (State.COMMITTED if together else State.NOTHING_TO_DO), receipt.error
    assert receipt.added_columns == ("extra",)
    assert column(local, "extra") == {1: None, 2: None, 3: "007", 4: None}
    field = table_of(local).schema().fields[-1]
    assert (field.name, field.field_type, field.required, field.doc) == ("extra", StringType(), False, ADDED)
    assert local.differences(reread=True) == []
    assert local.load().state is State.NOTHING_TO_DO


def test_the_column_comes_in_the_commit_of_its_rows_and_follows_them(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv([order(1), order(2)]))
    assert lake.load().warnings == ()
    lake.put(DAY_1, "b.csv", csv([order(1, "5.00", 9) + ",x,7"], "note", "area"))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.state) == (1, State.COMMITTED), receipt.error
    (told,) = receipt.warnings
    assert "as text: area, note;" in told
    table = table_of(lake)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.schema_id == table.metadata.current_schema_id == 1
    assert table.schema().column_names[-2:] == ["area", "note"] and lake.snapshots() == 2
    assert column(lake, "note") == {1: "x", 2: None} and column(lake, "area") == {1: "7", 2: None}

    lake.put(DAY_1, "b.csv", csv([order(1, "5.00", 9) + ",x,7"], "note", "area") + b"\n")
    again = lake.load()
    assert (again.rows.unchanged, again.files.added, again.warnings) == (1, 0, ())
    lake.put(DAY_1, "c.csv", csv([order(1, "5.00", 9) + ",y,7", order(2) + ",,"], "note", "area"))
    again = lake.load()
    assert (again.rows.updated, again.rows.unchanged) == (1, 1)
    assert column(lake, "note") == {1: "y", 2: None}

    lake.put(DAY_2, "d.csv", csv([order(1, "6.00", 10), order(3)]))
    again = lake.load()
    assert (again.rows.updated, again.rows.inserted, again.warnings) == (1, 1, ())
    assert column(lake, "note") == {1: None, 2: None, 3: None}
    assert table_of(lake).metadata.current_schema_id == 1
    assert again.added_columns == ("area", "note")
    assert lake.differences(reread=True) == []


def test_names_are_bound_never_pasted(local: Lake) -> None:
    hostile = ["a\"b'c", "x; drop table staged; --", "naïve name", "select", " padded"]
    local.put(DAY_1, "a.csv", csv([order(1) + "," + ",".join("12345")], *hostile))
    receipt = local.load()
    assert receipt.state is State.COMMITTED, receipt.error
    assert {name: local.rows()[1][name] for name in hostile} == dict(zip(hostile, "12345", strict=True))
    local.put(DAY_1, "b.csv", csv([order(1, "2.00", 5) + "," + ",".join("67890")], *hostile))
    assert local.load().rows.updated == 1
    assert [local.rows()[1][name] for name in hostile] == list("67890")
    assert local.differences(reread=True) == []


def test_a_name_that_no_column_can_have_quarantines_its_file(local: Lake) -> None:
    refused = ["_batch_id", "_Rescued", "../x", "__file", " Amount", "input_date"]
    for number, name in enumerate(refused):
        local.put(DAY_1, f"{number}.csv", csv([order(number) + ",x"], name))
    local.put(DAY_1, "good.csv", csv([order(9) + ",x"], "extra"))
    receipt = local.load()
    assert (receipt.state, receipt.exit_code) == (State.COMMITTED, 1), receipt.error
    quarantined = {f["uri"]: f["reason"] for f in local.ledger("files") if f["decision"] == "quarantined"}
    assert len(quarantined) == len(refused)
    for uri, reason in quarantined.items():
        assert f"uri={uri} column={refused[int(uri[-5])]!r}" in reason
    assert column(local, "extra") == {9: "x"} and local.differences(reread=True) == []


def test_of_two_spellings_the_one_of_most_files_stands(local: Lake) -> None:
    for name, spelling in {"a": "Extra", "b": "extra", "c": "extra"}.items():
        local.put(DAY_1, f"{name}.csv", csv([order(ord(name)) + f",{name}"], spelling))
    receipt = local.load()
    assert receipt.objects["quarantined"] == 1 and "differs from 'extra' of other objects" in receipt.error
    assert column(local, "extra") == {ord("b"): "b", ord("c"): "c"}
    local.put(DAY_2, "d.csv", csv([order(9) + ",d"], "EXTRA"))
    assert "differs from the column 'extra' by case" in local.load().error
    assert set(local.rows()) == {ord("b"), ord("c")} and local.differences(reread=True) == []


def test_a_runaway_feed_is_stopped_before_anything_is_changed(local: Lake) -> None:
    names = [f"n{i}" for i in range(1001)]
    uri = local.put(DAY_1, "a.csv", csv([order(1) + ",1" * len(names)], *names))
    receipt = local.load()
    assert (receipt.state, receipt.exit_code) == (State.BLOCKED, 1)
    assert f"most_by={uri}" in receipt.error and f"object skip {uri}" in receipt.next
    assert "new=1001 added_before=0 most=1000 first='n0', 'n1'" in receipt.error
    assert not local.stack.catalog().table_exists(local.table)


@pytest.mark.parametrize("first_load", [True, False], ids=["first load", "later load"])
def test_a_load_that_dies_before_its_commit_leaves_no_column(stack: Any, tmp_path: Path, first_load: bool) -> None:
    lake = Lake(stack, tmp_path, more=ADD)
    if not first_load:
        lake.put(DAY_1, "a.csv", csv([order(1)]))
        lake.load()
    lake.put(DAY_1, "b.csv", csv([order(1, "2.00", 5) + ",x"], "extra"))
    code, _, _ = lake.cli("load", lake.table, "--json", env={"LAKEHOUSE_FAULT": "before_publish"})
    assert code == -signal.SIGKILL
    assert "extra" not in table_of(lake).schema().column_names
    receipt = lake.load()
    assert (receipt.state, receipt.added_columns) == (State.COMMITTED, ("extra",)), receipt.error
    assert column(lake, "extra") == {1: "x"} and lake.snapshots() == 2 - first_load
    assert lake.differences(reread=True) == []


def test_a_schema_change_of_others_before_the_commit_is_matched_again(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv([order(1)]))
    lake.load()
    lake.put(DAY_1, "b.csv", csv([order(1, "5.00", 9) + ",x,y"], "extra", "note"))

    def alter() -> None:
        with table_of(lake).update_schema() as update:
            update.add_column("note", StringType())

    services = lake.services()
    receipt = lake.load(services=replace(services, progress=at_step(services, "publish", alter)))
    assert (receipt.state, receipt.rows.updated) == (State.COMMITTED, 1), receipt.error
    assert len(receipt.warnings) == 1
    schema = table_of(lake).schema()
    assert schema.find_field("note").field_id < schema.find_field("extra").field_id
    assert {schema.find_field(name).doc for name in ("note", "extra")} == {ADDED}
    assert lake.rows()[1]["note"] == "y" and lake.rows()[1]["extra"] == "x"
    assert lake.differences(reread=True) == []


def test_columns_of_other_writers_keep_their_values_until_a_file_brings_them(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv([order(1), order(2)]))
    local.load()
    with table_of(local).update_schema() as update:
        update.add_column("note", StringType())
        update.add_column("n", LongType())
    local.put(DAY_1, "b.csv", csv([order(1, "2.00", 5) + ",7"], "n"))
    receipt = local.load()
    assert "column='n' reason=the table has an undeclared column of that name and the type long" in receipt.error
    local.put(DAY_1, "c.csv", csv([order(2, "2.00", 5) + ",x"], "note"))
    assert local.load().rows.updated == 1
    assert column(local, "note") == {1: None, 2: "x"}
    assert local.differences(reread=True) == []


def test_a_column_is_declared_later(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv([order(1) + ",7"], "extra"))
    local.load()
    before = table_of(local).schema()
    declared = local.declaration_text().replace(
        "order_time: timestamptz\n", "order_time: timestamptz\n    extra: TYPE\n"
    )
    local.write_declaration(declared.replace("TYPE", "string"))
    local.put(DAY_1, "b.csv", csv([order(2) + ",8"], "extra"))
    receipt = local.load()
    assert (receipt.rows.inserted, receipt.added_columns) == (1, ()), receipt.error
    assert table_of(local).schema() == before and column(local, "extra") == {1: "7", 2: "8"}

    local.write_declaration(declared.replace("TYPE", "bigint"))
    receipt = local.load()
    assert receipt.exit_code == 2
    rename = f"ALTER TABLE {local.table} RENAME COLUMN extra TO extra_text"
    assert rename in receipt.error and "--mode full" in receipt.error
    with table_of(local).update_schema() as update:
        update.rename_column("extra", "extra_text")
    code, result, errors = local.cli("load", local.table, "--mode", "full", "--json")
    assert (code, result["rows"]["updated"]) == (0, 2), errors
    assert column(local, "extra") == {1: 7, 2: 8}
    assert local.differences(reread=True) == []


@pytest.mark.parametrize("word", ["reject", "rescue"])
def test_added_columns_stay_when_no_more_are_added(local: Lake, word: str) -> None:
    local.put(DAY_1, "a.csv", csv([order(1) + ",x", order(2) + ",y"], "extra"))
    local.load()
    local.write_declaration(local.declaration_text().replace(ADD, f"unknown_columns: {word}"))
    local.put(DAY_1, "b.csv", csv([order(1, "2.00", 5), order(3)]))
    assert local.load().rows.updated == 1
    assert column(local, "extra") == {1: "x", 2: "y", 3: None}
    assert local.differences(reread=True) == []


@pytest.mark.parametrize("mode", ["snapshot", "replace_partition", "append"])
def test_every_write_mode_adds_columns(local: Lake, mode: str) -> None:
    local.write_declaration(local.declaration_text().replace("  key:", f"  write: {mode}\n  key:"))
    local.put(DAY_1, "a.csv", csv([order(1), order(2)]))
    local.load()
    local.put(DAY_2, "b.csv", csv([order(1) + ",", order(3) + ",x", order(2, "3.00", 5) + ",y"], "extra"))
    receipt = local.load()
    assert receipt.state is State.COMMITTED, receipt.error
    found = table_of(local).scan().to_arrow().to_pylist()
    assert sorted(row["extra"] for row in found if row["extra"]) == ["x", "y"]
    assert local.differences(reread=True) == []


def test_a_deleted_row_that_stays_keeps_what_files_added(local: Lake) -> None:
    local.write_declaration(local.declaration_text() + "  delete_when: customer_id = 'gone'\n  deletes: soft\n")
    local.put(DAY_1, "a.csv", csv([order(1) + ",x"], "extra"))
    local.load()
    local.put(DAY_1, "b.csv", csv(["1,gone,,2026-08-30T11:00:00Z,"], "extra"))
    assert local.load().rows.updated == 1
    assert local.rows()[1]["extra"] == "x" and local.rows()[1]["_deleted_at"] is not None
    assert table_of(local).schema().column_names[-2:] == ["_deleted_at", "extra"]
    assert local.differences(reread=True) == []
