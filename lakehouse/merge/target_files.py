"""Reads data files of the target: some columns of all rows, or some columns of some rows.

Columns are found by field id, so renamed, added and reordered columns of older files are read right. Credentials are
the catalog's: everything goes through the table's FileIO. Never more than a few row groups are in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from lakehouse.catalog import translated
from lakehouse.errors import LakehouseError, NotAvailable, TargetDamaged
from lakehouse.merge.layout import identified
from lakehouse.merge.statistics import Bounds, column_bounds, weight

PARALLEL_READS = 8
BYTES_AHEAD = 256 << 20
"""So much of the target's rows, about, is in memory at a time, the rows that are kept left aside."""
ROWS_AT_ONCE = 1 << 18
OPENED_KEPT = 256
_DAMAGE = ("deserialize thrift", "end of stream", "decompress")
_FIELD_ID = b"PARQUET:field_id"
_PARQUET = ds.ParquetFileFormat()
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
class _Opened:
    """A file with its footer, the schema that it was written with, and its columns by field id (empty: it has none)."""

    fragment: ds.ParquetFileFragment
    schema: pa.Schema
    names: Mapping[int, str]

    def name_of(self, field: NestedField) -> str | None:
        """The file's own name of a column of the table; None if it lacks the column."""
        if self.names:
            return self.names.get(field.field_id)
        return field.name if field.name in self.schema.names else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive row groups of a file; `start` is the position of their first row."""

    target: TargetFile
    opened: _Opened
    groups: tuple[int, ...]
    start: int

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.opened.fragment.metadata

    @property
    def rows(self) -> int:
        return sum(self.metadata.row_group(group).num_rows for group in self.groups)


class Look(Protocol):
    """Says, in the reading threads, which rows of a chunk are wanted, and where some columns of them need no reading.

    It looks at the columns `columns`. `spared` are read only where the bounds of the column `by` leave something open.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def by(self) -> str: ...

    @property
    def spared(self) -> Collection[str]: ...

    def rows(self, chunk: Chunk, table: pa.Table) -> Any:
        """An Arrow array of ascending row numbers in the chunk, or None for all; `table` has `columns`."""

    def settled(self, table: pa.Table, bounds: Bounds) -> bool:
        """Whether any value between these bounds of `by` says as much as the row's own; `table` has `columns`."""


class TargetReader:
    """Reads data files of one table as its schema has them now. Keeps the newest open: files are read in steps."""

    def __init__(self, table: Table) -> None:
        self.schema = table.schema()
        self._io = table.io
        self._mapping = table.name_mapping()
        self._opened: dict[str, _Opened] = {}

    def open_ahead(self, files: Sequence[TargetFile]) -> None:
        """Open files that will perhaps be read. One that cannot be opened says so when it is read."""

        def opened(target: TargetFile) -> None:
            with suppress(LakehouseError):
                self._open(target)

        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            list(pool.map(opened, files))

    def scan(
        self, files: Sequence[TargetFile], columns: Sequence[str], look: Look | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of (__file, __pos, columns…) over whole files, each column with the table's name and type.

        `__pos` is the 0-based row in the file; deleted rows are there too. A column that a file lacks is NULL. `look`
        says which rows are wanted.
        """
        fields = [self.schema.find_field(name) for name in columns]
        kinds: list[Any] = [pa.field(field.name, arrow_type(field.field_type)) for field in fields]
        shape = pa.schema([pa.field("__file", pa.int32()), pa.field("__pos", pa.int64()), *kinds])
        spared = [name for name in columns if look and name in look.spared]

        def read(chunk: Chunk) -> list[pa.RecordBatch]:
            part = _Part(chunk, fields, self._read_groups)
            values = part.columns([name for name in columns if name not in spared])
            wanted = look.rows(chunk, values) if look else None
            if wanted is None:
                wanted = _positions(0, chunk.rows)
            else:
                values = values.take(wanted)
            if look and spared:
                bounds = part.bounds(look.by)
                if bounds is not None and look.settled(values, bounds):
                    more = part.stand_ins(spared, {look.by: bounds.high}, len(wanted))
                else:
                    more = part.columns(spared).take(wanted)
                for name in spared:
                    values = values.append_column(name, more.column(name))
            numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(wanted))
            positions = pc.add(wanted, pa.scalar(chunk.start, pa.int64()))
            arrays: list[Any] = [numbers, positions, *values.select(columns).columns]
            return pa.Table.from_arrays(arrays, schema=shape).to_batches()

        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            ids = {field.field_id for field in fields}
            for batches in ahead(pool, read, self._chunks(pool, files), weigh=lambda chunk: _weight(chunk, ids)):
                yield from batches

    def rows_at(self, wanted: Sequence[tuple[TargetFile, Any]], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows at ascending positions of each file as (__file, __pos, the file's own columns that hold `columns`).

        Only row groups with a wanted row are read. Rows of files with one layout come together, up to ROWS_AT_ONCE.
        """
        positions = {target.number: rows for target, rows in wanted}
        asked = [self.schema.find_field(name) for name in columns]
        ids = {field.field_id for field in asked}

        def read(chunk: Chunk) -> pa.Table:
            have = [name for field in asked if (name := chunk.opened.name_of(field)) is not None]
            here = _between(positions[chunk.target.number], chunk.start, chunk.start + chunk.rows)
            table = self._read_groups(chunk, have).select(have).take(pc.subtract(here, chunk.start))
            numbers = pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(here))
            own: list[Any] = [chunk.opened.schema.field(name) for name in have]
            shape = pa.schema([pa.field("__file", pa.int32()), pa.field("__pos", pa.int64()), *own])
            return pa.Table.from_arrays([numbers, here, *table.columns], schema=shape)

        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            chunks = self._chunks(pool, [target for target, _ in wanted])
            hit = (c for chunk in chunks for c in _hit_groups(chunk, positions[chunk.target.number]))
            yield from _joined(ahead(pool, read, hit, weigh=lambda chunk: _weight(chunk, ids)))

    def _chunks(self, pool: ThreadPoolExecutor, files: Sequence[TargetFile]) -> Iterator[Chunk]:
        """Every file cut at row groups into pieces of bounded size; footers are read some files ahead."""
        for target, opened in ahead(pool, lambda target: (target, self._open(target)), files):
            groups: list[int] = []
            start = rows = 0
            metadata = opened.fragment.metadata
            for group in range(metadata.num_row_groups):
                groups.append(group)
                rows += metadata.row_group(group).num_rows
                if rows >= ROWS_AT_ONCE or group == metadata.num_row_groups - 1:
                    yield Chunk(target, opened, tuple(groups), start)
                    start, rows, groups = start + rows, 0, []

    def _open(self, target: TargetFile) -> _Opened:
        if (known := self._opened.get(target.path)) is not None:
            return known
        refuse_other_formats(target)
        with reading(target):
            fragment = self._fragment(target)
            schema = identified(fragment.metadata.schema.to_arrow_schema(), self._mapping)
        surplus = max(0, len(self._opened) + 1 - OPENED_KEPT)
        for path in list(self._opened)[:surplus]:  # a copy: other threads add to it
            self._opened.pop(path, None)
        opened = self._opened[target.path] = _Opened(fragment, schema, _names_by_id(schema))
        return opened

    def _fragment(self, target: TargetFile) -> Any:
        """The file as Arrow reads it. The manifest knows its size, so Arrow need not ask for it."""
        if not isinstance(self._io, PyArrowFileIO):
            stream: Any = self._io.new_input(target.path).open()
            return _PARQUET.make_fragment(stream)
        scheme, place, path = self._io.parse_location(target.path, self._io.properties)
        system = self._io.fs_by_scheme(scheme, place)
        return _PARQUET.make_fragment(path, system, file_size=target.file.file_size_in_bytes)

    def _read_groups(self, chunk: Chunk, columns: Sequence[str]) -> pa.Table:
        """These columns of a chunk; without one, a column of NULLs that has its rows."""
        if not columns:
            return pa.table({"__none": pa.nulls(chunk.rows)})
        with reading(chunk.target):
            groups: Any = chunk.opened.fragment.subset(row_group_ids=list(chunk.groups))
            table: pa.Table = groups.to_table(columns=list(columns), use_threads=False)
            return table


class _Part:
    """Columns of one chunk, with the table's names and types. What statistics know is not read."""

    def __init__(
        self, chunk: Chunk, fields: Sequence[NestedField], read: Callable[[Chunk, Sequence[str]], pa.Table]
    ) -> None:
        self._chunk, self._read = chunk, read
        self._kinds = {field.name: arrow_type(field.field_type) for field in fields}
        self._stored = {field.name: chunk.opened.name_of(field) for field in fields}

    def bounds(self, name: str) -> Bounds | None:
        chunk = self._chunk
        return column_bounds(chunk.metadata, chunk.groups, schema=chunk.opened.schema, column=self._stored[name])

    def columns(self, names: Sequence[str]) -> pa.Table:
        """All rows; a column that the file lacks is NULL."""
        constants = {name: known.high for name in names if (known := self.bounds(name)) and known.constant}
        asked = {name: own for name in names if (own := self._stored[name]) is not None and name not in constants}
        table = self._read(self._chunk, [*asked.values()])

        def column(name: str) -> Any:
            if name in asked:
                return typed(table.column(asked[name]), self._kinds[name])
            return self._repeated(name, constants.get(name), self._chunk.rows)

        return pa.table({name: column(name) for name in names})

    def stand_ins(self, names: Sequence[str], values: Mapping[str, Any], count: int) -> pa.Table:
        """`count` rows with the same values in all of them, NULL where none is given."""
        return pa.table({name: self._repeated(name, values.get(name), count) for name in names})

    def _repeated(self, name: str, value: Any, count: int) -> Any:
        kind: Any = self._kinds[name]
        return pa.nulls(count, kind) if value is None else typed(pa.repeat(value, count), kind)


def arrow_type(field_type: IcebergType) -> pa.DataType:
    """The Arrow type that holds a primitive Iceberg type."""
    found = cast(pa.DataType, schema_to_pyarrow(field_type))
    narrow: dict[pa.DataType, pa.DataType] = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return narrow.get(found, found)


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
    return weight(metadata, chunk.groups, columns)


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


def _positions(start: int, end: int) -> Any:
    return pa.arange(start, end)  # type: ignore[attr-defined]


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    ids = ((f.metadata or {}).get(_FIELD_ID) for f in schema)
    return {int(i): f.name for i, f in zip(ids, schema, strict=True) if i is not None}


@contextmanager
def reading(target: TargetFile) -> Iterator[None]:
    """Errors of reading a data file as ours: one that is no whole Parquet file is damage, no trouble of the storage."""
    try:
        with translated(f"file={target.path}"), _bad_pages_are_invalid():
            yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TargetDamaged(
            f"a data file of the table cannot be read: file={target.path} {' '.join(str(error).split())}",
            next="restore the file, or roll the table back to a snapshot without it",
        ) from error


@contextmanager
def _bad_pages_are_invalid() -> Iterator[None]:
    """Arrow calls a damaged page an error of input and output, as it calls those of the storage."""
    try:
        yield
    except OSError as error:
        if any(words in str(error).lower() for words in _DAMAGE):
            raise pa.ArrowInvalid(str(error)) from error
        raise


def refuse_other_formats(target: TargetFile) -> None:
    if target.file.file_format != "PARQUET":
        raise NotAvailable(
            f"data files in other formats than Parquet are not available yet: file={target.path} "
            f"format={target.file.file_format}",
            next="rewrite the table's data files as Parquet with the engine that wrote them",
        )
