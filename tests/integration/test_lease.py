"""The lease between real processes on a real S3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.lease import acquire, read_lease
from lakehouse.lease_record import LeaseHolder
from lakehouse.process import this_process
from lakehouse.storage import open_storage

# Waits for a line on stdin, then asks for the lease; says what came of it and holds it until stdin ends.
HOLDER = """
import os, sys
from datetime import UTC, datetime
from lakehouse.errors import LeaseHeld
from lakehouse.lease import acquire
from lakehouse.lease_record import LeaseHolder
from lakehouse.process import this_process
from lakehouse.storage import open_storage

key = sys.argv[1]
storage = open_storage("s3://state/", os.environ)
holder = LeaseHolder(run_id=sys.argv[2], process=this_process(), step="merge")
print("ready", flush=True)
sys.stdin.readline()
try:
    with acquire(storage, key, table="analytics.orders", holder=holder, clock=lambda: datetime.now(UTC),
                 wait=lambda seconds: None, limit=0):
        print("holds", flush=True)
        sys.stdin.readline()
except LeaseHeld as error:
    print("refused", str(error).splitlines()[0], flush=True)
"""


def start(key: str, run_id: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, key, run_id],
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert hear(process) == "ready"
    return process


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.fixture
def stack_env(stack: Any) -> Mapping[str, str]:
    """The environment that reaches the local stack: endpoint, region and keys."""
    env: Mapping[str, str] = stack.env
    return env


@pytest.fixture
def key() -> str:
    return f"test-{uuid.uuid4().hex}/lease.json"


def test_of_two_processes_exactly_one_holds(stack_env: Mapping[str, str], key: str) -> None:
    racers = [start(key, f"run-{number}", stack_env) for number in range(2)]
    for racer in racers:
        tell(racer)
    said = [hear(racer) for racer in racers]
    for racer in racers:
        racer.communicate("\n", timeout=60)
    assert sorted(line.split()[0] for line in said) == ["holds", "refused"]
    record = read_lease(open_storage("s3://state/", stack_env), key)
    assert record is not None
    assert record.free


def test_the_lease_of_a_killed_process_is_free_at_once(stack_env: Mapping[str, str], key: str) -> None:
    with start(key, "run-killed", stack_env) as holder:
        tell(holder)
        assert hear(holder) == "holds"
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=60)
    storage = open_storage("s3://state/", stack_env)
    left = read_lease(storage, key)
    assert left is not None
    assert (left.free, left.holder.run_id, left.holder.step) == (False, "run-killed", "merge")
    waits: list[float] = []
    mine = LeaseHolder(run_id="run-next", process=this_process())
    with acquire(
        storage, key, table="analytics.orders", holder=mine, clock=lambda: datetime.now(UTC), wait=waits.append
    ) as lease:
        assert not lease.lost
    assert not waits
