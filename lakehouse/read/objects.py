"""Objects of names and values, as JSON and XML have them, into rows of texts for the strict casts.

Values are `str`, `Number`, `bool`, None, lists and dicts. Never parses a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.declaration import Column
from lakehouse.naming import RESCUED
from lakehouse.read.cells import text_cell
from lakehouse.read.header import missing_columns, unknown_names
from lakehouse.read.json_nested import JsonMisfit, Shaper, json_kind, shaped_cell, shaped_map
from lakehouse.read.origins import Path, origins_of
from lakehouse.read.sink import RowBuffer, Sink, SourceRow
from lakehouse.types import ColumnType

_BYTES = {"binary", "fixed"}
"""Types of which a JSON number says nothing."""


class Number(str):
    """A JSON number as it was written."""


class ObjectRows:
    """Takes the objects of one file; holds what is looked up for each of them."""

    def __init__(self, sink: Sink, null_values: Sequence[str]) -> None:
        self._sink = sink
        self._nulls = frozenset(null_values)
        self._origins = origins_of(sink.declaration)
        self._columns = tuple(self._origins.columns.values())
        self._ignored = sink.declaration.unknown_columns == "ignore"
        self._tops = [path[0] for path in self._origins.paths.values()]
        self._known = frozenset(self._tops)
        self._unfound = dict(self._origins.paths)
        self._objects = False
        # values of these types are their own text, unless a number is to become bytes
        types = {column.type.name for column in self._columns}
        self._easy = frozenset({str, type(None)} if types & _BYTES else {str, type(None), Number})
        if any(column.type.nested for column in self._columns) or any(len(p) > 1 for p in self._unfound.values()):
            self._easy = frozenset()
        self._shaper = Shaper(self._single, ignore_unknown=self._ignored)
        cells = {
            column.name: (shaped_cell if column.type.nested else text_cell)(
                column, f"c{i}", rules=sink.rules, blank_is_null="" in self._nulls
            )
            for i, column in enumerate(self._columns)
        }
        self._rescues = sink.declaration.rescues
        if self._rescues:
            (column,) = (column for column in sink.declaration.columns if column.name == RESCUED)
            cells[RESCUED] = shaped_cell(column, f"c{len(self._columns)}", rules=sink.rules, blank_is_null=False)
        self._buffer = RowBuffer(sink, cells, width=len(self._columns) + self._rescues)

    def missing(self) -> tuple[str, ...]:
        """The declared columns that no object had; none if there was no object, for then nothing is known.

        Raises UnreadableObject if one of them must not be missing.
        """
        lacking = self._unfound if self._objects else {}
        found = [name for name in self._origins.paths if name not in lacking]
        names = [column.source_name for column in self._columns if column.name in found]
        return missing_columns(found, names=names, declaration=self._sink.declaration, uri=self._sink.uri)

    def add(self, line: int, shown: bytes, found: Mapping[str, Any]) -> None:
        """Take an object that begins on `line` and was written as `shown`.

        Raises UnreadableObject for a name that is not declared, unless such are ignored or rescued.
        """
        rescued: dict[str, Any] = {}
        if not found.keys() <= self._known:
            unknown = [name for name in found if name not in self._known]
            kept = unknown_names(unknown, declaration=self._sink.declaration, where=self._where(line))
            rescued = {name: found[name] for name in sorted(kept)}
        for level in self._origins.levels:
            if isinstance(value := _at(found, level), dict):
                self._origins.refuse_unknown(level, value, ignored=self._ignored, where=self._where(line))
        self._objects = True
        if self._unfound:
            self._unfound = {name: path for name, path in self._unfound.items() if _at(found, path) is _ABSENT}
        row = self._row(line, shown, found)
        self._buffer.append(self._with_rescued(row, rescued) if self._rescues else row)

    def condemn(self, line: int, shown: bytes, problem: str) -> None:
        """Take a record that is no object."""
        self._buffer.append(SourceRow(line, shown, problem=problem))

    def flush(self) -> None:
        """Hand over what is left."""
        self._buffer.flush()

    def _where(self, line: int) -> str:
        return f"uri={self._sink.uri} line={line}"

    def _row(self, line: int, shown: bytes, found: Mapping[str, Any]) -> SourceRow:
        # only escapes can bring what does not fit a text column
        if self._easy and b"\\u" not in shown:
            values = [found.get(name) for name in self._tops]
            if self._easy.issuperset(map(type, values)):
                nulls = self._nulls
                texts = [None if type(v) is str and v in nulls else v for v in values] if nulls else values
                return SourceRow(line, shown, texts)
        return self._careful_row(line, shown, found)

    def _careful_row(self, line: int, shown: bytes, found: Mapping[str, Any]) -> SourceRow:
        texts: list[str | None] = []
        problems: list[tuple[str, str]] = []
        for column, path in zip(self._columns, self._origins.paths.values(), strict=True):
            text, problem = self._text(line, _at(found, path), column)
            texts.append(text)
            if problem:
                problems.append((column.name, problem))
        if not problems:
            return SourceRow(line, shown, texts)
        reason = "; ".join(f"{name}: {problem}" for name, problem in problems)
        return SourceRow(line, shown, texts, reason, tuple(name for name, _ in problems))

    def _with_rescued(self, row: SourceRow, rescued: Mapping[str, Any]) -> SourceRow:
        try:
            texts = {name: text for name, value in rescued.items() if (text := written(value)) is not None}
            unfit = next((problem for text in (*texts, *texts.values()) if (problem := _unfit(text))), None)
        except RecursionError:
            unfit = "a value nested too deeply"
        if unfit:
            problem = "; ".join(filter(None, (row.problem, f"{RESCUED}: {unfit}")))
            return SourceRow(row.line, row.raw, [*row.texts, None], problem, (*(row.problem_columns or ()), RESCUED))
        return row._replace(texts=[*row.texts, shaped_map(texts)])

    def _text(self, line: int, value: object, column: Column) -> tuple[str | None, str | None]:
        """The text of a column's value, or what is wrong with it."""
        if value is _ABSENT:
            return None, None
        if isinstance(value, _Closed):
            return None, f"{json_kind(value.value)} at {value.place} where an object is declared"
        if not column.type.nested:
            return self._single(value, column.type)
        if type(value) is str and value in self._nulls:
            return None, None
        try:
            return self._shaper.shaped(value, column, where=self._where(line)), None
        except JsonMisfit as misfit:
            return None, str(misfit)

    def _single(self, value: object, kind: ColumnType) -> tuple[str | None, str | None]:
        """The text of a single value, or what is wrong with it."""
        match value:
            case None:
                return None, None
            case Number():
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


def written(value: object) -> str | None:
    """A value as text: a text as it is, all others as JSON, numbers as they were written."""
    return value if value is None or isinstance(value, str) else _as_json(value)


def _as_json(value: object) -> str:
    match value:
        case Number():
            return value
        case dict():
            return f"{{{', '.join(f'{json.dumps(name)}: {_as_json(part)}' for name, part in value.items())}}}"
        case list():
            return f"[{', '.join(map(_as_json, value))}]"
        case _:
            return json.dumps(value)


_ABSENT = object()
"""What stands where an object has nothing of a name."""


class _Closed(NamedTuple):
    """A single value or an array, at a dotted place where a path leads on."""

    value: object
    place: str


def _at(found: Mapping[str, Any], path: Path) -> object:
    """The value at a path; _ABSENT if the last name is not there, or nothing above it."""
    value: object = found
    for depth, name in enumerate(path):
        if value is None:
            return _ABSENT
        if not isinstance(value, dict):
            return _Closed(value, ".".join(path[:depth]))
        value = value.get(name, _ABSENT)
        if value is _ABSENT:
            return _ABSENT
    return value


def _unfit(text: str) -> str | None:
    """What keeps a JSON text out of UTF-8 text columns; both come from escapes alone."""
    if "\0" in text:
        return "a NUL in the text"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half a surrogate pair in the text"
    return None
