"""Hard-deleted keys, remembered for `lookback_days + 7` days so that an older insert does not bring a row back.
Of several sources the longest window counts, for all of them write the same keys.

Owns the deleted-keys files beside the manifests: what they hold, when they expire, when they become one. The merge
compares with the table `graves` and decides; this module never touches target or staged rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from lakehouse.merge.order import TIE_BREAK, newest_first
from lakehouse.model import Bookmark, Grave
from lakehouse.naming import quote_name, quote_text
from lakehouse.state import StateStore, read_blobs, write_graves

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MARGIN_DAYS = 7
MOST_FILES = 50
"""With more files than this, the next batch that deletes writes all remembered keys into one."""

_LINEAGE = {
    "_source_date": "DATE",
    "_source_mtime": "TIMESTAMP WITH TIME ZONE",
    "_source_file": "VARCHAR",
    "_source_line": "BIGINT",
    "deleted_at": "TIMESTAMP WITH TIME ZONE",
}


def load_graves(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    bookmark: Bookmark,
    store: StateStore,
    *,
    now: datetime,
    folder: Path,
) -> None:
    """Make the table `graves`: one row, the newest, for each key whose hard delete is still remembered at `now`.

    Columns: the key, `order_by`, `_source_date`, `_source_mtime`, `_source_file`, `_source_line`, `deleted_at`. Empty
    if nothing is remembered, and in modes without a unique key. `folder` is local and takes copies of the files. Raises
    DataError for a file that is missing or altered.
    """
    columns = _columns(declaration)
    typed = ", ".join(f"{quote_name(name)} {kind}" for name, kind in columns.items())
    con.execute(f"create or replace table graves ({typed})")
    files = _counting(bookmark, declaration, now) if declaration.keyed else ()
    if not files:
        return
    con.execute("create or replace table buried as select * from graves")
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(read_blobs(store, [grave.file for grave in files])):
        path = folder / f"graves-{number}.parquet"
        path.write_bytes(data)
        _bury(con, declaration, path)
        path.unlink()
    con.execute(
        f"insert into graves {_newest(declaration, 'select * from buried where deleted_at >= ?')}",
        [remembered_since(declaration, now)],
    )
    con.execute("drop table buried")


def next_graves(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    bookmark: Bookmark,
    store: StateStore,
    *,
    now: datetime,
    place: str,
    folder: Path,
) -> tuple[Grave, ...]:
    """What the next manifest carries as `graves`: the files that still count at `now`, and one of this batch's deletes.

    Reads `winners`, `matched` (verdicts removed and absent) and `graves`, which `load_graves` made. `place` is the
    attempt's folder in the state store, where the file is written once and for ever; `folder` is local.
    """
    kept = _counting(bookmark, declaration, now)
    if not _remembers(declaration):
        return kept
    columns = _columns(declaration)
    names = ", ".join(quote_name(name) for name in columns)
    merge = len(kept) >= MOST_FILES
    older = f" union all by name select {names} from graves" if merge else ""
    con.execute(f"create or replace table newly_dead as {_newest(declaration, _dead(declaration, now) + older)}")
    ((rows, fresh),) = con.execute(
        "select count(*), count(*) filter (deleted_at = ?) from newly_dead", [now]
    ).fetchall()
    if not fresh:
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "deleted_keys.parquet"
    con.execute(
        f"copy (select {names} from newly_dead order by all) to {quote_text(str(path))} "
        "(format parquet, compression zstd)"
    )
    reference = write_graves(store, path.read_bytes(), folder=place)
    path.unlink()
    grave = Grave(reference, now, int(rows))
    return (grave,) if merge else (*kept, grave)


def _remembers(declaration: Declaration) -> bool:
    return declaration.keyed and declaration.delete_when is not None and not declaration.soft_deletes


def remembered_since(declaration: Declaration, now: datetime) -> datetime:
    """A hard delete that a batch has read before this is forgotten."""
    days = max(source.lookback_days for source in declaration.every_source)
    return now - timedelta(days=days + MARGIN_DAYS)


def _counting(bookmark: Bookmark, declaration: Declaration, now: datetime) -> tuple[Grave, ...]:
    """The files whose last delete has not expired."""
    return tuple(grave for grave in bookmark.graves if grave.written_at >= remembered_since(declaration, now))


def _columns(declaration: Declaration) -> dict[str, str]:
    types = {column.name: column.type.sql for column in declaration.columns}
    named = dict.fromkeys((*declaration.key, *declaration.order_by))
    return {**{name: types[name] for name in named}, **_LINEAGE}


def _newest(declaration: Declaration, rows: str) -> str:
    """SQL of the newest row of each key."""
    keys = ", ".join(quote_name(name) for name in declaration.key)
    return f"""select * exclude (place) from (
            select *, row_number() over (partition by {keys} order by {newest_first(declaration)}) as place
            from ({rows}))
        where place = 1"""


def _bury(con: duckdb.DuckDBPyConnection, declaration: Declaration, path: Path) -> None:
    """Add the rows of one file. An older declaration may have had another order or other types: what cannot be said in
    today's is unknown; and another key: such a file names no row of today's."""
    source = f"read_parquet({quote_text(str(path))})"
    there = {name for name, *_ in con.execute(f"describe select * from {source}").fetchall()}
    if not there.issuperset(declaration.key):
        return
    picked = ", ".join(
        f"try_cast({quote_name(name)} as {kind})" if name in there else f"null::{kind}"
        for name, kind in _columns(declaration).items()
    )
    con.execute(f"insert into buried select {picked} from {source}")


def _dead(declaration: Declaration, now: datetime) -> str:
    """SQL of the batch's deletes, less those that are remembered already: to read them again makes them no younger."""
    names = [name for name in _columns(declaration) if name != "deleted_at"]
    same = " and ".join(
        f"g.{quote_name(c)} is not distinct from w.{quote_name(c)}" for c in (*declaration.key, *TIE_BREAK)
    )
    return f"""select {", ".join(f"w.{quote_name(name)}" for name in names)},
            {quote_text(now.isoformat())}::timestamptz as deleted_at
        from winners w join matched m using (__row_id)
        where m.verdict in ('removed', 'absent') and not exists (select 1 from graves g where {same})"""
