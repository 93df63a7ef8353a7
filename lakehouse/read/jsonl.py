"""JSON lines into a sink: one object per line, read by Python's json with every number kept as its text.

DuckDB's JSON functions are not used: they turn `1.10` into `1.1` and long numbers into doubles, and of a doubled key
they drop a value without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from lakehouse.declaration import Column, JsonlFormat
from lakehouse.read.cells import text_cell
from lakehouse.read.csv_records import MAX_RECORD, damage
from lakehouse.read.header import file_columns, missing_columns, refuse_unknown
from lakehouse.read.json_nested import JsonMisfit, Shaper, json_kind, shaped_cell
from lakehouse.read.local_file import skip_bom
from lakehouse.read.sink import RowBuffer, Sink, SourceRow, transaction
from lakehouse.types import ColumnType

_BLANKS = b" \t\r\n"
_BYTES = {"binary", "fixed"}
"""Types of which a JSON number says nothing."""
_RAW_KEPT = 64 << 10


class _Number(str):
    """A JSON number as it was written."""


class _Refused(ValueError):
    """JSON that Python accepts and we do not."""


def read_jsonl(sink: Sink, path: Path, format: JsonlFormat) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that no object of it has.

    Raises UnreadableObject for an unknown key unless ignored, and if a column is missing that must not be.
    """
    reader = _Reader(sink, format)
    with path.open("rb") as binary, transaction(sink.con):
        reader.read(_lines(binary))
        return missing_columns(reader.found_names, declaration=sink.declaration, uri=sink.uri)


def _lines(binary: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Every line with its 1-based number, without the byte order mark; of an overlong one only the beginning."""
    skip_bom(binary)
    number = 0
    while line := binary.readline(MAX_RECORD + 1):
        number += 1
        yield number, line
        while not line.endswith(b"\n") and line:
            line = binary.readline(MAX_RECORD)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Refused(f"a key twice: {next(name for name in names if names.count(name) > 1)!r}")
    return found


def _constant(text: str) -> None:
    raise _Refused(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_Number, parse_int=_Number, parse_constant=_constant, strict=True
)


class _Reader:
    """Parses the lines of one file; holds what is looked up for every line."""

    def __init__(self, sink: Sink, format: JsonlFormat) -> None:
        self._sink = sink
        self._nulls = frozenset(format.null_values)
        self._columns = file_columns(sink.declaration)
        self._names = [column.source_name for column in self._columns]
        self._known = frozenset(self._names)
        self._unfound = set(self._names)
        self._objects = False
        # values of these types are their own text, unless a number is to become bytes
        types = {column.type.name for column in self._columns}
        self._easy = frozenset({str, type(None)} if types & _BYTES else {str, type(None), _Number})
        if any(column.type.nested for column in self._columns):
            self._easy = frozenset()
        self._shaper = Shaper(self._single, ignore_unknown=sink.declaration.unknown_columns == "ignore")
        cells = {
            column.name: (shaped_cell if column.type.nested else text_cell)(
                column, f"c{i}", rules=sink.rules, blank_is_null="" in self._nulls
            )
            for i, column in enumerate(self._columns)
        }
        self._buffer = RowBuffer(sink, cells, width=len(self._columns))

    @property
    def found_names(self) -> list[str]:
        """The declared names that some object has; all of them if no line is an object, for then nothing is known."""
        return [name for name in self._names if name not in self._unfound or not self._objects]

    def read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for number, line in lines:
            raw = line.strip(_BLANKS)
            if raw:
                self._buffer.append(self._row(number, line.rstrip(b"\r\n"), raw))
        self._buffer.flush()

    def _row(self, number: int, shown: bytes, raw: bytes) -> SourceRow:
        if problem := damage(raw):
            return SourceRow(number, shown[:_RAW_KEPT] if len(raw) > MAX_RECORD else shown, problem=problem)
        text = raw.decode()
        try:
            found, end = _DECODER.raw_decode(text)
            if end != len(text):
                raise json.JSONDecodeError("Extra data", text, end)
        except json.JSONDecodeError as error:
            return SourceRow(number, shown, problem=f"not JSON at character {error.pos + 1}: {error.msg.lower()}")
        except _Refused as error:
            return SourceRow(number, shown, problem=str(error))
        except RecursionError:
            return SourceRow(number, shown, problem="JSON nested too deeply")
        if not isinstance(found, dict):
            return SourceRow(number, shown, problem="the line is JSON, but not an object")
        if not found.keys() <= self._known:
            self._refuse_unknown(found, number)
        self._objects = True
        if self._unfound:
            self._unfound.difference_update(found)
        return self._texts(number, shown, found)

    def _refuse_unknown(self, found: Mapping[str, Any], number: int) -> None:
        unknown = found.keys() - self._known
        refuse_unknown(
            [name for name in found if name in unknown],
            declaration=self._sink.declaration,
            where=f"uri={self._sink.uri} line={number}",
        )

    def _texts(self, number: int, shown: bytes, found: Mapping[str, Any]) -> SourceRow:
        values = [found.get(name) for name in self._names]
        if b"\\u" not in shown and self._easy.issuperset(map(type, values)):
            nulls = self._nulls
            texts = [None if type(v) is str and v in nulls else v for v in values] if nulls else values
            return SourceRow(number, shown, texts)
        return self._careful_texts(number, shown, values)

    def _careful_texts(self, number: int, shown: bytes, values: Sequence[Any]) -> SourceRow:
        texts: list[str | None] = []
        problems: list[tuple[str, str]] = []
        for column, value in zip(self._columns, values, strict=True):
            text, problem = self._text(number, value, column)
            texts.append(text)
            if problem:
                problems.append((column.name, problem))
        if not problems:
            return SourceRow(number, shown, texts)
        reason = "; ".join(f"{name}: {problem}" for name, problem in problems)
        return SourceRow(number, shown, texts, reason, tuple(name for name, _ in problems))

    def _text(self, number: int, value: object, column: Column) -> tuple[str | None, str | None]:
        """The text of a column's JSON value, or what is wrong with it."""
        if not column.type.nested:
            return self._single(value, column.type)
        if type(value) is str and value in self._nulls:
            return None, None
        try:
            return self._shaper.shaped(value, column, where=f"uri={self._sink.uri} line={number}"), None
        except JsonMisfit as misfit:
            return None, str(misfit)

    def _single(self, value: object, kind: ColumnType) -> tuple[str | None, str | None]:
        """The text of a single JSON value, or what is wrong with it."""
        match value:
            case None:
                return None, None
            case _Number():
                problem = f"a JSON number where {kind.name} is declared"
                return (None, problem) if kind.name in _BYTES else (value, None)
            case str():
                unfit = _unfit(value)
                return (None if unfit or value in self._nulls else value), unfit
            case bool() if kind.name == "boolean":
                words = self._sink.rules.true_words if value else self._sink.rules.false_words
                return words[0], None
            case bool():
                return "true" if value else "false", None
            case _:
                return None, f"{json_kind(value)} where a single value is declared"


def _unfit(text: str) -> str | None:
    """What keeps a JSON text out of UTF-8 text columns; both come from escapes alone."""
    if "\0" in text:
        return "a NUL in the text"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half a surrogate pair in the text"
    return None
