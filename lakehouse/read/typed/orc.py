"""ORC files into a sink, stripe by stripe: pyarrow reads them, DuckDB casts the rows.

pyarrow gives timestamps in nanoseconds and refuses one that nanoseconds cannot hold (before 1678, after 2262).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from lakehouse.read.sink import Sink, transaction
from lakehouse.read.typed.far_times import has_infinite
from lakehouse.read.typed.old_calendar import Calendar, has_times, modern, with_leaves
from lakehouse.read.typed.orc_footer import Footers, read_footers
from lakehouse.read.typed.orc_times import as_meant, of_clock
from lakehouse.read.typed.rows import Rows, TypedColumns, add_rows, broken, typed_columns

_BROKEN = (ValueError, pa.ArrowException, OSError)


def read_orc(sink: Sink, path: Path) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that it lacks.

    Raises UnreadableObject if it is broken, its columns are not the declared ones, or a type would lose something.
    """
    try:
        footers = read_footers(path)
        file = orc.ORCFile(path)
        schema, names = file.schema, file.schema.names
        if len(footers.zones) != file.nstripes:
            raise ValueError("the stripes are not those of the footer")
    except _BROKEN as error:
        raise broken(sink, "ORC", error) from None
    columns = typed_columns(sink, names, lambda at: as_meant(schema.field(at)))
    with transaction(sink.con):
        rows = add_rows(sink, columns, _stripes(sink, file, columns, footers))
        if rows != file.nrows:
            raise UnreadableObject(f"rows differ from the footer: uri={sink.uri} read={rows} footer={file.nrows}")
    return columns.missing


def _stripes(sink: Sink, file: orc.ORCFile, columns: TypedColumns, footers: Footers) -> Iterator[Rows]:
    fields = [file.schema.field(at) for at in columns.positions]
    names = [field.name for field in fields]
    # a dot in a name would lead pyarrow into a struct
    chosen = names if names and not any("." in name for name in names) else None
    for number in range(file.nstripes):
        try:
            stripe = file.read_stripe(number, columns=chosen)
            # DuckDB takes whatever bytes Arrow has for a text
            stripe.validate(full=True)
            arrays = [_array(stripe.column(field.name), field, footers, number) for field in fields]
        except _BROKEN as error:
            raise broken(sink, "ORC", error) from None
        for at, array, field in zip(columns.positions, arrays, fields, strict=True):
            if at in columns.rescued and has_infinite(array):
                raise UnreadableObject(f"a timestamp that no column holds: uri={sink.uri} column={field.name!r}")
        yield Rows(stripe.num_rows, arrays)


def _array(array: Any, field: pa.Field[Any], footers: Footers, stripe: int) -> Any:
    """The values of a column in a stripe as they were meant."""
    meant = as_meant(field)
    calendar, zone = Calendar(dates=footers.julian), footers.zones[stripe]
    if has_times(field.type):
        array = with_leaves(array, lambda leaf: modern(of_clock(leaf, zone), calendar))
    return array if meant == field.type else array.cast(meant)
