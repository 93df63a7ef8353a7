"""Whole data files of the target by a local copy, for the files that are rewritten."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import NameMapping

from lakehouse.catalog import translated
from lakehouse.merge.layout import column_expressions, identified
from lakehouse.merge.target_files import PARALLEL_READS, TargetFile, reading, refuse_other_formats
from lakehouse.naming import quote_name, quote_text

_ADDED = ("filename", "file_row_number")
"""Columns that DuckDB's Parquet reader adds, under names that cannot both be chosen."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A copy of a data file, with the schema that it was written with."""

    target: TargetFile
    path: Path
    schema: pa.Schema


def copy_files(table: Table, files: Iterable[TargetFile], folder: Path) -> tuple[LocalFile, ...]:
    """Copy whole files to a local folder, some at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        return tuple(pool.map(lambda target: _copy(table.io, table.name_mapping(), target, folder), files))


@contextmanager
def damage_named(files: Sequence[LocalFile]) -> Iterator[None]:
    """Where the engine fails to read them: name the data file that is damaged. Raises TargetDamaged."""
    try:
        yield
    except duckdb.Error:
        for file in files:
            with reading(file.target), pq.ParquetFile(file.path) as copy:
                for group in range(copy.num_row_groups):
                    copy.read_row_group(group)
        raise


def select_rows(files: Sequence[LocalFile], schema: Schema) -> str:
    """SQL that reads local files as (__file, __pos, every column of the table in order, typed as it is now)."""
    layouts: dict[str, list[LocalFile]] = {}
    for file in files:
        layouts.setdefault(file.schema.to_string(show_field_metadata=True), []).append(file)
    return " union all ".join(_select_layout(group, schema) for group in layouts.values())


def _copy(io: FileIO, mapping: NameMapping | None, target: TargetFile, folder: Path) -> LocalFile:
    refuse_other_formats(target)
    local = folder / f"{target.number}.parquet"
    with (
        translated(f"file={target.path}"),
        io.new_input(target.path).open() as source,
        local.open("wb") as output,
    ):
        shutil.copyfileobj(source, output, 1 << 22)
    with reading(target):
        schema = identified(pq.read_schema(local), mapping)
        if any(name.lower() in _ADDED for name in schema.names):
            schema = _rename(local, schema)
    return LocalFile(target, local, schema)


def _rename(path: Path, schema: pa.Schema) -> pa.Schema:
    """Give columns that are called like those that DuckDB adds another name; ids tell which they are."""
    fields = [field.with_name(f"__own_{field.name}") if field.name.lower() in _ADDED else field for field in schema]
    renamed, other = pa.schema(fields), path.with_suffix(".renamed")
    with pq.ParquetFile(path) as source, pq.ParquetWriter(other, renamed) as writer:
        for group in range(source.num_row_groups):
            columns = source.read_row_group(group).columns
            writer.write_table(pa.Table.from_arrays(columns, schema=renamed))
    other.replace(path)
    return renamed


def _select_layout(files: Sequence[LocalFile], schema: Schema) -> str:
    values = zip(column_expressions(schema.fields, files[0].schema), schema.fields, strict=True)
    columns = ", ".join(f"{value} as {quote_name(field.name)}" for value, field in values)
    paths = ", ".join(quote_text(str(f.path)) for f in files)
    numbers = " ".join(f"when {quote_text(str(f.path))} then {f.target.number}" for f in files)
    return (
        f"select (case __path {numbers} end)::int as __file, __pos, {columns} from "
        f"(select *, filename as __path, file_row_number as __pos "
        f"from read_parquet([{paths}], filename = true, file_row_number = true))"
    )
