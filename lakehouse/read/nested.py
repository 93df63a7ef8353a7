"""Nested values on their way into a column: what becomes of each part, and whether the whole fits. Pure.

A part that does not fit makes the whole value a misfit, so its row is a reject: no part is ever dropped or made NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakehouse.declaration import Column, Declaration
from lakehouse.engines.nested import every, list_value, map_value, struct_value
from lakehouse.errors import UnreadableObject
from lakehouse.masking import shown_names
from lakehouse.read.cells import Cell

ALWAYS = "true"


@dataclass(frozen=True, slots=True)
class Taken:
    """A source value as SQL: `value` in the declared type, and `fits`, a condition that is never NULL and false where
    something of the source would be lost. NULL fits."""

    value: str
    fits: str = ALWAYS


def checked(source: str, value: str) -> Taken:
    """A single value that is NULL where the source has one that does not fit."""
    return Taken(value, f"({source} IS NULL OR ({value}) IS NOT NULL)")


def taken_struct(source: str, fields: Sequence[tuple[str, Taken]]) -> Taken:
    return Taken(
        struct_value(source, ((name, taken.value) for name, taken in fields)), _all(taken.fits for _, taken in fields)
    )


def taken_list(source: str, depth: int, element: Taken) -> Taken:
    """`element` is over `variable(depth)`."""
    fits = ALWAYS if element.fits == ALWAYS else every(source, depth, element.fits)
    return Taken(list_value(source, depth, element.value), fits)


def taken_map(entries: str, depth: int, key: Taken, value: Taken) -> Taken:
    """`entries` is a list of structs with `key` and `value`; a key that is NULL or there twice does not fit."""
    keys = list_value(entries, depth, key.value)
    distinct = f"coalesce(len(list_distinct({keys})) = len({entries}), true)"
    parts = _all((key.fits, value.fits))
    fits = distinct if parts == ALWAYS else f"({distinct} AND {every(entries, depth, parts)})"
    return Taken(f"CASE WHEN {fits} THEN {map_value(entries, depth, key.value, value.value)} END", fits)


def nested_cell(column: Column, source: str, taken: Taken) -> Cell:
    """The cell of a column whose source is the SQL expression `source`."""
    if taken.fits == ALWAYS:
        return Cell(column, taken.value)
    value = f"CASE WHEN {taken.fits} THEN {taken.value} END"
    return Cell(column, value, f"{source} IS NOT NULL", f"a value in it does not fit a {column.type} exactly")


def refuse_unknown_fields(
    names: Collection[str], declared: Collection[str], *, declaration: Declaration, where: str
) -> None:
    """Raise UnreadableObject for fields of a source struct that the declared one does not have, unless ignored.

    A name that differs by case or blanks alone is refused all the same. `where` says which file and column.
    """
    alike = {name.strip().lower(): name for name in declared}
    unknown = [name for name in names if name not in declared]
    for name in unknown:
        if near := alike.get(name.strip().lower()):
            raise UnreadableObject(
                f"a field's name differs from the declared one by case or blanks alone: "
                f"{where} field={name!r} declared={near!r}"
            )
    if unknown and declaration.unknown_columns != "ignore":
        raise UnreadableObject(f"unknown fields: {where} fields={shown_names(unknown, declaration)}")


def _all(conditions: Iterable[str]) -> str:
    real = [condition for condition in conditions if condition != ALWAYS]
    return f"({' AND '.join(real)})" if real else ALWAYS
