"""Finds which live rows of the target the batch reaches: by key, and by where they came from. Decides nothing of order.

`hits` are rows whose key a winner has, `gone` rows that die without a staged row of their key (`Sweep`). Only the
columns that are needed to tell are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakehouse.errors import TargetDamaged
from lakehouse.masking import shown_key
from lakehouse.merge.key_look import KeyLook, Orders, Sought
from lakehouse.merge.order import old_date, order_verdict
from lakehouse.merge.prune import above_bounds, between_bounds, null_keys
from lakehouse.merge.target_files import TargetFile, TargetReader, arrow_type, typed
from lakehouse.merge.ties import looked_at, verdict_columns
from lakehouse.model import Sweep
from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

SOURCE_DATE, SOURCE_FILE = "_source_date", "_source_file"
AT_ALL_SHARE = 0.4
GROUP_ROWS = 122_880
FEW_KEYS = 250_000
"""Up to so many winners are looked up in the reading threads; more are left to the engine's own join."""


_BOUNDED = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)


class Looked(StrEnum):
    """What of the target's rows was looked at while their keys were read: `ordered` or `tied` tell it of each hit."""

    AT_KEYS = "keys"
    AT_ORDER = "order"
    AT_ALL = "all"


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Make `hits`, `keyless`, `ordered`, `tied`, `matched` and `gone`, empty."""
    con.execute("create or replace table hits (__row_id bigint, __file int, __pos bigint)")
    con.execute(
        "create or replace table matched (__row_id bigint, __file int, __pos bigint, verdict varchar, old_date date)"
    )
    con.execute("create or replace table keyless (__file int, __pos bigint, name varchar)")
    con.execute(
        "create or replace table ordered (__row_id bigint, __file int, __pos bigint, old_date date, verdict varchar)"
    )
    con.execute(
        "create or replace table tied (__row_id bigint, __file int, __pos bigint, old_date date, "
        "differs boolean, newer boolean, older boolean)"
    )
    con.execute("create or replace table gone (__file int, __pos bigint, cause varchar, old_date date)")


def drop_deleted(con: duckdb.DuckDBPyConnection) -> None:
    """Take rows out of every table of target rows that the table `deleted` names: they are not live."""
    for name in ("hits", "ordered", "tied", "gone"):
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
    reader: TargetReader,
    files: Sequence[TargetFile],
    snapshot_date: date | None,
) -> Looked:
    """Fill `hits` with the rows whose key a winner has; with `snapshot_date` also `gone` with all other rows.

    Rows with a NULL in their key go to the table `keyless` (__file, __pos, name). What is looked at beside the key
    depends on how many hits there may be: `ordered` or `tied` are filled, too, where that spares another look.
    """
    keys = ", ".join(quote_name(k) for k in declaration.key)
    data_files = [target.file for target in files]
    meant = f"(select * from winners where {between_bounds(declaration, reader.schema, data_files)})"
    above = above_bounds(declaration, reader.schema, data_files)
    ((count, newer),) = con.execute(f"select count(*), count(*) filter (where {above}) from {meant}").fetchall()
    looked = _worth_a_look(declaration, reader.schema, files, count, open_ones=count - newer)
    sought = _sought(con, declaration, reader.schema, meant) if snapshot_date is None and count <= FEW_KEYS else None
    beside = _columns(declaration, looked)
    look = KeyLook(declaration.key, sought, spared=[n for n in beside if n not in (*declaration.key, SOURCE_DATE)])
    columns = [*declaration.key, *beside]
    if snapshot_date is not None:
        columns.append(SOURCE_DATE)
    verdicts = {
        Looked.AT_KEYS: "",
        Looked.AT_ORDER: f", {old_date(declaration)} as old_date, {order_verdict(declaration)} as verdict",
        Looked.AT_ALL: f", {verdict_columns(declaration)}",
    }[looked]
    gone_date = f"o.{quote_name(SOURCE_DATE)}" if snapshot_date is not None else "null::date"
    side = ""
    if snapshot_date is not None:
        # winners that are not in the snapshot's truth hit nothing
        side, meant = "left", f"(select * from {meant} semi join truth using ({keys}))"
    with _registered(con, reader.scan(files, list(dict.fromkeys(columns)), look)) as any_rows:
        if any_rows:
            con.execute(
                f"create or replace table met as select s.__row_id, o.__file, o.__pos, {gone_date} as gone_date"
                f"{verdicts} from target_rows o {side} join {meant} s using ({keys})"
            )
    if any_rows:
        con.execute("insert into hits select __row_id, __file, __pos from met where __row_id is not null")
        if snapshot_date is not None:
            con.execute("insert into gone select __file, __pos, 'vanished', gone_date from met where __row_id is null")
        if looked is not Looked.AT_KEYS:
            into = "ordered" if looked is Looked.AT_ORDER else "tied"
            con.execute(f"insert into {into} select * exclude (gone_date) from met where __row_id is not null")
        con.execute("drop table met")
    look.report(con)
    return looked


def _worth_a_look(
    declaration: Declaration, schema: Schema, files: Sequence[TargetFile], winners: int, *, open_ones: int
) -> Looked:
    """Every column where a batch or a snapshot comes again, the order where any row group may be hit, else the key.

    `open_ones` are the winners that may be no newer than the target.
    """
    rows = sum(target.file.record_count for target in files)
    groups = sum(1 + target.file.record_count // GROUP_ROWS for target in files)

    def simple(looked: Looked) -> bool:
        return all(schema.find_field(name).field_type.is_primitive for name in _columns(declaration, looked))

    if open_ones >= AT_ALL_SHARE * rows and simple(Looked.AT_ALL):
        return Looked.AT_ALL
    if declaration.order_by and winners >= groups and simple(Looked.AT_ORDER):
        return Looked.AT_ORDER
    return Looked.AT_KEYS


def _columns(declaration: Declaration, looked: Looked) -> list[str]:
    """Columns that are read beside the key."""
    if looked is Looked.AT_ALL:
        return looked_at(declaration)
    dated = [SOURCE_DATE] if declaration.lineage else []
    return [*declaration.order_by, *dated] if looked is Looked.AT_ORDER else []


def _sought(con: duckdb.DuckDBPyConnection, declaration: Declaration, schema: Schema, winners: str) -> Sought | None:
    """The key column with the most values in the relation `winners`, with them; None if Arrow cannot look them up."""
    types = {name: schema.find_field(name).field_type for name in declaration.key}
    # Arrow tells -0.0 from 0.0, which the engine does not, and looks up no UUID
    exact = [name for name, kind in types.items() if not isinstance(kind, FloatType | DoubleType | UUIDType)]
    if not exact:
        return None
    picked = ", ".join(f"approx_count_distinct({quote_name(name)})" for name in exact)
    (counts,) = con.execute(f"select {picked} from {winners}").fetchall()
    name = max(zip(counts, exact, strict=True))[1]
    bounds = ""
    if order := _order_with_bounds(declaration, schema):
        column = quote_name(order.name)
        ends = (f"if(count({column}) = count(*), {end}({column}), null)" for end in ("min", "max"))
        bounds = "".join(f", {end} as __{number}" for number, end in enumerate(ends))
    found = con.sql(f"select {quote_name(name)}{bounds} from {winners} group by 1 order by 1").to_arrow_table()
    values, *bounded = (column.combine_chunks() for column in found.columns)
    orders = Orders(order.name, *(typed(end, arrow_type(order.field_type)) for end in bounded)) if order else None
    return Sought(name, typed(values, arrow_type(types[name])), orders)


def _order_with_bounds(declaration: Declaration, schema: Schema) -> NestedField | None:
    """The first column of `order_by`, if its type is one whose bounds in a file can be relied on."""
    field = schema.find_field(declaration.order_by[0]) if declaration.order_by else None
    return field if field and isinstance(field.field_type, _BOUNDED) else None


def refuse_null_keys(con: duckdb.DuckDBPyConnection, table: str, files: Mapping[int, TargetFile]) -> None:
    """Raise TargetDamaged if a live row has no key: it can never be matched, so it would stay for ever."""
    found = con.execute(
        "select name, any_value(__file), count(*) from keyless anti join deleted using (__file, __pos) "
        "group by 1 order by 1 limit 1"
    ).fetchall()
    for name, number, count in found:
        raise null_keys(table, name, int(count), files[int(number)].path)


def find_replaced(
    con: duckdb.DuckDBPyConnection,
    *,
    reader: TargetReader,
    files: Sequence[TargetFile],
    sweep: Sweep,
) -> None:
    """Fill `gone` with the rows of replaced dates and objects; `files` are those that can hold such a row."""
    dates = [d for d in sweep.replaced_dates if d is not None]
    condition = f'("{SOURCE_DATE}" in (select unnest($dates::date[]))'
    condition += f' or "{SOURCE_DATE}" is null)' if None in sweep.replaced_dates else ")"
    _sweep_rows(
        con,
        reader.scan(files, [SOURCE_DATE, SOURCE_FILE]),
        f"select __file, __pos, 'replaced', \"{SOURCE_DATE}\" from target_rows "
        f'where {condition} or "{SOURCE_FILE}" in (select unnest($objects::varchar[]))',
        {"dates": dates, "objects": sorted(sweep.replaced_objects)},
    )


def find_retracted(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Sequence[TargetFile],
    sweep: Sweep,
) -> None:
    """Fill `gone` with rows that a retracted object wrote and whose key is not staged any more."""
    keys = ", ".join(quote_name(k) for k in declaration.key)
    _sweep_rows(
        con,
        reader.scan(files, [*declaration.key, SOURCE_DATE, SOURCE_FILE]),
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


def refuse_doubled_keys(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, files: Mapping[int, TargetFile]
) -> None:
    """Raise TargetDamaged if a winner's key stands in two live rows, naming it: either could be the one to update."""
    ((extra,),) = con.execute("select count(*) - count(distinct __row_id) from hits").fetchall()
    if not extra:
        return
    doubled = con.execute(
        "select __row_id, list(distinct __file) from hits group by 1 having count(*) > 1 order by 1 limit 1"
    ).fetchall()
    row_id, numbers = doubled[0]
    keys = ", ".join(quote_name(k) for k in declaration.key)
    values = con.execute(f"select {keys} from staged where __row_id = ?", [row_id]).fetchall()[0]
    named = shown_key(declaration, values)
    raise TargetDamaged(
        f"table {declaration.table} holds a key twice: {named} files={', '.join(files[n].path for n in numbers)}",
        next=f"lakehouse maintain {declaration.table} dedupe --dry-run",
    )


def _date(bounds: dict[int, bytes] | None, field_id: int) -> int | None:
    raw = (bounds or {}).get(field_id)
    return None if raw is None else int(from_bytes(DateType(), raw))


def _days(day: date) -> int:
    return (day - date(1970, 1, 1)).days
