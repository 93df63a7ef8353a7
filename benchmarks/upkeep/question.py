"""What a reader of the tables is asked, and how it answers; shared by processes of different environments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.machine import Meter


@dataclass(frozen=True, slots=True)
class Question:
    """A snapshot of a table, as a whole or one row of one day."""

    table: str
    snapshot: int
    day: str | None
    key: int | None


def asked(description: str | None) -> Question:
    """The question of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("table")
    parser.add_argument("snapshot", type=int)
    parser.add_argument("day", nargs="?", help="of the row that is looked up; without one: the full scan")
    parser.add_argument("key", nargs="?", type=int)
    options = parser.parse_args()
    return Question(options.table, options.snapshot, options.day, options.key)


def answer(read: Callable[[], Sequence[Sequence[Any]]]) -> None:
    """Read, timed, and print what was found, as texts, with seconds and peak memory."""
    meter = Meter()
    rows = read()
    print(json.dumps({**meter.read(), "found": [[str(value) for value in row] for row in rows]}))
