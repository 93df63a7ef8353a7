"""Nested JSON values: their shape is judged in Python, their single values by the same strict casts as all others.

A value of the declared shape goes on as JSON of our own, whose single values are texts, fields `f0`, `f1`, … in
declared order and maps lists of entries: DuckDB reads that without bending anything, and no name of a file is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from lakehouse.declaration import Column, Declaration
from lakehouse.engines.nested import entry_key, entry_value, field_of, variable
from lakehouse.naming import quote_text
from lakehouse.read.casts import BLANKS, CastRules, cast
from lakehouse.read.cells import Cell, rules_of
from lakehouse.read.nested import Taken, nested_cell, refuse_unknown_fields, taken_list, taken_map, taken_struct
from lakehouse.types import ColumnType

SingleText: TypeAlias = Callable[[object, ColumnType], tuple[str | None, str | None]]
"""The text of a single JSON value for a type, or what is wrong with it."""

_SHAPES = {"struct": dict, "list": list, "map": dict}


class JsonMisfit(ValueError):
    """A JSON value that is not of the declared shape; the message names the part."""


class Words(NamedTuple):
    """How a format speaks of values: of one that is there, and of those that a declared type expects."""

    kind: Callable[[object], str]
    object: str
    array: str

    def expected(self, kind: ColumnType) -> str:
        """What a nested type expects."""
        return self.array if kind.name == "list" else self.object


class Shaper:
    """Brings the nested values of one file into our own JSON."""

    def __init__(self, text: SingleText, declaration: Declaration, words: Words) -> None:
        self._text = text
        self._declaration = declaration
        self._words = words

    def shaped(self, value: object, column: Column, *, where: str) -> str | None:
        """The value of a column as JSON text, None if it is null. `where` says which file and line.

        Raises JsonMisfit if a part is of another kind than declared, UnreadableObject for an unknown field unless
        ignored.
        """
        if value is None:
            return None
        return json.dumps(self.part(value, column.type, path=column.source_name, where=where), ensure_ascii=False)

    def part(self, value: object, kind: ColumnType, *, path: str, where: str) -> Any:
        """A part of a value, as `shaped` has it before it is written; `path` names it."""
        if value is None:
            return None
        if not kind.nested:
            text, problem = self._text(value, kind)
            if problem:
                raise JsonMisfit(f"{problem} at {path}")
            return text
        if type(value) is not _SHAPES[kind.name]:
            raise JsonMisfit(f"{self._words.kind(value)} where {self._words.expected(kind)} is declared at {path}")
        if isinstance(value, list):
            ((_, element),) = kind.fields
            return [self.part(item, element, path=f"{path}.element", where=where) for item in value]
        assert isinstance(value, dict)
        if kind.name == "struct":
            return self._struct(value, kind, path=path, where=where)
        (_, key), (_, item) = kind.fields
        return [
            {
                # a word that stands for NULL is a name like others there
                "key": self.part(name, key, path=f"{path}.key", where=where) or name,
                "value": self.part(part, item, path=f"{path}.value", where=where),
            }
            for name, part in value.items()
        ]

    def _struct(self, value: Mapping[str, object], kind: ColumnType, *, path: str, where: str) -> dict[str, Any]:
        known = [name for name, _ in kind.fields]
        if not value.keys() <= set(known):
            where = f"{where} column={path!r}"
            refuse_unknown_fields(list(value), known, declaration=self._declaration, where=where)
        return {
            f"f{i}": self.part(value.get(name), part, path=f"{path}.{name}", where=where)
            for i, (name, part) in enumerate(kind.fields)
        }


def shaped_map(texts: Mapping[str, str]) -> str | None:
    """A map of texts as `Shaper.shaped` writes one; None if it is empty."""
    entries = [{"key": key, "value": value} for key, value in texts.items()]
    return json.dumps(entries, ensure_ascii=False) if entries else None


def json_kind(value: object) -> str:
    """What a JSON value is, in words."""
    match value:
        case dict():
            return "a JSON object"
        case list():
            return "a JSON array"
        case bool():
            return "a JSON boolean"
        case str() if type(value) is str:
            return "a JSON text"
        case _:
            return "a JSON number"


def xml_kind(value: object) -> str:
    """What stands in an XML record, in words."""
    match value:
        case dict():
            return "an element with children or attributes"
        case list():
            return "repeated elements"
        case _:
            return "a text"


JSON_WORDS = Words(json_kind, "an object", "an array")
XML_WORDS = Words(xml_kind, "an element with children", "a list")


def shaped_cell(column: Column, text: str, *, rules: CastRules, blank_is_null: bool) -> Cell:
    """The cell of a nested column whose source is `Shaper.shaped` in the VARCHAR expression `text`."""
    return cell_over_shaped(
        column, text, taken_of(column.type, "shaped", rules=rules_of(column, rules), blank_is_null=blank_is_null)
    )


def cell_over_shaped(column: Column, text: str, taken: Taken) -> Cell:
    """A cell whose source is JSON of the declared structure in `text`, called `shaped` in what is `taken` of it."""
    source = f"json_transform({text}, {quote_text(json.dumps(_structure(column.type)))})"
    # the JSON is read once, however often its parts stand in the SQL
    whole = f"list_transform([{source}], lambda shaped: {nested_cell(column, 'shaped', taken).value})[1]"
    cell = nested_cell(column, text, taken)
    return Cell(column, whole, cell.given, cell.complaint)


def _structure(kind: ColumnType) -> Any:
    """How DuckDB is told the structure of the JSON."""
    match kind.name:
        case "struct":
            return {f"f{i}": _structure(part) for i, (_, part) in enumerate(kind.fields)}
        case "list":
            return [_structure(kind.fields[0][1])]
        case "map":
            return [{name: _structure(part) for name, part in kind.fields}]
        case _:
            return "VARCHAR"


def taken_of(kind: ColumnType, source: str, *, rules: CastRules, blank_is_null: bool, depth: int = 0) -> Taken:
    """What is taken of a part of the JSON, `depth` lists or maps deep."""

    def inner(part: ColumnType, at: str, deeper: int) -> Taken:
        return taken_of(part, at, rules=rules, blank_is_null=blank_is_null, depth=deeper)

    match kind.name:
        case "struct":
            fields = [
                (name, inner(part, field_of(source, f"f{i}"), depth)) for i, (name, part) in enumerate(kind.fields)
            ]
            return taken_struct(source, fields)
        case "list":
            return taken_list(source, depth, inner(kind.fields[0][1], variable(depth), depth + 1))
        case "map":
            (_, key), (_, value) = kind.fields
            return taken_map(
                source, depth, inner(key, entry_key(depth), depth + 1), inner(value, entry_value(depth), depth + 1)
            )
        case "string":
            return Taken(source)
        case _:
            absent = f"coalesce(trim({source}, {BLANKS}) = '', true)" if blank_is_null else f"{source} IS NULL"
            single = cast(kind, source, rules)
            if kind.name == "binary" and blank_is_null:
                single = f"CASE WHEN NOT {absent} THEN {single} END"
            return Taken(single, f"({absent} OR ({single}) IS NOT NULL)")
