"""Which SQL is one SELECT over `staged` that gives the same rows every time, and which results fit the columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from lakehouse.declaration import parse_declaration_file
from lakehouse.engines.user_sql import closed_session
from lakehouse.errors import DeclarationError
from lakehouse.transform import check_sql
from lakehouse.transform.vetting import vet
from tests.declaration_text import document
from tests.staging_values import declared

COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "op": "string",
    "n": "int",
    "amount": "decimal(12,2)",
    "at": "timestamptz",
}
LINEAGE = "_source_file, _source_line, _source_mtime, _source_date"
ALL = f'id, op, n, amount, "at", {LINEAGE}'


def check(text: str) -> None:
    check_sql(declared(columns=COLUMNS, sql={"file": "x.sql", "text": text}))


def fault(text: str) -> str:
    with pytest.raises(DeclarationError) as caught:
        check(text)
    return caught.value.message


@pytest.fixture(scope="module")
def session() -> Iterator[duckdb.DuckDBPyConnection]:
    with closed_session() as con:
        yield con


@pytest.mark.parametrize(
    "text",
    [
        "select * from staged",
        "FROM Staged where OP <> 'D' -- a comment",
        ";;select * from staged;;  -- nothing behind it",
        f"select {ALL} from staged where n > (select avg(n) from staged)",
        f'select {LINEAGE}, "at", amount, upper(op) as op, n + 1 as n, id from staged order by id limit 3',
        "with a as (select * from staged), b as materialized (select * from a where n > 1) select * from b",
        "with recursive r as (select 1 as i union all select i + 1 from r where i < 3) "
        "select s.* from staged s join r on s.n = r.i",
        "select s.* from staged s semi join (select id from staged group by id having count(*) = 1) using (id)",
        "select s.* from staged s, lateral (select s.n + 1 as m) where m > 2",
        "select s.* from staged s join (values ('D'), ('I')) v(op) using (op)",
        "select s.* from staged s, range(2), unnest([1, 2]), generate_series(1, 2)",
        "select * replace (case when op = 'D' then 0 else n end as n) from staged",
        "select * exclude (n), unnest([1::int, 2::int]) as n from staged",
        'select * from staged qualify row_number() over (partition by id order by "at" desc, _source_line) = 1',
        "select distinct on (id) * from staged order by id, _source_file, _source_line",
        "select * from staged union all by name select * from staged",
        "select * replace (list_sum(list_transform([n], lambda x: x + 1))::int as n) from staged",
        "select * replace (string_agg(op, ',' order by _source_line) over (partition by id) as op) from staged",
        "select id, first(op order by _source_line) as op, max(n) as n, sum(amount)::decimal(12,2) as amount, "
        'max("at") as "at", arg_max(_source_file, _source_line) as _source_file, max(_source_line) as _source_line, '
        "max(_source_mtime) as _source_mtime, any_value(_source_date order by _source_line) as _source_date "
        "from staged group by all",
        'select * replace (extract(year from "at")::int as n, "at" + interval 1 day as "at") from staged',
        "select * replace (try_cast(op as int) as n, split_part(op, '-', 1) as op) from staged",
        "select * replace (json_extract_string(op, '$.a') as op, null as amount, 1::tinyint as n) from staged",
    ],
)
def test_what_is_allowed(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- nothing", "0 statements; expected one SELECT over staged"),
        ("select 1; select 2", "2 statements; expected one SELECT"),
        ("drop table staged", "it is no SELECT"),
        ("insert into staged select * from staged", "it is no SELECT"),
        ("copy staged to '/tmp/x'", "it is no SELECT"),
        ("attach '/tmp/x.db'", "it is no SELECT"),
        ("install httpfs", "it is no SELECT"),
        ("set threads = 1", "it is no SELECT"),
        ("pragma version", "it is no SELECT"),
        ("select * from staged; attach 'x'", "it is no SELECT"),
        ("describe staged", "show ref is not allowed"),
        ("select * from (show tables)", "show ref is not allowed"),
        ("select * from read_csv('/etc/passwd')", "the table function read_csv is not allowed"),
        ("select * from 'x.parquet'", "no table x.parquet; the SQL reads staged alone"),
        ('select * from "/etc/passwd"', "no table /etc/passwd"),
        ("select * from glob('*')", "the table function glob is not allowed"),
        ("select * from query('select 1')", "the table function query is not allowed"),
        ("select * from query_table('rejects')", "the table function query_table is not allowed"),
        ("select * from duckdb_tables()", "the table function duckdb_tables is not allowed"),
        ("select * from json_execute_serialized_sql('')", "json_execute_serialized_sql is not allowed"),
        ("select * from repeat(1, 2)", "the table function repeat is not allowed; known are generate_series"),
        ("select json_serialize_plan('from ''x.csv''')", "the function json_serialize_plan is not allowed"),
        ("select * from rejects", "no table rejects"),
        ("select * from duckdb_views", "no table duckdb_views"),
        ("select * from information_schema.tables", "no table information_schema.tables"),
        ("select * from main.staged", "no table main.staged"),
        ("select * from staged at (version => 1)", "no table staged; the SQL reads staged alone"),
        ("select * from staged where id in (select id from rejects)", "no table rejects"),
        ("select (select count(*) from late) from (with late as (select 1) select 1)", "no table late"),
        ("with a as (select * from b), b as (select 1) select * from a", "no table b"),
        ("with a as (select * from a) select * from a", "no table a"),
        ("with staged as (select 1) select * from staged", "a WITH query cannot be called staged"),
        ("select getenv('HOME')", "the function getenv is not allowed"),
        ("select current_setting('threads')", "the function current_setting is not allowed"),
        ("select getvariable('x')", "the function getvariable is not allowed"),
        ("select random(), * from staged", "the function random is not allowed"),
        ("select uuid()", "the function uuid is not allowed"),
        ("select now()", "the function now is not allowed"),
        ("select today()", "the function today is not allowed"),
        ("select current_date", "current_date differs from run to run"),
        ("select current_user", "current_user differs from run to run"),
        ("select version()", "the function version is not allowed"),
        (
            "with recursive pg_settings as (select name as i from pg_settings union all "
            "select i from pg_settings where false) select i from pg_settings",
            "no table pg_settings",
        ),
        ("with recursive duckdb_tables as (from duckdb_tables union select 2) from staged", "no table duckdb_tables"),
        ("select localtimestamp from staged", "localtimestamp differs from run to run"),
        ("select * from staged where age(\"at\") > interval 1 day", "the function age is not allowed"),
        ("select nextval('row_ids')", "the function nextval is not allowed"),
        ("select error('x')", "the function error is not allowed"),
        ("select sum(random()) over () from staged", "the function random is not allowed"),
        ("select nope(id) from staged", "the function nope is not allowed"),
        ("select main.lower(op) from staged", "the function main.lower is not allowed"),
        ("select $1", "a parameter is not allowed"),
        ("select * from staged limit 1", "LIMIT takes rows as they come; add ORDER BY"),
        ("select distinct on (id) * from staged", "DISTINCT ON takes rows as they come; add ORDER BY"),
        ("select * from staged using sample 3", "a sample takes other rows each time"),
        ("select * from staged tablesample 10%", "a sample takes other rows each time"),
        ("select * from staged positional join staged t", "a positional join takes rows as they come"),
        ("select any_value(op) from staged", "any_value takes rows as they come; write any_value(x ORDER BY"),
        ("select string_agg(op, ',') from staged", "string_agg takes rows as they come"),
        ("select reservoir_quantile(n, 0.5) from staged", "the function reservoir_quantile is not allowed"),
        ("select row_number() over () from staged", "row_number takes rows as they come; add ORDER BY to its OVER"),
        ("select sum(n) over (rows 1 preceding) from staged", "sum takes rows as they come; add ORDER BY to its OVER"),
    ],
)  # fmt: skip
def test_what_is_refused(session: duckdb.DuckDBPyConnection, text: str, message: str) -> None:
    found = vet(session, text, COLUMNS)
    assert found is not None and message in found.message


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (f"select id, op, amount, {LINEAGE} from staged", ["the result lacks declared columns: n, at; add them"]),
        ('select id, op, n, amount, "at", _source_file from staged', ["the result lacks _source_line, _source_mtime"]),
        ("select *, 1 as x, 2 as y from staged", ["columns that are not declared: x, y; declare them"]),
        ("select *, n from staged", ["the result has two columns n"]),
        ("select *, 1 as N from staged", ["the result has two columns N"]),
        (
            "select * replace (sum(n) over () as n, amount::double as amount) from staged",
            [
                "column n: the result's HUGEINT does not fit the declared int; write CAST(… AS INTEGER) AS n",
                "column amount: the result's DOUBLE does not fit the declared decimal(12,2)",
            ],
        ),
        ("select * replace (_source_line::int as _source_line) from staged", []),
        (
            "select * replace (_source_date::varchar as _source_date) from staged",
            ["_source_date: the result's VARCHAR"],
        ),
        ('select * replace ("at"::timestamp as "at") from staged', ["at: the result's TIMESTAMP does not fit"]),
        ("select nope from staged", ['x.sql:1:8: Binder Error: Referenced column "nope" not found']),
        ("select rowid from staged", ['x.sql:1:8: Binder Error: Referenced column "rowid" not found']),
        ("select sum(op) from staged", ["x.sql:1:8: Binder Error: No function matches"]),
        ("select 'ä',\n  id, ïd from staged", ['x.sql:2:7: Binder Error: Referenced column "ïd" not found']),
        ("select id\nfrom staged\nwhere (n > 1", ["x.sql:3"]),
        ("select *\nfrom staged s,\n  'a.csv'", ["x.sql:3:3: no table a.csv"]),
    ],
)
def test_the_result_must_be_the_declared_columns(text: str, messages: list[str]) -> None:
    if not messages:
        check(text)
        return
    lines = fault(text).splitlines()
    assert len(lines) == len(messages)
    assert all(message in line for message, line in zip(messages, lines, strict=True)), lines


@pytest.mark.parametrize(
    ("declared_type", "given", "fits"),
    [
        ("int", "1::smallint", True),
        ("int", "1::usmallint", True),
        ("int", "1::uinteger", False),
        ("int", "count(*) over ()", False),
        ("bigint", "1::uinteger", True),
        ("bigint", "1::hugeint", False),
        ("double", "1::float", True),
        ("double", "1::int", True),
        ("double", "1::bigint", False),
        ("float", "1.5::double", False),
        ("decimal(12,2)", "1.5::decimal(10,1)", True),
        ("decimal(12,2)", "1.5::decimal(12,3)", False),
        ("decimal(12,2)", "1::int", True),
        ("decimal(9,2)", "1::int", False),
        ("string", "'a'", True),
        ("string", "1", False),
        ("date", "timestamp '2026-01-01'", False),
        ("timestamp", "date '2026-01-01'", False),
        ("timestamp", "timestamp_s '2026-01-01'", True),
        ("timestamp", "timestamp_ns '2026-01-01'", False),
        ("time", "time '10:00'", True),
        ("uuid", "'a'", False),
        ("fixed(2)", "'ab'::blob", True),
        ("boolean", "n = 1", True),
        ("struct<a: int, b: list<string>>", "{'a': 1, 'b': ['x']}", True),
        ("struct<a: bigint, b: list<string>>", "{'a': 1, 'b': []}", True),
        ("struct<a: int, b: list<string>>", "{'b': ['x'], 'a': 1}", False),
        ("struct<a: int, b: int>", "{'a': 1}", False),
        ("list<int>", "[1]", True),
        ("list<int>", "[1.5]", False),
        ("map<string, int>", "map {'a': 1}", True),
        ("map<string, int>", "map {1: 1}", False),
        ("struct<a: int>", "null", True),
    ],
)
def test_types_widen_without_loss(declared_type: str, given: str, fits: bool) -> None:
    columns = {"id": "bigint", "n": "int", "v": {"type": declared_type, "computed": True}}
    text = f"select * replace ({given} as v) from staged"
    declaration = declared(columns=columns, format={"type": "jsonl"}, sql={"file": "x.sql", "text": text})
    if fits:
        check_sql(declaration)
        return
    with pytest.raises(DeclarationError, match=r"column v: the result's .* does not fit"):
        check_sql(declaration)


@pytest.mark.parametrize(("terms", "message"), [(250, ""), (990, "nested too deeply"), (5000, "x.sql")])
def test_deep_expressions_are_told(terms: int, message: str) -> None:
    text = f"select * replace ({' || '.join(['op'] * terms)} as op) from staged"
    if message:
        assert message in fault(text)
    else:
        check(text)


def test_a_column_may_be_called_like_a_clock() -> None:
    columns = {"id": "bigint", "current_date": "string"}
    check_sql(declared(columns=columns, sql={"file": "x.sql", "text": "select * from staged where current_date > ''"}))


def test_a_mistake_is_told_with_both_of_its_places(tmp_path: Path) -> None:
    path = tmp_path / "defs.yaml"
    path.write_text(document(sql="orders.sql"))
    (tmp_path / "orders.sql").write_text("select *\nfrom stage\n")
    (declaration,) = parse_declaration_file(path, env={})
    with pytest.raises(DeclarationError) as caught:
        check_sql(declaration)
    assert caught.value.message == f"{path}:9:8: sql: orders.sql:2:6: no table stage; the SQL reads staged alone"
