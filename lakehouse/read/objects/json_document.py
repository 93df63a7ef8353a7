"""JSON documents into a sink: the records are the elements of an array, at the top or where `records_path` leads.

The document is cut into its records by brackets and quotes alone, so a record that is no JSON inside is one reject and
its neighbours are kept. A document whose brackets do not match was not sent to its end, and none of it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NoReturn

from lakehouse.declaration import JsonFormat
from lakehouse.errors import UnreadableObject
from lakehouse.masking import record_parts
from lakehouse.read.csv.records import MAX_RECORD
from lakehouse.read.local_file import skip_bom
from lakehouse.read.masked import masked_json
from lakehouse.read.objects.json_text import parse_text
from lakehouse.read.objects.jsonl import add_json
from lakehouse.read.objects.rows import ObjectRows
from lakehouse.read.sink import Sink, transaction

CHUNK = 1 << 20
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_OUTSIDE = re.compile(rb'"[^"\\]*"|["\[\]{}]')
_IN_TEXT = re.compile(rb'\\.|"', re.DOTALL)
_OPENING, _CLOSING = (b"[", b"{"), (b"]", b"}")
_END_OF_SINGLE = re.compile(rb"[ \t\r\n,\]}]")
_LONGEST_NAME = 64 << 10


def read_json(sink: Sink, path: Path, format: JsonFormat) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that no record of it has.

    Raises UnreadableObject if there is nothing at `records_path`, if the document does not end, for an unknown key
    unless ignored, and if a column is missing that must not be.
    """
    rows = ObjectRows(sink)
    sink.mask_with(partial(masked_json, record=record_parts(sink.declaration)))
    with path.open("rb") as binary, transaction(sink.con):
        skip_bom(binary)
        for line, raw in _Document(binary, sink.uri).records(format.path):
            add_json(rows, line, raw, raw)
        rows.flush()
        return rows.missing()


class _Document:
    """Walks through one document; keeps no more of it than one record and one chunk."""

    def __init__(self, binary: BinaryIO, uri: str) -> None:
        self._binary, self._uri = binary, uri
        self._buffer, self._at = b"", 0
        self._line = 1

    def records(self, path: Sequence[str]) -> Iterator[tuple[int, bytes]]:
        """Each record with its 1-based first line; of an overlong one only the beginning."""
        yield from self._below(path, ())
        if self._peek():
            self._fail("something stands behind the document; one object per line is type: jsonl")

    def _below(self, path: Sequence[str], passed: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
        if not path:
            yield from self._elements(passed)
            return
        if self._peek() != b"{":
            self._fail(f"no object at {_dotted(passed)}, so nothing at {_dotted((*passed, *path))}")
        found = False
        for name in self._names():
            if name != path[0]:
                self._value(keep=0)
                continue
            if found:
                self._fail(f"{_dotted((*passed, name))} is there twice")
            found = True
            yield from self._below(path[1:], (*passed, name))
        if not found:
            self._fail(f"nothing at {_dotted((*passed, *path))}")

    def _elements(self, passed: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
        first = self._peek()
        if first == b"{":
            yield self._value()
            return
        if first != b"[":
            self._fail(f"neither an array nor an object at {_dotted(passed)}")
        for _ in self._items(b"]"):
            yield self._value()

    def _names(self) -> Iterator[str]:
        """The names of the object that begins here; the caller takes the value of each."""
        for _ in self._items(b"}"):
            if self._peek() != b'"':
                self._fail("a name without quotes")
            _, raw = self._value(keep=_LONGEST_NAME)
            name = parse_text(raw)
            if name is None or self._take() != b":":
                self._fail("no name with a colon behind it")
            yield name

    def _items(self, end: bytes) -> Iterator[None]:
        """Once for each item of the array or object that begins here, whose last bracket is `end`."""
        self._take()
        if self._peek() == end:
            self._take()
            return
        while True:
            yield
            follows = self._take()
            if follows == end:
                return
            if follows != b",":
                self._fail(f"{follows.decode(errors='backslashreplace')!r} where , or {end.decode()} belongs")

    def _peek(self) -> bytes:
        """The next byte that is not blank, empty at the end; counts the lines on the way."""
        while True:
            found = _NOT_BLANK.search(self._buffer, self._at)
            self._go(found.start() if found else len(self._buffer))
            if found:
                return found[0]
            if not self._more():
                return b""

    def _take(self) -> bytes:
        byte = self._peek()
        if not byte:
            self._fail("the document ends too early")
        self._go(self._at + 1)
        return byte

    def _value(self, keep: int = MAX_RECORD) -> tuple[int, bytes]:
        """Take the value that begins here: its first line and its bytes, of which more than `keep` are cut off."""
        first = self._peek()
        line, kept = self._line, b""
        if first in (b"{", b"[", b'"'):
            ends = self._ends_of_nested
        elif first in (b"", b",", b":", b"]", b"}"):
            self._fail("a value is missing")
        else:
            ends = self._ends_of_single
        for end, whole in ends():
            # one byte more shows that it is too long
            kept += self._buffer[self._at : min(end, self._at + max(keep + 1 - len(kept), 0))]
            self._go(end)
            if whole:
                break
        return line, kept

    def _ends_of_nested(self) -> Iterator[tuple[int, bool]]:
        """Places up to which the value can be taken, the last one behind its end."""
        depth, in_text = 0, False
        while True:
            place = self._at
            while mark := (_IN_TEXT if in_text else _OUTSIDE).search(self._buffer, place):
                place, found = mark.end(), mark[0]
                if found == b'"':
                    in_text = not in_text
                elif not in_text:
                    depth += (found in _OPENING) - (found in _CLOSING)
                if depth == 0 and not in_text:
                    yield place, True
                    return
            # half an escape stays for the next chunk
            yield len(self._buffer) - (in_text and self._buffer.endswith(b"\\", place)), False
            if not self._more():
                self._fail("the document ends too early")

    def _ends_of_single(self) -> Iterator[tuple[int, bool]]:
        while True:
            if found := _END_OF_SINGLE.search(self._buffer, self._at):
                yield found.start(), True
                return
            yield len(self._buffer), False
            if not self._more():
                yield self._at, True
                return

    def _go(self, place: int) -> None:
        self._line += self._buffer.count(b"\n", self._at, place)
        self._at = place

    def _more(self) -> bool:
        chunk = self._binary.read(CHUNK)
        self._buffer, self._at = self._buffer[self._at :] + chunk, 0
        return bool(chunk)

    def _fail(self, reason: str) -> NoReturn:
        raise UnreadableObject(f"the JSON document cannot be read: uri={self._uri} line={self._line} reason={reason}")


def _dotted(path: Sequence[str]) -> str:
    return ".".join(path) or "the top"
