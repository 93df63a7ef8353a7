"""Tables that others made are taken over: what was there is counted, and loads go on from there."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse.operate.operator_change
from lakehouse.errors import Conflict, DeclarationError, NotAvailable, TargetDamaged, UsageError
from lakehouse.ledger import BATCHES
from lakehouse.model import State
from lakehouse.operate.adopt import Adoption, adopt
from lakehouse.position import find_position
from lakehouse.state import read_manifest
from tests.evolving_lake import OPERATOR, ORDERS, failure, foreign_table, lake_on, orders
from tests.lake import DAY_1, DAY_2, Lake, csv, order


@pytest.fixture(params=["rest", "sql"])
def lake(request: pytest.FixtureRequest, stack: Any, tmp_path: Path) -> Lake:
    return lake_on(request.param, stack, tmp_path)


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    return lake_on("sql", stack, tmp_path)


def take(lake: Lake, **how: bool) -> Adoption:
    return adopt(lake.declaration, lake.services(), OPERATOR, **how)


def test_a_foreign_table_is_refused_then_adopted_then_loaded(lake: Lake) -> None:
    foreign_table(lake, orders((1, "1.00", 1), (2, "2.00", 2)), orders((9, "9.00", 3)))
    lake.put(DAY_1, "a.csv", csv(order(1, "5.00", 9), order(3, "3.00")))
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"], receipt["next"]) == (2, "failed", f"lakehouse adopt {lake.table}"), errors
    assert lake.snapshots() == 2

    dry = take(lake, dry_run=True)
    assert (dry.state, dry.baseline, dry.bookmark_version) == (State.NOTHING_TO_DO, 3, 0)
    assert lake.snapshots() == 2 and len(dry.changes) == 6 and "column _batch_id string added" in dry.changes
    assert "partitioned by nothing, the declaration says input_date" in dry.warnings[0]

    code, done, errors = lake.cli("adopt", lake.table, "--reason", "ours now", "--json")
    assert (code, done["state"], done["baseline"], done["ledger"]) == (0, "committed", 3, "ok"), errors
    assert (done["bookmark_version"], lake.version(), lake.snapshots()) == (1, 1, 3)
    assert lake.differences() == []

    receipt = lake.load()
    assert (receipt.state, receipt.rows.updated, receipt.rows.inserted) == (State.COMMITTED, 1, 1), receipt.error
    assert not any("other writers" in w for w in receipt.warnings)
    assert lake.amounts() == {1: "5.00", 2: "2.00", 3: "3.00", 9: "9.00"}
    assert {k: r["_source_date"] for k, r in lake.rows().items()} == {1: DAY_1, 2: None, 3: DAY_1, 9: None}
    assert lake.differences() == []
    assert [(b["bookmark_version"], b["kind"], b["rows_inserted"]) for b in sorted_batches(lake)] == [
        (1, "adopt", 0),
        (2, "load", 1),
    ]
    again = take(lake)
    assert (again.state, again.bookmark_version) == (State.NOTHING_TO_DO, 2)


def sorted_batches(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.ledger(BATCHES), key=lambda b: b["bookmark_version"])


def test_author_and_reason_are_stored(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1)))
    take(local)
    services = local.services()
    head = find_position(local.declaration, services).bookmark.head
    assert head is not None
    manifest = read_manifest(services.state, head)
    assert (manifest.kind, manifest.author, manifest.reason) == ("adopt", "ann@host", "it is ours now")
    assert (manifest.baseline, manifest.bookmark_version, manifest.objects) == (1, 1, ())
    assert sorted_batches(local)[0]["author"] == "ann@host"


def test_an_older_row_does_not_replace_one_of_the_baseline(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1)))
    take(local)
    local.put(DAY_1, "a.csv", csv("1,c1,7.00,2026-07-01T00:00:00Z"))
    assert local.load().rows.stale == 1
    local.put(DAY_1, "b.csv", csv("1,c1,8.00,2026-08-01T09:01:00Z"))
    assert local.load().rows.updated == 1, "the same order value: a row without lineage is the older one"
    assert local.amounts() == {1: "8.00"} and local.differences() == []


def test_an_empty_table_that_fits_needs_no_adoption(lake: Lake) -> None:
    foreign_table(lake)
    lake.put(DAY_1, "a.csv", csv(order(1)))
    receipt = lake.load()
    assert (receipt.state, receipt.rows.inserted) == (State.COMMITTED, 1), receipt.error
    assert lake.rows()[1]["_source_date"] == DAY_1 and lake.differences() == []


def test_an_emptied_table_needs_no_adoption(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1))).delete("order_id = 1")
    local.put(DAY_1, "a.csv", csv(order(1)))
    assert local.load().rows.inserted == 1


def test_a_table_that_does_not_exist_is_not_adopted(local: Lake) -> None:
    error = failure(lambda: take(local))
    assert isinstance(error, UsageError) and error.next == f"lakehouse load {local.table}"


def test_a_table_that_does_not_fit_is_refused_with_every_fault(local: Lake) -> None:
    schema = pa.schema([("order_id", pa.string()), ("amount", pa.float64())])
    foreign_table(local, schema=schema)
    error = failure(lambda: take(local))
    assert isinstance(error, DeclarationError)
    assert "column order_id is declared as long, and string" in error.message and "column amount" in error.message


def test_null_keys_are_named(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1), (None, "2.00", 2)))
    declared = local.declaration_text().replace("order_id: {type: bigint, required: true}", "order_id: bigint")
    local.write_declaration(declared)
    error = failure(lambda: take(local))
    assert isinstance(error, TargetDamaged) and "order_id in 1 rows" in error.message
    assert "where order_id is null" in error.next and local.snapshots() == 1


def test_m07_doubled_keys_are_named_and_repaired_in_the_adoption(lake: Lake) -> None:
    foreign_table(lake, orders((7, "1.00", 1), (8, "8.00", 1)), orders((7, "2.00", 2)), orders((7, "3.00", 0)))
    error = failure(lambda: take(lake))
    assert isinstance(error, TargetDamaged)
    assert "1 keys in more than one row, 2 rows too many: order_id=7 (3 rows)" in error.message
    assert error.next.startswith(f"lakehouse adopt {lake.table} --dedupe") and lake.snapshots() == 3
    dry = take(lake, remove_doubles=True, dry_run=True)
    assert (dry.removed, lake.snapshots()) == (2, 3)
    done = take(lake, remove_doubles=True)
    assert (done.state, done.baseline, done.removed, lake.version()) == (State.COMMITTED, 4, 2, 1)
    assert lake.amounts() == {7: "2.00", 8: "8.00"} and lake.differences() == []
    lake.put(DAY_1, "a.csv", csv(order(7, "5.00", 1)))
    lake.put(DAY_2, "b.csv", csv(order(7, "6.00", 2, day="2026-08-31")))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.superseded) == (1, 1), receipt.error
    assert lake.amounts() == {7: "6.00", 8: "8.00"} and lake.differences(reread=True) == []


def test_rows_that_have_a_landing_date_already_count_for_it(local: Lake) -> None:
    schema = pa.schema([*ORDERS, ("_source_date", pa.date32())])
    rows = orders((1, "1.00", 1), (2, "2.00", 2)).append_column(
        pa.field("_source_date", pa.date32()), pa.array([date(2026, 8, 30), None], pa.date32())
    )
    foreign_table(local, rows, schema=schema)
    take(local)
    assert local.differences() == []
    local.put(DAY_2, "a.csv", csv(order(1, "5.00", 9), order(2, "6.00", 9)))
    assert local.load().rows.updated == 2
    assert local.differences() == []


def test_format_version_1_is_adopted_and_loaded(local: Lake) -> None:
    foreign_table(local, orders((1, "1.00", 1), (2, "2.00", 2)), **{"format-version": "1"})
    assert take(local).baseline == 2
    local.put(DAY_1, "a.csv", csv(order(1, "5.00", 9), order(3, "3.00")))
    receipt = local.load()
    assert (receipt.rows.updated, receipt.rows.inserted) == (1, 1), receipt.error
    assert local.amounts() == {1: "5.00", 2: "2.00", 3: "3.00"} and local.differences() == []


def test_format_version_3_is_refused(stack: Any, tmp_path: Path) -> None:
    lake = lake_on("rest", stack, tmp_path)
    foreign_table(lake, **{"format-version": "3"})
    error = failure(lambda: take(lake))
    assert isinstance(error, NotAvailable) and "format version 3" in error.message


def test_a_foreign_commit_between_count_and_publish_is_counted(local: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = foreign_table(local, orders((1, "1.00", 1)))
    real, calls = lakehouse.operate.operator_change.publish, []

    def publish(*arguments: Any, **named: Any) -> Any:
        if not calls:
            table.append(orders((2, "2.00", 2)))
        calls.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr(lakehouse.operate.operator_change, "publish", publish)
    assert (take(local).baseline, len(calls)) == (2, 2)
    assert local.version() == 1 and local.differences() == []


def test_an_adoption_that_always_loses_says_so(local: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = foreign_table(local, orders((1, "1.00", 1)))
    real = lakehouse.operate.operator_change.publish

    def publish(*arguments: Any, **named: Any) -> Any:
        table.append(orders((2, "2.00", 2)))
        table.delete("order_id = 2")
        return real(*arguments, **named)

    monkeypatch.setattr(lakehouse.operate.operator_change, "publish", publish)
    assert isinstance(failure(lambda: take(local)), Conflict)
    assert find_refs(local) == {"main"}


def find_refs(lake: Lake) -> set[str]:
    return set(lake.stack.catalog().load_table(lake.table).metadata.refs)
