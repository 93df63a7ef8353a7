"""Where a bookmark stands, as far as the ledger has to know it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse import naming
from lakehouse.model import Reference
from lakehouse.target import Target, ancestry, summary


@dataclass(frozen=True, slots=True)
class Standing:
    """The bookmark up to which a ledger is to be filled: version 0 and no head before the first batch.

    `snapshot_ids` maps a bookmark version to the target's snapshot, for those that have not expired.
    """

    table: str
    table_uuid: str
    context: str
    version: int
    head: Reference | None
    snapshot_ids: Mapping[int, int] = field(default_factory=dict)


def standing_of(target: Target) -> Standing:
    """The bookmark that a look at the target showed."""
    return Standing(
        table=target.name,
        table_uuid=target.uuid,
        context=target.context,
        version=target.bookmark_version,
        head=target.bookmark,
        snapshot_ids=_snapshot_ids(target),
    )


def _snapshot_ids(target: Target) -> dict[int, int]:
    """Snapshots by bookmark version, from the tag back: one that is merely in the metadata was never published.

    Before a renaming the bookmark had its old name.
    """
    found: dict[int, int] = {}
    if target.table is None:
        return found
    context = target.context
    for snapshot in ancestry(target.table, target.tag):
        properties = summary(snapshot)
        if properties.get(naming.CONTEXT) == context and naming.BOOKMARK_VERSION in properties:
            found[int(properties[naming.BOOKMARK_VERSION])] = snapshot.snapshot_id
            context = properties.get(naming.RENAMED_FROM, context)
    return found
