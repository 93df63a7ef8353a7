"""Many small regular CSV files as one: planning a statement costs more than reading hundreds of records.

Their data records are put into one file, each behind the number of its file. What is not regular or has line ends in
quotes is left for the reader of single files, so that there is one way to read it. Never raises for what stands in a
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import duckdb
import pyarrow as pa

from lakehouse.errors import UnreadableObject
from lakehouse.read.cells import Relation
from lakehouse.read.csv.reader import (
    CsvFile,
    column_names,
    mask_rejects,
    open_header,
    scan,
    survey_file,
    text_cells,
    texts,
)
from lakehouse.read.csv.records import records
from lakehouse.read.csv.survey import survey
from lakehouse.read.header import missing_columns
from lakehouse.read.local_file import BOM
from lakehouse.read.sink import (
    NEXT_ROW_ID,
    OF_VALUES,
    PARSED,
    REJECTS,
    STAGED,
    Sink,
    SourceRow,
    as_table,
    changed,
    transaction,
)

_NUMBERED = "file_number"


@dataclass(frozen=True, slots=True)
class Head:
    """What stands above the data of a file: its bytes, without a byte order mark, and what they say."""

    raw: bytes
    file: CsvFile
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file of which nothing is known against reading it with others: `data` are its data records, each line with its
    line end; `lines` counts them, which are records where no quoted field spans lines."""

    sink: Sink
    head: Head
    data: bytes
    lines: int

    @property
    def file(self) -> CsvFile:
        """How the file is read; its path is gone."""
        return self.head.file

    @property
    def alike(self) -> tuple[object, ...]:
        """Files for which this is the same can be read by one statement."""
        crlf = self.data.endswith(b"\r\n")
        return self.file.names, self.file.header_lines, tuple(c.value for c in self.sink.path_cells.values()), crlf


@dataclass(frozen=True, slots=True)
class GroupedFile:
    """A file that is staged: all of its `records`, but for those that are rejects."""

    file: SmallFile
    records: int
    rejected: int


def look(sink: Sink, whole: bytes, heads: list[Head], folder: Path) -> SmallFile | None:
    """The file, which holds `whole`, as one of a group; None if it has to be read alone.

    `heads` are those of files looked at before, and get a new one: of files that begin alike one header is read.
    `folder` has room for a copy of the file.
    """
    begin = len(BOM) if whole.startswith(BOM) else 0
    head = next((head for head in heads if whole.startswith(head.raw, begin)), None)
    if head is None:
        path = folder / "csv-head"
        path.write_bytes(whole)
        head = _read_head(sink, path, whole, begin)
        path.unlink()
        if head is None:
            return None
        heads.append(head)
    data = whole[begin + len(head.raw) :]
    if not data:
        return None
    if not data.endswith(b"\n"):
        data += b"\r\n" if b"\r\n" in whole else b"\n"
    return SmallFile(sink, head, data, data.count(b"\n"))


def _read_head(sink: Sink, path: Path, whole: bytes, begin: int) -> Head | None:
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
    end = begin
    for _ in range(file.header_lines):
        end = whole.index(b"\n", end) + 1
    return Head(whole[begin:end], file, missing)


def stage_group(con: duckdb.DuckDBPyConnection, files: Sequence[SmallFile], folder: Path) -> list[GroupedFile]:
    """Stage files that are regular and on which both readers agree; returns those that are staged."""
    groups: defaultdict[tuple[object, ...], list[SmallFile]] = defaultdict(list)
    for file in files:
        groups[file.alike].append(file)
    found = []
    for group in groups.values():
        regular = _regular(group)
        # alone a file is as well off with the reader of single files
        found += _stage(con, regular, folder / "csv-group") if len(regular) > 1 else []
    return found


def _regular(files: Sequence[SmallFile]) -> list[SmallFile]:
    """The files that DuckDB is known to read by the letter, without line ends in quotes.

    Between two files a quote must not be open: only then is their data as regular as that of each.
    """
    dialect = files[0].file.dialect
    data, quote = b"".join(file.data for file in files), dialect.quote.encode()
    if quote and quote in data:
        files = [file for file in files if file.data.count(quote) % 2 == 0]
        data = b"".join(file.data for file in files)
    found = survey(BytesIO(data), dialect)
    if found and not found.multiline:
        return [*files]
    looked = ((file, survey(BytesIO(file.data), dialect)) for file in files)
    return [file for file, found in looked if found and not found.multiline]


def _stage(con: duckdb.DuckDBPyConnection, files: Sequence[SmallFile], path: Path) -> list[GroupedFile]:
    path.write_bytes(b"".join(_behind_number(file, number) for number, file in enumerate(files)))
    try:
        with transaction(con):
            rows = _insert(con, files, path)
            if rows != sum(file.lines for file in files):
                raise _NotAsOne
            flagged = _flagged_lines(con)
            if flagged:
                _reject(con, [(file, flagged[file.sink.uri]) for file in files if file.sink.uri in flagged])
    except (*OF_VALUES, _NotAsOne):
        return []
    finally:
        path.unlink()
    return [GroupedFile(file, file.lines, len(flagged.get(file.sink.uri, ()))) for file in files]


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
    counts = [file.lines for file in files]
    before = [0, *accumulate(counts)]
    return pa.table(
        {
            _NUMBERED: pa.array([str(number) for number in range(len(files))], pa.string()),
            "before": pa.array(before[:-1], pa.int64()),
            "records": pa.array(counts, pa.int64()),
            "uri": pa.array([file.sink.uri for file in files], pa.string()),
            "mtime": pa.array([file.sink.mtime for file in files], pa.timestamp("us", tz="UTC")),
            "day": pa.array([file.sink.landing_date for file in files], pa.date32()),
        }
    )


def _flagged_lines(con: duckdb.DuckDBPyConnection) -> dict[str, list[int]]:
    """Lines of the bad rows, by object."""
    found = con.execute(
        f"SELECT _source_file, list(-_source_line ORDER BY _source_line DESC) FROM {STAGED} "
        "WHERE _source_line < 0 GROUP BY ALL"
    ).fetchall()
    return {str(uri): [int(line) for line in lines] for uri, lines in found}


def _reject(con: duckdb.DuckDBPyConnection, flagged: Sequence[tuple[SmallFile, Sequence[int]]]) -> None:
    """Make rejects of the bad rows, read by the letter. Raises _NotAsOne if that reader finds one of them good."""
    sink, file = flagged[0][0].sink, flagged[0][0].file
    mask_rejects(sink, file)
    positions = [*file.found.values(), *file.rescued.values()]
    rows, uris = [], []
    for small, numbers in flagged:
        for record in records(_picked(small, numbers), file.dialect):
            if record.problem or len(record.fields) != len(file.names):
                raise _NotAsOne
            rows.append(SourceRow(record.line, record.raw, [record.fields[position] for position in positions]))
            uris.append(small.sink.uri)
    batch = as_table(rows, width=len(positions), raws=[sink.shown(row) for row in rows])
    batch = batch.append_column("uri", pa.array(uris, pa.string()))
    found = {name: i for i, name in enumerate(file.found)}
    rescued = {name: i for i, name in enumerate(file.rescued, start=len(found))}
    cells = text_cells(sink, file, found, rescued)
    projection = sink.project(Relation(PARSED, raw="raw"), cells).over(sink.columns_without_value())
    rejected = changed(
        con,
        f"INSERT INTO {REJECTS} SELECT uri, line, {projection.bad_columns}, {projection.reasons}, raw "
        f"FROM {projection.typed} WHERE {projection.bad}",
        {},
        lakehouse_read_batch=batch,
    )
    if not rejected == len(rows) == changed(con, f"DELETE FROM {STAGED} WHERE _source_line < 0", {}):
        raise _NotAsOne


def _picked(small: SmallFile, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    lines = small.data.split(b"\n")
    for number in numbers:
        yield number, lines[number - small.file.header_lines - 1] + b"\n"
