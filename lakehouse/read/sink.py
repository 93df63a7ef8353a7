"""The way of one object's rows into `staged` and `rejects`.

Rows go in with one INSERT; those with a bad cell carry a negative line, become rejects and are deleted again, so that
no row is cast twice and none is lost between two filters. Counts are those of the INSERT and DELETE statements.
Never opens a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from lakehouse.declaration import Column, Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.masking import hides, whole
from lakehouse.model import ObjectDecision, RowCounts
from lakehouse.naming import quote_name, quote_text
from lakehouse.read.casts import CastRules, cast
from lakehouse.read.cells import Cell, Projection, Relation, project
from lakehouse.read.path_values import path_value

STAGED = "staged"
REJECTS = "rejects"
ROW_IDS = "row_ids"
NEXT_ROW_ID = f"nextval({quote_text(ROW_IDS)})"
BATCH_ROWS = 20_000
BATCH_BYTES = 16 << 20
PARSED = "lakehouse_read_batch"
"""Rows that Python has parsed: an Arrow table that DuckDB finds as the variable of that name in `selected`."""
OF_VALUES = (
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    pa.ArrowInvalid,
)
"""What a library raises at a value that it cannot hold."""
_BATCH = Relation(PARSED, raw="raw", problems=True)


Masker: TypeAlias = Callable[[bytes], bytes | None]
"""The bytes of a record without what may not be shown; None if it cannot be taken apart."""


class SourceRow(NamedTuple):
    """One record that Python has parsed: `texts` in the order of the batch, `raw` its bytes without the line end.

    `problem` and `problem_columns` as in Relation; a record that is condemned has no texts.
    """

    line: int
    raw: bytes
    texts: Sequence[str | None] = ()
    problem: str | None = None
    problem_columns: tuple[str, ...] | None = None


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All statements or none, so that an object that cannot be read leaves nothing behind."""
    con.execute("BEGIN TRANSACTION")
    try:
        yield
    except BaseException:
        con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


@contextmanager
def any_order(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Rows of several relations arrive in any order: else DuckDB reads one relation after the other.

    Stands around a transaction, for in one that failed nothing can be set back.
    """
    ((ordered,),) = con.execute("SELECT current_setting('preserve_insertion_order')").fetchall()
    con.execute("SET preserve_insertion_order = false")
    try:
        yield
    finally:
        con.execute(f"SET preserve_insertion_order = {ordered}")


def selected(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Mapping[str, object],
    *,
    lakehouse_read_batch: pa.Table | None = None,  # noqa: ARG001
) -> list[tuple[Any, ...]]:
    """The rows of a statement that may read from the Arrow table `lakehouse_read_batch`."""
    # a registered table would be kept until the transaction ends, a variable is let go with the statement
    return con.execute(sql, dict(parameters)).fetchall()


def changed(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Mapping[str, object],
    *,
    lakehouse_read_batch: pa.Table | None = None,
) -> int:
    """As `selected`, for a statement that changes rows: how many."""
    ((rows,),) = selected(con, sql, parameters, lakehouse_read_batch=lakehouse_read_batch)
    return int(rows)


class Sink:
    """Takes the rows of one object. Raises UnreadableObject at once if the object's path lacks a declared value."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        *,
        item: ObjectDecision,
        declaration: Declaration,
        rules: CastRules,
    ) -> None:
        self.con = con
        self.uri = item.object.uri
        self.mtime = item.object.last_modified
        self.landing_date = item.landing_date
        self.declaration = declaration
        self.rules = rules
        self._inserted = self._deleted = self._rejected = 0
        self._hides = hides(declaration)
        self._masker: Masker = lambda _: None
        self.path_cells = {column.name: self._path_cell(column) for column in declaration.columns if column.from_path}

    @property
    def counts(self) -> RowCounts:
        """What has arrived so far: read = rejected + staged."""
        staged = self._inserted - self._deleted
        return RowCounts(read=self._rejected + staged, rejected=self._rejected, staged=staged)

    def mask_with(self, masker: Masker) -> None:
        """How the raw texts of rejects are masked in a table that hides values; else and until then, as a whole."""
        self._masker = masker

    def restart(self) -> None:
        """Forget the counts of a transaction that was rolled back."""
        self._inserted = self._deleted = self._rejected = 0

    def forget(self) -> None:
        """Take every row of the object out again: it could not be read after all."""
        changed(self.con, f"DELETE FROM {STAGED} WHERE _source_file = $uri", {"uri": self.uri})
        changed(self.con, f"DELETE FROM {REJECTS} WHERE uri = $uri", {"uri": self.uri})
        self.restart()

    def add(self, relation: Relation, cells: Mapping[str, Cell], *, batch: pa.Table | None = None) -> int:
        """INSERT the rows of `relation`, bad ones with a negative line; returns how many there were in all."""
        projection = self.project(relation, cells)
        rows = changed(
            self.con,
            f"INSERT INTO {STAGED} "
            f"SELECT {projection.values}, $uri, CASE WHEN {projection.bad} THEN -line ELSE line END, $mtime, $date, "
            f"{NEXT_ROW_ID} FROM {projection.typed}",
            {"uri": self.uri, "mtime": self.mtime, "date": self.landing_date},
            lakehouse_read_batch=batch,
        )
        self._inserted += rows
        return rows

    def flagged_lines(self, *, limit: int) -> list[int]:
        """Lines of the bad rows, ascending; no more than `limit` of them."""
        found = self.con.execute(
            f"SELECT -_source_line FROM {STAGED} WHERE _source_line < 0 ORDER BY 1 LIMIT {limit}"
        ).fetchall()
        return [line for (line,) in found]

    def drop_flagged(self) -> None:
        """Delete the bad rows: they come back as rejects, or as rows if a second parser reads them better."""
        self._deleted += changed(self.con, f"DELETE FROM {STAGED} WHERE _source_line < 0", {})

    def reject(
        self,
        relation: Relation,
        cells: Mapping[str, Cell],
        *,
        batch: pa.Table | None = None,
        suspects: Collection[str] | None = None,
    ) -> None:
        """INSERT the bad rows of `relation` into the rejects and take them out of the staged rows.

        `suspects` are the only columns that can be wrong in them (None: any): a wide statement takes long to plan.
        """
        projection = self.project(relation, cells).over(suspects)
        self._rejected += changed(
            self.con,
            f"INSERT INTO {REJECTS} SELECT $uri, line, {projection.bad_columns}, {projection.reasons}, {relation.raw} "
            f"FROM {projection.typed} WHERE {projection.bad}",
            {"uri": self.uri},
            lakehouse_read_batch=batch,
        )
        self.drop_flagged()

    def add_rows(
        self,
        rows: Sequence[SourceRow],
        cells: Mapping[str, Cell],
        *,
        width: int,
        suspects: Collection[str] | None = None,
    ) -> None:
        """Add records that Python has parsed; column `c<i>` of the cells is the i-th of the `width` texts.

        `suspects` are the columns that made these rows bad when another parser read them.
        """
        if suspects is not None:
            rows = self._reject_suspects(rows, cells, width, suspects)
        if not rows:
            return
        self.add(_BATCH, cells, batch=as_table(rows, width=width, raws=()))
        if flagged := set(self.flagged_lines(limit=len(rows))):
            bad = [row for row in rows if row.line in flagged]
            self._reject_rows(bad, cells, width, self.columns_without_value())

    def _reject_suspects(
        self, rows: Sequence[SourceRow], cells: Mapping[str, Cell], width: int, suspects: Collection[str]
    ) -> list[SourceRow]:
        """Reject the rows that are bad in these columns; returns the others. Spares them the wide INSERT."""
        projection = self.project(_BATCH, cells).over(suspects)
        found = selected(
            self.con,
            f"SELECT line FROM {projection.typed} WHERE {projection.bad}",
            {},
            lakehouse_read_batch=as_table(rows, width=width, raws=()),
        )
        lines = {line for (line,) in found}
        if lines:
            self._reject_rows([row for row in rows if row.line in lines], cells, width, suspects)
        return [row for row in rows if row.line not in lines]

    def _reject_rows(
        self, rows: Sequence[SourceRow], cells: Mapping[str, Cell], width: int, suspects: Collection[str]
    ) -> None:
        raws = [self.shown(row) for row in rows]
        self.reject(_BATCH, cells, batch=as_table(rows, width=width, raws=raws), suspects=suspects)

    def shown(self, row: SourceRow) -> str:
        """The raw text of a reject as it may be shown."""
        return readable(self._unhidden(row))

    def _unhidden(self, row: SourceRow) -> bytes:
        if not self._hides:
            return row.raw
        # a record that is condemned was not taken apart, or nobody knows which of its fields is which
        masked = None if row.problem is not None and row.problem_columns is None else self._masker(row.raw)
        return whole(row.raw) if masked is None else masked

    def columns_without_value(self) -> set[str]:
        """The columns that some bad row has no value in."""
        names = [column.name for column in self.declaration.columns]
        missing = ", ".join(f"count(*) > count({quote_name(name)})" for name in names)
        (found,) = self.con.execute(f"SELECT {missing} FROM {STAGED} WHERE _source_line < 0").fetchall()
        return {name for name, lacks in zip(names, found, strict=True) if lacks}

    def project(self, relation: Relation, cells: Mapping[str, Cell]) -> Projection:
        """All declared columns over `relation`, those of the path too."""
        return project(relation, {**cells, **self.path_cells}, self.declaration)

    def _path_cell(self, column: Column) -> Cell:
        assert column.from_path is not None
        text = path_value(column.from_path, uri=self.uri, landing_date=self.landing_date)
        if text is None:
            return Cell(column, f"NULL::{column.type.sql}")
        # a folder's value is written by a program: the formats of the file's people are not for it
        rules = replace(self.rules, date_format=None, timestamp_format=None, decimal=".", thousands=None)
        value = cast(column.type, quote_text(text), rules)
        (row,) = self.con.execute(f"SELECT ({value}) IS NULL").fetchall()
        if row[0]:
            raise UnreadableObject(
                f"the path's value is not a valid {column.type}: uri={self.uri} column={column.name} value={text!r}"
            )
        return Cell(column, value)


class RowBuffer:
    """Collects parsed records and hands them to a sink in batches of bounded size; see `Sink.add_rows`."""

    def __init__(
        self, sink: Sink, cells: Mapping[str, Cell], *, width: int, suspects: Collection[str] | None = None
    ) -> None:
        self._sink, self._cells, self._width, self._suspects = sink, cells, width, suspects
        self._rows: list[SourceRow] = []
        self._bytes = 0

    def append(self, row: SourceRow) -> None:
        self._rows.append(row)
        self._bytes += len(row.raw)
        if len(self._rows) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand over what is left."""
        if self._rows:
            self._sink.add_rows(self._rows, self._cells, width=self._width, suspects=self._suspects)
        self._rows, self._bytes = [], 0


def readable(raw: bytes) -> str:
    """The bytes as text: undecodable ones and NUL escaped as `\\xff`."""
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def as_table(rows: Sequence[SourceRow], *, width: int, raws: Sequence[str]) -> pa.Table:
    """The rows as an Arrow table with the columns of a Relation with problems: `c0`, `c1`, … and, if given, `raw`."""
    nothing = (None,) * width
    texts = [row.texts or nothing for row in rows]
    columns: dict[str, pa.Array[Any]] = {
        f"c{i}": pa.array([text[i] for text in texts], pa.string()) for i in range(width)
    }
    columns["line"] = pa.array([row.line for row in rows], pa.int64())
    columns["problem"] = pa.array([row.problem for row in rows], pa.string())
    columns["problem_columns"] = pa.array([row.problem_columns for row in rows], pa.list_(pa.string()))
    if raws:
        columns["raw"] = pa.array(raws, pa.string())
    return pa.table(columns)
