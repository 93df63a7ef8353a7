"""Where the declared columns stand in a record: by name, in nested ones by a path of names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakehouse.declaration import Column, Declaration
from lakehouse.read.nested import refuse_unknown_fields
from lakehouse.types import ColumnType

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origins:
    """The columns of a file by declared name, each with its path.

    `levels` has the names that are declared below a path that leads into a nested value; a path that is a column's own
    is none of them, for that column says what may stand there.
    """

    columns: Mapping[str, Column]
    paths: Mapping[str, Path]
    levels: Mapping[Path, frozenset[str]]

    def types(self, above: Path = ()) -> dict[str, ColumnType]:
        """The types of the names below a path; of a name that only leads on, a struct of what is declared below it."""
        own = {path: self.columns[name].type for name, path in self.paths.items()}
        paths = dict.fromkeys(path[: len(above) + 1] for path in own if path[: len(above)] == above != path)
        return {
            path[-1]: own.get(path) or ColumnType("struct", fields=tuple(self.types(path).items())) for path in paths
        }

    def refuse_unknown(self, path: Path, names: Iterable[str], *, declaration: Declaration, where: str) -> None:
        """Raise UnreadableObject for fields of the value at `path` that nobody declares, unless they are ignored."""
        shown = f"{where} column={'.'.join(path)!r}"
        refuse_unknown_fields(list(names), self.levels[path], declaration=declaration, where=shown)


def origins_of(declaration: Declaration) -> Origins:
    """The origins of the columns that come from a file of the declared format."""
    columns = {column.name: column for column in declaration.file_columns}
    paths = {name: declaration.origin(column) for name, column in columns.items()}
    levels: dict[Path, set[str]] = {}
    for path in paths.values():
        for depth in range(1, len(path)):
            levels.setdefault(path[:depth], set()).add(path[depth])
    whole = set(paths.values())
    return Origins(columns, paths, {path: frozenset(names) for path, names in levels.items() if path not in whole})
