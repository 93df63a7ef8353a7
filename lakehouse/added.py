"""`unknown_columns: add`: the columns of a table that files brought, and the names that files can bring. No I/O.

Such a column is marked in the table's schema: one of another writer keeps its values on every update, an added one has
what the newest row has. What is decided here of the objects of a batch does not depend on their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pyiceberg.table import Table
from pyiceberg.types import NestedField, StringType

from lakehouse.declaration.column_names import LONGEST, fault_of_brought_name
from lakehouse.declaration.partition_field import field_names
from lakehouse.masking import MASK, hides_names
from lakehouse.naming import ADDED

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MOST_ADDED = 1_000
"""So many columns of a table may come from files; a feed that brings more has data for names."""


def is_added(field: NestedField) -> bool:
    """Whether the column came from files that had it undeclared."""
    return field.doc == ADDED and _holds_texts(field)


def added_columns(declaration: Declaration, table: Table | None) -> tuple[str, ...]:
    """The columns that files brought and nobody has declared since, in the table's order; none without `add`."""
    if table is None or not declaration.adds:
        return ()
    declared = {column.name for column in declaration.columns}
    return tuple(f.name for f in table.schema().fields if is_added(f) and f.name not in declared)


def effective_declaration(declaration: Declaration, table: Table | None, brought: Collection[str] = ()) -> Declaration:
    """What is staged and merged: the declared columns, those that earlier batches added to the table, and those that
    this batch `brought`, by name. The declaration itself without `add`."""
    if not declaration.adds:
        return declaration
    known = added_columns(declaration, table)
    return declaration.with_added((*known, *sorted(set(brought).difference(known))))


def refused_objects(
    declaration: Declaration, table: Table | None, brought: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The objects that bring a name which cannot become a column, by URI, each with the reason.

    `brought` has the undeclared names of each object. Of several spellings of one new name the one that most objects
    have stands, of equals the first by code point; an object with another one is refused.
    """
    taken = _Taken(declaration, table)
    refused: dict[str, str] = {}
    for uri, names in brought.items():
        faults = ((name, taken.fault(name)) for name in sorted(names))
        if found := next(((name, fault) for name, fault in faults if fault), None):
            refused[uri] = _refusal(uri, *found)
    fresh = {uri: set(names) - taken.usable for uri, names in brought.items() if uri not in refused}
    refused |= _other_spellings(fresh)
    if not hides_names(declaration):
        return refused
    reason = "its name is none of a column, or another spelling of one"
    return {uri: f"a column cannot be added: uri={uri} column={MASK} reason={reason}" for uri in refused}


class _Taken:
    """The names that a table has or its declaration takes. `usable` are columns that a file may bring again."""

    def __init__(self, declaration: Declaration, table: Table | None) -> None:
        fields = list(table.schema().fields) if table is not None else []
        self._declared = {column.name for column in declaration.columns}
        self._kinds = {field.name: str(field.field_type) for field in fields}
        self.usable = {f.name for f in fields if f.name not in self._declared and _holds_texts(f)}
        self._alike = {_plain(name): name for name in (*self._kinds, *self._declared)}
        parts = field_names(declaration.partition_by)
        parts = (*parts, *(field.name for field in table.spec().fields)) if table is not None else parts
        self._parts = {_plain(name) for name in parts}

    def fault(self, name: str) -> str:
        """Why the name cannot become a column; empty if it can."""
        if fault := fault_of_brought_name(name):
            return fault
        if name in self.usable:
            return ""
        if name in self._declared:
            return "the declared column of that name is read from elsewhere; declare this one, too, with `from`"
        if name in self._kinds:
            return f"the table has an undeclared column of that name and the type {self._kinds[name]}; declare it"
        if near := self._alike.get(_plain(name)):
            return f"it differs from the column {near!r} by case or blanks alone"
        if _plain(name) in self._parts:
            return "a field of the table's partition spec has the name; declare it under another one, with `from`"
        return ""


def _other_spellings(fresh: Mapping[str, Collection[str]]) -> dict[str, str]:
    refused: dict[str, str] = {}
    spellings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for uri, names in fresh.items():
        if double := next(_doubles(names), None):
            refused[uri] = _refusal(uri, double[1], f"it differs from {double[0]!r} by case or blanks alone")
            continue
        for name in names:
            spellings[_plain(name)][name].add(uri)
    for plain in sorted(spellings):
        left = {name: uris.difference(refused) for name, uris in spellings[plain].items()}
        stands = min(left, key=lambda name: (-len(left[name]), name))
        for name in left:
            fault = f"it differs from {stands!r} of other objects by case or blanks alone"
            refused |= {uri: _refusal(uri, name, fault) for uri in left[name] if name != stands}
    return refused


def _doubles(names: Collection[str]) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for name in sorted(names):
        if (other := first.setdefault(_plain(name), name)) != name:
            yield other, name


def _refusal(uri: str, name: str, fault: str) -> str:
    return f"a column cannot be added: uri={uri} column={name[:LONGEST]!r} reason={fault}"


def _holds_texts(field: NestedField) -> bool:
    return field.optional and isinstance(field.field_type, StringType)


def _plain(name: str) -> str:
    return name.strip().lower()
