"""CSV by the letter: physical lines into records, with the exact bytes and the first line of each.

The grammar is that of Python's strict csv reader: a field that begins with the quote ends at the next single quote,
which a delimiter or a line end must follow; the line end is CR, LF or CRLF. Unlike that reader it keeps a record's
bytes, knows a quoted text from a plain one, and never gives up on the rest of a file. Memory is bounded by
`MAX_RECORD`. Casts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

MAX_RECORD = 16 << 20
"""Bytes of the longest record; longer ones are rejects."""
CHUNK = 1 << 20
_RAW_KEPT = 64 << 10
_ENDS = b"\r\n"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How fields are written. `nulls` are the texts that mean no value where they are not quoted, `own_nulls` those of
    fields that have a list of their own, by position from 0; `quote` may be empty.

    A doubled quote is always one quote; `escape` takes the next character as it is, inside quotes and outside.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    nulls: frozenset[str] = frozenset({""})
    quoted_empty_is_null: bool = True
    own_nulls: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def nulls_at(self, position: int) -> frozenset[str]:
        """The texts that mean no value in the field at a position."""
        return self.own_nulls.get(position, self.nulls)

    def plain(self, texts: list[str]) -> list[str | None]:
        """The values of a record's texts, of which none is quoted."""
        if not self.own_nulls:
            nulls = self.nulls
            return [None if text in nulls else text for text in texts]
        return [None if text in self.nulls_at(i) else text for i, text in enumerate(texts)]

    def quoted(self, text: str, position: int) -> str | None:
        """A quoted text: only an empty one can mean no value."""
        return None if not text and self.quoted_empty_is_null and "" in self.nulls_at(position) else text


class Record(NamedTuple):
    """One record: 1-based first line, bytes without the line end, and either its fields or what is wrong with it."""

    line: int
    raw: bytes
    fields: list[str | None]
    problem: str | None = None


def physical_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Every line with its 1-based number and its line end. Of a line above MAX_RECORD only the beginning is kept."""
    number, rest = 0, b""
    while chunk := file.read(CHUNK):
        lines = (rest + chunk).splitlines(keepends=True)
        # the last line may go on, and a CR may be half a line end
        rest = lines.pop()
        for line in lines:
            number += 1
            yield number, line
        if rest.endswith(b"\n"):
            number += 1
            yield number, rest
            rest = b""
        elif len(rest) > MAX_RECORD and not rest.endswith(b"\r"):
            rest = rest[: MAX_RECORD + 1]
    if rest:
        yield number + 1, rest


def records(lines: Iterable[tuple[int, bytes]], dialect: Dialect) -> Iterator[Record]:
    """Every record, blank lines too (they have no field). `lines` are in order; gaps are records left out."""
    source = iter(lines)
    delimiter = dialect.delimiter
    marks = [mark.encode() for mark in (dialect.quote, dialect.escape) if mark]
    for number, line in source:
        raw = line.rstrip(_ENDS)
        if any(mark in raw for mark in marks):
            yield from _Careful(source, dialect).read(number, line)
        elif (problem := damage(raw)) is not None:
            yield Record(number, _shown(raw), [], problem)
        elif raw:
            yield Record(number, raw, dialect.plain(raw.decode().split(delimiter)))
        else:
            yield Record(number, raw, [])


def written_fields(raw: bytes, dialect: Dialect) -> list[str] | None:
    """The fields of a record's bytes as they are written, quotes and all; None if they are not one record."""
    lines = iter([*enumerate(raw.splitlines(keepends=True), start=1)])
    first = next(lines, None)
    if first is None:
        return None
    if not (dialect.quote or dialect.escape):
        return raw.decode("utf-8", "surrogateescape").split(dialect.delimiter)
    careful = _Careful(lines, dialect)
    record, *more = careful.read(*first)
    if more or record.problem or next(lines, None) is not None:
        return None
    return careful.written


def damage(raw: bytes) -> str | None:
    """What makes bytes unfit for text, whatever the fields: too long, a NUL, invalid UTF-8."""
    if len(raw) > MAX_RECORD:
        return f"the record is longer than {MAX_RECORD} bytes"
    if b"\0" in raw:
        return f"a NUL at byte {raw.index(0) + 1} of the record"
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return f"invalid UTF-8 at byte {error.start + 1} of the record"
    return None


class _Malformed(Exception):
    """A quoted field goes on after its closing quote."""


class _Careful:
    """Reads one record that holds quotes or escapes and may go over several lines."""

    def __init__(self, source: Iterator[tuple[int, bytes]], dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect
        self._lines: list[tuple[int, str]] = []
        self._bounds: list[tuple[int, int]] = []
        self._above = 0
        self._size = 0
        self._text = ""
        stops = re.escape(dialect.quote) + (re.escape(dialect.escape) if dialect.escape else "")
        self._in_quotes = re.compile(f"[{stops}]")
        plain = re.escape(dialect.delimiter) + (re.escape(dialect.escape) if dialect.escape else "") + r"\r\n"
        self._in_plain = re.compile(f"[{plain}]")

    def read(self, number: int, line: bytes) -> Iterator[Record]:
        """The record that begins with `line`; several if its quote is never closed, one for each line it swallowed."""
        self._take(number, line)
        fields: list[str | None] = []
        position, problem = 0, None
        try:
            while True:
                begin = self._above + position
                value, position = self._field(position, len(fields))
                fields.append(value)
                self._bounds.append((begin, self._above + position))
                if not self._text.startswith(self._dialect.delimiter, position):
                    break
                position += 1
        except _Malformed:
            problem = f"field {len(fields) + 1} goes on after its closing quote"
        except EOFError:
            yield from self._unclosed(f"a quote or escape in field {len(fields) + 1} of line {number} is never closed")
            return
        raw = "".join(text for _, text in self._lines).encode("utf-8", "surrogateescape")
        problem = damage(raw) or problem
        yield Record(number, _shown(raw), [] if problem else fields, problem)

    @property
    def written(self) -> list[str]:
        """The texts of the fields that were read, as they stand in the file."""
        whole = "".join(text for _, text in self._lines)
        return [whole[begin:end] for begin, end in self._bounds]

    def _take(self, number: int, line: bytes) -> None:
        self._above += len(self._text)
        # surrogates keep undecodable bytes until the record is whole
        self._text = line.decode("utf-8", "surrogateescape")
        self._lines.append((number, self._text))
        self._size += len(line)

    def _next_line(self) -> None:
        if self._size > MAX_RECORD:
            raise EOFError
        try:
            number, line = next(self._source)
        except StopIteration:
            raise EOFError from None
        self._take(number, line)

    def _field(self, position: int, number: int) -> tuple[str | None, int]:
        """The field of that number, which begins at `position`, and the position after it."""
        if self._dialect.quote and self._text.startswith(self._dialect.quote, position):
            return self._quoted(position + 1, number)
        return self._plain(position, number)

    def _quoted(self, position: int, number: int) -> tuple[str | None, int]:
        parts: list[str] = []
        quote = self._dialect.quote
        while True:
            stop = self._in_quotes.search(self._text, position)
            if stop is None:
                parts.append(self._text[position:])
                self._next_line()
                position = 0
                continue
            parts.append(self._text[position : stop.start()])
            position = stop.end()
            if stop[0] != quote:
                position = self._escaped(parts, position)
            elif self._text.startswith(quote, position):
                parts.append(quote)
                position += 1
            elif self._ends_field(position):
                return self._dialect.quoted("".join(parts), number), position
            else:
                raise _Malformed

    def _plain(self, position: int, number: int) -> tuple[str | None, int]:
        parts: list[str] = []
        escaped = False
        while True:
            stop = self._in_plain.search(self._text, position)
            end = stop.start() if stop else len(self._text)
            parts.append(self._text[position:end])
            if stop is None or stop[0] != self._dialect.escape:
                text = "".join(parts)
                return (None if text in self._dialect.nulls_at(number) and not escaped else text), end
            escaped = True
            position = self._escaped(parts, stop.end())

    def _escaped(self, parts: list[str], position: int) -> int:
        """Take the character after an escape as it is; a line end lets the record go on."""
        if position >= len(self._text):
            self._next_line()
            position = 0
        size = 2 if self._text.startswith("\r\n", position) else 1
        parts.append(self._text[position : position + size])
        if position + size >= len(self._text) and self._text.endswith(("\r", "\n")):
            self._next_line()
            return 0
        return position + size

    def _ends_field(self, position: int) -> bool:
        rest = self._text[position : position + 1]
        return not rest or rest in "\r\n" or rest == self._dialect.delimiter

    def _unclosed(self, problem: str) -> Iterator[Record]:
        """Every swallowed line is a reject of its own, so that counts and replays see each of them."""
        for number, text in self._lines:
            yield Record(number, _shown(text.encode("utf-8", "surrogateescape")), [], problem)
        if self._size <= MAX_RECORD:
            return
        for number, line in self._source:
            yield Record(number, _shown(line), [], problem)
            if _closes(line, self._dialect):
                return


def _shown(raw: bytes) -> bytes:
    """A record's bytes without the line end; of a record that is too long only the beginning."""
    return raw.rstrip(_ENDS) if len(raw) <= MAX_RECORD else raw[:_RAW_KEPT]


def _closes(line: bytes, dialect: Dialect) -> bool:
    """Whether a line that begins inside quotes ends outside of them."""
    if not dialect.quote:
        return True
    text = line.decode("utf-8", "surrogateescape")
    if dialect.escape and dialect.escape != dialect.quote:
        text = re.sub(re.escape(dialect.escape) + ".", "", text)
    return text.count(dialect.quote) % 2 == 1
