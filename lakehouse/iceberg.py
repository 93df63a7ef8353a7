"""The only module that leans on PyIceberg's underscore names: HTTP timeouts, snapshots, catalog errors.

It builds the updates of one snapshot from the manifests it was given and never sends them: publishing is
`lakehouse.publish` alone. A test pins the PyIceberg release whose inner names are used here.
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
PARALLEL_READS = 8
MERGE_MANIFESTS_ABOVE = 50
"""Above this many manifests of one spec the small ones are merged, or reading the table slows with every batch."""


@dataclass(frozen=True, slots=True)
class LiveManifest:
    """A data manifest with its live entries."""

    manifest: ManifestFile
    entries: tuple[ManifestEntry, ...]


class _TimeoutAdapter(HTTPAdapter):
    """PyIceberg sets no timeout, so a silent catalog would hang a load for ever (DESIGN §3)."""

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = (CONNECT_SECONDS, READ_SECONDS)
        return super().send(request, *args, **kwargs)


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose requests, the token request of its constructor included, end in bounded time."""

    def _create_session(self) -> Any:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _TimeoutAdapter())
        return session


def live_manifests(table: Table, snapshot: Snapshot | None) -> tuple[LiveManifest, ...]:
    """Every data manifest of a snapshot that still has live files; delete manifests are not in it."""
    if snapshot is None:
        return ()
    wanted = [
        manifest
        for manifest in snapshot.manifests(io=table.io)
        if manifest.content == ManifestContent.DATA and (manifest.has_added_files() or manifest.has_existing_files())
    ]

    def read(manifest: ManifestFile) -> LiveManifest:
        return LiveManifest(manifest, tuple(manifest.fetch_manifest_entry(io=table.io, discard_deleted=True)))

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return tuple(pool.map(read, wanted))


def has_delete_files(table: Table, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot carries delete files of any kind."""
    if snapshot is None:
        return False
    return any(
        m.content == ManifestContent.DELETES and (m.has_added_files() or m.has_existing_files())
        for m in snapshot.manifests(io=table.io)
    )


class _BatchSnapshot(_SnapshotProducer["_BatchSnapshot"]):
    """One snapshot that removes whole files and adds others, from manifests that were read at planning time."""

    def __init__(
        self,
        *,
        transaction: Transaction,
        operation: Operation,
        commit_uuid: uuid.UUID,
        properties: dict[str, str],
        manifests: Sequence[LiveManifest],
        removed: frozenset[str],
        merge_above: int,
    ) -> None:
        super().__init__(
            operation,
            transaction,
            transaction._table.io,
            commit_uuid=commit_uuid,
            snapshot_properties=properties,
        )
        self._base_manifests = manifests
        self._removed_paths = removed
        self._merge_above = merge_above
        for entry in itertools.chain.from_iterable(m.entries for m in manifests):
            if entry.data_file.file_path in removed:
                self._deleted_data_files.add(entry.data_file)

    def _build_delete_files_partition_predicate(self) -> None:
        """Not needed: the removed files are known by path, and the base class cannot express every transform."""

    def _entry(self, entry: ManifestEntry, status: ManifestEntryStatus) -> ManifestEntry:
        deleted = status == ManifestEntryStatus.DELETED
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self.snapshot_id if deleted else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _deleted_entries(self) -> list[ManifestEntry]:
        return [
            self._entry(entry, ManifestEntryStatus.DELETED)
            for live in self._base_manifests
            for entry in live.entries
            if entry.data_file.file_path in self._removed_paths
        ]

    def _existing_manifests(self) -> list[ManifestFile]:
        untouched: list[ManifestFile] = []
        rewrite: dict[int, list[ManifestEntry]] = defaultdict(list)
        by_spec: dict[int, list[LiveManifest]] = defaultdict(list)
        for live in self._base_manifests:
            by_spec[live.manifest.partition_spec_id].append(live)
        for spec_id, lives in by_spec.items():
            merge = len(lives) > self._merge_above
            for live in lives:
                kept = [e for e in live.entries if e.data_file.file_path not in self._removed_paths]
                if not kept:
                    continue
                if merge or len(kept) < len(live.entries):
                    rewrite[spec_id].extend(kept)
                else:
                    untouched.append(live.manifest)
        return untouched + [self._write_existing(spec_id, entries) for spec_id, entries in rewrite.items()]

    def _write_existing(self, spec_id: int, entries: Iterable[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for entry in entries:
                writer.add_entry(self._entry(entry, ManifestEntryStatus.EXISTING))
        return writer.to_manifest_file()


@dataclass(frozen=True, slots=True)
class SnapshotDraft:
    """A snapshot whose manifests are written and whose commit is not sent."""

    snapshot_id: int
    sequence_number: int
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


def draft_snapshot(
    table: Table,
    *,
    commit_uuid: uuid.UUID,
    properties: Mapping[str, str],
    manifests: Sequence[LiveManifest],
    removed: frozenset[str] = frozenset(),
    added: Sequence[DataFile] = (),
    merge_above: int = MERGE_MANIFESTS_ABOVE,
) -> SnapshotDraft:
    """Write the manifests of one snapshot on the table's current `main` and return the commit that would publish it.

    `manifests` are the live manifests of that `main` (`live_manifests`), `removed` the paths of data files to drop
    whole, `added` new files of the default spec. Neither: an empty snapshot.
    """
    operation = Operation.OVERWRITE if removed else Operation.APPEND
    producer = _BatchSnapshot(
        transaction=Transaction(table),
        operation=operation,
        commit_uuid=commit_uuid,
        properties=dict(properties),
        manifests=manifests,
        removed=removed,
        merge_above=merge_above,
    )
    for data_file in added:
        producer.append_data_file(data_file)
    updates, requirements = producer._commit()
    return SnapshotDraft(producer.snapshot_id, table.metadata.next_sequence_number(), updates, requirements)


def is_supported(catalog: Catalog) -> bool:
    """REST, SQL and Glue keep the compare-and-set of `commit_table`; others are refused (DESIGN §3)."""
    return isinstance(catalog, RestCatalog) or type(catalog).__module__ in (
        "pyiceberg.catalog.sql",
        "pyiceberg.catalog.glue",
    )
