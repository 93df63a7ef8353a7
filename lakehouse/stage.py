"""Landing objects into the temp tables `staged` and `rejects` of a batch.

Owns the two tables and picks the reader by the declared format. Every object goes in within one transaction: all of its
rows or, if it cannot be read as declared, none. Never fetches an object and never merges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from lakehouse.declaration import CsvFormat, Declaration, JsonlFormat, ParquetFormat
from lakehouse.model import ObjectDecision, RowCounts
from lakehouse.naming import LINEAGE, STAGED_LINEAGE, quote_name
from lakehouse.read.casts import CastRules
from lakehouse.read.csv import read_csv
from lakehouse.read.jsonl import read_jsonl
from lakehouse.read.local_file import refuse_foreign
from lakehouse.read.parquet import read_parquet
from lakehouse.read.sink import REJECTS, STAGED, Sink
from lakehouse.types import ColumnType


@dataclass(frozen=True, slots=True)
class StagedObject:
    """What came of one object. `missing` are the declared columns that the file lacks: NULL in all of its rows."""

    rows: RowCounts
    missing: tuple[str, ...]


def create_staging(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> None:
    """Create the empty temp tables and set the session's zone to UTC.

    `staged` has the declared columns in order, then `_source_file`, `_source_line`, `_source_mtime`, `_source_date`;
    `rejects` has one row per record that is not staged: uri, first line (row number for Parquet), bad columns joined
    by commas (NULL if the record as a whole is bad), all reasons, and the record's text.
    """
    con.execute("SET TimeZone = 'UTC'")
    columns = [(column.name, column.type.sql) for column in declaration.columns]
    columns += [(name, ColumnType(LINEAGE[name]).sql) for name in STAGED_LINEAGE]
    listed = ", ".join(f"{quote_name(name)} {sql}" for name, sql in columns)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {STAGED} ({listed})")
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {REJECTS} "
        "(uri VARCHAR, line_number BIGINT, column_name VARCHAR, reason VARCHAR, raw VARCHAR)"
    )


def stage_object(
    con: duckdb.DuckDBPyConnection, *, path: Path, item: ObjectDecision, declaration: Declaration
) -> StagedObject:
    """Stage the object whose bytes are at `path`; its rows are read, rejected and staged ones.

    Raises UnreadableObject if it cannot be read as declared; nothing of it stays then.
    """
    format = declaration.source.format
    refuse_foreign(path, uri=item.object.uri, format_name=format.type)
    sink = Sink(con, item=item, declaration=declaration, rules=_rules(format))
    match format:
        case CsvFormat():
            missing = read_csv(sink, path, format)
        case JsonlFormat():
            missing = read_jsonl(sink, path, format)
        case ParquetFormat():
            missing = read_parquet(sink, path)
    return StagedObject(sink.counts, missing)


def _rules(format: CsvFormat | JsonlFormat | ParquetFormat) -> CastRules:
    if isinstance(format, ParquetFormat):
        return CastRules(timezone=format.timezone)
    words = format.booleans
    default = CastRules()
    return CastRules(
        timezone=format.timezone,
        date_format=format.date_format,
        timestamp_format=format.timestamp_format,
        dst_overlap=format.dst_overlap,
        true_words=words.true if words else default.true_words,
        false_words=words.false if words else default.false_words,
        binary=format.binary,
    )
