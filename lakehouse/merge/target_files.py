"""Reads data files of the target: some columns of all rows, some columns of some rows, or whole files by a local copy.

Columns are found by field id, so renamed, added and reordered columns of older files are read right. Credentials are
the catalog's: everything goes through the table's FileIO. Never more than a few row groups are in memory.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import IcebergType

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.merge.layout import column_expressions, identified
from lakehouse.naming import quote_name, quote_text

PARALLEL_READS = 8
BYTES_AHEAD = 256 << 20
"""So much of the target's rows, about, is in memory at a time, the rows that are kept left aside."""
ROWS_AT_ONCE = 1 << 18
OPENED_KEPT = 256
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
class _Opened:
    """A file's footer, its columns by field id (empty: it has no ids) and, where threads can share it, its open stream:
    opening one costs a request."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    names: Mapping[int, str]
    stream: pa.NativeFile | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive row groups of a file; `start` is the position of their first row."""

    target: TargetFile
    opened: _Opened
    groups: tuple[int, ...]
    start: int

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.opened.metadata

    @property
    def rows(self) -> int:
        return sum(self.metadata.row_group(group).num_rows for group in self.groups)


class Look(Protocol):
    """Says, in the reading threads, which rows of a chunk are wanted by the values of some of its columns."""

    @property
    def columns(self) -> Sequence[str]: ...

    def __call__(self, chunk: Chunk, table: pa.Table) -> Any:
        """An Arrow array of ascending row numbers in the chunk, or None for all; `table` has `columns`."""


class TargetReader:
    """Reads data files of one table as its schema has them now. Keeps the newest open: files are read in steps."""

    def __init__(self, table: Table) -> None:
        self.schema = table.schema()
        self._io = table.io
        self._mapping = table.name_mapping()
        self._opened: dict[str, _Opened] = {}

    def scan(
        self, files: Sequence[TargetFile], columns: Sequence[str], look: Look | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of (__file, __pos, columns…) over whole files, each column with the table's name and type.

        `__pos` is the 0-based row in the file; deleted rows are there too. A column that a file lacks is NULL. `look`
        says which rows are wanted.
        """
        fields = [self.schema.find_field(name) for name in columns]
        types = {field.name: arrow_type(field.field_type) for field in fields}
        values: list[Any] = [pa.field(name, kind) for name, kind in types.items()]
        shape = pa.schema([pa.field("__file", pa.int32()), pa.field("__pos", pa.int64()), *values])

        def read(chunk: Chunk) -> list[pa.RecordBatch]:
            names = chunk.opened.names
            stored = {field.name: names.get(field.field_id) if names else field.name for field in fields}
            constants = {name: _constant(chunk, stored[name]) for name in stored}
            table = self._read_groups(chunk, [n for name, n in stored.items() if n and constants[name] is None])

            def column(name: str, rows: pa.Table) -> Any:
                if (value := constants[name]) is not None:
                    return typed(_repeated(value, rows.num_rows), types[name])
                if (own := stored[name]) is None or own not in table.column_names:
                    return _nulls(rows.num_rows, types[name])
                return typed(rows.column(own), types[name])

            wanted = look(chunk, pa.table({name: column(name, table) for name in look.columns})) if look else None
            if wanted is None:
                wanted, rows = _positions(0, chunk.rows), table
            else:
                rows = table.take(wanted)
            numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(wanted))
            places: list[Any] = [numbers, pc.add(wanted, pa.scalar(chunk.start, pa.int64()))]
            return pa.Table.from_arrays([*places, *(column(name, rows) for name in types)], schema=shape).to_batches()

        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            ids = {field.field_id for field in fields}
            for batches in ahead(pool, read, self._chunks(pool, files), weigh=lambda chunk: _weight(chunk, ids)):
                yield from batches

    def rows_at(self, wanted: Sequence[tuple[TargetFile, Any]], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows at ascending positions of each file as (__file, __pos, the file's own columns that hold `columns`).

        Only row groups with a wanted row are read. Rows of files with one layout come together, up to ROWS_AT_ONCE.
        """
        positions = {target.number: rows for target, rows in wanted}
        ids = {self.schema.find_field(name).field_id for name in columns}

        def read(chunk: Chunk) -> pa.Table:
            names, there = chunk.opened.names, set(chunk.opened.schema.names)
            have = [n for i, n in names.items() if i in ids] if names else [n for n in columns if n in there]
            here = _between(positions[chunk.target.number], chunk.start, chunk.start + chunk.rows)
            table = self._read_groups(chunk, have).select(have).take(pc.subtract(here, chunk.start))
            numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(here))
            own = identified(table.schema, self._mapping)
            fields: list[Any] = [pa.field("__file", pa.int32()), pa.field("__pos", pa.int64()), *own]
            return pa.Table.from_arrays([numbers, here, *table.columns], schema=pa.schema(fields))

        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            chunks = self._chunks(pool, [target for target, _ in wanted])
            hit = (c for chunk in chunks for c in _hit_groups(chunk, positions[chunk.target.number]))
            yield from _joined(ahead(pool, read, hit, weigh=lambda chunk: _weight(chunk, ids)))

    def _chunks(self, pool: ThreadPoolExecutor, files: Sequence[TargetFile]) -> Iterator[Chunk]:
        """Every file cut at row groups into pieces of bounded size; footers are read some files ahead."""
        for target, opened in ahead(pool, lambda target: (target, self._open(target)), files):
            groups: list[int] = []
            start = rows = 0
            metadata = opened.metadata
            for group in range(metadata.num_row_groups):
                groups.append(group)
                rows += metadata.row_group(group).num_rows
                if rows >= ROWS_AT_ONCE or group == metadata.num_row_groups - 1:
                    yield Chunk(target, opened, tuple(groups), start)
                    start, rows, groups = start + rows, 0, []

    def _open(self, target: TargetFile) -> _Opened:
        if (known := self._opened.get(target.path)) is not None:
            return known
        _refuse_other_formats(target)
        with translated(f"file={target.path}"):
            stream: Any = self._io.new_input(target.path).open()
            metadata = pq.read_metadata(stream)
        # other streams have one position for all who read
        shared = stream if isinstance(stream, pa.NativeFile) and not isinstance(stream, pa.PythonFile) else None
        if shared is None:
            stream.close()
        surplus = max(0, len(self._opened) + 1 - OPENED_KEPT)
        for path in list(self._opened)[:surplus]:  # a copy: other threads add to it
            self._opened.pop(path, None)
        schema = identified(metadata.schema.to_arrow_schema(), self._mapping)
        opened = self._opened[target.path] = _Opened(metadata, schema, _names_by_id(schema), shared)
        return opened

    def _read_groups(self, chunk: Chunk, columns: Sequence[str]) -> pa.Table:
        """These columns of a chunk; without one, a column of NULLs that has its rows."""
        if not columns:
            return pa.table({"__none": pa.nulls(chunk.rows)})
        with translated(f"file={chunk.target.path}"), self._stream(chunk) as stream:
            parquet = pq.ParquetFile(stream, metadata=chunk.metadata, pre_buffer=True)
            return parquet.read_row_groups(list(chunk.groups), columns=list(columns), use_threads=False)

    @contextmanager
    def _stream(self, chunk: Chunk) -> Iterator[Any]:
        """The stream that the file's footer was read from, or one of the caller's own."""
        if chunk.opened.stream is not None:
            yield chunk.opened.stream
            return
        with self._io.new_input(chunk.target.path).open() as stream:
            yield stream


def copy_files(table: Table, files: Iterable[TargetFile], folder: Path) -> tuple[LocalFile, ...]:
    """Copy whole files to a local folder, some at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return tuple(pool.map(lambda target: _copy(table.io, table.name_mapping(), target, folder), files))


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


def _copy(io: FileIO, mapping: NameMapping | None, target: TargetFile, folder: Path) -> LocalFile:
    _refuse_other_formats(target)
    local = folder / f"{target.number}.parquet"
    with (
        translated(f"file={target.path}"),
        io.new_input(target.path).open() as source,
        local.open("wb") as output,
    ):
        shutil.copyfileobj(source, output, 1 << 22)
    return LocalFile(target.number, local, identified(pq.read_schema(local), mapping))


def _select_layout(files: Sequence[LocalFile], schema: Schema) -> str:
    values = zip(column_expressions(schema.fields, files[0].schema), schema.fields, strict=True)
    columns = ", ".join(f"{value} as {quote_name(field.name)}" for value, field in values)
    paths = ", ".join(quote_text(str(f.path)) for f in files)
    numbers = " ".join(f"when {quote_text(str(f.path))} then {f.number}" for f in files)
    return (
        f"select (case __path {numbers} end)::int as __file, __pos, {columns} from "
        f"(select *, filename as __path, file_row_number as __pos "
        f"from read_parquet([{paths}], filename = true, file_row_number = true))"
    )


def _hit_groups(chunk: Chunk, positions: Any) -> Iterator[Chunk]:
    """The part of a chunk whose row groups hold wanted rows, as runs of consecutive groups."""
    run: list[int] = []
    start = run_start = chunk.start
    for group in chunk.groups:
        end = start + chunk.metadata.row_group(group).num_rows
        if len(_between(positions, start, end)):
            run_start = run_start if run else start
            run.append(group)
        elif run:
            yield Chunk(chunk.target, chunk.opened, tuple(run), run_start)
            run = []
        start = end
    if run:
        yield Chunk(chunk.target, chunk.opened, tuple(run), run_start)


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Consecutive tables of one layout as one, so that many files with few rows cost few statements."""
    group: list[pa.Table] = []
    rows = 0
    for table in tables:
        if group and (rows >= ROWS_AT_ONCE or not table.schema.equals(group[0].schema, check_metadata=True)):
            yield pa.concat_tables(group)
            group, rows = [], 0
        group.append(table)
        rows += table.num_rows
    if group:
        yield pa.concat_tables(group)


def ahead(
    pool: ThreadPoolExecutor,
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    weigh: Callable[[_Item], int] = lambda _item: 0,
) -> Iterator[_Result]:
    """Results in order. Few items are under way, and together they weigh no more than BYTES_AHEAD: one alone may."""
    waiting: deque[tuple[Future[_Result], int]] = deque()
    weight = 0
    for item in items:
        own = weigh(item)
        while waiting and (len(waiting) >= PARALLEL_READS or weight + own > BYTES_AHEAD):
            future, done = waiting.popleft()
            weight -= done
            yield future.result()
        waiting.append((pool.submit(work, item), own))
        weight += own
    while waiting:
        yield waiting.popleft()[0].result()


def _weight(chunk: Chunk, ids: Collection[int]) -> int:
    """About how many bytes these columns of the chunk take in memory."""
    names, metadata = chunk.opened.names, chunk.metadata
    wanted = {name for field_id, name in names.items() if field_id in ids}
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    columns = [n for n, path in enumerate(paths) if not names or path.partition(".")[0] in wanted]
    sizes = (metadata.row_group(g).column(n).total_uncompressed_size for g in chunk.groups for n in columns)
    return max(sum(sizes), 8 * chunk.rows * len(columns))


def _constant(chunk: Chunk, column: str | None) -> pa.Scalar[Any] | None:
    """The value of a flat column of whole numbers, dates or times that has one alone in the chunk, by its statistics.

    A partition's own column and the landing date of a file are such columns: reading them would tell nothing new.
    """
    if column is None or column not in chunk.opened.schema.names:
        return None
    metadata = chunk.metadata
    kind = chunk.opened.schema.field(column).type
    if not (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        return None
    number = next(n for n in range(metadata.num_columns) if metadata.schema.column(n).path == column)
    found = set()
    for group in chunk.groups:
        known: Any = metadata.row_group(group).column(number).statistics
        if known is None or not (known.has_min_max and known.has_null_count) or known.null_count:
            return None
        if known.physical_type not in ("INT32", "INT64"):
            return None
        found |= {known.min_raw, known.max_raw}
    if len(found) != 1:
        return None
    stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array([*found], stored).cast(kind)[0]


def typed(array: Any, kind: pa.DataType) -> Any:
    """An Arrow array, chunked or not, in the type `kind`."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.UuidType):
        chunks: list[Any] = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return pa.concat_arrays([pa.ExtensionArray.from_storage(kind, chunk) for chunk in chunks])
    return array.cast(kind)


def _between(positions: Any, low: int, high: int) -> Any:
    compute: Any = pc
    return positions.filter(compute.and_(compute.greater_equal(positions, low), compute.less(positions, high)))


def _repeated(value: Any, count: int) -> Any:
    return pa.repeat(value, count)


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
