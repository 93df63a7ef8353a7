"""ORC files into a sink, stripe by stripe: pyarrow reads them, DuckDB casts the rows.

pyarrow gives timestamps in nanoseconds and refuses one that nanoseconds cannot hold (before 1678, after 2262).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import orc

from lakehouse.errors import UnreadableObject
from lakehouse.read.sink import Sink, transaction
from lakehouse.read.typed.orc_footer import refuse_wide_decimals
from lakehouse.read.typed.rows import Rows, add_rows, broken, typed_columns

_BROKEN = (ValueError, pa.ArrowException, OSError)


def read_orc(sink: Sink, path: Path) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that it lacks.

    Raises UnreadableObject if it is broken, its columns are not the declared ones, or a type would lose something.
    """
    try:
        refuse_wide_decimals(path)
        file = orc.ORCFile(path)
        schema, names = file.schema, file.schema.names
    except _BROKEN as error:
        raise broken(sink, "ORC", error) from None
    columns = typed_columns(sink, names, lambda at: schema.field(at).type)
    with transaction(sink.con):
        rows = add_rows(sink, columns, _stripes(sink, file, columns.positions))
        if rows != file.nrows:
            raise UnreadableObject(f"rows differ from the footer: uri={sink.uri} read={rows} footer={file.nrows}")
    return columns.missing


def _stripes(sink: Sink, file: orc.ORCFile, positions: Sequence[int]) -> Iterator[Rows]:
    names = [file.schema.names[at] for at in positions]
    # a dot in a name would lead pyarrow into a struct
    columns = names if names and not any("." in name for name in names) else None
    for number in range(file.nstripes):
        try:
            stripe = file.read_stripe(number, columns=columns)
            # DuckDB takes whatever bytes Arrow has for a text
            stripe.validate(full=True)
        except _BROKEN as error:
            raise broken(sink, "ORC", error) from None
        yield Rows(stripe.num_rows, [stripe.column(name) for name in names])
