"""Runs a property for LAKEHOUSE_CHAOS_SECONDS, ten minutes unless told, with one seed after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("LAKEHOUSE_CHAOS_SECONDS") or 600)
_ROUND = 200


@dataclass
class Tally:
    """What was compared."""

    files: int = 0
    records: int = 0
    refused: int = 0


def first_seed() -> int:
    return int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or time.time_ns() % 10**9)


def run_for_long(
    title: str, cases: st.SearchStrategy[Any], check: Callable[[Any], int | None], capsys: pytest.CaptureFixture[str]
) -> Tally:
    """Check generated cases until the time is over; `check` says how many records it compared, None for a refused file.

    Prints the seed of the first round, of a failed one, and what was compared.
    """
    tally, number, end = Tally(), first_seed(), time.monotonic() + SECONDS
    with capsys.disabled():
        print(f"\n{title}: seed {number}, {SECONDS:g} seconds")
    while time.monotonic() < end:

        @seed(number)
        @settings(max_examples=_ROUND, database=None, suppress_health_check=list(HealthCheck))
        @given(cases)
        def one_round(case: Any) -> None:
            records = check(case)
            tally.files += 1
            tally.records += records or 0
            tally.refused += records is None

        try:
            one_round()
        except BaseException:
            with capsys.disabled():
                print(f"{title}: failed in the round of seed {number}")
            raise
        number += 1
    with capsys.disabled():
        print(f"{title}: {tally.files:,} files with {tally.records:,} records compared, {tally.refused:,} refused")
    return tally
