"""Many small regular CSV files as one: planning a statement costs more than reading hundreds of records.

Their data records are put into one file, each behind the number of its file. What is not plain (rejects, quoted line
ends, another header) is left for the reader of single files, so that there is one way to read it. Never raises for
what stands in a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from lakehouse.errors import UnreadableObject
from lakehouse.naming import quote_text
from lakehouse.read.cells import Relation
from lakehouse.read.csv import CsvFile, column_names, open_header, scan, survey_file, text_cells, texts
from lakehouse.read.header import missing_columns
from lakehouse.read.local_file import BOM
from lakehouse.read.sink import NEXT_ROW_ID, STAGED, Sink, changed, transaction

_NUMBERED = "file_number"


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A regular file without line ends in quotes: `data` are its `records` data records, each with its line end."""

    sink: Sink
    file: CsvFile
    records: int
    data: bytes
    missing: tuple[str, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        """Files for which this is the same can be read by one statement."""
        crlf = self.data.endswith(b"\r\n")
        return self.file.names, self.file.header_lines, tuple(c.value for c in self.sink.path_cells.values()), crlf


def look(sink: Sink, path: Path) -> SmallFile | None:
    """The file as one of a group; None if it has to be read alone."""
    format = sink.declaration.source.format
    assert format.type == "csv"
    if format.trailer:
        return None
    try:
        file = open_header(sink, path, format)
        missing = missing_columns(file.found, names=file.names, declaration=sink.declaration, uri=sink.uri)
    except UnreadableObject:
        return None
    regular = survey_file(file) if file.simple_header else None
    if regular is None or regular.multiline or regular.records <= file.header_lines:
        return None
    whole = path.read_bytes()
    begin = len(BOM) if whole.startswith(BOM) else 0
    for _ in range(file.header_lines):
        begin = whole.index(b"\n", begin) + 1
    data = whole[begin:]
    if not data.endswith(b"\n"):
        data += b"\r\n" if b"\r\n" in whole else b"\n"
    return SmallFile(sink, file, regular.records - file.header_lines, data, missing)


def stage_group(con: duckdb.DuckDBPyConnection, files: Sequence[SmallFile], folder: Path) -> list[SmallFile]:
    """Stage files of which no record is a reject; returns those that are staged, all of their records."""
    groups: defaultdict[tuple[object, ...], list[SmallFile]] = defaultdict(list)
    for file in files:
        groups[file.alike].append(file)
    # alone a file is as well off with the reader of single files
    return [file for group in groups.values() if len(group) > 1 for file in _stage(con, group, folder / "csv-group")]


def _stage(con: duckdb.DuckDBPyConnection, files: Sequence[SmallFile], path: Path) -> Iterator[SmallFile]:
    path.write_bytes(b"".join(_behind_number(file, number) for number, file in enumerate(files)))
    try:
        with transaction(con):
            rows = _insert(con, files, path)
            if rows != sum(file.records for file in files):
                raise _NotAsOne
            flagged = _drop_flagged(con)
    except (duckdb.InvalidInputException, _NotAsOne):
        return iter(())
    finally:
        path.unlink()
    return (file for file in files if file.sink.uri not in flagged)


class _NotAsOne(Exception):
    """The files have to be read one by one."""


def _behind_number(file: SmallFile, number: int) -> bytes:
    prefix = f"{number}{file.file.dialect.delimiter}".encode()
    return prefix + file.data[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


def _insert(con: duckdb.DuckDBPyConnection, files: Sequence[SmallFile], path: Path) -> int:
    """INSERT the records of all files, bad ones with a negative line; returns how many there were in all.

    A record counts only if it stands where the survey of its file says.
    """
    first = files[0]
    rows = scan(first.file, path, [_NUMBERED, *column_names(first.file)], skip=0)
    listed = ", ".join([*texts(first.sink, first.file), f"{first.file.header_lines} + place - before AS line"])
    relation = Relation(
        f"(SELECT {listed}, uri, mtime, day FROM (SELECT *, row_number() OVER () AS place FROM {rows}) AS lines "
        f"JOIN lakehouse_read_batch AS files USING ({_NUMBERED}) WHERE place > before AND place <= before + records)"
    )
    projection = first.sink.project(relation, text_cells(first.sink, first.file, first.file.found, first.file.rescued))
    return changed(
        con,
        f"INSERT INTO {STAGED} SELECT {projection.values}, uri, "
        f"CASE WHEN {projection.bad} THEN -line ELSE line END, mtime, day, {NEXT_ROW_ID} FROM {projection.typed}",
        {},
        lakehouse_read_batch=_described(files),
    )


def _described(files: Sequence[SmallFile]) -> pa.Table:
    before = [0]
    for file in files:
        before.append(before[-1] + file.records)
    return pa.table(
        {
            _NUMBERED: pa.array([str(number) for number in range(len(files))], pa.string()),
            "before": pa.array(before[:-1], pa.int64()),
            "records": pa.array([file.records for file in files], pa.int64()),
            "uri": pa.array([file.sink.uri for file in files], pa.string()),
            "mtime": pa.array([file.sink.mtime for file in files], pa.timestamp("us", tz="UTC")),
            "day": pa.array([file.sink.landing_date for file in files], pa.date32()),
        }
    )


def _drop_flagged(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Delete all rows of the objects that have a bad one; returns their URIs."""
    found = con.execute(f"SELECT DISTINCT _source_file FROM {STAGED} WHERE _source_line < 0").fetchall()
    uris = frozenset(str(uri) for (uri,) in found)
    if uris:
        listed = ", ".join(quote_text(uri) for uri in sorted(uris))
        con.execute(f"DELETE FROM {STAGED} WHERE _source_file IN ({listed})").fetchall()
    return uris
