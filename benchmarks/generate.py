"""Makes the files of the benchmark, and what every load must make of them, by plain SQL over the generated rows.

    python -m benchmarks.generate FOLDER SHAPE ROWS NEW STEP [--all-days] [--late]

A batch also holds, in small numbers, what makes a load more than a merge: amounts that are none, rows without a key,
superseded versions of rows of the same file, versions older than the target's, and the last rows of the day before,
which the target already has: the file overlaps it. An update is of the new day, a late one an hour newer than the row
that it replaces.
Knows nothing of `lakehouse`, so that the expected results are independent of it.
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.rows import names, new_rows, old_rows, rows_of_day
from benchmarks.workload import NEW_DAY, SHAPES, Batch, Dataset, Target, updated_days

BAD_AMOUNTS = ("abc", "12.345", "1,50", "--1", "99999999999.00", "0x1F", "1e400")


def write_day(target: Target, day: date, path: Path) -> None:
    """Write the CSV file of one landing date of the target."""
    with closing(session()) as con:
        _write_csv(con, path, f"select {names(target)} from ({rows_of_day(target, day)})")


def generate(folder: Path, target: Target, batch: Batch) -> Dataset:
    """Write what belongs to a batch below `folder`; the same batch always gives the same files.

    Raises ValueError if a count by construction differs from the one that the expected results say.
    """
    dataset = Dataset(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(session()) as con:
        _make_increment(con, target, batch)
        _make_merged(con, target)
        counts = _count(con, target)
        _check(con, counts)
        _write(con, target, dataset)
    about = {"target": asdict(target), "batch": asdict(batch)}
    dataset.counts.write_text(json.dumps({"made": about, **counts}, indent=1))
    return dataset


def session() -> duckdb.DuckDBPyConnection:
    """An own DuckDB in UTC."""
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    return con


def _make_increment(con: duckdb.DuckDBPyConnection, target: Target, batch: Batch) -> None:
    """Make `increment`: the rows of the file with their line, how they were made (`kind`), raw amount and key."""
    columns, rows = names(target), target.rows
    first = target.first_row(updated_days(batch)[0])
    rare = max(batch.step * (10 if batch.all_days else 100), 1000)  # of so many rows one comes in a version too old
    overlap = rows - max(1, (rows - first) // batch.step // 100)  # from here on the file has the target's rows
    bad = max(len(BAD_AMOUNTS), (batch.new + (rows - first) // batch.step) // 5000)
    beyond = rows + batch.new

    day_seconds = "(hash(seq * 17) % 86400)::bigint"
    updated = (
        "order_time + interval 1 hour"
        if batch.late
        else f"timestamptz '{NEW_DAY} 00:00:00+00' + to_seconds({day_seconds})"
    )

    def old(condition: str) -> str:
        return old_rows(target, f"range({first}, {rows}) r(i) where {condition}")

    con.execute(
        f"""create temp table main as
        select 'update' as kind, * replace ((amount + 1)::decimal(12,2) as amount, 'done' as status,
            {updated} as order_time), seq::double as place
        from ({old(f"hash(i) % {batch.step} = 0 and hash(i) % {rare} <> 1 and i < {overlap}")})
        union all
        select 'new', *, seq::double from ({new_rows(target, rows, batch.new)})"""
    )
    anywhere = f"({first} + hash(seq * 13) % {beyond - first})::double"
    con.execute(
        f"""create table increment as
        with kinds as (
            select *, amount::varchar as raw_amount, order_id::varchar as raw_key from (
                from main
                union all
                select 'superseded', * exclude (kind, place) replace ((amount - 0.5)::decimal(12,2) as amount,
                    'new' as status, order_time - interval 1 minute as order_time), {anywhere}
                from main where hash(seq * 11) % 1000 = 0
                union all
                select 'stale', * replace ((amount + 2)::decimal(12,2) as amount, 'new' as status,
                    order_time - interval 1 day as order_time), {anywhere}
                from ({old(f"hash(i) % {rare} = 1 and i < {overlap}")})
                union all
                select 'unchanged', *, {anywhere} from ({old(f"i >= {overlap}")}))
            union all
            select 'bad_amount', *, {anywhere}, {list(BAD_AMOUNTS)}[1 + seq % {len(BAD_AMOUNTS)}], order_id::varchar
            from ({new_rows(target, beyond * 2, bad)})
            union all
            select 'null_key', *, {anywhere}, amount::varchar, null from ({new_rows(target, beyond * 3, bad)}))
        select kind, seq, {columns}, raw_amount, raw_key,
            1 + row_number() over (order by place, seq, order_time) as line from kinds"""
    )


def _make_merged(con: duckdb.DuckDBPyConnection, target: Target) -> None:
    """Make `merged`: the newest good row of each key with its fate and with the amount that it would replace."""
    compared = [c for c in target.columns if c != "order_id"]
    same = " and ".join(f"w.{c} is not distinct from t.{c}" for c in compared)
    con.execute(
        """create temp table winners as
        from increment where kind not in ('bad_amount', 'null_key')
        qualify row_number() over (partition by order_id order by order_time desc, line desc) = 1"""
    )
    numbers = f"(select seq as i from winners where seq < {target.rows})"
    con.execute(
        f"""create table merged as
        select w.*, t.amount as old_amount, case when t.order_id is null then 'inserted' when {same} then 'unchanged'
            when w.order_time < t.order_time then 'stale' else 'updated' end as fate
        from winners w left join ({old_rows(target, numbers)}) t using (order_id)"""
    )


def _count(con: duckdb.DuckDBPyConnection, target: Target) -> dict[str, dict[str, Any]]:
    """Counts of the batch by the receipt's names; rows and sum of the target, after our load and after a bare merge."""
    kinds = dict(con.execute("select kind, count(*) from increment group by 1").fetchall())
    fates = dict(con.execute("select fate, count(*) from merged group by 1").fetchall())
    read, rejected = sum(kinds.values()), kinds["bad_amount"] + kinds["null_key"]
    batch: dict[str, int] = {
        "read": read,
        "rejected": rejected,
        "staged": read - rejected,
        "superseded": read - rejected - sum(fates.values()),
        **{fate: fates.get(fate, 0) for fate in ("stale", "inserted", "updated", "unchanged")},
        **dict.fromkeys(("deleted", "removed", "vanished", "replaced", "absent"), 0),
    }
    amounts = f"select amount from ({old_rows(target, f'range(0, {target.rows}) r(i)')})"
    ((before,),) = con.execute(f"select sum(amount) from ({amounts})").fetchall()
    totals = {"target": {"rows": target.rows, "sum": str(before)}}
    gained = "coalesce(sum(amount - coalesce(old_amount, 0)), 0), count(*) filter (fate = 'inserted')"
    for result, condition in (("expected", "fate in ('inserted', 'updated')"), ("expected_upsert", "true")):
        ((more, new),) = con.execute(f"select {gained} from merged where {condition}").fetchall()
        totals[result] = {"rows": target.rows + new, "sum": str(before + more)}
    return {"batch": batch, **totals}


def _check(con: duckdb.DuckDBPyConnection, counts: dict[str, dict[str, Any]]) -> None:
    """What was meant while making the rows must be what the SQL over them finds."""
    kinds = dict(con.execute("select kind, count(*) from increment group by 1").fetchall())
    meant = {"inserted": "new", "updated": "update"} | {k: k for k in ("superseded", "stale", "unchanged")}
    for name, kind in meant.items():
        if counts["batch"][name] != kinds.get(kind, 0):
            raise ValueError(f"{name}={counts['batch'][name]} but {kind}={kinds.get(kind, 0)} were made")


def _write(con: duckdb.DuckDBPyConnection, target: Target, dataset: Dataset) -> None:
    columns = names(target)
    as_read = {"order_id": "raw_key as order_id", "amount": "raw_amount as amount"}
    raw = ", ".join(as_read.get(c, c) for c in target.columns)
    _write_csv(con, dataset.batch, f"select {raw} from increment order by line")
    _write_csv(con, dataset.clean, f"select {columns} from merged order by line")
    changes = f"select {columns}, line as _source_line from merged where fate in ('inserted', 'updated')"
    for sql, path in (
        (f"{changes} order by input_date, line", dataset.changes),
        (f"{_rejects(target)} order by line_number", dataset.rejects),
    ):
        con.execute(f"copy ({sql}) to '{path}' (format parquet, compression zstd)")


def _rejects(target: Target) -> str:
    """The lines that must be refused, with their text as the file has it: only an amount with a comma is quoted."""
    quoted = "case when contains(raw_amount, ',') then '\"' || raw_amount || '\"' else raw_amount end"
    raw = {"order_id": "coalesce(raw_key, '')", "amount": quoted}
    return f"""select line as line_number,
            case kind when 'null_key' then 'order_id' else 'amount' end as column_name,
            concat_ws(',', {", ".join(raw.get(c, c) for c in target.columns)}) as raw
        from increment where kind in ('bad_amount', 'null_key')"""


def _write_csv(con: duckdb.DuckDBPyConnection, path: Path, sql: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    con.execute(f"copy ({sql}) to '{path}' (format csv, header true)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shape", choices=tuple(SHAPES))
    parser.add_argument("rows", type=int, help="rows of the target")
    parser.add_argument("new", type=int, help="rows of the new day")
    parser.add_argument("step", type=int, help="one of so many rows of the updated days is updated")
    parser.add_argument("--all-days", action="store_true", help="update rows of all days, not of the last three")
    parser.add_argument("--late", action="store_true", help="updates are older than most rows of their day")
    options = parser.parse_args()
    batch = Batch(options.new, options.step, options.all_days, options.late)
    dataset = generate(options.folder, Target(options.shape, options.rows), batch)
    print(json.dumps(json.loads(dataset.counts.read_text())))


if __name__ == "__main__":
    main()
