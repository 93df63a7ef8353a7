"""The kill matrix: every fault, in every write mode, with one object and with several, in a first and in a later load,
and what each must come to. A plain value; `tests.fault.cell` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakehouse.audit.diagnosis import Condition
from lakehouse.faults import LOAD_POINTS
from tests.fault.tables import LOADS, MODES, OBJECTS

KILLED = -9
BEFORE_STAGING, DURING_STAGING = Condition.BEFORE_STAGING, Condition.DURING_STAGING
BEFORE_PUBLISH, AFTER_PUBLISH = Condition.BEFORE_PUBLISH, Condition.AFTER_PUBLISH
UNKNOWN, NOTHING = Condition.UNKNOWN, Condition.NOTHING
NO_ROOM = "no_room"
COMMITTED, NOTHING_TO_DO = "committed", "nothing_to_do"


@dataclass(frozen=True)
class Outcome:
    """What must come of a fault: the exit code of the load, the state that `diagnose` names before anything is done
    about it, and what the rerun says."""

    code: int
    state: Condition
    rerun: str


@dataclass(frozen=True)
class Fault:
    """`name` is a fault point for a kill, else that of a fault in `tests.fault.services`; `what` says it in words.
    `modes` and `loads` are those in which it can happen. `or_else`: the other state that it may have come to, where
    several threads are under way."""

    name: str
    what: str
    outcome: Outcome
    modes: tuple[str, ...] = tuple(MODES)
    loads: tuple[str, ...] = LOADS
    or_else: Condition | None = None

    def allows(self, outcome: Outcome) -> bool:
        return outcome in (self.outcome, replace(self.outcome, state=self.or_else or self.outcome.state))

    @property
    def kills(self) -> bool:
        return self.name in LOAD_POINTS


@dataclass(frozen=True)
class Cell:
    """One row of tests: both loads of one table under one fault."""

    fault: Fault
    mode: str
    objects: str

    @property
    def id(self) -> str:
        return f"{self.fault.name}-{self.mode}-{self.objects}".replace(" ", "_")


def _killed(name: str, what: str, state: Condition, **where: tuple[str, ...]) -> Fault:
    done = state in (AFTER_PUBLISH, NOTHING)
    return Fault(name, what, Outcome(KILLED, state, NOTHING_TO_DO if done else COMMITTED), **where)


KILLS = (
    _killed("after_lease", "the lease is taken", BEFORE_STAGING),
    _killed("after_plan", "the plan is made", BEFORE_STAGING),
    _killed("after_object", "the first object is read", DURING_STAGING),
    _killed("after_stage", "every object is staged", DURING_STAGING),
    _killed("after_gates", "the gates have let it pass", DURING_STAGING),
    _killed("after_create", "the table is made", BEFORE_PUBLISH, loads=("first load",)),
    _killed("after_match", "the rows are matched, nothing is written", BEFORE_PUBLISH),
    _killed(
        "after_deletes",
        "a position delete file is written",
        BEFORE_PUBLISH,
        modes=("upsert with position deletes",),
        loads=("later load",),
    ),
    _killed("after_file", "the first data file is written", BEFORE_PUBLISH),
    _killed("after_write", "every file is written", BEFORE_PUBLISH),
    _killed("after_part", "the first part of a checkpoint is written", BEFORE_PUBLISH),
    _killed("after_checkpoint", "the checkpoint is written", BEFORE_PUBLISH),
    _killed("after_manifest", "the batch manifest is written", BEFORE_PUBLISH),
    _killed("before_publish", "the commit is ready to be sent", BEFORE_PUBLISH),
    _killed("after_publish", "the commit has landed", AFTER_PUBLISH),
    _killed("before_ledger", "the load has nothing left to publish", AFTER_PUBLISH),
    _killed("after_ledger_upload", "the ledger's rows are written, not committed", AFTER_PUBLISH),
    replace(
        _killed("after_ledger_commit", "the first ledger table is committed, others are under way", AFTER_PUBLISH),
        or_else=NOTHING,
    ),
    _killed("after_ledger", "the ledger is complete, the lease is not released", NOTHING),
)


def _once(name: str, what: str) -> Fault:
    """A load gets over it."""
    return Fault(name, what, Outcome(0, NOTHING, NOTHING_TO_DO))


SERVICES = (
    _once("s3_500_once", "S3 answers 500 for an object, once"),
    Fault("s3_503_reading", "S3 answers 503 for the objects", Outcome(3, DURING_STAGING, COMMITTED)),
    _once("s3_half_a_body_once", "S3 sends half of an object, once"),
    Fault("s3_half_a_body", "S3 sends half of each object, always", Outcome(3, DURING_STAGING, COMMITTED)),
    _once("s3_slow", "S3 takes its time for each object"),
    Fault("s3_silent", "S3 does not answer for an object", Outcome(3, DURING_STAGING, COMMITTED)),
    Fault(
        "credentials_expire_reading", "the token expires while objects are read", Outcome(2, DURING_STAGING, COMMITTED)
    ),
    Fault(
        "credentials_expire_writing", "the token expires while files are written", Outcome(2, BEFORE_PUBLISH, COMMITTED)
    ),
    _once("s3_503_data_file_once", "S3 answers 503 for a data file, once"),
    Fault("s3_503_data_file", "S3 answers 503 for each data file", Outcome(3, BEFORE_PUBLISH, COMMITTED)),
    Fault("s3_503_batch_manifest", "S3 answers 503 for the batch manifest", Outcome(3, BEFORE_PUBLISH, COMMITTED)),
    _once("s3_loses_batch_manifest", "the batch manifest is stored, the answer is lost"),
    Fault("s3_503_snapshot", "S3 answers 503 for the snapshot's manifest list", Outcome(3, BEFORE_PUBLISH, COMMITTED)),
    _once("s3_503_lease", "S3 answers 503 for the lease from its first renewal on"),
    Fault(NO_ROOM, "the spill folder's disk is full", Outcome(2, DURING_STAGING, COMMITTED)),
    Fault("catalog_down", "the catalog cuts every connection", Outcome(3, BEFORE_STAGING, COMMITTED)),
    Fault("catalog_refuses", "the catalog answers 503 to every commit", Outcome(4, UNKNOWN, COMMITTED)),
    Fault("catalog_500_before", "the catalog answers 500 and has not committed", Outcome(4, UNKNOWN, COMMITTED)),
    _once("catalog_500_after", "the catalog answers 500 and has committed"),
    Fault("catalog_cut_before", "the connection is cut before the commit arrives", Outcome(4, UNKNOWN, COMMITTED)),
    _once("catalog_cut_after", "the catalog commits, the connection is cut"),
    _once("catalog_cut_in_answer", "the catalog commits, the connection is cut in the middle of the answer"),
    Fault(
        "catalog_timeout_before",
        "the commit takes longer than the load waits, and arrives after the rerun",
        Outcome(4, UNKNOWN, COMMITTED),
    ),
    _once("catalog_timeout_after", "the catalog commits, and its answer takes longer than the load waits"),
    Fault(
        "catalog_vanishes",
        "the catalog commits, and does not answer any more",
        Outcome(4, AFTER_PUBLISH, NOTHING_TO_DO),
    ),
    Fault(
        "ledger_refused", "the catalog answers 503 to the ledger's commits", Outcome(0, AFTER_PUBLISH, NOTHING_TO_DO)
    ),
    _once("ledger_cut_after", "a ledger table commits, the connection is cut"),
)
"""Of the services: what fails, for how long, and what must come of it."""

FAULTS = (*KILLS, *SERVICES)


def runs(cell: Cell) -> int:
    """The cells of the matrix that this stands for."""
    return len(cell.fault.loads)


def cells() -> Iterator[Cell]:
    for fault in FAULTS:
        for mode in fault.modes:
            for objects in OBJECTS:
                yield Cell(fault, mode, objects)
