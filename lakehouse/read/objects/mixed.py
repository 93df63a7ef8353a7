"""JSON values whose kind differs from record to record, each into the place that is declared for its kind.

What becomes of a value follows from the value and the declaration alone, so no order of records or files changes it.
The kind is looked up in Python; which of several numbers' types holds a number is asked of the strict casts, in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lakehouse.declaration import Column
from lakehouse.declaration.mixed_rules import NARROWEST_FIRST, NUMBER, TEXT, kind_for
from lakehouse.engines.nested import field_of
from lakehouse.read.casts import CastRules, cast
from lakehouse.read.cells import Cell, rules_of, text_cell
from lakehouse.read.nested import ALWAYS, Taken, taken_struct
from lakehouse.read.objects.json_nested import JsonMisfit, Shaper, cell_over_shaped, json_kind, shaped_cell, taken_of
from lakehouse.types import ColumnType


def shaped_by_kind(value: object, column: Column, shaper: Shaper, *, where: str) -> str:
    """A value that is not NULL as JSON for `cell_by_kind`: in the field of its kind, a number in every number's field.

    Raises JsonMisfit if there is no such field, and what `Shaper.part` raises.
    """
    kind = json_kind(value)
    fields = {
        f"f{i}": shaper.part(value, part, path=f"{column.source_name}.{name}", where=where)
        for i, (name, part) in enumerate(column.type.fields)
        if kind_for(part) == kind
    }
    if not fields:
        raise JsonMisfit(f"{kind}, and no field of the struct is for it")
    return json.dumps(fields, ensure_ascii=False)


def cell_by_kind(column: Column, text: str, *, rules: CastRules, blank_is_null: bool) -> Cell:
    """The cell of a `mixed: struct` column whose source is `shaped_by_kind` in the VARCHAR expression `text`."""
    numbers = _narrowest_first({name: part for name, part in column.type.fields if kind_for(part) == NUMBER})
    types = dict(column.type.fields)
    fields = []
    for i, (name, part) in enumerate(column.type.fields):
        at = field_of("shaped", f"f{i}")
        if name in numbers:
            place = numbers.index(name)
            value, left_over = _number(part, [types[other] for other in numbers[:place]], at, rules)
            # of a number that no field holds the widest one complains
            fields.append((name, Taken(value, f"NOT ({left_over})" if place + 1 == len(numbers) else ALWAYS)))
        else:
            own = rules_of(column, rules)
            fields.append((name, taken_of(part, at, rules=own, blank_is_null=blank_is_null)))
    return cell_over_shaped(column, text, taken_struct("shaped", fields))


class Group:
    """The `mixed: columns` columns that share the values of one path."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._kinds = {column.name: kind_for(column.type) for column in columns}
        self._types = {column.name: column.type for column in columns}
        self._numbers = _narrowest_first(
            {column.name: column.type for column in columns if self._kinds[column.name] == NUMBER}
        )
        self._first = columns[0].name
        self.of_texts = next((column for column in columns if self._kinds[column.name] == TEXT), columns[0])

    def takes(self, column: Column, value: object) -> bool:
        """Whether a value that is not NULL goes into a column, or may: of a number the casts decide.

        Raises JsonMisfit, for the first column alone, if none takes it.
        """
        kind = json_kind(value)
        if column.name == self._first and kind not in self._kinds.values():
            raise JsonMisfit(f"{kind}, and no column of {column.source_name!r} is for it")
        return self._kinds[column.name] == kind

    def cell(self, column: Column, text: str, *, rules: CastRules, blank_is_null: bool) -> Cell:
        """The cell of one of the columns; of a number that no column holds the widest one complains."""
        if column.type.nested:
            return shaped_cell(column, text, rules=rules, blank_is_null=blank_is_null)
        if column.name not in self._numbers:
            return text_cell(column, text, rules=rules, blank_is_null=blank_is_null)
        place = self._numbers.index(column.name)
        narrower = [self._types[name] for name in self._numbers[:place]]
        value, left_over = _number(column.type, narrower, text, rules)
        last = place + 1 == len(self._numbers)
        complaint = f"no column of {column.source_name!r} holds the number exactly"
        return Cell(column, value, left_over, complaint) if last else Cell(column, value)


def groups_of(columns: Sequence[Column]) -> Mapping[str, Group]:
    """The groups among these columns, by the declared name of each of their columns."""
    sharing: dict[str, list[Column]] = {}
    for column in columns:
        if column.mixed == "columns":
            sharing.setdefault(column.source_name, []).append(column)
    return {column.name: group for together in sharing.values() for group in [Group(together)] for column in together}


def _narrowest_first(types: Mapping[str, ColumnType]) -> list[str]:
    return sorted(types, key=lambda name: NARROWEST_FIRST.index(types[name].name))


def _number(kind: ColumnType, narrower: Sequence[ColumnType], text: str, rules: CastRules) -> tuple[str, str]:
    """SQL of a number as `kind` unless a narrower type holds it; and of whether neither does."""
    value = cast(kind, text, rules)
    free = " AND ".join([f"{text} IS NOT NULL", *(f"({cast(other, text, rules)}) IS NULL" for other in narrower)])
    return f"CASE WHEN {free} THEN {value} END", f"{free} AND ({value}) IS NULL"
