"""What may be shown of values: those of columns declared `pii: true` never are. Pure.

Owns what stands in a value's place and which parts of a record may be shown. Whatever shows something of a file or of a
table's rows asks here: rejects, messages, exported rows. The table itself holds the values as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MASK = "***"
_TEXT_FORMATS = ("csv", "jsonl", "json", "xml")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a record: whether it may be shown, but for the named parts `below` it, which say so themselves."""

    shown: bool
    below: Mapping[str, Part] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all of it may be shown."""
        return self.shown and not self.below

    def at(self, name: str) -> Part:
        """The part of that name; one that nobody declares is as what it stands in."""
        return self.below.get(name) or Part(self.shown)


def hides(declaration: Declaration) -> bool:
    """Whether the table has columns whose values are not shown."""
    return bool(declaration.hidden_columns)


def hidden_columns(declaration: Declaration) -> tuple[str, ...]:
    """Their names."""
    return declaration.hidden_columns


def record_parts(declaration: Declaration) -> Part:
    """A record of the file by the names in it. Of a table with hidden columns only declared others may be shown: what
    is not declared may be a hidden column by another name."""
    if not hides(declaration):
        return Part(shown=True)
    return _part([(declaration.origin(column), column.pii) for column in declaration.file_columns])


def _part(columns: Sequence[tuple[Path, bool]]) -> Part:
    """The part that these columns are below, each with its path from there and whether it is hidden."""
    own = [hidden for path, hidden in columns if not path]
    if any(own) or (own and not any(hidden for _, hidden in columns)):
        return Part(not any(own))
    below: dict[str, list[tuple[Path, bool]]] = {}
    for path, hidden in columns:
        if path:
            below.setdefault(path[0], []).append((path[1:], hidden))
    return Part(bool(own), {name: _part(inside) for name, inside in below.items()})


def may_show(path: Path, declaration: Declaration) -> bool:
    """Whether the value at a path has nothing hidden in it and stands in nothing hidden."""
    hidden = (declaration.origin(column) for column in declaration.file_columns if column.pii)
    return not any(path[: len(other)] == other[: len(path)] for other in hidden)


def whole(raw: bytes) -> bytes:
    """What is shown of a text that cannot be taken apart; of nothing, nothing."""
    return f"{MASK} masked, {len(raw)} bytes".encode() if raw else raw


def shown_text(text: str, declaration: Declaration) -> str:
    """Text that may quote values: of a file, or of what a library says of an error."""
    return whole(text.encode("utf-8", "surrogateescape")).decode() if hides(declaration) else text


def shown_key(declaration: Declaration, values: Sequence[object]) -> str:
    """A business key as `column=value …`."""
    hidden = hidden_columns(declaration)
    pairs = zip(declaration.key, values, strict=True)
    return " ".join(f"{name}={MASK if name in hidden else value}" for name, value in pairs)


def hides_names(declaration: Declaration) -> bool:
    """Whether names that nobody declares are not shown: in a damaged text file a value may stand where a name does."""
    return hides(declaration) and declaration.source.format.type in _TEXT_FORMATS


def shown_names(names: Iterable[str], declaration: Declaration) -> str:
    """Names of a file's columns or fields, quoted and joined by commas; those that are not shown are counted."""
    listed = list(names)
    if not hides_names(declaration):
        return ",".join(map(repr, listed))
    declared = {name for column in declaration.file_columns for name in declaration.origin(column)}
    known = [repr(name) for name in listed if name in declared]
    count = len(listed) - len(known)
    return ",".join([*known, *([f"{MASK} masked, {count} name{'s' * (count > 1)}"] if count else [])])
