"""Decides every hit: unchanged, updated, stale or removed. Writes nothing.

The order columns are read first, where keys hit. A row that is newer or older by them is decided without another look;
only rows that tie there are compared column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakehouse.merge.layout import column_expression, duckdb_type
from lakehouse.merge.order import newer, not_older, same_content, tie_break
from lakehouse.merge.target_files import TargetFile, rows_at
from lakehouse.naming import DELETED_AT, LINEAGE, quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

HITS_AT_ONCE = 2_000_000
"""Positions that are handed to the reader of files at once."""


def judge(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    files: Mapping[int, TargetFile],
) -> None:
    """Move every row of `hits` to `matched` with its verdict and the landing date that its old row came from."""
    lineage = [name for name in ("_source_date",) if declaration.lineage]
    fetch_rows(con, "old_order", "hits", [*declaration.order_by, *lineage], io=io, schema=schema, files=files)
    old_date = 'o."_source_date"' if declaration.lineage else "null"
    deleted = "s._is_delete" if declaration.hard_deletes else "false"
    con.execute(
        f"""create or replace temp table ordered as
        select h.__row_id, __file, __pos, {old_date} as old_date,
            case when {newer(declaration.order_by, "s", "o")} then if({deleted}, 'removed', 'updated')
                 when {newer(declaration.order_by, "o", "s")} then 'stale' end as verdict
        from hits h join old_order o using (__file, __pos)
        join (select rowid as __row_id, * from staged) s on s.__row_id = h.__row_id"""
    )
    con.execute("drop table old_order")
    con.execute(
        "insert into matched select __row_id, __file, __pos, verdict, old_date from ordered where verdict is not null"
    )
    con.execute("create or replace temp table ties as select * exclude (verdict) from ordered where verdict is null")
    con.execute("drop table ordered")
    ((ties,),) = con.execute("select count(*) from ties").fetchall()
    if ties:
        _judge_ties(con, declaration, deleted, io=io, schema=schema, files=files)


def _judge_ties(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    deleted: str,
    *,
    io: FileIO,
    schema: Schema,
    files: Mapping[int, TargetFile],
) -> None:
    business = [c.name for c in declaration.columns if c.name not in (*declaration.key, *declaration.order_by)]
    more = [
        *(tie_break(declaration) if declaration.lineage else ()),
        *([DELETED_AT] if declaration.soft_deletes else ()),
    ]
    fetch_rows(con, "old_rows", "ties", [*business, *more], io=io, schema=schema, files=files)
    con.execute(
        f"""insert into matched
        select t.__row_id, __file, __pos,
            case when {deleted} then if({not_older(declaration, "s", "o")}, 'removed', 'stale')
                 when {same_content(declaration, "s", "o")} then 'unchanged'
                 when {not_older(declaration, "s", "o")} then 'updated'
                 else 'stale' end,
            t.old_date
        from ties t join old_rows o using (__file, __pos)
        join (select rowid as __row_id, * from staged) s on s.__row_id = t.__row_id"""
    )
    con.execute("drop table old_rows")


def keep_old_values(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    files: Mapping[int, TargetFile],
) -> tuple[str, ...]:
    """Make the temp table `kept` (__row_id, columns…) with what an updated row keeps of the target's, and name these.

    Columns that are not declared keep their value on every update; the declared ones where a row is deleted softly.
    """
    carried = carried_columns(declaration, schema)
    soft = tuple(c.name for c in declaration.columns if c.name not in (*declaration.key, *declaration.order_by))
    columns = (*carried, *(soft if declaration.soft_deletes else ()))
    if not columns:
        return ()
    which = "true" if carried else "__row_id in (select rowid from staged where _is_delete)"
    con.execute(
        "create or replace temp table keeping as select __row_id, __file, __pos from matched "
        f"where verdict = 'updated' and {which}"
    )
    fetch_rows(con, "old_rows", "keeping", columns, io=io, schema=schema, files=files)
    picked = ", ".join(f"o.{quote_name(name)}" for name in columns)
    con.execute(
        f"create or replace temp table kept as select k.__row_id, {picked} from keeping k "
        "join old_rows o using (__file, __pos)"
    )
    con.execute("drop table old_rows")
    con.execute("drop table keeping")
    return columns


def carried_columns(declaration: Declaration, schema: Schema) -> tuple[str, ...]:
    """Columns of the table that are neither declared nor written by us."""
    ours = {c.name for c in declaration.columns}
    ours |= set(LINEAGE) if declaration.lineage else set()
    ours |= {DELETED_AT} if declaration.soft_deletes else set()
    return tuple(f.name for f in schema.fields if f.name not in ours)


def fetch_rows(
    con: duckdb.DuckDBPyConnection,
    name: str,
    places: str,
    columns: Sequence[str],
    *,
    io: FileIO,
    schema: Schema,
    files: Mapping[int, TargetFile],
) -> None:
    """Make the temp table `name` (__file, __pos, columns… typed as the table's) for the rows of table `places`."""
    fields = [schema.find_field(column) for column in dict.fromkeys(columns)]
    typed = "".join(f", {quote_name(f.name)} {duckdb_type(f.field_type)}" for f in fields)
    con.execute(f"create or replace temp table {name} (__file int, __pos bigint{typed})")
    for wanted in _positions(con, places, files):
        for file_schema, rows in rows_at(io, wanted, schema, [f.name for f in fields]):
            picked = "".join(f", {column_expression(f, file_schema)}" for f in fields)
            con.register("some_rows", rows)
            con.execute(f"insert into {name} select __file, __pos{picked} from some_rows")
            con.unregister("some_rows")


def _positions(
    con: duckdb.DuckDBPyConnection, places: str, files: Mapping[int, TargetFile]
) -> Iterator[list[tuple[TargetFile, Any]]]:
    """Positions by file, ascending, for some files at a time."""
    counts = con.execute(
        f"select __file, count(*) from {places} where __pos is not null group by 1 order by 1"
    ).fetchall()
    group: list[tuple[int, int]] = []
    total = 0
    for number, count in counts:
        group.append((number, count))
        total += count
        if total >= HITS_AT_ONCE:
            yield _take(con, places, group, files)
            group, total = [], 0
    if group:
        yield _take(con, places, group, files)


def _take(
    con: duckdb.DuckDBPyConnection, places: str, group: Sequence[tuple[int, int]], files: Mapping[int, TargetFile]
) -> list[tuple[TargetFile, Any]]:
    found = con.sql(
        f"select __pos from {places} where __file between ? and ? order by __file, __pos",
        params=[group[0][0], group[-1][0]],
    ).to_arrow_table()
    positions = found.column(0).combine_chunks()
    taken = []
    start = 0
    for number, count in group:
        taken.append((files[number], positions.slice(start, count)))
        start += count
    return taken
