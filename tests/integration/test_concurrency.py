"""Processes race for one table, on every kind of catalog and without the lease: only the commit keeps them apart."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger import BATCHES
from lakehouse.model import State
from tests.catalogs import CatalogLake, CatalogStack
from tests.lake import DAY_1, Lake, csv, order
from tests.racer import Racer, Task, race

SAME_OLD_KEY, SAME_NEW_KEY, UNTOUCHED, OWN_KEYS = 1, 100, 2, 200


@pytest.fixture
def lake(catalog_stack: CatalogStack, tmp_path: Path) -> Lake:
    return CatalogLake(catalog_stack, tmp_path)


def day_of(number: int) -> date:
    return DAY_1 + timedelta(days=number + 1)


def land_base(lake: Lake) -> None:
    lake.put(DAY_1, "base.csv", csv(order(SAME_OLD_KEY), order(UNTOUCHED)))
    assert lake.load().state is State.COMMITTED


def land_rivals(lake: Lake, count: int) -> dict[int, str]:
    """One file for each racer, all with the same existing and the same new key; returns the amounts that must stand."""
    for number in range(count):
        amount, minute = f"{number + 10}.00", number + 10
        keys = (SAME_OLD_KEY, SAME_NEW_KEY, OWN_KEYS + number)
        lake.put(day_of(number), f"{number}.csv", csv(*(order(key, amount, minute) for key in keys)))
    newest = f"{count + 9}.00"
    own = {OWN_KEYS + number: f"{number + 10}.00" for number in range(count)}
    return {SAME_OLD_KEY: newest, SAME_NEW_KEY: newest, UNTOUCHED: "1.00", **own}


def task(lake: Lake, number: int, **more: Any) -> Task:
    return Task(env=lake.env, table=lake.table, run_id=f"{lake.name}-{number}", **more)


def written_attempts(lake: Lake) -> int:
    """Batch manifests in the state, those of attempts that lost included."""
    return sum(item.uri.endswith("/manifest.parquet") for item in lake.services().state.list(""))


def check_settled(lake: Lake, receipts: Sequence[dict[str, Any]], expected: dict[int, str]) -> None:
    """Losers run again; then every key is there once and newest, and every batch was published exactly once."""
    assert {r["exit_code"] for r in receipts} <= {0, 3}, receipts
    rerun = lake.load()
    assert rerun.exit_code == 0
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.amounts() == expected
    told = [b["batch_id"] for r in receipts for b in r["batches"] if b["state"] == "committed"]
    told += [b.batch_id for b in rerun.batches]
    stored = [row["batch_id"] for row in lake.ledger(BATCHES)]
    assert len(set(stored)) == len(stored) == lake.version() == lake.snapshots()
    assert len(set(told)) == len(told)
    assert set(told) <= set(stored)
    assert lake.differences() == []


@pytest.mark.parametrize(
    ("catalog_stack", "count"),
    [
        ("rest", 4),
        pytest.param("postgres", 4, marks=pytest.mark.chaos),
        pytest.param("glue", 2, marks=pytest.mark.chaos),
        pytest.param("rest", 2, marks=pytest.mark.chaos),
        pytest.param("postgres", 2, marks=pytest.mark.chaos),
        pytest.param("glue", 4, marks=pytest.mark.chaos),
    ],
    indirect=["catalog_stack"],
)
def test_m01_racers_with_the_same_keys(lake: Lake, crew: Sequence[Racer], tmp_path: Path, count: int) -> None:
    """Same existing key, same new key and disjoint keys at once; the first commits are sent at the same moment."""
    land_base(lake)
    expected = land_rivals(lake, count)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    tasks = [task(lake, n, day=day_of(n).isoformat(), meet=(str(meeting), count)) for n in range(count)]
    receipts = race(crew, tasks)
    assert len(list(meeting.iterdir())) == count
    assert written_attempts(lake) > lake.version(), "nobody lost: the racers did not meet"
    check_settled(lake, receipts, expected)


def test_the_very_same_batch_by_two_processes(lake: Lake, crew: Sequence[Racer], tmp_path: Path) -> None:
    """A batch id is published at most once, whoever runs it, also where both make the table first."""
    expected = land_rivals(lake, 1)
    del expected[UNTOUCHED]
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    receipts = race(crew, [task(lake, n, meet=(str(meeting), 2)) for n in range(2)])
    assert "committed" in {r["state"] for r in receipts}
    assert lake.version() == 1
    check_settled(lake, receipts, expected)


@pytest.mark.parametrize(
    "catalog_stack",
    ["rest", pytest.param("postgres", marks=pytest.mark.chaos), pytest.param("glue", marks=pytest.mark.chaos)],
    indirect=True,
)
def test_a_paused_process_cannot_publish_stale_work(lake: Lake, crew: Sequence[Racer]) -> None:
    """It has matched, and sleeps; another one publishes newer rows of its keys; it wakes and must match again."""
    land_base(lake)
    expected = land_rivals(lake, 2)
    sleeper, other = crew[:2]
    sleeper.begin(task(lake, 0, day=day_of(0).isoformat(), fault="before_publish:stop"))
    sleeper.wait_stopped()
    (awake,) = race([other], [task(lake, 1, day=day_of(1).isoformat())])
    assert (awake["state"], awake["rows"]["updated"], awake["rows"]["inserted"]) == ("committed", 1, 2)
    # the environment of the stopped task lasts as long as the task: it stops once more before its second attempt
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.wait_stopped()
    os.kill(sleeper.pid, signal.SIGCONT)
    woken = sleeper.result()
    assert (woken["state"], woken["rows"]["stale"], woken["rows"]["inserted"]) == ("committed", 2, 1)
    check_settled(lake, [awake, woken], expected)


@pytest.mark.parametrize(
    "catalog_stack",
    ["rest", pytest.param("postgres", marks=pytest.mark.chaos), pytest.param("glue", marks=pytest.mark.chaos)],
    indirect=True,
)
def test_a_paused_process_wakes_after_its_own_batch_was_published(lake: Lake, crew: Sequence[Racer]) -> None:
    land_base(lake)
    expected = land_rivals(lake, 1)
    sleeper, other = crew[:2]
    sleeper.begin(task(lake, 0, fault="before_publish:stop"))
    sleeper.wait_stopped()
    (awake,) = race([other], [task(lake, 1)])
    os.kill(sleeper.pid, signal.SIGCONT)
    woken = sleeper.result()
    assert (awake["state"], woken["state"]) == ("committed", "nothing_to_do")
    assert lake.version() == 2
    check_settled(lake, [awake, woken], expected)


@pytest.mark.chaos
@pytest.mark.parametrize("round_number", range(20))
def test_random_interleavings(lake: Lake, crew: Sequence[Racer], round_number: int) -> None:
    """Steps are put off at random, some racers sleep before a step until all others are done, some share a batch."""
    seed = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or 0) * 1000 + round_number
    dice = random.Random(seed)
    if with_base := dice.random() < 0.8:
        land_base(lake)
    days = dice.randint(1, 4)
    expected = land_rivals(lake, days)
    if not with_base:
        del expected[UNTOUCHED]
    points = ["", "", "", "after_stage:stop", "after_write:stop", "before_publish:stop"]
    tasks = [
        task(
            lake,
            n,
            day=dice.choice([None, day_of(dice.randrange(days)).isoformat()]),
            jitter=dice.choice([0.0, 0.1, 0.5]),
            seed=dice.randrange(1 << 30),
            fault=dice.choice(points) if n else "",
        )
        for n in range(dice.choice([2, 4]))
    ]
    for racer, given in zip(crew, tasks, strict=False):
        racer.begin(given)
    receipts = []
    for racer, given in zip(crew, tasks, strict=False):
        if not given.fault:
            receipts.append(racer.result())
    for racer, given in zip(crew, tasks, strict=False):
        if given.fault:
            with racer.kept_awake():
                receipts.append(racer.result())
    check_settled(lake, receipts, expected)
