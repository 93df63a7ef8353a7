"""Many tables loaded at once by several processes that share the ledger: no load is lost, the ledger lacks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ledger import BATCHES, FILES, ledger_head
from lakehouse.position import find_position
from tests.lake import DAY_1, Lake, csv, order
from tests.racer import Racer, Task, racers

ROUNDS = 2
"""A first load makes the table, and maybe the ledger; a later one finds both."""


@dataclass
class Neighbour(Lake):
    """One of many tables whose loads write to the same ledger tables."""

    ops: str = ""

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "LAKEHOUSE_OPS_NAMESPACE": self.ops}


def neighbours(stack: Any, folder: Path, count: int) -> list[Neighbour]:
    first = Neighbour(stack, folder / "0")
    lakes = [first, *(Neighbour(stack, folder / str(number)) for number in range(1, count))]
    return [replace(lake, ops=f"ops_{first.name}") for lake in lakes]


def load_all(lakes: Sequence[Neighbour], crew: Sequence[Racer], name: str) -> list[dict[str, Any]]:
    """Load every table, as many at once as there are processes; the receipts in the order of the tables."""

    def load_each(racer: Racer, theirs: Sequence[Neighbour]) -> list[dict[str, Any]]:
        receipts = []
        for lake in theirs:
            racer.begin(Task(env=lake.env, table=lake.table, run_id=f"{name}-{lake.name}", lease=True))
            receipts.append(racer.result())
        return receipts

    with ThreadPoolExecutor(len(crew)) as pool:
        shares = [lakes[number :: len(crew)] for number in range(len(crew))]
        found = dict(
            pair
            for share, receipts in zip(shares, pool.map(load_each, crew, shares), strict=True)
            for pair in zip((lake.name for lake in share), receipts, strict=True)
        )
    return [found[lake.name] for lake in lakes]


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> Iterator[Sequence[Racer]]:
    """So many processes; the session's four where that is enough."""
    if request.param <= 4:
        yield request.getfixturevalue("crew")
        return
    with racers(request.param) as started:
        yield started


@pytest.mark.parametrize(
    ("processes", "count"), [(4, 4), pytest.param(8, 40, marks=pytest.mark.chaos)], indirect=["processes"]
)
@pytest.mark.timeout(600)
def test_loads_of_many_tables_share_a_ledger(
    stack: Any, processes: Sequence[Racer], tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lakes = neighbours(stack, tmp_path, count)
    again = 0
    for turn in range(1, ROUNDS + 1):
        for lake in lakes:
            lake.put(DAY_1, f"{turn}.csv", csv(order(1, f"{turn}.00", turn), order(turn + 1, "5.00", turn)))
        receipts = load_all(lakes, processes, f"round {turn}")
        assert {receipt["exit_code"] for receipt in receipts} <= {0, 3}, receipts
        late = [lake for lake, receipt in zip(lakes, receipts, strict=True) if receipt["exit_code"]]
        again += len(late)
        for lake in late:
            assert lake.load().exit_code == 0
        for lake in lakes:
            assert lake.version() == turn
            assert lake.amounts()[1] == f"{turn}.00"
    with capsys.disabled():
        print(f"\n{count} tables, {len(processes)} processes: {ROUNDS * count} loads, {again} ended with exit code 3")
    for lake in lakes:
        check_ledger(lake)


def check_ledger(lake: Neighbour) -> None:
    """Every batch and object once, and each of the ledger tables says that it has all of the bookmark."""
    assert lake.differences() == []
    assert sorted(row["bookmark_version"] for row in lake.ledger(BATCHES)) == [*range(1, ROUNDS + 1)]
    assert len(lake.ledger(FILES)) == ROUNDS
    services = lake.services()
    target = find_position(lake.declaration, services).target
    assert ledger_head(services.catalog, lake.ops, table_uuid=target.uuid, context=target.context) == ROUNDS
