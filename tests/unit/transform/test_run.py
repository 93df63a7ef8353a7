"""What the declared SQL makes of staged rows: their layout, their counts, and rows that the table could not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.delete_mark import mark_deletes
from lakehouse.errors import DataError, DeclarationError
from lakehouse.merge import supersede
from lakehouse.model import ACCEPTED_AND_STAGED, Decision, Equation, ObjectOutcome
from lakehouse.transform import Transformed, transform
from tests.staging_values import MTIME, Staging, declared, planned

COLUMNS = {"id": {"type": "bigint", "required": True}, "v": "string", "n": {"type": "int", "computed": True}}
A, B = "s3://landing/in/day=2026-08-30/a.csv", "s3://landing/in/day=2026-08-31/b.csv"
LINEAGE = "_source_line, _source_file, _source_date, _source_mtime"
DAYS = {A: date(2026, 8, 30), B: date(2026, 8, 31)}


@dataclass
class Batch:
    """Staged files of one declaration, and what became of each."""

    staging: Staging
    folder: Path
    outcomes: list[ObjectOutcome] = field(default_factory=list)

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        return self.staging.con

    def put(self, uri: str, *lines: str) -> None:
        item = planned(uri, day=DAYS[uri])
        result = self.staging.stage(("id,v\n" + "".join(f"{line}\n" for line in lines)).encode(), item=item)
        assert result.missing == ()
        outcome = ObjectOutcome(item.object, item.landing_date, Decision.CONSUMED, "new", MTIME, result.counts)
        self.outcomes.append(outcome)

    def run(self, batches: Sequence[Sequence[str]] | None = None) -> Transformed:
        return transform(self.con, self.staging.declaration, self.outcomes, folder=self.folder, batches=batches)

    def rows(self, columns: str = "id, v, n") -> list[tuple[Any, ...]]:
        return self.con.execute(f"select {columns} from staged order by all").fetchall()

    def rejects(self) -> list[tuple[Any, ...]]:
        return self.con.execute(
            "select uri, line_number, column_name, reason, raw from rejects order by 1, 2"
        ).fetchall()


@contextmanager
def batch(folder: Path, text: str, *, columns: Mapping[str, Any] = COLUMNS, **changes: Any) -> Iterator[Batch]:
    declaration = declared(columns=columns, sql={"file": "x.sql", "text": text}, **changes)
    with duckdb.connect() as con:
        yield Batch(Staging(con, folder, declaration), folder)


def counts(made: Transformed) -> list[tuple[int, int, int, int]]:
    return [(o.rows.read, o.rows.rejected, o.rows.accepted, o.rows.staged) for o in made.outcomes]


def both_sides(made: Transformed) -> tuple[int, int]:
    (found,) = (e for e in made.equations if e.name == ACCEPTED_AND_STAGED)
    assert all(e.holds for e in made.equations)
    return found.left, found.right


def test_without_sql_nothing_is_touched(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        made = transform(con, declared(), (), folder=tmp_path)
    assert made == Transformed((), ())


def test_rows_are_filtered_and_derived(tmp_path: Path) -> None:
    text = f"select v, id, length(v)::smallint as n, {LINEAGE} from staged where v <> 'x'"
    with batch(tmp_path, text) as b:
        b.put(A, "1,aa", "2,x", "no,b")
        b.put(B, "3,x")
        layout = b.con.execute("describe staged").fetchall()
        made = b.run()
        assert b.con.execute("describe staged").fetchall() == layout
        assert b.rows("id, v, n, _source_file, _source_line, _source_mtime, _source_date") == [
            (1, "aa", 2, A, 2, MTIME, DAYS[A])
        ]
        assert counts(made) == [(3, 1, 2, 1), (1, 0, 1, 0)]
        assert both_sides(made) == (3, 1)
        assert [reject[:3] for reject in b.rejects()] == [(A, 4, "id")]


def test_the_rows_have_ids_that_later_steps_know_them_by(tmp_path: Path) -> None:
    text = "select * replace (unnest([1, 2])::int as n) from staged"
    with batch(tmp_path, text, delete_when="n = 2") as b:
        b.put(A, "1,a", "2,b")
        made = b.run()
        assert counts(made) == [(2, 0, 2, 4)]
        assert mark_deletes(b.con, b.staging.declaration) == 2
        assert supersede(b.con, b.staging.declaration).rows == 2
        ((ids, rows),) = b.con.execute("select count(distinct __row_id), count(*) from staged").fetchall()
        assert ids == rows == 4


def test_an_aggregate_over_objects_says_where_its_rows_come_from(tmp_path: Path) -> None:
    text = """
        select id, max(v) as v, count(*)::int as n, arg_max(_source_file, _source_date) as _source_file,
            max(_source_line) as _source_line, max(_source_mtime) as _source_mtime, max(_source_date) as _source_date
        from staged group by id"""
    with batch(tmp_path, text) as b:
        b.put(A, "1,a", "2,b")
        b.put(B, "1,c")
        made = b.run()
        assert b.rows("id, v, n, _source_file, _source_date") == [(1, "c", 2, B, DAYS[B]), (2, "b", 1, A, DAYS[A])]
        assert counts(made) == [(2, 0, 2, 1), (1, 0, 1, 1)]


def test_batches_are_given_to_the_sql_one_by_one(tmp_path: Path) -> None:
    with batch(tmp_path, "select * replace ((count(*) over ())::int as n) from staged") as b:
        b.put(A, "1,a", "2,b")
        b.put(B, "3,c")
        made = b.run([[A], [B]])
        assert b.rows("id, n") == [(1, 2), (2, 2), (3, 1)]
        assert counts(made) == [(2, 0, 2, 2), (1, 0, 1, 1)]


def test_rows_without_a_needed_value_are_rejects_of_their_record(tmp_path: Path) -> None:
    computed = {"type": "int", "computed": True}
    columns = {**COLUMNS, "n": {**computed, "required": True}, "place": computed}
    text = "select s.* replace (nullif(id, 2) as id, nullif(length(v), 3)::int as n) from staged s, range(2)"
    with batch(tmp_path, text, columns=columns) as b:
        b.put(A, "1,a", "2,bbb", "no,c")
        b.put(B, "3,ccc")
        made = b.run()
        assert b.rows() == [(1, "a", 1), (1, "a", 1)]
        assert counts(made) == [(3, 2, 1, 2), (1, 1, 0, 0)]
        assert both_sides(made) == (1, 2)
        missing = "no value after the SQL, and the column needs one"
        after = [reject for reject in b.rejects() if missing in reject[3]]
        assert after == [
            (
                A,
                3,
                "id,n",
                f"id: {missing}; n: {missing} (2 rows of this record)",
                '{"id":null,"v":"bbb","n":null,"place":null}',
            ),
            (B, 2, "n", f"n: {missing} (2 rows of this record)", '{"id":"3","v":"ccc","n":null,"place":null}'),
        ]
        assert Equation("sql: rows of its result = staged + rejected", 6, 6) in made.equations


def test_values_that_iceberg_has_not_are_rejects(tmp_path: Path) -> None:
    columns = {
        "id": "bigint",
        "v": "string",
        "d": {"type": "date", "computed": True},
        "f": {"type": "fixed(2)", "computed": True},
    }
    text = "select * replace (try_cast(v as date) as d, v[:2]::blob as f) from staged"
    with batch(tmp_path, text, columns=columns) as b:
        b.put(A, "1,2026-01-01", "2,infinity", "3,x", "4,")
        b.run()
        assert b.rows("id, d::varchar") == [(1, "2026-01-01"), (4, None)]
        assert [(line, reason) for _, line, _, reason, _ in b.rejects()] == [
            (3, "d: after the SQL no date of the years 1 to 9999"),
            (4, "f: not 2 bytes after the SQL"),
        ]


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ("'s3://landing/in/day=2026-08-30/z.csv' as _source_file", "z.csv _source_date=2026-08-30, which is no object"),
        ("null as _source_file", "_source_file=None _source_date=2026-08-30, which is no object of the batch"),
        ("date '2026-08-31' as _source_date", "a.csv _source_date=2026-08-31, which is no object of the batch"),
        ("null as _source_line", "_source_line=NULL in 2 rows"),
        ("timestamptz '9999-01-01' as _source_mtime", "a _source_mtime of no object of the batch in 2 rows"),
        ("null as _source_mtime", "a _source_mtime of no object of the batch in 2 rows"),
        ("null as id, 77 as _source_line", "_source_line=77, which the SQL was not given"),
    ],
)
def test_a_row_that_says_it_comes_from_elsewhere_is_refused(tmp_path: Path, replaced: str, message: str) -> None:
    with batch(tmp_path, f"select * replace ({replaced}) from staged") as b:
        b.put(A, "1,a", "2,b")
        with pytest.raises(DataError, match=r"a row of x\.sql says that it comes from elsewhere") as caught:
            b.run()
    assert message in caught.value.message
    assert "lakehouse load analytics.orders" in caught.value.next


def test_sql_that_fails_on_a_row_is_a_mistake_of_the_declaration(tmp_path: Path) -> None:
    with batch(tmp_path, "select * replace (v::int as n) from staged") as b:
        b.put(A, "1,a")
        with pytest.raises(DeclarationError) as caught:
            b.run()
    assert "sql: x.sql: it fails on the staged rows of analytics.orders: Conversion Error: " in caught.value.message
    assert "\n" not in caught.value.message and "sql_" not in caught.value.message
    assert caught.value.next == "lakehouse load analytics.orders"


def test_hidden_values_are_in_no_message_and_no_reject(tmp_path: Path) -> None:
    columns = {**COLUMNS, "v": {"type": "string", "pii": True}}
    fails = "select * replace (v::int as n) from staged"
    with batch(tmp_path, fails, columns=columns) as made:
        made.put(A, "1,secret")
        with pytest.raises(DeclarationError) as caught:
            made.run()
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"
    empties = "select * replace (null as id, 7 as n) from staged"
    with batch(tmp_path, empties, columns=columns) as made:
        made.put(A, "1,secret")
        made.run()
        ((_, line, column, _, raw),) = made.rejects()
    assert (line, column, raw) == (2, "id", '{"id":null,"v":"***","n":"7"}')


def test_wrong_sql_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    with batch(tmp_path, "select * from rejects") as b:
        b.put(A, "1,a")
        with pytest.raises(DeclarationError, match="no table rejects"):
            b.run()


def test_the_session_reaches_its_own_folder_alone_afterwards(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    with batch(mine, "select * from staged") as b:
        b.put(A, "1,a")
        b.run()
        b.con.execute(f"copy staged to '{mine}/x.parquet' (format parquet)")
        assert b.con.execute(f"select count(*) from read_parquet('{mine}/x.parquet')").fetchall() == [(1,)]
        for statement in (f"copy staged to '{other}/x.parquet'", "select * from read_text('/etc/hostname')"):
            with pytest.raises(duckdb.PermissionException):
                b.con.execute(statement)


def test_a_batch_larger_than_memory_spills(tmp_path: Path) -> None:
    text = "select * replace ((row_number() over (partition by id % 7 order by v))::int as n) from staged"
    with batch(tmp_path, text) as b:
        b.con.execute(f"set temp_directory = '{tmp_path}/spill'")
        b.put(A, "0,a")
        b.con.execute(
            f"insert into staged select i, repeat(md5(i::varchar), 4), null, '{A}', i, $mtime, $day, i "
            "from range(1, 400000) t(i)",
            {"mtime": MTIME, "day": DAYS[A]},
        )
        b.con.execute("set memory_limit = '120MB'")
        b.run()
        assert b.con.execute("select count(*) from staged").fetchall() == [(400_000,)]
