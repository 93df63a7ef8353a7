"""Sends one commit to a ledger table: rows, rewritten files and the new head together, or nothing of it.

Asserts the table's uuid and its `main`, and every commit moves `main`, also one that has a new head and no rows: of two
that read the same head one alone lands, and nobody sets a head back. Never retries and never decides what an error
means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from uuid import UUID

from pyiceberg.catalog import TOKEN, Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from lakehouse.catalog import translate
from lakehouse.errors import ConfigurationError
from lakehouse.iceberg import LiveFiles, draft_snapshot

MERGE_MANIFESTS_ABOVE = 10
"""Every batch of every table adds a manifest, and each commit reads them all: merge them early."""
KEEP_SNAPSHOTS = 20
"""The ledger's own history: without a bound, every commit would write a longer metadata file than the one before."""

_ONE_AT_A_TIME = Lock()
"""Where tables have tokens of their own: PyIceberg's REST catalog puts them into headers that its threads share."""


def commit_rows(
    catalog: Catalog,
    table: Table,
    *,
    live: LiveFiles,
    added: Sequence[DataFile],
    removed: frozenset[str],
    head: Mapping[str, str],
    commit_uuid: UUID,
) -> Exception | None:
    """Commit on the `main` that `table` and its live files show; `head` is the property with its new value,
    empty where no head moves.

    Returns the catalog's error, if any: the commit may have landed all the same, and only a new look at it tells.
    Raises ConfigurationError where the catalog refuses our credentials.
    """
    main = table.current_snapshot()
    heads: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=dict(head)),) if head else ()
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main.snapshot_id if main else None),
    )
    draft = draft_snapshot(
        table,
        commit_uuid=commit_uuid,
        properties=head,
        live=live,
        removed=removed,
        added=added,
        merge_above=MERGE_MANIFESTS_ABOVE,
    )
    updates = (*draft.updates, *heads, *_expired(table))
    try:
        with _ONE_AT_A_TIME if TOKEN in table.config else nullcontext():
            catalog.commit_table(table, requirements, updates)
    except Exception as error:
        known = translate(error, f"table={'.'.join(table.name())}")
        if isinstance(known, ConfigurationError) and not isinstance(error, (NoSuchTableError, NoSuchNamespaceError)):
            raise known from error
        return error
    return None


def _expired(table: Table) -> tuple[TableUpdate, ...]:
    """Drop the oldest snapshots from the ledger's history, but none that a branch or a tag stands on."""
    held = {ref.snapshot_id for ref in table.metadata.refs.values()}
    oldest_first = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    expired = [s.snapshot_id for s in oldest_first[: 1 - KEEP_SNAPSHOTS] if s.snapshot_id not in held]
    return (RemoveSnapshotsUpdate(snapshot_ids=expired),) if expired else ()
