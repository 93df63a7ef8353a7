"""Loads, upkeep and another writer in random order and between each other's steps: no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakehouse.errors import Conflict
from lakehouse.maintain import compact, expire, remove_orphans
from lakehouse.model import State
from lakehouse.services import Services
from tests.evolving_lake import OPERATOR, lake_on
from tests.integration.test_maintain_expire import before_commit, break_lease
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order

Step = Callable[[Services], None]


class History:
    """A table, what must be in it, and the steps that can happen to it."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.chance = lake, Random(seed)
        self.wanted: dict[int, str] = {}
        self.landed = 0
        self.steps: dict[str, Step] = {
            "load": self.load,
            "compact": lambda services: self.ended(compact(lake.declaration, services, OPERATOR).state),
            "expire": lambda services: self.ended(
                expire(lake.declaration, services, OPERATOR, older_than=timedelta(0)).state
            ),
            "orphans": lambda services: self.ended(remove_orphans(lake.declaration, services, OPERATOR).state),
            "rewritten by another": self.rewrite,
        }

    def ended(self, state: State) -> None:
        assert state in (State.COMMITTED, State.NOTHING_TO_DO)

    def land(self) -> None:
        """A file with new keys and newer rows of old ones, in one of three partitions."""
        self.landed += 1
        keys = self.chance.sample(range(12), 4)
        amount = f"{self.landed}.00"
        self.wanted |= dict.fromkeys(keys, amount)
        day = self.chance.choice((DAY_1, DAY_2, DAY_3))
        self.lake.put(day, f"{self.landed}.csv", csv(*(order(key, amount, self.landed) for key in keys)))

    def load(self, services: Services) -> None:
        self.land()
        receipt = self.lake.load(services=services)
        assert receipt.exit_code == 0, receipt.error
        self.ended(receipt.state)  # nothing to do: a load in between has read the file

    def rewrite(self, _: Services) -> None:
        """What another engine's compaction does to the files."""
        table = self.lake.stack.catalog().load_table(self.lake.table)
        table.overwrite(table.scan().to_arrow())

    def between(self, name: str) -> Callable[[], None]:
        def act() -> None:
            break_lease(self.lake)
            self.steps[name](self.lake.services())

        return act

    def run(self, steps: int) -> list[str]:
        """Random steps, each perhaps with another one before its first commit; returns their names."""
        self.load(self.lake.services())
        told = []
        for _ in range(steps):
            name, other = self.chance.choice(list(self.steps)), self.chance.choice([*self.steps, "", ""])
            services = self.lake.services(now=lambda: datetime.now(UTC))
            told.append(f"{name} / {other}" if other else name)
            try:
                self.steps[name](before_commit(services, self.between(other)) if other else services)
            except Conflict:
                continue
            assert self.lake.amounts() == self.wanted, told
        return told


def check(lake: Lake, seed: int) -> None:
    history = History(lake, seed)
    told = history.run(5)
    history.load(lake.services())
    compact(lake.declaration, lake.services(), OPERATOR)
    expire(lake.declaration, lake.services(), OPERATOR, older_than=timedelta(0))
    remove_orphans(lake.declaration, lake.services(), OPERATOR)
    assert lake.amounts() == history.wanted, (seed, told)
    names = {equation.name for equation in lake.differences(reread=True)}
    assert names <= {"table: snapshots of other writers = 0"}, (seed, told, names)


@pytest.mark.parametrize("seed", [1, 2])
def test_steps_between_each_other(stack: Any, tmp_path: Path, seed: int) -> None:
    check(_lake(stack, tmp_path), seed)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_hundred_histories(stack: Any, tmp_path: Path, seed: int) -> None:
    check(_lake(stack, tmp_path), seed)


def _lake(stack: Any, folder: Path) -> Lake:
    lake = lake_on("sql", stack, folder)
    lake.more = "table_properties: {write.merge.mode: merge-on-read}"
    lake.write_declaration()
    return lake
