"""What row number `i` of a shape holds, as SQL for DuckDB. Generator, checker and floors make rows from here alone.

Knows nothing of `lakehouse`, so that the expected results are independent of it. Writes nothing.
"""

from __future__ import annotations

from datetime import date

from benchmarks.workload import DAYS, FIRST_DAY, NEW_DAY, SHAPES, Target

_SPREAD = 6364136223846793005  # odd, so that multiplying modulo a power of two gives every number once
_RARE_STATES = "['new', 'paid', 'shipped', 'done'][1 + (hash(i * 3) % 4)::int]"
_WIDE = {
    "BIGINT": "(hash(i * {n}) % 1000000000)::bigint",
    "VARCHAR": "'v' || (hash(i * {n}) % 1000000)::varchar",
    "DECIMAL(12,2)": "((hash(i * {n}) % 100000) / 100.0)::decimal(12,2)",
    "DATE": "date '2020-01-01' + (hash(i * {n}) % 2000)::int",
}


def old_rows(target: Target, numbers: str) -> str:
    """SQL of the target's own rows; `numbers` is a relation with the column `i`. Also gives `seq`, which is `i`."""
    return spread_rows(target.shape, numbers, first=0, count=target.rows, day=FIRST_DAY, days=DAYS)


def rows_of_day(target: Target, day: date) -> str:
    """SQL of the target's rows of one landing date, as landed, in order, with `_source_line`."""
    numbers = target.rows_of(day)
    sql = old_rows(target, f"range({numbers.start}, {numbers.stop}) r(i)")
    return f"select *, seq - {numbers.start} + 2 as _source_line from ({sql}) order by seq"


def new_rows(target: Target, first: int, count: int) -> str:
    """SQL of `count` rows of the new day, numbered from `first` on."""
    numbers = f"range({first}, {first + count}) r(i)"
    return spread_rows(target.shape, numbers, first=first, count=max(count, 1), day=NEW_DAY, days=1, status="'new'")


def names(target: Target) -> str:
    """The target's columns as a list in SQL."""
    return ", ".join(target.columns)


def spread_rows(
    shape: str, numbers: str, *, first: int, count: int, day: date, days: int, status: str = _RARE_STATES
) -> str:
    """SQL of the rows of a shape by their numbers; the `count` numbers from `first` on lie evenly over the `days` from
    `day` on."""
    key = f"(i::hugeint * {_SPREAD} % {1 << 62})" if shape == "random" else "i"
    return f"""select i::bigint as seq, {key}::bigint as order_id,
            'C' || lpad((hash(i) % 200000)::varchar, 6, '0') as customer_id,
            ((hash(i * 7) % 100000) / 100.0)::decimal(12,2) as amount,
            {status} as status,
            timestamptz '{day:%Y-%m-%d} 00:00:00+00'
                + to_microseconds(((i - {first}) * {days} * 86400000000.0 / {count})::bigint) as order_time,
            date '{day:%Y-%m-%d}' + ((i - {first}) * {days} // {count})::int as input_date,
            md5(i::varchar) as note{_extra(shape)}
        from {numbers}"""


def _extra(shape: str) -> str:
    """SQL of the columns that a shape has beyond those of `orders`."""
    if shape == "keyed":
        return ", 'shop-' || lpad((hash(i * 5) % 200)::varchar, 3, '0') as shop, lpad(i::varchar, 14, '0') as order_no"
    if shape == "wide":
        columns = list(SHAPES["wide"].items())[len(SHAPES["orders"]) :]
        return "".join(f", {_WIDE[text].format(n=n)} as {name}" for n, (name, text) in enumerate(columns, start=11))
    return ""
