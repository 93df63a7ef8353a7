"""Rows of a batch are known by `__row_id`: the engine gives them other rowids when it compacts a table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.merge import match as matching
from tests.merge_bench import Bench, Row, declare
from tests.staging_values import declared, planned, staging


def test_every_staged_row_has_an_id_of_its_own(tmp_path: Path) -> None:
    with staging(tmp_path, declared({"id": "bigint", "v": "string"})) as stage:
        for number in range(3):
            lines = "".join(f"{'x' if i % 7 == 0 else i},v\n" for i in range(500))
            stage.stage(f"id,v\n{lines}".encode(), item=planned(f"s3://landing/{number}.csv"))
        counts = stage.con.execute("select count(*), count(distinct __row_id), count(__row_id) from staged").fetchall()
    assert counts == [(1284, 1284, 1284)]


def test_a_table_that_is_compacted_while_it_is_merged_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(declare(), tmp_path)
    bench.merge([_row(key, 1.0, 1) for key in range(20)])
    judge = matching.judge

    def compacted_first(con: duckdb.DuckDBPyConnection, *arguments: Any, **named: Any) -> None:
        con.execute("create temp table compacted as from staged order by id desc")
        con.execute("delete from staged")
        con.execute("insert into staged from compacted")
        judge(con, *arguments, **named)

    monkeypatch.setattr(matching, "judge", compacted_first)
    counts = bench.merge([_row(key, 1.0 if key < 5 else 2.0, 1 if key < 10 else 0) for key in range(15)]).match.counts
    assert (counts.unchanged, counts.updated, counts.stale, counts.inserted) == (5, 5, 5, 0)
    assert {r["id"]: r["n"] for r in bench.rows()} == {key: 2.0 if 5 <= key < 10 else 1.0 for key in range(20)}
    assert len(bench.rows()) == 20


def _row(key: int, value: float, minute: int) -> Row:
    at = datetime(2026, 8, 30, 10, minute, tzinfo=UTC)
    return Row({"id": key, "n": value, "t": at, "day": date(2026, 8, 30)}, key)
