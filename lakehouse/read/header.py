"""Matching the columns of a file with the declared ones, by name. Pure.

The order of a file's columns means nothing. A name that is nearly a declared one is refused rather than taken for an
unknown column: ignoring it would load NULLs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from lakehouse.declaration import Column, Declaration
from lakehouse.errors import UnreadableObject
from lakehouse.masking import shown_names


def must_have_value(column: Column, declaration: Declaration) -> bool:
    """Whether a NULL in the column makes a record of a file a reject; computed columns have no value yet."""
    return declaration.needs_value(column) and not column.computed


class Matched(NamedTuple):
    """Positions of columns in a file: of the declared ones, by declared name, and of those that are to be rescued."""

    found: dict[str, int]
    rescued: dict[str, int]


def match_columns(names: Sequence[str], *, declaration: Declaration, uri: str) -> Matched:
    """Where the columns of a file with these names are.

    Raises UnreadableObject for names equal but for case, unknown names (unless ignored or rescued) and a path column
    that the file has too.
    """
    _refuse_doubles(names, declaration, uri)
    unknown = unknown_names(names, declaration=declaration, where=f"uri={uri}")
    positions = {name: position for position, name in enumerate(names)}
    origins = {column.name: declaration.origin(column)[0] for column in declaration.file_columns}
    found = {name: positions[origin] for name, origin in origins.items() if origin in positions}
    return Matched(found, {name: positions[name] for name in unknown})


def missing_columns(
    found: Collection[str], *, names: Iterable[str], declaration: Declaration, uri: str
) -> tuple[str, ...]:
    """Declared names of the columns that are not among the `found` ones: they are NULL in all rows of the file.

    Raises UnreadableObject, with the `names` of the file, if one of them is a key, required or order column: without
    order, no row of the file wins.
    """
    missing = [column for column in declaration.file_columns if column.name not in found]
    needed = [
        column.source_name
        for column in missing
        if must_have_value(column, declaration) or column.name in declaration.order_by
    ]
    if needed:
        found_names = shown_names(names, declaration)
        raise UnreadableObject(f"missing columns: uri={uri} columns={_listed(needed)} found={found_names}")
    return tuple(column.name for column in missing)


def unknown_names(names: Iterable[str], *, declaration: Declaration, where: str) -> list[str]:
    """The names that are not declared and to be rescued; none if such are ignored.

    Raises UnreadableObject if they are neither. `where` says which file and line: `uri=… line=…`.
    """
    declared = dict.fromkeys(declaration.origin(column)[0] for column in declaration.file_columns)
    alike = {_plain(name): name for name in declared}
    unknown = [name for name in names if name not in declared]
    for name in unknown:
        if near := alike.get(_plain(name)):
            raise UnreadableObject(
                f"a column name differs from the declared one by case or blanks alone: "
                f"{where} column={name!r} declared={near!r}"
            )
    if not unknown or declaration.unknown_columns == "ignore":
        return []
    if declaration.rescues:
        return unknown
    in_path = {column.name for column in declaration.columns if column.from_path is not None}
    if both := [name for name in unknown if name in in_path]:
        raise UnreadableObject(f"the file has columns that come from its path: {where} columns={_listed(both)}")
    raise UnreadableObject(f"unknown columns: {where} columns={shown_names(unknown, declaration)}")


def _refuse_doubles(names: Sequence[str], declaration: Declaration, uri: str) -> None:
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        other = first.setdefault(name.lower(), position)
        if other != position:
            raise UnreadableObject(
                f"two columns have the same name but for case: uri={uri} "
                f"columns={shown_names((names[other], name), declaration)} positions={other + 1},{position + 1}"
            )


def _plain(name: str) -> str:
    return name.strip().lower()


def _listed(names: Iterable[str]) -> str:
    return ",".join(repr(name) for name in names)
