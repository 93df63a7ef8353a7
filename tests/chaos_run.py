"""Runs a property for LAKEHOUSE_CHAOS_SECONDS, ten minutes unless told, with one seed after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

SECONDS = float(os.environ.get("LAKEHOUSE_CHAOS_SECONDS") or 600)


@dataclass
class Tally:
    """What was compared."""

    files: int = 0
    records: int = 0
    refused: int = 0


def run_for_long(title: str, one: Callable[[int], Tally], capsys: pytest.CaptureFixture[str]) -> Tally:
    """Call `one` with ascending seeds until the time is over; LAKEHOUSE_CHAOS_SEED says the first.

    Prints the first seed, that of a failed call, and what was compared.
    """
    seed, end = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or time.time_ns() % 10**9), time.monotonic() + SECONDS
    total = Tally()
    with capsys.disabled():
        print(f"\n{title}: seed {seed}, {SECONDS:g} seconds")
    while time.monotonic() < end:
        try:
            found = one(seed)
        except BaseException:
            with capsys.disabled():
                print(f"{title}: failed with LAKEHOUSE_CHAOS_SEED={seed}")
            raise
        total.files += found.files
        total.records += found.records
        total.refused += found.refused
        seed += 1
    with capsys.disabled():
        print(f"{title}: {total.files:,} files, {total.records:,} records compared, {total.refused:,} files refused")
    return total
