"""The merge on a real Iceberg table (SQL catalog, local files): winners, order guard, unchanged rows, files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lakehouse.errors import TargetDamaged
from tests.merge_bench import Bench, Row, declare


def at(minute: int) -> datetime:
    return datetime(2026, 8, 30, 10, minute, tzinfo=UTC)


def row(line: int, key: int, value: float | None, minute: int | None, **more: Any) -> Row:
    values = {"id": key, "n": value, "t": at(minute) if minute is not None else None, "day": date(2026, 8, 30)}
    return Row(values, line, **more)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(declare(), tmp_path)


def content(bench: Bench) -> dict[int, float]:
    rows = bench.rows()
    assert len(rows) == len({r["id"] for r in rows}) == bench.live()
    return {r["id"]: r["n"] for r in rows}


def test_inserts_updates_and_leaves_unchanged_rows_alone(bench: Bench) -> None:
    bench.merge([row(1, 1, 1.0, 0), row(2, 2, 2.0, 0)])
    second = bench.merge([row(1, 1, 9.0, 5), row(2, 2, 2.0, 0), row(3, 3, 3.0, 0)])
    counts = second.match.counts
    assert (counts.inserted, counts.updated, counts.unchanged, counts.stale) == (1, 1, 1, 0)
    assert content(bench) == {1: 9.0, 2: 2.0, 3: 3.0}


def test_the_newest_row_of_a_batch_wins_and_the_others_are_superseded(bench: Bench) -> None:
    """V01: overlapping exports put one key twice into a batch."""
    merged = bench.merge([row(1, 1, 2.0, 2), row(2, 1, 1.0, 1), row(3, 2, 7.0, 1)])
    assert merged.superseded.rows == 1
    assert content(bench) == {1: 2.0, 2: 7.0}


def test_an_older_row_never_replaces_a_newer_one(bench: Bench) -> None:
    """M03: a late or backfilled older version of a row."""
    bench.merge([row(1, 1, 9.0, 9)])
    merged = bench.merge([row(1, 1, 2.0, 2)])
    assert merged.match.counts.stale == 1
    assert merged.written.added == ()
    assert content(bench) == {1: 9.0}


def test_a_null_order_value_is_oldest(bench: Bench) -> None:
    bench.merge([row(1, 1, 1.0, None), row(2, 2, 2.0, 3)])
    merged = bench.merge([row(1, 1, 5.0, 0), row(2, 2, 6.0, None)])
    assert (merged.match.counts.updated, merged.match.counts.stale) == (1, 1)
    assert content(bench) == {1: 5.0, 2: 2.0}


@pytest.mark.parametrize(("uri", "wins"), [("s3://landing/orders/z.csv", True), ("s3://landing/orders/0.csv", False)])
def test_ties_go_to_the_later_object(bench: Bench, uri: str, wins: bool) -> None:
    bench.merge([row(1, 1, 1.0, 0)])
    bench.merge([row(1, 1, 5.0, 0, uri=uri)])
    assert content(bench) == {1: 5.0 if wins else 1.0}


def test_without_lineage_the_target_wins_ties(tmp_path: Path) -> None:
    bench = Bench(declare(lineage="false"), tmp_path)
    bench.merge([row(1, 1, 1.0, 0)])
    bench.merge([row(1, 1, 5.0, 0, uri="s3://landing/orders/z.csv")])
    assert content(bench) == {1: 1.0}
    assert set(bench.rows()[0]) == {"id", "n", "t", "day"}


def test_a_batch_of_unchanged_rows_writes_no_data_file_and_one_empty_snapshot(bench: Bench) -> None:
    """Invariant 7; V04 for NaN."""
    batch = [row(1, 1, float("nan"), 0), row(2, 2, None, 0)]
    bench.merge(batch)
    before = len(bench.catalog.load_table("analytics.orders").metadata.snapshots)
    again = bench.merge(batch)
    table = bench.catalog.load_table("analytics.orders")
    assert again.match.counts.unchanged == 2
    assert (again.written.added, again.written.removed) == ((), frozenset())
    assert len(table.metadata.snapshots) == before + 1
    assert table.current_snapshot().snapshot_id == again.snapshot_id  # type: ignore[union-attr]


def test_one_batch_is_one_snapshot_and_earlier_ones_stay_readable(bench: Bench) -> None:
    """M08: no middle snapshot without some of the rows."""
    first = bench.merge([row(1, 1, 1.0, 0), row(2, 2, 2.0, 0)])
    bench.merge([row(1, 1, 9.0, 5), row(3, 3, 3.0, 0)])
    table = bench.catalog.load_table("analytics.orders")
    assert len(table.metadata.snapshots) == 2
    assert sorted(r["n"] for r in bench.rows(first.snapshot_id)) == [1.0, 2.0]


def test_a_composite_key_and_every_type(tmp_path: Path) -> None:
    columns = (
        "{a: string, b: date, x: 'decimal(12,2)', u: uuid, i: int, l: bigint, r: real, d: double, ok: boolean, "
        "clock: time, naive: timestamp, t: timestamptz, raw: binary}"
    )
    bench = Bench(declare(columns=columns, key="[a, b]", partition_by="['month(t)']"), tmp_path)
    values = {
        "a": "é'\"; drop",
        "b": date(2026, 1, 2),
        "x": Decimal("10.10"),
        "u": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        "i": -(2**31),
        "l": 2**63 - 1,
        "r": 0.5,
        "d": -0.0,
        "ok": True,
        "clock": datetime(2026, 1, 1, 23, 59, 59, 999999).time(),  # noqa: DTZ001 - a zone-less value on purpose
        "naive": datetime(1969, 12, 31, 23, 59, 59, 1),  # noqa: DTZ001
        "t": datetime(1969, 11, 30, tzinfo=UTC),
        "raw": b"\x00\xff",
    }
    bench.merge([Row(values, 1)])
    merged = bench.merge([Row(values, 1), Row({**values, "a": "other"}, 2)])
    assert (merged.match.counts.unchanged, merged.match.counts.inserted) == (1, 1)
    read = {k: v for k, v in next(r for r in bench.rows() if r["a"] == values["a"]).items() if not k.startswith("_")}
    assert read == {**values, "u": UUID(str(values["u"]))}


def test_rows_stay_in_their_partition_and_move_when_it_changes(tmp_path: Path) -> None:
    columns = "{id: bigint, n: double, t: timestamptz, day: date}"
    bench = Bench(declare(columns=columns, partition_by="[day, 'truncate(10, id)']"), tmp_path)
    one, two = date(2026, 8, 30), date(2026, 8, 31)
    bench.merge([Row({"id": i, "n": 1.0, "t": at(0), "day": one}, i) for i in range(20)])
    bench.merge([Row({"id": 3, "n": 2.0, "t": at(1), "day": two}, 1)])
    table = bench.catalog.load_table("analytics.orders")
    files = [
        e.data_file for m in table.current_snapshot().manifests(table.io) for e in m.fetch_manifest_entry(table.io)
    ]  # type: ignore[union-attr]
    assert sorted((f.partition[1], f.record_count) for f in files) == [(0, 1), (0, 9), (10, 10)]
    assert {r["day"] for r in bench.rows() if r["id"] == 3} == {two}
    filtered = table.scan(row_filter="day = '2026-08-31'").to_arrow()
    assert filtered.num_rows == 1


def test_a_file_whose_last_row_moves_away_leaves_no_empty_file(tmp_path: Path) -> None:
    bench = Bench(declare(columns="{id: bigint, n: double, t: timestamptz, day: date}", partition_by="[day]"), tmp_path)
    for number in range(3):
        values = {"id": 1, "n": float(number), "t": at(number), "day": date(2026, 8, 30 - number)}
        merged = bench.merge([Row(values, 1)])
        assert [f.record_count for f in merged.written.added] == [1]
    files = bench.catalog.load_table("analytics.orders").inspect.files().to_pylist()
    assert [f["record_count"] for f in files] == [1]


def test_files_of_an_older_partition_spec_are_rewritten_under_the_present_one(tmp_path: Path) -> None:
    bench = Bench(declare(partition_by="['truncate(10, id)']"), tmp_path)
    bench.merge([row(i, i, 1.0, 0) for i in range(12)])
    with bench.catalog.load_table("analytics.orders").update_spec() as change:
        change.add_field("t", "month", "t_month")
    later = {"id": 3, "n": 2.0, "t": datetime(2026, 9, 1, tzinfo=UTC), "day": date(2026, 9, 1)}
    bench.merge([Row(later, 1), row(2, 99, 9.0, 0)])
    assert content(bench) == {i: 1.0 for i in range(12) if i != 3} | {3: 2.0, 99: 9.0}
    table = bench.catalog.load_table("analytics.orders")
    found = {
        (f["spec_id"], tuple(f["partition"].values()), f["record_count"]) for f in table.inspect.files().to_pylist()
    }
    assert {(spec, count) for spec, _, count in found} == {(1, 9), (0, 2), (1, 1)}
    for key in range(12):
        assert table.scan(row_filter=f"id = {key}").to_arrow().num_rows == 1


@pytest.mark.parametrize("names", [("filename", "file_row_number"), ("FILENAME", "File_Row_Number")])
def test_columns_called_like_those_that_the_engine_adds(tmp_path: Path, names: tuple[str, str]) -> None:
    text, number = names
    columns = f"{{id: bigint, {text}: string, {number}: int, t: timestamptz}}"
    bench = Bench(declare(columns=columns, partition_by="[]"), tmp_path)

    def rows(minute: int, *ids: int) -> list[Row]:
        return [Row({"id": i, text: f"f{i}-{minute}", number: minute, "t": at(minute)}, line=i) for i in ids]

    bench.merge(rows(0, 1, 2, 3))
    assert bench.merge(rows(1, 2, 4)).match.counts.updated == 1
    found = {row["id"]: (row[text], row[number]) for row in bench.rows()}
    assert found == {1: ("f1-0", 0), 2: ("f2-1", 1), 3: ("f3-0", 0), 4: ("f4-1", 1)}


def test_a_doubled_key_in_the_target_is_named(bench: Bench) -> None:
    """M07: somebody else appended a key that was there."""
    bench.merge([row(1, 1, 1.0, 0)])
    table = bench.catalog.load_table("analytics.orders")
    table.append(table.scan().to_arrow())
    with pytest.raises(TargetDamaged, match="id=1"):
        bench.merge([row(1, 1, 2.0, 5)])


def test_a_live_null_key_is_named(bench: Bench) -> None:
    bench.merge([row(1, 1, 1.0, 0)])
    table = bench.catalog.load_table("analytics.orders")
    rows = table.scan().to_arrow()
    nulls = rows.set_column(0, rows.schema.field("id"), pa.array([None], pa.int64()))
    table.append(nulls)
    with pytest.raises(TargetDamaged, match="NULL key: column=id rows=1"):
        bench.merge([row(1, 2, 2.0, 5)])


def test_conflicting_duplicates_are_counted_by_key_and_order_value(bench: Bench) -> None:
    same = bench.merge([row(1, 1, 1.0, 0), row(2, 1, 1.0, 0)])
    assert (same.superseded.rows, same.superseded.conflicting) == (1, 0)
    other = bench.merge([row(1, 1, 1.0, 1), row(2, 1, 2.0, 1), row(3, 2, 2.0, 1), row(4, 2, 2.0, 3)])
    assert (other.superseded.rows, other.superseded.conflicting) == (2, 1)


def test_a_column_added_by_another_engine_keeps_older_files_readable(bench: Bench) -> None:
    """M06: columns are found by field id; files from before have NULL there."""
    bench.merge([row(1, 1, 1.0, 0), row(2, 2, 2.0, 0)])
    table = bench.catalog.load_table("analytics.orders")
    with table.update_schema() as change:
        change.rename_column("n", "amount")
        change.add_column("extra", table.schema().find_type("id"))
    columns = "{id: bigint, amount: double, t: timestamptz, day: {type: date, from_path: date}, extra: bigint}"
    bench.declaration = declare(columns=columns)
    bench.merge([Row({"id": 1, "amount": 5.0, "t": at(3), "day": date(2026, 8, 30), "extra": 7}, 1)])
    assert {r["id"]: (r["amount"], r["extra"]) for r in bench.rows()} == {1: (5.0, 7), 2: (2.0, None)}


KEYS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-5, 7),
    "bigint": (-(2**62), 2**62),
    "'decimal(20,4)'": (Decimal("-1.5000"), Decimal("12345678901234.0001")),
    "date": (date(1960, 2, 29), date(2026, 1, 1)),
    "time": (datetime(2026, 1, 1, 0, 0, 1).time(), datetime(2026, 1, 1, 23, 59).time()),  # noqa: DTZ001
    "timestamp": (datetime(1969, 1, 1), datetime(2026, 1, 1, 1, 1, 1, 1)),  # noqa: DTZ001
    "timestamptz": (at(0), at(1)),
    "string": ("", "a much longer text than sixteen characters, é and 日本"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"),
    "binary": (b"", b"\xff" * 20),
}


@pytest.mark.parametrize("kind", KEYS)
def test_every_key_type_is_found_again(tmp_path: Path, kind: str) -> None:
    """The bounds in the manifests must never prune a file that holds the key."""
    bench = Bench(declare(columns=f"{{id: {kind}, n: double, t: timestamptz}}"), tmp_path)
    batch = [Row({"id": key, "n": 1.0, "t": at(0)}, line) for line, key in enumerate(KEYS[kind])]
    bench.merge(batch)
    assert bench.merge(batch).match.counts.unchanged == 2
    for key in KEYS[kind]:
        assert bench.merge([Row({"id": key, "n": 2.0, "t": at(5)}, 9)]).match.counts.updated == 1
    assert [r["n"] for r in bench.rows()] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("year(t)", at(0), 56),
        ("month(t)", at(0), 56 * 12 + 7),
        ("day(t)", at(0), date(2026, 8, 30)),
        ("hour(t)", datetime(1969, 12, 31, 23, 30, tzinfo=UTC), -1),
        ("year(t)", datetime(1969, 12, 31, 23, 30, tzinfo=UTC), -1),
        ("month(t)", datetime(1969, 12, 31, 23, 30, tzinfo=UTC), -1),
        ("day(t)", datetime(1969, 12, 31, 23, 30, tzinfo=UTC), date(1969, 12, 31)),
    ],
)
def test_partition_values_are_iceberg_s(tmp_path: Path, field: str, value: datetime, stored: Any) -> None:
    bench = Bench(declare(partition_by=f"['{field}']"), tmp_path)
    bench.merge([Row({"id": 1, "n": 1.0, "t": value, "day": date(2026, 8, 30)}, 1)])
    table = bench.catalog.load_table("analytics.orders")
    (partition,) = table.inspect.partitions().to_pylist()
    assert list(partition["partition"].values()) == [stored]
    shown = table.scan(row_filter=f"t >= '{value.isoformat()}'").to_arrow()
    assert shown.num_rows == 1


@pytest.mark.parametrize(("width", "value", "stored"), [(10, 23, 20), (10, -1, -10), (10, -10, -10)])
def test_truncated_integers_round_down(tmp_path: Path, width: int, value: int, stored: int) -> None:
    bench = Bench(declare(partition_by=f"['truncate({width}, id)']"), tmp_path)
    bench.merge([row(1, value, 1.0, 0)])
    (partition,) = bench.catalog.load_table("analytics.orders").inspect.partitions().to_pylist()
    assert list(partition["partition"].values()) == [stored]
