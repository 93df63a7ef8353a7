"""What is written into a lease object, as versioned JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from lakehouse.process import Process

_VERSION = 1

COMMIT = "commit"
"""The step of a load that has begun to send its commit."""
MOST_UNSETTLED = 10
"""So many unsettled commits are remembered: a load that comes to its end settles all of its source."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """Why the load of one source ended without doing its work; `exit_code` and `next` are those of the error."""

    context: str
    step: str
    error: str
    exit_code: int
    next: str = ""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a lease, and how far it is. `step` names the step that is under way, `context` the source that it is
    about, `command` asks for the same work again; `failures` are the sources that failed so far."""

    run_id: str
    process: Process
    attempt_id: str = ""
    batch_id: str = ""
    step: str = ""
    context: str = ""
    command: str = ""
    failures: tuple[LoadFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A holder that broke off once it had begun to send its commit, and whose lease others have taken since.
    `last_seen` is when it wrote its lease for the last time."""

    context: str
    batch_id: str
    attempt_id: str
    run_id: str
    command: str
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One version of a lease; times in UTC. A `free` one names its last holder, an `interrupted` one is free too, but
    its holder was stopped from outside and never said how its work ended. `unsettled` are of earlier holders."""

    holder: LeaseHolder
    acquired_at: datetime
    expires_at: datetime
    serial: int = 0
    free: bool = False
    interrupted: bool = False
    unsettled: tuple[Unsettled, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the holder came to an end of its own."""
        return self.free and not self.interrupted


def unsettled_by(record: LeaseRecord, *, last_seen: datetime) -> tuple[Unsettled, ...]:
    """What whoever takes over this lease has to remember: nobody else knows of these commits."""
    holder = record.holder
    if record.finished or holder.step != COMMIT or not holder.attempt_id:
        return record.unsettled
    sent = Unsettled(holder.context, holder.batch_id, holder.attempt_id, holder.run_id, holder.command, last_seen)
    return (*record.unsettled, sent)[-MOST_UNSETTLED:]


def step_line(table: str, holder: LeaseHolder) -> dict[str, object]:
    """What a log says of a step."""
    return {
        "table": table,
        "source": holder.context,
        "run_id": holder.run_id,
        "batch_id": holder.batch_id,
        "attempt_id": holder.attempt_id,
        "step": holder.step,
    }


def encode_record(record: LeaseRecord) -> bytes:
    """The record as JSON; `decode_record` gives back an equal value."""
    holder, process = record.holder, record.holder.process
    document = {
        "version": _VERSION,
        "state": "free" if record.free else "held",
        "interrupted": record.interrupted,
        "run_id": holder.run_id,
        "batch_id": holder.batch_id,
        "attempt_id": holder.attempt_id,
        "step": holder.step,
        "context": holder.context,
        "command": holder.command,
        "failures": [asdict(failure) for failure in holder.failures],
        "unsettled": [{**asdict(one), "last_seen": one.last_seen.isoformat()} for one in record.unsettled],
        "host": process.host,
        "pid": process.pid,
        "started": process.started,
        "boot": process.boot,
        "pid_space": process.pid_space,
        "acquired_at": record.acquired_at.isoformat(),
        "expires_at": record.expires_at.isoformat(),
        "serial": record.serial,
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def decode_record(data: bytes) -> LeaseRecord | None:
    """Read a record. None for anything else: a lease that nobody can read must not block a table for ever."""
    try:
        document: dict[str, Any] = json.loads(data)
        process = Process(
            host=str(document["host"]),
            pid=int(document["pid"]),
            started=int(document["started"]),
            boot=str(document["boot"]),
            pid_space=str(document["pid_space"]),
        )
        texts = {name: str(document[name]) for name in ("run_id", "batch_id", "attempt_id", "step")}
        # leases that are older than these fields have none of them
        texts |= {name: str(document.get(name, "")) for name in ("context", "command")}
        failures = tuple(LoadFailure(**failure) for failure in document.get("failures", ()))
        return LeaseRecord(
            holder=LeaseHolder(process=process, failures=failures, **texts),
            acquired_at=datetime.fromisoformat(document["acquired_at"]),
            expires_at=datetime.fromisoformat(document["expires_at"]),
            serial=int(document["serial"]),
            free=document["state"] == "free",
            interrupted=document.get("interrupted") is True,
            unsettled=tuple(
                Unsettled(**{**one, "last_seen": datetime.fromisoformat(one["last_seen"])})
                for one in document.get("unsettled", ())
            ),
        )
    except (ValueError, KeyError, TypeError):
        return None
