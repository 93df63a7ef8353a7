"""A target in a local SQL catalog and batches of made-up staged rows, for tests of the merge without any server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from lakehouse.create import ensure_table, new_properties
from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.engines.duckdb import open_session
from lakehouse.iceberg import live_files
from lakehouse.merge import Match, Superseded, WrittenFiles, match_target, supersede, write_files
from lakehouse.model import Reference, RowCounts, Sweep
from lakehouse.naming import quote_name
from lakehouse.publish import Change, publish
from lakehouse.schema import target_schema, target_spec
from lakehouse.target import look
from tests.declaration_text import document

DAY = date(2026, 8, 30)
NOTHING = Sweep()


def declare(**fields: str | None) -> Declaration:
    (declaration,) = parse_declarations(document(**fields), path=Path("defs.yaml"), env={})
    return declaration


@dataclass(frozen=True)
class Row:
    """One staged row: business values by column, and where it came from."""

    values: Mapping[str, Any]
    line: int
    uri: str = "s3://landing/orders/a.csv"
    mtime: datetime = datetime(2026, 8, 30, tzinfo=UTC)
    day: date = DAY


@dataclass(frozen=True)
class Merged:
    """What one batch did."""

    match: Match
    superseded: Superseded
    written: WrittenFiles
    snapshot_id: int | None


@dataclass
class Bench:
    """One target table; `merge` runs a batch through supersede, match, write and publish."""

    declaration: Declaration
    folder: Path
    version: int = 0
    catalog: SqlCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.catalog = SqlCatalog(
            "bench", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/warehouse"
        )
        schema = target_schema(self.declaration)
        ensure_table(
            self.catalog,
            self.declaration.table,
            schema=schema,
            spec=target_spec(self.declaration, schema),
            properties=new_properties(self.declaration.table_properties),
            pause=lambda _seconds: None,
        )

    def merge(self, rows: Sequence[Row], sweep: Sweep = NOTHING) -> Merged:
        table = self.catalog.load_table(self.declaration.table)
        target = look(self.declaration.table, self.declaration.context, table)
        live = live_files(table, target.main)
        attempt = hashlib.md5(f"{self.folder}{self.version}".encode()).hexdigest()
        work = self.folder / "work" / str(self.version)
        with closing(open_session(spill=work / "spill", memory_bytes=1 << 30, threads=2)) as con:
            stage(con, self.declaration, rows)
            superseded = supersede(con, self.declaration)
            match = match_target(con, self.declaration, table=table, live=live, sweep=sweep)
            written = write_files(
                con,
                self.declaration,
                match,
                table=table,
                batch_id=f"batch{self.version}",
                attempt_id=attempt,
                ingested_at=datetime(2026, 9, 1, tzinfo=UTC),
                folder=work / "output",
            )
        published = publish(
            self.catalog,
            target,
            Change(
                attempt_id=UUID(hex=attempt).hex,
                batch_id=f"batch{self.version}",
                bookmark_version=self.version + 1,
                manifest=Reference("file:///none", "0"),
                rows=RowCounts(inserted=match.counts.inserted, updated=match.counts.updated),
                added=(*written.added, *written.deletes),
                removed=written.removed,
            ),
            live=live,
            attempts_after=lambda _head, _version: set(),
            pause=lambda _seconds: None,
        )
        self.version += 1
        return Merged(match, superseded, written, published.snapshot_id)

    def rows(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """Every row as PyIceberg reads it."""
        table = self.catalog.load_table(self.declaration.table)
        return table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()

    def live(self) -> int:
        """Rows as the snapshot summary counts them."""
        snapshot = self.catalog.load_table(self.declaration.table).current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        deleted = int(snapshot.summary["total-position-deletes"] or 0)
        return int(snapshot.summary["total-records"]) - deleted

    def summary(self) -> dict[str, str]:
        """Summary of the newest snapshot."""
        snapshot = self.catalog.load_table(self.declaration.table).current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        return dict(snapshot.summary.additional_properties)


def stage(con: duckdb.DuckDBPyConnection, declaration: Declaration, rows: Iterable[Row]) -> None:
    """Fill the table `staged` as `lakehouse.stage` leaves it."""
    names = [c.name for c in declaration.columns]
    columns = ", ".join(f"{quote_name(c.name)} {c.type.sql}" for c in declaration.columns)
    con.execute(
        f"create table staged ({columns}, _source_file varchar, _source_line bigint, "
        "_source_mtime timestamptz, _source_date date, __row_id bigint)"
    )
    records = [
        {
            **{n: r.values.get(n) for n in names},
            "_source_file": r.uri,
            "_source_line": r.line,
            "_source_mtime": r.mtime,
            "_source_date": r.day,
            "__row_id": number,
        }
        for number, r in enumerate(rows)
    ]
    if records:
        con.register("made_up", pa.Table.from_pylist(records))
        con.execute("insert into staged by name select * from made_up")
        con.unregister("made_up")
