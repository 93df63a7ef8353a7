"""The only module that leans on PyIceberg's underscore names: HTTP timeouts, snapshots, catalog errors.

It builds the updates of one snapshot from the manifests it was given and never sends them: publishing is
`lakehouse.publish` alone. A test pins the PyIceberg release whose inner names are used here.
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
PARALLEL_READS = 8
MERGE_MANIFESTS_ABOVE = 50
"""Above this many small manifests of one spec and content they are merged, or every batch makes reading slower."""
SMALL_MANIFEST_BYTES = 8 << 20
"""Iceberg's default of `commit.manifest.target-size-bytes`: a manifest of this size is left alone."""

PATH_ID = 2147483546
POSITION_ID = 2147483545
"""Reserved field ids of the two columns of a position delete file (Iceberg spec, Reserved Field IDs)."""

_Kind: TypeAlias = tuple[ManifestContent, int]
"""What a manifest holds and the id of its partition spec."""


@dataclass(frozen=True, slots=True)
class LiveManifest:
    """A data or delete manifest with its live entries."""

    manifest: ManifestFile
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """Everything that is live in one snapshot."""

    manifests: tuple[LiveManifest, ...] = ()

    @property
    def data(self) -> tuple[ManifestEntry, ...]:
        """Entries of data files, in manifest order: their index is the file's number in a batch."""
        return self._entries(ManifestContent.DATA)

    @property
    def deletes(self) -> tuple[ManifestEntry, ...]:
        """Entries of delete files of any kind."""
        return self._entries(ManifestContent.DELETES)

    @property
    def rows(self) -> int:
        """Live rows by the counts of the manifests: rows of data files less positions of delete files that mean one."""
        dangling = self.dangling
        deletes = (e.data_file for e in self.deletes)
        deleted = sum(file.record_count for file in deletes if file.file_path not in dangling)
        return sum(e.data_file.record_count for e in self.data) - deleted

    @property
    def dangling(self) -> frozenset[str]:
        """Paths of delete files whose one data file is gone: PyIceberg's own overwrite leaves them behind."""
        paths = {e.data_file.file_path for e in self.data}
        files = (e.data_file for e in self.deletes)
        return frozenset(f.file_path for f in files if (only := only_data_file(f)) is not None and only not in paths)

    def _entries(self, content: ManifestContent) -> tuple[ManifestEntry, ...]:
        lives = (m.entries for m in self.manifests if m.manifest.content == content)
        return tuple(itertools.chain.from_iterable(lives))


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


def live_files(table: Table, snapshot: Snapshot | None) -> LiveFiles:
    """The live data and delete files of a snapshot; none without one."""
    if snapshot is None:
        return LiveFiles()
    wanted = [m for m in snapshot.manifests(io=table.io) if m.has_added_files() or m.has_existing_files()]

    def read(manifest: ManifestFile) -> LiveManifest:
        return LiveManifest(manifest, tuple(manifest.fetch_manifest_entry(io=table.io, discard_deleted=True)))

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return LiveFiles(tuple(pool.map(read, wanted)))


class _DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files alone."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(frozen=True, slots=True)
class _NoTransaction:
    """What a producer asks of a transaction. A real one copies the whole metadata each time that it is asked, and its
    commit is never used."""

    _table: Table
    table_metadata: TableMetadata


class _BatchSnapshot(_SnapshotProducer["_BatchSnapshot"]):
    """One snapshot that removes whole files and adds others, from manifests that were read at planning time."""

    def __init__(
        self,
        *,
        table: Table,
        operation: Operation,
        commit_uuid: uuid.UUID,
        properties: dict[str, str],
        live: LiveFiles,
        removed: frozenset[str],
        added: Sequence[DataFile],
        merge_above: int,
    ) -> None:
        super().__init__(
            operation,
            cast(Transaction, _NoTransaction(table, table.metadata)),
            table.io,
            commit_uuid=commit_uuid,
            snapshot_properties=properties,
        )
        self._live = live
        self._removed_paths = removed
        self._added = added
        self._merge_above = merge_above

    def _manifests(self) -> list[ManifestFile]:
        """Manifests of the snapshot, each of one kind of content and one partition spec.

        New and removed files stand in manifests of their own; those that lose a file are rewritten, small ones
        are merged when there are many, and a manifest without a live file is left out.
        """
        fresh: dict[_Kind, list[ManifestEntry]] = defaultdict(list)
        for data_file in self._added:
            fresh[_content_of(data_file), data_file.spec_id].append(self._new_entry(data_file))
        untouched: list[ManifestFile] = []
        rewritten: dict[_Kind, list[ManifestEntry]] = defaultdict(list)
        groups: dict[_Kind, list[LiveManifest]] = defaultdict(list)
        for live in self._live.manifests:
            groups[live.manifest.content, live.manifest.partition_spec_id].append(live)
        for kind, lives in groups.items():
            small = [live for live in lives if live.manifest.manifest_length < SMALL_MANIFEST_BYTES]
            merged = {live.manifest.manifest_path for live in small} if len(small) > self._merge_above else set()
            for live in lives:
                gone = [e for e in live.entries if e.data_file.file_path in self._removed_paths]
                if not gone and live.manifest.manifest_path not in merged:
                    untouched.append(live.manifest)
                    continue
                fresh[kind].extend(self._entry(e, ManifestEntryStatus.DELETED) for e in gone)
                kept = (e for e in live.entries if e.data_file.file_path not in self._removed_paths)
                rewritten[kind].extend(self._entry(e, ManifestEntryStatus.EXISTING) for e in kept)
        written = [(kind, entries) for group in (fresh, rewritten) for kind, entries in group.items() if entries]
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            return [*pool.map(lambda item: self._write(*item), written), *untouched]

    def _write(self, kind: _Kind, entries: Sequence[ManifestEntry]) -> ManifestFile:
        content, spec_id = kind
        spec = self.spec(spec_id)
        with self._writer(spec) if content == ManifestContent.DELETES else self.new_manifest_writer(spec) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, spec: PartitionSpec) -> ManifestWriter:
        return _DeleteManifestWriter(
            spec, self.schema(), self.new_manifest_output(), self.snapshot_id, self._compression
        )

    def _new_entry(self, data_file: DataFile) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=self.snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=data_file,
        )

    def _entry(self, entry: ManifestEntry, status: ManifestEntryStatus) -> ManifestEntry:
        deleted = status == ManifestEntryStatus.DELETED
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self.snapshot_id if deleted else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        """Counts of every file by its own spec; the base class knows data files of the default spec alone."""
        metadata = self._transaction.table_metadata
        specs, schema = metadata.specs(), metadata.schema()
        collector = SnapshotSummaryCollector(int(metadata.properties.get("write.summary.partition-limit", "0")))
        for data_file in self._added:
            collector.add_file(data_file, schema, specs[data_file.spec_id])
        for live in self._live.manifests:
            for entry in live.entries:
                if entry.data_file.file_path in self._removed_paths:
                    collector.remove_file(entry.data_file, schema, specs[entry.data_file.spec_id])
        parent = metadata.current_snapshot()
        return update_snapshot_summaries(
            Summary(operation=self._operation, **collector.build(), **snapshot_properties),
            parent.summary if parent is not None else None,
        )

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Part of `_manifests` here."""
        return []

    def _existing_manifests(self) -> list[ManifestFile]:
        """Part of `_manifests` here."""
        return []


class _RestoredSnapshot(_BatchSnapshot):
    """A snapshot of the very manifests of an earlier one: its files keep the sequence numbers by which their delete
    files count. `added` and `removed` are for the summary."""

    def __init__(self, restored: LiveFiles, **batch: Any) -> None:
        super().__init__(**batch, merge_above=MERGE_MANIFESTS_ABOVE)
        self._restored = restored

    def _manifests(self) -> list[ManifestFile]:
        return [live.manifest for live in self._restored.manifests if live.entries]


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
    live: LiveFiles,
    removed: frozenset[str] = frozenset(),
    added: Sequence[DataFile] = (),
    merge_above: int = MERGE_MANIFESTS_ABOVE,
) -> SnapshotDraft:
    """Write the manifests of one snapshot on the table's current `main` and return the commit that would publish it.

    `live` is that of this `main` (`live_files`), `removed` the paths of data and delete files to drop whole, `added`
    new data files of the default spec and position delete files of any spec. Neither: an empty snapshot.
    """
    plain = not removed and all(f.content == DataFileContent.DATA for f in added)
    producer = _BatchSnapshot(
        table=table,
        operation=Operation.APPEND if plain else Operation.OVERWRITE,
        commit_uuid=commit_uuid,
        properties=dict(properties),
        live=live,
        removed=removed,
        added=added,
        merge_above=merge_above,
    )
    updates, requirements = producer._commit()
    return SnapshotDraft(producer.snapshot_id, table.metadata.next_sequence_number(), updates, requirements)


def draft_restored(
    table: Table,
    *,
    commit_uuid: uuid.UUID,
    properties: Mapping[str, str],
    live: LiveFiles,
    restored: LiveFiles,
) -> SnapshotDraft:
    """As `draft_snapshot`, of a snapshot that holds the live files of an earlier one and no others. Writes nothing but
    the list of its manifests."""
    now, then = _files(live), _files(restored)
    producer = _RestoredSnapshot(
        restored,
        table=table,
        operation=Operation.OVERWRITE,
        commit_uuid=commit_uuid,
        properties=dict(properties),
        live=live,
        removed=frozenset(now.keys() - then.keys()),
        added=[file for path, file in then.items() if path not in now],
    )
    updates, requirements = producer._commit()
    return SnapshotDraft(producer.snapshot_id, table.metadata.next_sequence_number(), updates, requirements)


def _files(live: LiveFiles) -> dict[str, DataFile]:
    return {entry.data_file.file_path: entry.data_file for entry in (*live.data, *live.deletes)}


def only_data_file(file: DataFile) -> str | None:
    """The path of the one data file that a position delete file speaks of, as equal bounds of the path say."""
    low, high = data_file_range(file)
    return low if low == high else None


def data_file_range(file: DataFile) -> tuple[str | None, str | None]:
    """The least and the greatest path of a data file that a position delete file speaks of; None if it does not say."""
    low, high = ((bounds or {}).get(PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    return low.decode() if low is not None else None, high.decode() if high is not None else None


def _content_of(data_file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if data_file.content == DataFileContent.DATA else ManifestContent.DELETES


def is_supported(catalog: Catalog) -> bool:
    """REST, SQL and Glue keep the compare-and-set of `commit_table`; others are refused (DESIGN §3)."""
    return isinstance(catalog, RestCatalog) or type(catalog).__module__ in (
        "pyiceberg.catalog.sql",
        "pyiceberg.catalog.glue",
    )
