"""Which files a batch rewrites, drops, or leaves with position deletes, and that every reader gets the same rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from lakehouse.errors import ConfigurationError, TargetDamaged
from lakehouse.iceberg import draft_snapshot, live_files
from lakehouse.merge.policy import Fate, merge_rule
from lakehouse.schema import target_schema, target_spec
from tests.merge_bench import Bench, Row, declare

ON_READ = "{write.merge.mode: merge-on-read}"
ON_WRITE = "{write.merge.mode: copy-on-write}"
COLUMNS = "{id: bigint, n: double, t: timestamptz, day: date}"


def bench(folder: Path, **fields: str | None) -> Bench:
    return Bench(declare(columns=COLUMNS, **fields), folder)


def row(key: int, n: float = 0.0, *, minute: int = 0, day: date = date(2026, 8, 30), line: int | None = None) -> Row:
    values = {"id": key, "n": n, "t": datetime(2026, 8, 30, 10, minute, tzinfo=UTC), "day": day}
    return Row(values, key if line is None else line)


def numbers(target: Bench) -> dict[int, float]:
    rows = target.rows()
    found = {r["id"]: r["n"] for r in rows}
    assert len(found) == len(rows) == target.live()
    return found


def files(target: Bench) -> tuple[list[str], list[Any]]:
    """Paths of the live data files, and the live delete files."""
    table = target.catalog.load_table(target.declaration.table)
    live = live_files(table, table.current_snapshot())
    return [e.data_file.file_path for e in live.data], [e.data_file for e in live.deletes]


def test_few_dead_rows_become_position_deletes(tmp_path: Path) -> None:
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(k) for k in range(10)])
    before, _ = files(target)
    done = target.merge([row(3, 3.5, minute=1), row(7, 7.5, minute=1), row(11)])
    after, deletes = files(target)
    assert numbers(target) == {**dict.fromkeys(range(10), 0.0), 3: 3.5, 7: 7.5, 11: 0.0}
    assert set(before) < set(after)
    assert [d.record_count for d in deletes] == [2]
    assert done.match.counts.updated == 2 and done.written.live_change == 1
    assert [c.fate for c in done.match.changes] == [Fate.DELETE]
    summary = target.summary()
    assert (summary["added-position-deletes"], summary["total-position-deletes"]) == ("2", "2")
    assert (summary["total-records"], summary["total-delete-files"]) == ("13", "1")


def test_a_data_file_has_one_delete_file_that_takes_over_the_earlier_ones(tmp_path: Path) -> None:
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(k) for k in range(10)])
    for key in range(4):
        target.merge([row(key, key + 0.5, minute=key + 1)])
    _, deletes = files(target)
    assert sorted(d.record_count for d in deletes) == [4]
    assert numbers(target) == {k: k + 0.5 if k < 4 else 0.0 for k in range(10)}
    summary = target.summary()
    assert (summary["removed-delete-files"], summary["removed-position-deletes"]) == ("1", "3")


def test_a_deleted_row_never_matches_again(tmp_path: Path) -> None:
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(1), row(2)])
    target.merge([row(1, 1.5, minute=5)])
    done = target.merge([row(1, 1.25, minute=3)])  # newer than the dead row, older than the live one
    assert done.match.counts.stale == 1
    assert numbers(target) == {1: 1.5, 2: 0.0}


def test_copy_on_write_rewrites_and_takes_the_delete_files_along(tmp_path: Path) -> None:
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(k) for k in range(10)])
    target.merge([row(1, 1.5, minute=1)])
    table = target.catalog.load_table(target.declaration.table)
    with table.transaction() as change:
        change.set_properties({"write.merge.mode": "copy-on-write"})
    done = target.merge([row(2, 2.5, minute=1)])
    assert [c.fate for c in done.match.changes] == [Fate.REWRITE]
    _, deletes = files(target)
    assert deletes == []
    assert numbers(target) == {**dict.fromkeys(range(10), 0.0), 1: 1.5, 2: 2.5}
    assert target.summary()["total-position-deletes"] == "0"


def test_a_file_without_a_live_row_is_dropped(tmp_path: Path) -> None:
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(1), row(2)])
    first, _ = files(target)
    target.merge([row(1, 1.5, minute=1)])
    done = target.merge([row(2, 2.5, minute=1)])
    assert [c.fate for c in done.match.changes] == [Fate.DROP]
    after, deletes = files(target)
    assert not set(first) & set(after)
    assert deletes == []
    assert numbers(target) == {1: 1.5, 2: 2.5}


def test_rows_without_a_rule_of_the_table_are_decided_by_their_share(tmp_path: Path) -> None:
    properties = "{lakehouse.merge.rewrite-ratio: '0.4', lakehouse.merge.small-file-bytes: '0'}"
    target = bench(tmp_path, table_properties=properties)
    target.merge([row(k) for k in range(10)])
    fates: list[Fate] = []
    for minute, keys in enumerate(([0, 1], [2], [3, 4]), start=1):
        done = target.merge([row(k, k + 0.5, minute=minute) for k in keys])
        fates += [c.fate for c in done.match.changes if c.target.file.record_count == 10]
    assert fates == [Fate.DELETE, Fate.DELETE, Fate.REWRITE]
    assert numbers(target) == {k: k + 0.5 if k < 5 else 0.0 for k in range(10)}
    assert "40%" in str(done.match.rule)


def test_a_damaged_page_of_a_file_that_is_rewritten_names_the_file(tmp_path: Path) -> None:
    """Nothing looks at the column `n` before: the rows are newer."""
    target = bench(tmp_path, table_properties=ON_WRITE)
    target.merge([row(k, k + 0.5) for k in range(50)])
    (path,), _ = files(target)
    local = Path(path.removeprefix("file://"))
    column = pq.read_metadata(local).row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    whole = local.read_bytes()
    local.write_bytes(
        whole[:start] + b"\xff" * column.total_compressed_size + whole[start + column.total_compressed_size :]
    )
    with pytest.raises(TargetDamaged, match=local.name):
        target.merge([row(k, 9.0, minute=1) for k in range(40)])
    assert target.version == 1


def test_format_version_1_is_rewritten(tmp_path: Path) -> None:
    target = bench(tmp_path)
    target.catalog.drop_table(target.declaration.table)
    schema = target_schema(target.declaration)
    target.catalog.create_table(
        target.declaration.table,
        schema=schema,
        partition_spec=target_spec(target.declaration, schema),
        properties={"format-version": "1", "write.merge.mode": "merge-on-read"},
    )
    target.merge([row(k) for k in range(5)])
    done = target.merge([row(1, 1.5, minute=1)])
    assert [c.fate for c in done.match.changes] == [Fate.REWRITE]
    assert files(target)[1] == []
    assert {r["id"]: r["n"] for r in target.rows()} == {**dict.fromkeys(range(5), 0.0), 1: 1.5}


@pytest.mark.parametrize("mode", [ON_READ, ON_WRITE])
def test_a_row_that_moves_to_another_partition_is_deleted_in_the_old_one(tmp_path: Path, mode: str) -> None:
    target = bench(tmp_path, table_properties=mode, partition_by="[day]")
    target.merge([row(k, day=date(2026, 8, 30 + k % 2)) for k in range(6)])
    target.merge([row(0, 9.0, minute=1, day=date(2026, 8, 31)), row(1, 8.0, minute=1, day=date(2026, 9, 1))])
    rows = {r["id"]: (r["n"], r["day"].isoformat()) for r in target.rows()}
    assert rows[0] == (9.0, "2026-08-31") and rows[1] == (8.0, "2026-09-01")
    table = target.catalog.load_table(target.declaration.table)
    assert sorted(table.scan("day = '2026-08-30'").to_arrow().column("id").to_pylist()) == [2, 4]
    assert len(rows) == target.live() == 6


@pytest.mark.parametrize("mode", [ON_READ, ON_WRITE])
def test_files_of_an_older_partition_spec_are_deleted_from_under_their_own_spec(tmp_path: Path, mode: str) -> None:
    target = bench(tmp_path, table_properties=mode, partition_by="[day]")
    target.merge([row(k, day=date(2026, 8, 30 + k % 2)) for k in range(8)])
    table = target.catalog.load_table(target.declaration.table)
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_too")
    target.merge([row(2, 2.5, minute=1), row(3, 3.5, minute=1, day=date(2026, 8, 31))])
    _, deletes = files(target)
    assert {d.spec_id for d in deletes} == ({0} if mode is ON_READ else set())
    table = target.catalog.load_table(target.declaration.table)
    for condition, wanted in (
        ("id = 2", [(2, 2.5)]),
        ("day = '2026-08-30'", [(0, 0.0), (2, 2.5), (4, 0.0), (6, 0.0)]),
        ("id = 3 and day = '2026-08-31'", [(3, 3.5)]),
    ):
        found = table.scan(condition).to_arrow().to_pylist()
        assert sorted((r["id"], r["n"]) for r in found) == wanted
    assert len(target.rows()) == target.live() == 8


def test_a_delete_file_of_several_data_files_stays_and_counts(tmp_path: Path) -> None:
    """Other engines write one delete file for a whole partition."""
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(k) for k in range(4)])
    target.merge([row(k) for k in range(4, 8)])
    foreign_deletes(target, {0: [0], 1: [1]})
    assert sorted(r["id"] for r in target.rows()) == [1, 2, 3, 4, 6, 7]
    done = target.merge([row(0, 0.5), row(5, 5.5), row(2, 2.5, minute=1)])
    assert (done.match.counts.inserted, done.match.counts.updated) == (2, 1)
    assert numbers(target) == {0: 0.5, 1: 0.0, 2: 2.5, 3: 0.0, 4: 0.0, 5: 5.5, 6: 0.0, 7: 0.0}
    assert sorted(d.record_count for d in files(target)[1]) == [1, 2]


def test_a_position_that_others_deleted_too_counts_once(tmp_path: Path) -> None:
    """A new delete file takes over the earlier one of its data file alone: what a foreign file of several data files
    names stays there."""
    target = bench(tmp_path, table_properties=ON_READ)
    target.merge([row(k) for k in range(8)])
    target.merge([row(k) for k in range(8, 12)])
    target.merge([row(0, 0.5, minute=1)])
    foreign_deletes(target, {0: [1, 2], 1: [0]})
    assert target.live() == len(target.rows()) == 9
    target.merge([row(3, 3.5, minute=1)])
    assert target.live() == len(target.rows()) == 9
    assert numbers(target) == {0: 0.5, 3: 3.5} | dict.fromkeys((4, 5, 6, 7, 9, 10, 11), 0.0)


def foreign_deletes(target: Bench, positions: dict[int, Sequence[int]]) -> None:
    """Commit one position delete file over several data files, by their number, as another engine would."""
    table = target.catalog.load_table(target.declaration.table)
    live = live_files(table, table.current_snapshot())
    paths = [e.data_file.file_path for e in sorted(live.data, key=lambda e: e.sequence_number or 0)]
    rows = sorted((paths[number], pos) for number, many in positions.items() for pos in many)
    uri = f"{table.location()}/data/foreign-{uuid.uuid4().hex}.parquet"
    path = Path(uri.removeprefix("file://"))
    pq.write_table(pa.table({"file_path": [p for p, _ in rows], "pos": [n for _, n in rows]}), path)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    draft = draft_snapshot(table, commit_uuid=uuid.uuid4(), properties={}, live=live, added=[file])
    target.catalog.commit_table(table, draft.requirements, draft.updates)


def test_a_property_that_is_no_number_is_named() -> None:
    with pytest.raises(ConfigurationError, match="rewrite-ratio='much'"):
        merge_rule({"lakehouse.merge.rewrite-ratio": "much"}, format_version=2)


@pytest.mark.parametrize(
    ("dead", "size", "fate"),
    [(1, 1 << 30, Fate.DELETE), (25, 1 << 30, Fate.REWRITE), (1, 1000, Fate.REWRITE), (100, 1 << 30, Fate.DROP)],
)
def test_the_rule_of_a_table_without_properties(dead: int, size: int, fate: Fate) -> None:
    assert merge_rule({}, format_version=2).decide(rows=100, size=size, dead=dead) is fate
