"""Hard-deleted keys between batches: what is remembered, for how long, and in how many files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse import graves
from lakehouse.errors import DataError
from lakehouse.graves import load_graves, next_graves
from lakehouse.model import Bookmark, Grave
from tests.landing_values import START, MemoryStore, declared

COLUMNS = {"id": {"type": "bigint", "required": True}, "u": "uuid", "at": "timestamptz", "amount": "decimal(12,2)"}
U = "00000000-0000-4000-8000-000000000001"


def declaration_of(**changes: Any) -> Any:
    return declared(columns=COLUMNS, **{"key": ["id", "u"], "delete_when": "amount = 0", **changes})


class Context:
    """A context whose batches delete keys, one after the other."""

    def __init__(self, folder: Path, declaration: Any = None) -> None:
        self.folder = folder
        self.declaration = declaration or declaration_of()
        self.store = MemoryStore()
        self.bookmark = Bookmark()
        self.batches = 0

    def load(self, now: datetime = START, declaration: Any = None) -> list[tuple[Any, ...]]:
        con = duckdb.connect(":memory:", config={"threads": 1})
        con.execute("set timezone = 'UTC'")
        load_graves(con, declaration or self.declaration, self.bookmark, self.store, now=now, folder=self.folder)
        found = con.execute("select id, _source_file, _source_line, deleted_at from graves order by id").fetchall()
        return [(key, file, line, when.timestamp() - START.timestamp()) for key, file, line, when in found]

    def delete(
        self, *keys: int, line: int = 1, minute: int = 0, now: datetime = START, verdict: str = "removed"
    ) -> None:
        con = duckdb.connect(":memory:", config={"threads": 1})
        con.execute("set timezone = 'UTC'")
        self.batches += 1
        load_graves(con, self.declaration, self.bookmark, self.store, now=now, folder=self.folder)
        con.execute(
            'create table staged (id bigint, u uuid, "at" timestamptz, amount decimal(12,2), '
            "_source_file varchar, _source_line bigint, _source_mtime timestamptz, _source_date date, __row_id bigint)"
        )
        at = START + timedelta(minutes=minute)
        con.executemany(
            "insert into staged values (?, ?, ?, 0, 'f', ?, ?, '2026-08-30', ?)",
            [[key, U, at, line, at, number] for number, key in enumerate(keys)],
        )
        con.execute("create view winners as select * from staged")
        con.execute("create table matched as select __row_id, ? as verdict from winners", [verdict])
        remembered = next_graves(
            con,
            self.declaration,
            self.bookmark,
            self.store,
            now=now,
            place=f"batch{self.batches}/",
            folder=self.folder,
        )
        self.bookmark = replace(self.bookmark, graves=remembered)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path / "local")


def test_deletes_that_hit_and_that_hit_nothing_are_remembered(context: Context) -> None:
    assert context.load() == []
    context.delete(1, 2)
    context.delete(3, verdict="absent")
    assert [(g.rows, g.written_at) for g in context.bookmark.graves] == [(2, START), (1, START)]
    assert context.load() == [(1, "f", 1, 0.0), (2, "f", 1, 0.0), (3, "f", 1, 0.0)]


def test_other_verdicts_write_no_file(context: Context) -> None:
    for verdict in ("stale", "updated", "unchanged"):
        context.delete(1, verdict=verdict)
    assert (context.bookmark.graves, context.store.objects) == ((), {})


def test_the_newest_delete_of_a_key_counts(context: Context) -> None:
    context.delete(1, line=7, minute=5)
    context.delete(1, line=9, minute=3)
    assert context.load() == [(1, "f", 7, 0.0)]


def test_a_delete_that_is_read_again_is_not_written_again(context: Context) -> None:
    context.delete(1)
    before = context.bookmark.graves
    context.delete(1, now=START + timedelta(days=2))
    assert context.bookmark.graves == before


def test_deletes_expire_after_the_lookback_and_a_week(context: Context) -> None:
    context.delete(1)
    last = START + timedelta(days=10)
    assert len(context.load(last)) == 1
    assert context.load(last + timedelta(seconds=1)) == []
    context.delete(2, now=last + timedelta(seconds=1))
    assert [g.rows for g in context.bookmark.graves] == [1]
    assert context.load(last + timedelta(seconds=1)) == [(2, "f", 1, 864_001.0)]


def test_many_files_become_one_that_keeps_the_age_of_each_delete(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graves, "MOST_FILES", 3)
    for number in range(3):
        context.delete(number, now=START + timedelta(days=number))
    assert len(context.bookmark.graves) == 3
    context.delete(3, now=START + timedelta(days=3))
    assert [g.rows for g in context.bookmark.graves] == [4]
    assert [len(context.load(START + timedelta(days=day))) for day in (10, 11, 13, 14)] == [4, 3, 1, 0]


def test_an_altered_file_is_named(context: Context) -> None:
    context.delete(1)
    (key,) = context.store.objects
    context.store.objects[key] += b"x"
    with pytest.raises(DataError, match=f"altered: uri=s3://state/{key}"):
        context.load()


def test_another_order_or_key_reads_what_it_can(context: Context) -> None:
    context.delete(1)
    assert context.load(declaration=declaration_of(order_by=["amount"])) == [(1, "f", 1, 0.0)]
    assert context.load(declaration=declaration_of(key=["id", "amount"])) == []


def test_modes_without_hard_deletes_write_nothing_and_carry_on_what_is_there(tmp_path: Path) -> None:
    for changes in ({"deletes": "soft"}, {"delete_when": None}):
        context = Context(tmp_path, declaration_of(**changes))
        grave = Grave(None, START, 1)  # type: ignore[arg-type]
        context.bookmark = Bookmark(graves=(grave,))
        con = duckdb.connect(":memory:")
        kept = next_graves(
            con, context.declaration, context.bookmark, context.store, now=START, place="b/", folder=tmp_path
        )
        assert kept == (grave,)


def test_a_snapshot_orders_deletes_by_their_date_first(tmp_path: Path) -> None:
    context = Context(tmp_path, declaration_of(write="snapshot", order_by="arrival"))
    context.delete(1)
    assert context.load() == [(1, "f", 1, 0.0)]
