"""Writes the data files of a batch: new rows and the survivors of rewritten files, by partition, sorted by key.

Files are written locally by DuckDB, uploaded through the table's FileIO under a path that names batch and attempt, and
stay invisible until the commit. Their statistics come from the written Parquet itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.merge.data_file import describe
from lakehouse.merge.match import Match
from lakehouse.merge.target_files import PARALLEL_COPIES, select_rows
from lakehouse.naming import quote_name, quote_text
from lakehouse.schema import target_columns

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FILE_BYTES = 256 << 20
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
    schema, spec = table.schema(), table.spec()
    _collect(
        con,
        declaration,
        match,
        schema=schema,
        spec=spec,
        batch_id=batch_id,
        ingested_at=ingested_at,
    )
    folder.mkdir(parents=True, exist_ok=True)
    local = _write_partitions(con, declaration, schema=schema, folder=folder)
    prefix = f"{batch_id}/{attempt_id}"
    with ThreadPoolExecutor(PARALLEL_COPIES) as pool:
        added = tuple(pool.map(lambda item: _upload(table, item, prefix), enumerate(local)))
    keys_found = _read_back(con, declaration, [path for path, _ in local])
    for path, _ in local:
        path.unlink()
    return WrittenFiles(added, frozenset(match.paths[f.number] for f in match.rewritten), keys_found)


def _collect(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    match: Match,
    *,
    schema: Schema,
    spec: PartitionSpec,
    batch_id: str,
    ingested_at: datetime,
) -> None:
    """Make the temp table `output` (every target column, `__part` = partition number) and `parts` (number, values)."""
    columns = target_columns(declaration)
    constants = {
        "_batch_id": f"{quote_text(batch_id)}::varchar",
        "_ingested_at": f"{quote_text(ingested_at.isoformat())}::timestamptz",
    }
    fresh = ", ".join(f"{constants.get(n, quote_name(n))} as {quote_name(n)}" for n in columns)
    names = ", ".join(quote_name(n) for n in columns)
    sql = f"""select {fresh} from winners where row_id not in
        (select row_id from matched where verdict <> 'updated')"""
    if match.rewritten:
        sql += f""" union all by name select {names}
            from ({select_rows(match.rewritten, schema, columns)}) t
            anti join (select file_number, pos from matched where verdict = 'updated') using (file_number, pos)"""
    values = [f"{e} as __p{i}" for i, e in enumerate(partition_expressions(schema, spec))]
    if not values:
        con.execute(f"create or replace temp table output as select *, 0 as __part from ({sql})")
        con.execute("create or replace temp table parts as select 0 as __part")
        return
    picked = ", ".join(f"__p{i}" for i in range(len(values)))
    con.execute(f"create or replace temp table output as select *, {', '.join(values)} from ({sql})")
    con.execute(
        f"create or replace temp table parts as select row_number() over () as __part, * "
        f"from (select distinct {picked} from output order by all)"
    )


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


def _write_partitions(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    schema: Schema,
    folder: Path,
) -> list[tuple[Path, tuple[Any, ...]]]:
    names = list(target_columns(declaration))
    ids = ", ".join(f"{quote_text(n)}: {schema.find_field(n).field_id}" for n in names)
    order = ", ".join(quote_name(k) for k in declaration.key)
    picked = ", ".join(quote_name(n) for n in names)
    written: list[tuple[Path, tuple[Any, ...]]] = []
    for number, *values in con.execute("select * from parts order by 1").fetchall():
        place = folder / f"part-{number}"
        where = " and ".join(f"o.__p{i} is not distinct from p.__p{i}" for i in range(len(values))) or "true"
        con.execute(
            f"""copy (select {picked} from (select o.* from output o
                semi join (select * from parts where __part = {int(number)}) p on {where}) order by {order})
            to {quote_text(str(place))} (format parquet, compression zstd, file_size_bytes {FILE_BYTES},
                field_ids {{{ids}}})"""
        )
        written.extend((path, tuple(values)) for path in sorted(place.glob("*.parquet")))
    return written


def _upload(table: Table, item: tuple[int, tuple[Path, tuple[Any, ...]]], prefix: str) -> DataFile:
    number, (path, values) = item
    uri = table.location_provider().new_data_location(f"{prefix}/{number:05d}.parquet")
    with (
        translated(f"file={uri}"),
        path.open("rb") as source,
        table.io.new_output(uri).create() as target,
    ):
        shutil.copyfileobj(source, target, 1 << 22)
    return describe(table, path, uri=uri, partition=values)


def _read_back(con: duckdb.DuckDBPyConnection, declaration: Declaration, paths: Sequence[Path]) -> int:
    keys = ", ".join(quote_name(k) for k in declaration.key)
    files = ", ".join(quote_text(str(p)) for p in paths)
    ((found,),) = con.execute(
        f"""select count(*) from (select {keys} from read_parquet([{files}])) f
        join (select {keys} from winners where row_id not in
            (select row_id from matched where verdict <> 'updated')) w using ({keys})"""
    ).fetchall()
    return int(found)
