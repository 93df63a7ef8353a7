"""Random faults: a few that change with the day here, over five hundred under `make chaos` (SEED=n repeats them)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fault.cell import Bench
from tests.fault.random_runs import History
from tests.fault.record import SEEN

RUNS, STEPS = 540, 5
"""Of so many, more than two hundred are killed at some time."""
Record = Callable[[str, object], None]


def run(bench: Bench, folder: Path, seed: int, steps: int, record: Record) -> None:
    history = History(bench, folder, seed)
    wrong = []
    for number in range(steps):
        found = history.step()
        record(SEEN, {"kind": "random", **asdict(found)})
        if found.why or found.lost or found.extra:
            wrong.append(f"step {number}, {found.mode}: lost={found.lost} extra={found.extra} {found.why}")
            print(wrong[-1])
    assert not wrong, f"LAKEHOUSE_CHAOS_SEED={seed}: " + "\n".join(wrong)
    history.end()


def base_seed() -> int:
    return int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or datetime.now(UTC).toordinal())


def test_random_faults(bench: Bench, tmp_path: Path, record_property: Record) -> None:
    run(bench, tmp_path, base_seed(), 2, record_property)


@pytest.mark.chaos
@pytest.mark.parametrize("place", range(RUNS // STEPS))
def test_more_than_five_hundred_random_faults(
    bench: Bench, tmp_path: Path, place: int, record_property: Record
) -> None:
    run(bench, tmp_path, base_seed() * 1000 + place, STEPS, record_property)
