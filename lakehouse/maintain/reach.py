"""Which files of a table its snapshots need. Reads manifests; deletes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakehouse.catalog import translated
from lakehouse.iceberg import PARALLEL_READS


@dataclass(frozen=True, slots=True)
class Reached:
    """Files by address: data and delete files with their sizes in bytes; manifests and their lists; files of
    statistics."""

    files: dict[str, int] = field(default_factory=dict)
    manifests: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    statistics: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self.files) | self.manifests | self.lists | self.statistics


def needed_by(table: Table, snapshots: Iterable[Snapshot]) -> Reached:
    """Everything that these snapshots refer to."""
    wanted = list(snapshots)
    with translated(f"table={'.'.join(table.name())}"), ThreadPoolExecutor(PARALLEL_READS) as pool:
        manifests = _manifests(table, pool, wanted)
        return _reached(table, wanted, manifests, _files(table, pool, manifests.values()))


def needed_only_by(table: Table, gone: Collection[Snapshot], kept: Collection[Snapshot]) -> Reached:
    """What the snapshots `gone` refer to and none of `kept` does."""
    with translated(f"table={'.'.join(table.name())}"), ThreadPoolExecutor(PARALLEL_READS) as pool:
        old, new = _manifests(table, pool, gone), _manifests(table, pool, kept)
        only = {path: manifest for path, manifest in old.items() if path not in new}
        files = {file.file_path: file.file_size_in_bytes for file in _files(table, pool, only.values())}
        if files:
            for file in _files(table, pool, new.values()):
                files.pop(file.file_path, None)
        found = _reached(table, gone, only, ())
        return Reached(files, found.manifests, found.lists, found.statistics - _statistics(table, kept))


def metadata_files(table: Table) -> frozenset[str]:
    """The table's current metadata file and those that its log still names."""
    return frozenset((table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)))


def _reached(
    table: Table, snapshots: Iterable[Snapshot], manifests: dict[str, ManifestFile], files: Iterable[DataFile]
) -> Reached:
    wanted = list(snapshots)
    return Reached(
        {file.file_path: file.file_size_in_bytes for file in files},
        frozenset(manifests),
        frozenset(snapshot.manifest_list for snapshot in wanted if snapshot.manifest_list),
        _statistics(table, wanted),
    )


def _statistics(table: Table, snapshots: Iterable[Snapshot]) -> frozenset[str]:
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    kinds = (table.metadata.statistics, table.metadata.partition_statistics)
    return frozenset(found.statistics_path for found in chain(*kinds) if found.snapshot_id in ids)


def _manifests(table: Table, pool: ThreadPoolExecutor, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    def read(snapshot: Snapshot) -> Sequence[ManifestFile]:
        return snapshot.manifests(io=table.io)

    return {m.manifest_path: m for found in pool.map(read, snapshots) for m in found}


def _files(table: Table, pool: ThreadPoolExecutor, manifests: Iterable[ManifestFile]) -> Iterator[DataFile]:
    def read(manifest: ManifestFile) -> list[DataFile]:
        return [entry.data_file for entry in manifest.fetch_manifest_entry(io=table.io, discard_deleted=True)]

    return chain.from_iterable(pool.map(read, manifests))
