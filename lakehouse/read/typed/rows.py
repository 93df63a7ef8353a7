"""Rows of files whose columns have types: what Parquet, ORC and Avro share. Lines are row numbers, from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from lakehouse.declaration import Declaration
from lakehouse.engines.nested import field_of
from lakehouse.errors import UnreadableObject
from lakehouse.masking import MASK, may_show, shown_text
from lakehouse.naming import RESCUED, quote_name, quote_text
from lakehouse.read.cells import Cell, Relation, rescued_cell
from lakehouse.read.header import match_columns, missing_columns
from lakehouse.read.origins import Origins, Path, origins_of
from lakehouse.read.sink import PARSED, Sink
from lakehouse.read.typed.arrow_types import TypedFile, arrow_cell


class _Source(NamedTuple):
    """SQL over the source relation, and the Arrow type of its values."""

    sql: str
    type: pa.DataType


class Rows(NamedTuple):
    """Some rows of a file: how many, and an array for each of `TypedColumns.positions`."""

    size: int
    arrays: Sequence[pa.Array[Any] | pa.ChunkedArray[Any]]


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """What is read of a file: the positions of its columns, which the cells take for columns `p<position>`.

    `raw` is SQL of a row's text, of which it has none: the declared columns as JSON, each value as DuckDB prints it.
    `missing` are the declared columns that the file lacks. `rescued` are the positions of columns that nobody declared.
    """

    positions: tuple[int, ...]
    rescued: frozenset[int]
    cells: Mapping[str, Cell]
    raw: str
    missing: tuple[str, ...]


def broken(sink: Sink, kind: str, error: Exception) -> UnreadableObject:
    """What a library says of the bytes of a file, as ours; raises the error itself if the local disk or a lack of
    memory is to blame."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno):
        raise error
    # the name of our local copy says nothing to anybody
    reason = " ".join(re.sub(r"""['"]?/[^'":]*['"]?""", "the file", str(error)).split())[:200].lower()
    shown = shown_text(reason, sink.declaration)
    return UnreadableObject(f"the {kind} file is broken: uri={sink.uri} reason={shown}")


def typed_columns(
    sink: Sink, names: Sequence[str], type_at: Callable[[int], pa.DataType], *, entries: bool = False
) -> TypedColumns:
    """Match the columns of a file with the declared ones; `type_at` gives the Arrow type of the one at a position.

    `entries` says that the maps of declared columns come as lists of entries.

    Raises UnreadableObject if they are not the declared ones, or for a type of which something would be lost.
    """
    declaration = sink.declaration
    found, rescued = match_columns(names, declaration=declaration, uri=sink.uri)
    roots = {names[at]: _Source(f"p{at}", type_at(at)) for at in sorted(set(found.values()))}
    sources = _sources(sink, origins_of(declaration), roots)
    missing = missing_columns(sources, names=names, declaration=declaration, uri=sink.uri)
    columns = {column.name: column for column in declaration.columns}
    file = TypedFile(sink.uri, sink.rules, declaration, entries)
    cells = {name: arrow_cell(columns[name], source.sql, source.type, file) for name, source in sources.items()}
    if rescued:
        cells[RESCUED] = rescued_cell(columns[RESCUED], {n: _text(f"p{at}", type_at(at)) for n, at in rescued.items()})
    texts = [
        f"{quote_name(columns[name].source_name)} := {_raw(source.sql, declaration.origin(columns[name]), declaration)}"
        for name, source in sources.items()
    ]
    raw = f"to_json(struct_pack({', '.join(texts)}))::VARCHAR" if texts else "NULL"
    positions = tuple(sorted({*found.values(), *rescued.values()}))
    return TypedColumns(positions, frozenset(rescued.values()), cells, raw, missing)


def _raw(source: str, path: Path, declaration: Declaration) -> str:
    """SQL of a value as a reject shows it."""
    if may_show(path, declaration):
        return f"{source}::VARCHAR"
    return f"CASE WHEN {source} IS NOT NULL THEN {quote_text(MASK)} END"


def _text(source: str, kind: pa.DataType) -> str:
    """SQL of a value's text: nested ones as JSON, others as DuckDB prints them."""
    return f"to_json({source})::VARCHAR" if types.is_nested(kind) else f"{source}::VARCHAR"


def _sources(sink: Sink, origins: Origins, roots: Mapping[str, _Source]) -> dict[str, _Source]:
    """The sources of the declared columns that the file has, by declared name."""
    where = f"uri={sink.uri}"
    for level in origins.levels:
        if level[0] in roots and (value := _below(roots[level[0]], level, where)):
            names = [value.type.field(i).name for i in range(value.type.num_fields)]
            origins.refuse_unknown(level, names, declaration=sink.declaration, where=where)
    found: dict[str, _Source] = {}
    for name, path in origins.paths.items():
        if path[0] in roots and (source := _below(roots[path[0]], path, where)):
            found[name] = source
    return found


def _below(root: _Source, path: Path, where: str) -> _Source | None:
    """The value at a path that begins with the root's name; None if the file has none there."""
    sql, kind = root
    for depth, name in enumerate(path[1:], start=1):
        if not types.is_struct(kind):
            raise UnreadableObject(
                f"a column is declared inside a value that has no fields: "
                f"{where} column={'.'.join(path)!r} file={kind} at={'.'.join(path[:depth])!r}"
            )
        if kind.get_field_index(name) < 0:
            return None
        sql, kind = field_of(sql, name), kind.field(name).type
    return _Source(sql, kind)


def add_rows(sink: Sink, columns: TypedColumns, batches: Iterable[Rows]) -> int:
    """Put rows into the sink; returns how many there were."""
    relation = Relation(PARSED, raw=columns.raw)
    total = 0
    for rows in batches:
        arrays = {f"p{at}": array for at, array in zip(columns.positions, rows.arrays, strict=True)}
        lines = pa.array(range(total + 1, total + rows.size + 1), pa.int64())
        batch = pa.table({**arrays, "line": lines})
        sink.add(relation, columns.cells, batch=batch)
        if sink.flagged_lines(limit=1):
            sink.reject(relation, columns.cells, batch=batch)
        total += rows.size
    return total
