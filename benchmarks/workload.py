"""Names, sizes and paths that the parts of the benchmark share. Owns no data and does no work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

FIRST_DAY = date(2026, 8, 1)
DAYS = 30
NEW_DAY = FIRST_DAY + timedelta(days=DAYS)
NAMESPACE = "bench"
BUCKET = "landing"
COLUMNS = {
    "order_id": "BIGINT",
    "customer_id": "VARCHAR",
    "amount": "DECIMAL(12,2)",
    "status": "VARCHAR",
    "order_time": "TIMESTAMP WITH TIME ZONE",
    "input_date": "DATE",
    "note": "VARCHAR",
}
"""The columns of the table and of every file, in order, with their types in DuckDB."""

WORKLOADS = ("daily", "scatter")
DEFAULT_ROWS = 2_000_000
FULL_ROWS = 10_000_000
_REQUIRED = {"daily": ((FULL_ROWS, 50.0), (DEFAULT_ROWS, 20.0))}


@dataclass(frozen=True, slots=True)
class Workload:
    """One piece of work: `name` of WORKLOADS on a target of `rows` rows."""

    name: str
    rows: int

    @property
    def title(self) -> str:
        return f"{self.name}-{self.rows}"

    @property
    def required_ratio(self) -> float | None:
        """How many times faster than PyIceberg the load must be; None where nothing is promised."""
        return next((ratio for rows, ratio in _REQUIRED.get(self.name, ()) if self.rows >= rows), None)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where the generator puts what it made, below one folder."""

    root: Path

    @property
    def target(self) -> Path:
        """Rows of the first 30 days as landed: COLUMNS, `_source_date`, `_source_line`."""
        return self.root / "target.parquet"

    @property
    def expected(self) -> Path:
        """Every row after the load: COLUMNS, `_source_date`, `_source_line`, `written` (by the timed batch or not)."""
        return self.root / "expected.parquet"

    @property
    def expected_upsert(self) -> Path:
        """Every row after an upsert without an order guard, where the file's row always wins: COLUMNS."""
        return self.root / "expected_upsert.parquet"

    @property
    def rejects(self) -> Path:
        """Every row of the file that must be refused: `line_number`, `column_name`, `raw`."""
        return self.root / "rejects.parquet"

    @property
    def counts(self) -> Path:
        """Expected row counts of the timed batch, by the names of the receipt, and rows and sum of the results."""
        return self.root / "counts.json"

    def landed(self, day: date) -> Path:
        """The CSV file of one landing date."""
        return self.root / "landing" / f"landing_date={day:%Y-%m-%d}" / "orders.csv"


def first_days() -> tuple[date, ...]:
    """The days that are in the target before the timed load."""
    return tuple(FIRST_DAY + timedelta(days=n) for n in range(DAYS))


def landing_prefix(workload: Workload) -> str:
    """The folder of a workload's files in the landing bucket; it ends with a slash."""
    return f"bench/{workload.title}/"


def landing_uri(workload: Workload, day: date) -> str:
    """The URI of the file of one landing date."""
    return f"s3://{BUCKET}/{landing_prefix(workload)}landing_date={day:%Y-%m-%d}/orders.csv"
