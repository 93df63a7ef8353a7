"""Where a context stands: the target's refs and the bookmark behind its tag. Refuses a table that was moved under it.

Reads only, but for `take_position`, which is for writers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.bookmark import were_read
from lakehouse.catalog import load_table
from lakehouse.errors import Detached, UsageError
from lakehouse.evolve import Fit, fit_table
from lakehouse.model import Bookmark, Grave, Hold, Manifest
from lakehouse.recover import Attachment, attachment
from lakehouse.services import Services
from lakehouse.state import load_bookmark, read_manifest, walk
from lakehouse.target import Target, look, manifest_of, refuse_what_we_cannot_merge, summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_DROPPED = "the table was dropped: its bookmark belongs to table uuid {uuid}"


@dataclass(frozen=True, slots=True)
class Position:
    """A target and the bookmark of one context on it. `fit` is what the table lacks of the declaration.

    `others` are the newest manifests of the table's other bookmarks, by context; `lives` are the uuids of the
    tables of this name on which each context was published, asked for only where this one was not.
    """

    target: Target
    bookmark: Bookmark
    fit: Fit = field(default_factory=Fit)
    others: Mapping[str, Manifest] = field(default_factory=dict)
    lives: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def held(self) -> Hold | None:
        """The hold of the table: whichever of its bookmarks carries it."""
        return next(filter(None, (self.bookmark.held, *(m.held for m in self.others.values()))), None)

    @property
    def graves(self) -> tuple[Grave, ...]:
        """The files of hard-deleted keys of all bookmarks: a row that one source deleted stays so for the others."""
        return (*self.bookmark.graves, *(grave for m in self.others.values() for grave in m.graves))


def find_position(declaration: Declaration, services: Services) -> Position:
    """Look at the table and read its bookmark, before anything else is read.

    Raises what `any_position` raises, Detached also if the table was dropped or recreated, and UsageError for a table
    with rows that was never loaded or adopted.
    """
    position = any_position(declaration, services)
    if other := _other_life(declaration, position.target, position.lives):
        raise _detached(declaration, position.target, _DROPPED.format(uuid=other))
    if holds_rows_of_others(position.target):
        raise UsageError(
            f"table {declaration.table} has rows and was never loaded by lakehouse: its rows are not accounted for; "
            "nothing was read",
            next=f"lakehouse adopt {declaration.table}",
        )
    return position


def take_position(declaration: Declaration, services: Services) -> Position:
    """As `find_position`, for who writes: leaves the marker that this context was published on this table, if it was; a
    later load finds it if the tag is lost. Who only looks may have no right to write."""
    position = find_position(declaration, services)
    if position.target.tag is not None:
        services.state.create(_marker(declaration, position.target.uuid, services), b"{}")
    return position


def any_position(declaration: Declaration, services: Services) -> Position:
    """As `find_position`, and also for a table that nobody has loaded or adopted, whatever became of another one of its
    name.

    Raises DeclarationError or NotAvailable for a table that the declaration does not fit; Detached if the bookmark's
    snapshot is no longer behind `main`, or its tag is gone; UsageError if the bookmark was renamed; DataError if a
    manifest is missing or altered.
    """
    target, state, reason = _attachment(declaration, services)
    if state is Attachment.DETACHED:
        _refuse_renamed(declaration, target, services)
        raise _detached(declaration, target, reason)
    lives = _lives(declaration, services) if state is Attachment.FIRST_LOAD else {}
    fit = Fit()
    if target.table is not None:
        refuse_what_we_cannot_merge(target)
        fit = fit_table(declaration, target.table)
    bookmark = load_bookmark(services.state, target.bookmark)
    return Position(target, bookmark, fit, _others(target, services), lives)


def detached_target(declaration: Declaration, services: Services) -> tuple[Target, str]:
    """The table as it is, and why no bookmark of the context stands on it: the reason is empty if one does, or if none
    ever was. Raises DeclarationError or NotAvailable for a table that the declaration does not fit."""
    target, state, reason = _attachment(declaration, services)
    if target.table is not None:
        refuse_what_we_cannot_merge(target)
        fit_table(declaration, target.table)
    if state is Attachment.DETACHED:
        return target, reason
    lives = _lives(declaration, services) if state is Attachment.FIRST_LOAD else {}
    if other := _other_life(declaration, target, lives):
        return target, _DROPPED.format(uuid=other)
    return target, ""


def read_elsewhere(declaration: Declaration, position: Position, uris: Collection[str], services: Services) -> set[str]:
    """Those of these objects that another bookmark of the table has read, such as one that was left behind for a new
    name: rows of them may be in the table. Looks into those whose folder touches that of the source."""
    found: set[str] = set()
    here = declaration.source.uri
    for context, manifest in position.others.items():
        there = manifest.source_uri or here
        if there.startswith(here) or here.startswith(there):
            head = manifest_of(position.target.bookmarks[context])
            found |= were_read(load_bookmark(services.state, head), uris)
    return found


def holds_rows_of_others(target: Target) -> bool:
    """Whether the table has rows and no bookmark of ours, of this context or another."""
    if target.table is None or target.main is None:
        return False
    return not target.bookmarks and target.rows != 0


def _attachment(declaration: Declaration, services: Services) -> tuple[Target, Attachment, str]:
    target = look(declaration.table, declaration.context, load_table(services.catalog, declaration.table))
    state, reason = attachment(
        target.nodes,
        main=target.main.snapshot_id if target.main else None,
        tag=target.tag.snapshot_id if target.tag else None,
        known=_known(declaration, target, services),
    )
    return target, state, reason


def _marker(declaration: Declaration, table_uuid: str, services: Services) -> str:
    root = naming.incarnation_root(services.catalog_name, declaration.table, table_uuid)
    return root + naming.published_marker(declaration.context)


def _known(declaration: Declaration, target: Target, services: Services) -> bool:
    if target.tag is not None or target.table is None:
        return False
    return target.knows_context or services.state.read(_marker(declaration, target.uuid, services)) is not None


def _lives(declaration: Declaration, services: Services) -> dict[str, list[str]]:
    """The uuids of the lives of this table on which each context was published."""
    root = naming.table_root(services.catalog_name, declaration.table)
    base = services.state.uri(root)
    found: dict[str, list[str]] = {}
    for item in services.state.list(root):
        uuid, _, rest = item.uri.removeprefix(base).partition("/")
        if (context := naming.published_context(rest)) is not None:
            found.setdefault(context, []).append(uuid)
    return found


def _other_life(declaration: Declaration, target: Target, lives: Mapping[str, Sequence[str]]) -> str | None:
    """The uuid of another table of this name on which the context was published."""
    return next((uuid for uuid in lives.get(declaration.context, ()) if uuid != target.uuid), None)


def _others(target: Target, services: Services) -> dict[str, Manifest]:
    """The newest manifests of the bookmarks of other contexts."""
    heads = {context: manifest_of(snapshot) for context, snapshot in target.bookmarks.items()}
    return {
        context: read_manifest(services.state, head)
        for context, head in heads.items()
        if head is not None and context != target.context
    }


def _refuse_renamed(declaration: Declaration, target: Target, services: Services) -> None:
    """Raise UsageError if another bookmark of the table goes on where this context's has ended."""
    old = declaration.context
    if target.tag is None and (new := _renamed_to(old, target, services)) is not None:
        raise UsageError(
            f"bookmark {old} of table {declaration.table} was renamed to {new}; nothing was read",
            next=f"declare bookmark: {new} in {declaration.path}, or "
            f"lakehouse bookmark rename {declaration.table} {new} {old} --reason TEXT",
        )


def _renamed_to(old: str, target: Target, services: Services) -> str | None:
    """The bookmark that was called `old`: the snapshot of the renaming says so, and its manifests for ever."""
    keys = [summary(snapshot) for snapshot in target.table.metadata.snapshots] if target.table else []
    for found in reversed(keys):
        if found.get(naming.RENAMED_FROM) == old and found.get(naming.CONTEXT) in target.bookmarks:
            return found[naming.CONTEXT]
    for context, snapshot in target.bookmarks.items():
        if any(manifest.context == old for manifest, _ in walk(services.state, manifest_of(snapshot))):
            return context
    return None


def _detached(declaration: Declaration, target: Target, reason: str) -> Detached:
    command = (
        f"lakehouse bookmark rewind {declaration.table}{declaration.source_option} --to-table --reason TEXT --dry-run"
    )
    if target.tag is not None:
        command += f"   # or set main back to the tag {naming.tag(declaration.context)}"
    return Detached(
        f"table {declaration.table} is detached from bookmark {declaration.context}: {reason}; nothing was read",
        next=command,
    )
