"""Checks the declared SQL before anything is read: what it says, and what its result would be over an empty `staged`.

Every fault is told with the place of `sql` in the declaration and, where it has one, with its own in the SQL file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb

from lakehouse.declaration.problem import Position, Problem
from lakehouse.engines.user_sql import binding, closed_session, first_line
from lakehouse.errors import DeclarationError
from lakehouse.naming import LINEAGE, STAGED_LINEAGE, quote_name
from lakehouse.transform.fitting import misfits
from lakehouse.transform.vetting import Fault, vet
from lakehouse.types import ColumnType

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def check_sql(declaration: Declaration) -> None:
    """Raise DeclarationError, one line for each fault, unless the SQL is a SELECT whose result fits the columns."""
    if declaration.sql is None:
        return
    columns = tuple((column.name, column.type) for column in declaration.columns)
    if faults := _faults(declaration.sql.text, columns):
        raise wrong_sql(declaration, *faults)


def wrong_sql(declaration: Declaration, *faults: Fault, next: str = "lakehouse validate") -> DeclarationError:
    """The error that tells of faults of the declared SQL."""
    assert declaration.sql is not None
    place, file = declaration.position_of("sql"), declaration.sql.file
    lines = []
    for fault in faults:
        position = _position(declaration.sql.text, fault.at)
        where = f"{file}:{position.line}:{position.column}" if position else file
        lines.append(str(Problem(declaration.path, place, "sql", f"{where}: {fault.message}")))
    return DeclarationError("\n".join(lines), next=next)


def staged_columns(columns: tuple[tuple[str, ColumnType], ...]) -> list[tuple[str, ColumnType]]:
    """The columns of `staged` as the SQL sees them, in order."""
    return [*columns, *((name, ColumnType(LINEAGE[name])) for name in STAGED_LINEAGE)]


@lru_cache(maxsize=64)
def _faults(text: str, columns: tuple[tuple[str, ColumnType], ...]) -> tuple[Fault, ...]:
    with closed_session() as con:
        seen = staged_columns(columns)
        if fault := vet(con, text, [name for name, _ in seen]):
            return (fault,)
        typed = ", ".join(f"{quote_name(name)} {kind.sql}" for name, kind in seen)
        con.execute(f"create table given ({typed})")
        con.execute("create view staged as select * from given")
        try:
            result = con.sql(text)
            names, types = result.columns, result.types
        except duckdb.Error as error:
            at = binding(con, text).get("position")
            return (Fault(first_line(error), int(at) if at else None),)
        return tuple(Fault(message) for message in misfits(names, types, dict(columns)))


def _position(text: str, at: int | None) -> Position | None:
    if at is None:
        return None
    before = text.encode()[:at].decode(errors="ignore")
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
