"""Looks at key columns of target rows in the reading threads, before the engine sees a row: which are sought, which are
NULL, and whether the staged rows are newer or older than all there are. Reads nothing itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.merge.statistics import Bounds
from lakehouse.merge.target_files import Chunk

FEW_PIECES = 16


@dataclass(frozen=True, slots=True)
class Orders:
    """The smallest and largest value that staged rows have in the column `name` of `order_by`, for each sought value of
    the key, in its order; NULL where one of them has none."""

    name: str
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Sought:
    """Ascending, distinct values of the key column `name` that staged rows have."""

    name: str
    values: Any
    orders: Orders | None


class KeyLook:
    """A look at the key of target rows as they are read: keeps the NULLs in mind, drops rows that nobody seeks.

    `spared` are columns that tell how rows compare: they are not read where `order_by` decides by its bounds.
    """

    def __init__(self, key: Sequence[str], sought: Sought | None, spared: Collection[str] = ()) -> None:
        self.columns = key
        self._sought = sought
        self._orders = sought.orders if sought else None
        self.by = self._orders.name if self._orders else ""
        self.spared = spared if self.by in spared else ()
        self._nulls: list[pa.Table] = []

    def rows(self, chunk: Chunk, table: pa.Table) -> Any:
        for name in self.columns:
            if table.column(name).null_count:
                self._nulls.append(_places_of_nulls(chunk, name, table.column(name)))
        if self._sought is None:
            return None
        return rows_among(table.column(self._sought.name), self._sought.values)

    def settled(self, table: pa.Table, bounds: Bounds) -> bool:
        """Every staged row that may meet one of these rows is newer than `bounds`, or older: NULL is oldest."""
        if self._sought is None or self._orders is None:
            return False
        compute: Any = pc
        low, high = (bound.cast(self._orders.low.type) for bound in (bounds.low, bounds.high))
        at = compute.index_in(table.column(self._sought.name), value_set=self._sought.values)
        decided = compute.greater(self._orders.low.take(at), high)
        if not bounds.nulls:
            decided = compute.or_(decided, compute.less(self._orders.high.take(at), low))
        return bool(compute.all(compute.fill_null(decided, False), min_count=0).as_py())

    def report(self, con: duckdb.DuckDBPyConnection) -> None:
        """Fill `keyless` with the rows whose key is NULL."""
        for nulls in self._nulls:
            con.register("nulls", nulls)
            con.execute("insert into keyless select * from nulls")
            con.unregister("nulls")


def _places_of_nulls(chunk: Chunk, name: str, column: Any) -> pa.Table:
    """(__file, __pos, name) of the rows where the column is NULL."""
    compute: Any = pc
    rows = compute.indices_nonzero(compute.is_null(column)).cast(pa.int64())
    return pa.table(
        {
            "__file": pa.repeat(pa.scalar(chunk.target.number, pa.int32()), len(rows)),
            "__pos": compute.add(rows, chunk.start),
            "name": pa.repeat(pa.scalar(name), len(rows)),
        }
    )


def rows_among(column: Any, values: Any) -> Any:
    """Ascending numbers of the rows whose value is one of the ascending, distinct `values`."""
    compute: Any = pc
    found, start = [], 0
    for array in column.chunks:
        pieces = _sorted_pieces(array)
        for piece in pieces or [array]:
            if pieces:
                rows = _found_by_search(piece, values)
            else:
                rows = compute.indices_nonzero(compute.is_in(piece, value_set=values))
            found.append(compute.add(rows.cast(pa.int64()), start))
            start += len(piece)
    return pa.chunked_array(found, pa.int64()).combine_chunks()


def _sorted_pieces(array: Any) -> list[Any]:
    """The array as few pieces that ascend strictly, as the key does in files that are sorted by it; none if it has none
    or many. Searching them costs a tenth of looking up every row."""
    compute: Any = pc
    numbers = pa.types.is_integer(array.type) or pa.types.is_temporal(array.type)
    if not len(array) or array.null_count or not numbers:
        return []
    rises = compute.less(array.slice(0, len(array) - 1), array.slice(1))
    breaks = compute.indices_nonzero(compute.invert(rises))
    if len(breaks) > FEW_PIECES:
        return []
    ends = [0, *(int(row) + 1 for row in breaks.to_pylist()), len(array)]
    return [array.slice(start, end - start) for start, end in itertools.pairwise(ends)]


def _found_by_search(piece: Any, values: Any) -> Any:
    """Numbers of the rows of a strictly ascending piece that hold one of the values."""
    compute: Any = pc
    inside = compute.and_(compute.greater_equal(values, piece[0]), compute.less_equal(values, piece[-1]))
    meant = values.filter(inside)
    first = compute.search_sorted(piece, meant)
    return first.filter(compute.equal(piece.take(first), meant))
