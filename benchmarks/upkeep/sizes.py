"""What is loaded day by day, which tables there are and who reads them, by the size of the benchmark. Does no work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from benchmarks.workload import DAYS, FIRST_DAY, NAMESPACE

MERGES = 30
ALL_DAYS = DAYS + MERGES
UPDATED = 7
"""Days before its own whose rows a daily file updates."""
STEP = 23
"""One of so many of their rows is updated: about a hundredth of the rows of the first DAYS."""

ONCE, MERGED, BY_RATIO = "once", "merged", "by_ratio"
TABLES = {
    ONCE: {},
    MERGED: {"write.merge.mode": "merge-on-read", "history.expire.min-snapshots-to-keep": "5"},
    BY_RATIO: {},
}
"""Table properties: of the one that is loaded once, of the one whose files get position deletes whatever their share,
and of the one that is merged as tables are that say nothing of it. Five snapshots: the one before the compaction is
among them and can be read beside."""

NEVER, AFTER, COMPACTED = "never merged", f"after {MERGES} merges", "compacted"
AFTER_DEFAULT = f"{AFTER}, default mode"
COMPACTION = "compaction"
SCAN, LOOKUP = "full scan", "one key"
READS = (SCAN, LOOKUP)
PYICEBERG, DUCKDB = "PyIceberg", "DuckDB"
READERS = {PYICEBERG: "pyiceberg", DUCKDB: "duckdb"}
"""What `--peers` calls the environment of a reader."""


def loads(table: str) -> str:
    """The part that fills a table."""
    return {MERGED: f"{MERGES} loads", BY_RATIO: f"{MERGES} loads, default mode"}[table]


def part(reader: str, read: str, state: str) -> str:
    return f"{reader}, {read}: {state}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """`rows` are those of the first DAYS; each of the MERGES days brings a DAYS-th of them, and updates."""

    rows: int

    @property
    def all_rows(self) -> int:
        return self.rows * ALL_DAYS // DAYS

    def first_row(self, day: int) -> int:
        """Number of the first row of a day, the first of which is 0."""
        return -(-day * self.all_rows // ALL_DAYS)

    def rows_of(self, day: int) -> range:
        return range(self.first_row(day), self.first_row(day + 1))


def date_of(day: int) -> date:
    return FIRST_DAY + timedelta(days=day)


def prefix_of(table: str) -> str:
    """The folder of a table's files in the landing bucket; the tables that are merged share one."""
    return f"bench/upkeep/{'once' if table == ONCE else 'daily'}/"


def name_of(table: str) -> str:
    return f"{NAMESPACE}.upkeep_{table}"
