"""Writes the data files of a batch: new rows and the survivors of rewritten files, by partition, sorted by key.

Files are written locally by DuckDB, uploaded through the table's FileIO under a path that names batch and attempt, and
stay invisible until the commit. Their statistics come from the written Parquet itself.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.merge.data_file import describe, stored_values
from lakehouse.merge.match import Match
from lakehouse.merge.target_files import PARALLEL_COPIES, LocalFile, select_rows
from lakehouse.naming import quote_name, quote_text
from lakehouse.schema import target_columns

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FILE_BYTES = 256 << 20
COMPRESSION_LEVEL = 1
"""Of zstd: the time that a higher level takes buys less than a tenth of the size."""
_TRANSFORMS = {
    "identity": "{0}",
    "year": "(year({0}) - 1970)::int",
    "month": "((year({0}) - 1970) * 12 + month({0}) - 1)::int",
    "day": "({0}::date - date '1970-01-01')::int",
    "hour": "floor(epoch_us({0}) / 3600000000)::int",
}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """New data files of a batch, uploaded, and the paths that they replace. `keys_found` counts the batch's inserted
    and updated keys that were read back from what was written."""

    added: tuple[DataFile, ...]
    removed: frozenset[str]
    keys_found: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition that changes: its values as manifests hold them, a condition that its new rows meet (None: it gets
    no new row), and the files whose other rows survive."""

    stored: tuple[Any, ...]
    condition: str | None
    survivors: tuple[LocalFile, ...]


def write_files(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    match: Match,
    *,
    table: Table,
    batch_id: str,
    attempt_id: str,
    ingested_at: datetime,
    folder: Path,
) -> WrittenFiles:
    """Write what the match changed; nothing is written if no row was inserted or updated."""
    if match.counts.inserted + match.counts.updated == 0:
        return WrittenFiles((), frozenset(), 0)
    constants = {
        "_batch_id": f"{quote_text(batch_id)}::varchar",
        "_ingested_at": f"{quote_text(ingested_at.isoformat())}::timestamptz",
    }
    _select_fresh(con, declaration, constants)
    parts = _plan_parts(con, declaration, match, table)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    uploads: list[Future[DataFile]] = []
    # A file is uploaded while the engine writes the next one.
    with ThreadPoolExecutor(PARALLEL_COPIES) as pool:
        for number, part in enumerate(parts):
            for path in _write_part(con, declaration, part, schema=table.schema(), folder=folder / str(number)):
                name = f"{batch_id}/{attempt_id}/{len(written):05d}.parquet"
                uploads.append(pool.submit(_upload, table, path, name, part.stored))
                written.append(path)
        keys_found = _read_back(con, declaration, written)
        added = tuple(upload.result() for upload in uploads)
    for path in written:
        path.unlink()
    return WrittenFiles(added, frozenset(match.files[f.number].file_path for f in match.rewritten), keys_found)


def _select_fresh(con: duckdb.DuckDBPyConnection, declaration: Declaration, constants: Mapping[str, str]) -> None:
    """Make the view `fresh`: inserted and updated rows with every target column."""
    picked = ", ".join(
        f"{constants.get(name, quote_name(name))} as {quote_name(name)}" for name in target_columns(declaration)
    )
    con.execute(
        f"create or replace temp view fresh as select {picked} from winners "
        "anti join (select row_id from matched where verdict <> 'updated') using (row_id)"
    )


def _plan_parts(con: duckdb.DuckDBPyConnection, declaration: Declaration, match: Match, table: Table) -> list[_Part]:
    """Which partitions change. Survivors keep the partition of their file; rows of a file of an older spec belong to
    partitions of the present one, whichever these are, so they join the new rows."""
    settled: dict[tuple[Any, ...], list[LocalFile]] = defaultdict(list)
    moved = []
    for file in match.rewritten:
        data_file = match.files[file.number]
        partition = data_file.partition
        if data_file.spec_id == table.spec().spec_id:
            settled[stored_values([partition[i] for i in range(len(partition))])].append(file)
        else:
            moved.append(file)
    if moved:
        survivors = _survivors(moved, table.schema(), declaration)
        con.execute(f"create or replace temp table fresh_rows as select * from fresh union all by name {survivors}")
        con.execute("create or replace temp view fresh as select * from fresh_rows")
    expressions = partition_expressions(table.schema(), table.spec())
    found = _fresh_partitions(con, expressions)
    parts = [
        _Part(stored_values(values), _condition(expressions, number), tuple(settled.pop(stored_values(values), ())))
        for number, values in enumerate(found)
    ]
    return [*parts, *(_Part(stored, None, tuple(files)) for stored, files in settled.items())]


def _fresh_partitions(con: duckdb.DuckDBPyConnection, expressions: Sequence[str]) -> list[tuple[Any, ...]]:
    """The partition values of the new rows, in order; the temp table `parts` holds them with their number."""
    if not expressions:
        return [()]
    picked = ", ".join(f"{e} as __p{i}" for i, e in enumerate(expressions))
    con.execute(
        "create or replace temp table parts as select (row_number() over () - 1)::int as __part, * "
        f"from (select distinct {picked} from fresh order by all)"
    )
    return [tuple(values) for _, *values in con.execute("select * from parts order by 1").fetchall()]


def _condition(expressions: Sequence[str], number: int) -> str:
    """The condition that a new row belongs to partition `number`, by value, NULL included."""
    same = (
        f"{e} is not distinct from (select __p{i} from parts where __part = {number})"
        for i, e in enumerate(expressions)
    )
    return " and ".join(same) or "true"


def _survivors(files: Sequence[LocalFile], schema: Schema, declaration: Declaration) -> str:
    """SQL of the rows of rewritten files that no new row replaces."""
    columns = target_columns(declaration)
    return f"""select {", ".join(quote_name(n) for n in columns)} from ({select_rows(files, schema, columns)}) t
        anti join (select file_number, pos from matched where verdict = 'updated') using (file_number, pos)"""


def _write_part(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, part: _Part, *, schema: Schema, folder: Path
) -> list[Path]:
    """Write one partition to as many files as its size asks for."""
    columns = target_columns(declaration)
    names = ", ".join(quote_name(n) for n in columns)
    sources = [f"select {names} from fresh where {part.condition}"] if part.condition is not None else []
    if part.survivors:
        sources.append(_survivors(part.survivors, schema, declaration))
    ids = ", ".join(f"{quote_text(n)}: {schema.find_field(n).field_id}" for n in columns)
    order = ", ".join(quote_name(k) for k in declaration.key)
    con.execute(
        f"""copy (select * from ({" union all by name ".join(sources)}) order by {order}) to {quote_text(str(folder))}
        (format parquet, compression zstd, compression_level {COMPRESSION_LEVEL}, write_bloom_filter false,
        file_size_bytes {FILE_BYTES}, field_ids {{{ids}}})"""
    )
    # a file whose rows were all replaced, by rows of another partition, leaves nothing: DuckDB writes an empty file
    return [path for path in sorted(folder.glob("*.parquet")) if pq.read_metadata(path).num_rows]


def partition_expressions(schema: Schema, spec: PartitionSpec) -> list[str]:
    """DuckDB expressions of the partition values, as Iceberg defines the transforms, in spec order."""
    expressions = []
    for field in spec.fields:
        source = schema.find_field(field.source_id)
        name, transform = quote_name(source.name), str(field.transform)
        if transform.startswith("truncate["):
            expressions.append(_truncate(name, str(source.field_type), int(transform[9:-1])))
        elif transform == "void":
            expressions.append("null")
        elif transform in _TRANSFORMS:
            expressions.append(_TRANSFORMS[transform].format(name))
        else:
            raise NotAvailable(f"partition field {field.name}: the transform {transform} is not available yet")
    return expressions


def _truncate(name: str, field_type: str, width: int) -> str:
    if field_type == "string":
        return f"left({name}, {width})"
    if field_type in ("int", "long"):
        return f"({name} - ((({name} % {width}) + {width}) % {width}))"
    raise NotAvailable(f"truncate of {field_type} is not available yet: column={name}")


def _upload(table: Table, path: Path, name: str, partition: tuple[Any, ...]) -> DataFile:
    uri = table.location_provider().new_data_location(name)
    with translated(f"file={uri}"), path.open("rb") as source, table.io.new_output(uri).create() as target:
        shutil.copyfileobj(source, target, 1 << 22)
    return describe(table, path, uri=uri, partition=partition)


def _read_back(con: duckdb.DuckDBPyConnection, declaration: Declaration, paths: Sequence[Path]) -> int:
    keys = ", ".join(quote_name(k) for k in declaration.key)
    if not paths:
        return 0
    files = ", ".join(quote_text(str(p)) for p in paths)
    ((found,),) = con.execute(
        f"""select count(*) from (select {keys} from read_parquet([{files}])) f
        join (select {keys} from winners where row_id not in
            (select row_id from matched where verdict <> 'updated')) w using ({keys})"""
    ).fetchall()
    return int(found)
