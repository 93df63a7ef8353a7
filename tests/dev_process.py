"""A real `lakehouse dev` for tests: starts it in a folder of its own, asks its web server, stops it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import boto3

from lakehouse.stack import LANDING_BUCKET, Stack, free_ports, running_stack, stop_stack

REPOSITORY = Path(__file__).parents[1]
CODE_LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "lakehouse"}
RUN_ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
BACKFILL_ENDED = {"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"}
_T = TypeVar("_T")


@dataclass(frozen=True)
class Dev:
    """A running `lakehouse dev`. What it keeps is below `directory`, what it prints is in `log`."""

    process: subprocess.Popen[bytes]
    directory: Path
    log: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def stack(self) -> Stack:
        stack = running_stack(self.directory / "stack")
        assert stack is not None
        return stack

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, what: str, probe: Callable[[], _T | None], *, seconds: float) -> _T:
        """What `probe` finds, once it finds something; never longer than `seconds`, nor after the process ended."""
        deadline = time.monotonic() + seconds
        while (found := probe()) is None:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{self.said()[-5000:]}"
            time.sleep(0.2)
        return found

    def wait_said(self, text: str, *, seconds: float) -> None:
        self.wait(text, lambda: True if text in self.said() else None, seconds=seconds)

    def land(self, files: Mapping[str, bytes]) -> None:
        stack = self.stack
        s3 = boto3.session.Session().client(
            "s3",
            endpoint_url=stack.s3_endpoint,
            aws_access_key_id=stack.access_key,
            aws_secret_access_key=stack.secret_key,
            region_name="us-east-1",
        )
        for key, body in files.items():
            s3.put_object(Bucket=LANDING_BUCKET, Key=key, Body=body)
        s3.close()

    def ask(self, query: str, **variables: Any) -> Any:
        """What Dagster's GraphQL API answers to a query for one field."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            (value,) = json.load(answer)["data"].values()
        assert value and "message" not in value, value
        return value

    def automation(self) -> dict[str, str]:
        """Sensors and schedules by name, each with its status."""
        query = "query($s: RepositorySelector!) { repositoryOrError(repositorySelector: $s) { ... on Repository {"
        query += " sensors { name sensorState { status } } schedules { name scheduleState { status } } } } }"
        found = self.ask(query, s=CODE_LOCATION)
        sensors = {sensor["name"]: sensor["sensorState"]["status"] for sensor in found["sensors"]}
        return sensors | {item["name"]: item["scheduleState"]["status"] for item in found["schedules"]}

    def stop_sensor(self, name: str) -> None:
        """Stop a sensor after its first tick: the next is half a minute away, so none is under way when it stops."""
        query = "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) {"
        query += " ... on Sensor { id sensorState { ticks(limit: 1) { status } } } } }"

        def ticked() -> dict[str, Any] | None:
            sensor: dict[str, Any] = self.ask(query, s={**CODE_LOCATION, "sensorName": name})
            over = [tick for tick in sensor["sensorState"]["ticks"] if tick["status"] != "STARTED"]
            return sensor if over else None

        sensor = self.wait(f"a tick of {name}", ticked, seconds=60)
        stopping = "mutation($id: String!) { stopSensor(id: $id) {"
        stopping += (
            " ... on StopSensorMutationResult { instigationState { status } } ... on PythonError { message } } }"
        )
        assert self.ask(stopping, id=sensor["id"])["instigationState"]["status"] == "STOPPED"

    def launch(self, asset: str, day: str) -> str:
        """Start a materialization of one partition; the run's id."""
        query = "mutation($p: ExecutionParams!) { launchRun(executionParams: $p) {"
        query += " ... on LaunchRunSuccess { run { id } } ... on PythonError { message } } }"
        parameters = {
            "selector": {**CODE_LOCATION, "pipelineName": "__ASSET_JOB", "assetSelection": [_key(asset)]},
            "mode": "default",
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
        }
        return str(self.ask(query, p=parameters)["run"]["id"])

    def launch_backfill(self, asset: str, days: list[str]) -> str:
        """Start a backfill of some partitions; its id."""
        query = "mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {"
        query += " ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"
        return str(self.ask(query, p={"assetSelection": [_key(asset)], "partitionNames": days})["backfillId"])

    def run_status(self, run: str) -> str | None:
        """How a run ended; None while it goes on."""
        status = str(self.ask("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run)["status"])
        return status if status in RUN_ENDED else None

    def backfill_status(self, backfill: str) -> str | None:
        """How a backfill ended; None while it goes on."""
        query = (
            "query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
        )
        status = str(self.ask(query, id=backfill)["status"])
        return status if status in BACKFILL_ENDED else None

    def runs(self, tag: str, value: str) -> list[tuple[str, str]]:
        """Partition and status of the runs with a tag, sorted."""
        query = "query($f: RunsFilter!) { runsOrError(filter: $f) {"
        query += " ... on Runs { results { status tags { key value } } } } }"
        runs = self.ask(query, f={"tags": [{"key": tag, "value": value}]})["results"]
        tags = [({tag["key"]: tag["value"] for tag in run["tags"]}, str(run["status"])) for run in runs]
        return sorted((found.get("dagster/partition", "none"), status) for found, status in tags)

    def checks(self, asset: str) -> dict[str, dict[str, Any]]:
        """The evaluation that belongs to the latest materialization, with `partition`, by check."""
        query = "query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { assetChecksOrError {"
        query += " ... on AssetChecks { checks { name executionForLatestMaterialization {"
        query += " partition evaluation { success severity description } } } } } } } }"
        found = self.ask(query, k=_key(asset))["assetChecksOrError"]["checks"]
        latest = {check["name"]: check["executionForLatestMaterialization"] for check in found}
        return {name: {"partition": last["partition"], **last["evaluation"]} for name, last in latest.items() if last}

    def stop(self) -> int:
        """Ctrl-C, as a person does it; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextmanager
def started_dev(folder: Path, home: Path) -> Iterator[Dev]:
    """`lakehouse dev` from the moment that its stack answers; everything of it is gone when the block ends."""
    directory, log, port = folder / "dev", folder / "dev.log", free_ports().s3
    command = [sys.executable, "-m", "lakehouse", "dev", "--free-ports", "--port", str(port), "--dir", str(directory)]
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**kept, "HOME": str(home)},
            stdout=output,
            stderr=output,
            preexec_fn=_end_with_parent,
        )
    dev = Dev(process, directory, log, port)
    try:
        dev.wait_said("local stack: ", seconds=90)
        yield dev
    finally:
        try:
            dev.stop()
        finally:
            stop_stack(directory / "stack", grace=0)
            for pid in processes_of(directory):
                os.kill(pid, signal.SIGKILL)
            process.wait(timeout=10)


def _end_with_parent() -> None:
    """Tests that are broken off may end without a chance to stop it; Linux then sends it a SIGTERM."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def processes_of(folder: Path) -> dict[int, str]:
    """Processes that name the folder in their command or in their environment, with their command."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue  # it ended meanwhile, or it is somebody else's
        if bytes(folder) in command + environment:
            found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def _key(asset: str) -> dict[str, list[str]]:
    return {"path": asset.split(".")}
