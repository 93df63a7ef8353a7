"""Random faults in random loads of random data: a table that faults happen to beside one that nothing happens to.

What `diagnose` should say is decided by what is known apart from it: how the process ended, the fault points that it
passed, and what the table and its ledger hold.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random

from lakehouse import naming
from lakehouse.audit.diagnosis import Condition
from lakehouse.faults import LOAD_POINTS
from lakehouse.ledger import LEDGERS
from lakehouse.ledger.schema import head_of
from tests.fault.cell import Bench, check_nothing_is_left, diagnosed
from tests.fault.forked import NO_MOUNT, Ended
from tests.fault.matrix import (
    AFTER_PUBLISH,
    BEFORE_STAGING,
    DURING_STAGING,
    KILLED,
    KILLS,
    NOTHING,
    UNKNOWN,
)
from tests.fault.services import ALWAYS, SERVICE_FAULTS, refusal, trouble
from tests.fault.tables import MODES, Row, content, land, ledger_is_complete, make_lake
from tests.lake import DAY_1, DAY_2, DAY_3, Lake
from tests.services.faulty_http import Request

STATE_AT: Mapping[str, Condition] = {fault.name: fault.outcome.state for fault in KILLS}
MOST_REQUESTS = 60
"""A load of these tables sends about so many to S3, half as many to the catalog."""
RETRY_LATER, UNKNOWN_OUTCOME = 3, 4
"""Exit codes (INTERFACE)."""
KILL_WITHIN = 1.2
"""Seconds: a load of these tables takes about one."""


@dataclass(frozen=True)
class Fault:
    """What is to happen: a name for the figures, how and with which variables the load is run, and what its network is
    told first."""

    name: str
    how: Mapping[str, object]
    env: Mapping[str, str] = field(default_factory=dict)
    ask: Callable[[Bench, Lake], object] = lambda _bench, _lake: None


@dataclass(frozen=True)
class Run:
    """What came of one. `lost` and `extra` are rows against the undisturbed table; `why` is empty if `diagnose` named
    a state that is right."""

    fault: str
    mode: str
    state: str
    why: str
    lost: int
    extra: int
    seconds: float


class Data:
    """Random landings. Every row has an amount and a time of its own: what a key ends up with depends on no clock."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._rows = 0
        self._files = 0

    def next(self) -> dict[tuple[date, str], tuple[Row, ...]]:
        """Up to four objects in three dates, one of them perhaps another version of an earlier one."""
        return {(self._day(), self._name()): self._content() for _ in range(self._dice.randint(1, 4))}

    def _day(self) -> date:
        return self._dice.choice((DAY_1, DAY_2, DAY_3))

    def _name(self) -> str:
        if self._files and self._dice.random() < 0.2:
            return f"{self._dice.randrange(self._files)}.csv"
        self._files += 1
        return f"{self._files - 1}.csv"

    def _content(self) -> tuple[Row, ...]:
        many = self._dice.choice((1, 3, 8, 60))
        return tuple(self._row(key) for key in self._dice.sample(range(80), many))

    def _row(self, key: int) -> Row:
        self._rows += 1
        rejected, deletes = self._dice.random() < 0.05, self._dice.random() < 0.1
        return "" if rejected else key, f"{self._rows}.00", self._rows * 7919 % 86400, "D" if deletes else ""


def random_fault(dice: Random) -> Fault:
    """A kill at a point, a kill at some time, a fault of a service from the matrix or at some request, a small disk."""
    kind = dice.choices(("point", "time", "service", "request", "disk"), (20, 40, 15, 20, 5))[0]
    if kind == "point":
        point = dice.choice(LOAD_POINTS)
        return Fault("kill at a point", {"checkpoint_every": dice.choice((1, 2))}, {"LAKEHOUSE_FAULT": point})
    if kind == "time":
        return Fault("kill at a time", {"kill_after": dice.uniform(0.02, KILL_WITHIN), "checkpoint_every": 2})
    if kind == "disk":
        return Fault("small disk", {"pages": dice.randrange(8)})
    if kind == "service":
        ask = SERVICE_FAULTS[dice.choice(sorted(SERVICE_FAULTS))]
        return Fault("service of the matrix", {"patient": False}, ask=lambda bench, lake: ask(bench.network, lake))
    return Fault("service at a request", {"patient": False}, ask=_at_a_request(dice))


def _at_a_request(dice: Random) -> Callable[[Bench, Lake], None]:
    s3 = dice.random() < 0.6
    first = dice.randrange(MOST_REQUESTS if s3 else MOST_REQUESTS // 2)
    times, what = dice.choice((1, 2, ALWAYS)), dice.choice(("refuse", "lose", "halve", "500", "503", "403"))

    def ask(bench: Bench, _: Lake) -> None:
        service = bench.network.s3 if s3 else bench.network.catalog
        passed = itertools.count()

        def matches(_: Request) -> bool:
            return next(passed) >= first

        if what.isdigit():
            status = int(what)
            reply = refusal(status, {500: "InternalError", 503: "SlowDown"}.get(status, "ExpiredToken"))
            service.answer(matches, reply if s3 else trouble(status, "Trouble"), times=times)
        else:
            getattr(service, what)(matches, times=times)

    return ask


class History:
    """One table under one fault after another."""

    def __init__(self, bench: Bench, folder: Path, seed: int) -> None:
        self._dice = Random(seed)
        self._bench = bench
        self.mode = self._dice.choice([*MODES])
        self._lake = make_lake(bench.stack, folder / "disturbed", self.mode)
        self._twin = make_lake(bench.stack, folder / "undisturbed", self.mode)
        self._data = Data(self._dice)

    def step(self) -> Run:
        """Land something, load it under a fault, ask, load again, compare."""
        landed = self._data.next()
        for lake in (self._lake, self._twin):
            land(lake, landed)
        before, fault = _version(self._lake), random_fault(self._dice)
        points = self._lake.folder / "points"
        points.write_text("")
        ended = self._load(fault, points)
        began = time.monotonic()
        state = diagnosed(self._lake)
        seconds = time.monotonic() - began
        right = right_states(self._lake, ended, points.read_text().split(), before=before)
        if self._bench.network.lease_is_stale:
            right |= _earlier(right)
        why = (
            ""
            if state in right
            else f"{fault.name}, {ended.code}: {state}, not {sorted(right)}: {_told(ended, points)}"
        )
        self._settle()
        lost, extra = self._compare()
        return Run(fault.name, self.mode, state, why, lost, extra, seconds)

    def end(self) -> None:
        """Nothing is left that nothing refers to, and every equation holds."""
        assert self._lake.differences() == []
        check_nothing_is_left(self._lake)

    def _load(self, fault: Fault, points: Path) -> Ended:
        self._bench.network.clear()  # of a run that has failed
        fault.ask(self._bench, self._lake)
        how = {**fault.how, "passed": str(points)}
        how["env"] = {**self._bench.network.env, **fault.env}
        return self._bench.load(self._lake, **how)

    def _settle(self) -> None:
        """The rerun, while what is held back of the run before can still arrive, and after it has."""
        for _ in range(2 if self._bench.network.hits else 1):
            again = self._lake.load()
            assert again.exit_code == 0, again.error
            self._bench.network.clear()
        assert ledger_is_complete(self._lake)
        assert diagnosed(self._lake) == NOTHING

    def _compare(self) -> tuple[int, int]:
        wanted = self._twin.load()
        assert wanted.exit_code == 0, wanted.error
        rows, expected = content(self._lake).rows, content(self._twin).rows
        return (expected - rows).total(), (rows - expected).total()


def right_states(lake: Lake, ended: Ended, passed: list[str], *, before: int) -> set[Condition]:
    """The states that are true of how the load ended; two where it ended between two fault points."""
    if ended.code == NO_MOUNT:
        return {NOTHING}
    if ended.code == RETRY_LATER and "left for the next load" in ended.errors:
        return {DURING_STAGING}  # of some objects; the others, if there are any, are loaded
    if _version(lake) > before:
        return {NOTHING if _ledger_stands(lake) else AFTER_PUBLISH}
    if ended.code == UNKNOWN_OUTCOME:
        return {UNKNOWN}
    if ended.code == 0:
        return set()  # it has said that all is done
    if not passed:
        return {NOTHING, BEFORE_STAGING}
    here = LOAD_POINTS.index(passed[-1])
    states = {STATE_AT[point] for point in LOAD_POINTS[here : here + 2]} - {AFTER_PUBLISH}
    return states | ({UNKNOWN} if passed[-1] == "before_publish" and ended.code == KILLED else set())


def _earlier(states: set[Condition]) -> set[Condition]:
    """What is said where the load could not write how far it had come: it had come at least as far."""
    order = [*dict.fromkeys(STATE_AT.values())]
    return {early for state in states if state in order for early in order[: order.index(state)]}


def _version(lake: Lake) -> int:
    """The bookmark version behind the tag, as PyIceberg reads it."""
    catalog = lake.stack.catalog()
    if not catalog.table_exists(lake.table):
        return 0
    table = catalog.load_table(lake.table)
    ref = table.metadata.refs.get(naming.tag("orders"))
    if ref is None:
        return 0
    snapshot = table.snapshot_by_id(ref.snapshot_id)
    assert snapshot is not None and snapshot.summary is not None
    return int(snapshot.summary[naming.BOOKMARK_VERSION])


def _ledger_stands(lake: Lake) -> bool:
    """Whether each ledger table is as far as the table."""
    catalog, version = lake.stack.catalog(), _version(lake)
    uuid = str(catalog.load_table(lake.table).metadata.table_uuid)
    names = [f"ops_{lake.name}.{name}" for name in LEDGERS]
    return all(
        catalog.table_exists(name) and head_of(catalog.load_table(name), table_uuid=uuid, context="orders") == version
        for name in names
    )


def _told(ended: Ended, points: Path) -> str:
    last = points.read_text().split()[-1:]
    return f"{last} {(ended.said or {}).get('state')} {ended.errors[-300:]!r}"
