"""Reads the target table: where its refs stand, what its files are, whether a bookmark still belongs to it.

Never writes anything: planners and checks get this reader, the publish step alone can change a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse import naming
from lakehouse.errors import NotAvailable
from lakehouse.model import NEW_TABLE, Reference
from lakehouse.recover import Node


@dataclass(frozen=True, slots=True)
class Target:
    """One look at a target: `table` None while it does not exist. `tag` is the snapshot of the context's bookmark."""

    name: str
    context: str
    table: Table | None
    main: Snapshot | None
    tag: Snapshot | None

    @property
    def uuid(self) -> str:
        return str(self.table.metadata.table_uuid) if self.table else NEW_TABLE

    @property
    def bookmark(self) -> Reference | None:
        """The batch manifest that the tag's snapshot names."""
        return manifest_of(self.tag) if self.tag else None

    @property
    def bookmark_version(self) -> int:
        return int(summary(self.tag).get(naming.BOOKMARK_VERSION, "0")) if self.tag else 0

    @property
    def bookmarks(self) -> dict[str, Snapshot]:
        """The snapshots that the bookmarks of the table stand on, by context."""
        if self.table is None:
            return {}
        found = {}
        for name, ref in self.table.metadata.refs.items():
            context = naming.tagged_context(name)
            if context is not None and (snapshot := self.table.metadata.snapshot_by_id(ref.snapshot_id)) is not None:
                found[context] = snapshot
        return found

    @property
    def rows(self) -> int | None:
        """Rows of the whole table as `main` counts them; None if its writer did not say."""
        counts = summary(self.main) if self.main else {}
        total = counts.get("total-records")
        return int(total) - int(counts.get("total-position-deletes", 0)) if total is not None else None

    @property
    def nodes(self) -> dict[int, Node]:
        if self.table is None:
            return {}
        return {
            s.snapshot_id: Node(s.snapshot_id, s.parent_snapshot_id, s.sequence_number or 0)
            for s in self.table.metadata.snapshots
        }

    @property
    def knows_context(self) -> bool:
        """Whether any snapshot of the table was written by this context."""
        return self.table is not None and any(
            summary(s).get(naming.CONTEXT) == self.context for s in self.table.metadata.snapshots
        )


def look(name: str, context: str, table: Table | None) -> Target:
    """Take the refs of one metadata version of a table."""
    if table is None:
        return Target(name, context, None, None, None)
    refs = table.metadata.refs
    tag = refs.get(naming.tag(context))
    return Target(
        name,
        context,
        table,
        table.metadata.current_snapshot(),
        table.metadata.snapshot_by_id(tag.snapshot_id) if tag else None,
    )


def refuse_what_we_cannot_merge(target: Target) -> None:
    """Raise NotAvailable for tables whose rows this release would read wrongly."""
    if target.table is None:
        return
    version = target.table.metadata.format_version
    if version >= 3:
        raise NotAvailable(f"table {target.name}: format version {version} is not available yet; version 1 or 2")
    if int(summary(target.main).get("total-equality-deletes", "0") if target.main else 0):
        raise NotAvailable(
            f"table {target.name} has equality deletes of another writer, which are not available yet",
            next="compact the table with the engine that wrote them",
        )
    if taken := [name for name in target.table.schema().column_names if name.startswith("__")]:
        raise NotAvailable(
            f"table {target.name}: columns with names that begin with two underscores are kept for the merge: "
            f"{', '.join(taken)}",
            next=f"alter table {target.name} rename column {taken[0]} to {taken[0].lstrip('_')}",
        )


def ancestry(table: Table, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """The snapshot and its ancestors, newest first, as far as they have not expired."""
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None


def foreign_since_bookmark(target: Target) -> list[int]:
    """Snapshots of other writers between the bookmark and `main`, newest first."""
    if target.table is None or target.tag is None:
        return []
    tag = target.tag.snapshot_id
    since = takewhile(lambda snapshot: snapshot.snapshot_id != tag, ancestry(target.table, target.main))
    return [snapshot.snapshot_id for snapshot in since if not is_ours(snapshot)]


def is_ours(snapshot: Snapshot) -> bool:
    """Whether a batch, an operator's change or our upkeep wrote the snapshot."""
    return any(key.startswith(naming.SUMMARY) for key in summary(snapshot))


def manifest_of(snapshot: Snapshot) -> Reference | None:
    """The batch manifest that a snapshot of ours names; None for a snapshot of another writer."""
    keys = summary(snapshot)
    return Reference(keys[naming.MANIFEST], keys[naming.MANIFEST_SHA256]) if naming.MANIFEST in keys else None


def summary(snapshot: Snapshot) -> dict[str, str]:
    """All summary properties of a snapshot; a snapshot without a summary has none."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}
