"""CSV files into a sink: DuckDB reads the regular ones, the reader by the letter all others.

Both give the same rows, rejects, lines and bytes. DuckDB is believed only where the survey of the bytes vouches for the
file and the number of rows agrees with it; any complaint of DuckDB's sends the file to the other reader. The header is
matched by name here and never by DuckDB; nothing is sniffed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import duckdb

from lakehouse.declaration import CsvFormat
from lakehouse.errors import UnreadableObject
from lakehouse.masking import hidden_columns
from lakehouse.naming import RESCUED, quote_text
from lakehouse.read.cells import Cell, Relation, nulls_of, rescued_cell, text_cell
from lakehouse.read.csv.pieces import Piece, cut
from lakehouse.read.csv.records import Dialect, Record, physical_lines, records
from lakehouse.read.csv.survey import NO_NULL, Survey, survey
from lakehouse.read.csv.trailer import cut_trailer
from lakehouse.read.header import match_columns, missing_columns
from lakehouse.read.local_file import scan_path, skip_bom
from lakehouse.read.masked import masked_csv
from lakehouse.read.sink import RowBuffer, Sink, SourceRow, any_order, transaction

PICKED_BLOCK = 1 << 16
"""Bytes that are split into lines for one wanted line."""
MAX_REFED = 200_000
"""Rejects that the fast way reads again by the letter; a file with more is read by the letter as a whole."""


@dataclass(frozen=True, slots=True)
class CsvFile:
    """One file whose header has been read: `found` has the position of each declared column that it has, `rescued` that
    of each other one that is to be kept.

    `header_lines` counts the physical lines up to the header's end, `header_line` is its first one; a file without a
    header has the declared names.
    """

    path: Path
    format: CsvFormat
    dialect: Dialect
    names: tuple[str, ...]
    header_line: int
    header_lines: int
    found: dict[str, int]
    rescued: dict[str, int]

    @property
    def expected(self) -> str:
        """How many fields a record should have, and who says so."""
        return f"the header has {len(self.names)}" if self.format.header else f"{len(self.names)} are declared"

    @property
    def simple_header(self) -> bool:
        """The header is one line, right below the skipped ones, so that DuckDB can skip it by count."""
        return self.header_line == self.header_lines == self.format.skip_lines + self.format.header


def read_csv(sink: Sink, path: Path, format: CsvFormat) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that it lacks.

    Raises UnreadableObject if it is not as declared.
    """
    counted = None
    if format.trailer:
        counted = cut_trailer(
            path, format.trailer, dialect=dialect_of(format), declaration=sink.declaration, uri=sink.uri
        )
    file = open_header(sink, path, format)
    mask_rejects(sink, file)
    missing = missing_columns(file.found, names=file.names, declaration=sink.declaration, uri=sink.uri)
    regular = survey_file(file) if file.simple_header else None
    if regular is None or not _read_fast(sink, file, regular):
        with transaction(sink.con):
            _read_by_the_letter(sink, file)
    if counted not in (None, records := sink.counts.read):
        sink.forget()
        raise UnreadableObject(
            f"the trailer counts other records than there are: uri={sink.uri} trailer={counted} records={records}"
        )
    return missing


def mask_rejects(sink: Sink, file: CsvFile) -> None:
    """Tell the sink how rejects of the file are shown."""
    hidden = hidden_columns(sink.declaration)
    shown = frozenset(position for name, position in file.found.items() if name not in hidden)
    sink.mask_with(partial(masked_csv, dialect=file.dialect, shown=shown))


def open_header(sink: Sink, path: Path, format: CsvFormat) -> CsvFile:
    """Read the header, if there is one, and match it. Raises UnreadableObject if it is not the declared one."""
    dialect = dialect_of(format)
    declared = tuple(column.source_name for column in sink.declaration.file_columns)
    names, line, lines = declared, format.skip_lines, format.skip_lines
    if format.header:
        header = _header(path, format, dialect, uri=sink.uri)
        names, line, lines = (
            tuple(n or "" for n in header.fields),
            header.line,
            header.line + len(header.raw.splitlines()) - 1,
        )
        if format.columns_by_position and len(names) != len(declared):
            raise UnreadableObject(
                f"the header has another number of columns than declared: "
                f"uri={sink.uri} header={len(names)} declared={len(declared)}"
            )
    if format.columns_by_position:
        names = declared
    matched = match_columns(names, declaration=sink.declaration, uri=sink.uri)
    columns = {column.name: column for column in sink.declaration.file_columns}
    own = {
        position: nulls_of(columns[name], format)
        for name, position in matched.found.items()
        if columns[name].null_values is not None
    }
    return CsvFile(
        path=path,
        format=format,
        dialect=replace(dialect, own_nulls=own),
        names=names,
        header_line=line,
        header_lines=lines,
        found=matched.found,
        rescued=matched.rescued,
    )


def _header(path: Path, format: CsvFormat, dialect: Dialect, *, uri: str) -> Record:
    with path.open("rb") as binary:
        # in a header nothing means NULL
        header = next(_data(binary, replace(dialect, nulls=frozenset()), format.skip_lines, blanks=False), None)
    if header is None:
        raise UnreadableObject(f"the file has no header: uri={uri} skip_lines={format.skip_lines}")
    if header.problem:
        raise UnreadableObject(f"the header cannot be read: uri={uri} line={header.line} reason={header.problem}")
    return header


def dialect_of(format: CsvFormat) -> Dialect:
    return Dialect(
        delimiter=format.delimiter,
        quote=format.quote or "",
        escape=None if format.escape == format.quote else format.escape,
        nulls=frozenset(format.null_values),
        quoted_empty_is_null=format.quoted_empty == "null",
    )


def _lines(binary: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The physical lines of a file, without its byte order mark."""
    skip_bom(binary)
    return physical_lines(binary)


def _data(binary: BinaryIO, dialect: Dialect, skipped_lines: int, *, blanks: bool) -> Iterator[Record]:
    """The records below the first `skipped_lines`; blank lines only if asked for."""
    below = records(islice(_lines(binary), skipped_lines, None), dialect)
    return below if blanks else (record for record in below if record.fields or record.problem)


def text_cells(sink: Sink, file: CsvFile, found: dict[str, int], rescued: dict[str, int]) -> dict[str, Cell]:
    """Cells over text columns `c<position>`; positions as in CsvFile."""
    columns = {column.name: column for column in sink.declaration.columns}
    cells = {
        name: text_cell(
            columns[name],
            f"c{position}",
            rules=sink.rules,
            blank_is_null="" in nulls_of(columns[name], file.format),
        )
        for name, position in found.items()
    }
    if rescued:
        cells[RESCUED] = rescued_cell(columns[RESCUED], {name: f"c{position}" for name, position in rescued.items()})
    return cells


def _read_by_the_letter(sink: Sink, file: CsvFile) -> None:
    with file.path.open("rb") as binary:
        data = _data(binary, file.dialect, file.header_lines, blanks=True)
        total, too_wide = _feed(sink, file, data)
    if total and total == too_wide:
        raise UnreadableObject(f"every record has more fields than {file.expected}: uri={sink.uri} records={total}")


def _feed(
    sink: Sink, file: CsvFile, data: Iterable[Record], suspects: Collection[str] | None = None
) -> tuple[int, int]:
    """Put records into the sink; returns how many were not blank and how many of those had too many fields."""
    positions = [*file.found.values(), *file.rescued.values()]
    found = {name: i for i, name in enumerate(file.found)}
    rescued = {name: i for i, name in enumerate(file.rescued, start=len(found))}
    buffer = RowBuffer(sink, text_cells(sink, file, found, rescued), width=len(positions), suspects=suspects)
    width = len(file.names)
    total = too_wide = 0
    for record in data:
        fields, problem = record.fields, record.problem
        if not fields and problem is None:
            if file.format.blank_lines == "reject":
                buffer.append(SourceRow(record.line, record.raw, problem="the line is blank"))
            continue
        total += 1
        if problem is None and len(fields) != width:
            too_wide += len(fields) > width
            problem = f"{len(fields)} fields where {file.expected}"
        texts = () if problem else [fields[position] for position in positions]
        buffer.append(SourceRow(record.line, record.raw, texts, problem))
    buffer.flush()
    return total, too_wide


def survey_file(file: CsvFile) -> Survey | None:
    """What the file's bytes say: None if DuckDB is not to read it."""
    if not (file.dialect.delimiter + file.dialect.quote).isascii():
        return None
    with file.path.open("rb") as binary:
        skip_bom(binary)
        return survey(binary, file.dialect)


def _read_fast(sink: Sink, file: CsvFile, regular: Survey) -> bool:
    """Read with DuckDB; False, with nothing changed, if the file turns out not to be for it."""
    try:
        with (
            cut(sink.con, file.path, regular, header_lines=file.header_lines, columns=len(file.found)) as pieces,
            any_order(sink.con) if len(pieces) > 1 else nullcontext(),
            transaction(sink.con),
        ):
            # cast above the union: a wide statement takes long to plan
            scans = " UNION ALL ".join(_numbered(sink, file, regular, piece) for piece in pieces)
            rows = sink.add(Relation(f"({scans})"), text_cells(sink, file, file.found, file.rescued))
            flagged = sink.flagged_lines(limit=MAX_REFED + 1)
            if rows != regular.records - file.header_lines or len(flagged) > MAX_REFED:
                raise _NotForDuckDB
    except (duckdb.InvalidInputException, _NotForDuckDB):
        sink.restart()
        return False
    if flagged:
        _refeed(sink, file, regular, flagged)
    return True


class _NotForDuckDB(Exception):
    """The reader by the letter has to read the file."""


def _numbered(sink: Sink, file: CsvFile, regular: Survey, piece: Piece) -> str:
    """The data records of a piece: the declared columns' texts `c<position>` and the first physical line."""
    columns = column_names(file)
    rows = scan(file, piece.path, columns, skip=piece.skip)
    # the window also keeps the casts out of the scan, where DuckDB would turn a bad value into an error
    line = f"{piece.lines} + row_number() OVER ()"
    if regular.multiline:
        feeds = " + ".join(f"length({c}) - length(replace({c}, chr(10), ''))" for c in columns)
        rows = f"(SELECT *, {feeds} AS feeds FROM {rows})"
        line += " + (sum(feeds) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))::BIGINT - feeds"
    return f"(SELECT {', '.join([*texts(sink, file), f'{line} AS line'])} FROM {rows})"


def column_names(file: CsvFile) -> list[str]:
    """What the columns of the file are called in SQL, by position."""
    return [f"c{i}" for i in range(len(file.names))]


def scan(file: CsvFile, path: Path, columns: Sequence[str], *, skip: int) -> str:
    """The records at `path`, which are written as those of `file`, as text columns for a FROM clause.

    No `new_line` is given: told of CRLF, DuckDB finds no row at all. No text means NULL to it: it would let surplus
    fields pass that hold one.
    """
    types = ", ".join(f"'{column}': 'VARCHAR'" for column in columns)
    escape = file.dialect.quote and (file.dialect.escape or file.dialect.quote)
    return (
        f"read_csv({quote_text(scan_path(path))}, auto_detect = false, header = false, columns = {{{types}}}, "
        f"skip = {skip}, delim = {quote_text(file.dialect.delimiter)}, "
        f"quote = {quote_text(file.dialect.quote)}, escape = {quote_text(escape)}, "
        f"nullstr = {quote_text(NO_NULL)}, allow_quoted_nulls = false, encoding = 'utf-8', strict_mode = true, "
        "null_padding = false, parallel = false, compression = 'none', hive_partitioning = false)"
    )


def texts(sink: Sink, file: CsvFile) -> list[str]:
    """The columns of a scan that are read, each with the texts that mean NULL made NULL."""
    kinds = {column.name: column.type.name for column in sink.declaration.columns}
    found = [_text(file, position, kinds[name]) for name, position in file.found.items()]
    return [*found, *(_text(file, position, "string") for position in file.rescued.values())]


def _text(file: CsvFile, position: int, kind: str) -> str:
    column, nulls = f"c{position}", file.dialect.nulls_at(position)
    # an empty text is no value of any other type anyhow
    if not nulls or (nulls == {""} and kind != "string"):
        return column
    listed = ", ".join(quote_text(text) for text in sorted(nulls))
    return f"CASE WHEN {column} IN ({listed}) THEN NULL ELSE {column} END AS {column}"


def _refeed(sink: Sink, file: CsvFile, regular: Survey, flagged: Sequence[int]) -> None:
    """Read the bad rows again by the letter: that gives their bytes and their reasons.

    In a transaction of its own: to delete rows in the one that inserted them makes its commit copy all of them.
    """
    try:
        with transaction(sink.con), file.path.open("rb") as binary:
            suspects = sink.columns_without_value()
            sink.drop_flagged()
            data = _flagged_records(file, binary, regular, flagged)
            _feed(sink, file, data, suspects)
    except BaseException:
        sink.forget()
        raise


def _flagged_records(file: CsvFile, binary: BinaryIO, regular: Survey, flagged: Sequence[int]) -> Iterable[Record]:
    if regular.multiline:
        data = _data(binary, file.dialect, file.header_lines, blanks=True)
        wanted = frozenset(flagged)
        return (record for record in data if record.line in wanted)
    skip_bom(binary)
    return records(_picked_lines(binary, sorted(flagged)), file.dialect)


def _picked_lines(binary: BinaryIO, wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """The lines with these numbers, in order, of a file whose lines all end in a line feed.

    Blocks without a wanted line are only counted: that is what makes a few rejects of a large file cheap.
    """
    left = deque(wanted)
    first, rest = 1, b""
    while left and (chunk := binary.read(PICKED_BLOCK)):
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest += chunk
            continue
        block, rest = rest + chunk[:end], chunk[end:]
        behind = first + block.count(b"\n")
        if left[0] < behind:
            lines = block.split(b"\n")
            while left and left[0] < behind:
                number = left.popleft()
                yield number, lines[number - first] + b"\n"
        first = behind
    if left and left[0] == first and rest:
        yield first, rest
