"""Columns of the table in data files of other layouts: found by field id at every depth, typed as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, UnknownType

from lakehouse.errors import NotAvailable
from lakehouse.merge.data_file import describe
from lakehouse.merge.fixed_length import fix_lengths
from lakehouse.merge.layout import column_expressions, duckdb_type, field_ids_sql, identified
from lakehouse.schema import iceberg_type
from lakehouse.types import parse_type

COLUMNS = {
    "id": "long",
    "s": "struct<a: int, `b c`: list<struct<x: string, y: decimal(5,2)>>, m: map<string, struct<k: int>>>",
    "l": "list<list<int>>",
    "m": "map<string, list<float>>",
    "u": "uuid",
    "lu": "list<uuid>",
    "f": "fixed(3)",
    "sf": "struct<f: fixed(2), l: list<fixed(2)>, m: map<string, fixed(1)>>",
    "d": "double",
    "clock": "time",
    "b": "binary",
    "n": "decimal(30,3)",
    "t": "timestamp",
}
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "s": {"a": 1, "b c": [{"x": "q", "y": Decimal("1.25")}, None, {"x": None, "y": None}], "m": {"z": {"k": 5}}},
        "l": [[1, None], None, []],
        "m": {"a": [1.5], "b": None},
        "u": UUID(int=2**127 + 1),
        "lu": [UUID(int=5), None],
        "f": b"abc",
        "sf": {"f": b"ab", "l": [b"cd", None], "m": {"k": b"e", "n": None}},
        "d": 0.5,
        "clock": time(1, 2, 3, 4),
        "b": b"\x00\xff",
        "n": Decimal("12.500"),
        "t": datetime(1969, 12, 31, 23),  # noqa: DTZ001
    },
    {**dict.fromkeys(COLUMNS), "id": 2},
    {
        **dict.fromkeys(COLUMNS),
        "id": 3,
        "s": {"a": None, "b c": [], "m": {}},
        "l": [],
        "m": {},
        "sf": {"f": None, "l": [], "m": {}},
    },
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'UTC'")
        yield con


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("layout", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("n")
    fields = (
        NestedField(n, name, iceberg_type(parse_type(t)), required=False)
        for n, (name, t) in enumerate(COLUMNS.items(), 1000)
    )
    schema = assign_fresh_schema_ids(Schema(*fields))
    return catalog.create_table("n.t", schema=schema, properties={"format-version": "2"})  # fmt: skip


def write(con: duckdb.DuckDBPyConnection, table: Table, path: Path) -> None:
    """The rows as a data file of the table, written as the merge writes it, and published."""
    schema = table.schema()
    con.execute(f"create temp table r ({', '.join(f'{n} {parse_type(t).sql}' for n, t in COLUMNS.items())})")
    con.executemany(f"insert into r values ({', '.join('?' * len(COLUMNS))})", [list(row.values()) for row in ROWS])
    con.execute(f"copy r to '{path}' (format parquet, field_ids {field_ids_sql(schema, list(COLUMNS))})")
    fix_lengths(path, schema, compression_level=1)
    file = describe(table, path, uri=f"file://{path}", partition=())
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def plain(value: Any) -> Any:
    """Maps as dicts, whoever read them."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return {k: plain(v) for k, v in value}
    return [plain(v) for v in value] if isinstance(value, list) else value


def read(
    con: duckdb.DuckDBPyConnection, table: Table, path: Path, schema: pa.Schema | None = None
) -> list[dict[str, Any]]:
    file_schema = schema or pq.read_schema(path)
    fields = table.schema().fields
    picked = ", ".join(f"{column_expressions([field], file_schema)[0]}" for field in fields)
    types = ", ".join(f"typeof({column_expressions([field], file_schema)[0]})" for field in fields)
    ((*found,),) = con.execute(f"select {types} from '{path}' limit 1").fetchall()
    wanted = [con.execute(f"select typeof(null::{duckdb_type(field.field_type)})").fetchall()[0][0] for field in fields]
    assert found == wanted
    rows = con.execute(f"select {picked} from '{path}'").fetchall()
    return [dict(zip([field.name for field in fields], row, strict=True)) for row in rows]


def test_written_files_carry_ids_at_every_level_and_pyiceberg_reads_them(
    con: duckdb.DuckDBPyConnection, table: Table, tmp_path: Path
) -> None:
    path = tmp_path / "data.parquet"
    write(con, table, path)
    found = [plain(row) for row in table.refresh().scan().to_arrow().to_pylist()]
    empty = {**ROWS[2], "s": {**ROWS[2]["s"], "m": []}, "m": [], "sf": {**ROWS[2]["sf"], "m": []}}
    assert found == [ROWS[0], ROWS[1], empty]
    assert table.scan(row_filter="s.a = 1").to_arrow().num_rows == 1
    assert read(con, table, path) == ROWS


def test_a_changed_table_reads_its_older_files_by_field_id(
    con: duckdb.DuckDBPyConnection, table: Table, tmp_path: Path
) -> None:
    """M06 and its kind: fields renamed, added, dropped, moved and widened, also inside struct, list and map."""
    path = tmp_path / "data.parquet"
    write(con, table, path)
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("id", "key")
        change.rename_column(("s", "a"), "renamed")
        change.rename_column(("s", "b c", "x"), "xx")
        change.add_column(("s", "b c", "added"), StringType())
        change.add_column(("m2",), IntegerType())
        change.update_column(("s", "m", "value", "k"), LongType())
        change.update_column(("m", "value", "element"), DoubleType())
        change.update_column(("l", "element", "element"), LongType())
        change.delete_column(("sf", "l"))
        change.delete_column("b")
    with table.update_schema() as change:
        change.add_column(("s", "a"), StringType())  # an old name for a new field
        change.move_first("d")
        change.move_first("s.m")
    rows = read(con, table.refresh(), path)
    assert [row["key"] for row in rows] == [1, 2, 3]
    assert rows[0]["s"] == {
        "m": {"z": {"k": 5}},
        "renamed": 1,
        "b c": [{"xx": "q", "y": Decimal("1.25"), "added": None}, None, {"xx": None, "y": None, "added": None}],
        "a": None,
    }
    assert list(rows[0]["s"]) == ["m", "renamed", "b c", "a"]
    assert (rows[0]["m2"], rows[0]["sf"], "b" in rows[0]) == (None, {"f": b"ab", "m": {"k": b"e", "n": None}}, False)
    assert [row["s"] for row in rows[1:]] == [None, {"m": {}, "renamed": None, "b c": [], "a": None}]
    scanned = [plain(row) for row in table.scan().to_arrow().to_pylist()]
    assert [{**row, "s": None, "m": None, "sf": None} for row in scanned] == [
        {**row, "s": None, "m": None, "sf": None} for row in rows
    ]
    assert scanned[0]["s"] == rows[0]["s"]


def test_names_count_for_a_file_without_any_id(con: duckdb.DuckDBPyConnection, table: Table, tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    kind = pa.struct([("m", pa.map_(pa.string(), pa.struct([("k", pa.int16())]))), ("a", pa.int8())])
    pq.write_table(pa.table({"id": [7], "s": pa.array([{"a": 1, "m": [("z", {"k": 2})]}], kind)}), path)
    (row,) = read(con, table, path)
    assert (row["id"], row["s"], row["l"]) == (7, {"a": 1, "b c": None, "m": {"z": {"k": 2}}}, None)


def test_a_name_mapping_gives_a_file_its_ids(con: duckdb.DuckDBPyConnection, table: Table, tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    kind = pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.struct([("x", pa.string())])))])
    structs = pa.array([{"a": 1, "b c": [{"x": "q"}]}], kind)
    maps = pa.array([[("k", [1.5])]], pa.map_(pa.string(), pa.list_(pa.float32())))
    pq.write_table(pa.table({"id": [7], "s": structs, "m": maps}), path)
    mapping = create_mapping_from_schema(table.schema())
    with table.update_schema() as change:
        change.rename_column("id", "key")
        change.rename_column(("s", "b c", "x"), "xx")
    schema = identified(pq.read_schema(path), mapping)
    (row,) = read(con, table.refresh(), path, schema)
    assert (row["key"], row["s"]["b c"], row["m"]) == (7, [{"xx": "q", "y": None}], {"k": [1.5]})
    assert identified(schema, mapping) == schema
    assert identified(schema, None) == schema


def test_bytes_of_other_writers_are_what_the_table_says(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """UUIDs without their logical type, texts without theirs."""
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"u": pa.array([UUID(int=5).bytes], pa.binary(16)), "s": pa.array(["é".encode()])}), path)
    for name, kind, value in (("u", "uuid", UUID(int=5)), ("s", "string", "é")):
        field = NestedField(1, name, iceberg_type(parse_type(kind)), required=False)
        expression = column_expressions([field], pq.read_schema(path))[0]
        assert con.execute(f"select {expression} from '{path}'").fetchall() == [(value,)]


def test_a_type_of_a_later_format_is_refused() -> None:
    with pytest.raises(NotAvailable, match="unknown is not available yet"):
        duckdb_type(UnknownType())
