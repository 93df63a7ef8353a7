"""The write modes on the real stack, each with its equations and a rerun. Field cases carry their number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.transforms import IdentityTransform

from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Decision, Mode, Receipt, State
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, slow_down, uris

DECLARATION = """\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://landing/{prefix}/
    partition: input_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}
    {source}
  columns:
    order_id: {{type: bigint, required: true}}
    amount: "decimal(12,2)"
    order_time: timestamptz
    op: string
    input_date: {{type: date, from_path: date}}
  write: {write}
  partition_by: [input_date]
  start_date: 2026-08-30
  gates: {{{gates}}}
  {more}
"""
KEYED = "key: [order_id]\n  order_by: [order_time]"
DELETES = f"{KEYED}\n  delete_when: \"op = 'D'\""
Make = Callable[..., Lake]


@pytest.fixture
def make(stack: Any, tmp_path: Path) -> Make:
    def make(write: str = "upsert", more: str = KEYED, *, source: str = "", gates: str = "") -> Lake:
        lake = Lake(stack, tmp_path)
        text = DECLARATION.format(
            table=lake.table, prefix=lake.name, write=write, more=more, source=source, gates=gates
        )
        lake.text = text
        lake.write_declaration()
        return lake

    return make


def csv(*rows: tuple[int | str, str, int] | tuple[int | str, str, int, str]) -> bytes:
    """Orders as (id, amount, minute) or (id, amount, minute, op)."""
    lines = [f"{key},{amount},2026-08-30T10:{minute:02d}:00Z,{''.join(op)}\n" for key, amount, minute, *op in rows]
    return ("order_id,amount,order_time,op\n" + "".join(lines)).encode()


def table_rows(lake: Lake) -> list[tuple[int, str]]:
    """(id, amount) of every row of the table, doubled ones too, in order."""
    found = lake.stack.catalog().load_table(lake.table).scan().to_arrow().to_pylist()
    return sorted((row["order_id"], str(row["amount"])) for row in found)


def alive(lake: Lake) -> dict[int, str]:
    """Amounts of the rows that are not marked as deleted, by key."""
    return {key: str(row["amount"]) for key, row in lake.rows().items() if row.get("_deleted_at") is None}


def load(lake: Lake, *, accept_missing: bool = False) -> Receipt:
    request = LoadRequest(mode=Mode.INCREMENTAL, run_id="test", accept_missing=accept_missing)
    return ingest(lake.declaration, request, lake.services())


def good(receipt: Receipt) -> Receipt:
    assert (receipt.state, receipt.exit_code, receipt.error) == (State.COMMITTED, 0, "")
    return receipt


def remove(lake: Lake, uri: str) -> None:
    lake.stack.s3.delete_object(Bucket="landing", Key=uri.removeprefix("s3://landing/"))


def proves(lake: Lake) -> None:
    """Every equation holds, a rerun has nothing to do, and reading everything again changes no row."""
    assert lake.differences(reread=True) == []
    assert lake.load().state is State.NOTHING_TO_DO
    before = table_rows(lake)
    good(lake.load(mode=Mode.FULL))
    assert table_rows(lake) == before
    assert lake.differences(reread=True) == []


# snapshot


@pytest.mark.parametrize(("write", "left"), [("upsert", {1, 2, 3}), ("snapshot", {1, 3})])
def test_v09_keys_that_vanished_at_the_source(make: Make, write: str, left: set[int]) -> None:
    lake = make(write, KEYED + ("\n  max_deleted_ratio: 0.5" if write == "snapshot" else ""))
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1), (3, "3.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((1, "1.50", 2), (3, "3.00", 1)))
    receipt = good(lake.load())
    assert set(lake.amounts()) == left
    assert (receipt.rows.vanished, receipt.rows.deleted) == ((1, 1) if write == "snapshot" else (0, 0))
    proves(lake)


def test_v09_more_than_the_ratio_is_a_failed_gate_and_touches_nothing(make: Make) -> None:
    lake = make("snapshot")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1), (3, "3.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((1, "1.50", 2), (3, "3.00", 1)))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code) == (State.BLOCKED, 1)
    assert "max_deleted_ratio" in receipt.error and not receipt.gates[-1].passed
    assert lake.amounts() == {1: "1.00", 2: "2.00", 3: "3.00"}
    assert lake.differences() == []


def test_a_late_older_date_does_not_bring_a_vanished_key_back(make: Make) -> None:
    lake = make("snapshot", "key: [order_id]\n  max_deleted_ratio: 1.0")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    lake.put(DAY_3, "a.csv", csv((1, "3.00", 1)))
    good(lake.load())
    assert lake.amounts() == {1: "3.00"}
    lake.put(DAY_2, "late.csv", csv((1, "2.50", 9), (2, "2.50", 9), (4, "4.00", 9)))
    receipt = good(lake.load(day=DAY_2))
    assert (receipt.objects["read"], receipt.rows.stale, receipt.rows.inserted) == (1, 3, 0)
    assert lake.amounts() == {1: "3.00"}
    proves(lake)


def test_a_key_that_was_away_comes_back_as_the_newest_date_has_it(make: Make) -> None:
    """Its earlier version claimed to be newer: that date is no truth any more, and nothing to be proved."""
    lake = make("snapshot", f"{KEYED}\n  max_deleted_ratio: 1.0")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 9), (2, "2.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((2, "2.00", 1)))
    assert good(lake.load()).rows.vanished == 1
    lake.put(DAY_3, "a.csv", csv((1, "1.50", 5), (2, "2.00", 1)))
    good(lake.load())
    assert lake.amounts() == {1: "1.50", 2: "2.00"}
    assert lake.differences(reread=True) == []


def test_a_history_in_several_batches_ends_at_its_newest_date(make: Make) -> None:
    lake = make("snapshot", "key: [order_id]", source="max_files: 1")
    for number, day in enumerate((DAY_1, DAY_2, DAY_3), start=1):
        lake.put(day, "a.csv", csv(*((key, f"{number}.00", number) for key in range(number, number + 3))))
    receipt = good(lake.load())
    assert [b.objects for b in receipt.batches] == [1, 1, 1]
    assert lake.amounts() == {3: "3.00", 4: "3.00", 5: "3.00"}
    proves(lake)


def test_a_part_of_the_newest_date_that_cannot_be_read_deletes_nothing(make: Make) -> None:
    lake = make("snapshot", f"{KEYED}\n  max_deleted_ratio: 1.0", gates="max_rejected_ratio: 1.0")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((1, "1.50", 2)))
    lake.put(DAY_2, "b.csv", csv((3, "3.00", 1), ("", "9.00", 1)))
    receipt = good(lake.load())
    assert any("2026-08-31 is not complete, so no row was deleted" in warning for warning in receipt.warnings)
    assert set(lake.amounts()) == {1, 2, 3}
    lake.put(DAY_2, "b.csv", csv((3, "3.00", 1)))
    assert uris(lake.plan()) == ["a.csv", "b.csv"]
    assert good(lake.load()).rows.vanished == 1
    assert set(lake.amounts()) == {1, 3}
    proves(lake)


# replace_partition


def test_a_new_object_replaces_the_rows_of_its_date(make: Make) -> None:
    lake = make("replace_partition", "")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (1, "1.00", 1)))
    lake.put(DAY_2, "a.csv", csv((1, "7.00", 1)))
    good(lake.load())
    lake.put(DAY_1, "b.csv", csv((2, "2.00", 1)))
    plan = lake.plan()
    assert uris(plan) == ["a.csv", "b.csv"]
    assert [d.reason for d in plan.decisions if d.reason.startswith("re-read")] == [
        "re-read: input_date=2026-08-30/b.csv is new in 2026-08-30"
    ]
    receipt = good(lake.load())
    assert (receipt.rows.replaced, receipt.rows.inserted, receipt.rows.deleted) == (2, 3, 2)
    assert table_rows(lake) == [(1, "1.00"), (1, "1.00"), (1, "7.00"), (2, "2.00")]
    lake.put(DAY_1, "a.csv", csv((5, "5.00", 1)))
    good(lake.load())
    assert table_rows(lake) == [(1, "7.00"), (2, "2.00"), (5, "5.00")]
    proves(lake)


def test_with_a_key_one_row_of_each_date_survives(make: Make) -> None:
    lake = make("replace_partition", KEYED)
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (1, "2.00", 2)))
    lake.put(DAY_2, "a.csv", csv((1, "3.00", 1)))
    receipt = good(lake.load())
    assert (receipt.rows.superseded, receipt.rows.inserted) == (1, 2)
    assert table_rows(lake) == [(1, "2.00"), (1, "3.00")]
    proves(lake)


def test_m11_rows_of_an_older_partition_spec_are_replaced_too(make: Make) -> None:
    lake = make("replace_partition", "")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1, "A")))
    good(lake.load())
    table = lake.stack.catalog().load_table(lake.table)
    with table.update_spec() as update:
        update.add_field("op", IdentityTransform(), "op")
    lake.put(DAY_1, "a.csv", csv((2, "2.00", 1, "B")))
    good(lake.load())
    assert table_rows(lake) == [(2, "2.00")]
    proves(lake)


def test_a_consumed_object_that_is_gone_blocks_until_it_is_accepted(make: Make) -> None:
    lake = make("replace_partition", "")
    gone = lake.put(DAY_1, "a.csv", csv((1, "1.00", 1)))
    good(lake.load())
    remove(lake, gone)
    assert lake.load().state is State.NOTHING_TO_DO
    lake.put(DAY_1, "b.csv", csv((2, "2.00", 1)))
    receipt = load(lake)
    assert (receipt.state, receipt.exit_code) == (State.BLOCKED, 1)
    assert gone in receipt.error and "--accept-missing" in receipt.next
    assert table_rows(lake) == [(1, "1.00")]
    code, plan, _ = lake.cli("plan", lake.table, "--json")
    assert (code, plan["missing"]) == (0, [gone])
    code, receipt_json, _ = lake.cli("load", lake.table, "--accept-missing", "--json")
    assert (code, receipt_json["rows"]["replaced"]) == (0, 1)
    assert table_rows(lake) == [(2, "2.00")]
    lake.put(DAY_1, "c.csv", csv((3, "3.00", 1)))
    good(load(lake))
    assert table_rows(lake) == [(2, "2.00"), (3, "3.00")]
    proves(lake)


def test_a_date_with_an_object_that_cannot_be_read_is_not_replaced(make: Make) -> None:
    lake = make("replace_partition", "")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1)))
    good(lake.load())
    lake.put(DAY_1, "b.csv", csv((2, "2.00", 1)))
    lake.put(DAY_1, "bad.csv", b"order_id,surprise\n1,2\n")
    lake.put(DAY_2, "a.csv", csv((7, "7.00", 1)))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code) == (State.COMMITTED, 1)
    assert table_rows(lake) == [(1, "1.00"), (7, "7.00")]
    (waiting,) = [d for d in lake.plan().decisions if d.decision is Decision.DEFERRED]
    assert waiting.reason == "its date waits: input_date=2026-08-30/bad.csv is quarantined"
    lake.put(DAY_1, "bad.csv", csv((3, "3.00", 1)))
    good(lake.load())
    assert table_rows(lake) == [(1, "1.00"), (2, "2.00"), (3, "3.00"), (7, "7.00")]
    proves(lake)


def test_a_date_with_an_object_that_cannot_be_fetched_now_is_left_as_it_was(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make("replace_partition", "")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1)))
    good(lake.load())
    lake.put(DAY_1, "b.csv", csv((2, "2.00", 1)))
    lake.put(DAY_2, "a.csv", csv((7, "7.00", 1)))
    with monkeypatch.context() as patch:
        slow_down(patch, f"{DAY_1}/a.csv")
        receipt = lake.load()
    assert (receipt.state, receipt.exit_code) == (State.COMMITTED, 3)
    assert table_rows(lake) == [(1, "1.00"), (7, "7.00")]
    good(lake.load())
    assert table_rows(lake) == [(1, "1.00"), (2, "2.00"), (7, "7.00")]
    proves(lake)


# append


def test_an_overwritten_object_takes_its_rows_along(make: Make) -> None:
    lake = make("append", "")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (1, "1.00", 1)))
    lake.put(DAY_1, "b.csv", csv((1, "1.00", 1)))
    assert good(lake.load()).rows.inserted == 3
    lake.put(DAY_1, "a.csv", csv((2, "2.00", 1)))
    receipt = good(lake.load())
    assert (receipt.rows.replaced, receipt.rows.inserted, receipt.objects["read"]) == (2, 1, 1)
    assert table_rows(lake) == [(1, "1.00"), (2, "2.00")]
    proves(lake)


# deletes


def test_a_late_older_insert_after_a_hard_delete_stays_dead(make: Make) -> None:
    lake = make("upsert", DELETES)
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((1, "0.00", 5, "D"), (3, "0.00", 5, "D")))
    receipt = good(lake.load())
    assert (receipt.rows.removed, receipt.rows.absent, receipt.rows.deleted) == (1, 1, 1)
    lake.put(DAY_1, "late.csv", csv((1, "1.50", 3), (3, "3.00", 3)))
    receipt = good(lake.load())
    assert (receipt.rows.stale, receipt.rows.inserted) == (2, 0)
    assert lake.amounts() == {2: "2.00"}
    lake.put(DAY_3, "a.csv", csv((1, "9.00", 9)))
    assert good(lake.load()).rows.inserted == 1
    assert lake.amounts() == {1: "9.00", 2: "2.00"}
    proves(lake)


def test_a_delete_and_an_insert_in_one_batch_follow_their_order(make: Make) -> None:
    lake = make("upsert", DELETES)
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (1, "0.00", 2, "D"), (2, "0.00", 1, "D"), (2, "2.00", 2)))
    receipt = good(lake.load())
    assert (receipt.rows.superseded, receipt.rows.absent, receipt.rows.inserted) == (2, 1, 1)
    assert lake.amounts() == {2: "2.00"}
    proves(lake)


def test_a_soft_delete_marks_the_row_and_a_newer_insert_clears_the_mark(make: Make) -> None:
    lake = make("upsert", f"{DELETES}\n  deletes: soft")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv((1, "0.00", 5, "D"), (3, "0.00", 5, "D")))
    receipt = good(lake.load())
    assert (receipt.rows.updated, receipt.rows.inserted, receipt.rows.deleted) == (1, 1, 0)
    assert alive(lake) == {2: "2.00"}
    assert (str(lake.rows()[1]["amount"]), set(lake.rows())) == ("1.00", {1, 2, 3})
    lake.put(DAY_1, "late.csv", csv((1, "1.50", 3)))
    assert good(lake.load()).rows.stale == 1
    lake.put(DAY_3, "a.csv", csv((1, "9.00", 9)))
    assert good(lake.load()).rows.updated == 1
    assert alive(lake) == {1: "9.00", 2: "2.00"}
    proves(lake)


def test_a_condition_that_is_none_is_told_before_anything_is_read(make: Make) -> None:
    lake = make("upsert", f"{KEYED}\n  delete_when: \"opp = 'D'\"")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1)))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code) == (State.FAILED, 2)
    assert "defs.yaml:22:16: delete_when: no column opp" in receipt.error
    code, found, _ = lake.cli("validate", "--json")
    assert (code, found["tables"]) == (2, []) and "no column opp" in found["mistakes"][0]


def test_keys_that_vanished_with_an_objects_new_version_are_retracted(make: Make) -> None:
    lake = make("upsert", KEYED, source="on_overwrite: retract", gates="max_rejected_ratio: 1.0")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1), (3, "3.00", 1)))
    lake.put(DAY_1, "b.csv", csv((4, "4.00", 1)))
    good(lake.load())
    lake.put(DAY_2, "c.csv", csv((3, "3.50", 5)))
    good(lake.load())
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), ("", "5.00", 1)))
    receipt = good(lake.load())
    assert any("nothing was retracted" in warning for warning in receipt.warnings)
    assert set(lake.amounts()) == {1, 2, 3, 4}
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1)))
    receipt = good(lake.load())
    assert (receipt.rows.vanished, receipt.rows.deleted) == (1, 1)
    assert lake.amounts() == {1: "1.00", 3: "3.50", 4: "4.00"}
    proves(lake)


def test_a_retracted_key_that_an_older_object_still_has_is_proved_as_far_as_it_can_be(make: Make) -> None:
    """It is gone until everything is read again: the newest version of its object took it out."""
    lake = make("upsert", KEYED, source="on_overwrite: retract")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    lake.put(DAY_1, "b.csv", csv((2, "1.50", 0), (3, "3.00", 0)))
    good(lake.load())
    lake.put(DAY_1, "a.csv", csv((1, "1.10", 2)))
    assert good(lake.load()).rows.vanished == 1
    assert lake.amounts() == {1: "1.10", 3: "3.00"}
    assert lake.differences(reread=True) == []
    good(lake.load(mode=Mode.FULL))
    assert lake.amounts() == {1: "1.10", 2: "1.50", 3: "3.00"}
    assert lake.differences(reread=True) == []


# order


def test_the_order_of_arrival_needs_no_column(make: Make) -> None:
    lake = make("upsert", "key: [order_id]\n  order_by: arrival")
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 9), (1, "2.00", 1)))
    good(lake.load())
    assert lake.amounts() == {1: "2.00"}
    lake.put(DAY_1, "b.csv", csv((1, "3.00", 0)))
    good(lake.load())
    assert lake.amounts() == {1: "3.00"}
    proves(lake)


@pytest.mark.parametrize(
    ("write", "more", "source"),
    [
        ("snapshot", f"{KEYED}\n  max_deleted_ratio: 1.0", ""),
        ("replace_partition", "", ""),
        ("upsert", KEYED, "on_overwrite: retract"),
    ],
)
def test_an_object_that_was_emptied_takes_no_rows_along(make: Make, write: str, more: str, source: str) -> None:
    lake = make(write, more, source=source)
    lake.put(DAY_1, "a.csv", csv((1, "1.00", 1), (2, "2.00", 1)))
    lake.put(DAY_1, "b.csv", csv((3, "3.00", 1)))
    good(lake.load())
    emptied = lake.put(DAY_1, "a.csv", b"")
    lake.put(DAY_1, "c.csv", csv((4, "4.00", 1)))
    assert lake.load().exit_code == 1
    # a date that is replaced as a whole waits as a whole
    added = set() if write == "replace_partition" else {4}
    assert {key for key, _ in table_rows(lake)} == {1, 2, 3} | added
    if added:
        (reason,) = [d.reason for d in lake.plan().decisions if d.object.uri == emptied]
        assert "overwritten by an empty one" in reason
    lake.put(DAY_1, "a.csv", csv())
    good(lake.load())
    assert {key for key, _ in table_rows(lake)} == {3, 4}
    proves(lake)
