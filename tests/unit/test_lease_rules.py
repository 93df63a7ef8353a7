"""Who may hold a lease, for how long, and what the others are told. No test sleeps: waiting moves the clock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse.errors import LeaseHeld, Unavailable
from lakehouse.lease import TTL, Lease, acquire, read_lease
from lakehouse.lease_record import (
    COMMIT,
    LeaseHolder,
    LeaseRecord,
    LoadFailure,
    Unsettled,
    decode_record,
    encode_record,
)
from lakehouse.process import Process, this_process
from lakehouse.storage import Storage, open_storage

KEY = "default/analytics.orders/lease.json"
START = datetime(2026, 9, 1, 12, tzinfo=UTC)
ELSEWHERE = Process("other-host", 1, started=5, boot="b", pid_space="p")


@dataclass
class Waiter:
    """A clock that waiting moves. `during` happens before each wait."""

    now: datetime = START
    waited: float = 0.0
    during: Callable[[], None] = lambda: None
    waits: list[float] = field(default_factory=list)

    def clock(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.during()
        self.waits.append(seconds)
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"file://{tmp_path}", {})


def take(storage: Storage, waiter: Waiter, run_id: str = "run-1", **more: float) -> AbstractContextManager[Lease]:
    holder = LeaseHolder(run_id=run_id, process=this_process(), step="plan")
    return acquire(
        storage,
        KEY,
        table="analytics.orders",
        holder=holder,
        clock=waiter.clock,
        wait=waiter.wait,
        renew_every=1e6,
        **more,
    )


def held_by(storage: Storage, process: Process, *, expires: datetime) -> None:
    holder = LeaseHolder(run_id="run-0", process=process, batch_id="b0", step="merge")
    storage.put(KEY, encode_record(LeaseRecord(holder, acquired_at=START, expires_at=expires, serial=3)))


def test_a_lease_tells_what_its_holder_does(storage: Storage) -> None:
    waiter = Waiter()
    with take(storage, waiter) as lease:
        lease.update(step="merge", batch_id="b1", attempt_id="a1")
        record = read_lease(storage, KEY)
        assert record == lease.record
        assert record.holder == LeaseHolder("run-1", this_process(), attempt_id="a1", batch_id="b1", step="merge")
        assert (record.acquired_at, record.expires_at, record.free) == (START, START + TTL, False)
        waiter.now += timedelta(seconds=20)
        lease.renew()
        renewed = read_lease(storage, KEY)
        assert renewed is not None
        assert renewed.expires_at == START + timedelta(seconds=20) + TTL
    after = read_lease(storage, KEY)
    assert after is not None
    assert after.free
    assert after.holder.step == "merge"
    with take(storage, waiter, "run-2") as again:
        assert again.record.serial > after.serial
    assert not waiter.waits


def test_a_holder_that_is_stopped_from_outside_leaves_an_interrupted_lease(storage: Storage) -> None:
    class Terminated(BaseException):
        """As Dagster ends a run."""

    waiter = Waiter()
    for stop, interrupted in ((KeyboardInterrupt(), True), (Terminated(), True), (LeaseHeld("x"), False)):
        with pytest.raises(type(stop)), take(storage, waiter) as lease:
            lease.update(step="commit")
            raise stop
        left = read_lease(storage, KEY)
        assert left is not None
        assert (left.free, left.interrupted, left.finished) == (True, interrupted, not interrupted)
        assert left.holder.step == "commit"
    assert not waiter.waits, "the next one need not wait"


def test_who_takes_the_lease_of_a_load_that_died_at_its_commit_remembers_it(storage: Storage) -> None:
    """Until a load of that source has come to its end, however many take the lease in between."""
    waiter = Waiter()
    for number in range(3):
        with pytest.raises(KeyboardInterrupt), take(storage, waiter, run_id=f"killed-{number}") as lease:
            lease.update(step=COMMIT, context="eu", batch_id="b", attempt_id=f"a{number}")
            raise KeyboardInterrupt
        waiter.wait(1.0)
    with take(storage, waiter) as lease:
        sent = [(one.context, one.attempt_id, one.run_id, one.last_seen) for one in lease.record.unsettled]
        assert sent == [("eu", f"a{n}", f"killed-{n}", START + timedelta(seconds=n)) for n in range(3)]
        lease.settled("us")
        lease.update(step="ledger")
    with take(storage, waiter) as lease:
        assert len(lease.record.unsettled) == 3, "another source's end settles nothing"
        lease.settled("eu")
        lease.update(step="ledger")
    found = read_lease(storage, KEY)
    assert found is not None and found.unsettled == ()


def test_a_live_holder_is_waited_for_and_then_named(storage: Storage) -> None:
    waiter = Waiter()
    with take(storage, waiter) as lease:
        waiter.during = lease.renew
        with pytest.raises(LeaseHeld) as caught, take(storage, waiter, "run-2", limit=120):
            pass
        assert not lease.lost
    assert sum(waiter.waits) == pytest.approx(120)
    text = str(caught.value)
    for part in ("run_id=run-1", f"pid={this_process().pid}", "step=plan", f"since={START.isoformat()}", "next: "):
        assert part in text


def test_a_released_lease_is_taken_while_waiting(storage: Storage) -> None:
    waiter = Waiter()
    first = take(storage, waiter)
    first.__enter__()

    def release() -> None:
        first.__exit__(None, None, None)

    waiter.during = release
    with take(storage, waiter, "run-2") as lease:
        assert lease.record.holder.run_id == "run-2"
    assert len(waiter.waits) == 1


def test_an_expired_lease_is_taken_over_and_its_holder_notices(storage: Storage) -> None:
    waiter = Waiter()
    with take(storage, waiter) as slow:
        with take(storage, waiter, "run-2") as lease:
            assert waiter.now == START + TTL
            slow.update(step="publish")
            assert slow.lost
            slow.release()
            held = read_lease(storage, KEY)
            assert held is not None
            assert held.holder.run_id == "run-2", "a stolen lease is never released by its former holder"
            assert not held.free
        assert not lease.lost


def test_another_host_is_waited_for_but_a_dead_process_of_ours_is_not(storage: Storage) -> None:
    waiter = Waiter()
    gone = replace(this_process(), started=this_process().started - 1)
    held_by(storage, gone, expires=START + TTL)
    with take(storage, waiter):
        assert not waiter.waits
    held_by(storage, ELSEWHERE, expires=START + TTL)
    with take(storage, waiter):
        assert waiter.now == START + TTL


def test_a_lease_that_nobody_can_read_is_taken_over(storage: Storage) -> None:
    storage.put(KEY, b"{}")
    assert read_lease(storage, KEY) is None
    with take(storage, Waiter()) as lease:
        assert not lease.lost


def test_a_renewal_that_fails_is_made_up_for(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("down")

    with take(storage, Waiter()) as lease:
        with monkeypatch.context() as patched:
            patched.setattr(type(storage), "replace", fail)
            lease.update(step="stage")
            assert isinstance(lease.trouble, Unavailable)
        lease.renew()
        assert lease.trouble is None
        assert not lease.lost
        record = read_lease(storage, KEY)
        assert record is not None
        assert record.holder.step == "stage"


def test_the_lease_is_renewed_in_the_background(storage: Storage) -> None:
    renewed = threading.Event()

    def clock() -> datetime:
        if threading.current_thread() is not threading.main_thread():
            renewed.set()
        return START

    holder = LeaseHolder(run_id="run-1", process=this_process())
    with acquire(storage, KEY, table="t", holder=holder, clock=clock, wait=lambda _: None, renew_every=0.001):
        assert renewed.wait(10)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lease")]


def test_of_many_that_ask_at_once_one_holds(storage: Storage) -> None:
    barrier, guard, inside = threading.Barrier(6), threading.Lock(), threading.Semaphore(1)
    alone: list[bool] = []

    def pause(_: float) -> None:
        threading.Event().wait(0.002)

    def load(number: int) -> None:
        holder = LeaseHolder(run_id=f"run-{number}", process=this_process())
        barrier.wait()
        with acquire(
            storage,
            KEY,
            table="analytics.orders",
            holder=holder,
            clock=lambda: datetime.now(UTC),
            wait=pause,
        ):
            entered = inside.acquire(blocking=False)
            with guard:
                alone.append(entered)
            if entered:
                inside.release()

    threads = [threading.Thread(target=load, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == [True] * 6


def test_records_survive_and_foreign_ones_are_none() -> None:
    failures = (LoadFailure("orders", "plan", "503 slow down", 3, "lakehouse load t"),)
    holder = LeaseHolder("r", ELSEWHERE, "a", "b", "s", "orders", "lakehouse load t", failures)
    unsettled = (Unsettled("orders", "b", "a", "r", "lakehouse load t", START),)
    record = LeaseRecord(holder, START, START + TTL, serial=7, free=True, unsettled=unsettled)
    assert decode_record(encode_record(record)) == record
    old = json.loads(encode_record(record))
    for name in ("context", "command", "failures", "unsettled"):
        del old[name]
    known = replace(holder, context="", command="", failures=())
    assert decode_record(json.dumps(old).encode()) == replace(record, holder=known, unsettled=())
    for data in (b"", b"[]", b"{}", b"\xff", encode_record(record).replace(b'"pid": 1', b'"pid": "x"')):
        assert decode_record(data) is None
