"""Sets the stage and runs the parts: data, landing files, filled targets, timed processes, each followed by its check.

Every part runs in a process of its own, so that memory and caches of one never help or hurt another. Each repeat has
a target of its own that was filled the same way, so that no repeat finds its work done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from benchmarks.ours import declaration_text
from benchmarks.workload import (
    BUCKET,
    NAMESPACE,
    NEW_DAY,
    Dataset,
    Workload,
    first_days,
    landing_prefix,
    landing_uri,
)
from lakehouse.stack import conflicting_variables, free_ports, stack_environment, temporary_stack

ROOT = Path(__file__).resolve().parent.parent


class PartFailed(Exception):
    """A process of the benchmark failed, or its result is not the expected one."""


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run. `seconds` is the work, `cpu_seconds` what it took of the processor in its own process (not in
    the catalog or in S3), `process_seconds` also starts Python, imports and stops; `details` is the receipt or the
    like, `checked` the rows and the sum that the result was found to have."""

    seconds: float
    cpu_seconds: float
    process_seconds: float
    rss_bytes: int
    details: Mapping[str, Any]
    checked: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """A workload with its data below `folder`; `env` is the environment of its processes and names the stack."""

    workload: Workload
    folder: Path
    env: Mapping[str, str]

    @property
    def dataset(self) -> Dataset:
        return Dataset(self.folder / self.workload.title)

    @property
    def assets(self) -> Path:
        return self.folder / "assets" / self.workload.title

    @property
    def prefix(self) -> str:
        return f"s3://{BUCKET}/{landing_prefix(self.workload)}"

    def table(self, owner: str, number: int) -> str:
        return f"{NAMESPACE}.{self.workload.name}_{owner}_{number}"

    def call(self, module: str, *arguments: object) -> tuple[dict[str, Any], float]:
        """Run a part; the JSON of its last line and its wall-clock seconds. Raises PartFailed with its stderr."""
        env = {**self.env, "LAKEHOUSE_ASSETS": str(self.assets)}
        command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            raise PartFailed(f"{module} {' '.join(map(str, arguments))}\n{done.stderr.strip()}")
        return (json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}), seconds


@contextmanager
def running_stack(folder: Path) -> Iterator[Mapping[str, str]]:
    """A throw-away S3 and REST catalog below `folder`; gives the whole environment for processes that use them."""
    with temporary_stack(folder / "stack", free_ports()) as stack:
        mixed = conflicting_variables(stack, os.environ)
        own = {name: value for name, value in os.environ.items() if name not in mixed}
        own.pop("PYTHONDONTWRITEBYTECODE", None)  # else every timed process compiles what it imports late
        yield {**own, **stack_environment(stack, own), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def generate_data(stage: Stage) -> Mapping[str, Any]:
    """Make the data and land the days that the targets start from; returns the expected counts."""
    workload, dataset = stage.workload, stage.dataset
    stage.call("generate", dataset.root, "--workload", workload.name, "--rows", workload.rows)
    for day in first_days():
        _land(stage, dataset.landed(day), landing_uri(workload, day))
    counts: dict[str, Any] = json.loads(dataset.counts.read_text())
    return counts


def land_new_day(stage: Stage) -> None:
    """Land the file of the timed load; after the targets are filled, or their loads would see it."""
    _land(stage, stage.dataset.landed(NEW_DAY), landing_uri(stage.workload, NEW_DAY))


def fill_ours(stage: Stage, number: int) -> None:
    """Load the first days with our own loader."""
    table = stage.table("ours", number)
    path = stage.assets / table / "defs.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(declaration_text(table, stage.workload))
    result, _ = stage.call("ours", table, "first")
    receipt = result["receipt"]
    if receipt["state"] != "committed" or receipt["rows"]["inserted"] != stage.workload.rows:
        raise PartFailed(f"the first load of {table} did not fill it: {receipt.get('error') or receipt}")


def fill_peer(stage: Stage, number: int) -> None:
    """Append the first days with PyIceberg."""
    uri = landing_uri(stage.workload, NEW_DAY)
    stage.call("peer_pyiceberg", stage.table("pyiceberg", number), stage.dataset.root, uri, "first")


def time_ours(stage: Stage, number: int, *options: object) -> Run:
    """One timed load of the new day and its check; the receipt is in `details`. `options` are those of `ours`."""
    table = stage.table("ours", number)
    os.sync()
    result, process_seconds = stage.call("ours", table, "timed", *options)
    receipt = stage.folder / f"{table}.json"
    receipt.write_text(json.dumps(result["receipt"]))
    checked, _ = stage.call("checker", "ours", table, stage.dataset.root, stage.prefix, receipt)
    return _run(result, process_seconds, details=result["receipt"], checked=checked)


def time_peer(stage: Stage, number: int) -> Run:
    """One timed upsert of the new day by PyIceberg and its check."""
    table, uri = stage.table("pyiceberg", number), landing_uri(stage.workload, NEW_DAY)
    os.sync()
    result, process_seconds = stage.call("peer_pyiceberg", table, stage.dataset.root, uri, "timed")
    checked, _ = stage.call("checker", "upsert", table, stage.dataset.root, stage.prefix)
    return _run(result, process_seconds, details={"snapshots": result["snapshots"]}, checked=checked)


def time_floor(stage: Stage) -> Run:
    """One timed conversion of the file to Parquet, without any merge."""
    result, process_seconds = stage.call("floor", stage.dataset.landed(NEW_DAY))
    return _run(result, process_seconds)


def _run(
    result: Mapping[str, Any],
    process_seconds: float,
    *,
    details: Mapping[str, Any] | None = None,
    checked: Mapping[str, Any] | None = None,
) -> Run:
    return Run(
        seconds=result["seconds"],
        cpu_seconds=result["cpu_seconds"],
        process_seconds=process_seconds,
        rss_bytes=int(result["rss_bytes"]),
        details=details or {},
        checked=checked or {},
    )


def _land(stage: Stage, path: Path, uri: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=stage.env["AWS_ENDPOINT_URL_S3"],
        aws_access_key_id=stage.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stage.env["AWS_SECRET_ACCESS_KEY"],
        region_name=stage.env["AWS_REGION"],
    )
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client.upload_file(str(path), bucket, key)
