"""A small declaration as YAML text, for tests that change a field of it."""

from __future__ import annotations

BASE = {
    "table": "analytics.orders",
    "source": "{uri: s3://landing/orders, partition: input_date=%Y-%m-%d, format: {type: csv}}",
    "columns": "{id: bigint, n: double, t: timestamptz, day: {type: date, from_path: date}}",
    "key": "[id]",
    "order_by": "[t]",
    "start_date": "2026-08-30",
}


def document(**fields: str | None) -> str:
    """A document: BASE with fields replaced, added, or left out where None."""
    lines = [f"  {name}: {value}" for name, value in {**BASE, **fields}.items() if value is not None]
    return "\n".join(["type: lakehouse.components.IcebergTable", "attributes:", *lines, ""])
