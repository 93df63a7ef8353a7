"""The kill matrix on the real stack: a part that moves on with every day here, every cell under `make chaos`."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest

from lakehouse.faults import LOAD_POINTS
from tests.fault.cell import Bench, run_cell
from tests.fault.matrix import FAULTS, KILLS, NO_ROOM, SERVICES, Cell, cells, runs
from tests.fault.page import PAGE, page
from tests.fault.record import SEEN
from tests.fault.services import SERVICE_FAULTS
from tests.named_tests import ROOT

A_DAY = 4
"""So many tests of the matrix are run with every `make test`, other ones each day."""
Record = Callable[[str, object], None]


def test_every_fault_is_in_the_matrix() -> None:
    assert tuple(fault.name for fault in KILLS) == LOAD_POINTS
    assert {fault.name for fault in SERVICES} == {*SERVICE_FAULTS, NO_ROOM}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_page_is_that_of_the_matrix() -> None:
    assert (ROOT / PAGE).read_text() == page(), "write it again: python -m tests.fault.page"


def run(bench: Bench, cell: Cell, record: Record) -> None:
    told = {"kind": "cell", "cell": cell.id, "fault": cell.fault.name, "mode": cell.mode, "cells": runs(cell)}
    told["seconds"] = []
    record(SEEN, told)
    told["seconds"] = [seen.seconds for seen in run_cell(bench, cell).values()]


@pytest.mark.parametrize("place", range(A_DAY))
def test_a_part_of_the_matrix(bench: Bench, place: int, record_property: Record) -> None:
    """LAKEHOUSE_CHAOS_SEED says another day's."""
    day = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or datetime.now(UTC).toordinal())
    every = [*cells()]
    Random(0).shuffle(every)
    run(bench, every[(day * A_DAY + place) % len(every)], record_property)


@pytest.mark.chaos
@pytest.mark.parametrize("cell", [*cells()], ids=lambda cell: cell.id)
def test_every_cell(bench: Bench, cell: Cell, record_property: Record) -> None:
    run(bench, cell, record_property)
