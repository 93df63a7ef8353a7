"""Writes ledger rows as data files, and rewrites the files of one partition. Never commits.

A file is written locally, then uploaded through the table's FileIO; until a commit names it, it is invisible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from lakehouse.errors import DataError
from lakehouse.iceberg import LiveFiles
from lakehouse.merge.data_file import describe
from lakehouse.table_files import upload

COMPACT_ABOVE = 20
"""More small files than this in one partition are rewritten into one: each costs every later reader a request."""
SMALL_BYTES = 16 << 20
_BUFFERED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Data files that go, and the one that holds what is kept of them; None if nothing is kept."""

    removed: frozenset[str] = frozenset()
    added: DataFile | None = None


class LocalFile:
    """A local Parquet file of one ledger table, with its field ids. Rows are buffered into large row groups."""

    def __init__(self, table: Table, path: Path) -> None:
        self.schema: pa.Schema = table.schema().as_arrow()
        self._table = table
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []

    def append(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._pending.append(rows)
        if sum(t.nbytes for t in self._pending) >= _BUFFERED_BYTES:
            self._flush()

    def upload(self, *, table_uuid: str, file_id: str) -> DataFile | None:
        """End the file, put it where the table keeps its data, and describe it. None if no row was appended."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        uri = self._table.location_provider().new_data_location(f"{table_uuid}/{file_id}.parquet")
        upload(self._table.io, self._path, uri)
        described = describe(self._table, self._path, uri=uri, partition=(table_uuid,))
        self._path.unlink()
        return described

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, self.schema, compression="zstd", store_schema=False)
        self._writer.write_table(pa.concat_tables(self._pending))
        self._pending = []


def partition_files(live: LiveFiles, table_uuid: str) -> list[DataFile]:
    """The live data files of one partition."""
    return [e.data_file for e in live.data if e.data_file.partition[0] == table_uuid]


def small_files(files: Sequence[DataFile]) -> list[DataFile]:
    """Those that are due to become one; none while they are few."""
    small = [file for file in files if file.file_size_in_bytes < SMALL_BYTES]
    return small if len(small) > COMPACT_ABOVE else []


def every_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def without_contexts(contexts: Collection[str]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What is kept of a batch of rows when the rows of contexts go."""
    gone = pa.array(sorted(contexts), pa.string())
    return lambda batch: batch.filter(pc.invert(pc.is_in(batch.column("context"), value_set=gone)))


def rewrite_files(
    table: Table,
    files: Sequence[DataFile],
    *,
    keep: Callable[[pa.RecordBatch], pa.RecordBatch],
    table_uuid: str,
    file_id: str,
    folder: Path,
) -> Rewrite:
    """Write what `keep` leaves of these files of one partition into one new file.

    Raises DataError if a file gives other than the rows that it is recorded with.
    """
    target = LocalFile(table, folder / f"{file_id}.parquet")
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    for file in files:  # one at a time: the scan holds every file that it is given in memory
        found = 0
        for batch in scan.to_record_batches([FileScanTask(file)]):
            found += batch.num_rows
            target.append(pa.Table.from_batches([keep(batch)]).cast(target.schema))
        if found != file.record_count:
            raise DataError(
                f"a ledger file does not hold its rows: file={file.file_path} rows={found} recorded={file.record_count}"
            )
    added = target.upload(table_uuid=table_uuid, file_id=file_id)
    return Rewrite(frozenset(file.file_path for file in files), added)
