"""Looks at the keys of every live row of the target: how many rows there are, which keys are NULL or stand in several
rows, and which of these rows is the newest. Reads only.

Of all rows the key columns alone are read; order columns only where keys are doubled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from pyiceberg.table import Table

from lakehouse.iceberg import LiveFiles
from lakehouse.masking import shown_key
from lakehouse.merge.fetch import fetch_rows
from lakehouse.merge.order import tie_break
from lakehouse.merge.position_deletes import DeletesOfFile, read_deleted, refuse_equality_deletes
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

NAMED = 5
"""So many doubled keys are named in a message."""
SOURCE_DATE = "_source_date"


@dataclass(frozen=True, slots=True)
class DoubledKey:
    """A key that stands in several live rows, as `lakehouse.masking.shown_key` writes it."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True)
class KeyCensus:
    """What the live rows are. `doubled` counts keys, `extra` the rows beyond one for each of them, `first` names some;
    `null_rows` counts rows by the key column that is NULL in them. `dates` counts rows by `_source_date` where the
    table has that column. `files` are the data files by number, `own` the delete files of one of them alone."""

    rows: int
    files: Mapping[int, TargetFile]
    own: Mapping[int, DeletesOfFile]
    dates: Mapping[date | None, int] = field(default_factory=dict)
    doubled: int = 0
    extra: int = 0
    first: tuple[DoubledKey, ...] = ()
    null_rows: Mapping[str, int] = field(default_factory=dict)


def take_census(con: duckdb.DuckDBPyConnection, declaration: Declaration, table: Table, live: LiveFiles) -> KeyCensus:
    """Count the live rows of a table that has the declared columns, and look at their keys.

    The table `doubled` (key…, __rows) holds the keys that stand twice. A table that is not keyed is only counted.
    Raises NotAvailable for equality deletes.
    """
    refuse_equality_deletes(declaration.table, live.deletes)
    files = {number: TargetFile(number, entry.data_file) for number, entry in enumerate(live.data)}
    own = read_deleted(con, table.io, live.deletes, list(files.values()))
    keys = declaration.key if declaration.keyed else ()
    dated = [SOURCE_DATE] if SOURCE_DATE in table.schema().column_names else []
    _read_live(con, table, list(files.values()), [*keys, *dated])
    census = KeyCensus(_count(con, "select count(*) from live_rows"), files, own, _dates(con) if dated else {})
    return _look_at_keys(con, declaration, census) if keys else census


def _look_at_keys(con: duckdb.DuckDBPyConnection, declaration: Declaration, census: KeyCensus) -> KeyCensus:
    names = [quote_name(k) for k in declaration.key]
    present = " and ".join(f"{name} is not null" for name in names)
    con.execute(
        f"create or replace table doubled as select {', '.join(names)}, count(*) as __rows from live_rows "
        f"where {present} group by all having count(*) > 1"
    )
    nulls = {
        key: _count(con, f"select count(*) from live_rows where {name} is null")
        for key, name in zip(declaration.key, names, strict=True)
    }
    return KeyCensus(
        census.rows,
        census.files,
        census.own,
        census.dates,
        doubled=_count(con, "select count(*) from doubled"),
        extra=_count(con, "select coalesce(sum(__rows - 1), 0) from doubled"),
        first=_first(con, declaration),
        null_rows={key: count for key, count in nulls.items() if count},
    )


def find_surplus(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, table: Table, live: LiveFiles, census: KeyCensus
) -> None:
    """Fill `gone` with every row of a doubled key but the newest one.

    Rows compare as the order guard compares them: (order_by…, mtime, uri, line), NULL oldest. Of rows that tie there,
    the one of the file with the greatest (data sequence number, place in the snapshot) stays, and in one file the last.
    """
    keys = ", ".join(quote_name(k) for k in declaration.key)
    con.execute(
        f"create or replace table rivals as select __file, __pos, {keys} from live_rows semi join doubled "
        f"using ({keys})"
    )
    order = (*declaration.order_by, *(tie_break(declaration) if declaration.lineage else ()))
    columns = (*order, *([SOURCE_DATE] if declaration.lineage else ()))
    fetch_rows(con, "rival_order", "rivals", columns, reader=TargetReader(table), files=census.files)
    ages = pa.table(
        {
            "__file": pa.array(range(len(live.data)), pa.int32()),
            "age": pa.array([entry.sequence_number or 0 for entry in live.data], pa.int64()),
        }
    )
    con.register("file_ages", ages)
    newest = [*(f"o.{quote_name(c)} desc nulls last" for c in order), "age desc", "__file desc", "__pos desc"]
    old_date = f"o.{quote_name(SOURCE_DATE)}" if declaration.lineage else "null::date"
    con.execute(
        f"""insert into gone select __file, __pos, 'replaced', old_date from (
            select __file, __pos, {old_date} as old_date, row_number() over (
                partition by {", ".join(f"r.{quote_name(k)}" for k in declaration.key)}
                order by {", ".join(newest)}) as place
            from rivals r join rival_order o using (__file, __pos) join file_ages a using (__file))
        where place > 1"""
    )
    con.unregister("file_ages")


def named_doubles(census: KeyCensus) -> str:
    """The first doubled keys for a message."""
    named = "; ".join(f"{d.key} ({d.rows} rows)" for d in census.first)
    return named + ("; …" if census.doubled > len(census.first) else "")


def _read_live(
    con: duckdb.DuckDBPyConnection, table: Table, files: Sequence[TargetFile], columns: Sequence[str]
) -> None:
    """Make the table `live_rows` (__file, __pos, columns…) of the rows that no delete file deletes."""
    batches = TargetReader(table).scan(files, columns)
    first = next(batches, None)
    if first is None:
        names = "".join(f", {quote_name(c)} {'date' if c == SOURCE_DATE else 'varchar'}" for c in columns)
        con.execute(f"create or replace table live_rows (__file int, __pos bigint{names})")
        return
    con.register("target_rows", pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches)))
    try:
        con.execute(
            "create or replace table live_rows as select * from target_rows anti join deleted using (__file, __pos)"
        )
    finally:
        con.unregister("target_rows")


def _dates(con: duckdb.DuckDBPyConnection) -> dict[date | None, int]:
    found = con.execute(f"select {quote_name(SOURCE_DATE)}, count(*) from live_rows group by 1").fetchall()
    return {day: int(count) for day, count in found}


def _first(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> tuple[DoubledKey, ...]:
    found: list[Any] = con.execute(f"select * from doubled order by all limit {NAMED}").fetchall()
    return tuple(DoubledKey(shown_key(declaration, values), int(rows)) for *values, rows in found)


def _count(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((count,),) = con.execute(sql).fetchall()
    return int(count)
