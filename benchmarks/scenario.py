"""Sets the stage and runs the parts: landing files, filled targets, timed processes, each followed by its check.

Every timed part runs in a process of its own, so that memory and caches of one never help or hurt another. Each repeat
starts from the same target: the tables are put back to where they stood (`rewind`), and our ledger is a new one that
knows the first load, as a ledger of a table's own.
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
from typing import TYPE_CHECKING, Any

import boto3
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from benchmarks.counting import by_kind, counted
from benchmarks.generate import write_day
from benchmarks.ours import declaration_text
from benchmarks.peers import ROOT, Environment, Peer
from benchmarks.result import Run
from benchmarks.rewind import back, mark
from benchmarks.workload import (
    BUCKET,
    NAMESPACE,
    NEW_DAY,
    Case,
    Dataset,
    Target,
    clean_key,
    first_days,
    landing_key,
)
from lakehouse.stack import STATE_BUCKET, conflicting_variables, free_ports, stack_environment, temporary_stack

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_KEPT = ("state", "seconds", "rows", "files", "warnings")
"""What a result keeps of a receipt."""


class PartFailed(Exception):
    """A process of the benchmark failed, or its result is not the expected one."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A target with its stack; everything local is below `folder`; `env` is the environment of its processes."""

    target: Target
    folder: Path
    env: Mapping[str, str]

    @property
    def assets(self) -> Path:
        return self.folder / "assets"

    @property
    def prefix(self) -> str:
        return f"s3://{BUCKET}/{self.target.prefix}"

    @property
    def peers_table(self) -> str:
        return f"{NAMESPACE}.{self.target.shape}_peers"

    def dataset(self, case: Case) -> Dataset:
        return Dataset(self.folder / case.data)

    def path(self, name: str) -> Path:
        """A file of the benchmark's own notes."""
        return self.folder / f"{name}.json"

    def client(self) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=self.env["AWS_ENDPOINT_URL_S3"],
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            region_name=self.env["AWS_REGION"],
        )

    def call(
        self,
        module: str,
        *arguments: object,
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], float]:
        """Run a part; the JSON of its last line and its wall-clock seconds. Raises PartFailed with its stderr."""
        env = {**self.env, "LAKEHOUSE_ASSETS": str(self.assets), **(variables or {})}
        command = [python, "-m", f"benchmarks.{module}", *map(str, arguments)]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            raise PartFailed(f"{module} {' '.join(map(str, arguments))}\n{done.stderr.strip()[-4000:]}")
        return (json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}), seconds


@contextmanager
def running_stack(folder: Path) -> Iterator[Mapping[str, str]]:
    """A throw-away S3 and REST catalog below `folder`; gives the whole environment for processes that use them."""
    with temporary_stack(folder / "stack", free_ports()) as stack:
        mixed = conflicting_variables(stack, os.environ)
        own = {name: value for name, value in os.environ.items() if name not in mixed}
        own.pop("PYTHONDONTWRITEBYTECODE", None)  # else every timed process compiles what it imports late
        yield {**own, **stack_environment(stack, own), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def land_target(stage: Stage) -> None:
    """Make and land the files of the first days, one by one: a large target is never whole on the disk twice."""
    client, path = stage.client(), stage.folder / "day.csv"
    for day in first_days():
        write_day(stage.target, day, path)
        client.upload_file(str(path), BUCKET, landing_key(stage.target, day))
        path.unlink()


def land_batch(stage: Stage, case: Case) -> Mapping[str, Any]:
    """Make the file of the timed load and the peers', and land both in place of another case's; returns the counts that
    are expected."""
    dataset, batch = stage.dataset(case), case.batch
    if not dataset.counts.exists():
        options = [name for name, wanted in (("--all-days", batch.all_days), ("--late", batch.late)) if wanted]
        stage.call("generate", dataset.root, stage.target.shape, stage.target.rows, batch.new, batch.step, *options)
    client = stage.client()
    client.upload_file(str(dataset.batch), BUCKET, landing_key(stage.target, NEW_DAY))
    client.upload_file(str(dataset.clean), BUCKET, clean_key(case))
    counts: dict[str, Any] = json.loads(dataset.counts.read_text())
    return counts


def fill_ours(stage: Stage, case: Case) -> None:
    """Load the first days into the case's table with our own loader, and remember where it stands."""
    path = stage.assets / case.table / "defs.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(declaration_text(case))
    result, _ = stage.call("ours", case.table, "first")
    receipt = result["receipt"]
    if receipt["state"] != "committed" or receipt["rows"]["inserted"] != stage.target.rows:
        raise PartFailed(f"the first load of {case.table} did not fill it: {receipt.get('error') or receipt}")
    _mark(stage, case.table)


def fill_peers(stage: Stage) -> None:
    """Append the first days to the peers' table with PyIceberg, and remember where it stands."""
    stage.call("peer_pyiceberg", "fill", stage.peers_table, stage.target.shape, stage.target.rows)
    _mark(stage, stage.peers_table)


def start_over(stage: Stage, case: Case, number: int) -> Mapping[str, str]:
    """Put our table back and give it a new ledger that knows the first load; returns the variables that name it."""
    _put_back(stage, case.table)
    ops = f"ops_{case.title}_{number}".replace("-", "_").lower()
    result, _ = stage.call("ours", case.table, "first", variables={"LAKEHOUSE_OPS_NAMESPACE": ops})
    if result["receipt"]["state"] != "nothing_to_do":
        raise PartFailed(f"{case.table} was not put back: {result['receipt']}")
    return {"LAKEHOUSE_OPS_NAMESPACE": ops, **({"LAKEHOUSE_MEMORY": case.memory} if case.memory else {})}


def time_ours(stage: Stage, case: Case, variables: Mapping[str, str], *options: object) -> Run:
    """One timed load of the new day and its check. `options` are those of `ours`."""
    os.sync()
    result, process_seconds = stage.call("ours", case.table, "timed", *options, variables=variables)
    receipt = stage.path("receipt")
    receipt.write_text(json.dumps(result["receipt"]))
    checked = _check(stage, case, variables)
    return run_of(result, process_seconds, checked=checked)


def time_again(stage: Stage, case: Case, variables: Mapping[str, str]) -> Run:
    """After `time_ours`: the same file once more in mode full, timed and checked."""
    os.sync()
    result, process_seconds = stage.call("ours", case.table, "full", variables=variables)
    again = stage.path("again")
    again.write_text(json.dumps(result["receipt"]))
    checked = _check(stage, case, variables, "--again", again)
    return run_of(result, process_seconds, checked=checked)


def time_nothing(stage: Stage, case: Case, variables: Mapping[str, str]) -> Run:
    """After `time_ours`: a load that finds nothing unseen. Raises PartFailed if it did anything."""
    result, process_seconds = stage.call("ours", case.table, "rest", variables=variables)
    _expect_nothing(result["receipt"])
    return run_of(result, process_seconds)


def count_requests(stage: Stage, case: Case, variables: Mapping[str, str]) -> dict[str, int]:
    """The requests of a load that finds nothing unseen, by kind. Not timed: they go through proxies."""
    with counted(stage.env) as (env, seen):
        result, _ = stage.call("ours", case.table, "rest", variables={**env, **variables})
        _expect_nothing(result["receipt"])
        return by_kind(seen, state=STATE_BUCKET)


def time_peer(stage: Stage, case: Case, peer: Peer, environment: Environment) -> Run:
    """One timed merge of the new day by a peer, from the same start, and its check."""
    table, variables = stage.peers_table, dict(environment.variables)
    _put_back(stage, table)
    arguments = ("run", table, stage.target.shape, clean_key(case), *peer.options)
    os.sync()
    result, process_seconds = stage.call(peer.module, *arguments, python=environment.python, variables=variables)
    checked, _ = stage.call("checker", "peer", table, stage.dataset(case).root)
    return run_of(result, process_seconds, checked=checked)


def time_floor(stage: Stage, case: Case) -> Mapping[str, float]:
    """Seconds of the bare work of each step."""
    seconds, _ = stage.call("floor", stage.dataset(case).root, landing_key(stage.target, NEW_DAY))
    return seconds


def _mark(stage: Stage, table: str) -> None:
    stage.path(table).write_text(json.dumps(mark(_table(stage, table))))


def _put_back(stage: Stage, table: str) -> None:
    back(_table(stage, table), json.loads(stage.path(table).read_text()))


def _table(stage: Stage, name: str) -> Table:
    """The table as the catalog of the stage has it; PyIceberg would read this process's own environment."""
    prefix = "PYICEBERG_CATALOG__DEFAULT__"
    own = {key.removeprefix(prefix): value for key, value in stage.env.items() if key.startswith(prefix)}
    properties = {key.lower().replace("__", ".").replace("_", "-"): value for key, value in own.items()}
    return load_catalog("benchmark", **properties).load_table(name)


def _check(stage: Stage, case: Case, variables: Mapping[str, str], *options: object) -> dict[str, Any]:
    checked, _ = stage.call(
        "checker",
        "ours",
        case.table,
        stage.dataset(case).root,
        stage.prefix,
        stage.path("receipt"),
        "--verified",
        stage.path(f"{case.table}-verified"),
        *options,
        variables=variables,
    )
    return checked


def _expect_nothing(receipt: Mapping[str, Any]) -> None:
    if receipt["state"] != "nothing_to_do":
        raise PartFailed(f"a load of nothing unseen did something: {receipt}")


def run_of(result: Mapping[str, Any], process_seconds: float, *, checked: Mapping[str, Any] | None = None) -> Run:
    """What a part printed, as a run."""
    receipt = result.get("receipt", {})
    return Run(
        seconds=result["seconds"],
        cpu_seconds=result["cpu_seconds"],
        process_seconds=process_seconds,
        rss_bytes=int(result["rss_bytes"]),
        details={name: receipt[name] for name in _KEPT if name in receipt},
        checked=checked or {},
    )
