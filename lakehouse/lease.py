"""The lease of a table: a second load waits for it before it reads, and `diagnose` finds in it what a crash left.

One small JSON object, written under conditions only (If-None-Match, If-Match; on a local folder under an OS lock). It
saves work and explains crashes; no load is safe because of it: a lost lease is a flag, never an error in the middle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakehouse import naming
from lakehouse.errors import LakehouseError, LeaseHeld
from lakehouse.lease_record import (
    LeaseHolder,
    LeaseRecord,
    LoadFailure,
    decode_record,
    encode_record,
    step_line,
    unsettled_by,
)
from lakehouse.process import Process, is_gone, this_process
from lakehouse.services import Services
from lakehouse.storage import Storage

TTL = timedelta(seconds=45)
"""How long a lease stands without a renewal."""

RENEW_EVERY = 15.0
"""Seconds between renewals."""

_POLL = 2.0

Clock = Callable[[], datetime]
Told = Callable[[LeaseHolder], None]
"""Is told of the holder at each new step of its own."""


def _nobody(_: LeaseHolder) -> None:
    """Nobody wants to know."""


class Lease:
    """A lease that this process holds. `lost` tells that somebody took it over; `trouble` is the last failed renewal.

    `renew` and `update` never raise: what they could not write is written by the next one.
    """

    def __init__(
        self, storage: Storage, key: str, *, record: LeaseRecord, etag: str, clock: Clock, told: Told = _nobody
    ) -> None:
        self.lost = False
        self.trouble: LakehouseError | None = None
        self._storage = storage
        self._key = key
        self._record = record
        self._etag = etag
        self._clock = clock
        self._told = told
        self._lock = threading.Lock()

    @property
    def record(self) -> LeaseRecord:
        return self._record

    def update(
        self,
        *,
        step: str | None = None,
        batch_id: str | None = None,
        attempt_id: str | None = None,
        context: str | None = None,
        failure: LoadFailure | None = None,
    ) -> None:
        """Record progress: what is given replaces what stands there; a failure is added."""
        given = {"step": step, "batch_id": batch_id, "attempt_id": attempt_id, "context": context}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        with self._lock:
            old = self._record.holder
            if failure is not None:
                changes["failures"] = (*old.failures, failure)
            holder = replace(old, **changes)
            self._write(replace(self._record, holder=holder))
        if holder.step != old.step:
            self._told(holder)

    def settled(self, context: str) -> None:
        """A load of this source has come to its end, so that nobody asks any more what became of an earlier commit. The
        next update writes it down."""
        with self._lock:
            left = tuple(one for one in self._record.unsettled if one.context != context)
            self._record = replace(self._record, unsettled=left)

    def renew(self) -> None:
        """Move the expiry."""
        with self._lock:
            self._write(self._record)

    def release(self) -> None:
        """Mark the lease free, unless somebody else holds it by now. Its last holder and step stay readable."""
        with self._lock:
            self._write(replace(self._record, free=True))

    def interrupt(self) -> None:
        """As `release`, of a holder that is stopped from outside: whoever looks takes it for one that was killed."""
        with self._lock:
            self._write(replace(self._record, free=True, interrupted=True))

    def _write(self, record: LeaseRecord) -> None:
        self._record = record = _renewed(record, self._clock())
        if self.lost:
            return
        try:
            etag = self._storage.replace(self._key, encode_record(record), self._etag)
        except LakehouseError as error:
            self.trouble = error
            return
        self.trouble = None
        if etag is None:
            self.lost = True
        else:
            self._etag = etag


@contextmanager
def acquire(
    storage: Storage,
    key: str,
    *,
    table: str,
    holder: LeaseHolder,
    clock: Clock,
    wait: Callable[[float], None],
    limit: float = 120.0,
    renew_every: float = RENEW_EVERY,
    told: Told = _nobody,
) -> Iterator[Lease]:
    """Hold the table's lease for the length of a `with` block, renewed by a thread of its own.

    `wait` sleeps for the given seconds; `clock` gives the time in UTC. Waits for another holder for `limit` seconds at
    most, then raises LeaseHeld. An expired lease is taken over, and that of a dead process of this host at once.
    Ctrl-C, and whatever else ends the block that is no Exception (Dagster's termination), leaves it interrupted.
    """
    lease = _wait_for(storage, key, table=table, holder=holder, clock=clock, wait=wait, limit=limit, told=told)
    told(holder)
    done = threading.Event()
    thread = threading.Thread(target=_keep, args=(lease, done, renew_every), name=f"lease {table}", daemon=True)
    thread.start()
    leave = lease.interrupt
    try:
        yield lease
        leave = lease.release
    except Exception:
        leave = lease.release
        raise
    finally:
        done.set()
        thread.join()
        leave()


def table_lease(table: str, holder: LeaseHolder, services: Services) -> AbstractContextManager[Lease]:
    """The lease of a table, as everything takes it that may publish; each new step goes to the log."""
    return acquire(
        services.state,
        naming.lease(services.catalog_name, table),
        table=table,
        holder=holder,
        clock=services.now,
        wait=services.pause,
        limit=services.lease_wait,
        told=lambda now: services.log("step", step_line(table, now)),
    )


def read_lease(storage: Storage, key: str) -> LeaseRecord | None:
    """The lease as it stands, also a free or an expired one; None if there is none or it cannot be read."""
    data = storage.read(key)
    return decode_record(data) if data is not None else None


def _keep(lease: Lease, done: threading.Event, every: float) -> None:
    while not done.wait(every) and not lease.lost:
        lease.renew()


def _wait_for(
    storage: Storage,
    key: str,
    *,
    table: str,
    holder: LeaseHolder,
    clock: Clock,
    wait: Callable[[float], None],
    limit: float,
    told: Told,
) -> Lease:
    here = this_process()
    deadline = clock() + timedelta(seconds=limit)
    while True:
        now = clock()
        taken = _try(storage, key, holder=holder, now=now, here=here)
        if isinstance(taken, _Taken):
            return Lease(storage, key, record=taken.record, etag=taken.etag, clock=clock, told=told)
        if now >= deadline:
            raise _held(taken, table)
        until = (deadline if taken is None else min(deadline, taken.expires_at)) - now
        wait(min(_POLL, max(until.total_seconds(), 0.05)))


@dataclass(frozen=True, slots=True)
class _Taken:
    record: LeaseRecord
    etag: str


def _try(
    storage: Storage, key: str, *, holder: LeaseHolder, now: datetime, here: Process
) -> _Taken | LeaseRecord | None:
    """Take the lease if it may be taken. Else who holds it, None if it changed hands under our eyes."""
    found = storage.read_with_etag(key)
    if found is None:
        record = _renewed(LeaseRecord(holder, acquired_at=now, expires_at=now), now)
        if not storage.create(key, encode_record(record)):
            return None
        found = storage.read_with_etag(key)
        return _Taken(record, found[1]) if found and decode_record(found[0]) == record else None
    data, etag = found
    current = decode_record(data)
    if current and not current.free and now < current.expires_at and not is_gone(current.holder.process, here):
        return current
    record = LeaseRecord(holder, acquired_at=now, expires_at=now)
    if current:
        unsettled = unsettled_by(current, last_seen=current.expires_at - TTL)
        record = replace(record, serial=current.serial, unsettled=unsettled)
    record = _renewed(record, now)
    new = storage.replace(key, encode_record(record), etag)
    return _Taken(record, new) if new is not None else None


def _renewed(record: LeaseRecord, now: datetime) -> LeaseRecord:
    # The serial makes every version's bytes, and so its ETag, different from all before it.
    return replace(record, expires_at=now + TTL, serial=record.serial + 1)


def _held(record: LeaseRecord | None, table: str) -> LeaseHeld:
    if record is None:
        who = "the lease changes hands faster than we can take it"
    else:
        holder = record.holder
        who = (
            f"another load holds the lease: host={holder.process.host} pid={holder.process.pid} "
            f"run_id={holder.run_id} batch_id={holder.batch_id or '-'} step={holder.step or '-'} "
            f"since={record.acquired_at.isoformat()} expires={record.expires_at.isoformat()}"
        )
    return LeaseHeld(f"{who} table={table}", next=f"lakehouse load {table}")
