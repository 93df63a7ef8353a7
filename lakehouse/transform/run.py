"""Replaces the staged rows of a batch by what the declared SQL makes of them.

Everything stays in DuckDB. A row of the result that the table could not hold becomes a reject of the record that it
says it comes from; a result that does not say that is refused as a whole. Never touches the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from lakehouse.engines.user_sql import first_line
from lakehouse.errors import DataError
from lakehouse.masking import MASK, hides, shown_text
from lakehouse.model import ACCEPTED_AND_STAGED, Decision, Equation, ObjectOutcome
from lakehouse.naming import STAGED_LINEAGE, quote_name, quote_text
from lakehouse.read.casts import within_years
from lakehouse.read.sink import NEXT_ROW_ID, REJECTS, STAGED
from lakehouse.reconcile import RECORDS
from lakehouse.transform.script import check_sql, staged_columns, wrong_sql
from lakehouse.transform.vetting import Fault

if TYPE_CHECKING:
    from lakehouse.declaration import Column, Declaration

_GIVEN, _RESULT, _OBJECTS, _SELECTED = "sql_given", "sql_result", "sql_objects", "sql_selected"
_OURS = (
    duckdb.OutOfMemoryException,
    duckdb.IOException,
    duckdb.InterruptException,
    duckdb.FatalException,
    duckdb.InternalException,
)
"""Errors that say nothing of the SQL."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """What the SQL left of a batch: each object's counts as they are now, and what was counted on the way.

    `rejected` of an object counts the records that were rejected when it was read and those that a bad row of the
    result came from, `staged` the rows of the result that say they come from it.
    """

    outcomes: tuple[ObjectOutcome, ...]
    equations: tuple[Equation, ...] = ()


def transform(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    outcomes: Sequence[ObjectOutcome],
    *,
    folder: Path,
    batches: Sequence[Collection[str]] | None = None,
) -> Transformed:
    """Put the rows of the declared SQL in place of those in `staged`, and its bad ones into `rejects`.

    `batches` are the URIs of objects whose rows the SQL is given together, one batch after the other; None: all of
    them at once. From here on the session reaches files below `folder` alone. Does nothing where no SQL is declared.
    Raises DeclarationError if the SQL is wrong or fails on a row, DataError if its rows say they come from elsewhere.
    """
    if declaration.sql is None:
        return Transformed(tuple(outcomes))
    check_sql(declaration)
    _shut_in(con, folder)
    con.execute(f"ALTER TABLE {STAGED} RENAME TO {_GIVEN}")
    objects = [o for o in outcomes if o.decision is Decision.CONSUMED]
    ran = _run(con, declaration, batches)
    _check_lineage(con, declaration, objects)
    bad = _reject(con, declaration)
    con.execute(f"DROP TABLE {_GIVEN}")
    con.execute(f"ALTER TABLE {_SELECTED} RENAME TO {STAGED}")
    staged = _by_object(con)
    counted = tuple(_counted(o, staged, bad.records) for o in outcomes)
    return Transformed(counted, _equations(outcomes, counted, ran, bad))


def _shut_in(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """A second lock behind the vetting; DuckDB has no way back from it."""
    con.execute(f"SET allowed_directories = [{quote_text(f'{folder}/')}, {quote_text(f'{folder.resolve()}/')}]")
    con.execute("SET enable_external_access = false")


def _by_object(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    found = con.execute(f"SELECT _source_file, count(*) FROM {STAGED} GROUP BY 1").fetchall()
    return {uri: int(count) for uri, count in found}


@dataclass(frozen=True, slots=True)
class _Ran:
    """Rows that the SQL was given and rows that it gave."""

    given: int = 0
    gave: int = 0


def _run(con: duckdb.DuckDBPyConnection, declaration: Declaration, batches: Sequence[Collection[str]] | None) -> _Ran:
    """Make the table of selected rows, laid out as `staged` is."""
    assert declaration.sql is not None
    columns = staged_columns(tuple((column.name, column.type) for column in declaration.columns))
    names = ", ".join(quote_name(name) for name, _ in columns)
    cast = ", ".join(f"{quote_name(name)}::{kind.sql}" for name, kind in columns)
    (statement,) = con.extract_statements(declaration.sql.text)
    con.execute(f"CREATE TABLE {_SELECTED} AS SELECT * FROM {_GIVEN} LIMIT 0")
    con.execute(f"CREATE TABLE {_OBJECTS} (uri VARCHAR)")
    together = "" if batches is None else f"WHERE _source_file IN (SELECT uri FROM {_OBJECTS})"
    con.execute(f"CREATE VIEW {STAGED} AS SELECT {names} FROM {_GIVEN} {together}")
    ran = _Ran()
    for uris in [()] if batches is None else batches:
        con.execute(f"DELETE FROM {_OBJECTS}")
        con.execute(f"INSERT INTO {_OBJECTS} SELECT unnest($uris::VARCHAR[])", {"uris": list(uris)})
        ((given,),) = con.execute(f"SELECT count(*) FROM {STAGED}").fetchall()
        with _told(declaration):
            con.execute(f"CREATE OR REPLACE VIEW {_RESULT} AS {statement.query}")
            ((gave,),) = con.execute(f"INSERT INTO {_SELECTED} SELECT {cast}, {NEXT_ROW_ID} FROM {_RESULT}").fetchall()
        ran = _Ran(ran.given + int(given), ran.gave + int(gave))
    con.execute(f"DROP VIEW IF EXISTS {_RESULT}")
    con.execute(f"DROP VIEW {STAGED}")
    con.execute(f"DROP TABLE {_OBJECTS}")
    return ran


@contextmanager
def _told(declaration: Declaration) -> Iterator[None]:
    """What DuckDB says of the SQL over the rows of this batch, as an error of the declaration."""
    try:
        yield
    except _OURS:
        raise
    except duckdb.Error as error:
        shown = shown_text(first_line(error), declaration)
        message = f"it fails on the staged rows of {declaration.table}: {shown}; use try_cast or TRY"
        # a traceback would quote the value that the error quotes
        cause = None if hides(declaration) else error
        raise wrong_sql(declaration, Fault(message), next=f"lakehouse load {declaration.table}") from cause


def _check_lineage(con: duckdb.DuckDBPyConnection, declaration: Declaration, objects: Sequence[ObjectOutcome]) -> None:
    """Every row must say that it comes from an object of the batch, with that object's landing date."""
    known = {(o.object.uri, o.landing_date) for o in objects}
    times = [o.object.last_modified for o in objects]
    found = con.execute(
        f"""SELECT _source_file, _source_date, count(*) FILTER (WHERE _source_line IS NULL),
            count(*) FILTER (WHERE (_source_mtime BETWEEN $first AND $last) IS NOT TRUE)
        FROM {_SELECTED} GROUP BY 1, 2 LIMIT {len(known) + 1}""",
        {"first": min(times, default=None), "last": max(times, default=None)},
    ).fetchall()
    for uri, day, lineless, timeless in found:
        where = f"_source_file={uri}"
        if (uri, day) not in known:
            raise _astray(declaration, f"{where} _source_date={day}, which is no object of the batch")
        if lineless:
            raise _astray(declaration, f"{where} _source_line=NULL in {lineless} rows")
        if timeless:
            raise _astray(declaration, f"{where} has a _source_mtime of no object of the batch in {timeless} rows")


def _astray(declaration: Declaration, where: str) -> DataError:
    assert declaration.sql is not None
    return DataError(
        f"table {declaration.table}: a row of {declaration.sql.file} says that it comes from elsewhere: {where}",
        next=f"take {', '.join(STAGED_LINEAGE)} from one row, such as arg_max(…, _source_line), in "
        f"{declaration.path.parent / declaration.sql.file}; then lakehouse load {declaration.table}",
    )


@dataclass(frozen=True, slots=True)
class _Bad:
    """Rows of the result that the table could not hold, and the records that they come from, by object."""

    rows: int
    records: Mapping[str, int]


def _reject(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> _Bad:
    """Move bad rows of the result to the rejects: one for each record, with its first bad row as its text."""
    complaints = list(_complaints(declaration))
    bad = " OR ".join(condition for condition, _, _ in complaints) or "false"
    ((rows,),) = con.execute(f"SELECT count(*) FROM {_SELECTED} WHERE {bad}").fetchall()
    if not rows:
        return _Bad(0, {})
    stray = con.execute(
        f"SELECT _source_file, _source_line FROM {_SELECTED} s ANTI JOIN {_GIVEN} g USING (_source_file, _source_line) "
        f"WHERE {bad} LIMIT 1"
    ).fetchall()
    for uri, line in stray:
        raise _astray(declaration, f"_source_file={uri} _source_line={line}, which the SQL was not given")
    named = ", ".join(f"CASE WHEN {condition} THEN {quote_text(name)} END" for condition, name, _ in complaints)
    reasons = ", ".join(f"CASE WHEN {condition} THEN {quote_text(reason)} END" for condition, _, reason in complaints)
    texts = ", ".join(f"{quote_name(c.name)} := {_shown(c)}" for c in declaration.columns)
    con.execute(
        f"""INSERT INTO {REJECTS}
        SELECT _source_file, _source_line, concat_ws(',', {named}),
            concat_ws('; ', {reasons}) || if(__alike > 1, ' (' || __alike || ' rows of this record)', ''),
            to_json(struct_pack({texts}))::VARCHAR
        FROM (SELECT *, count(*) OVER record AS __alike, row_number() OVER (record ORDER BY __row_id) AS __place
            FROM {_SELECTED} WHERE {bad} WINDOW record AS (PARTITION BY _source_file, _source_line))
        WHERE __place = 1"""
    )
    counted = con.execute(
        f"SELECT _source_file, count(DISTINCT _source_line) FROM {_SELECTED} WHERE {bad} GROUP BY 1"
    ).fetchall()
    con.execute(f"DELETE FROM {_SELECTED} WHERE {bad}")
    return _Bad(int(rows), {uri: int(count) for uri, count in counted})


def _shown(column: Column) -> str:
    value = f"{quote_name(column.name)}::VARCHAR"
    return f"if({value} IS NULL, NULL, {quote_text(MASK)})" if column.pii else value


def _complaints(declaration: Declaration) -> Iterator[tuple[str, str, str]]:
    """Condition over a row of the result, never NULL, with the column that is bad then and the reason."""
    for column in declaration.columns:
        name, value, kind = column.name, quote_name(column.name), column.type
        if declaration.needs_value(column):
            yield f"{value} IS NULL", name, f"{name}: no value after the SQL, and the column needs one"
        if kind.name == "fixed":
            condition = f"coalesce(octet_length({value}) <> {kind.length}, false)"
            yield condition, name, f"{name}: not {kind.length} bytes after the SQL"
        elif kind.name in ("date", "timestamp", "timestamptz"):
            condition = f"coalesce(NOT ({within_years(value, kind.sql)}), false)"
            yield condition, name, f"{name}: after the SQL no {kind} of the years 1 to 9999"


def _counted(outcome: ObjectOutcome, staged: Mapping[str, int], bad: Mapping[str, int]) -> ObjectOutcome:
    uri, rows = outcome.object.uri, outcome.rows
    return replace(outcome, rows=replace(rows, rejected=rows.rejected + bad.get(uri, 0), staged=staged.get(uri, 0)))


def _equations(
    before: Sequence[ObjectOutcome], after: Sequence[ObjectOutcome], ran: _Ran, bad: _Bad
) -> tuple[Equation, ...]:
    """What was accepted was given to the SQL, and what the SQL gave is staged or rejected; the two sides may differ."""
    read, rejected = sum(o.rows.read for o in before), sum(o.rows.rejected for o in before)
    accepted, staged = sum(o.rows.accepted for o in after), sum(o.rows.staged for o in after)
    return (
        Equation(RECORDS, read, rejected + ran.given),
        Equation("sql: rows of its result = staged + rejected", ran.gave, staged + bad.rows),
        Equation(ACCEPTED_AND_STAGED, accepted, staged),
    )
