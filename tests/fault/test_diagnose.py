"""What was broken is told by `diagnose`, and the commands that it prints, and no others, mend it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from lakehouse import naming
from lakehouse.audit.diagnosis import Condition
from lakehouse.errors import ConfigurationError
from lakehouse.lease import read_lease
from lakehouse.lease_record import LeaseHolder, LeaseRecord, encode_record
from lakehouse.process import Process
from tests.fault.cell import Bench
from tests.fault.services import SERVICE_FAULTS, until
from tests.lake import DAY_1, DAY_2, Lake, csv, order, slow_down

MOST_COMMANDS = 6
DAGSTER_RUN = "8f14e45f-ceea-467f-a5d2-2b1f5d0f9d3a"


@pytest.fixture
def lake(stack: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(stack, tmp_path, **getattr(request, "param", {}))


def interrupt(*_: Any, **__: Any) -> None:
    """Ctrl-C in the middle of a call."""
    raise KeyboardInterrupt


def loaded_once(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1, "1.00"), order(2, "2.00")))
    assert lake.load().exit_code == 0


def more_lands(lake: Lake) -> None:
    lake.put(DAY_2, "b.csv", csv(order(2, "2.50", 5), order(3, "3.00")))


UNDISTURBED = {1: "1.00", 2: "2.50", 3: "3.00"}


def diagnosed(lake: Lake, what: str | None = None) -> dict[str, Any]:
    """The one state; the exit code is that of the document."""
    code, found, said = lake.said("diagnose", what or lake.table, "--json")
    assert found is not None, said
    assert code == found["exit_code"], said
    return dict(found)


def mended_by_its_commands(lake: Lake) -> list[str]:
    """Run what `diagnose` says, and nothing else, until nothing is in flight; the states on the way."""
    states = []
    for _ in range(MOST_COMMANDS):
        found = diagnosed(lake)
        if found["state"] == Condition.NOTHING:
            assert (found["next"], found["exit_code"]) == ("", 0)
            return states
        states.append(found["state"])
        for command in found["next"].replace("TEXT", "'as diagnosed'").split(" && "):
            program, *arguments = shlex.split(command, comments=True)
            assert program == "lakehouse"
            code, _, said = lake.said(*arguments)
            assert code in (0, 1), said
    raise AssertionError(f"not mended: {states} {diagnosed(lake)}")


def assert_undisturbed(lake: Lake, expected: dict[int, str] = UNDISTURBED) -> None:
    assert lake.amounts() == expected
    assert lake.differences() == []
    assert lake.ledger("batches")[-1]["bookmark_version"] == lake.version()


KILLED = {
    "after_lease": (Condition.BEFORE_STAGING, "plan"),
    "after_stage": (Condition.DURING_STAGING, "stage"),
    "after_write": (Condition.BEFORE_PUBLISH, "merge"),
    "before_publish": (Condition.BEFORE_PUBLISH, "publish"),
    "after_publish": (Condition.AFTER_PUBLISH, "commit"),
}


@pytest.fixture(scope="module")
def killed_again_and_again(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(stack, tmp_path_factory.mktemp("killed"))
    with stack.active():
        lake.put(DAY_1, "a.csv", csv(order(0)))
        assert lake.load().exit_code == 0
    return lake


@pytest.mark.parametrize("point", KILLED)
def test_a_process_that_was_killed(killed_again_and_again: Lake, point: str, stack: Any) -> None:
    lake = killed_again_and_again
    before, key = lake.amounts(), 10 + [*KILLED].index(point)
    lake.put(DAY_2, f"{point}.csv", csv(order(key, "3.00"), order(0, f"{key}.00", key)))
    process = lake.start("load", lake.table, env={"LAKEHOUSE_FAULT": point})
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    state, step = KILLED[point]
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"], found["next"]) == (state, 3, f"lakehouse load {lake.table}")
    code, (status,), _ = lake.said("status", lake.table, "--json")
    word = "committed" if state is Condition.AFTER_PUBLISH else "failed"
    assert (code, status["state"]) == (0, word), "status judges as diagnose does"
    evidence = found["evidence"]
    assert f"process {process.pid} " in found["why"] and f"at step {step}" in found["why"]
    assert f"{process.pid} of host" in evidence["process"] and evidence["process"].endswith("is gone")
    assert evidence["run"].startswith("run cli-")
    assert f"step {step}" in evidence["lease"] and "expires at" in evidence["lease"]
    assert evidence["tag"].startswith(naming.tag("orders"))
    assert ("manifest.parquet" in evidence.get("attempt", "")) == (point in ("before_publish", "after_publish"))
    assert mended_by_its_commands(lake) == [state]
    assert lake.amounts() == before | {key: "3.00", 0: f"{key}.00"}
    assert lake.differences() == []


@pytest.mark.parametrize(
    ("at", "state", "code"), [("commit", Condition.UNKNOWN, 4), ("read", Condition.DURING_STAGING, 3)]
)
def test_a_load_that_is_interrupted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, at: str, state: Condition, code: int
) -> None:
    """Ctrl-C leaves a receipt, and the same evidence as a kill at that step."""
    loaded_once(lake)
    more_lands(lake)
    with monkeypatch.context() as patch:
        if at == "commit":
            patch.setattr(RestCatalog, "commit_table", interrupt)
        else:
            patch.setattr("lakehouse.batch.run.stage_objects", interrupt)
        ended, receipt, said = lake.said("load", lake.table, "--json")
    assert (ended, receipt["exit_code"], receipt["state"]) == (130, 130, "unknown" if code == 4 else "failed"), said
    assert "interrupted" in receipt["error"] and receipt["next"] == f"lakehouse diagnose {lake.table}"
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"], found["next"]) == (state, code, f"lakehouse load {lake.table}")
    assert "interrupted" in found["why"] and "interrupted" in found["evidence"]["lease"]
    assert mended_by_its_commands(lake) == [state]
    assert_undisturbed(lake)


def test_a_load_that_a_scheduler_ends(bench: Bench, lake: Lake) -> None:
    """SIGTERM is told as Ctrl-C, also while S3 is silent: the scheduler would kill a process that waits for it."""
    loaded_once(lake)
    more_lands(lake)
    SERVICE_FAULTS["s3_silent"](bench.network, lake)
    load = lake.start("load", lake.table, "--json", env=bench.network.env)
    until(lambda: bench.network.hits > 0, "the load reads no object")
    load.terminate()
    out, said = load.communicate(timeout=20)
    bench.network.clear()
    receipt = json.loads(out)
    assert (load.returncode, receipt["exit_code"], receipt["state"]) == (143, 143, "failed"), said
    assert "interrupted at step" in receipt["error"] and receipt["next"] == f"lakehouse diagnose {lake.table}"
    found = diagnosed(lake)
    assert found["state"] == Condition.DURING_STAGING and "was interrupted" in found["why"]
    assert mended_by_its_commands(lake) == [Condition.DURING_STAGING]
    assert_undisturbed(lake)


def test_a_commit_on_its_way_is_not_forgotten_when_the_next_load_dies_too(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the lease knows of it: whoever takes that over remembers it."""
    loaded_once(lake)
    more_lands(lake)
    with monkeypatch.context() as patch:
        patch.setattr(RestCatalog, "commit_table", interrupt)
        ended, _, said = lake.said("load", lake.table, "--json")
    assert ended == 130, said
    for point in ("after_lease", "after_stage"):
        lake.start("load", lake.table, env={"LAKEHOUSE_FAULT": point}).communicate(timeout=120)
        found = diagnosed(lake)
        assert (found["state"], found["exit_code"], found["next"]) == (
            Condition.UNKNOWN,
            4,
            f"lakehouse load {lake.table}",
        )
        assert "it can still land; since then: process" in found["why"]
    assert mended_by_its_commands(lake) == [Condition.UNKNOWN]
    lease = read_lease(lake.services().state, naming.lease(lake.services().catalog_name, lake.table))
    assert lease is not None and lease.unsettled == ()
    assert_undisturbed(lake)


def test_a_record_that_nobody_can_read_is_an_error_of_its_table(lake: Lake) -> None:
    loaded_once(lake)
    services = lake.services()
    uuid = str(lake.stack.catalog().load_table(lake.table).metadata.table_uuid)
    key = naming.incarnation_root(services.catalog_name, lake.table, uuid) + naming.attempt_record("broken")
    services.state.put(key, b"garbage")
    for command in ("status", "diagnose"):
        code, (line,), _ = lake.said(command, "--json")
        assert (code, line["state"]) == (1, "error") and services.state.uri(key) in line["next"]
    code, error, _ = lake.said("maintain", lake.table, "orphans", "--json")
    assert code == 1 and services.state.uri(key) in error["error"]
    services.state.delete(key)
    assert diagnosed(lake)["state"] == Condition.NOTHING


def test_a_forged_name_forges_no_command_and_the_one_that_is_printed_works_in_bash(lake: Lake) -> None:
    lake.put(DAY_1, "a\nnext: rm -rf x\x1b[2J 'q' \"d\"\t$(id).csv", "order_id,nonsense\n1,2\n")
    assert lake.load().exit_code == 1
    code, _, said = lake.said("diagnose", lake.table)
    assert code == 1 and "\x1b" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("next:")]
    command = line.removeprefix("next:").strip().replace("TEXT", "forged")
    script = f'lakehouse() {{ {shlex.quote(sys.executable)} -m lakehouse "$@"; }}; {command}'
    ended = subprocess.run(["bash", "-c", script], env={**os.environ, **lake.env}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert diagnosed(lake)["state"] == Condition.NOTHING


def test_nothing_is_in_flight(lake: Lake) -> None:
    found = diagnosed(lake)
    assert (found["state"], found["why"]) == (Condition.NOTHING, "nothing was ever loaded")
    loaded_once(lake)
    assert diagnosed(lake)["state"] == Condition.NOTHING
    code, (line,), _ = lake.said("diagnose", "--json")
    assert (code, line["table"], line["state"]) == (0, lake.table, Condition.NOTHING)


def leave_lease(lake: Lake, **changes: Any) -> None:
    """The lease as another host left it, taken a minute ago."""
    now = datetime.now(UTC)
    holder = {"run_id": DAGSTER_RUN, "process": Process("elsewhere", 7), "context": "orders"}
    times = {"acquired_at": now - timedelta(minutes=1), "expires_at": now - timedelta(seconds=10)}
    times |= {name: changes.pop(name) for name in ("expires_at",) if name in changes}
    record = LeaseRecord(LeaseHolder(**{**holder, **changes}), **times)
    services = lake.services()
    services.state.put(naming.lease(services.catalog_name, lake.table), encode_record(record))


def test_a_lease_of_another_host(lake: Lake) -> None:
    """While it is renewed its load runs; once it has expired, its step says how far it came."""
    loaded_once(lake)
    more_lands(lake)
    leave_lease(lake, step="merge", expires_at=datetime.now(UTC) + timedelta(seconds=30))
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.RUNNING, 3)
    assert "process 7 of host elsewhere" in found["why"] and "at step merge" in found["why"]
    assert found["evidence"]["run"] == f"Dagster run {DAGSTER_RUN}"
    assert "cannot be seen from here" in found["evidence"]["process"]
    command = f"lakehouse load {lake.table} --from 2026-08-30"
    leave_lease(lake, step="commit", command=command)
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"], found["next"]) == (Condition.UNKNOWN, 4, command)
    assert mended_by_its_commands(lake) == [Condition.UNKNOWN]
    assert_undisturbed(lake)


def test_the_lease_says_that_the_commit_is_being_sent(lake: Lake) -> None:
    loaded_once(lake)
    more_lands(lake)
    services = lake.services(pause=lambda _: None)
    seen: list[str] = []

    def never_arrives(*_: Any, **__: Any) -> Any:
        seen.append(diagnosed(lake)["why"])
        raise TimeoutError("read timed out")

    services.catalog.commit_table = never_arrives  # type: ignore[method-assign]
    assert lake.load(services=services).exit_code == 4
    assert seen[0].endswith("at step commit")
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.UNKNOWN, 4)
    assert mended_by_its_commands(lake) == [Condition.UNKNOWN]
    assert_undisturbed(lake)


@pytest.mark.parametrize("lake", [{"gates": "max_rejected_ratio: 0.1, max_duplicate_ratio: 0.0"}], indirect=True)
def test_a_gate(lake: Lake) -> None:
    """Two gates have refused the batch: each is accepted, and then it is loaded."""
    loaded_once(lake)
    lake.put(DAY_2, "b.csv", csv(order(2, "2.50", 5), order(3, "9.00"), order(3, "3.00", 1), order(4, "no number")))
    assert lake.load().exit_code == 1
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.BLOCKED, 1)
    assert "max_rejected_ratio" in found["why"] and "rejects show" in found["look"][0]
    assert {"staged rows", "rejects", "record"} <= set(found["evidence"])
    assert mended_by_its_commands(lake) == [Condition.BLOCKED] * 4
    assert_undisturbed(lake)


def test_held(lake: Lake) -> None:
    loaded_once(lake)
    more_lands(lake)
    assert lake.said("hold", lake.table, "--reason", "month's end")[0] == 0
    assert lake.load().exit_code == 1
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.HELD, 1)
    assert "month's end" in found["why"]
    assert mended_by_its_commands(lake) == [Condition.HELD]
    assert_undisturbed(lake)


def test_rolled_back(lake: Lake) -> None:
    loaded_once(lake)
    before = lake.stack.catalog().load_table(lake.table).metadata.current_snapshot_id
    more_lands(lake)
    assert lake.load().exit_code == 0
    with lake.stack.catalog().load_table(lake.table).manage_snapshots() as change:
        change.rollback_to_snapshot(before)
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.DETACHED, 1)
    assert found["look"][0].endswith("--dry-run")
    code, (line,), _ = lake.said("diagnose", "--json")
    assert (code, line["state"]) == (1, Condition.DETACHED)
    assert mended_by_its_commands(lake) == [Condition.DETACHED]
    assert_undisturbed(lake)


def test_a_ledger_that_was_dropped(lake: Lake) -> None:
    loaded_once(lake)
    more_lands(lake)
    assert lake.load().exit_code == 0
    for name in ("files", "batches", "rejects", "reconciliations"):
        lake.stack.catalog().drop_table(f"ops_{lake.name}.{name}")
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.AFTER_PUBLISH, 3)
    assert found["next"] == f"lakehouse ledger rebuild {lake.table}"
    assert mended_by_its_commands(lake) == [Condition.AFTER_PUBLISH]
    assert_undisturbed(lake)


def test_an_object_that_cannot_be_read(lake: Lake) -> None:
    loaded_once(lake)
    more_lands(lake)
    poison = lake.put(DAY_2, "it's; bad.csv", b"\x00\xff not a file of ours\n\x00")
    assert lake.load().exit_code == 1
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.BLOCKED, 1)
    assert poison in found["why"] and shlex.quote(poison) in found["next"]
    assert mended_by_its_commands(lake) == [Condition.BLOCKED]
    assert_undisturbed(lake)


def test_an_object_that_was_mended_or_taken_away_blocks_nothing(lake: Lake) -> None:
    poison = lake.put(DAY_2, "bad.csv", b"\x00\xff not a file of ours\n\x00")
    loaded = lake.load()
    assert loaded.exit_code == 1
    assert diagnosed(lake)["state"] == Condition.BLOCKED
    lake.stack.s3.delete_object(Bucket="landing", Key=poison.removeprefix("s3://landing/"))
    assert diagnosed(lake)["state"] == Condition.NOTHING


def test_a_service_that_does_not_answer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one object while it is fetched, or of the listing: the lease keeps what the load has said last."""
    loaded_once(lake)
    more_lands(lake)
    with monkeypatch.context() as patch:
        slow_down(patch, "b.csv")
        assert lake.load().exit_code == 3
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.DURING_STAGING, 3)
    assert "503 slow down" in found["why"]

    def refused(*_: Any, **__: Any) -> Any:
        raise ConfigurationError("access denied: bucket=landing")

    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.ingest.discover", refused)
        assert lake.load().exit_code == 2
    found = diagnosed(lake)
    assert (found["state"], found["exit_code"]) == (Condition.BEFORE_STAGING, 1)
    assert "access denied" in found["why"]
    assert mended_by_its_commands(lake) == [Condition.BEFORE_STAGING]
    assert_undisturbed(lake)


@pytest.mark.parametrize("lake", [{"gates": "max_rejected_ratio: 0.1"}], indirect=True)
def test_a_batch(lake: Lake) -> None:
    """Committed, blocked, overtaken by another one, or of no table."""
    loaded_once(lake)
    committed = lake.ledger("batches")[0]
    more_lands(lake)
    lake.put(DAY_2, "c.csv", csv(order(4, "no number")))
    refused = lake.load().batches[-1].batch_id
    found = diagnosed(lake, refused)
    assert (found["state"], found["next"].split()[:3]) == (Condition.BLOCKED, ["lakehouse", "gate", "accept"])

    lake.put(DAY_2, "c.csv", csv(order(3, "3.00", 1)))
    taken = lake.load().batches[-1].batch_id
    found = diagnosed(lake, refused)
    assert (found["state"], found["exit_code"], found["next"]) == (Condition.NOTHING, 0, "")
    assert "not published: it ended blocked at step gate: gate max_rejected_ratio" in found["why"]
    assert f"superseded by batch {taken} (load), version 2, which read 1 of its 2 objects" in found["why"]
    for batch_id, version in ((committed["batch_id"], 1), (taken, 2)):
        found = diagnosed(lake, batch_id)
        assert f"committed at version {version}, snapshot " in found["why"] and found["exit_code"] == 0
    assert str(committed["snapshot_id"]) in diagnosed(lake, committed["batch_id"])["why"]

    code, (status,), _ = lake.said("status", lake.table, "--json")
    measures = status["measures"]
    assert (code, measures["loads"], measures["recoveries"], measures["staging_variance"]) == (0, 2, 0, 0.5)
    assert 0 < measures["merge_share"] < 1 and measures["seconds_to_confirmed"] > 0
    assert measures["open_failure_seconds"] is None

    wrong = taken[:-1] + ("0" if taken[-1] != "0" else "1")
    code, error, _ = lake.said("diagnose", wrong, "--json")
    assert (code, error["next"]) == (2, "lakehouse diagnose")
    assert f"no table knows the batch: batch={wrong}; did you mean {taken} of {lake.table}" in error["error"]
