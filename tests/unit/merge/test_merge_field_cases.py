"""Field cases of large merges, on a real Iceberg table without any server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.model import Mode, State
from tests.local_lake import LocalLake, declare_text

START = datetime(2024, 1, 1, tzinfo=UTC)
TEXT = """\
type: lakehouse.components.IcebergTable
attributes:
  table: analytics.orders
  source: {{uri: s3://landing/orders, format: {{type: parquet}}}}
  columns: {{{columns}}}
  key: {key}
  order_by: [version]
  start_date: 2024-01-01
  table_properties: {{{properties}}}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LocalLake]:
    lake = LocalLake(tmp_path, with_ledger=False)
    yield lake
    lake.close()


def test_a_composite_key_of_tens_of_thousands_of_values(lake: LocalLake) -> None:
    """M09: PyIceberg's own upsert builds one expression per key and kills the process."""
    declaration = declare_text(
        TEXT.format(
            columns="shop: string, number: bigint, version: int",
            key="[shop, number]",
            properties="write.merge.mode: merge-on-read",
        )
    )
    schema = pa.schema([("shop", pa.string()), ("number", pa.int64()), ("version", pa.int32())])
    keys = [{"shop": f"s{n % 7}", "number": n} for n in range(60_000)]
    lake.put("a.parquet", [{**key, "version": 0} for key in keys], schema, mtime=START)
    assert lake.load(declaration).rows.inserted == 60_000
    lake.put("b.parquet", [{**key, "version": 1} for key in keys[::2]], schema, mtime=START)
    receipt = lake.load(declaration)
    assert (receipt.rows.updated, receipt.rows.inserted, receipt.files.delete_files) == (30_000, 0, 1)
    found = lake.table().scan().to_arrow()
    assert found.num_rows == 60_000
    assert len({(r["shop"], r["number"]) for r in found.to_pylist()}) == 60_000
    assert sum(found["version"].to_pylist()) == 30_000


def test_wide_unchanged_rows_write_nothing(lake: LocalLake) -> None:
    """M10: 20,000 rows of 50 columns that are all as they were."""
    names = [f"c{n}" for n in range(48)]
    columns = ", ".join(["id: bigint", "version: int", *(f"{name}: string" for name in names)])
    declaration = declare_text(TEXT.format(columns=columns, key="[id]", properties=""))
    schema = pa.schema([("id", pa.int64()), ("version", pa.int32()), *((name, pa.string()) for name in names)])
    rows = [{"id": n, "version": 0, **{name: f"{name}-{n}" for name in names}} for n in range(20_000)]
    lake.put("a.parquet", rows, schema, mtime=START)
    assert lake.load(declaration).rows.inserted == 20_000
    again = lake.load(declaration, mode=Mode.FULL)
    assert (again.state, again.rows.unchanged) == (State.COMMITTED, 20_000)
    assert (again.files.added, again.files.rewritten, again.files.delete_files) == (0, 0, 0)
    # one round of all steps, with room for a slow machine: PyIceberg's upsert takes minutes for these rows
    assert again.seconds["total"] < 20


def test_one_batch_is_one_snapshot_with_its_properties_once(lake: LocalLake) -> None:
    """M08 and M18: updates, inserts and position deletes are one snapshot, and only it carries the batch."""
    declaration = declare_text(
        TEXT.format(columns="id: bigint, version: int", key="[id]", properties="write.merge.mode: merge-on-read")
    )
    schema = pa.schema([("id", pa.int64()), ("version", pa.int32())])
    lake.put("a.parquet", [{"id": n, "version": 0} for n in range(10)], schema, mtime=START)
    lake.load(declaration)
    lake.put("b.parquet", [{"id": n, "version": 1} for n in (3, 12)], schema, mtime=START)
    receipt = lake.load(declaration)
    batch = receipt.batches[-1].batch_id
    table = lake.table()
    carrying = [s for s in table.metadata.snapshots if s.summary and s.summary["lakehouse.batch-id"] == batch]
    assert [s.snapshot_id for s in carrying] == [receipt.snapshot_id]
    assert len(table.metadata.snapshots) == 2
    for snapshot, rows in zip(table.metadata.snapshots, (10, 11), strict=True):
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == rows
