"""A look over the bytes of a CSV file: whether DuckDB's reader is known to read it by the letter, how many records it
must find, and where the file can be cut between two of them.

Not for DuckDB, as it reads these otherwise than the grammar of csv_records: mixed or single-CR line ends, NUL, blank
lines, blanks around quoted fields, escapes, invalid UTF-8, quotes left open, and texts whose meaning hangs on their
quotes. Never casts, never keeps more than a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.read.csv_records import Dialect

BLOCK = 4 << 20
MAX_LINE = 2_000_000
"""Bytes: DuckDB's own limit of a line."""
NO_NULL = "\x01"
"""The text that means NULL for DuckDB, which must have one and lets surplus fields pass that hold it: a file with it
is irregular."""
_FEED, _RETURN = (pa.scalar(byte, pa.uint8()) for byte in b"\n\r")
_ASCII = 0x7F
_DOUBLED = b"\x02"
"""Stands for a doubled quote while quotes are told apart."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a record ends and the next one begins: bytes, records and physical lines before it."""

    offset: int
    records: int
    lines: int


@dataclass(frozen=True, slots=True)
class Survey:
    """A regular file: its records, preamble and header too, whether a quoted field spans lines, and some of the places
    to cut it, one per block at most.
    """

    records: int
    multiline: bool
    cuts: tuple[Cut, ...] = ()


class _Irregular(Exception):
    """The file is for the reader by the letter."""


def survey(file: BinaryIO, dialect: Dialect) -> Survey | None:
    """Look at everything from the file's position on; None if the file is irregular."""
    counter = _Counter(dialect, offset=file.tell())
    rest = b""
    try:
        while chunk := file.read(BLOCK):
            end = chunk.rfind(b"\n") + 1
            if len(rest) + len(chunk) - end > MAX_LINE:
                return None
            if end:
                counter.take(rest + chunk[:end])
                rest = chunk[end:]
            else:
                rest += chunk
        counter.take(rest)
        return counter.finish()
    except _Irregular:
        return None


class _Counter:
    """Counts records block by block; a block is whole lines, the last one may lack its line end."""

    def __init__(self, dialect: Dialect, *, offset: int) -> None:
        self._quote = dialect.quote.encode()
        self._not_marks = bytes(set(range(256)) - set(self._quote + b"\n"))
        self._blanks = [blank for blank in (b" ", b"\t", b"\v", b"\f") if blank != dialect.delimiter.encode()]
        self._escape = dialect.escape.encode() if dialect.escape else None
        # these differ from the same text without quotes, and DuckDB does not tell
        words = {word for word in dialect.nulls if word}
        words |= {""} if "" in dialect.nulls and not dialect.quoted_empty_is_null else set()
        self._quoted_words = [self._quote + word.encode() + self._quote for word in sorted(words)]
        self._crlf: bool | None = None
        self._offset, self._records, self._lines = offset, 0, 0
        self._open = self._multiline = False
        self._cuts: list[Cut] = []

    def take(self, block: bytes) -> None:
        if not block:
            return
        feeds = self._line_ends(block)
        self._texts(block)
        if self._open or self._quote in block:
            self._records += self._quoted(block, feeds)
        else:
            self._records += feeds
        self._offset += len(block)
        self._lines += feeds
        if not self._open:
            if block.endswith(b"\n"):
                self._cuts.append(Cut(self._offset, self._records, self._lines))
            else:
                self._records += 1

    def finish(self) -> Survey:
        if self._open:
            raise _Irregular
        return Survey(self._records, self._multiline, tuple(self._cuts))

    def _texts(self, block: bytes) -> None:
        least, most = _least_and_most(block)
        if least <= ord(NO_NULL) or (self._escape and self._escape in block):
            raise _Irregular
        if most > _ASCII:
            try:
                block.decode()
            except UnicodeDecodeError:
                raise _Irregular from None

    def _line_ends(self, block: bytes) -> int:
        """How many line feeds there are."""
        # Arrow compares and counts three times as fast as bytes do
        codes = _codes(block)
        feeds: pa.Array[Any] = pc.equal(codes, _FEED)
        crlf = b"\r" in block
        begins = feeds
        if crlf:
            begins = pc.equal(codes, _RETURN)
            # every CR before a line feed, every line feed behind a CR
            if block[:1] == b"\n" or block[-1:] == b"\r" or _any(pc.xor(begins[:-1], feeds[1:])):
                raise _Irregular
        if block.endswith(b"\n"):
            if self._crlf not in (None, crlf):
                raise _Irregular
            self._crlf = crlf
        # a blank line: a line end begins where a line does
        if block.startswith((b"\r", b"\n")) or _any(pc.and_(feeds[:-1], begins[1:])):
            raise _Irregular
        return int(pc.sum(feeds).as_py() or 0)

    def _quoted(self, block: bytes, feeds: int) -> int:
        """How many records end with a line feed of this block."""
        if any(text in block for text in self._quoted_words):
            raise _Irregular
        blanks = [blank for blank in self._blanks if blank in block]
        if any(text in block for blank in blanks for text in (blank + self._quote, self._quote + blank)):
            outside = self._outside(block, blanks)
        else:
            # only quotes and line feeds are left, and of the quotes between two line feeds none or one
            outside = self._unquoted(block.translate(None, self._not_marks).replace(self._quote * 2, b""))
        ends = outside.count(b"\n")
        self._multiline |= ends < feeds
        return ends

    def _outside(self, block: bytes, blanks: list[bytes]) -> bytes:
        """What stands outside quotes. Blanks inside a quoted text are its own, those around it make it irregular."""
        if _DOUBLED in block:
            raise _Irregular
        outside = self._unquoted(block.replace(self._quote * 2, _DOUBLED))
        beside = [text for blank in blanks for mark in (self._quote, _DOUBLED) for text in (blank + mark, mark + blank)]
        if any(text in outside for text in beside):
            raise _Irregular
        return outside

    def _unquoted(self, text: bytes) -> bytes:
        """The text without what quotes enclose; of each pair one quote stays. Notes whether the last one is open."""
        parts = text.split(self._quote)
        was_open, self._open = self._open, self._open ^ (len(parts) % 2 == 0)
        outside = parts[1::2] if was_open else parts[0::2]
        if was_open:
            outside.insert(0, b"")
        if self._open:
            outside.append(b"")
        return self._quote.join(outside)


def _codes(block: bytes) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.uint8(), len(block), [None, pa.py_buffer(block)])


def _any(flags: pa.Array[Any]) -> bool:
    return bool(pc.any(flags).as_py())


def _least_and_most(block: bytes) -> tuple[int, int]:
    found: Any = pc.min_max(_codes(block)).as_py()
    return found["min"], found["max"]
