"""Processes are killed, responses are lost, two loads race: the final table equals an undisturbed run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger import BATCHES, FILES
from lakehouse.model import State
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def land_two_days(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1, "1.00"), order(2, "2.00"), order("", "0.00")))
    lake.put(DAY_2, "b.csv", csv(order(2, "2.50", 5), order(3, "3.00")))


EXPECTED = {1: "1.00", 2: "2.50", 3: "3.00"}


@pytest.mark.parametrize(
    "first_load", [pytest.param(True, marks=pytest.mark.chaos), False], ids=["first load", "later load"]
)
@pytest.mark.parametrize("point", ["before_publish", "after_publish"])
def test_killed_at(lake: Lake, point: str, first_load: bool) -> None:
    """D18, M02: rows and bookmark move together or not at all; the rerun does all of it or nothing."""
    version = 0
    if not first_load:
        lake.put(DAY_3, "before.csv", csv(order(2, "0.10"), order(9, "9.00")))
        lake.load()
        version = 1
    land_two_days(lake)
    code, _, _ = lake.cli("load", lake.table, "--json", env={"LAKEHOUSE_FAULT": point})
    assert code == -signal.SIGKILL
    published = point == "after_publish"
    assert lake.version() == version + published
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert code == 0, errors
    assert receipt["state"] == ("nothing_to_do" if published else "committed")
    assert receipt["bookmark_version"] == version + 1
    assert lake.amounts() == EXPECTED | ({} if first_load else {9: "9.00"})
    assert lake.snapshots() == version + 1
    assert len(lake.ledger(BATCHES)) == version + 1
    assert len(lake.ledger(FILES)) == version + 2
    assert lake.differences(reread=True) == []


def test_two_loads_of_one_table_never_double_or_lose_a_key(lake: Lake) -> None:
    """Invariant 1: the lease makes one wait, and the commit would refuse it anyway."""
    land_two_days(lake)
    runs = [lake.start("load", lake.table, "--json") for _ in range(2)]
    ended = [run.communicate(timeout=180) for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 0], ended
    assert lake.amounts() == EXPECTED
    assert (lake.version(), lake.snapshots(), len(lake.ledger(BATCHES))) == (1, 1, 1)


def test_two_loads_without_the_lease_have_one_winner(lake: Lake) -> None:
    """M01: the loser plans and matches again; safety never depends on the lease."""
    lake.put(DAY_1, "a.csv", csv(order(1, "1.00")))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(7, "1.00", 1)))
    services = lake.services()
    commit = services.catalog.commit_table
    inner: list[Any] = []

    def commit_after_another_load(*args: Any, **kwargs: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        lake.put(DAY_1, "c.csv", csv(order(7, "2.00", 2)))
        free_lease(lake)
        inner.append(lake.load())
        return commit(*args, **kwargs)

    services.catalog.commit_table = commit_after_another_load  # type: ignore[method-assign]
    outer = lake.load(services=services)
    assert inner[0].state is State.COMMITTED
    assert outer.exit_code == 0
    assert lake.amounts() == {1: "1.00", 7: "2.00"}
    assert lake.version() == lake.snapshots() == len(lake.ledger(BATCHES)) == 2
    assert lake.differences(reread=True) == []


def free_lease(lake: Lake) -> None:
    state = lake.services().state
    for item in list(state.list("")):
        if item.uri.endswith("lease.json"):
            state.delete(state.key(item.uri))


def test_a_foreign_commit_between_match_and_publish_is_matched_again(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1, "1.00")))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(1, "2.00", 5)))
    services = lake.services()
    commit = services.catalog.commit_table

    def commit_after_a_delete(*args: Any, **kwargs: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        lake.stack.catalog().load_table(lake.table).delete("order_id = 1")
        return commit(*args, **kwargs)

    services.catalog.commit_table = commit_after_a_delete  # type: ignore[method-assign]
    receipt = lake.load(services=services)
    assert (receipt.state, receipt.rows.inserted, receipt.rows.updated) == (State.COMMITTED, 1, 0)
    assert lake.amounts() == {1: "2.00"}


def test_a_lost_response_is_settled_by_reading_back(lake: Lake) -> None:
    """M04, first half: the catalog committed and said otherwise."""
    land_two_days(lake)
    services = lake.services()
    commit = services.catalog.commit_table

    def commit_and_lose_the_answer(*args: Any, **kwargs: Any) -> Any:
        commit(*args, **kwargs)
        raise ConnectionError("connection reset by peer")

    services.catalog.commit_table = commit_and_lose_the_answer  # type: ignore[method-assign]
    receipt = lake.load(services=services)
    assert (receipt.state, receipt.exit_code, receipt.bookmark_version) == (State.COMMITTED, 0, 1)
    assert lake.amounts() == EXPECTED
    assert lake.snapshots() == 1


def test_an_unknown_outcome_is_said_and_the_next_load_decides(lake: Lake) -> None:
    """M04, second half: nothing landed, and it still could; no file is deleted."""
    land_two_days(lake)
    services = lake.services(pause=lambda _: None)
    commit = services.catalog.commit_table
    sent: list[Any] = []

    def never_arrives(*args: Any, **kwargs: Any) -> Any:
        sent.append((args, kwargs))
        raise TimeoutError("read timed out")

    services.catalog.commit_table = never_arrives  # type: ignore[method-assign]
    receipt = lake.load(services=services)
    assert (receipt.state, receipt.exit_code) == (State.UNKNOWN, 4)
    code, (status,), _ = lake.cli("status", lake.table, "--json")
    assert (code, status["state"]) == (0, "unknown")

    commit(*sent[0][0], **sent[0][1])  # the commit that was under way lands after all
    assert lake.amounts() == EXPECTED
    again = lake.load()
    assert (again.state, again.bookmark_version) == (State.NOTHING_TO_DO, 1)
    assert len(lake.ledger(BATCHES)) == 1
    assert lake.differences(reread=True) == []


def test_a_late_commit_of_an_overtaken_attempt_is_refused(lake: Lake) -> None:
    land_two_days(lake)
    services = lake.services(pause=lambda _: None)
    commit = services.catalog.commit_table
    sent: list[Any] = []

    def never_arrives(*args: Any, **kwargs: Any) -> Any:
        sent.append((args, kwargs))
        raise TimeoutError("read timed out")

    services.catalog.commit_table = never_arrives  # type: ignore[method-assign]
    assert lake.load(services=services).exit_code == 4
    assert lake.load().state is State.COMMITTED
    with pytest.raises(Exception, match=r"(?i)requirement|conflict|changed|mismatch|failed"):
        commit(*sent[0][0], **sent[0][1])
    assert lake.amounts() == EXPECTED
    assert (lake.version(), lake.snapshots()) == (1, 1)


def test_a_ledger_that_fails_leaves_the_load_committed_and_is_caught_up_later(lake: Lake) -> None:
    land_two_days(lake)
    services = lake.services()
    commit = services.catalog.commit_table

    def refuse_the_ledger(table: Any, *args: Any, **kwargs: Any) -> Any:
        if table.name()[0].startswith("ops_"):
            raise ConnectionError("down")
        return commit(table, *args, **kwargs)

    services.catalog.commit_table = refuse_the_ledger  # type: ignore[method-assign]
    receipt = lake.load(services=lake.services(catalog=services.catalog, pause=lambda _: None))
    assert (receipt.state, receipt.exit_code, receipt.batches[0].ledger) == (State.COMMITTED, 0, "behind")
    assert lake.ledger(BATCHES) == []
    assert lake.load().state is State.NOTHING_TO_DO
    assert len(lake.ledger(BATCHES)) == 1
