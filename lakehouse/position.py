"""Where a context stands: the target's refs and the bookmark behind its tag. Refuses a table that was moved under it.

Reads only, but for one marker in the state folder that remembers that a context was ever published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.catalog import load_table
from lakehouse.errors import Detached, UsageError
from lakehouse.evolve import Fit, fit_table
from lakehouse.model import Bookmark
from lakehouse.recover import Attachment, attachment
from lakehouse.services import Services
from lakehouse.state import load_bookmark
from lakehouse.target import Target, look, refuse_what_we_cannot_merge

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Position:
    """A target and the bookmark of one context on it. `fit` is what the table lacks of the declaration."""

    target: Target
    bookmark: Bookmark
    fit: Fit = field(default_factory=Fit)


def find_position(declaration: Declaration, services: Services) -> Position:
    """Look at the table and read its bookmark, before anything else is read.

    Raises what `any_position` raises, and UsageError for a table with rows that was never loaded or adopted.
    """
    position = any_position(declaration, services)
    if holds_rows_of_others(position.target):
        raise UsageError(
            f"table {declaration.table} has rows and was never loaded by lakehouse: its rows are not accounted for; "
            "nothing was read",
            next=f"lakehouse adopt {declaration.table}",
        )
    return position


def any_position(declaration: Declaration, services: Services) -> Position:
    """As `find_position`, and also for a table with rows that nobody has adopted.

    Raises DeclarationError or NotAvailable for a table that the declaration does not fit; Detached if the bookmark's
    snapshot is no longer behind `main`, its tag is gone, or the table was dropped or recreated; DataError if a
    manifest is missing or altered.
    """
    target = look(declaration.table, declaration.context, load_table(services.catalog, declaration.table))
    known = _known(declaration, target, services)
    state, reason = attachment(
        target.nodes,
        main=target.main.snapshot_id if target.main else None,
        tag=target.tag.snapshot_id if target.tag else None,
        known=known,
    )
    if state is Attachment.DETACHED:
        raise _detached(declaration, reason, services, tag=target.tag is not None)
    if state is Attachment.FIRST_LOAD and (other := _other_life(declaration, target, services)):
        raise _detached(declaration, f"the table was dropped: its bookmark belongs to table uuid {other}", services)
    fit = Fit()
    if target.table is not None:
        refuse_what_we_cannot_merge(target)
        fit = fit_table(declaration, target.table)
    bookmark = load_bookmark(services.state, target.bookmark)
    if state is Attachment.ATTACHED:
        _remember(declaration, target, services)
    return Position(target, bookmark, fit)


def holds_rows_of_others(target: Target) -> bool:
    """Whether the table has rows and no bookmark of ours, of this context or another."""
    if target.table is None or target.main is None:
        return False
    if any(name.startswith(naming.tag("")) for name in target.table.metadata.refs):
        return False
    return target.rows != 0


def _remember(declaration: Declaration, target: Target, services: Services) -> None:
    """Leave the marker that this context was published on this table; a later load finds it if the tag is lost."""
    services.state.create(_marker(declaration, target.uuid, services), b"{}")


def _marker(declaration: Declaration, table_uuid: str, services: Services) -> str:
    root = naming.incarnation_root(services.catalog_name, declaration.table, table_uuid)
    return root + naming.published_marker(declaration.context)


def _known(declaration: Declaration, target: Target, services: Services) -> bool:
    if target.tag is not None or target.table is None:
        return False
    return target.knows_context or services.state.read(_marker(declaration, target.uuid, services)) is not None


def _other_life(declaration: Declaration, target: Target, services: Services) -> str | None:
    """The uuid of another life of this table on which the context was published."""
    root = naming.table_root(services.catalog_name, declaration.table)
    ending = naming.published_marker(declaration.context)
    base = services.state.uri(root)
    for item in services.state.list(root):
        uuid, _, rest = item.uri.removeprefix(base).partition("/")
        if rest == ending and uuid != target.uuid:
            return uuid
    return None


def _detached(declaration: Declaration, reason: str, services: Services, *, tag: bool = False) -> Detached:
    folder = services.state.uri(naming.table_root(services.catalog_name, declaration.table))
    anew = f"to load everything into a new table, drop the table and remove the state folder {folder}"
    back = f"set main back to the tag {naming.tag(declaration.context)}, or, " if tag else ""
    return Detached(
        f"table {declaration.table} is detached from bookmark {declaration.context}: {reason}; nothing was read",
        next=back + anew,
    )
