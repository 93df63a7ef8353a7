"""Finds the target rows that staged keys hit and decides each: unchanged, updated or stale. Writes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from lakehouse.errors import TargetDamaged
from lakehouse.merge.order import not_older, same_content
from lakehouse.merge.prune import candidates
from lakehouse.merge.target_files import LocalFile, copy_files, key_batches, select_rows
from lakehouse.naming import quote_name
from lakehouse.schema import target_columns

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """How the winners of a batch fared; they add up to the winners."""

    inserted: int
    updated: int
    unchanged: int
    stale: int


@dataclass(frozen=True, slots=True)
class Match:
    """Files of the target that the batch reaches.

    `files` are the candidates by file number, `rewritten` local copies of those with at least one updated row. The
    temp table `matched` has (row_id, file_number, pos, verdict, old_date).
    """

    counts: MatchCounts
    files: tuple[DataFile, ...]
    rewritten: tuple[LocalFile, ...]


def match_target(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    files: Sequence[DataFile],
    folder: Path,
) -> Match:
    """Match the view `winners` with the target's live data files.

    Raises TargetDamaged if a live key is NULL or stands in two rows, naming it.
    """
    reached = candidates(con, declaration, schema, files)
    paths = [f.file_path for f in reached]
    _find_hits(con, declaration, io=io, schema=schema, paths=paths)
    _refuse_doubled_keys(con, declaration, paths)
    numbers = [int(n) for (n,) in con.execute("select distinct file_number from hits order by 1").fetchall()]
    local = copy_files(io, [(n, paths[n]) for n in numbers], folder)
    _compare(con, declaration, schema, local)
    changed = {
        int(n) for (n,) in con.execute("select distinct file_number from matched where verdict = 'updated'").fetchall()
    }
    for file in local:
        if file.number not in changed:
            file.path.unlink()
    return Match(_count(con), reached, tuple(f for f in local if f.number in changed))


def _find_hits(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    io: FileIO,
    schema: Schema,
    paths: Sequence[str],
) -> None:
    con.execute("create or replace temp table hits (row_id bigint, file_number int, pos bigint)")
    if not paths:
        return
    batches = key_batches(io, table=declaration.table, schema=schema, key=declaration.key, paths=paths)
    first = next(batches, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    keys = ", ".join(quote_name(k) for k in declaration.key)
    con.register("target_keys", reader)
    try:
        con.execute(f"insert into hits select row_id, file_number, pos from target_keys join winners using ({keys})")
    finally:
        con.unregister("target_keys")


def _refuse_doubled_keys(con: duckdb.DuckDBPyConnection, declaration: Declaration, paths: Sequence[str]) -> None:
    doubled = con.execute(
        "select row_id, list(distinct file_number) from hits group by 1 having count(*) > 1 order by 1 limit 1"
    ).fetchall()
    if not doubled:
        return
    row_id, numbers = doubled[0]
    keys = ", ".join(quote_name(k) for k in declaration.key)
    values = con.execute(f"select {keys} from staged where rowid = ?", [row_id]).fetchall()[0]
    named = " ".join(f"{k}={v}" for k, v in zip(declaration.key, values, strict=True))
    raise TargetDamaged(
        f"table {declaration.table} holds a key twice: {named} files={', '.join(paths[n] for n in numbers)}",
        next=f"delete the extra rows of that key from {declaration.table}, then run the load again",
    )


def _compare(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    schema: Schema,
    files: Sequence[LocalFile],
) -> None:
    con.execute(
        "create or replace temp table matched "
        "(row_id bigint, file_number int, pos bigint, verdict varchar, old_date date)"
    )
    if not files:
        return
    old_date = 't."_source_date"' if declaration.lineage else "null"
    con.execute(
        f"""insert into matched
        select h.row_id, h.file_number, h.pos,
            case when {same_content(declaration, "s", "t")} then 'unchanged'
                 when {not_older(declaration, "s", "t")} then 'updated'
                 else 'stale' end,
            {old_date}
        from ({select_rows(files, schema, target_columns(declaration))}) t
        join hits h using (file_number, pos)
        join (select rowid as row_id, * from staged) s on s.row_id = h.row_id"""
    )


def _count(con: duckdb.DuckDBPyConnection) -> MatchCounts:
    verdicts = {v: int(n) for v, n in con.execute("select verdict, count(*) from matched group by 1").fetchall()}
    ((winners,),) = con.execute("select count(*) from winners").fetchall()
    return MatchCounts(
        inserted=int(winners) - sum(verdicts.values()),
        updated=verdicts.get("updated", 0),
        unchanged=verdicts.get("unchanged", 0),
        stale=verdicts.get("stale", 0),
    )
