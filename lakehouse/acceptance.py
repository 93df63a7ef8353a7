"""Whether a source may be read from its beginning: a renamed or re-pointed one would re-read all history (G9).

Owns the question and the marker in the state folder that remembers the answer. Never plans or loads: `lakehouse.ingest`
asks, and refuses while nobody has answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.model import NEW_TABLE, Bookmark
from lakehouse.position import Position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


_NEAR = 4
"""So many known names around a folder say whether one lies in it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What there is no bookmark for, why that is strange, and the commands that answer it. `uri` is the folder that the
    answer is about, empty where it is about the context as such."""

    what: str
    because: str
    next: str
    uri: str = ""

    @property
    def reason(self) -> str:
        """As `text`, where nothing was planned."""
        return f"no bookmark for {self.what}; {self.because}"

    def text(self, objects: int) -> str:
        """What an operator is told, with the objects that a load would read."""
        would = "1 object would be" if objects == 1 else f"{objects} objects would be"
        return f"no bookmark for {self.what}; {would} re-read; {self.because}"


def open_question(declaration: Declaration, position: Position, services: Services) -> Question | None:
    """What must be answered before the source is read; None if it goes on where it stood, if it is the first of its
    table, or if somebody has accepted it."""
    found = _question(declaration, position)
    if found is None or _accepted(declaration, position, found, services):
        return None
    return found


def accept(declaration: Declaration, position: Position, question: Question, services: Services) -> None:
    """Remember the answer that the source may be read from the beginning: not asked again, also if nothing is read."""
    root = _root(declaration, position.target.uuid, services)
    services.state.create(root + naming.accepted_marker(declaration.context, question.uri), b"{}")


def accept_all(declaration: Declaration, position: Position, services: Services) -> None:
    """Remember that none of the sources that the file declares now is new to the table."""
    root = _root(declaration, position.target.uuid, services)
    for context in declaration.contexts:
        services.state.create(root + naming.accepted_marker(context, ""), b"{}")


def is_first(position: Position) -> bool:
    """Whether nothing was ever loaded into the table, by any source."""
    return not position.bookmark.version and not _others(position)


def _question(declaration: Declaration, position: Position) -> Question | None:
    table, context, uri = declaration.table, declaration.context, declaration.source.uri
    load = f"lakehouse load {table}{declaration.source_option} --accept-new"
    if not _was_loaded(position.bookmark):
        others = _others(position)
        if not others:
            return None
        unnamed = [other for other in position.others if other not in declaration.contexts]
        there = f"the table has {_named(unnamed or others)}"
        if not unnamed or position.bookmark.version:
            return Question(context, there, f"{load}   # reads them")
        rename = f"lakehouse bookmark rename {table} {unnamed[0]} {context} --reason TEXT"
        return Question(context, there, f"{rename}   # goes on where it stands, or {load}   # reads them")
    before = _read_before(position.bookmark, uri)
    if before is None:
        return None
    because = f"bookmark {context} has read {before}"
    back = f"{load}   # reads them, or set source.uri back in {declaration.path}"
    return Question(f"{context} at {uri}", because, back, uri)


def _others(position: Position) -> list[str]:
    """Other contexts of the table, those with a bookmark first."""
    own = position.target.context
    return [*position.others, *sorted(position.lives.keys() - {own, *position.others})]


def _named(contexts: list[str]) -> str:
    more = f" and {len(contexts) - 3} more" if len(contexts) > 3 else ""
    return f"bookmark{'s' if len(contexts) > 1 else ''} {', '.join(contexts[:3])}{more}"


def _was_loaded(bookmark: Bookmark) -> bool:
    """Whether a batch has read anything: an operator's change alone, such as a hold, makes a bookmark too."""
    return bool(bookmark.version) and bool(bookmark.source_uri or bookmark.seen or bookmark.paused)


def _read_before(bookmark: Bookmark, uri: str) -> str | None:
    """The folder that was read, if neither it nor `uri` holds the other; manifests that do not name it name objects."""
    there = bookmark.source_uri
    if there and (uri.startswith(there) or there.startswith(uri)):
        return None
    # also the folder before the last one is known: going back to it reads nothing again
    if any(name.startswith(uri) for known in (bookmark.seen, bookmark.paused) for name in known.around(uri, _NEAR)):
        return None
    return there or next(iter(bookmark.seen or bookmark.paused)).rpartition("/")[0] + "/"


def _accepted(declaration: Declaration, position: Position, question: Question, services: Services) -> bool:
    """Also by a load that began before the table existed."""
    lives = dict.fromkeys((position.target.uuid, NEW_TABLE))
    marker = naming.accepted_marker(declaration.context, question.uri)
    keys = [_root(declaration, life, services) + marker for life in lives]
    return any(data is not None for data in services.state.read_many(keys))


def _root(declaration: Declaration, table_uuid: str, services: Services) -> str:
    return naming.incarnation_root(services.catalog_name, declaration.table, table_uuid)
