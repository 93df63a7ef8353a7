"""Data files are in the order of the key, also where several threads write several row groups of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.declaration import Declaration
from tests.local_lake import LocalLake, declare_text

ROWS = 500_000
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def declared(properties: str) -> Declaration:
    return declare_text(
        f"""\
type: lakehouse.components.IcebergTable
attributes:
  table: analytics.orders
  source: {{uri: "s3://landing/orders/", files: "*.parquet", format: {{type: parquet}}}}
  columns:
    id: {{type: bigint, required: true}}
    n: bigint
  key: [id]
  order_by: [n]
  start_date: 2026-01-01
  table_properties: {properties}
"""
    )


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LocalLake]:
    lake = LocalLake(tmp_path, with_ledger=False)
    yield lake
    lake.close()


def land(lake: LocalLake, key: str, ids: pa.Array) -> None:
    path = lake.folder / "landing" / "orders" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ids, "n": ids}, schema=SCHEMA), path)


@pytest.mark.parametrize(
    ("properties", "several", "ascending"),
    [("{}", False, True), ('{write.target-file-size-bytes: "1000000"}', True, False)],
)
def test_every_file_ascends(lake: LocalLake, properties: str, several: bool, ascending: bool) -> None:
    ids = pa.array(range(ROWS) if ascending else range(ROWS - 1, -1, -1), pa.int64())
    land(lake, "a.parquet", ids)
    declaration = declared(properties)
    assert lake.load(declaration).rows.inserted == ROWS
    files = [task.file for task in lake.table().scan().plan_files()]
    assert (len(files) > 1) is several
    found = [pq.read_table(file.file_path.removeprefix("file://"), columns=["id"]).column("id") for file in files]
    for column in found:
        assert pc.all(pc.less(column.slice(0, len(column) - 1), column.slice(1))).as_py()
    assert sorted(pa.chunked_array([c for column in found for c in column.chunks]).to_pylist()) == list(range(ROWS))
    assert lake.differences(declaration) == []
