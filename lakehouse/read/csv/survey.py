"""A look over the bytes of a CSV file: whether DuckDB's reader is known to read it by the letter, how many records it
must find, and where the file can be cut between two of them.

Not for DuckDB, as it reads these otherwise than the grammar of csv_records: mixed or single-CR line ends, NUL, blank
lines, blanks around quoted fields, escapes, invalid UTF-8, quotes left open, and texts whose meaning hangs on their
quotes. Never casts, never keeps more than three blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.read.csv.records import Dialect

BLOCK = 4 << 20
MAX_LINE = 2_000_000
"""Bytes: DuckDB's own limit of a line."""
NO_NULL = "\x01"
"""The text that means NULL for DuckDB, which must have one and lets surplus fields pass that hold it: a file with it
is irregular."""
_FEED, _RETURN = (pa.scalar(byte, pa.uint8()) for byte in b"\n\r")
_ASCII = 0x7F
_LOOKERS = 2
_FEW = 100
"""Bytes for each quote, from which on splitting at every quote is the fastest way."""


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
    blocks = _blocks(file)
    try:
        ahead = [*islice(blocks, 2)]
        if len(ahead) < 2:
            for block in ahead:
                counter.take(block, counter.look(block))
            return counter.finish()
        with ThreadPoolExecutor(_LOOKERS, thread_name_prefix="survey") as pool:
            looked = deque((block, pool.submit(counter.look, block)) for block in ahead)
            while looked:
                block, look = looked.popleft()
                looked.extend((block, pool.submit(counter.look, block)) for block in islice(blocks, 1))
                counter.take(block, look.result())
        return counter.finish()
    except _Irregular:
        return None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The file in whole lines; the last block may lack its line end."""
    rest = b""
    while chunk := file.read(BLOCK):
        end = chunk.rfind(b"\n") + 1
        if len(rest) + len(chunk) - end > MAX_LINE:
            raise _Irregular
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest


class _Look(NamedTuple):
    """What a block says by itself: how many line feeds, and whether they stand behind a CR."""

    feeds: int
    crlf: bool


class _Counter:
    """Counts records block by block, in order."""

    def __init__(self, dialect: Dialect, *, offset: int) -> None:
        self._quote = dialect.quote.encode()
        self._not_marks = bytes(set(range(256)) - set(self._quote + b"\n"))
        self._blanks = {b" ", b"\t", b"\v", b"\f"} - {dialect.delimiter.encode()}
        self._escape = dialect.escape.encode() if dialect.escape else None
        # these differ from the same text without quotes, and DuckDB does not tell
        words = dialect.nulls.union(*dialect.own_nulls.values())
        if dialect.quoted_empty_is_null:
            words -= {""}
        self._quoted_words = [self._quote + word.encode() + self._quote for word in sorted(words) if self._quote]
        self._crlf: bool | None = None
        self._offset, self._records, self._lines = offset, 0, 0
        self._open = self._multiline = False
        self._cuts: list[Cut] = []

    def look(self, block: bytes) -> _Look:
        """Judge a block by itself; changes nothing, so that several threads may."""
        least, most = _least_and_most(block)
        if least <= ord(NO_NULL) or (self._escape and self._escape in block):
            raise _Irregular
        if most > _ASCII:
            try:
                block.decode()
            except UnicodeDecodeError:
                raise _Irregular from None
        return _line_ends(block)

    def take(self, block: bytes, look: _Look) -> None:
        """Add a block."""
        ended = block.endswith(b"\n")
        if ended:
            if self._crlf not in (None, look.crlf):
                raise _Irregular
            self._crlf = look.crlf
        if self._open or (self._quote and self._quote in block):
            self._records += self._quoted(block, look.feeds)
        else:
            self._records += look.feeds
        self._offset += len(block)
        self._lines += look.feeds
        if not self._open:
            if ended:
                self._cuts.append(Cut(self._offset, self._records, self._lines))
            else:
                self._records += 1

    def finish(self) -> Survey:
        if self._open:
            raise _Irregular
        return Survey(self._records, self._multiline, tuple(self._cuts))

    def _quoted(self, block: bytes, feeds: int) -> int:
        """How many records end with a line feed of this block."""
        if any(text in block for text in self._quoted_words):
            raise _Irregular
        few = block.count(self._quote) < len(block) // _FEW
        if few or any(blank + self._quote in block or self._quote + blank in block for blank in self._blanks):
            ends = self._split(block)
        else:
            # only quotes and line feeds are left, and of the quotes between two line feeds none or one
            marks = block.translate(None, self._not_marks).replace(self._quote * 2, b"")
            ends = self._flip(marks.split(self._quote))
        self._multiline |= ends < feeds
        return ends

    def _split(self, block: bytes) -> int:
        """As `_quoted`, with every text at hand: blanks inside quotes are part of it, those around it irregular.

        Outside of quotes stands an empty text where a quote is doubled.
        """
        first = int(self._open)
        texts = block.split(self._quote)
        before = {text[-1:] for text in texts[first:-1:2]}
        after = {text[:1] for text in texts[first or 2 :: 2]}
        if not (before | after).isdisjoint(self._blanks):
            raise _Irregular
        return self._flip(texts)

    def _flip(self, texts: list[bytes]) -> int:
        """The line feeds outside of quotes, of texts that quotes part."""
        ends = sum(text.count(b"\n") for text in texts[int(self._open) :: 2])
        self._open ^= len(texts) % 2 == 0
        return ends


def _line_ends(block: bytes) -> _Look:
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
    # a blank line: a line end begins where a line does
    if block.startswith((b"\r", b"\n")) or _any(pc.and_(feeds[:-1], begins[1:])):
        raise _Irregular
    return _Look(int(pc.sum(feeds).as_py() or 0), crlf)


def _codes(block: bytes) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.uint8(), len(block), [None, pa.py_buffer(block)])


def _any(flags: pa.Array[Any]) -> bool:
    return bool(pc.any(flags).as_py())


def _least_and_most(block: bytes) -> tuple[int, int]:
    found: Any = pc.min_max(_codes(block)).as_py()
    return found["min"], found["max"]
