"""The way of source rows into `staged` and `rejects`: cast, flag, and keep the two apart.

Every format hands over a relation and one Cell per declared column. Rows go in with one INSERT; those with a bad cell
carry a negative line, become rejects and are deleted again, so that no row is cast twice and none is lost between two
filters. Counts are those of the INSERT and DELETE statements. Never opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakehouse.declaration import Column, Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.model import ObjectDecision, RowCounts
from lakehouse.naming import quote_name, quote_text
from lakehouse.read.casts import BLANKS, CastRules, cast
from lakehouse.read.header import must_have_value
from lakehouse.read.path_values import path_value

STAGED = "staged"
REJECTS = "rejects"
_BATCH = "lakehouse_read_batch"


@dataclass(frozen=True, slots=True)
class Cell:
    """One declared column as SQL over the source relation.

    `value` is the typed value, NULL if there is none or it cannot be one; `given` is true where the source holds a
    value all the same; `complaint` says what that value is not.
    """

    column: Column
    value: str
    given: str = "false"
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One record that Python has parsed: a text per column in the order of the batch, or what is wrong with it.

    `problem` alone condemns the record; with `problem_columns` it is one more reason beside failed casts.
    """

    line: int
    raw: bytes
    texts: Sequence[str | None]
    problem: str | None = None
    problem_columns: tuple[str, ...] | None = None


def missing_cell(column: Column) -> Cell:
    """A declared column that the file does not have: NULL."""
    return Cell(column, f"NULL::{column.type.sql}")


def text_cell(column: Column, text: str, *, rules: CastRules, blank_is_null: bool) -> Cell:
    """A column whose source is the VARCHAR expression `text`; blanks alone are no value for other types than text."""
    given = "false"
    if column.type.name != "string":
        given = f"trim({text}, {BLANKS}) <> ''" if blank_is_null else f"{text} IS NOT NULL"
    return Cell(column, cast(column.type, text, rules), given, f"not a {column.type}")


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


class Sink:
    """Takes the rows of one object. Raises UnreadableObject at once if the object's path lacks a declared value."""

    def __init__(self, con: duckdb.DuckDBPyConnection, *, item: ObjectDecision, declaration: Declaration) -> None:
        self.con = con
        self.uri = item.object.uri
        self.declaration = declaration
        self._item = item
        self._inserted = self._deleted = self._rejected = 0
        self._path_cells = {column.name: self._path_cell(column) for column in declaration.columns if column.from_path}

    @property
    def counts(self) -> RowCounts:
        """What has arrived so far: read = rejected + staged."""
        staged = self._inserted - self._deleted
        return RowCounts(read=self._rejected + staged, rejected=self._rejected, staged=staged)

    def restart(self) -> None:
        """Forget the counts of a transaction that was rolled back."""
        self._inserted = self._deleted = self._rejected = 0

    def add(self, relation: str, cells: Sequence[Cell]) -> int:
        """INSERT the rows of `relation`, which has a BIGINT column `line`; those to reject get a negative line.

        `cells` are those of the columns that the file can have, in any order. Returns the number of rows.
        """
        ordered = self._ordered(cells)
        values = ", ".join(f"v{i}" for i in range(len(ordered)))
        flagged = f"CASE WHEN {self._bad_row(ordered)} THEN -line ELSE line END"
        rows = self._changed(
            f"INSERT INTO {STAGED} SELECT {values}, $uri, {flagged}, $mtime, $date FROM {self._typed(relation, ordered)}",
            {"uri": self.uri, "mtime": self._item.object.last_modified, "date": self._item.landing_date},
        )
        self._inserted += rows
        return rows

    def reject(self, relation: str, cells: Sequence[Cell], *, raw: str) -> None:
        """INSERT the bad rows of `relation` into the rejects and take the flagged ones out of the staged rows."""
        ordered = self._ordered(cells)
        names, reasons = self._reasons(ordered)
        self._rejected += self._changed(
            f"INSERT INTO {REJECTS} SELECT $uri, line, {names}, {reasons}, {raw} "
            f"FROM {self._typed(relation, ordered)} WHERE {self._bad_row(ordered)}",
            {"uri": self.uri},
        )
        self.drop_flagged()

    def flagged_lines(self, *, limit: int) -> list[int]:
        """Lines of the rows to reject, ascending; one more than `limit` at most."""
        found = self.con.execute(
            f"SELECT -_source_line FROM {STAGED} WHERE _source_line < 0 ORDER BY 1 LIMIT {limit + 1}"
        ).fetchall()
        return [line for (line,) in found]

    def drop_flagged(self) -> None:
        """Delete the flagged rows; they come back as rejects, or as rows if a second parser knows better."""
        self._deleted += self._changed(f"DELETE FROM {STAGED} WHERE _source_line < 0", {})

    def add_batch(self, rows: Sequence[SourceRow], cells: Sequence[Cell], *, width: int) -> None:
        """Add records that Python has parsed: column `c<i>` of the cells is the i-th of the `width` texts."""
        self.con.register(_BATCH, _batch_table(rows, width))
        batch_cells = [*cells, *self._problem_guard()]
        try:
            self.add(_BATCH, batch_cells)
            if self.flagged_lines(limit=0):
                self.reject(_BATCH, batch_cells, raw="raw")
        finally:
            self.con.unregister(_BATCH)
