"""Parquet files into a sink: pyarrow reads the schema, DuckDB the rows. Lines are row numbers, from 1.

Rows that DuckDB would not read as they were meant are read by pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from lakehouse.errors import UnreadableObject
from lakehouse.naming import quote_text
from lakehouse.read.cells import Cell, Relation
from lakehouse.read.local_file import scan_path
from lakehouse.read.sink import BATCH_ROWS, Sink, transaction
from lakehouse.read.typed.far_times import has_infinite, in_microseconds
from lakehouse.read.typed.old_calendar import Calendar, calendar_of_spark, has_times, modern, with_leaves
from lakehouse.read.typed.rows import Rows, TypedColumns, add_rows, broken, typed_columns

_BROKEN = (ValueError, pa.ArrowException, OSError)
_OURS = (duckdb.OutOfMemoryException, duckdb.InterruptException, duckdb.FatalException, duckdb.InternalException)


def read_parquet(sink: Sink, path: Path) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that it lacks.

    Raises UnreadableObject if it is broken, its columns are not the declared ones, or a type would lose something.
    """
    try:
        # DuckDB reads an INT96 as microseconds, so that is what its type is
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        schema, names = file.schema_arrow, file.schema_arrow.names
    except _BROKEN as error:
        raise broken(sink, "parquet", error) from None
    with file:
        columns = typed_columns(sink, names, lambda at: schema.field(at).type)
        _refuse_lost_nanoseconds(sink, path, file, columns.positions)
        rows = file.metadata.num_rows
        old = _calendar(file).is_old() and any(has_times(schema.field(at).type) for at in columns.positions)
    relation = Relation(_scan(path, schema), raw=columns.raw)
    try:
        with transaction(sink.con):
            if old:
                _add_by_arrow(sink, path, columns, rows)
            else:
                _add(sink, relation, columns.cells, rows)
    except _OURS:
        raise
    except duckdb.ConversionException:
        # a timestamp that DuckDB cannot hold, be it in a column that nobody reads
        sink.restart()
        with transaction(sink.con):
            _add_by_arrow(sink, path, columns, rows)
    except duckdb.Error as error:
        _judge(sink, path, error, schema)
    return columns.missing


def _scan(path: Path, schema: pa.Schema) -> str:
    """The rows as columns `p0`, `p1`, … by position, so that no name of the file is ever SQL, and `line`."""
    names = ", ".join(f"p{i}" for i in range(len(schema)))
    return (
        f"(SELECT *, row_number() OVER () AS line FROM read_parquet({quote_text(scan_path(path))}, "
        f"hive_partitioning = false, binary_as_string = false) AS file({names}))"
    )


def _add(sink: Sink, relation: Relation, cells: Mapping[str, Cell], expected: int) -> None:
    rows = sink.add(relation, cells)
    if rows != expected:
        raise UnreadableObject(f"rows differ from the footer: uri={sink.uri} read={rows} footer={expected}")
    if sink.flagged_lines(limit=1):
        sink.reject(relation, cells)


def _add_by_arrow(sink: Sink, path: Path, columns: TypedColumns, expected: int) -> None:
    rows = add_rows(sink, columns, _by_arrow(sink, path, columns))
    if rows != expected:
        raise UnreadableObject(f"rows differ from the footer: uri={sink.uri} read={rows} footer={expected}")


def _calendar(file: pq.ParquetFile) -> Calendar:
    found = file.metadata.metadata or {}
    texts = {name.decode(errors="replace"): text.decode(errors="replace") for name, text in found.items()}
    return calendar_of_spark(texts)


def _by_arrow(sink: Sink, path: Path, columns: TypedColumns) -> Iterator[Rows]:
    """The rows as pyarrow reads them, times of the old calendar as ones of the new, timestamps beyond microseconds as
    ones that no column takes."""
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            names = [file.schema_arrow.names[at] for at in columns.positions]
            # a dot in a name would lead pyarrow into a struct
            chosen = names if names and not any("." in name for name in names) else None
            calendar = _calendar(file)
            leaves = _leaves(file) if calendar.is_old() else {}
            for batch in file.iter_batches(BATCH_ROWS, columns=chosen):
                # DuckDB takes whatever bytes Arrow has for a text
                batch.validate(full=True)
                arrays = [in_microseconds(batch.column(name)) for name in names]
                if calendar.is_old():
                    arrays = [_modern(array, calendar, leaves[name]) for name, array in zip(names, arrays, strict=True)]
                for at, name, array in zip(columns.positions, names, arrays, strict=True):
                    if at in columns.rescued and has_infinite(array):
                        raise UnreadableObject(f"a timestamp that no column holds: uri={sink.uri} column={name!r}")
                yield Rows(batch.num_rows, arrays)
    except _BROKEN as error:
        raise broken(sink, "parquet", error) from None


def _leaves(file: pq.ParquetFile) -> dict[str, list[bool]]:
    """For each column, and each single type in it from left to right, whether its values are stored as INT96."""
    stored = iter([file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema))])
    return {field.name: [next(stored, False) for _ in range(_size(field.type))] for field in file.schema_arrow}


def _size(kind: Any) -> int:
    """How many single types are in a type."""
    return sum(_size(kind.field(i).type) for i in range(kind.num_fields)) if types.is_nested(kind) else 1


def _modern(array: Any, calendar: Calendar, int96: Sequence[bool]) -> Any:
    if not has_times(array.type):
        return array
    left = iter(int96)
    return with_leaves(array, lambda leaf: modern(leaf, calendar, int96=next(left, False)))


def _refuse_lost_nanoseconds(sink: Sink, path: Path, file: pq.ParquetFile, positions: Sequence[int]) -> None:
    """DuckDB cuts an INT96 to microseconds without a word: refuse the file if that loses anything, at any depth."""
    schema = file.schema_arrow
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    # a name may hold dots itself, so a path is cut where its column ends
    old = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    names = [
        name
        for name in (schema.names[position] for position in positions)
        if any(path == name or path.startswith(f"{name}.") for path in old)
    ]
    if not names:
        return
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="ns") as exact:
            for short, whole in zip(file.iter_batches(columns=names), exact.iter_batches(columns=names), strict=True):
                for name in names:
                    if _differ(whole[name], short[name]):
                        raise UnreadableObject(
                            f"timestamps with a part below a microsecond: uri={sink.uri} column={name!r} type=int96"
                        )
    except _BROKEN as error:
        raise broken(sink, "parquet", error) from None


def _differ(nanos: Any, micros: Any) -> bool:
    """Whether a timestamp in an array, or anywhere inside it, has a part below a microsecond."""
    if types.is_struct(nanos.type):
        return any(_differ(nanos.field(i), micros.field(i)) for i in range(nanos.type.num_fields))
    if types.is_map(nanos.type):
        return _differ(nanos.keys, micros.keys) or _differ(nanos.items, micros.items)
    if types.is_nested(nanos.type):
        return _differ(nanos.flatten(), micros.flatten())
    if not types.is_timestamp(nanos.type) or nanos.type == micros.type:
        return False
    # both may wrap around for far years, their difference does not
    whole, short = nanos.cast(pa.int64()), micros.cast(pa.int64())
    return bool(pc.any(pc.not_equal(whole, pc.multiply(short, 1000))).as_py())


def _judge(sink: Sink, path: Path, error: duckdb.Error, schema: pa.Schema) -> NoReturn:
    """Raise UnreadableObject if the file is to blame for DuckDB's error, else the error: pyarrow has a second look, and
    DuckDB one that writes nothing. Both made their types of the same schema, so that one cannot bind the other's is the
    file's fault, too."""
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except _BROKEN as second:
        raise broken(sink, "parquet", second) from None
    if isinstance(error, (duckdb.InvalidInputException, duckdb.BinderException)):
        raise broken(sink, "parquet", error) from None
    values = ", ".join(["count(*)", *(f"max(hash(p{i}))" for i in range(len(schema)))])
    try:
        sink.con.execute(f"SELECT {values} FROM {_scan(path, schema)}").fetchall()
    except _OURS:
        raise
    except duckdb.Error as second:
        raise broken(sink, "parquet", second) from None
    raise error
