"""What the footer of a Parquet file says of a column's values, so that it need not be read. Reads nothing.

Only flat columns of whole numbers, dates and timestamps: writers disagree about the bounds of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest value, in the type that the file has them in, and whether there are NULLs beside."""

    low: pa.Scalar[Any]
    high: pa.Scalar[Any]
    nulls: bool

    @property
    def constant(self) -> bool:
        """Every row holds one and the same value."""
        return not self.nulls and bool(self.low == self.high)


def column_bounds(
    metadata: pq.FileMetaData, groups: Sequence[int], *, schema: pa.Schema, column: str | None
) -> Bounds | None:
    """Bounds of a column in these row groups; None if they are not known. `schema` is the file's own."""
    if column is None or column not in schema.names:
        return None
    kind = schema.field(column).type
    in_microseconds = pa.types.is_timestamp(kind) and kind.unit == "us"
    if not (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or in_microseconds):
        return None
    number = next(n for n in range(metadata.num_columns) if metadata.schema.column(n).path == column)
    values: list[int] = []
    nulls = False
    for group in groups:
        known: Any = metadata.row_group(group).column(number).statistics
        if known is None or not (known.has_min_max and known.has_null_count):
            return None
        if known.physical_type not in ("INT32", "INT64"):
            return None
        values += (known.min_raw, known.max_raw)
        nulls = nulls or known.null_count > 0
    stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    low, high = pa.array([min(values), max(values)], stored).cast(kind)
    return Bounds(low, high, nulls)


def weight(metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[int]) -> int:
    """About how many bytes these columns, by number, take in memory."""
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    sizes = (metadata.row_group(group).column(n).total_uncompressed_size for group in groups for n in columns)
    return max(sum(sizes), 8 * rows * len(columns))
