"""Orders the rows of one batch by key: the newest wins, the others are superseded. Never touches the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from lakehouse.merge.order import newest_first
from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Superseded:
    """Rows that lost inside the batch, and keys whose rows tie in `order_by` and differ in content."""

    rows: int
    conflicting: int


def supersede(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> Superseded:
    """Make the view `winners`: staged rows, one per key (per key and landing date where dates are replaced, every row
    where nothing is keyed); the table `losers` holds the others.

    Only keys that occur more than once are ordered, so a batch without duplicates costs one aggregation.
    """
    unique = _unique(declaration)
    if not unique:
        con.execute("create or replace table losers (__row_id bigint)")
        con.execute("create or replace view winners as select * from staged")
        return Superseded(0, 0)
    keys = ", ".join(quote_name(k) for k in unique)
    con.execute(f"create or replace table doubled as select {keys} from staged group by all having count(*) > 1")
    con.execute(
        f"""create or replace table losers as
        select __row_id from (
            select __row_id, row_number() over (partition by {_of("s", unique)}
                order by {newest_first(declaration)}) as place
            from staged s semi join doubled using ({keys}))
        where place > 1"""
    )
    (rows,) = _one(con, "select count(*) from losers")
    only_winners = "where __row_id not in (select __row_id from losers)" if rows else ""
    con.execute(f"create or replace view winners as select * from staged {only_winners}")
    return Superseded(rows, _conflicting(con, declaration, keys) if rows else 0)


def _unique(declaration: Declaration) -> tuple[str, ...]:
    """The columns that only one row of a batch may share; none in modes that keep every row."""
    if declaration.keyed:
        return declaration.key
    if declaration.write == "replace_partition" and declaration.key:
        return (*declaration.key, "_source_date")
    return ()


def _conflicting(con: duckdb.DuckDBPyConnection, declaration: Declaration, keys: str) -> int:
    groups = ", ".join(quote_name(c) for c in dict.fromkeys((*declaration.key, *declaration.order_by)))
    content = ", ".join(quote_name(c.name) for c in declaration.columns)
    (count,) = _one(
        con,
        f"""select count(*) from (
            select {groups} from (select distinct {content} from staged semi join doubled using ({keys}))
            group by {groups} having count(*) > 1)""",
    )
    return count


def _of(alias: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{alias}.{quote_name(c)}" for c in columns)


def _one(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, ...]:
    return tuple(int(v) for v in con.execute(sql).fetchall()[0])
