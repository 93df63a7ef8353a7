"""Upkeep that is killed between its commit and its removals: no row is lost, and the next one clears up."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.faults import UPKEEP_POINTS
from tests.fault.cell import Bench, check_nothing_is_left, diagnosed
from tests.fault.matrix import KILLED, NOTHING
from tests.fault.tables import LOADS, OBJECTS, content, land, landing, make_lake

COMMANDS = {"after_expire": ("expire", "--older-than", "0s"), "before_removal": ("orphans",)}


@pytest.mark.chaos
@pytest.mark.parametrize("point", UPKEEP_POINTS)
def test_upkeep_killed(bench: Bench, tmp_path: Path, point: str) -> None:
    lake = make_lake(bench.stack, tmp_path, "upsert")
    for load in LOADS:
        land(lake, landing("upsert", OBJECTS[1], load))
        bench.load(lake, env={"LAKEHOUSE_FAULT": "after_write"})
        assert lake.load().exit_code == 0
    rows = content(lake).rows
    arguments = ("maintain", lake.table, *COMMANDS[point])
    assert bench.run(lake, *arguments, env={"LAKEHOUSE_FAULT": point}).code == KILLED
    assert content(lake).rows == rows
    assert bench.run(lake, *arguments).code == 0
    assert lake.load().exit_code == 0
    assert (content(lake).rows, lake.differences(), diagnosed(lake)) == (rows, [], NOTHING)
    check_nothing_is_left(lake)
