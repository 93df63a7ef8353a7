"""Finds which live rows of the target the batch reaches: by key, and by where they came from. Decides nothing of order.

`hits` are rows whose key a winner has, `gone` rows that die without a staged row of their key (`Sweep`). Only the
columns that are needed to tell are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DateType

from lakehouse.errors import TargetDamaged
from lakehouse.merge.prune import null_keys
from lakehouse.merge.target_files import TargetFile, scan
from lakehouse.model import Sweep
from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

SOURCE_DATE, SOURCE_FILE = "_source_date", "_source_file"


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Make `hits`, `matched` and `gone`, empty."""
    con.execute("create or replace temp table hits (__row_id bigint, __file int, __pos bigint)")
    con.execute(
        "create or replace temp table matched "
        "(__row_id bigint, __file int, __pos bigint, verdict varchar, old_date date)"
    )
    con.execute("create or replace temp table gone (__file int, __pos bigint, cause varchar, old_date date)")


def drop_deleted(con: duckdb.DuckDBPyConnection) -> None:
    """Take rows out of `hits` and `gone` that the table `deleted` names: they are not live."""
    for name in ("hits", "gone"):
        con.execute(f"delete from {name} using deleted d where {name}.__file = d.__file and {name}.__pos = d.__pos")


def reached_by_date(files: Sequence[TargetFile], schema: Schema, dates: Iterable[date | None]) -> list[TargetFile]:
    """Files that can hold a row of one of these landing dates, by their bounds."""
    wanted = set(dates)
    days = [day for day in wanted if day is not None]
    if SOURCE_DATE not in schema.column_names or not wanted:
        return []
    field_id = schema.find_field(SOURCE_DATE).field_id

    def may_hold(target: TargetFile) -> bool:
        nulls = (target.file.null_value_counts or {}).get(field_id)
        if None in wanted and nulls != 0:
            return True
        low, high = (_date(b, field_id) for b in (target.file.lower_bounds, target.file.upper_bounds))
        return any((low is None or low <= _days(d)) and (high is None or _days(d) <= high) for d in days)

    return [target for target in files if may_hold(target)]


def find_hits(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    files: Sequence[TargetFile],
    snapshot_date: date | None,
) -> None:
    """Fill `hits` with the rows whose key a winner has; with `snapshot_date` also `gone` with all other rows.

    Raises TargetDamaged on a NULL key, naming the column.
    """
    keys = ", ".join(quote_name(k) for k in declaration.key)
    dated = [SOURCE_DATE] if snapshot_date is not None else []
    batches = _refuse_null_keys(declaration, scan(io, files, schema, [*declaration.key, *dated]), files)
    with _registered(con, batches) as any_rows:
        if not any_rows:
            return
        if snapshot_date is None:
            con.execute(f"insert into hits select __row_id, __file, __pos from target_rows join winners using ({keys})")
            return
        con.execute(
            f"create or replace temp table met as select w.__row_id, t.__file, t.__pos, t.{quote_name(SOURCE_DATE)} "
            f"as old_date from target_rows t left join (select * from winners semi join truth using ({keys})) w "
            f"using ({keys})"
        )
    con.execute("insert into hits select __row_id, __file, __pos from met where __row_id is not null")
    con.execute("insert into gone select __file, __pos, 'vanished', old_date from met where __row_id is null")
    con.execute("drop table met")


def find_replaced(
    con: duckdb.DuckDBPyConnection,
    *,
    io: FileIO,
    schema: Schema,
    files: Sequence[TargetFile],
    sweep: Sweep,
) -> None:
    """Fill `gone` with the rows of replaced dates and objects; `files` are those that can hold such a row."""
    dates = [d for d in sweep.replaced_dates if d is not None]
    condition = f'("{SOURCE_DATE}" in (select unnest($dates::date[]))'
    condition += f' or "{SOURCE_DATE}" is null)' if None in sweep.replaced_dates else ")"
    _sweep_rows(
        con,
        scan(io, files, schema, [SOURCE_DATE, SOURCE_FILE]),
        f"select __file, __pos, 'replaced', \"{SOURCE_DATE}\" from target_rows "
        f'where {condition} or "{SOURCE_FILE}" in (select unnest($objects::varchar[]))',
        {"dates": dates, "objects": sorted(sweep.replaced_objects)},
    )


def find_retracted(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    files: Sequence[TargetFile],
    sweep: Sweep,
) -> None:
    """Fill `gone` with rows that a retracted object wrote and whose key is not staged any more."""
    keys = ", ".join(quote_name(k) for k in declaration.key)
    _sweep_rows(
        con,
        scan(io, files, schema, [*declaration.key, SOURCE_DATE, SOURCE_FILE]),
        f"select __file, __pos, 'vanished', t.\"{SOURCE_DATE}\" from target_rows t anti join staged using ({keys}) "
        f'where t."{SOURCE_FILE}" in (select unnest($objects::varchar[]))',
        {"objects": sorted(sweep.retracted_objects)},
    )


def _sweep_rows(
    con: duckdb.DuckDBPyConnection, batches: Iterator[pa.RecordBatch], sql: str, parameters: dict[str, Any]
) -> None:
    with _registered(con, batches) as any_rows:
        if any_rows:
            con.execute(f"insert into gone {sql}", parameters)


@contextmanager
def _registered(con: duckdb.DuckDBPyConnection, batches: Iterator[pa.RecordBatch]) -> Iterator[bool]:
    """The batches as the relation `target_rows`, to be read once; false if there is none."""
    first = next(batches, None)
    if first is None:
        yield False
        return
    con.register("target_rows", pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches)))
    try:
        yield True
    finally:
        con.unregister("target_rows")


def _refuse_null_keys(
    declaration: Declaration, batches: Iterable[pa.RecordBatch], files: Sequence[TargetFile]
) -> Iterator[pa.RecordBatch]:
    """A row without a key can never be matched: it would stay for ever beside its newer versions."""
    paths = {target.number: target.path for target in files}
    for batch in batches:
        for name in declaration.key:
            if nulls := batch.column(name).null_count:
                number = batch.column("__file")[0].as_py()
                raise null_keys(declaration.table, name, nulls, paths[number])
        yield batch


def refuse_doubled_keys(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, files: Mapping[int, TargetFile]
) -> None:
    """Raise TargetDamaged if a winner's key stands in two live rows, naming it: either could be the one to update."""
    doubled = con.execute(
        "select __row_id, list(distinct __file) from hits group by 1 having count(*) > 1 order by 1 limit 1"
    ).fetchall()
    if not doubled:
        return
    row_id, numbers = doubled[0]
    keys = ", ".join(quote_name(k) for k in declaration.key)
    values = con.execute(f"select {keys} from staged where rowid = ?", [row_id]).fetchall()[0]
    named = " ".join(f"{k}={v}" for k, v in zip(declaration.key, values, strict=True))
    raise TargetDamaged(
        f"table {declaration.table} holds a key twice: {named} files={', '.join(files[n].path for n in numbers)}",
        next=f"lakehouse maintain {declaration.table} dedupe --dry-run",
    )


def _date(bounds: dict[int, bytes] | None, field_id: int) -> int | None:
    raw = (bounds or {}).get(field_id)
    return None if raw is None else int(from_bytes(DateType(), raw))


def _days(day: date) -> int:
    return (day - date(1970, 1, 1)).days
