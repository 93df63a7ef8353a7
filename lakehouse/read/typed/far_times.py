"""Timestamps of an Arrow array in microseconds, also those that microseconds cannot hold. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

INFINITE = 2**63 - 1
"""Microseconds of no timestamp: DuckDB's `infinity`, which no column takes."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1000}


def in_microseconds(array: Any) -> Any:
    """The array with its timestamps, also those in structs and lists, in microseconds; one beyond them is INFINITE.

    Raises ValueError for those inside of other types: DuckDB cannot be asked what it can hold of them.
    """
    kind = array.type
    if types.is_struct(kind):
        parts = [in_microseconds(array.field(i)) for i in range(kind.num_fields)]
        fields = [pa.field(field.name, part.type) for field, part in zip(kind.fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, in_microseconds(array.values), mask=array.is_null())
    if types.is_nested(kind) and _has_coarse(kind):
        raise ValueError(f"a timestamp beyond microseconds, and others in {kind}")
    if not _has_coarse(kind):
        return array
    unit, numbers = _MICROSECONDS[kind.unit], array.cast(pa.int64())
    most = INFINITE // unit
    fits = pc.and_(pc.less_equal(numbers, pa.scalar(most)), pc.greater_equal(numbers, pa.scalar(-most)))
    micros = pc.if_else(fits, pc.multiply(pc.if_else(fits, numbers, 0), unit), INFINITE)
    return micros.cast(pa.timestamp("us", kind.tz))


def _has_coarse(kind: Any) -> bool:
    if types.is_nested(kind):
        return any(_has_coarse(kind.field(i).type) for i in range(kind.num_fields))
    return types.is_timestamp(kind) and kind.unit in _MICROSECONDS


def has_infinite(array: Any) -> bool:
    """Whether a timestamp of the array is infinite, or was made so."""
    kind = array.type
    if types.is_struct(kind):
        return any(has_infinite(array.field(i)) for i in range(kind.num_fields))
    if types.is_list(kind):
        return has_infinite(array.values)
    if types.is_map(kind):
        return has_infinite(array.keys) or has_infinite(array.items)
    if not types.is_timestamp(kind) or kind.unit in _MICROSECONDS:
        return False
    numbers = array.cast(pa.int64())
    return bool(pc.any(pc.greater_equal(numbers, pa.scalar(INFINITE))).as_py())
