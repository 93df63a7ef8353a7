"""A held table is not loaded by anybody until it is released, and every plan says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LeaseHeld
from lakehouse.model import State
from lakehouse.operate.hold import hold, release
from lakehouse.operate.operator_change import Operator, lease_of
from tests.lake import DAY_1, Lake, csv, order

ANNA = Operator("anna@host", "the source is mended", "test")


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def test_a_held_table_is_not_loaded(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    done = hold(lake.declaration, ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.held and done.held.author) == (State.COMMITTED, 2, "anna@host")
    uri = lake.put(DAY_1, "b.csv", csv(order(2)))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code, receipt.next) == (
        State.HELD,
        1,
        f"lakehouse release {lake.table} --reason TEXT",
    )
    assert "held by anna@host since" in receipt.error and "the source is mended" in receipt.error
    assert "held by anna@host" in lake.plan().held
    # another change of an operator carries the hold on
    assert lake.cli("object", "skip", uri, "--reason", "x")[0] == 0
    assert lake.load().state is State.HELD
    code, found, _ = lake.cli("status", lake.table, "--json")
    assert (code, found[0]["state"]) == (0, "held")
    assert release(lake.declaration, ANNA, lake.services()).held is None
    assert (lake.load().state, lake.plan().held) == (State.NOTHING_TO_DO, "")
    assert [b["kind"] for b in lake.ledger("batches")] == ["load", "hold", "object-skip", "release"]
    assert lake.differences() == []


def test_a_table_that_does_not_exist_yet_may_be_held(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert hold(lake.declaration, ANNA, lake.services(), dry_run=True).state is State.NOTHING_TO_DO
    assert lake.plan().held == ""
    hold(lake.declaration, ANNA, lake.services())
    assert lake.load().state is State.HELD
    release(lake.declaration, ANNA, lake.services())
    assert lake.load().rows.inserted == 1


def test_a_change_waits_for_a_load_that_runs(lake: Lake) -> None:
    services = lake.services(lease_wait=0.0)
    with lease_of(lake.declaration, ANNA, services, step="load"), pytest.raises(LeaseHeld):
        hold(lake.declaration, ANNA, services)
    assert release(lake.declaration, ANNA, services).state is State.NOTHING_TO_DO


def test_a_reason_that_is_no_text_is_refused(lake: Lake) -> None:
    """It could be stored, and nobody could read the ledger's rows of it."""
    code, found, _ = lake.cli("hold", lake.table, "--reason", "bad\udcff", "--json")
    assert (code, "is not UTF-8" in found["error"]) == (2, True)


def test_the_command_line(lake: Lake) -> None:
    assert lake.cli("hold", lake.table, "--reason", " ")[0] == 2
    code, done, _ = lake.cli("hold", lake.table, "--reason", "the source is mended", "--json")
    assert (code, done["state"], done["held"]["reason"]) == (0, "committed", "the source is mended")
    process = lake.start("release", lake.table, "--reason", "done")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, "held" in out, f"lakehouse load {lake.table}" in out) == (0, True, True)
