"""How much is listed and how much was seen before, by the size of the benchmark. Does no work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from benchmarks.workload import BUCKET, NAMESPACE

LISTING, PAGINATOR = "bare listing", "bare listing, boto3's paginator"
PLAN, LARGE, TICK = "plan", "plan, ten times as many seen", "sensor tick, unchanged"
PREFIX = "bench/discovery/"
FIRST_LISTED = date(2026, 7, 1)
DATES = 50
MANIFESTS = 50
"""Batches since the last checkpoint."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """`rows` is the size of the benchmark: at full size 50,000 objects are listed, 1 M or 10 M were seen and 1,000,
    those of the newest date, were not."""

    rows: int

    @property
    def per_date(self) -> int:
        return max(4, self.rows // 10_000)

    @property
    def listed(self) -> int:
        return self.per_date * DATES

    @property
    def seen(self) -> int:
        return self.rows // 10

    @property
    def many(self) -> int:
        return self.rows

    def table(self, seen: int) -> str:
        return f"{NAMESPACE}.seen_{seen}"

    def key(self, number: int) -> str:
        """The object of that number; those below 0 are not listed any more."""
        day = FIRST_LISTED + timedelta(days=number // self.per_date)
        return f"{PREFIX}landing_date={day}/orders_{number % self.per_date:06}.csv"


def declaration_text(table: str) -> str:
    return f"""\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://{BUCKET}/{PREFIX}
    partition: landing_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}
  columns:
    order_id: {{type: bigint, required: true}}
    order_time: timestamptz
  key: [order_id]
  order_by: [order_time]
  start_date: 1990-01-01
"""
