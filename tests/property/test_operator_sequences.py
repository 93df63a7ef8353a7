"""Random lives of a table under its operators, on the real stack: table and consumed state are what the model says."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate

from lakehouse.model import Decision
from lakehouse.position import find_position
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv
from tests.operator_model import File, LakeModel, Row

DAYS = {str(day): day for day in (DAY_1, DAY_2, DAY_3)}
NAMES = [f"{day}/{name}.csv" for day in DAYS for name in ("a", "b")]
KEYS = range(1, 7)
STEPS = 14
START = datetime.fromisoformat("2026-08-30T00:00:00")
REASON = ("--reason", "a sequence")

Said = tuple[int, Any]


@dataclass
class Life:
    """One table, its model, and what was done to both, for the message of a failure."""

    lake: Lake
    chance: random.Random
    model: LakeModel = field(default_factory=LakeModel)
    done: list[str] = field(default_factory=list)
    contents: dict[str, list[File]] = field(default_factory=dict)
    orders: list[int] = field(default_factory=list)
    ids: count[int] = field(default_factory=lambda: count(1))
    snapshots: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.orders = self.chance.sample(range(80_000), 2_000)

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self.put), (2, self.put_back), (1, self.delete), (6, self.load), (2, self.crash), (2, self.rule),
            (1, self.hold), (1, self.reset), (2, self.rewind), (1, self.set_to_now), (1, self.rename),
            (1, self.roll_back),
        ]  # fmt: skip
        action = self.chance.choices([a for _, a in actions], [weight for weight, _ in actions])[0]
        action()
        self.compare()

    # what happens on S3

    def put(self) -> None:
        """A new file, or another version of one; the day is often one that was read long ago."""
        name = self.chance.choice(NAMES)
        keys = self.chance.sample(KEYS, self.chance.randint(1, 4))
        rows = tuple(Row(key, self.orders.pop(), f"{next(self.ids)}.00") for key in keys)
        self._land(name, rows)
        self.contents.setdefault(name, []).append(self.model.files[name])

    def put_back(self) -> None:
        """A -> B -> A: an earlier version of a file lands again."""
        if self.contents:
            name = self.chance.choice(sorted(self.contents))
            self._land(name, self.chance.choice(self.contents[name]).rows)

    def delete(self) -> None:
        if self.model.files:
            name = self.chance.choice(sorted(self.model.files))
            self.done.append(f"delete {name}")
            self.lake.stack.s3.delete_object(Bucket="landing", Key=self._key(name))
            del self.model.files[name]

    # what loads do

    def load(self) -> None:
        mode = self.chance.choice(["incremental", "incremental", "incremental", "full", "no-advance"])
        day = self.chance.choice([None, None, *DAYS])
        window = ("--partition", day) if day else ()
        code, receipt = self.cli("load", self.lake.table, "--mode", mode, *window)
        published = self.model.load(mode=mode, day=day)
        state = "committed" if published else "held" if self.model.held else "nothing_to_do"
        assert (receipt["state"], code) == (state, int(state == "held")), receipt

    def crash(self) -> None:
        """A load is killed; all of it has happened, or nothing."""
        point = self.chance.choice(["after_lease", "after_stage", "after_write", "before_publish", "after_publish"])
        if self.model.held or not self.model.planned():
            return
        self.done.append(f"load, killed {point}")
        code, _, errors = self.lake.cli("load", self.lake.table, "--json", env={"LAKEHOUSE_FAULT": point})
        assert code == -signal.SIGKILL, errors
        if point == "after_publish":
            self.model.load()

    # what operators do

    def rule(self) -> None:
        if not self.model.files:
            return
        change, name = self.chance.choice(["skip", "release", "reload"]), self.chance.choice(sorted(self.model.files))
        allowed = change == "skip" or self.model.ruled(name) or change == "reload" or not self.model.read_already(name)
        code, found = self.cli("object", change, self._uri(name), *REASON)
        if not allowed:
            assert code == 2, found
            return
        self._published(found, code, self.model.rule(name, change))

    def hold(self) -> None:
        held = not self.model.held or self.chance.random() < 0.2
        code, found = self.cli("hold" if held else "release", self.lake.table, *REASON)
        self._published(found, code, self.model.hold(held))

    def reset(self) -> None:
        code, found = self.cli("bookmark", "reset", self.lake.table, *REASON)
        self._published(found, code, self.model.reset())

    def rewind(self) -> None:
        if self.model.version == 0:
            return
        version, with_table = self.chance.randint(1, self.model.version), self.chance.random() < 0.5
        more = ("--with-table",) if with_table else ()
        code, found = self.cli("bookmark", "rewind", self.lake.table, "--to-batch", str(version), *more, *REASON)
        changed = self.model.rewind_with_table(version) if with_table else self.model.rewind(version)
        self._published(found, code, changed)

    def set_to_now(self) -> None:
        code, found = self.cli("bookmark", "set", self.lake.table, "--to", "now", *REASON)
        self._published(found, code, self.model.set_to_now())

    def rename(self) -> None:
        old = self.lake.declaration.context
        new = f"orders_{next(self.ids)}"
        if self.model.version == 0:
            return
        code, found = self.cli("bookmark", "rename", self.lake.table, old, new, *REASON)
        self.model.operator_change()
        self._published(found, code, True)
        self.lake.source = f"bookmark: {new}"
        self.lake.write_declaration()

    def roll_back(self) -> None:
        """Another engine sets the table back; loads are refused until the bookmark follows it."""
        past = [version for version in self.snapshots if version < self.model.version]
        if not past:
            return
        version = self.chance.choice(past)
        self.done.append(f"main is set back to the snapshot of version {version}")
        catalog = self.lake.stack.catalog()
        table = catalog.load_table(self.lake.table)
        back = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=self.snapshots[version])
        catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (back,))
        code, receipt = self.cli("load", self.lake.table)
        assert (code, receipt["state"]) == (1, "detached"), receipt
        code, found = self.cli("bookmark", "rewind", self.lake.table, "--to-table", *REASON)
        self.model.rewind_with_table(version)
        self._published(found, code, True)

    # what must be so after every step

    def compare(self) -> None:
        position = find_position(self.lake.declaration, self.lake.services())
        seen = {self._name(s.object.uri): s.object.etag.strip('"') for s in position.bookmark.seen.values()}
        assert all(s.decision is Decision.CONSUMED for s in position.bookmark.seen.values())
        assert seen == {name: etag for name, (etag, _) in self.model.now.seen.items()}, self.done
        assert position.bookmark.version == self.model.version, self.done
        rows = self.lake.amounts() if position.target.table is not None else {}
        assert rows == {row.key: row.amount for row in self.model.now.table.values()}, self.done
        if position.target.tag:
            self.snapshots[self.model.version] = position.target.tag.snapshot_id

    def finish(self) -> None:
        """Plan and proof agree with the model, and one more load leaves nothing to do."""
        _, plan = self.cli("plan", self.lake.table)
        read = sorted(self._name(uri) for batch in plan["batches"] for uri in batch)
        assert read == self.model.planned(), self.done
        if self.model.version:
            assert self.lake.differences() == [], self.done
        if self.model.held:
            self.cli("release", self.lake.table, *REASON)
            self.model.hold(False)
        self.cli("load", self.lake.table)
        self.model.load()
        self.compare()
        assert self.cli("load", self.lake.table)[1]["state"] == "nothing_to_do", self.done

    def cli(self, *arguments: str) -> Said:
        """The command line in this process: exit code and JSON."""
        self.done.append(" ".join(arguments))
        code, found, errors = self.lake.said(*arguments, "--json")
        assert "Traceback" not in errors, (errors, self.done)
        return code, found

    def _published(self, found: Any, code: int, published: bool) -> None:
        assert code == 0, (found, self.done)
        assert found["state"] == ("committed" if published else "nothing_to_do"), (found, self.done)

    def _land(self, name: str, rows: tuple[Row, ...]) -> None:
        day, _, file = name.partition("/")
        lines = [f"{r.key},c,{r.amount},{(START + timedelta(seconds=r.order)).isoformat()}Z" for r in rows]
        self.done.append(f"put {name}: {lines}")
        self.lake.put(DAYS[day], file, csv(*lines))
        head = self.lake.stack.s3.head_object(Bucket="landing", Key=self._key(name))
        self.model.files[name] = File(day, head["ETag"].strip('"'), rows)

    def _key(self, name: str) -> str:
        return f"{self.lake.name}/input_date={name}"

    def _uri(self, name: str) -> str:
        return f"s3://landing/{self._key(name)}"

    def _name(self, uri: str) -> str:
        return uri.partition("input_date=")[2]


def live(stack: Any, folder: Path, seed: int, steps: int) -> Life:
    folder.mkdir()
    life = Life(Lake(stack, folder), random.Random(seed))
    for _ in range(steps):
        life.step()
    life.finish()
    return life


@pytest.mark.parametrize("seed", [1])
def test_operator_sequences(stack: Any, tmp_path: Path, seed: int) -> None:
    live(stack, tmp_path / "life", seed, STEPS)


@pytest.mark.chaos
@pytest.mark.timeout(0)
def test_two_hundred_operator_sequences(stack: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("LAKEHOUSE_CHAOS_SEED") or 0)
    with capsys.disabled():
        print(f"\noperator sequences: seeds {seed} to {seed + 199}, {STEPS} steps each")
    for number in range(200):
        try:
            live(stack, tmp_path / str(number), seed + number, STEPS)
        except BaseException:
            with capsys.disabled():
                print(f"operator sequences: failed with seed {seed + number}")
            raise
