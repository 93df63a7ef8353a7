"""Reads data files of the target: some columns of all rows, some columns of some rows, or whole files by a local copy.

Columns are found by field id, so renamed, added and reordered columns of older files are read right. Credentials are
the catalog's: everything goes through the table's FileIO. Never more than a few row groups are in memory.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.merge.layout import column_expression
from lakehouse.naming import quote_name, quote_text

PARALLEL_READS = 4
ROWS_AT_ONCE = 1 << 20
_FIELD_ID = b"PARQUET:field_id"
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A live data file; `number` stands for it in the tables of a batch."""

    number: int
    file: DataFile

    @property
    def path(self) -> str:
        return self.file.file_path


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A copy of a data file, with the schema that it was written with."""

    number: int
    path: Path
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Consecutive row groups of an open file; `start` is the position of their first row."""

    target: TargetFile
    metadata: pq.FileMetaData
    groups: tuple[int, ...]
    start: int


def scan(io: FileIO, files: Sequence[TargetFile], schema: Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of (__file, __pos, columns…) over whole files, each column with the table's name and type.

    `__pos` is the 0-based row in the file; deleted rows are there too. A column that a file lacks is NULL.
    """
    fields = [schema.find_field(name) for name in columns]
    types = [arrow_type(field.field_type) for field in fields]
    shape = pa.schema(
        [("__file", pa.int32()), ("__pos", pa.int64()), *((n, t) for n, t in zip(columns, types, strict=True))]
    )

    def read(chunk: _Chunk) -> list[pa.RecordBatch]:
        names = _names_by_id(chunk.metadata.schema.to_arrow_schema())
        found = [names.get(field.field_id) if names else field.name for field in fields]
        table = _read_groups(io, chunk, [name for name in found if name is not None])
        arrays: list[Any] = [
            _typed(table.column(name), kind) if name in table.column_names else _nulls(table.num_rows, kind)
            for name, kind in zip(found, types, strict=True)
        ]
        numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), table.num_rows)
        positions = _positions(chunk.start, chunk.start + table.num_rows)
        return pa.Table.from_arrays([numbers, positions, *arrays], schema=shape).to_batches()

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        for batches in _ahead(pool, read, _chunks(pool, io, files)):
            yield from batches


def rows_at(
    io: FileIO, wanted: Sequence[tuple[TargetFile, Any]], schema: Schema, columns: Sequence[str]
) -> Iterator[tuple[pa.Schema, pa.Table]]:
    """The rows at ascending positions of each file: their schema in the file, and (__file, __pos, its own columns).

    Only row groups with a wanted row are read, and of them the columns alone that hold one of `columns`.
    """
    positions = {target.number: rows for target, rows in wanted}
    ids = {schema.find_field(name).field_id for name in columns}

    def read(chunk: _Chunk) -> tuple[pa.Schema, pa.Table]:
        file_schema = chunk.metadata.schema.to_arrow_schema()
        names = _names_by_id(file_schema)
        have = [n for i, n in names.items() if i in ids] if names else [n for n in columns if n in file_schema.names]
        rows = sum(chunk.metadata.row_group(g).num_rows for g in chunk.groups)
        here = _between(positions[chunk.target.number], chunk.start, chunk.start + rows)
        table = _read_groups(io, chunk, have).select(have).take(pc.subtract(here, chunk.start))
        numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(here))
        arrays = [numbers, here, *table.columns]
        # of the rows as they were read: the footer's own schema knows no extension types
        return table.schema, pa.Table.from_arrays(arrays, names=["__file", "__pos", *have])

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        chunks = _chunks(pool, io, [target for target, _ in wanted])
        hit = (c for chunk in chunks for c in _hit_groups(chunk, positions[chunk.target.number]))
        yield from _ahead(pool, read, hit)


def copy_files(io: FileIO, files: Iterable[TargetFile], folder: Path) -> tuple[LocalFile, ...]:
    """Copy whole files to a local folder, some at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return tuple(pool.map(lambda target: _copy(io, target, folder), files))


def select_rows(files: Sequence[LocalFile], schema: Schema) -> str:
    """SQL that reads local files as (__file, __pos, every column of the table in order, typed as it is now)."""
    layouts: dict[str, list[LocalFile]] = {}
    for file in files:
        layouts.setdefault(file.schema.to_string(show_field_metadata=True), []).append(file)
    return " union all ".join(_select_layout(group, schema) for group in layouts.values())


def arrow_type(field_type: IcebergType) -> pa.DataType:
    """The Arrow type that holds a primitive Iceberg type."""
    found = cast(pa.DataType, schema_to_pyarrow(field_type))
    narrow: dict[pa.DataType, pa.DataType] = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return narrow.get(found, found)


def _copy(io: FileIO, target: TargetFile, folder: Path) -> LocalFile:
    _refuse_other_formats(target)
    local = folder / f"{target.number}.parquet"
    with (
        translated(f"file={target.path}"),
        io.new_input(target.path).open() as source,
        local.open("wb") as output,
    ):
        shutil.copyfileobj(source, output, 1 << 22)
    return LocalFile(target.number, local, pq.read_schema(local))


def _select_layout(files: Sequence[LocalFile], schema: Schema) -> str:
    columns = ", ".join(f"{column_expression(f, files[0].schema)} as {quote_name(f.name)}" for f in schema.fields)
    paths = ", ".join(quote_text(str(f.path)) for f in files)
    numbers = " ".join(f"when {quote_text(str(f.path))} then {f.number}" for f in files)
    return (
        f"select (case __path {numbers} end)::int as __file, __pos, {columns} from "
        f"(select *, filename as __path, file_row_number as __pos "
        f"from read_parquet([{paths}], filename = true, file_row_number = true))"
    )


def _chunks(pool: ThreadPoolExecutor, io: FileIO, files: Sequence[TargetFile]) -> Iterator[_Chunk]:
    """Every file cut at row groups into pieces of bounded size; footers are read some files ahead."""

    def footer(target: TargetFile) -> tuple[TargetFile, pq.FileMetaData]:
        _refuse_other_formats(target)
        with translated(f"file={target.path}"), io.new_input(target.path).open() as stream:
            return target, pq.read_metadata(cast(IO[bytes], stream))

    for target, metadata in _ahead(pool, footer, files):
        groups: list[int] = []
        start = rows = 0
        for group in range(metadata.num_row_groups):
            groups.append(group)
            rows += metadata.row_group(group).num_rows
            if rows >= ROWS_AT_ONCE or group == metadata.num_row_groups - 1:
                yield _Chunk(target, metadata, tuple(groups), start)
                start, rows, groups = start + rows, 0, []


def _hit_groups(chunk: _Chunk, positions: Any) -> Iterator[_Chunk]:
    """The part of a chunk whose row groups hold wanted rows, as runs of consecutive groups."""
    run: list[int] = []
    start = run_start = chunk.start
    for group in chunk.groups:
        end = start + chunk.metadata.row_group(group).num_rows
        if len(_between(positions, start, end)):
            run_start = run_start if run else start
            run.append(group)
        elif run:
            yield _Chunk(chunk.target, chunk.metadata, tuple(run), run_start)
            run = []
        start = end
    if run:
        yield _Chunk(chunk.target, chunk.metadata, tuple(run), run_start)


def _read_groups(io: FileIO, chunk: _Chunk, columns: Sequence[str]) -> pa.Table:
    with translated(f"file={chunk.target.path}"), io.new_input(chunk.target.path).open() as stream:
        parquet = pq.ParquetFile(cast(IO[bytes], stream), metadata=chunk.metadata, pre_buffer=True)
        if columns:
            return parquet.read_row_groups(list(chunk.groups), columns=list(columns), use_threads=False)
        rows = sum(chunk.metadata.row_group(g).num_rows for g in chunk.groups)
        return pa.table({"__none": pa.nulls(rows)})


def _ahead(pool: ThreadPoolExecutor, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Results in order, with a bounded number of items under way."""
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= PARALLEL_READS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _typed(array: pa.ChunkedArray[Any], kind: pa.DataType) -> Any:
    if array.type == kind:
        return array
    if isinstance(kind, pa.UuidType):
        chunks: list[Any] = [pa.ExtensionArray.from_storage(kind, chunk) for chunk in array.chunks]
        return pa.Table.from_arrays([pa.concat_arrays(chunks)], names=["uuid"]).column(0)
    return array.cast(kind)


def _between(positions: Any, low: int, high: int) -> Any:
    compute: Any = pc
    return positions.filter(compute.and_(compute.greater_equal(positions, low), compute.less(positions, high)))


def _nulls(count: int, kind: Any) -> Any:
    return pa.nulls(count, kind)


def _positions(start: int, end: int) -> Any:
    return pa.arange(start, end)  # type: ignore[attr-defined]


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    ids = ((f.metadata or {}).get(_FIELD_ID) for f in schema)
    return {int(i): f.name for i, f in zip(ids, schema, strict=True) if i is not None}


def _refuse_other_formats(target: TargetFile) -> None:
    if target.file.file_format != "PARQUET":
        raise NotAvailable(
            f"data files in other formats than Parquet are not available yet: file={target.path} "
            f"format={target.file.file_format}",
            next="rewrite the table's data files as Parquet with the engine that wrote them",
        )
