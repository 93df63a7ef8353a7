"""A table that several sources fill, on the real stack."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tests.lake import Lake

DECLARATION = """\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  sources:
{sources}
  columns:
    order_id: {{type: bigint, required: true}}
    customer_id: string
    amount: "decimal(12,2)"
    order_time: timestamptz
    input_date: {{type: date, from_path: date}}
  key: [order_id]
  order_by: [order_time]
  partition_by: [input_date]
  start_date: 2026-08-30
  gates: {{{gates}}}
  {more}
"""
SOURCE = """\
    - uri: s3://{bucket}/{prefix}/{name}/
      partition: input_date=%Y-%m-%d
      files: "*.csv"
      format: {{type: csv}}
      bookmark: {name}
"""


@dataclass
class ManyLake(Lake):
    """As a Lake, with sources of these names; each lands in a folder of its name below the prefix. The sources in
    `broken` are declared in a bucket that does not exist."""

    sources: tuple[str, ...] = ("eu", "us")
    broken: tuple[str, ...] = ()

    def declaration_text(self) -> str:
        sources = "".join(
            SOURCE.format(bucket="nowhere" if name in self.broken else "landing", prefix=self.name, name=name)
            for name in self.sources
        )
        return DECLARATION.format(table=self.table, sources=sources.rstrip(), gates=self.gates, more=self.more)

    def land(self, source: str, day: date, name: str, data: bytes) -> str:
        """Land a file of one source; returns its URI."""
        key = f"{self.name}/{source}/input_date={day}/{name}"
        self.stack.s3.put_object(Bucket="landing", Key=key, Body=data)
        return f"s3://landing/{key}"

    def declare(self, *sources: str, broken: tuple[str, ...] = ()) -> None:
        self.sources, self.broken = sources, broken
        self.write_declaration()
