"""`lakehouse rejects replay` on the real stack: the declaration is mended, rejects become rows."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.audit.status import rejected_rows
from lakehouse.bookmark import SKIP
from lakehouse.errors import UsageError
from lakehouse.ledger import FILES, REJECTS
from lakehouse.model import State
from lakehouse.operate.object_change import change_object
from lakehouse.operate.replay import Replay, replay_rejects
from tests.evolving_lake import OPERATOR, failure
from tests.lake import DAY_1, DAY_2, Lake, csv, order

COMMA = '"7,50"'
"""An amount that a declaration without `decimal: ","` rejects."""


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def mend(lake: Lake) -> None:
    amount = 'amount: {type: "decimal(12,2)", decimal: ","}'
    lake.write_declaration(lake.declaration_text().replace('amount: "decimal(12,2)"', amount))


def replay(lake: Lake, **how: Any) -> Replay:
    return replay_rejects(lake.declaration, OPERATOR, lake.services(), **how)


def standing(lake: Lake, batch_id: str | None = None) -> list[tuple[str, int, str]]:
    rows = rejected_rows(lake.declaration, lake.services(), batch_id=batch_id)
    return [(row.uri.rpartition("/")[2], row.line_number, row.batch_id) for row in rows]


def two_batches_with_rejects(lake: Lake) -> tuple[str, str]:
    """Two files with a reject each, in two batches, and one without; returns the ids of the batches."""
    lake.put(DAY_1, "a.csv", csv(order(1, "1"), order(2, COMMA)))
    lake.put(DAY_1, "good.csv", csv(order(8, "1")))
    first = lake.load()
    lake.put(DAY_2, "b.csv", csv(order(3, COMMA, day="2026-08-31")))
    return first.batches[0].batch_id, lake.load().batches[0].batch_id


def test_a_mended_declaration_reads_the_rejects_of_one_batch_and_then_of_all(lake: Lake) -> None:
    first, second = two_batches_with_rejects(lake)
    assert standing(lake) == [("b.csv", 2, second), ("a.csv", 3, first)]
    mend(lake)
    dry = replay(lake, dry_run=True)
    assert [o.uri.rpartition("/")[2] for o in dry.change.objects] == ["a.csv", "b.csv"]
    assert (dry.receipt, lake.version()) == (None, 2)

    code, told, errors = lake.cli("rejects", "replay", lake.table, "--batch", first, "--json")
    assert (code, told["state"], told["objects"]["read"], told["rows"]["inserted"]) == (0, "committed", 1, 1), errors
    assert (told["replay"]["state"], told["replay"]["bookmark_version"], lake.version()) == ("committed", 3, 4)
    assert standing(lake) == [("b.csv", 2, second)], "what was read since stands no more"
    assert standing(lake, first) == [("a.csv", 3, first)], "and is kept by batch"
    done = replay(lake)
    assert done.receipt and (done.receipt.rows.inserted, done.receipt.rows.rejected) == (1, 0)
    assert lake.amounts() == {1: "1.00", 2: "7.50", 3: "7.50", 8: "1.00"}
    assert standing(lake) == []
    assert len(lake.ledger(REJECTS)) == 2
    decisions = [f["decision"] for f in lake.ledger(FILES) if f["uri"].endswith("/b.csv")]
    assert sorted(decisions) == ["consumed", "consumed", "planned"]

    again = replay(lake)
    assert (again.change.state, again.receipt) == (State.NOTHING_TO_DO, None)
    assert again.change.warnings == ("no rejects stand",)
    assert lake.differences(reread=True) == []


def test_killed_between_the_change_and_the_load(lake: Lake) -> None:
    """The objects stay planned: whoever loads next reads them, also a second replay."""
    two_batches_with_rejects(lake)
    mend(lake)
    code, _, _ = lake.cli("rejects", "replay", lake.table, "--json", env={"LAKEHOUSE_FAULT": "after_publish"})
    assert code == -signal.SIGKILL
    assert (lake.version(), set(lake.amounts())) == (3, {1, 8})
    done = replay(lake)
    assert (done.change.state, done.change.bookmark_version) == (State.NOTHING_TO_DO, 3)
    assert done.receipt and (done.receipt.bookmark_version, done.receipt.rows.inserted) == (4, 2)
    assert lake.load().state is State.NOTHING_TO_DO
    assert set(lake.amounts()) == {1, 2, 3, 8}
    assert lake.differences(reread=True) == []


def test_what_cannot_be_read_again_is_named(lake: Lake) -> None:
    two_batches_with_rejects(lake)
    mend(lake)
    gone, skipped = (f"s3://landing/{lake.name}/input_date={day}/{n}.csv" for day, n in ((DAY_1, "a"), (DAY_2, "b")))
    lake.stack.s3.delete_object(Bucket="landing", Key=gone.removeprefix("s3://landing/"))
    change_object(lake.declaration, skipped, SKIP, OPERATOR, lake.services())
    done = replay(lake)
    assert (done.change.state, done.receipt) == (State.NOTHING_TO_DO, None)
    assert [text.removeprefix("s3://landing/").partition("/")[2] for text in done.change.warnings] == [
        f"input_date={DAY_1}/a.csv is not listed any more: its rejects cannot be read again",
        f"input_date={DAY_2}/b.csv is not read again, it is skipped: skipped by ann@host: it is ours now",
    ]
    error = failure(lambda: replay(lake, batch_id="nope"))
    assert isinstance(error, UsageError) and error.next == f"lakehouse batches {lake.table}"


def test_a_replay_of_a_blocked_batch_is_the_load(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, gates="max_rejected_ratio: 0.0")
    lake.put(DAY_1, "a.csv", csv(order(1, COMMA)))
    blocked = lake.load()
    assert blocked.state is State.BLOCKED
    mend(lake)
    done = replay(lake, batch_id=blocked.batches[0].batch_id)
    assert done.receipt and done.receipt.rows.inserted == 1
