"""Objects of names and values, as JSON and XML have them, into rows of texts for the strict casts.

Values are `str`, `Number`, `bool`, None, lists and dicts. Never parses a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from lakehouse.declaration import Column
from lakehouse.masking import shown_names
from lakehouse.naming import RESCUED
from lakehouse.read.cells import Cell, nulls_of, text_cell
from lakehouse.read.header import missing_columns, unknown_names
from lakehouse.read.objects.json_nested import JSON_WORDS, JsonMisfit, Shaper, Words, shaped_cell, shaped_map
from lakehouse.read.objects.mixed import cell_by_kind, groups_of, shaped_by_kind
from lakehouse.read.origins import Path, origins_of
from lakehouse.read.sink import RowBuffer, Sink, SourceRow
from lakehouse.types import ColumnType

_HALVES = re.compile("[\ud800-\udfff]")
_BYTES = {"binary", "fixed"}
"""Types of which a JSON number says nothing."""


class Number(str):
    """A JSON number as it was written."""


class ObjectRows:
    """Takes the objects of one file; holds what is looked up for each of them."""

    def __init__(self, sink: Sink, words: Words = JSON_WORDS) -> None:
        self._sink = sink
        self._words = words
        self._origins = origins_of(sink.declaration)
        self._columns = tuple(self._origins.columns.values())
        self._groups = groups_of(self._columns)
        self._tops = [path[0] for path in self._origins.paths.values()]
        self._known = frozenset(self._tops)
        self._unfound = dict(self._origins.paths)
        self._objects = False
        # values of these types are their own text, unless a number is to become bytes
        types = {column.type.name for column in self._columns}
        self._easy = frozenset({str, type(None)} if types & _BYTES else {str, type(None), Number})
        mixed = any(column.mixed not in (None, "cast") for column in self._columns)
        nested = any(column.type.nested for column in self._columns)
        if mixed or nested or any(len(path) > 1 for path in self._unfound.values()):
            self._easy = frozenset()
        self._nulls = tuple(self._nulls_of(column) for column in self._columns)
        self._any_nulls = any(self._nulls)
        self._shapers = tuple(
            Shaper(partial(self._single, nulls=nulls), sink.declaration, words) for nulls in self._nulls
        )
        cells = {
            column.name: self._cell_of(column)(column, f"c{i}", rules=sink.rules, blank_is_null="" in nulls)
            for i, (column, nulls) in enumerate(zip(self._columns, self._nulls, strict=True))
        }
        self._rescues = sink.declaration.rescues
        if self._rescues:
            (column,) = (column for column in sink.declaration.columns if column.name == RESCUED)
            cells[RESCUED] = shaped_cell(column, f"c{len(self._columns)}", rules=sink.rules, blank_is_null=False)
        self._buffer = RowBuffer(sink, cells, width=len(self._columns) + self._rescues)

    def _nulls_of(self, column: Column) -> frozenset[str]:
        """A group's texts go into its string column, so that one says which of them mean no value."""
        group = self._groups.get(column.name)
        return nulls_of(group.of_texts if group else column, self._sink.declaration.source.format)

    def _cell_of(self, column: Column) -> Callable[..., Cell]:
        if group := self._groups.get(column.name):
            return group.cell
        if column.mixed == "struct":
            return cell_by_kind
        return shaped_cell if column.type.nested else text_cell

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
                self._origins.refuse_unknown(level, value, declaration=self._sink.declaration, where=self._where(line))
        self._objects = True
        if self._unfound:
            self._unfound = {name: path for name, path in self._unfound.items() if _at(found, path) is _ABSENT}
        row = self._row(line, shown, found)
        self._buffer.append(self._with_rescued(row, rescued) if self._rescues else row)

    def condemn(self, line: int, shown: bytes, problem: str, *, name: str | None = None) -> None:
        """Take a record that is no object, for a problem with one of its names if that is given."""
        if name is not None:
            problem = f"{problem}: {shown_names([name], self._sink.declaration)}"
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
                if self._any_nulls:
                    pairs = zip(values, self._nulls, strict=True)
                    values = [None if type(v) is str and v in nulls else v for v, nulls in pairs]
                return SourceRow(line, shown, values)
        return self._careful_row(line, shown, found)

    def _careful_row(self, line: int, shown: bytes, found: Mapping[str, Any]) -> SourceRow:
        texts: list[str | None] = []
        problems: list[tuple[str, str]] = []
        paths = self._origins.paths.values()
        for column, path, nulls, shaper in zip(self._columns, paths, self._nulls, self._shapers, strict=True):
            try:
                text, problem = self._text(_at(found, path), column, nulls, shaper, where=self._where(line))
            except JsonMisfit as misfit:
                text, problem = None, str(misfit)
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

    def _text(
        self, value: object, column: Column, nulls: frozenset[str], shaper: Shaper, *, where: str
    ) -> tuple[str | None, str | None]:
        """The text of a column's value, or what is wrong with it. Raises JsonMisfit, which says that too."""
        if value is _ABSENT or value is None:
            return None, None
        if isinstance(value, _Closed):
            return None, f"{self._words.kind(value.value)} at {value.place} where {self._words.object} is declared"
        if type(value) is str and value in nulls:
            return None, None
        group = self._groups.get(column.name)
        if group and not group.takes(column, value):
            return None, None
        if column.mixed == "struct":
            return shaped_by_kind(value, column, shaper, where=where), None
        if column.mixed == "string":
            return _any_text(value)
        if not column.type.nested:
            return self._single(value, column.type, nulls)
        return shaper.shaped(value, column, where=where), None

    def _single(self, value: object, kind: ColumnType, nulls: frozenset[str]) -> tuple[str | None, str | None]:
        """The text of a single value, or what is wrong with it."""
        match value:
            case None:
                return None, None
            case Number():
                problem = f"a JSON number where {kind.name} is declared"
                return (None, problem) if kind.name in _BYTES else (value, None)
            case str():
                unfit = _unfit(value)
                return (None if unfit or value in nulls else value), unfit
            case bool() if kind.name == "boolean":
                words = self._sink.rules.true_words if value else self._sink.rules.false_words
                return words[0], None
            case bool():
                return "true" if value else "false", None
            case _:
                return None, f"{self._words.kind(value)} where a single value is declared"


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


def as_compact_json(value: object) -> str:
    """A value as JSON without blanks, in its own order and letters, numbers as they were written."""
    match value:
        case Number():
            return value
        case str():
            text = json.dumps(value, ensure_ascii=False)
            # half a pair has no letter
            return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        case dict():
            return f"{{{','.join(f'{as_compact_json(name)}:{as_compact_json(part)}' for name, part in value.items())}}}"
        case list():
            return f"[{','.join(map(as_compact_json, value))}]"
        case _:
            return json.dumps(value)


def _any_text(value: object) -> tuple[str | None, str | None]:
    """The text of a value of any kind, or what is wrong with it."""
    if isinstance(value, str):
        unfit = _unfit(value)
        return (None if unfit else value), unfit
    try:
        return as_compact_json(value), None
    except RecursionError:
        return None, "a value nested too deeply"


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
