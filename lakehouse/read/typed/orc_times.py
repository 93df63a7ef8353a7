"""Timestamps without a zone of an ORC file, as the writer's clock showed them. Pure.

The file counts them from an instant, and names the zone of the clock. pyarrow turns them into what the clock showed,
but for two things. Java's writer, from which all others learned, drops the part below a second of a time before 1970
towards 1970: every reader has to take a second off again, and pyarrow looks at the clock for it, not at the instant.
And before 1900, or before the zone had a time by law, pyarrow and Java do not know the same offsets.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakehouse.read.typed.far_times import INFINITE
from lakehouse.read.typed.old_calendar import UTC_NAMES, floored

NTZ = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000_000
_CUT = 999_999
"""Nanoseconds of a second that do not make its milliseconds count."""
_YEARS = range(1900, 2000)


def as_meant(field: pa.Field[Any]) -> Any:
    """The type of a field's values: Spark stores a TIMESTAMP_NTZ as microseconds, and says so beside the type."""
    kind = field.type
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, as_meant(part)) for part in kind.fields])
    if types.is_list(kind):
        return pa.list_(as_meant(kind.value_field))
    if types.is_map(kind):
        return pa.map_(as_meant(kind.key_field), as_meant(kind.item_field))
    told = (field.metadata or {}).get(b"spark.sql.catalyst.type")
    return NTZ if told == b"timestamp_ntz" and types.is_int64(kind) else kind


def of_clock(array: Any, zone: str) -> Any:
    """Single values as the clock in a stripe's zone showed them; a time that pyarrow may not know becomes INFINITE.

    Raises ValueError for a zone that nobody knows.
    """
    kind = array.type
    if not (types.is_timestamp(kind) and kind.tz is None and kind.unit == "ns") or zone in ("", *UTC_NAMES):
        return array
    clock = _clock(zone)
    offset = _seconds(_EPOCH.astimezone(clock).replace(tzinfo=UTC))
    nanos = array.cast(pa.int64())
    seconds = floored(nanos, _SECOND)
    cut = pc.greater(pc.subtract(nanos, pc.multiply(seconds, _SECOND)), pa.scalar(_CUT))
    # seconds whose sign is one for the clock and another for the instant
    first, last, change = (0, offset - 1, -_SECOND) if offset > 0 else (offset - 1, -2, _SECOND)
    between = pc.and_(pc.greater_equal(seconds, pa.scalar(first)), pc.less_equal(seconds, pa.scalar(last)))
    right = pc.add(nanos, pc.if_else(pc.and_(cut, between), change, 0))
    known = pc.greater_equal(nanos, pa.scalar(_known_from(clock) * _SECOND))
    return pc.if_else(known, right, INFINITE).cast(kind)


def _clock(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (KeyError, OSError, ValueError):
        raise ValueError(f"a zone that nobody knows: {zone!r}") from None


def _known_from(clock: ZoneInfo) -> int:
    """Seconds since 1970, as the clock shows them, from which its offsets are known to all."""
    year = next((year for year in _YEARS if clock.tzname(datetime(year, 1, 1)) != "LMT"), _YEARS[-1])  # noqa: DTZ001
    return _seconds(datetime(year, 1, 1, tzinfo=UTC))


def _seconds(shown: datetime) -> int:
    return (shown - _EPOCH) // timedelta(seconds=1)
