"""Makes the data of one workload, and what every step must make of it, by plain SQL over the generated rows.

    python -m benchmarks.generate FOLDER [--workload daily] [--rows 2000000]

daily    one new day (9 % of the target), updates of 10 % of the rows of the last three days
scatter  updates of 0.1 % of all rows, spread over every day

Both files also hold, in small numbers, what makes a load more than a merge: amounts that are none, rows without a key,
superseded versions of rows of the same file, versions older than the target's, and rows that the target already has.
Knows nothing of `lakehouse`, so that the expected results are independent of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import duckdb

from benchmarks.workload import (
    COLUMNS,
    DAYS,
    DEFAULT_ROWS,
    FIRST_DAY,
    NEW_DAY,
    WORKLOADS,
    Dataset,
    Workload,
    first_days,
)

NAMES = ", ".join(COLUMNS)
BAD_AMOUNTS = ("abc", "12.345", "1,50", "--1", "99999999999.00", "0x1F", "1e400")
_LAST_DAYS = f"input_date >= date '{NEW_DAY:%Y-%m-%d}' - 3"


def generate(folder: Path, workload: Workload) -> Dataset:
    """Write the files of a workload below `folder`; the same workload always gives the same files.

    Raises ValueError if a count by construction differs from the one that the expected results say.
    """
    dataset = Dataset(folder)
    folder.mkdir(parents=True, exist_ok=True)
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    _make_target(con, workload.rows)
    _make_increment(con, workload)
    _make_expected(con)
    counts = _count(con)
    _check(con, counts)
    _write(con, dataset)
    dataset.counts.write_text(json.dumps(counts, indent=1))
    return dataset


def _rows(first: int, count: int, *, day: str, days: int, status: str) -> str:
    """SQL of `count` orders from key `first` on, spread evenly over `days` days from `day` on."""
    return f"""select i::bigint as order_id,
            'C' || lpad((hash(i) % 200000)::varchar, 6, '0') as customer_id,
            ((hash(i * 7) % 100000) / 100.0)::decimal(12,2) as amount,
            {status} as status,
            timestamptz '{day} 00:00:00+00'
                + to_microseconds(((i - {first}) * {days} * 86400000000.0 / {count})::bigint) as order_time,
            date '{day}' + ((i - {first}) * {days} // {count})::int as input_date,
            md5(i::varchar) as note
        from range({first}, {first + count}) r(i)"""


def _make_target(con: duckdb.DuckDBPyConnection, rows: int) -> None:
    status = "['new', 'paid', 'shipped', 'done'][1 + (hash(i * 3) % 4)::int]"
    con.execute(
        f"""create table target as select *, input_date as _source_date,
            1 + row_number() over (partition by input_date order by order_id) as _source_line
        from ({_rows(0, rows, day=FIRST_DAY.isoformat(), days=DAYS, status=status)})"""
    )


def _make_increment(con: duckdb.DuckDBPyConnection, workload: Workload) -> None:
    """Make `increment`: the rows of the file with their line, how they were made (`kind`) and their raw amount."""
    rows = workload.rows
    where, step, fresh = {
        "daily": (_LAST_DAYS, 10, rows * 9 // 100),
        "scatter": ("true", 1000, 0),
    }[workload.name]
    rare = max(step * 10, 1000)  # a kind other than an update is at least ten times as rare as one
    bad = max(len(BAD_AMOUNTS), (rows // 10 if workload.name == "daily" else rows // 1000) // 5000)
    newer = "order_time + interval 1 hour"
    con.execute(
        f"""create temp table main as
        select 'update' as kind, order_id, customer_id, (amount + 1)::decimal(12,2) as amount, 'done' as status,
            {newer} as order_time, input_date, note, order_id::double as place
        from target where {where} and hash(order_id) % {step} = 0
        union all
        select 'new', *, order_id::double
        from ({_rows(rows, fresh, day=NEW_DAY.isoformat(), days=1, status="'new'")})"""
    )
    old = f"from target where {where} and hash(order_id) % {rare}"
    first = rows * (DAYS - 3) // DAYS if workload.name == "daily" else 0
    anywhere = f"({first} + hash(order_id * 13) % {rows + fresh - first})::double"
    con.execute(
        f"""create table increment as
        with kinds as (
            select *, amount::varchar as raw_amount, order_id::varchar as raw_key from (
                from main
                union all
                select 'superseded', order_id, customer_id, (amount - 0.5)::decimal(12,2), 'new',
                    order_time - interval 1 minute, input_date, note, {anywhere}
                from main where hash(order_id * 11) % 1000 = 0
                union all
                select 'stale', order_id, customer_id, (amount + 2)::decimal(12,2), 'new',
                    order_time - interval 1 day, input_date, note, {anywhere} {old} = 1
                union all
                select 'unchanged', {NAMES}, {anywhere} {old} = 2)
            union all
            select 'bad_amount', {NAMES}, {anywhere},
                {list(BAD_AMOUNTS)}[1 + order_id % {len(BAD_AMOUNTS)}], order_id::varchar
            from ({_rows(rows * 2, bad, day=NEW_DAY.isoformat(), days=1, status="'new'")})
            union all
            select 'null_key', {NAMES}, {anywhere}, amount::varchar, null
            from ({_rows(rows * 3, bad, day=NEW_DAY.isoformat(), days=1, status="'new'")}))
        select *, 1 + row_number() over (order by place, order_id, order_time) as line from kinds"""
    )


def _make_expected(con: duckdb.DuckDBPyConnection) -> None:
    """Make `merged` (winners of the file with their fate), `expected` and `expected_upsert`."""
    columns = [c for c in COLUMNS if c != "order_id"]
    same = " and ".join(f"w.{c} is not distinct from t.{c}" for c in columns)
    con.execute(
        f"""create table merged as
        with winners as (
            from increment where kind not in ('bad_amount', 'null_key')
            qualify row_number() over (partition by order_id order by order_time desc, line desc) = 1)
        select w.*, case when t.order_id is null then 'inserted' when {same} then 'unchanged'
            when w.order_time < t.order_time then 'stale' else 'updated' end as fate
        from winners w left join target t using (order_id)"""
    )
    con.execute(
        f"""create table expected as
        select {NAMES}, date '{NEW_DAY:%Y-%m-%d}' as _source_date, line as _source_line, true as written
        from merged where fate in ('inserted', 'updated')
        union all
        select {NAMES}, _source_date, _source_line, false
        from target anti join (from merged where fate in ('inserted', 'updated')) using (order_id)"""
    )
    con.execute(
        f"""create table expected_upsert as
        select {NAMES} from merged
        union all select {NAMES} from target anti join merged using (order_id)"""
    )


def _count(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int | str]]:
    kinds = dict(con.execute("select kind, count(*) from increment group by 1").fetchall())
    fates = dict(con.execute("select fate, count(*) from merged group by 1").fetchall())
    read, rejected = sum(kinds.values()), kinds["bad_amount"] + kinds["null_key"]
    batch: dict[str, int | str] = {
        "read": read,
        "rejected": rejected,
        "staged": read - rejected,
        "superseded": read - rejected - sum(fates.values()),
        **{fate: fates.get(fate, 0) for fate in ("stale", "inserted", "updated", "unchanged")},
        **dict.fromkeys(("deleted", "removed", "vanished", "replaced", "absent"), 0),
    }
    totals = {}
    for table in ("target", "expected", "expected_upsert"):
        rows, amount = con.execute(f"select count(*), sum(amount)::varchar from {table}").fetchall()[0]
        totals[table] = {"rows": rows, "sum": amount}
    return {"batch": batch, **totals}


def _check(con: duckdb.DuckDBPyConnection, counts: dict[str, dict[str, int | str]]) -> None:
    """What was meant while making the rows must be what the SQL over them finds."""
    kinds = dict(con.execute("select kind, count(*) from increment group by 1").fetchall())
    meant = {"inserted": "new", "updated": "update"} | {k: k for k in ("superseded", "stale", "unchanged")}
    for name, kind in meant.items():
        if counts["batch"][name] != kinds.get(kind, 0):
            raise ValueError(f"{name}={counts['batch'][name]} but {kind}={kinds.get(kind, 0)} were made")


def _write(con: duckdb.DuckDBPyConnection, dataset: Dataset) -> None:
    for day in first_days():
        _write_csv(con, dataset.landed(day), f"select {NAMES} from target where input_date = '{day}' order by order_id")
    text = "raw_key as order_id, customer_id, raw_amount as amount, status, order_time, input_date, note"
    _write_csv(con, dataset.landed(NEW_DAY), f"select {text} from increment order by line")
    for table, path, order in (
        ("(select * from target)", dataset.target, "order_id"),
        ("(select * from expected)", dataset.expected, "order_id"),
        ("(select * from expected_upsert)", dataset.expected_upsert, "order_id"),
        (f"({_rejects()})", dataset.rejects, "line_number"),
    ):
        con.execute(f"copy (from {table} order by {order}) to '{path}' (format parquet, compression zstd)")


def _rejects() -> str:
    """The lines that must be refused, with their text as the file has it: only an amount with a comma is quoted."""
    quoted = "case when contains(raw_amount, ',') then '\"' || raw_amount || '\"' else raw_amount end"
    return f"""select line as line_number,
            case kind when 'null_key' then 'order_id' else 'amount' end as column_name,
            coalesce(raw_key, '') || ','
                || concat_ws(',', customer_id, {quoted}, status, order_time, input_date, note) as raw
        from increment where kind in ('bad_amount', 'null_key')"""


def _write_csv(con: duckdb.DuckDBPyConnection, path: Path, sql: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    con.execute(f"copy ({sql}) to '{path}' (format csv, header true)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workload", choices=WORKLOADS, default="daily")
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help="rows of the target")
    arguments = parser.parse_args()
    dataset = generate(arguments.folder, Workload(arguments.workload, arguments.rows))
    print(json.dumps(json.loads(dataset.counts.read_text())))


if __name__ == "__main__":
    main()
