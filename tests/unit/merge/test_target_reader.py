"""Target files are read right where statistics spare a column, in every chunk, and written in the order of the key."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from lakehouse.errors import TargetDamaged
from lakehouse.iceberg import live_files
from lakehouse.merge import target_files
from lakehouse.merge.statistics import Bounds
from lakehouse.merge.target_files import Chunk, TargetFile, TargetReader

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "few", IntegerType()),
    NestedField(5, "text", StringType()),
)
ARROW = pa.schema(
    [("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("few", pa.int32()), ("text", "str")]
)
COLUMNS = ["text", "few", "at", "day", "id"]
EARLY = datetime(1900, 1, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", SCHEMA, properties={"write.parquet.row-group-limit": "4"})


def fill(table: Table, **values: Any) -> list[TargetFile]:
    columns = [pa.array(values.get(field.name, [None] * 10), field.type) for field in ARROW]
    table.append(pa.Table.from_arrays(columns, schema=ARROW))
    return [TargetFile(n, e.data_file) for n, e in enumerate(live_files(table, table.current_snapshot()).data)]


def rows(batches: Any) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(batches)).sort_by([("__file", "ascending"), ("__pos", "ascending")]).to_pylist()


@pytest.mark.parametrize("at_once", [1, 5, 1 << 18])
def test_constants_of_a_chunk_nulls_and_changes_come_out_as_stored(
    table: Table, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_files, "ROWS_AT_ONCE", at_once)
    stored: dict[str, list[Any]] = {
        "id": list(range(-5, 5)),
        "day": [date(1960, 2, 3)] * 10,
        "at": [EARLY] * 4 + [None] * 4 + [EARLY] * 2,
        "few": [7] * 4 + [7, 7, 7, 8] + [8, None],
        "text": [*"abcdefghij"],
    }
    files = fill(table, **stored)
    assert pq.ParquetFile(files[0].path.removeprefix("file://")).metadata.num_row_groups == 3
    found = rows(TargetReader(table).scan(files, COLUMNS))
    assert [(row["__file"], row["__pos"]) for row in found] == [(0, pos) for pos in range(10)]
    assert {name: [row[name] for row in found] for name in stored} == stored


def test_a_constant_column_is_not_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    files = fill(table, id=list(range(10)), day=[date(2026, 1, 1)] * 10, few=[3] * 10)
    reader, asked = TargetReader(table), []
    read = reader._read_groups
    monkeypatch.setattr(reader, "_read_groups", lambda chunk, columns: asked.append(columns) or read(chunk, columns))
    found = rows(reader.scan(files, ["id", "day", "few"]))
    assert asked == [["id"]]
    assert {(row["day"], row["few"]) for row in found} == {(date(2026, 1, 1), 3)}


class Odd:
    columns = ("day", "id")

    by = ""
    spared = ()

    def rows(self, chunk: Chunk, table: pa.Table) -> Any:
        assert table.column_names == ["text", "id", "day"]
        return pa.array([n for n, key in enumerate(table.column("id").to_pylist()) if key % 2], pa.int64())

    def settled(self, table: pa.Table, bounds: Bounds) -> bool:
        raise AssertionError("nothing is spared")


class Sparing(Odd):
    """Spares `few` and `text` where `few` is no more than 5."""

    by = "few"
    spared = ("text", "few")

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], int, int, bool]] = []

    def rows(self, chunk: Chunk, table: pa.Table) -> Any:
        return super().rows(chunk, table.append_column("text", table.column("id")).select(["text", "id", "day"]))

    def settled(self, table: pa.Table, bounds: Bounds) -> bool:
        low, high = bounds.low.as_py(), bounds.high.as_py()
        self.asked.append((table.column("id").to_pylist(), low, high, bounds.nulls))
        return high <= 5


def test_columns_are_spared_where_the_bounds_settle_the_rows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "ROWS_AT_ONCE", 4)
    files = fill(table, id=list(range(10)), few=[1, 2, 5, 4, 6, None, 7, 8, None, None], text=[*"abcdefghij"])
    look = Sparing()
    found = rows(TargetReader(table).scan(files, ["text", "id", "day", "few"], look))
    assert sorted(look.asked) == [([1, 3], 1, 5, False), ([5, 7], 6, 8, True)]  # no bounds of NULLs alone
    told = [(1, 5, None), (3, 5, None), (5, None, "f"), (7, 8, "h"), (9, None, "j")]
    assert [(row["id"], row["few"], row["text"]) for row in found] == told


def test_a_look_sees_constants_and_says_which_rows_come(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "ROWS_AT_ONCE", 4)
    files = fill(table, id=list(range(10)), day=[date(2026, 1, 1)] * 10, text=[*"abcdefghij"])
    found = rows(TargetReader(table).scan(files, ["text", "id", "day"], Odd()))
    assert [(r["__pos"], r["text"], r["id"]) for r in found] == [(n, "abcdefghij"[n], n) for n in (1, 3, 5, 7, 9)]


def test_no_more_than_the_bound_is_under_way_but_one_always_is(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(target_files, "BYTES_AHEAD", 1)
    files = fill(table, id=list(range(10)))
    assert [row["id"] for row in rows(TargetReader(table).scan(files, ["id"]))] == list(range(10))


def test_more_files_than_stay_open(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "OPENED_KEPT", 2)
    for start in range(0, 50, 10):
        files = fill(table, id=list(range(start, start + 10)))
    reader = TargetReader(table)
    for _ in range(2):
        assert sorted(row["id"] for row in rows(reader.scan(files, ["id"]))) == list(range(50))


def test_a_file_without_field_ids_that_lacks_a_column(table: Table) -> None:
    (target,) = fill(table, id=list(range(10)))
    path = Path(target.path.removeprefix("file://"))
    pq.write_table(pa.table({"few": pa.array([3] * 10, pa.int32()), "id": pa.array(range(10), pa.int64())}), path)
    found = rows(TargetReader(table).scan([target], ["id", "few", "day"]))
    assert [(row["id"], row["few"], row["day"]) for row in found] == [(n, 3, None) for n in range(10)]


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.9])
def test_a_damaged_file_is_named(table: Table, kept: float) -> None:
    (target,) = fill(table, id=list(range(10)))
    path = Path(target.path.removeprefix("file://"))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(TargetDamaged, match=path.name):
        rows(TargetReader(table).scan([target], ["id"]))


def test_files_are_opened_once_ahead_or_when_they_are_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in (0, 10):
        good, bad = fill(table, id=list(range(start, start + 10)))[:1], fill(table, id=[7] * 10)[:1]
    reader, opened = TargetReader(table), []
    fragment = reader._fragment
    monkeypatch.setattr(reader, "_fragment", lambda target: opened.append(target.path) or fragment(target))
    damaged = Path(bad[0].path.removeprefix("file://"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    reader.open_ahead(good + bad)
    assert sorted(opened) == sorted([good[0].path, bad[0].path])
    assert sorted(row["id"] for row in rows(reader.scan(good, ["id"]))) == list(range(10, 20))
    assert opened.count(good[0].path) == 1
    with pytest.raises(TargetDamaged):
        rows(reader.scan(bad, ["id"]))
