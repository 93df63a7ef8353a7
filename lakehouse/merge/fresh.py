"""The rows that a batch adds to the target, with every column of the table, and the partitions that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from lakehouse.merge.layout import duckdb_type
from lakehouse.merge.match import Match
from lakehouse.merge.partition import partition_expressions
from lakehouse.naming import DELETED_AT, quote_name, quote_text

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MATERIALISE_ABOVE = 8
"""With more partitions than this the rows are stored with the number of theirs: each is scanned once per partition."""
FEW_VALUES = 2_000_000
"""Rows with up to so many values in all are stored in any case: they are asked for several times."""


@dataclass(frozen=True, slots=True)
class FreshPart:
    """New rows of one partition: its values in spec order, SQL of the rows and how many they are. Where they stand in
    `fresh_parts`, also the `__part` that they have there."""

    values: tuple[Any, ...]
    rows: str
    count: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """Inserted and updated rows as SQL; `expressions` give their partition values. `few` rows are stored."""

    con: duckdb.DuckDBPyConnection
    rows: str
    columns: str
    expressions: tuple[str, ...]
    few: bool = False

    def stored(self) -> Fresh:
        """The same rows, evaluated once."""
        self.con.execute(f"create or replace table fresh_rows as {self.rows}")
        return replace(self, rows=f"select {self.columns} from fresh_rows", few=True)

    def with_rows(self, more: str) -> Fresh:
        """These rows and those of `more`, which has the same columns."""
        self.con.execute(f"create or replace table more_rows as {self.rows} union all by name {more}")
        return replace(self, rows=f"select {self.columns} from more_rows", few=False)

    def partitions(self) -> list[FreshPart]:
        """The partitions that have rows."""
        if not self.expressions:
            ((count,),) = self.con.execute(f"select count(*) from ({self.rows})").fetchall()
            return [FreshPart((), self.rows, int(count))] if count else []
        picked = ", ".join(f"{e} as __p{i}" for i, e in enumerate(self.expressions))
        self.con.execute(
            "create or replace table parts as select (row_number() over () - 1)::int as __part, * "
            f"from (select {picked}, count(*) as __rows from ({self.rows}) group by all order by all)"
        )
        found = self.con.execute("select * exclude (__part) from parts order by __part").fetchall()
        if self.few or len(found) > MATERIALISE_ABOVE:
            return self._stored_partitions(found)
        return [FreshPart(tuple(p[:-1]), self._matching(number), int(p[-1])) for number, p in enumerate(found)]

    def _matching(self, number: int) -> str:
        """The rows whose partition values are those of part `number`, NULL included."""
        same = " and ".join(
            f"{e} is not distinct from (select __p{i} from parts where __part = {number})"
            for i, e in enumerate(self.expressions)
        )
        return f"select {self.columns} from ({self.rows}) where {same}"

    def _stored_partitions(self, found: Sequence[tuple[Any, ...]]) -> list[FreshPart]:
        same = " and ".join(f"{e} is not distinct from p.__p{i}" for i, e in enumerate(self.expressions))
        kind = "view" if self.few else "table"  # few rows are stored already
        self.con.execute(
            f"create or replace {kind} fresh_parts as select p.__part, f.* from ({self.rows}) f join parts p on {same}"
        )
        stored = f"select {self.columns} from fresh_parts where __part = "
        return [FreshPart(tuple(p[:-1]), f"{stored}{number}", int(p[-1]), number) for number, p in enumerate(found)]


def select_fresh(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    match: Match,
    *,
    table: Table,
    batch_id: str,
    ingested_at: datetime,
) -> Fresh:
    """The rows to add; a deleted row that stays, marked, is one of them."""
    schema = table.schema()
    values = _values(declaration, schema, kept=match.kept, batch_id=batch_id, ingested_at=ingested_at)
    kept = "left join kept k using (__row_id)" if match.kept else ""
    rows = (
        f"select {', '.join(f'{sql} as {quote_name(name)}' for name, sql in values.items())} from winners w {kept} "
        "anti join (select __row_id from matched where verdict <> 'updated') using (__row_id)"
    )
    columns = ", ".join(quote_name(name) for name in values)
    fresh = Fresh(con, rows, columns, tuple(partition_expressions(schema, table.spec())))
    count = match.counts.inserted + match.counts.updated
    return fresh.stored() if count * len(values) <= FEW_VALUES else fresh


def _values(
    declaration: Declaration, schema: Schema, *, kept: Sequence[str], batch_id: str, ingested_at: datetime
) -> Mapping[str, str]:
    """SQL of every column of the table over winners `w` and, where something is kept, the old values `k`."""
    declared = {column.name for column in declaration.columns}
    now = f"{quote_text(ingested_at.isoformat())}::timestamptz"
    ours: dict[str, str] = {}
    if declaration.lineage:
        staged = ("_source_file", "_source_line", "_source_mtime", "_source_date")
        ours = {name: f"w.{quote_name(name)}" for name in staged}
        ours |= {"_batch_id": f"{quote_text(batch_id)}::varchar", "_ingested_at": now}
    if declaration.soft_deletes:
        ours[DELETED_AT] = f"case when w._is_delete then {now} end"

    def value(field: NestedField) -> str:
        name, kind = quote_name(field.name), duckdb_type(field.field_type)
        if field.name in ours:
            return ours[field.name]
        if field.name not in declared:
            return f"k.{name}" if field.name in kept else f"null::{kind}"
        staged = f"w.{name}::{kind}"
        if field.name not in kept:
            return staged
        return f"case when w._is_delete and k.__row_id is not null then k.{name} else {staged} end"

    return {field.name: value(field) for field in schema.fields}
