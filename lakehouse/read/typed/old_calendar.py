"""Dates and times that a file counts in the calendar before 1582, as those that every column counts in. Pure.

Java's old classes, and so Spark up to version 2, Spark's "legacy" rebase mode and ORC's Java writer, take days before
1582-10-15 for days of the Julian calendar and store the number that those have. The writer's date is the one that its
calendar shows: 1000-02-28 is stored as the day that the Gregorian calendar, extended back, calls 1000-03-05. Old times
are worse: before 1900 they also depend on what Java once knew of the writer's time zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakehouse.read.typed.far_times import INFINITE

UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UCT", "Etc/UCT")
Change = Callable[[Any], Any]
"""Makes an array of single values another one."""

_GREGORIAN = -141_427
"""The day 1582-10-15, counted from 1970-01-01."""
_MARCH = 719_470
"""Days from the first of March of the Julian year 0 to 1970-01-01."""
_CYCLE, _CYCLES = 146_100, 20_000
"""Days of 400 Julian years, and as many of these as make every day a positive number."""
_DAY = 86_400_000_000
_1900 = -25_567 * _DAY


class Calendar(NamedTuple):
    """Which values of a file are of the old calendar. `zone` is the writer's; None if the file does not say."""

    dates: bool = False
    instants: bool = False
    int96: bool = False
    zone: str | None = None

    def is_old(self) -> bool:
        return self.dates or self.instants or self.int96


def calendar_of_spark(footer: Mapping[str, str]) -> Calendar:
    """What Spark's entries in the metadata of a Parquet or Avro file say; nothing is old without them."""
    found = re.match(r"(\d+)\.(\d+)", footer.get("org.apache.spark.version", ""))
    if not found:
        return Calendar()
    version = int(found[1]), int(found[2])
    old = version < (3, 0) or "org.apache.spark.legacyDateTime" in footer
    int96 = version < (3, 1) or "org.apache.spark.legacyINT96" in footer
    return Calendar(old, old, int96, footer.get("org.apache.spark.timeZone"))


def modern(array: Any, calendar: Calendar, *, int96: bool = False) -> Any:
    """Single values of a file as every column counts them; `int96` says that they were stored as such.

    A time before 1900 that depends on the writer's zone, and that is not UTC, becomes INFINITE.
    """
    kind = array.type
    if types.is_date32(kind) and calendar.dates:
        days: Any = array.cast(pa.int32()).cast(pa.int64())
        return pc.add(days, _shift(days)).cast(pa.int32()).cast(kind)
    if not types.is_timestamp(kind):
        return array
    if not (calendar.int96 if int96 else calendar.instants and kind.tz is not None):
        return array
    micros = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if calendar.zone not in UTC_NAMES:
        instants = pc.if_else(pc.less(micros, pa.scalar(_1900)), INFINITE, micros)
    else:
        instants = pc.add(micros, pc.multiply(_shift(floored(micros, _DAY)), _DAY))
    return instants.cast(pa.timestamp("us", kind.tz))


def _shift(days: Any) -> Any:
    """Days to add, so that the Gregorian calendar calls the day what the old one called it.

    A leap day that the Gregorian calendar lacks becomes the first of March.
    """
    counted: Any = pc.add(days, pa.scalar(_MARCH + _CYCLE * _CYCLES))
    # of years that begin in March
    quarters: Any = pc.multiply(counted, 4)
    century: Any = pc.divide(pc.add(quarters, pa.scalar(3)), _CYCLE)
    shift = pc.add(pc.subtract(pc.divide(century, 4), century), 2 + 3 * _CYCLES)
    return pc.if_else(pc.less(days, pa.scalar(_GREGORIAN)), shift, 0)


def floored(numbers: Any, unit: int) -> Any:
    """Whole units of integers, rounded down."""
    cut = pc.divide(numbers, unit)
    return pc.if_else(pc.greater(pc.multiply(cut, unit), numbers), pc.subtract(cut, 1), cut)


def has_times(kind: Any) -> bool:
    """Whether dates or timestamps are in a type."""
    if types.is_nested(kind):
        return any(has_times(kind.field(i).type) for i in range(kind.num_fields))
    return types.is_date(kind) or types.is_timestamp(kind)


def with_leaves(array: Any, change: Change) -> Any:
    """The array with each array of single values in it changed, from left to right. Raises ValueError for a list whose
    size is fixed."""
    kind = array.type
    if not types.is_nested(kind):
        return change(array)
    if types.is_struct(kind):
        parts = [with_leaves(array.field(i), change) for i in range(kind.num_fields)]
        fields = [pa.field(field.name, part.type) for field, part in zip(kind.fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if array.offset:
        # a slice has no list of its own
        array = pa.concat_arrays([array, array.slice(0, 0)])
    if types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, with_leaves(array.values, change), mask=array.is_null())
    if types.is_map(kind):
        keys, items = with_leaves(array.keys, change), with_leaves(array.items, change)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    raise ValueError(f"times inside of {kind}")
