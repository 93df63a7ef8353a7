"""Declarations and landing objects for tests that stage files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.declaration import Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.model import Decision, LandingObject, ObjectDecision, RowCounts
from lakehouse.stage import create_staging, make_object_plain, stage_object

MTIME = datetime(2026, 9, 1, 12, tzinfo=UTC)
DAY = date(2026, 8, 30)
URI = "s3://landing/in/day=2026-08-30/a.csv"


def declared(
    columns: Mapping[str, Any] | None = None,
    *,
    format: Mapping[str, Any] | None = None,
    key: Sequence[str] = ("id",),
    **changes: Any,
) -> Declaration:
    """A table with the columns `id: string` (its key) and `v: string` unless told."""
    columns = dict(columns or {"id": "string", "v": "string"})
    return Declaration.model_validate(
        {
            "table": "analytics.orders",
            "source": {
                "uri": "s3://landing/in/",
                "partition": "day=%Y-%m-%d",
                "format": {"type": "csv", **(format or {})},
            },
            "columns": columns,
            "key": list(key),
            "order_by": [next(iter(columns))],
            "start_date": "2026-01-01",
            **changes,
        }
    )


def planned(uri: str = URI, *, day: date | None = DAY) -> ObjectDecision:
    return ObjectDecision(LandingObject(uri, "etag", 1, MTIME), day, Decision.PLANNED, "new")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one file: declared columns of the staged rows in line order, their lines, the rejects."""

    rows: list[tuple[Any, ...]]
    lines: list[int]
    rejects: list[tuple[int, str | None, str, str | None]]
    counts: RowCounts
    missing: tuple[str, ...] = ()

    @property
    def rejected_lines(self) -> list[int]:
        return [line for line, *_ in self.rejects]


class Staging:
    """A session with staging tables; stages files that it writes into `folder`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: Path, declaration: Declaration) -> None:
        self.con, self.declaration = con, declaration
        self.path = folder / "object"
        create_staging(con, declaration)

    def stage(self, data: bytes, *, item: ObjectDecision | None = None) -> Result:
        self.path.write_bytes(data)
        return self.stage_file(item=item)

    def stage_file(self, *, item: ObjectDecision | None = None) -> Result:
        item = item or planned()
        before = self.result(item.object.uri, RowCounts())
        try:
            make_object_plain(self.path, item=item, declaration=self.declaration)
            staged = stage_object(self.con, path=self.path, item=item, declaration=self.declaration)
        except UnreadableObject:
            assert self.result(item.object.uri, RowCounts()) == before
            raise
        counts = staged.rows
        result = replace(self.result(item.object.uri, counts), missing=staged.missing)
        assert counts.read == counts.rejected + counts.staged
        assert (counts.staged, counts.rejected) == (len(result.rows), len(result.rejects))
        return result

    def result(self, uri: str, counts: RowCounts) -> Result:
        staged = self.con.execute(
            "SELECT * FROM staged WHERE _source_file = $uri ORDER BY _source_line", {"uri": uri}
        ).fetchall()
        rejects = self.con.execute(
            "SELECT line_number, column_name, reason, raw FROM rejects WHERE uri = $uri ORDER BY 1", {"uri": uri}
        ).fetchall()
        width = len(self.declaration.columns)
        return Result([row[:width] for row in staged], [row[width + 1] for row in staged], rejects, counts)

    @property
    def empty(self) -> bool:
        (row,) = self.con.execute("SELECT (SELECT count(*) FROM staged) + (SELECT count(*) FROM rejects)").fetchall()
        return bool(row[0] == 0)


@contextmanager
def staging(folder: Path, declaration: Declaration) -> Iterator[Staging]:
    with duckdb.connect() as con:
        yield Staging(con, folder, declaration)
