"""`lakehouse maintain TABLE compact` on the real stack: fewer files, the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from lakehouse import naming
from lakehouse.errors import Conflict
from lakehouse.iceberg import draft_snapshot, live_files
from lakehouse.ledger import BATCHES
from lakehouse.maintain import Compaction, compact
from lakehouse.model import State
from lakehouse.services import Services
from tests.evolving_lake import OPERATOR, failure, foreign_table, lake_on, orders
from tests.integration.test_maintain_expire import before_commit, break_lease
from tests.lake import DAY_1, DAY_2, Lake, csv, order

ON_READ = "table_properties: {write.merge.mode: merge-on-read}"


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    lake = lake_on("sql", stack, tmp_path)
    lake.more = ON_READ
    lake.write_declaration()
    return lake


def compacted(lake: Lake, services: Services | None = None, *, dry_run: bool = False) -> Compaction:
    return compact(lake.declaration, services or lake.services(), OPERATOR, dry_run=dry_run)


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def counted(lake: Lake) -> tuple[int, int]:
    """Live data and delete files."""
    table = table_of(lake)
    live = live_files(table, table.current_snapshot())
    return len(live.data), len(live.deletes)


def three_loads(lake: Lake) -> None:
    """Two partitions with two and three data files, and deletes in three of them."""
    lake.put(DAY_1, "a.csv", csv(*(order(n) for n in range(9, 0, -1))))
    lake.load()
    lake.put(DAY_2, "b.csv", csv(*(order(n, "2.00", 1) for n in (3, 1)), order(11, "2.00", 1), order(10, "2.00", 1)))
    lake.load()
    lake.put(DAY_1, "c.csv", csv(order(2, "3.00", 2), order(11, "3.00", 2)))
    lake.load()


@pytest.mark.parametrize("catalog", ["rest", "sql"])
def test_small_files_become_one_and_deletes_are_applied(catalog: str, stack: Any, tmp_path: Path) -> None:
    lake = lake_on(catalog, stack, tmp_path)
    lake.more = ON_READ
    lake.write_declaration()
    three_loads(lake)
    rows, files = lake.rows(), counted(lake)
    assert files[1] > 0
    dry = compacted(lake, dry_run=True)
    assert (dry.state, dry.partitions, (dry.data_files_before, dry.delete_files_before)) == (
        State.NOTHING_TO_DO, 2, files,
    )  # fmt: skip
    code, done, errors = lake.said("maintain", lake.table, "compact", "--json")
    assert (code, done["state"], done["commits"], done["bookmark_version"]) == (0, "committed", 1, 4), errors
    assert (done["data_files_after"], done["delete_files_after"]) == counted(lake) == (2, 0)
    assert lake.rows() == rows, "lineage is part of them"
    snapshot = table_of(lake).current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    keys = snapshot.summary.additional_properties
    assert (keys[naming.MAINTAIN], keys["total-records"], keys["total-position-deletes"]) == ("compact", "11", "0")
    for file in table_of(lake).inspect.files().to_pylist():
        with table_of(lake).io.new_input(file["file_path"]).open() as stream:
            ids = pq.read_table(cast(Any, stream))["order_id"]
        assert ids.equals(ids.sort())
    assert lake.differences(reread=True) == []
    batch = max(lake.ledger(BATCHES), key=lambda b: b["bookmark_version"])
    assert (batch["kind"], batch["rows_deleted"], batch["rows_inserted"]) == ("compact", 0, 0)
    assert compacted(lake).state is State.NOTHING_TO_DO

    lake.put(DAY_2, "d.csv", csv(order(1, "4.00", 3), order(12)))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.inserted, lake.differences(reread=True)) == (1, 1, [])


def test_other_partitions_and_other_columns_than_the_files_were_written_with(local: Lake) -> None:
    three_loads(local)
    with table_of(local).update_spec() as spec:
        spec.add_field("order_id", BucketTransform(2))
    with table_of(local).update_schema() as schema:
        schema.add_column("note", StringType())
        schema.rename_column("customer_id", "customer")
    text = local.declaration_text().replace("customer_id: string", "customer: {type: string, from: customer_id}")
    local.write_declaration(text)
    local.put(DAY_2, "d.csv", csv(order(1, "4.00", 3), order(12)))
    local.load()
    rows = local.rows()
    done = compacted(local)
    assert (done.state, counted(local)[1], local.rows()) == (State.COMMITTED, 0, rows)
    assert {file["spec_id"] for file in table_of(local).inspect.files().to_pylist()} == {1}
    assert local.differences(reread=True) == []
    assert len(table_of(local).scan(row_filter="order_id = 3").to_arrow()) == 1


def test_format_version_1_without_lineage_and_rows_without_keys(stack: Any, tmp_path: Path) -> None:
    lake = lake_on("sql", stack, tmp_path)
    properties: dict[str, Any] = {"format-version": "1"}
    foreign_table(lake, orders((1, "1.00", 5), (2, "2.00", 5)), orders((3, "1.00", 1)), **properties)
    text = lake.declaration_text().replace("  key: [order_id]\n", "  lineage: false\n  key: [order_id]\n")
    lake.write_declaration(text)
    assert lake.said("adopt", lake.table)[0] == 0
    done = compacted(lake)
    assert (done.state, counted(lake), lake.amounts()) == (State.COMMITTED, (1, 0), {1: "1.00", 2: "2.00", 3: "1.00"})
    assert lake.differences() == []


def test_rows_of_an_append_table_stay_as_often_as_they_are_there(local: Lake) -> None:
    text = local.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", "  write: append\n")
    local.write_declaration(text)
    for name in ("a", "b", "a"):
        local.put(DAY_1, f"{name}.csv", csv(order(1), order(1), order(2)))
        local.load()
    before = sorted(map(str, table_of(local).scan().to_arrow().to_pylist()))
    done = compacted(local)
    assert (done.state, counted(local)) == (State.COMMITTED, (1, 0))
    assert sorted(map(str, table_of(local).scan().to_arrow().to_pylist())) == before
    assert local.differences(reread=True) == []


def test_loads_and_other_writers_in_between_are_planned_for_again(local: Lake) -> None:
    three_loads(local)

    def load() -> None:
        break_lease(local)
        local.put(DAY_2, "d.csv", csv(order(1, "4.00", 3), order(12)))
        local.load()

    done = compacted(local, before_commit(local.services(), load))
    assert (done.state, local.version(), counted(local)[1]) == (State.COMMITTED, 5, 0)
    assert local.amounts() == {
        1: "4.00", 2: "3.00", 3: "2.00", 10: "2.00", 11: "3.00", 12: "1.00", **dict.fromkeys(range(4, 10), "1.00"),
    }  # fmt: skip
    assert local.differences(reread=True) == []

    def overwrite() -> None:
        """Another engine compacts everything."""
        table = table_of(local)
        table.overwrite(table.scan().to_arrow())

    local.put(DAY_1, "e.csv", csv(order(13)))
    local.load()
    rows = local.rows()
    done = compacted(local, before_commit(local.services(), overwrite))
    assert (done.commits, local.rows()) == (0, rows)
    local.put(DAY_1, "f.csv", csv(order(14)))
    local.load()

    def touch() -> None:
        table_of(local).append(table_of(local).scan().to_arrow().slice(0, 0))

    services = before_commit(local.services(), touch, times=9)
    error = failure(lambda: compacted(local, services))
    assert isinstance(error, Conflict) and error.exit_code == 3 and len(local.rows()) == 14


def test_a_delete_file_of_several_data_files_goes_with_all_of_them(local: Lake) -> None:
    """Other engines write one for a whole partition; its counts would stay wrong if it outlived its files."""
    for name, keys in (("a", (1, 2, 3)), ("b", (4, 5, 6)), ("c", (7,))):
        local.put(DAY_1, f"{name}.csv", csv(*map(order, keys)))
        local.load()
    _delete_first_rows(local, 2)
    assert sorted(local.rows()) == [2, 3, 5, 6, 7]
    done = compacted(local)
    assert (done.rows, done.data_files_after, counted(local), sorted(local.rows())) == (5, 1, (1, 0), [2, 3, 5, 6, 7])
    main = table_of(local).current_snapshot()
    assert main is not None and main.summary is not None
    assert (main.summary["total-records"], main.summary["total-position-deletes"]) == ("5", "0")


def _delete_first_rows(lake: Lake, files: int) -> None:
    """One position delete file for the first rows of the oldest data files, as another engine writes it."""
    table = table_of(lake)
    live = live_files(table, table.current_snapshot())
    oldest = sorted(live.data, key=lambda entry: entry.sequence_number or 0)[:files]
    uri = f"{table.location()}/data/foreign-deletes.parquet"
    rows = pa.table({"file_path": sorted(e.data_file.file_path for e in oldest), "pos": [0] * files})
    with table.io.new_output(uri).create() as stream:
        pq.write_table(rows, cast(Any, stream))
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=oldest[0].data_file.partition,
        record_count=files,
        file_size_in_bytes=len(table.io.new_input(uri)),
    )
    file.spec_id = 0
    draft = draft_snapshot(table, commit_uuid=uuid4(), properties={}, live=live, added=[file])
    lake.stack.catalog().commit_table(table, draft.requirements, draft.updates)
