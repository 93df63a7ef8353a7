"""Landing objects into the tables `staged` and `rejects` of a batch.

Owns the two tables and picks the reader by the declared format. Every object goes in within one transaction: all of its
rows or, if it cannot be read as declared, none. Never fetches an object and never merges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from lakehouse.declaration import (
    AvroFormat,
    CsvFormat,
    Declaration,
    JsonFormat,
    JsonlFormat,
    OrcFormat,
    ParquetFormat,
    XmlFormat,
)
from lakehouse.errors import UnreadableObject
from lakehouse.masking import shown_text
from lakehouse.model import ObjectDecision, RowCounts
from lakehouse.naming import LINEAGE, RESCUED, STAGED_LINEAGE, quote_name, quote_text
from lakehouse.read.casts import CastRules
from lakehouse.read.cells import rules_of
from lakehouse.read.csv.group import Head, SmallFile, look, stage_group
from lakehouse.read.csv.reader import read_csv
from lakehouse.read.local_file import HEAD, TAIL, compression_in, ends_of, refuse_foreign
from lakehouse.read.objects.json_document import read_json
from lakehouse.read.objects.jsonl import read_jsonl
from lakehouse.read.objects.xml import read_xml
from lakehouse.read.plain import make_plain
from lakehouse.read.sink import OF_VALUES, REJECTS, ROW_IDS, STAGED, Sink
from lakehouse.read.typed.avro import read_avro
from lakehouse.read.typed.orc import read_orc
from lakehouse.read.typed.parquet import read_parquet
from lakehouse.types import ColumnType


@dataclass(frozen=True, slots=True)
class StagedObject:
    """What came of one object. `missing` are the declared columns that the file lacks: NULL in all of its rows."""

    rows: RowCounts
    missing: tuple[str, ...]


def create_staging(con: duckdb.DuckDBPyConnection, declaration: Declaration) -> None:
    """Create the empty tables and set the session's zone to UTC.

    `staged` has the declared columns in order, then `_source_file`, `_source_line`, `_source_mtime`, `_source_date` and
    `__row_id`, by which later steps know its rows: no number of the engine stays when it compacts a table.
    `rejects` has one row per record that is not staged: uri, first line (row number for Parquet), bad columns joined
    by commas (NULL if the record as a whole is bad), all reasons, and the record's text.
    """
    con.execute("SET TimeZone = 'UTC'")
    columns = [(column.name, column.type.sql) for column in declaration.columns]
    columns += [(name, ColumnType(LINEAGE[name]).sql) for name in STAGED_LINEAGE]
    columns.append(("__row_id", "BIGINT"))
    listed = ", ".join(f"{quote_name(name)} {sql}" for name, sql in columns)
    con.execute(f"CREATE OR REPLACE TABLE {STAGED} ({listed})")
    con.execute(f"CREATE OR REPLACE TEMP SEQUENCE {ROW_IDS}")
    con.execute(
        f"CREATE OR REPLACE TABLE {REJECTS} "
        "(uri VARCHAR, line_number BIGINT, column_name VARCHAR, reason VARCHAR, raw VARCHAR)"
    )


def brought_names(con: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The names in RESCUED of the staged rows, by object: undeclared columns that some row has a value in."""
    column = quote_name(RESCUED)
    found = con.execute(
        f"SELECT _source_file, list(DISTINCT name) FROM (SELECT _source_file, unnest(map_keys({column})) AS name "
        f"FROM {STAGED} WHERE {column} IS NOT NULL) GROUP BY ALL"
    ).fetchall()
    return {str(uri): list(names) for uri, names in found}


def spread_rescued(con: duckdb.DuckDBPyConnection, names: Sequence[str], *, filled: Collection[str]) -> None:
    """Give `staged` a column of text for each name in place of RESCUED, which has values for `filled` ones alone."""
    column = quote_name(RESCUED)
    if not filled:
        for name in names:
            con.execute(f"ALTER TABLE {STAGED} ADD COLUMN {quote_name(name)} VARCHAR")
        con.execute(f"ALTER TABLE {STAGED} DROP COLUMN {column}")
        return
    values = (
        f"map_extract_value({column}, {quote_text(name)})" if name in filled else "NULL::VARCHAR" for name in names
    )
    listed = ", ".join(f"{value} AS {quote_name(name)}" for name, value in zip(names, values, strict=True))
    con.execute(f"CREATE TABLE spread AS SELECT * EXCLUDE ({column}), {listed} FROM {STAGED}")
    con.execute(f"DROP TABLE {STAGED}")
    con.execute(f"ALTER TABLE spread RENAME TO {STAGED}")


def drop_objects(con: duckdb.DuckDBPyConnection, uris: Sequence[str]) -> None:
    """Take the rows and rejects of these objects out again."""
    con.execute(f"DELETE FROM {STAGED} WHERE _source_file IN (SELECT unnest($uris::VARCHAR[]))", {"uris": uris})
    con.execute(f"DELETE FROM {REJECTS} WHERE uri IN (SELECT unnest($uris::VARCHAR[]))", {"uris": uris})


def make_object_plain(path: Path, *, item: ObjectDecision, declaration: Declaration) -> None:
    """Unpack the local copy of an object and, if it is a text, make it UTF-8. Once for each copy, before it is staged.

    Raises UnreadableObject if that cannot be done.
    """
    format = declaration.source.format
    if not item.object.size and not path.stat().st_size:
        raise UnreadableObject(
            f"the object had rows and was overwritten by an empty one: uri={item.object.uri} bytes=0; "
            "land a file with a header alone to say that it has no rows"
        )
    make_plain(path, uri=item.object.uri, encoding=getattr(format, "encoding", None))


def is_plain(data: bytes, declaration: Declaration) -> bool:
    """Whether the content of an object is plain as it is."""
    encoding = getattr(declaration.source.format, "encoding", None)
    return bool(data) and compression_in(data[:HEAD]) is None and encoding in (None, "utf-8")


def stage_object(
    con: duckdb.DuckDBPyConnection, *, path: Path, item: ObjectDecision, declaration: Declaration
) -> StagedObject:
    """Stage the object whose plain content is at `path`; its rows are read, rejected and staged ones.

    Raises UnreadableObject if it cannot be read as declared; nothing of it stays then.
    """
    format = declaration.source.format
    refuse_foreign(*ends_of(path), uri=item.object.uri, format_name=format.type)
    sink = Sink(con, item=item, declaration=declaration, rules=rules_of(format, CastRules()))
    with _blamed(item, declaration):
        match format:
            case CsvFormat():
                missing = read_csv(sink, path, format)
            case JsonlFormat():
                missing = read_jsonl(sink, path)
            case JsonFormat():
                missing = read_json(sink, path, format)
            case XmlFormat():
                missing = read_xml(sink, path, format)
            case ParquetFormat():
                missing = read_parquet(sink, path)
            case OrcFormat():
                missing = read_orc(sink, path)
            case AvroFormat():
                missing = read_avro(sink, path)
    return StagedObject(sink.counts, missing)


@contextmanager
def _blamed(item: ObjectDecision, declaration: Declaration) -> Iterator[None]:
    """A value that a library cannot hold, and that no reader made a reject of, is the object's fault. Every reader's
    transaction ends with the error."""
    try:
        yield
    except OF_VALUES as error:
        reason = shown_text(" ".join(str(error).split())[:200], declaration)
        raise UnreadableObject(
            f"a value that cannot be read: uri={item.object.uri} reason={type(error).__name__}: {reason}"
        ) from None


def stage_small_objects(
    con: duckdb.DuckDBPyConnection,
    *,
    objects: Sequence[tuple[ObjectDecision, bytes]],
    declaration: Declaration,
    folder: Path,
) -> list[StagedObject | UnreadableObject]:
    """Stage several objects whose plain content is in memory, each as `stage_object` would, with fewer statements; what
    came of each, in order. `folder` has room for another copy of them.
    """
    results: dict[str, StagedObject | UnreadableObject] = {}
    if isinstance(declaration.source.format, CsvFormat) and len(objects) > 1:
        results = _stage_together(con, objects, declaration, folder)
    for item, data in objects:
        if item.object.uri not in results:
            path = folder / "small-object"
            path.write_bytes(data)
            try:
                results[item.object.uri] = stage_object(con, path=path, item=item, declaration=declaration)
            except UnreadableObject as error:
                results[item.object.uri] = error
            finally:
                path.unlink()
    return [results[item.object.uri] for item, _ in objects]


def _stage_together(
    con: duckdb.DuckDBPyConnection,
    objects: Sequence[tuple[ObjectDecision, bytes]],
    declaration: Declaration,
    folder: Path,
) -> dict[str, StagedObject | UnreadableObject]:
    """What came of the objects that need not be read one by one, by URI."""
    results: dict[str, StagedObject | UnreadableObject] = {}
    small: list[SmallFile] = []
    heads: list[Head] = []
    format = declaration.source.format
    rules = rules_of(format, CastRules())
    for item, data in objects:
        try:
            refuse_foreign(data[:HEAD], data[-TAIL:], uri=item.object.uri, format_name=format.type)
            sink = Sink(con, item=item, declaration=declaration, rules=rules)
        except UnreadableObject as error:
            results[item.object.uri] = error
            continue
        found = look(sink, data, heads, folder)
        small += [found] if found else []
    for grouped in stage_group(con, small, folder):
        staged = grouped.records - grouped.rejected
        rows = RowCounts(read=grouped.records, rejected=grouped.rejected, staged=staged)
        results[grouped.file.sink.uri] = StagedObject(rows, grouped.file.head.missing)
    return results
