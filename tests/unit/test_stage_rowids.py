"""Rows of a batch are known by their rowid: it must not change while the batch is merged."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from lakehouse.engines.duckdb import open_session
from lakehouse.read.sink import any_order, transaction
from lakehouse.stage import create_staging
from tests.staging_values import declared


def test_staged_rows_keep_their_rowid_after_deletes_and_a_checkpoint(tmp_path: Path) -> None:
    pieces = [
        "select i, md5(i::varchar), 'f', if(i % 2500 = 7, -i, i), now(), current_date "
        f"from range({first}, {first + 60_000}) r(i)"
        for first in range(0, 360_000, 60_000)
    ]
    with closing(open_session(spill=tmp_path, memory_bytes=1 << 30, threads=2)) as con:
        create_staging(con, declared({"id": "bigint", "v": "string"}))
        with any_order(con), transaction(con):
            con.execute(f"insert into staged {' union all '.join(pieces)}")
        con.execute("delete from staged where _source_line < 0")
        con.execute("create temp table known as select rowid as number, id from staged")
        con.execute("checkpoint")
        moved = "select count(*) from (select rowid, id from staged) s join known using (id) where s.rowid <> number"
        assert con.execute(moved).fetchall() == [(0,)]
