"""A look over the bytes of a CSV file: whether DuckDB's reader is known to read it by the letter, and how many records
it must find.

Not for DuckDB, as it reads these otherwise than the grammar of csv_records: mixed or single-CR line ends, NUL, blank
lines, blanks beside quotes, escapes, invalid UTF-8, quotes left open, and texts whose meaning hangs on their quotes.
Never casts, never keeps more than a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from lakehouse.read.csv_records import Dialect

BLOCK = 4 << 20
MAX_LINE = 2_000_000
"""Bytes: DuckDB's own limit of a line."""
NO_NULL = "\x01"
"""The text that means NULL for DuckDB, which must have one and lets surplus fields pass that hold it: a file with it
is irregular."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A regular file: its records, preamble and header too, and whether a quoted field spans lines."""

    records: int
    multiline: bool


class _Irregular(Exception):
    """The file is for the reader by the letter."""


def survey(file: BinaryIO, dialect: Dialect) -> Survey | None:
    """Look at everything from the file's position on; None if the file is irregular."""
    counter = _Counter(dialect)
    rest = b""
    try:
        while chunk := file.read(BLOCK):
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            if len(block) - end > MAX_LINE:
                return None
            counter.take(block[:end])
            rest = block[end:]
        counter.take(rest)
        return counter.finish()
    except _Irregular:
        return None


class _Counter:
    """Counts records block by block; a block is whole lines, the last one may lack its line end."""

    def __init__(self, dialect: Dialect) -> None:
        self._quote = dialect.quote.encode()
        self._not_marks = bytes(set(range(256)) - set(self._quote + b"\n"))
        self._blanks = [blank for blank in (b" ", b"\t", b"\v", b"\f") if blank != dialect.delimiter.encode()]
        self._foreign = [b"\0", NO_NULL.encode(), *([dialect.escape.encode()] if dialect.escape else [])]
        # these differ from the same text without quotes, and DuckDB does not tell
        words = {word for word in dialect.nulls if word}
        words |= {""} if "" in dialect.nulls and not dialect.quoted_empty_is_null else set()
        self._quoted_words = [self._quote + word.encode() + self._quote for word in sorted(words)]
        self._crlf: bool | None = None
        self._records = 0
        self._open = self._multiline = False

    def take(self, block: bytes) -> None:
        if not block:
            return
        if any(text in block for text in self._foreign):
            raise _Irregular
        self._line_ends(block)
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError:
                raise _Irregular from None
        if self._open or self._quote in block:
            self._quoted(block)
        else:
            self._records += block.count(b"\n") + (not block.endswith(b"\n"))

    def finish(self) -> Survey:
        if self._open:
            raise _Irregular
        return Survey(self._records, self._multiline)

    def _line_ends(self, block: bytes) -> None:
        # looking for one byte is twenty times faster than counting it or looking for two
        crlf = b"\r" in block
        if crlf and not block.count(b"\r") == block.count(b"\n") == block.count(b"\r\n"):
            raise _Irregular
        if block.endswith(b"\n"):
            if self._crlf not in (None, crlf):
                raise _Irregular
            self._crlf = crlf
        end = b"\r\n" if crlf else b"\n"
        if block.startswith(end) or b"\n" + end in block:
            raise _Irregular

    def _quoted(self, block: bytes) -> None:
        beside = [
            text for blank in self._blanks if blank in block for text in (blank + self._quote, self._quote + blank)
        ]
        if any(text in block for text in (*beside, *self._quoted_words)):
            raise _Irregular
        # only quotes and line feeds are left, and of the quotes between two line feeds none or one
        marks = block.translate(None, self._not_marks).replace(self._quote * 2, b"")
        parts = marks.split(self._quote)
        outside, inside = (parts[1::2], parts[0::2]) if self._open else (parts[0::2], parts[1::2])
        self._records += sum(part.count(b"\n") for part in outside)
        self._multiline |= any(b"\n" in part for part in inside)
        self._open ^= len(parts) % 2 == 0
        self._records += not self._open and not block.endswith(b"\n")
