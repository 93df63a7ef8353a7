"""`make dev`: the local stack and `dagster dev` together, both stopped by one Ctrl-C. Defines no assets itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import ConfigurationError, Unavailable
from lakehouse.stack import (
    DEFAULT_PORTS,
    Stack,
    StackPorts,
    conflicting_variables,
    running_stack,
    stack_environment,
    start_stack,
    stop_stack,
    without_home,
)
from lakehouse.stack.ports import ADDRESS, is_free

_READY_SECONDS = 300.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.2
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# What Dagster says of its own code, which nobody who runs this can change.
_UNSAID = ("ignore:Function `dev_command` is superseded", "ignore:Parameter `execution_type` of function `AssetsDef")


def run_dev(directory: Path, port: int, *, stack_ports: StackPorts = DEFAULT_PORTS) -> int:
    """Run stack and Dagster UI in the foreground; state lies in `directory`, the UI answers on `port` of 127.0.0.1.

    Returns 0 after Ctrl-C or SIGTERM, another exit code if Dagster ended by itself. A stack that ran before is used, on
    its own ports, and left running. Raises ConfigurationError for a taken port or a folder without `workspace.yaml`.
    """
    directory = directory.absolute()
    home = _prepare_home(directory)
    if not is_free(port):
        raise ConfigurationError(
            f"the Dagster UI cannot start: in use on {ADDRESS}: port={port}", next=f"make dev PORT={port + 1}"
        )
    with _stop_signal() as stop, _stack_for(directory / "stack", stack_ports) as stack:
        return 0 if stop.is_set() else _run_dagster(_environment(stack, home), port, stop)


@contextmanager
def _stop_signal() -> Iterator[threading.Event]:
    """Set by Ctrl-C, SIGTERM or a closed terminal. A handler also undoes an inherited "ignore", which Dagster would
    hand down to all of its processes."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in _STOPPING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _stack_for(directory: Path, ports: StackPorts) -> Iterator[Stack]:
    before = running_stack(directory)
    stack = start_stack(directory, ports)
    _say(f"local stack: S3 {stack.s3_endpoint}, catalog {stack.catalog_uri}")
    try:
        yield stack
    finally:
        if before != stack:
            stop_stack(directory)
            _say("local stack stopped; its data stays")


def _prepare_home(directory: Path) -> Path:
    """DAGSTER_HOME: it must be absolute and exist, and takes its settings from the repository's `dagster.yaml`."""
    missing = [name for name in ("workspace.yaml", "dagster.yaml") if not Path(name).is_file()]
    if missing:
        raise ConfigurationError(
            f"not in {Path.cwd()}: {', '.join(missing)}", next="run it in the folder of the repository"
        )
    home = directory / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile("dagster.yaml", home / "dagster.yaml")
    _say(f"Dagster home: {home}, with a copy of this folder's dagster.yaml")
    return home


def _environment(stack: Stack, home: Path) -> dict[str, str]:
    dropped = conflicting_variables(stack, os.environ)
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # LAKEHOUSE_DEV=1: components start their sensors and schedules, which are stopped by default elsewhere.
    ours = {"DAGSTER_HOME": str(home), "LAKEHOUSE_DEV": "1", **without_home(home)}
    warnings = ",".join([*filter(None, [os.environ.get("PYTHONWARNINGS")]), *_UNSAID])
    return kept | stack_environment(stack, os.environ) | ours | {"PYTHONWARNINGS": warnings}


def _run_dagster(env: dict[str, str], port: int, stop: threading.Event) -> int:
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", ADDRESS, "-p", str(port)]
    # A session of its own: Ctrl-C reaches us alone, and what Dagster leaves behind ends with its group.
    process = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        if _wait_answering(process, port, stop):
            _say(f"Dagster UI: http://{ADDRESS}:{port}   (Ctrl-C stops everything)")
        while process.poll() is None and not stop.wait(_POLL_SECONDS):
            pass
        # Dagster exits with 0 also when one of its servers died.
        return 0 if stop.is_set() else process.returncode or 1
    finally:
        _end(process)


def _wait_answering(process: subprocess.Popen[bytes], port: int, stop: threading.Event) -> bool:
    """True once the web server answers; False if Dagster ended or was told to stop first."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and not stop.wait(_POLL_SECONDS):
        try:
            with opener.open(f"http://{ADDRESS}:{port}/server_info", timeout=2):
                return True
        except OSError as error:
            if time.monotonic() > deadline:
                raise Unavailable(f"the Dagster UI does not answer: port={port} error={error}") from error
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGINT lets Dagster end its servers and runs; what is left of its group after that is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nobody is left


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
