"""Tables are read the same by PyIceberg, DuckDB's iceberg extension and Spark, whoever wrote them last.

Loads are ours, on the real stack; the other writer is Spark. A plain dict says what a table must hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakehouse.model import Receipt, State
from lakehouse.operate.operator_change import Operator
from lakehouse.operate.rewind_table import rewind_with_table
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv
from tests.readers.canonical import canonical
from tests.readers.environment import Missing
from tests.readers.reader import DuckDBReader, PyIcebergReader, Reader, SparkReader

pytestmark = pytest.mark.timeout(1500)  # the first start also builds the environments of the readers

COLUMNS = ("order_id", "customer_id", "amount", "order_time", "input_date")
FILTERS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "order_id = 7": lambda row: row["order_id"] == 7,
    "order_id >= 5 and order_id < 20": lambda row: 5 <= row["order_id"] < 20,
    "input_date = '2026-08-31'": lambda row: row["input_date"] == DAY_2,
    "input_date < '2026-09-01' and amount > 5.00": lambda row: row["input_date"] < DAY_3 and row["amount"] > 5,
    "order_time >= '2026-08-30T10:05:00+00:00'": lambda row: row["order_time"] >= at(5),
    "customer_id in ('c3', 'c11')": lambda row: row["customer_id"] in ("c3", "c11"),
    "not order_id = 3": lambda row: row["order_id"] != 3,
}


def at(minute: int) -> datetime:
    return datetime(2026, 8, 30, 10, tzinfo=UTC) + timedelta(minutes=minute)


def _started(start: Callable[[], Any], name: str) -> Iterator[Any]:
    try:
        reader = start()
    except Missing as missing:
        pytest.skip(f"{name} is not read: {missing}")
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def duckdb_reader(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBReader]:
    for reader in _started(lambda: DuckDBReader(tmp_path_factory.mktemp("duckdb")), "DuckDB"):
        reader.attach(stack.stack)
        yield reader


@pytest.fixture(scope="module")
def spark(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    for reader in _started(lambda: SparkReader(tmp_path_factory.mktemp("spark")), "Spark"):
        reader.attach(stack.stack)
        yield reader


@pytest.fixture(scope="module")
def readers(request: pytest.FixtureRequest) -> list[Reader]:
    """Every reader that this machine can run; `test_a_reader_is_here` tells of the others."""
    found: list[Reader] = [PyIcebergReader()]
    for name in ("duckdb_reader", "spark"):
        with suppress(pytest.skip.Exception):
            found.append(request.getfixturevalue(name))
    return found


@pytest.mark.parametrize("name", ["duckdb_reader", "spark"])
def test_a_reader_is_here(request: pytest.FixtureRequest, name: str) -> None:
    request.getfixturevalue(name)


@dataclass
class Shop:
    """A lake and what its table must hold, by key."""

    lake: Lake
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    files: int = 0

    def load(self, day: date, orders: Mapping[int, str], minute: int) -> Receipt:
        """Land the amounts of some orders in one file and load it."""
        lines = [f"{k},c{k},{amount},{at(minute).isoformat()}" for k, amount in orders.items()]
        self.lake.put(day, f"{self.files:03}.csv", csv(*lines))
        self.files += 1
        receipt = self.lake.load()
        assert receipt.state is State.COMMITTED, receipt
        for key, amount in orders.items():
            values = (key, f"c{key}", Decimal(amount), at(minute), day)
            self.rows[key] = dict(zip(COLUMNS, values, strict=True))
        return receipt

    def fill(self) -> None:
        """Three days; then some updates, some of which move a row to another partition."""
        for number, day in enumerate((DAY_1, DAY_2, DAY_3)):
            self.load(day, {k: f"{k}.25" for k in range(number * 10, number * 10 + 10)}, 0)
        self.load(DAY_2, {3: "103.00", 11: "111.00", 40: "140.00"}, 5)
        self.load(DAY_3, {5: "105.00", 29: "129.00"}, 6)

    def delete(self, *keys: int) -> None:
        for key in keys:
            del self.rows[key]

    @property
    def table(self) -> Table:
        return self.lake.stack.catalog().load_table(self.lake.table)

    @property
    def sql_name(self) -> str:
        return f"lake.{self.lake.table}"


def check(shop: Shop, *readers: Reader) -> None:
    """Every reader sees the dict's rows, as a whole and by each filter, and the same sums."""
    table = shop.table
    conditions: dict[str | None, Callable[[Mapping[str, Any]], bool]] = {None: lambda row: True, **FILTERS}
    expected = [[row for row in shop.rows.values() if wanted(row)] for wanted in conditions.values()]
    sums = [sum((row["amount"] for row in rows), Decimal(0)).normalize() for rows in expected]
    for reader in readers:
        found = reader.rows_by_filter(table, COLUMNS, list(conditions))
        for where, rows, wanted in zip(conditions, found, expected, strict=True):
            assert in_order(rows) == in_order([as_read(row, COLUMNS) for row in wanted]), (reader.name, where)
        totals = [(len(rows), format(total, "f")) for rows, total in zip(expected, sums, strict=True)]
        assert reader.totals(table, "amount", list(conditions)) == totals, reader.name


def as_read(row: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {name: canonical(row.get(name)) for name in columns}


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["order_id"]))


def shop_of(stack: Any, folder: Path, *, partition_by: str = "[input_date]", properties: str = "") -> Shop:
    lake = Lake(stack, folder, more=f"table_properties: {{{properties}}}" if properties else "")
    text = lake.declaration_text().replace("partition_by: [input_date]", f"partition_by: {partition_by}")
    lake.text = text
    lake.write_declaration()
    return Shop(lake)


@pytest.fixture
def shop(stack: Any, tmp_path: Path) -> Shop:
    return shop_of(stack, tmp_path)


MERGE_ON_READ = "write.merge.mode: merge-on-read"


@pytest.mark.parametrize(
    ("partition_by", "properties"),
    [
        ("[]", ""),
        pytest.param("[input_date]", "write.merge.mode: copy-on-write", marks=pytest.mark.chaos),
        pytest.param("[input_date]", MERGE_ON_READ, marks=pytest.mark.chaos),
        ("['day(order_time)', 'bucket(4, order_id)']", MERGE_ON_READ),
        pytest.param("['truncate(2, customer_id)', 'month(order_time)']", MERGE_ON_READ, marks=pytest.mark.chaos),
    ],
)
def test_what_we_write_is_read_the_same_by_all(
    stack: Any, tmp_path: Path, partition_by: str, properties: str, readers: list[Reader]
) -> None:
    shop = shop_of(stack, tmp_path, partition_by=partition_by, properties=properties)
    shop.fill()
    check(shop, *readers)


NESTED = """\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source: {{uri: s3://landing/{prefix}/, partition: input_date=%Y-%m-%d, files: "*.jsonl", format: {{type: jsonl}}}}
  columns:
    order_id: bigint
    version: int
    place: "struct<street: string, at: struct<x: double, y: double>>"
    tags: list<string>
    prices: map<string, decimal(8,2)>
  key: [order_id]
  order_by: [version]
  start_date: 2026-08-30
  table_properties: {{write.merge.mode: merge-on-read}}
"""


def test_nested_columns_are_read_the_same_by_all(stack: Any, tmp_path: Path, readers: list[Reader]) -> None:
    lake = Lake(stack, tmp_path)
    lake.text = NESTED.format(table=lake.table, prefix=lake.name)
    lake.write_declaration()
    columns = ("order_id", "version", "place", "tags", "prices")
    rows = {
        1: (1, 0, {"street": "é", "at": {"x": 1.5, "y": None}}, ["a", None, "b"], {"eur": "1.50"}),
        2: (2, 0, None, [], {}),
        3: (3, 0, {"street": None, "at": None}, None, None),
        4: (4, 0, {"street": "s", "at": {"x": 0.0, "y": -2.0}}, ["c"], {"eur": "2.00", "usd": "3.25"}),
    }
    for name in ("a", "b"):
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows.values()]
        lake.put(DAY_1, f"{name}.jsonl", "\n".join(lines).encode())
        receipt = lake.load()
        assert receipt.state is State.COMMITTED, receipt
        table = stack.catalog().load_table(lake.table)
        expected = [dict(zip(columns, (k, v, canonical(p), t, m), strict=True)) for k, v, p, t, m in rows.values()]
        for reader in readers:
            assert in_order(reader.rows(table, columns)) == expected, reader.name
            assert reader.rows(table, columns, where="version = 1") == [r for r in expected if r["version"] == 1]
        # the second load changes one row, inside its nested columns
        rows[4] = (4, 1, {"street": "s", "at": {"x": 0.0, "y": -2.5}}, ["c", "d"], {"usd": "3.25"})


def test_every_snapshot_of_ours_is_whole(stack: Any, tmp_path: Path, duckdb_reader: DuckDBReader) -> None:
    """M08: a reader that stays on one snapshot never sees rows missing."""
    shop = shop_of(stack, tmp_path, properties=MERGE_ON_READ)
    shop.load(DAY_1, dict.fromkeys(range(10), "1.00"), 0)
    before = dict.fromkeys(range(10), "1.00")
    first = shop.table.metadata.current_snapshot_id
    shop.load(DAY_1, {3: "9.00", 12: "2.00"}, 5)
    for reader in (PyIcebergReader(), duckdb_reader):
        found = reader.rows(shop.table, ("order_id", "amount"), snapshot=first)
        assert {row["order_id"]: row["amount"] for row in found} == before


@pytest.mark.chaos
def test_g35_a_table_that_went_back_is_read_the_same_by_all(stack: Any, tmp_path: Path, readers: list[Reader]) -> None:
    """Its delete files count as they did, and files that are live again are read."""
    shop = shop_of(stack, tmp_path, properties=MERGE_ON_READ)
    shop.fill()
    rows, version = dict(shop.rows), str(shop.lake.version())
    shop.load(DAY_1, {3: "203.00", 7: "207.00", 50: "250.00"}, 7)
    shop.lake.write_declaration(shop.lake.declaration_text().replace(MERGE_ON_READ, "write.merge.mode: copy-on-write"))
    shop.load(DAY_2, {5: "205.00", 12: "212.00"}, 8)
    operator = Operator("anna@host", "a wrong export", "test")
    done = rewind_with_table(shop.lake.declaration, version, operator, shop.lake.services())
    assert done.state is State.COMMITTED
    shop.rows = rows
    check(shop, *readers)


class TestAfterSpark:
    """The table is in a state that Spark left; our next load reads it right and all readers agree afterwards."""

    def then_load(self, shop: Shop, *readers: Reader) -> None:
        shop.load(DAY_2, {2: "202.00", 12: "212.00", 50: "250.00"}, 30)
        check(shop, PyIcebergReader(), *readers)
        keys = shop.table.scan(selected_fields=("order_id",)).to_arrow().num_rows
        assert keys == len(shop.rows)

    @pytest.mark.chaos
    @pytest.mark.parametrize("granularity", ["partition", "file"])
    def test_position_deletes(
        self, shop: Shop, spark: SparkReader, duckdb_reader: DuckDBReader, granularity: str
    ) -> None:
        shop.fill()
        name = shop.sql_name
        spark.execute(
            f"alter table {name} set tblproperties('write.delete.mode'='merge-on-read', "
            f"'write.delete.granularity'='{granularity}')"
        )
        spark.execute(f"delete from {name} where order_id in (2, 4, 11, 23)")
        shop.delete(2, 4, 11, 23)
        assert _position_deletes(shop) > 0
        check(shop, PyIcebergReader(), spark)
        self.then_load(shop, spark, duckdb_reader)

    @pytest.mark.chaos
    def test_a_merge_of_its_own(self, shop: Shop, spark: SparkReader, duckdb_reader: DuckDBReader) -> None:
        shop.fill()
        name = shop.sql_name
        spark.execute(f"alter table {name} set tblproperties('write.merge.mode'='merge-on-read')")
        spark.execute(
            f"merge into {name} t using (select 12L as id) s on t.order_id = s.id "
            "when matched then update set t.amount = 0.50"
        )
        shop.rows[12]["amount"] = Decimal("0.50")
        check(shop, PyIcebergReader(), spark)
        self.then_load(shop, spark, duckdb_reader)

    @pytest.mark.chaos
    def test_compaction_and_dangling_deletes(
        self, stack: Any, tmp_path: Path, spark: SparkReader, duckdb_reader: DuckDBReader
    ) -> None:
        shop = shop_of(stack, tmp_path, properties=MERGE_ON_READ)
        shop.fill()
        table = shop.lake.table
        assert _position_deletes(shop) > 0
        spark.execute(
            f"call lake.system.rewrite_position_delete_files(table => '{table}', options => map('rewrite-all','true'))"
        )
        check(shop, PyIcebergReader(), spark)
        self.then_load(shop, spark, duckdb_reader)
        spark.execute(f"call lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all','true'))")
        check(shop, PyIcebergReader(), spark)
        shop.load(DAY_1, {1: "301.00", 51: "351.00"}, 40)
        check(shop, PyIcebergReader(), spark, duckdb_reader)

    def test_a_changed_schema(self, shop: Shop, spark: SparkReader, duckdb_reader: DuckDBReader) -> None:
        """Renamed, added, dropped and widened by Spark; the declaration follows the rename."""
        shop.fill()
        name = shop.sql_name
        spark.execute(f"alter table {name} add columns (note string, gone string)")
        spark.execute(f"update {name} set note = 'n12' where order_id = 12")
        shop.rows[12]["note"] = "n12"
        spark.execute(f"alter table {name} drop column gone")
        spark.execute(f"alter table {name} alter column amount type decimal(14,2)")
        spark.execute(f"alter table {name} rename column customer_id to customer")
        text = shop.lake.declaration_text().replace(
            "customer_id: string", "customer: {type: string, from: customer_id}"
        )
        shop.lake.write_declaration(text)
        for row in shop.rows.values():
            row["customer"] = row.pop("customer_id")
        receipt = _load_raw(shop, {2: "202.00", 12: "212.00", 50: "250.00"})
        assert (receipt.rows.inserted, receipt.rows.updated) == (1, 2)
        columns = ("order_id", "customer", "amount", "order_time", "input_date", "note")
        expected = in_order([as_read(row, columns) for row in shop.rows.values()])
        for reader in (PyIcebergReader(), spark, duckdb_reader):
            assert in_order(reader.rows(shop.table, columns)) == expected, reader.name

    @pytest.mark.chaos
    def test_a_changed_partition_spec(self, shop: Shop, spark: SparkReader, duckdb_reader: DuckDBReader) -> None:
        shop.fill()
        spark.execute(f"alter table {shop.sql_name} set tblproperties('write.merge.mode'='merge-on-read')")
        spark.execute(f"alter table {shop.sql_name} add partition field bucket(4, order_id)")
        self.then_load(shop, spark, duckdb_reader)
        spark.execute(f"alter table {shop.sql_name} drop partition field input_date")
        shop.load(DAY_1, {1: "301.00", 12: "312.00", 51: "351.00"}, 40)
        check(shop, PyIcebergReader(), spark, duckdb_reader)

    def test_equality_deletes_are_refused(self, stack: Any, tmp_path: Path, spark: SparkReader) -> None:
        shop = shop_of(stack, tmp_path, partition_by="[]")
        shop.fill()
        spark.delete_by_equality(shop.table, "customer_id", "c7")
        before = shop.table.metadata_location
        shop.lake.put(DAY_2, "more.csv", csv(f"2,c2,9.00,{at(9).isoformat()}"))
        code, _, errors = shop.lake.cli("load", shop.lake.table)
        assert code == 2 and "equality deletes" in errors and "not available yet" in errors, errors
        assert shop.table.metadata_location == before

    def test_format_version_3_is_refused(self, shop: Shop, spark: SparkReader) -> None:
        shop.fill()
        spark.execute(f"alter table {shop.sql_name} set tblproperties('format-version'='3')")
        shop.lake.put(DAY_2, "more.csv", csv(f"2,c2,9.00,{at(9).isoformat()}"))
        code, _, errors = shop.lake.cli("load", shop.lake.table)
        assert code == 2 and "format version 3" in errors, errors


def test_columns_that_files_added_are_read(stack: Any, tmp_path: Path, duckdb_reader: DuckDBReader) -> None:
    lake = Lake(stack, tmp_path, more="unknown_columns: add")
    for number, tail in enumerate((b"", b",x", b",y")):
        header, row, _ = csv(f"{number},c,1.00,{at(0).isoformat()}").split(b"\n")
        header += b",extra" if tail else b""
        lake.put(DAY_1, f"{number}.csv", header + b"\n" + row + tail + b"\n")
        assert lake.load().state is State.COMMITTED
    table = stack.catalog().load_table(lake.table)
    columns = ("order_id", "extra")
    expected = [as_read(dict(zip(columns, row, strict=True)), columns) for row in ((0, None), (1, "x"), (2, "y"))]
    for reader in (PyIcebergReader(), duckdb_reader):
        assert in_order(reader.rows(table, columns)) == expected, reader.name


def _position_deletes(shop: Shop) -> int:
    snapshot = shop.table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    return int(snapshot.summary["total-position-deletes"] or 0)


def _load_raw(shop: Shop, orders: Mapping[int, str]) -> Receipt:
    """Load orders into a table whose customer column is called `customer`."""
    lines = [f"{k},c{k},{amount},{at(30).isoformat()}" for k, amount in orders.items()]
    shop.lake.put(DAY_2, "renamed.csv", csv(*lines))
    receipt = shop.lake.load()
    for key, amount in orders.items():
        old = shop.rows.get(key, {})
        shop.rows[key] = {
            **old,
            "order_id": key,
            "customer": f"c{key}",
            "amount": Decimal(amount),
            "order_time": at(30),
            "input_date": DAY_2,
        }
    return receipt
