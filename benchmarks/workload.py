"""Names, sizes and paths that the parts of the benchmark share. Owns no data, does no work, imports nothing but itself.

A *target* is a filled table of one shape and size, a *batch* the file that is loaded into it, a *case* both together
with how they are loaded. A *workload* is what the user asks for by name: one case or several, compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

FIRST_DAY = date(2026, 8, 1)
DAYS = 30
NEW_DAY = FIRST_DAY + timedelta(days=DAYS)
UPDATED_DAYS = 3
NAMESPACE = "bench"
BUCKET = "landing"

ORDERS = {
    "order_id": "BIGINT",
    "customer_id": "VARCHAR",
    "amount": "DECIMAL(12,2)",
    "status": "VARCHAR",
    "order_time": "TIMESTAMP WITH TIME ZONE",
    "input_date": "DATE",
    "note": "VARCHAR",
}
"""The columns that every table and file has, in order, with their types in DuckDB."""

TEXT_KEY = ("shop", "order_no")
_WIDE_TYPES = ("BIGINT", "VARCHAR", "DECIMAL(12,2)", "DATE")
_WIDE_COLUMNS = 200
SHAPES = {
    "orders": ORDERS,
    "random": ORDERS,
    "keyed": ORDERS | dict.fromkeys(TEXT_KEY, "VARCHAR"),
    "wide": ORDERS | {f"c{n:03}": _WIDE_TYPES[n % 4] for n in range(len(ORDERS), _WIDE_COLUMNS)},
}
"""Columns by shape. `random` has the columns of `orders`, and keys that say nothing about time."""

FULL_ROWS = 10_000_000
TENTH_ROWS = FULL_ROWS // 10
MERGING = (
    "daily",
    "scatter",
    "scatter-late",
    "rerun-full",
    "rerun-incremental",
    "wide",
    "composite",
    "memory",
    "growth",
    "growth-random",
)
READING = ("read-csv", "small-files", "big-csv")
FINDING = ("discovery",)
KEEPING = ("upkeep",)
WORKLOADS = (*MERGING, *READING, *FINDING, *KEEPING)


@dataclass(frozen=True, slots=True)
class Target:
    """A table of `rows` rows of one of SHAPES, spread evenly over DAYS day partitions."""

    shape: str
    rows: int

    @property
    def title(self) -> str:
        return f"{self.shape}-{self.rows}"

    @property
    def columns(self) -> dict[str, str]:
        return SHAPES[self.shape]

    @property
    def prefix(self) -> str:
        """The folder of the target's files in the landing bucket; it ends with a slash."""
        return f"bench/{self.title}/"

    @property
    def max_files(self) -> int | None:
        """Bound of one batch: a large target is filled by several."""
        return 5 if self.rows > 2 * FULL_ROWS else None

    def first_row(self, day: date) -> int:
        """Number of the first row of a landing date; that of the day after the last one is `rows`."""
        return -(-(day - FIRST_DAY).days * self.rows // DAYS)

    def rows_of(self, day: date) -> range:
        """Numbers of the rows of one landing date."""
        return range(self.first_row(day), self.first_row(day + timedelta(days=1)))


@dataclass(frozen=True, slots=True)
class Batch:
    """One file: `new` rows of a new day, and about one of `step` rows of the last UPDATED_DAYS or of `all_days`.

    `late` updates are newer than the row that they replace and older than most rows of its day; else they are of the
    new day.
    """

    new: int
    step: int
    all_days: bool = False
    late: bool = False

    @property
    def title(self) -> str:
        return f"{self.new}-{self.step}" + ("-all" if self.all_days else "") + ("-late" if self.late else "")


@dataclass(frozen=True, slots=True)
class Case:
    """What is timed: a batch into a target by `key`; `memory` is LAKEHOUSE_MEMORY, empty for the default."""

    target: Target
    batch: Batch
    key: tuple[str, ...] = ("order_id",)
    memory: str = ""

    @property
    def title(self) -> str:
        other_key = self.key if self.key != ("order_id",) else ()
        return "-".join(part for part in (self.data, *other_key, self.memory) if part)

    @property
    def data(self) -> str:
        """Name of what the generator makes for the case; cases that differ by key or memory alone share it."""
        return f"{self.target.title}-{self.batch.title}"

    @property
    def table(self) -> str:
        """Our table of the case; cases that differ by batch or memory alone share it."""
        return f"{NAMESPACE}.{self.target.shape}_by_{'_'.join(self.key)}"


def daily(rows: int, target_rows: int | None = None, *, shape: str = "orders") -> tuple[Target, Batch]:
    """One new day of 9 % of `rows` and updates of 1 % of `rows` in the last days of a target of `target_rows`."""
    target = Target(shape, target_rows or rows)
    return target, Batch(new=rows * 9 // 100, step=max(1, target.rows * UPDATED_DAYS * 100 // (DAYS * rows)))


def cases(workload: str, rows: int) -> dict[str, Case]:
    """The cases of a workload of MERGING by their label; `rows` is the size of the usual target."""
    if workload == "scatter":
        return {"load": Case(Target("orders", rows), Batch(new=0, step=1000, all_days=True))}
    if workload == "scatter-late":
        return {"load": Case(Target("orders", rows), Batch(new=0, step=1000, all_days=True, late=True))}
    if workload == "wide":
        return {"load": Case(Target("wide", rows // 50), Batch(new=0, step=1))}
    if workload == "composite":
        target, batch = daily(rows, shape="keyed")
        return {"one integer": Case(target, batch), "two strings": Case(target, batch, key=TEXT_KEY)}
    if workload == "memory":
        return {"load": Case(*daily(rows * 10), memory="3GB" if rows >= FULL_ROWS else "512MB")}
    if workload in ("growth", "growth-random"):
        keys, shape = ("keys in time order", "orders") if workload == "growth" else ("random keys", "random")
        sizes = (rows // 10, rows, rows * 10)
        return {f"{size:,} rows, {keys}": Case(*daily(rows, size, shape=shape)) for size in sizes}
    return {"load": Case(*daily(rows))}


def needed(workloads: tuple[str, ...]) -> tuple[str, ...]:
    """The workloads asked for and those that they are compared with, in the order of WORKLOADS."""
    also = {"daily"} if {"memory", "rerun-full", "rerun-incremental"} & set(workloads) else set()
    return tuple(name for name in WORKLOADS if name in {*workloads, *also})


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where the generator puts what it made for a case, below one folder."""

    root: Path

    @property
    def batch(self) -> Path:
        """The file to load."""
        return self.root / "batch.csv"

    @property
    def clean(self) -> Path:
        """The good rows of the file, the newest of each key: what the peers get."""
        return self.root / "clean.csv"

    @property
    def changes(self) -> Path:
        """Rows that the load writes: the target's columns, `_source_line`."""
        return self.root / "changes.parquet"

    @property
    def rejects(self) -> Path:
        """Every row of the file that must be refused: `line_number`, `column_name`, `raw`."""
        return self.root / "rejects.parquet"

    @property
    def counts(self) -> Path:
        """Expected row counts of the timed batch, by the names of the receipt, and rows and sum of the results."""
        return self.root / "counts.json"


def first_days() -> tuple[date, ...]:
    """The days that are in the target before the timed load."""
    return tuple(FIRST_DAY + timedelta(days=n) for n in range(DAYS))


def updated_days(batch: Batch) -> tuple[date, ...]:
    """The days whose rows the batch updates."""
    return first_days() if batch.all_days else first_days()[-UPDATED_DAYS:]


def landing_key(target: Target, day: date) -> str:
    """The object of one landing date in the landing bucket."""
    return f"{target.prefix}landing_date={day:%Y-%m-%d}/orders.csv"


def landing_uri(target: Target, day: date) -> str:
    """The URI of the same."""
    return f"s3://{BUCKET}/{landing_key(target, day)}"


def clean_key(case: Case) -> str:
    """The peers' file in the landing bucket, outside of every folder that our own loads list."""
    return f"bench-peers/{case.data}/clean.csv"
