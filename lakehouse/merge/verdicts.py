"""Decides every hit: unchanged, updated, stale or removed. Writes nothing.

The order columns are read first, where keys hit. A row that is newer or older by them is decided without another look;
rows that tie there are left to `lakehouse.merge.ties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.schema import Schema

from lakehouse.merge.fetch import fetch_rows
from lakehouse.merge.hits import Looked
from lakehouse.merge.order import old_date, order_verdict
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.merge.ties import look_at_hits, settle_looks
from lakehouse.naming import DELETED_AT, LINEAGE, quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def judge(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
    looked: Looked,
) -> None:
    """Move every row of `hits` to `matched` with its verdict and the landing date that its old row came from."""
    if looked is Looked.AT_ALL:
        settle_looks(con, declaration, reader=reader, files=files)
        return
    if not declaration.order_by:
        asked = "select *, null::date as old_date from hits"
        look_at_hits(con, declaration, reader=reader, files=files, asked=asked, ordered=False)
        settle_looks(con, declaration, reader=reader, files=files)
        return
    if looked is Looked.AT_KEYS:
        lineage = [name for name in ("_source_date",) if declaration.lineage]
        fetch_rows(con, "old_order", "hits", [*declaration.order_by, *lineage], reader=reader, files=files)
        con.execute(
            f"""insert into ordered
            select h.__row_id, __file, __pos, {old_date(declaration)}, {order_verdict(declaration)}
            from hits h join old_order o using (__file, __pos)
            join staged s on s.__row_id = h.__row_id"""
        )
        con.execute("drop table old_order")
    con.execute(
        "insert into matched select __row_id, __file, __pos, verdict, old_date from ordered where verdict is not null"
    )
    ((ties,),) = con.execute("select count(*) from ordered where verdict is null").fetchall()
    if ties:
        asked = "select * exclude (verdict) from ordered where verdict is null"
        look_at_hits(con, declaration, reader=reader, files=files, asked=asked, ordered=True)
        settle_looks(con, declaration, reader=reader, files=files)


def keep_old_values(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
) -> tuple[str, ...]:
    """Make the table `kept` (__row_id, columns…) with what an updated row keeps of the target's, and name these.

    Columns that are not declared keep their value on every update; the declared ones where a row is deleted softly.
    """
    carried = carried_columns(declaration, reader.schema)
    soft = tuple(c.name for c in declaration.columns if c.name not in (*declaration.key, *declaration.order_by))
    columns = (*carried, *(soft if declaration.soft_deletes else ()))
    if not columns:
        return ()
    which = "true" if carried else "__row_id in (select __row_id from staged where _is_delete)"
    con.execute(
        "create or replace table keeping as select __row_id, __file, __pos from matched "
        f"where verdict = 'updated' and {which}"
    )
    fetch_rows(con, "old_rows", "keeping", columns, reader=reader, files=files)
    picked = ", ".join(f"o.{quote_name(name)}" for name in columns)
    con.execute(
        f"create or replace table kept as select k.__row_id, {picked} from keeping k "
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
