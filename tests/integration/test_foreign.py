"""`lakehouse reconcile --accept-foreign`: what other writers did is accepted, and the counts hold again."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakehouse.audit.recount import recount
from lakehouse.errors import UsageError
from lakehouse.ledger import BATCHES
from lakehouse.model import State
from lakehouse.operate.dedupe import dedupe
from lakehouse.operate.foreign import ForeignAcceptance, accept_foreign
from lakehouse.orchestration.verdicts import counts_verdict, keys_verdict
from tests.evolving_lake import OPERATOR, failure
from tests.integration.test_concurrency_foreign import append, compact, delete, rows_with_key
from tests.lake import DAY_1, DAY_2, Lake, SaidBy, csv, order


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    lake = Lake(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_2, "b.csv", csv(order(3, day=str(DAY_2))))
    lake.load()
    return lake


def table_of(lake: Lake) -> Table:
    found: Table = lake.stack.catalog().load_table(lake.table)
    return found


def by_another_writer(lake: Lake, act: Callable[[Table], None]) -> int:
    """The last snapshot that the act makes."""
    act(table_of(lake))
    snapshot = table_of(lake).current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def accept(lake: Lake, snapshot_id: int, **how: Any) -> ForeignAcceptance:
    return accept_foreign(lake.declaration, snapshot_id, OPERATOR, lake.services(), **how)


def accept_all(lake: Lake) -> list[int]:
    """Accept what reconcile names until it names nothing; the net rows."""
    rows = []
    while command := recount(lake.declaration, lake.services()).next:
        rows.append(accept(lake, int(shlex.split(command)[4])).rows)
    return rows


def update(table: Table) -> None:
    rows = table.scan(row_filter="order_id = 1").to_arrow()
    table.overwrite(rows.set_column(1, "customer_id", pa.array(["other"])), overwrite_filter="order_id = 1")


def undated(table: Table) -> None:
    rows = rows_with_key(table, 8, like=3)
    at = rows.schema.get_field_index("_source_date")
    table.append(rows.set_column(at, rows.schema.field(at), pa.nulls(1, pa.date32())))


def test_the_named_command_accepts_and_a_later_snapshot_fails_again(lake: Lake, said_by: SaidBy) -> None:
    foreign = by_another_writer(lake, append)
    command = f"lakehouse reconcile {lake.table} --accept-foreign {foreign} --reason TEXT"
    code, found = said_by(lake, "reconcile", lake.table, "--json")
    assert (code, found["next"], found["foreign"]) == (1, command, [f"snapshot {foreign}: net rows +1"])
    failed = counts_verdict(recount(lake.declaration, lake.services()))
    assert not failed.passed and failed.metadata["next"].value == command

    words = shlex.split(command)[1:-1]
    code, dry = said_by(lake, *words, "moved by hand", "--dry-run", "--json")
    assert (code, dry["state"], dry["rows"], dry["dates"]) == (0, "nothing_to_do", 1, {str(DAY_1): 1})
    assert lake.version() == 1
    assert said_by(lake, *words, "moved by hand", "--dry-run") == (0, None), "for people"
    code, done = said_by(lake, *words, "moved by hand", "--json")
    assert (code, done["state"], done["bookmark_version"], done["rows"]) == (0, "committed", 2, 1)
    assert said_by(lake, "reconcile", lake.table, "--json")[0] == 0
    result = recount(lake.declaration, lake.services())
    assert counts_verdict(result).passed and keys_verdict(result).passed
    (change,) = [b for b in lake.ledger(BATCHES) if b["kind"] == "accept-foreign"]
    assert change["reason"] == f"snapshot {foreign}, net rows +1: moved by hand"

    later = by_another_writer(lake, delete)
    code, found = said_by(lake, "reconcile", lake.table, "--json")
    assert (code, found["foreign"]) == (1, [f"snapshot {later}: net rows -1"])
    lake.put(DAY_2, "c.csv", csv(order(7, "9.00", 9, day=str(DAY_2))))
    assert lake.load().rows.updated == 1, "the foreign row is a row like any other"
    accept(lake, later)
    assert lake.differences() == []
    assert lake.amounts() == {2: "1.00", 3: "1.00", 7: "9.00"}


@pytest.mark.parametrize(
    ("act", "net"),
    [(append, 1), (delete, -1), (compact, 0), (update, 0), (undated, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_another_writer_does_is_counted_by_date(lake: Lake, act: Callable[[Table], None], net: int) -> None:
    by_another_writer(lake, act)
    assert lake.differences() != []
    assert sum(accept_all(lake)) == net
    assert lake.differences() == []
    lake.put(DAY_2, "c.csv", csv(*(order(n, "5.00", 30, day=str(DAY_2)) for n in (1, 2, 3))))
    assert lake.load().exit_code == 0
    assert lake.differences() == []


def test_a_doubled_key_stays_one_until_it_is_repaired(lake: Lake) -> None:
    foreign = by_another_writer(lake, lambda table: table.append(rows_with_key(table, 1, like=1)))
    assert accept(lake, foreign).rows == 1
    result = recount(lake.declaration, lake.services())
    assert not keys_verdict(result).passed
    assert [e.name for e in result.equations if not e.holds] == ["table: count(*) = count(distinct key)"]
    assert dedupe(lake.declaration, lake.services(), OPERATOR).removed == 1
    assert lake.differences() == []


def test_a_table_without_lineage_is_counted_as_a_whole(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, more="lineage: false")
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    done = accept(lake, by_another_writer(lake, delete))
    assert (done.rows, done.dates, lake.differences()) == (-1, {}, [])


def test_other_snapshots_are_named_errors(lake: Lake, said_by: SaidBy) -> None:
    ours = table_of(lake).current_snapshot().snapshot_id  # type: ignore[union-attr]
    error = failure(lambda: accept(lake, ours))
    assert isinstance(error, UsageError) and "is no other writer's" in error.message
    assert error.next == f"lakehouse reconcile {lake.table}"
    assert "is not known, or has expired; there is none to accept" in failure(lambda: accept(lake, 1)).message
    foreign = by_another_writer(lake, append)
    error = failure(lambda: accept(lake, ours))
    assert f"those of other writers are {foreign}" in error.message
    assert error.next == f"lakehouse reconcile {lake.table} --accept-foreign {foreign} --reason TEXT"
    assert accept(lake, foreign).state is State.COMMITTED
    assert "is accepted already at bookmark version 2, by ann@host" in failure(lambda: accept(lake, foreign)).message
    last = ["--reason", "x", "--json"]
    for words in (["--accept-foreign", "1"], ["--accept-foreign", "1", "--reread", *last], last):
        assert said_by(lake, "reconcile", lake.table, *words)[0] == 2


@pytest.mark.parametrize("more", ["", "lineage: false"])
def test_where_the_snapshot_before_has_expired_what_was_published_stands_for_it(
    stack: Any, tmp_path: Path, more: str
) -> None:
    lake = Lake(stack, tmp_path, more=more)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    by_another_writer(lake, append)
    foreign = by_another_writer(lake, delete)
    table = table_of(lake)
    gone = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != foreign]
    lake.put(DAY_2, "b.csv", csv(order(3, day=str(DAY_2))))
    lake.load()
    table_of(lake).maintenance.expire_snapshots().by_ids(gone).commit()
    done = accept(lake, foreign)
    assert (done.rows, len(done.warnings)) == (0, 1), "what is not there any more is accepted with what came after"
    assert lake.differences() == []
