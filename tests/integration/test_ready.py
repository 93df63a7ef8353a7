"""`source.ready` on the real stack: what is not ready is deferred and told, and loads once it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.model import Decision, State
from tests.lake import DAY_1, DAY_2, Lake, csv, order


def test_a_date_loads_when_its_marker_comes(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="ready: {marker: _SUCCESS}")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_2, "b.csv", csv(order(2)))
    lake.put(DAY_2, "_SUCCESS", b"")
    receipt = lake.load()
    assert (receipt.state, receipt.objects["read"], receipt.objects["deferred"]) == (State.COMMITTED, 1, 1)
    waiting = lake.load(day=DAY_1)
    assert (waiting.state, waiting.exit_code, waiting.objects["deferred"]) == (State.NOTHING_TO_DO, 0, 1)
    marker = lake.put(DAY_1, "_SUCCESS", b"")
    decisions = {d.object.uri: (d.decision, d.reason) for d in lake.plan(day=DAY_1).decisions}
    assert decisions[marker] == (Decision.IGNORED, "ready marker")
    assert lake.load(day=DAY_1).rows.inserted == 1
    assert set(lake.amounts()) == {1, 2}
    assert lake.differences(reread=True) == []


def test_objects_wait_for_their_control_files_which_the_gate_reads(stack: Any, tmp_path: Path) -> None:
    template = '"{stem}.count"'
    lake = Lake(stack, tmp_path, source=f"ready: {{control: {template}}}", gates=f"control_file: {template}")
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    assert lake.load().objects["deferred"] == 1
    lake.put(DAY_1, "a.count", b"3")
    assert lake.load().state is State.BLOCKED
    lake.put(DAY_1, "a.count", b"2\n")
    assert lake.load().rows.inserted == 2


@pytest.mark.parametrize("write", ["upsert", "replace_partition"])
def test_a_date_loads_when_all_of_its_objects_are_there(stack: Any, tmp_path: Path, write: str) -> None:
    lake = Lake(stack, tmp_path, source="ready: {objects: 2}", more=f"write: {write}")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert lake.load().objects["deferred"] == 1
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert (lake.load().objects["read"], set(lake.amounts())) == (2, {1, 2})
    lake.put(DAY_1, "late.csv", csv(order(3)))
    lake.load()
    assert set(lake.amounts()) == {1, 2, 3}
    assert lake.differences(reread=True) == []
