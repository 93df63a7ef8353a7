"""What became of a load: from evidence to one state, the reason in words, and the command that comes next. Pure.

Where several states hold at once, the one that must be mended first counts. Evidence is gathered by
`lakehouse.audit.evidence`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from lakehouse.errors import DOCTOR
from lakehouse.gate import accept_command
from lakehouse.lease_record import COMMIT


class Condition(StrEnum):
    """The states of the runbook (docs/operations.md)."""

    DETACHED = "detached"
    RUNNING = "running"
    UNKNOWN = "outcome unknown"
    BEFORE_PUBLISH = "failed before publish"
    DURING_STAGING = "failed during staging"
    BEFORE_STAGING = "failed before staging"
    AFTER_PUBLISH = "failed after publish"
    HELD = "held"
    BLOCKED = "blocked"
    NOTHING = "nothing in flight"


WORST_FIRST = (
    Condition.UNKNOWN,
    Condition.DETACHED,
    Condition.BLOCKED,
    Condition.HELD,
    Condition.BEFORE_PUBLISH,
    Condition.DURING_STAGING,
    Condition.BEFORE_STAGING,
    Condition.AFTER_PUBLISH,
    Condition.RUNNING,
    Condition.NOTHING,
)
_EXIT_CODES = {
    Condition.NOTHING: 0,
    Condition.DETACHED: 1,
    Condition.BLOCKED: 1,
    Condition.HELD: 1,
    Condition.UNKNOWN: 4,
}
RETRY = 3
"""The exit code of every other state: wait, or run the same load again."""

SENT = "its commit may have been sent and is not in the table; it can still land"
READ = "read"
"""The step of a load that could not fetch some objects, and may have published the others."""
_STEPS = {
    "": Condition.BEFORE_STAGING,
    "plan": Condition.BEFORE_STAGING,
    "discover": Condition.BEFORE_STAGING,
    READ: Condition.DURING_STAGING,
    "stage": Condition.DURING_STAGING,
    "gate": Condition.DURING_STAGING,
    "merge": Condition.BEFORE_PUBLISH,
    "publish": Condition.BEFORE_PUBLISH,
    COMMIT: Condition.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A load that ended with an error and said so. `command` asks for it again, `next` is the error's own advice; `at`
    is when it ended or, where only the lease tells of it, began: a later load may have left no trace."""

    step: str
    error: str
    exit_code: int
    command: str = ""
    next: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The table's lease as it concerns one source. `gone`: its process is certainly dead, or was `interrupted` in its
    work; `published`: the attempt that
    it names, or its run, is behind the tag; of a finished load this is looked up where it could not tell. `finished`:
    its load said how it ended."""

    run_id: str
    host: str
    pid: int
    step: str
    batch_id: str
    attempt_id: str
    command: str
    since: datetime
    expires_at: datetime
    finished: bool
    gone: bool
    published: bool = False
    failure: Failure | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """A record of an attempt on the bookmark as it stands that ended unpublished. `state`: blocked, unknown or failed;
    `refused` are the gates that have stopped it."""

    attempt_id: str
    batch_id: str
    run_id: str
    state: str
    ended_at: datetime
    failure: Failure
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Why a source cannot go on before somebody decides, and the command that decides."""

    why: str
    next: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is there to see of one source of a table. `several`: the table has other sources.

    `version` and `ledger` are the bookmark's and the ledger's; `attempts` come newest first; `quarantined` are objects
    that are listed as they were when they could not be read, with the reason; `accepted` names the gates that an
    operator lets a batch pass that is not loaded yet. `facts` is what is shown of it all.
    """

    table: str
    context: str
    several: bool
    now: datetime
    version: int = 0
    ledger: int = 0
    lease: Lease | None = None
    attempts: Sequence[Attempt] = ()
    held: str = ""
    question: Answer | None = None
    detached: Answer | None = None
    accepted: Sequence[str] = ()
    quarantined: Sequence[tuple[str, str]] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The option that names the source, where there are several."""
        return f" --source {shlex.quote(self.context)}" if self.several else ""

    @property
    def load(self) -> str:
        return f"lakehouse load {shlex.quote(self.table)}"

    @property
    def rebuild(self) -> str:
        return f"lakehouse ledger rebuild {shlex.quote(self.table)}{self.source}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The one state that holds. `next` is a shell command, `TEXT` in it is the operator's to fill in, and empty where
    there is nothing to do; `look` are commands that change nothing and show more."""

    table: str
    context: str
    state: Condition
    why: str
    next: str
    look: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)
    exit_code: int = 0


def diagnose_evidence(evidence: Evidence) -> Diagnosis:
    """Decide which state holds."""
    for rule in (_detached, _running, _broken_off, _held, _asked, _ended, _quarantined, _accepted, _ledger):
        if (found := rule(evidence)) is not None:
            return _still_open(evidence, found)
    return _found(evidence, Condition.NOTHING, _well(evidence), "")


def _still_open(evidence: Evidence, later: Diagnosis) -> Diagnosis:
    """A later load that failed, or died, answers no earlier attempt: a commit that was sent can still land, and a gate
    still blocks the same batch. What came later is told behind it; where somebody must act on that, it comes first."""
    attempts = _standing(evidence)
    if later.state in (Condition.DETACHED, Condition.RUNNING, Condition.UNKNOWN) or not attempts:
        return later
    sent = next((one for one in attempts if one.state == "unknown"), None)
    if sent is not None:
        earlier = _attempted(evidence, sent)
        return replace(
            earlier, why=f"{earlier.why}; since then: {later.why}", next=later.next or earlier.next, look=later.look
        )
    again = later.state in (Condition.BEFORE_STAGING, Condition.DURING_STAGING, Condition.BEFORE_PUBLISH)
    refused = next((one for one in attempts if one.state == "blocked" and one.batch_id == attempts[0].batch_id), None)
    tried = evidence.lease.batch_id if evidence.lease and not evidence.lease.finished else ""
    if refused is None or not again or later.exit_code != RETRY or tried not in ("", refused.batch_id):
        return later
    earlier = _attempted(evidence, refused)
    return replace(earlier, why=f"{earlier.why}; since then: {later.why}")


def _standing(evidence: Evidence) -> Sequence[Attempt]:
    """The open attempts, newest first; none if a later load came to its end: it would have tried the batch again."""
    lease, attempts = evidence.lease, evidence.attempts
    if attempts and lease is not None and attempts[0].ended_at < lease.since and _came_to_its_end(lease):
        return ()
    return attempts


def worst_first(found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """In the order in which an operator looks at them."""
    return sorted(found, key=lambda one: (WORST_FIRST.index(one.state), one.table, one.context))


def _detached(evidence: Evidence) -> Diagnosis | None:
    if evidence.detached is None:
        return None
    look = (
        f"lakehouse bookmark rewind {shlex.quote(evidence.table)}{evidence.source} --to-table --reason TEXT --dry-run",
    )
    return _found(evidence, Condition.DETACHED, evidence.detached.why, evidence.detached.next, look=look)


def _running(evidence: Evidence) -> Diagnosis | None:
    lease = evidence.lease
    if lease is None or lease.finished or lease.gone or evidence.now >= lease.expires_at:
        return None
    who = f"run {lease.run_id or '-'} as process {lease.pid} of host {lease.host}"
    why = f"{who} since {_time(lease.since)}, at step {lease.step or '-'}"
    return _found(evidence, Condition.RUNNING, why, f"lakehouse diagnose {shlex.quote(evidence.table)}")


def _broken_off(evidence: Evidence) -> Diagnosis | None:
    """A process that died, or has stopped renewing its lease, and never said how its load ended."""
    lease = evidence.lease
    if lease is None or lease.finished:
        return None
    how = "was killed or has died" if lease.gone else "has stopped renewing its lease"
    if lease.interrupted:
        how = "was interrupted"
    who = f"process {lease.pid} of host {lease.host} {how} at step {lease.step or '-'}"
    again = lease.command or evidence.load
    if lease.published:
        if evidence.ledger >= evidence.version:
            return None
        # what an operator did is done; a load may have more to do
        command = again if lease.step in _STEPS else evidence.rebuild
        return _found(
            evidence, Condition.AFTER_PUBLISH, f"{who}: what it did is published; {_behind(evidence)}", command
        )
    if lease.step == "ledger":
        return None  # nothing was left to publish
    state = _STEPS.get(lease.step, Condition.BEFORE_PUBLISH)
    told = {
        Condition.UNKNOWN: SENT,
        Condition.BEFORE_PUBLISH: "what it wrote is in no snapshot, and the bookmark has not moved",
    }.get(state, "it has written nothing to the table")
    return _found(evidence, state, f"{who}: {told}", again)


def _held(evidence: Evidence) -> Diagnosis | None:
    if not evidence.held:
        return None
    command = f"lakehouse release {shlex.quote(evidence.table)} --reason TEXT && {evidence.load}"
    return _found(evidence, Condition.HELD, evidence.held, command)


def _asked(evidence: Evidence) -> Diagnosis | None:
    if evidence.question is None:
        return None
    look = (f"lakehouse plan {shlex.quote(evidence.table)}{evidence.source}",)
    return _found(evidence, Condition.BLOCKED, evidence.question.why, evidence.question.next, look=look)


def _ended(evidence: Evidence) -> Diagnosis | None:
    """A load that has said how it ended: the newest attempt's record, or the last words in the lease."""
    lease = evidence.lease
    said = lease.failure if lease is not None and lease.finished else None
    if said is not None and lease is not None and lease.published and said.step != READ:
        return _failed_behind(evidence, said)
    newest = next(iter(_standing(evidence)), None)
    if newest is not None and (said is None or lease is None or newest.ended_at >= lease.since):
        return _attempted(evidence, newest)
    return _failed(evidence, said) if said is not None else None


def _failed_behind(evidence: Evidence, failure: Failure) -> Diagnosis | None:
    """A load whose commit landed, whether it saw that or not, and that failed at what comes behind."""
    if evidence.ledger >= evidence.version:
        return None
    why = f"step {failure.step or '-'}: {failure.error}; what it did is published; {_behind(evidence)}"
    return _found(evidence, Condition.AFTER_PUBLISH, why, failure.command or evidence.load)


def _attempted(evidence: Evidence, attempt: Attempt) -> Diagnosis:
    who = f"batch {attempt.batch_id}"
    table = shlex.quote(evidence.table)
    if attempt.state == "unknown":
        why = f"{who}: {attempt.failure.error}"
        return _found(evidence, Condition.UNKNOWN, why, attempt.failure.command or evidence.load)
    if attempt.state == "blocked":
        look = (
            f"lakehouse rejects show {table} --batch {attempt.batch_id}",
            f"lakehouse plan {table}{evidence.source}",
        )
        command = accept_command(attempt.batch_id, attempt.refused[0]) if attempt.refused else evidence.load
        return _found(evidence, Condition.BLOCKED, f"{who}: {attempt.failure.error}", command, look=look)
    return _failed(evidence, attempt.failure, who=f"{who}, ")


def _failed(evidence: Evidence, failure: Failure, *, who: str = "") -> Diagnosis:
    """A failure that another try does not change has the error's own command, where it has one."""
    state = _STEPS.get(failure.step, Condition.BEFORE_PUBLISH)
    if failure.exit_code == _EXIT_CODES[Condition.UNKNOWN]:
        state = Condition.UNKNOWN
    elif failure.exit_code == 1 and state is Condition.BEFORE_STAGING:
        state = Condition.BLOCKED
    again = failure.command or evidence.load
    advice = failure.next if failure.exit_code != RETRY else ""
    look = (f"{DOCTOR} {evidence.table}",) if advice == DOCTOR else ()
    is_command = advice.startswith("lakehouse ") and not look
    at = f" ({_time(failure.at)})" if failure.at else ""
    why = f"{who}step {failure.step or '-'}{at}: {failure.error}"
    if advice and not is_command and not look:
        why += f"; {advice}"
    found = _found(evidence, state, why, advice if is_command else again, look=look)
    return replace(found, exit_code=1) if found.exit_code == RETRY != failure.exit_code else found


def _came_to_its_end(lease: Lease) -> bool:
    return lease.finished and lease.failure is None and lease.step == "ledger"


def _quarantined(evidence: Evidence) -> Diagnosis | None:
    if not evidence.quarantined:
        return None
    uri, reason = evidence.quarantined[0]
    more = len(evidence.quarantined) - 1
    why = f"object {uri} is quarantined: {reason}" + (f" (and {more} more)" if more else "")
    table = shlex.quote(evidence.table)
    command = f"lakehouse object skip {shlex.quote(uri)} --table {table}{evidence.source} --reason TEXT"
    look = (
        f"lakehouse explain {shlex.quote(uri)} --table {table}{evidence.source}",
        f"lakehouse rejects show {table}",
    )
    return _found(evidence, Condition.BLOCKED, f"{why}; the others are loaded", command, look=look)


def _accepted(evidence: Evidence) -> Diagnosis | None:
    if not evidence.accepted:
        return None
    why = f"gate {', '.join(evidence.accepted)} is accepted, and the batch is not loaded yet"
    return _found(evidence, Condition.BLOCKED, why, evidence.load)


def _ledger(evidence: Evidence) -> Diagnosis | None:
    if evidence.ledger >= evidence.version:
        return None
    return _found(evidence, Condition.AFTER_PUBLISH, f"every batch is published; {_behind(evidence)}", evidence.rebuild)


def _behind(evidence: Evidence) -> str:
    return f"the ledger is behind: it ends at version {evidence.ledger} of {evidence.version}"


def _well(evidence: Evidence) -> str:
    if not evidence.version:
        return "nothing was ever loaded"
    return f"the bookmark stands at version {evidence.version}, and the ledger too"


def _found(evidence: Evidence, state: Condition, why: str, command: str, *, look: tuple[str, ...] = ()) -> Diagnosis:
    return Diagnosis(
        table=evidence.table,
        context=evidence.context,
        state=state,
        why=why,
        next=command,
        look=look,
        evidence=evidence.facts,
        exit_code=_EXIT_CODES.get(state, RETRY),
    )


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
