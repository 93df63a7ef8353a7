"""Values of single target rows as a table of the session, typed as the target has them now. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from lakehouse.merge.layout import column_expressions, duckdb_type
from lakehouse.merge.positions import positions_by_file
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.naming import quote_name


def fetch_rows(
    con: duckdb.DuckDBPyConnection,
    name: str,
    places: str,
    columns: Sequence[str],
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
) -> None:
    """Make the table `name` (__file, __pos, columns… typed as the table's) for the rows of table `places`."""
    fields = [reader.schema.find_field(column) for column in dict.fromkeys(columns)]
    typed = "".join(f", {quote_name(f.name)} {duckdb_type(f.field_type)}" for f in fields)
    con.execute(f"create or replace table {name} (__file int, __pos bigint{typed})")
    for wanted in positions_by_file(con, f"from {places}", files):
        for rows in reader.rows_at(wanted, [f.name for f in fields]):
            own = pa.schema(list(rows.schema)[2:])
            picked = "".join(f", {value}" for value in column_expressions(fields, own))
            con.register("some_rows", rows)
            con.execute(f"insert into {name} select __file, __pos{picked} from some_rows")
            con.unregister("some_rows")
