"""Bad input and broken surroundings: a clear error, the exit code of INTERFACE.md, table and bookmark untouched."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.model import State
from tests.lake import DAY_1, DAY_2, Lake, csv, order


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("key: [order_id]", "keys: [order_id]", "defs.yaml:16:3: keys: unknown field; did you mean key?"),
        ("customer_id: string", "customer_id: strng", "defs.yaml:12:18: columns.customer_id: unknown type"),
        ("key: [order_id]", "key: [nothing]", "nothing"),
        ("start_date: 2026-08-30", "start_date: 2026-08-30\n  key: [order_id]", "duplicate key, first on line 16"),
        ("order_by: [order_time]", "order_by: [order_time]\n  engine: spark", "not available yet"),
    ],
    ids=["unknown field", "bad type", "missing key column", "duplicate key", "later feature"],
)
def test_a_wrong_declaration(lake: Lake, old: str, new: str, said: str) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    before = lake.snapshots()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    text = lake.declaration_text()
    assert old in text
    lake.write_declaration(text.replace(old, new))
    for command in (["validate"], ["load", lake.table]):
        code, _, errors = lake.cli(*command)
        assert code == 2 and said in errors and "Traceback" not in errors, errors
    lake.write_declaration()
    assert (lake.snapshots(), lake.version()) == (before, 1)


@pytest.mark.parametrize(
    ("env", "code", "said"),
    [
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, 3, "127.0.0.1:9"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, "credentials"),
        ({"PYICEBERG_CATALOG__DEFAULT__URI": "http://127.0.0.1:9"}, 3, "catalog"),
        ({"PYICEBERG_CATALOG__DEFAULT__CREDENTIAL": "wrong:wrong"}, 2, "credentials"),
        ({"LAKEHOUSE_CATALOG": "elsewhere"}, 2, "elsewhere"),
        ({"LAKEHOUSE_MEMORY": "much"}, 2, "LAKEHOUSE_MEMORY"),
        ({"LAKEHOUSE_STATE": "s3://no-such-bucket/x"}, 2, "no-such-bucket"),
        ({"LAKEHOUSE_SPILL": "/dev/null"}, 2, "LAKEHOUSE_SPILL"),
        ({"LAKEHOUSE_OPS_NAMESPACE": "a b;drop"}, 2, "LAKEHOUSE_OPS_NAMESPACE"),
        ({"PYICEBERG_CATALOG__DEFAULT__TYPE": "hive"}, 2, "catalog"),
    ],
    ids=[
        "S3 down",
        "wrong secret",
        "catalog down",
        "wrong catalog secret",
        "no catalog",
        "memory",
        "state bucket",
        "spill",
        "ops namespace",
        "unsupported catalog",
    ],
)
def test_broken_surroundings(lake: Lake, env: dict[str, str], code: int, said: str) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    found, receipt, errors = lake.cli("load", lake.table, "--json", env=env)
    assert (found, receipt["exit_code"]) == (code, code), errors
    assert said in str(receipt["error"]) and "Traceback" not in errors
    assert "wrong" not in str(receipt["error"])
    assert (lake.snapshots(), lake.version(), set(lake.amounts())) == (1, 1, {1})


def test_a_warehouse_that_the_catalog_does_not_know(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    code, receipt, _ = lake.cli("load", lake.table, "--json", env={"PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": "nope"})
    assert code == 2 and "nope" in receipt["error"]


def test_a_missing_landing_bucket(lake: Lake) -> None:
    lake.write_declaration(lake.declaration_text().replace("s3://landing/", "s3://no-such-landing/"))
    code, receipt, _ = lake.cli("load", lake.table, "--json")
    assert code == 2 and "no-such-landing" in receipt["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["load", "x.unknown"],
        ["load", "TABLE", "--partition", "2026-8-30"],
        ["load", "TABLE", "--partition", "2026-08-30", "--from", "2026-08-30"],
        ["load", "TABLE", "--from", "2026-09-02", "--to", "2026-09-01"],
        ["load", "TABLE", "--mode", "sideways"],
        ["load", "TABLE", "--mode", "job-bookmark-pause", "--from-batch", "1"],
        ["load", "TABLE", "--mode", "no-advance", "--from-batch", "1", "--to-batch", "7"],
        ["load", "TABLE", "--from-batch", "a", "--to-batch", "b"],
        ["load", "TABLE", "--no-such-option"],
        ["load"],
        ["bookmark", "reset", "TABLE"],
        ["doctor", "x.unknown"],
        ["infer", "s3://landing/"],
        ["rejects", "replay", "TABLE", "--batch", "none"],
        ["object", "skip", "s3://landing/none/a.csv", "--reason", "x"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_and_what_is_not_available_yet(lake: Lake, arguments: list[str]) -> None:
    code, _, errors = lake.cli(*(lake.table if a == "TABLE" else a for a in arguments))
    assert code == 2 and errors.strip() and "Traceback" not in errors


def test_a_table_that_was_rolled_back_is_detached(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    first = lake.load()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    with table.manage_snapshots() as change:
        change.rollback_to_snapshot(first.snapshot_id)
    lake.put(DAY_2, "c.csv", csv(order(3)))
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"]) == (1, "detached"), errors
    assert "rolled the table back" in receipt["error"]
    code, (status,), _ = lake.cli("status", lake.table, "--json")
    assert status["state"] == "detached"
    assert set(lake.amounts()) == {1}


def test_a_lost_tag_is_detached_and_never_a_first_load(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    with table.manage_snapshots() as change:
        change.remove_tag("lakehouse.bookmark.orders")
    receipt = lake.load()
    assert (receipt.state.value, receipt.exit_code) == ("detached", 1)


def test_a_dropped_and_recreated_table_is_detached(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    catalog = lake.stack.catalog()
    table = catalog.load_table(lake.table)
    catalog.drop_table(lake.table)
    assert lake.load().state.value == "detached"
    catalog.create_table(lake.table, schema=table.schema(), partition_spec=table.spec())
    assert lake.load().state.value == "detached"


def test_live_null_keys_in_the_target_are_named(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path)
    lake.write_declaration(lake.declaration_text().replace("{type: bigint, required: true}", "bigint"))
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    rows = table.scan().to_arrow()
    table.append(rows.set_column(0, rows.schema.field("order_id"), pa.array([None], pa.int64())))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    code, receipt, _ = lake.cli("load", lake.table, "--json")
    assert code == 1 and "NULL key: column=order_id rows=1" in receipt["error"]
    assert lake.version() == 1


def test_a_table_with_other_columns_is_refused(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.write_declaration(lake.declaration_text().replace("customer_id: string", "customer: string"))
    code, receipt, _ = lake.cli("load", lake.table, "--json")
    assert code == 2 and "customer_id" in receipt["error"]


def test_one_table_that_cannot_be_looked_at_does_not_hide_the_others(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    other = (
        lake.declaration_text()
        .replace(lake.table, f"{lake.name}.other")
        .replace("/\n    partition", "2/\n    partition")
    )
    lake.write_declaration(
        f"{other}\n---\n{lake.declaration_text().replace('customer_id: string', 'customer: string')}"
    )
    code, found, _ = lake.cli("status", "--json")
    assert {s["table"]: s["state"] for s in found} == {lake.table: "error", f"{lake.name}.other": "new"}
    assert code == 2


def test_a_failed_start_is_told_by_a_receipt_too(lake: Lake) -> None:
    code, receipt, errors = lake.cli("load", lake.table, "--json", env={"LAKEHOUSE_MEMORY": "much"})
    assert (code, receipt["state"], receipt["batches"]) == (2, "failed", [])
    assert "LAKEHOUSE_MEMORY" in errors


def test_a_disk_that_is_full_while_objects_are_staged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's fault, and no bug of ours; the next load does it all."""
    lake.put(DAY_1, "a.csv", csv(order(1)))

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.batch.staging.stage_small_objects", full)
        receipt = lake.load()
    assert (receipt.exit_code, receipt.state) == (2, State.FAILED)
    assert "No space left" in receipt.error and "LAKEHOUSE_SPILL" in receipt.next
    assert lake.load().state is State.COMMITTED


@pytest.mark.parametrize("error", [EOFError, ZeroDivisionError])
def test_a_bug_of_ours_is_told_whatever_python_calls_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[Exception]
) -> None:
    """The command line's library takes an EOFError for a person who has left the terminal."""

    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr("lakehouse.cli.load.ingest", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, said, errors = lake.said("load", lake.table, "--json")
    assert (code, said["exit_code"]) == (70, 70)
    assert f"a bug of lakehouse: {error.__name__}" in errors and error.__name__ in said["error"]
    assert [path.suffix for path in tmp_path.glob("lakehouse-bug-*")] == [".log"]
