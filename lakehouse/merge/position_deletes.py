"""Position delete files: which rows of the target are deleted already, and the files that delete more of them.

A file of ours deletes from one data file alone and takes over what an earlier file of that kind deleted there, so that
there is at most one per data file. Never commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.iceberg import PATH_ID, POSITION_ID, data_file_range, only_data_file
from lakehouse.merge.target_files import PARALLEL_READS, TargetFile, ahead
from lakehouse.table_files import upload

_FIELDS: list[Any] = [
    pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
    pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
]
_SCHEMA = pa.schema(_FIELDS)
_PLAIN_FIELDS: list[Any] = [("file_path", pa.string()), ("pos", pa.int64()), ("own", pa.bool_())]
_PLAIN = pa.schema(_PLAIN_FIELDS)


@dataclass(frozen=True, slots=True)
class DeletesOfFile:
    """Delete files that hold positions of one data file alone, by path."""

    paths: tuple[str, ...] = ()


def refuse_equality_deletes(table: str, deletes: Sequence[ManifestEntry]) -> None:
    """Raise NotAvailable if a delete file names rows by value: reading it wrong would bring them back."""
    for entry in deletes:
        file = entry.data_file
        if file.content == DataFileContent.EQUALITY_DELETES:
            kind = "equality deletes"
        elif file.file_format != FileFormat.PARQUET:
            kind = f"position deletes in the format {file.file_format}"
        else:
            continue
        raise NotAvailable(
            f"table {table} has {kind} of another writer, which are not available yet: file={file.file_path}",
            next="compact the table with the engine that wrote them (Spark: rewrite_data_files), then load again",
        )


def read_deleted(
    con: duckdb.DuckDBPyConnection, io: FileIO, deletes: Sequence[ManifestEntry], reached: Sequence[TargetFile]
) -> dict[int, DeletesOfFile]:
    """Make the table `deleted` (__file, __pos, __own) of the rows of `reached` that are deleted already.

    Returns the delete files that belong to one file of `reached` alone, by its number; `__own` rows stand in one of
    them, the others in delete files of several data files.
    """
    con.execute("create or replace table deleted (__file int, __pos bigint, __own boolean)")
    numbers = {target.path: target.number for target in reached}
    own: dict[int, DeletesOfFile] = {}
    wanted: list[DataFile] = []
    for entry in deletes:
        low, high = data_file_range(entry.data_file)
        if (only := only_data_file(entry.data_file)) is not None:
            if only not in numbers:
                continue
            number = numbers[only]
            own[number] = DeletesOfFile((*own.get(number, DeletesOfFile()).paths, entry.data_file.file_path))
        elif not any((low is None or low <= path) and (high is None or path <= high) for path in numbers):
            continue
        wanted.append(entry.data_file)
    if wanted:
        _fill(con, io, wanted, numbers)
    return own


def paths_named(io: FileIO, deletes: Sequence[DataFile]) -> list[frozenset[str]]:
    """The paths of the data files that each of these delete files speaks of; those of one alone say it without being
    read."""

    def read(file: DataFile) -> frozenset[str]:
        if (only := only_data_file(file)) is not None:
            return frozenset((only,))
        with translated(f"file={file.file_path}"), io.new_input(file.file_path).open() as stream:
            found = pq.ParquetFile(cast(IO[bytes], stream)).read(columns=["file_path"])
        return frozenset(str(path) for path in found.column("file_path").unique())

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return list(pool.map(read, deletes))


def _fill(con: duckdb.DuckDBPyConnection, io: FileIO, files: Sequence[DataFile], numbers: Mapping[str, int]) -> None:
    """Fill `deleted` with the positions of known files; two delete files may name one row."""
    known = pa.table({"file_path": list(numbers), "number": pa.array(numbers.values(), pa.int32())})
    con.register("known_files", known)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        batches = itertools.chain.from_iterable(ahead(pool, lambda file: _read(io, file), files))
        con.register("found_deletes", pa.RecordBatchReader.from_batches(_PLAIN, batches))
        con.execute(
            "create or replace table deleted as "
            "select k.number as __file, f.pos as __pos, bool_or(f.own) as __own "
            "from found_deletes f join known_files k using (file_path) group by all"
        )
    con.unregister("found_deletes")
    con.unregister("known_files")


def _read(io: FileIO, file: DataFile) -> list[pa.RecordBatch]:
    with translated(f"file={file.file_path}"), io.new_input(file.file_path).open() as stream:
        found = pq.ParquetFile(cast(IO[bytes], stream)).read(columns=["file_path", "pos"])
    own = pa.repeat(pa.scalar(only_data_file(file) is not None), found.num_rows)
    return found.append_column("own", own).cast(_PLAIN).to_batches()


def write_deletes(table: Table, target: TargetFile, positions: Any, *, uri: str, folder: Path) -> DataFile:
    """Write and upload a delete file for ascending, distinct positions of one data file."""
    folder.mkdir(parents=True, exist_ok=True)
    local = folder / f"deletes-{target.number}.parquet"
    path_column = pa.repeat(pa.scalar(target.path, pa.string()), len(positions))
    pq.write_table(
        pa.Table.from_arrays([path_column, positions], schema=_SCHEMA),
        local,
        compression="zstd",
        store_schema=False,
    )
    with translated(f"file={uri}"):
        upload(table.io, local, uri)
    path, first, last = target.path, positions[0].as_py(), positions[-1].as_py()
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=target.file.partition,
        record_count=len(positions),
        file_size_in_bytes=local.stat().st_size,
        column_sizes={},
        value_counts={PATH_ID: len(positions), POSITION_ID: len(positions)},
        null_value_counts={PATH_ID: 0, POSITION_ID: 0},
        nan_value_counts={},
        # equal bounds of the path are how readers know that the file belongs to one data file
        lower_bounds={PATH_ID: to_bytes(StringType(), path), POSITION_ID: to_bytes(LongType(), first)},
        upper_bounds={PATH_ID: to_bytes(StringType(), path), POSITION_ID: to_bytes(LongType(), last)},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = target.file.spec_id
    local.unlink()
    return file
