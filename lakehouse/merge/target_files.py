"""Reads data files of the target: key columns straight from storage, whole files by a local copy.

Columns are found by field id, so renamed, added and reordered columns of older files are read right. Credentials are
the catalog's: everything goes through the table's FileIO.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakehouse.catalog import translated
from lakehouse.merge.prune import null_keys
from lakehouse.naming import quote_name, quote_text
from lakehouse.types import ColumnType

PARALLEL_COPIES = 4
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A copy of a data file. `columns` maps field ids to the names that the file uses."""

    number: int
    path: Path
    columns: tuple[tuple[int, str], ...]


def key_batches(
    io: FileIO, *, table: str, schema: Schema, key: Sequence[str], paths: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of (file_number, pos, key…) over `paths`; key columns carry the table's names.

    `file_number` indexes `paths`, `pos` is the 0-based row in the file. Raises TargetDamaged on a NULL key.
    """
    for number, path in enumerate(paths):
        with translated(f"file={path}"), io.new_input(path).open() as stream:
            parquet = pq.ParquetFile(cast(IO[bytes], stream), pre_buffer=True)
            names = _names_by_id(parquet.schema_arrow)
            wanted = [_file_name(schema, names, k) for k in key]
            start = 0
            for batch in parquet.iter_batches(batch_size=1 << 17, columns=wanted):
                arrays = [batch.column(name) for name in wanted]
                for name, array in zip(key, arrays, strict=True):
                    if array.null_count:
                        raise null_keys(table, name, array.null_count, path)
                end = start + batch.num_rows
                numbers = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
                yield pa.RecordBatch.from_arrays(
                    [numbers, _positions(start, end), *arrays],
                    names=["file_number", "pos", *key],
                )
                start = end


def copy_files(io: FileIO, paths: Sequence[tuple[int, str]], folder: Path) -> tuple[LocalFile, ...]:
    """Copy (number, path) files to a local folder, some at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_COPIES) as pool:
        return tuple(pool.map(lambda item: _copy(io, item[0], item[1], folder), paths))


def _copy(io: FileIO, number: int, path: str, folder: Path) -> LocalFile:
    local = folder / f"{number}.parquet"
    with (
        translated(f"file={path}"),
        io.new_input(path).open() as source,
        local.open("wb") as target,
    ):
        shutil.copyfileobj(source, target, 1 << 22)
    return LocalFile(number, local, tuple(sorted(_names_by_id(pq.read_schema(local)).items())))


def select_rows(files: Sequence[LocalFile], schema: Schema, columns: dict[str, ColumnType]) -> str:
    """SQL that reads local files as (file_number, pos, every target column in order, typed as declared)."""
    layouts: dict[tuple[tuple[int, str], ...], list[LocalFile]] = defaultdict(list)
    for file in files:
        layouts[file.columns].append(file)
    return " union all ".join(_select_layout(group, schema, columns) for group in layouts.values())


def _select_layout(files: Sequence[LocalFile], schema: Schema, columns: dict[str, ColumnType]) -> str:
    names = dict(files[0].columns)
    by_name = not names
    picked = []
    for name, column in columns.items():
        in_file = name if by_name else names.get(schema.find_field(name).field_id)
        value = quote_name(in_file) if in_file is not None else "null"
        picked.append(f"{value}::{column.sql} as {quote_name(name)}")
    paths = ", ".join(quote_text(str(f.path)) for f in files)
    numbers = " ".join(f"when {quote_text(str(f.path))} then {f.number}" for f in files)
    return (
        f"select (case __file {numbers} end)::int as file_number, __pos as pos, {', '.join(picked)} from "
        f"(select *, filename as __file, file_row_number as __pos "
        f"from read_parquet([{paths}], filename = true, file_row_number = true))"
    )


def _positions(start: int, end: int) -> Any:
    return pa.arange(start, end)  # type: ignore[attr-defined]


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    ids = ((f.metadata or {}).get(_FIELD_ID) for f in schema)
    return {int(i): f.name for i, f in zip(ids, schema, strict=True) if i is not None}


def _file_name(schema: Schema, names: dict[int, str], column: str) -> str:
    if not names:
        return column
    return names.get(schema.find_field(column).field_id, column)
