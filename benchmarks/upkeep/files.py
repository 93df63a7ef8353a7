"""Makes the daily files, and the rows that the tables must have in the end, by plain SQL over the generated rows.

A file holds the new rows of its day and, from day DAYS on, newer versions of rows of the UPDATED days before. Knows
nothing of `lakehouse`, so that the expected results are independent of it.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.rows import spread_rows
from benchmarks.upkeep.sizes import ALL_DAYS, STEP, UPDATED, Sizes, date_of
from benchmarks.workload import DAYS, FIRST_DAY, ORDERS

COLUMNS = ", ".join(ORDERS)
LOOKED_UP = ("order_id", "customer_id", "amount", "status", "input_date", "note")


def make_updates(con: duckdb.DuckDBPyConnection, sizes: Sizes) -> None:
    """Make the table `updates`: number `i` of a row, `day` that updates it, and which one of its updates that is."""
    chosen = " union all ".join(
        f"select i, {day} as day from range({sizes.first_row(day - UPDATED)}, {sizes.first_row(day)}) r(i) "
        f"where hash(i * {ALL_DAYS} + {day}) % {STEP} = 0"
        for day in range(DAYS, ALL_DAYS)
    )
    con.execute(
        f"create table updates as select *, row_number() over (partition by i order by day) as nth from ({chosen})"
    )


def landed(sizes: Sizes, day: int) -> str:
    """SQL of the rows of the daily file, from the table `updates`."""
    new = sizes.rows_of(day)
    return f"""select {COLUMNS} from ({_made(sizes, f"range({new.start}, {new.stop}) r(i)")})
        union all {_updated(sizes, f"from updates where day = {day}")}"""


def final(sizes: Sizes, numbers: range) -> str:
    """SQL of rows by their numbers, as all updates leave them, from the table `updates`."""
    newest = f"""from updates where i between {numbers.start} and {numbers.stop - 1}
        qualify row_number() over (partition by i order by day desc) = 1"""
    return f"""select {COLUMNS} from ({_made(sizes, f"range({numbers.start}, {numbers.stop}) r(i)")})
            anti join updates on seq = i
        union all {_updated(sizes, newest)}"""


def write(con: duckdb.DuckDBPyConnection, sql: str, path: Path) -> None:
    """Write the CSV file of one day."""
    con.execute(f"copy (from ({sql}) order by order_id) to '{path}' (format csv, header true)")


def expected_scan(con: duckdb.DuckDBPyConnection, sizes: Sizes) -> list[list[str]]:
    """Status, rows, sum of the amounts and sum of the keys, for each status: what a full scan must find."""
    found = con.execute(
        f"""select status, count(*), sum(amount), sum(order_id) from ({final(sizes, range(sizes.all_rows))})
            group by status order by status"""
    ).fetchall()
    return [[str(value) for value in row] for row in found]


def expected_row(con: duckdb.DuckDBPyConnection, sizes: Sizes) -> list[str]:
    """The row that is looked up, LOOKED_UP of it: of those that were updated most often the first."""
    ((number,),) = con.execute("select i from updates order by nth desc, i limit 1").fetchall()
    (row,) = con.execute(f"select {', '.join(LOOKED_UP)} from ({final(sizes, range(number, number + 1))})").fetchall()
    return [str(value) for value in row]


def updates_of(con: duckdb.DuckDBPyConnection, day: int) -> int:
    """How many rows the file of a day updates."""
    ((count,),) = con.execute(f"select count(*) from updates where day = {day}").fetchall()
    return int(count)


def _made(sizes: Sizes, numbers: str) -> str:
    return spread_rows("orders", numbers, first=0, count=sizes.all_rows, day=FIRST_DAY, days=ALL_DAYS)


def _updated(sizes: Sizes, updates: str) -> str:
    """SQL of versions of rows; `updates` are rows of the table `updates`, `from` included. Each is of its day."""
    return f"""select {COLUMNS} from (
            select made.* replace ((amount + nth)::decimal(12,2) as amount, 'done' as status,
                timestamptz '{date_of(0)} 00:00:00+00' + to_days(day) + to_seconds((hash(seq * 17) % 86400)::bigint)
                    as order_time)
            from ({_made(sizes, f"({updates})")}) made join ({updates}) changed on seq = i)"""
