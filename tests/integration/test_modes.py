"""Modes and ranges on the real stack: what is read, what is merged, and where the bookmark stays (G4 to G7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.ingest import LoadRequest, ingest, plan_load
from lakehouse.model import Decision, Mode, Receipt, State
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order, uris


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def pause(lake: Lake, **range_: str) -> Receipt:
    request = LoadRequest(mode=Mode.NO_ADVANCE, run_id="test", **range_)
    return ingest(lake.declaration, request, lake.services())


def test_g04_pause_reads_the_increment_and_moves_nothing(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_2, "b.csv", csv(order(2), order(1, "5.00", 9)))
    first = pause(lake)
    assert (first.state, first.rows.read, first.rows.inserted, first.rows.updated) == (State.COMMITTED, 2, 1, 1)
    assert lake.amounts() == {1: "5.00", 2: "1.00"}
    again = pause(lake)
    assert (again.state, again.rows.read, again.rows.unchanged) == (State.COMMITTED, 2, 2)
    after = lake.load()
    assert (after.objects["read"], after.rows.unchanged) == (1, 2)
    assert pause(lake).state is State.NOTHING_TO_DO
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences() == lake.differences(reread=True) == []


def test_bounds_of_a_batch_hold_for_a_pause_too(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="max_files: 1")
    for number in (1, 2, 3):
        lake.put(DAY_1, f"{number}.csv", csv(order(number)))
    receipt = pause(lake)
    assert [batch.objects for batch in receipt.batches] == [1, 1, 1]
    assert (len(lake.rows()), lake.version()) == (3, 3)
    assert lake.plan().count(Decision.PLANNED) == 3


def test_g05_g06_a_range_is_open_at_its_beginning_and_closed_at_its_end(lake: Lake) -> None:
    batches = []
    for number, day in enumerate((DAY_1, DAY_2, DAY_3), start=1):
        lake.put(day, f"{number}.csv", csv(order(number)))
        batches.append(lake.load().batches[0].batch_id)
    lake.put(DAY_3, "unseen.csv", csv(order(9)))

    def planned(first: str, last: str) -> list[str]:
        request = LoadRequest(mode=Mode.NO_ADVANCE, from_batch=first, to_batch=last)
        return [*uris(plan_load(lake.declaration, request, lake.services()))]

    assert planned(batches[0], batches[2]) == planned("1", "3") == ["2.csv", "3.csv"]
    assert planned("0", batches[1]) == ["1.csv", "2.csv"]
    assert planned("2", "2") == []
    receipt = pause(lake, from_batch="1", to_batch="2")
    assert (receipt.rows.read, receipt.rows.unchanged, receipt.objects["outside_window"]) == (1, 1, 3)
    assert uris(lake.plan()) == ["unseen.csv"]

    lake.load(mode=Mode.FULL)
    assert planned("0", "2") == ["1.csv", "2.csv"], "what has read them since does not matter"


def test_g07_a_range_has_two_ends_and_leaves_the_bookmark(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    for mode, range_, message in [
        (Mode.NO_ADVANCE, {"from_batch": "1"}, "a range of batches has two ends"),
        (Mode.INCREMENTAL, {"from_batch": "0", "to_batch": "1"}, "the mode is incremental"),
        (Mode.NO_ADVANCE, {"from_batch": "1", "to_batch": "0"}, "the range is empty"),
        (Mode.NO_ADVANCE, {"from_batch": "1", "to_batch": "nine"}, "no such version or batch"),
    ]:
        receipt = ingest(lake.declaration, LoadRequest(mode=mode, run_id="test", **range_), lake.services())
        assert (receipt.exit_code, message in receipt.error, "lakehouse " in receipt.next) == (2, True, True)
    assert lake.version() == 1


def test_a_pause_and_the_load_after_it_append_no_row_twice(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, more="write: append")
    lake.write_declaration(lake.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", ""))
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    for load in (lambda: pause(lake), lambda: pause(lake), lake.load):
        assert load().rows.read == 2
        assert len(lake.rows()) == 2
    assert lake.differences() == []


@pytest.mark.parametrize("write", ["replace_partition", "snapshot\n  max_deleted_ratio: 1.0"])
def test_whole_dates_take_a_pause_and_no_range(stack: Any, tmp_path: Path, write: str) -> None:
    lake = Lake(stack, tmp_path, more=f"write: {write}")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    for load in (lambda: pause(lake), lambda: pause(lake), lake.load):
        assert load().rows.read == 2
        assert len(lake.rows()) == 2
    receipt = pause(lake, from_batch="0", to_batch="1")
    assert (receipt.exit_code, "reads landing dates as a whole" in receipt.error) == (2, True)


def test_a_request_to_read_again_is_carried_out_once_by_a_pause(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    assert lake.cli("object", "reload", uri, "--reason", "again")[0] == 0
    assert pause(lake).rows.read == 1
    assert uris(lake.plan()) == ["a.csv"]
