"""A Glue control plane: moto behind a door that keeps Glue's promise about versions, which moto does not.

AWS: UpdateTable with a `VersionId` that is not the table's current one raises ConcurrentModificationException.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.server import free_port, server

_TARGET = "X-Amz-Target"


@contextmanager
def running_glue(folder: Path) -> Iterator[FaultyHttp]:
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        server(command, log=folder / "moto.log", ready=lambda: _answers(port)),
        FaultyHttp(f"http://127.0.0.1:{port}", between=_Versions()).running() as door,
    ):
        yield door


def is_glue_call(request: Request, name: str) -> bool:
    return operation(request) == name


def operation(request: Request) -> str:
    wanted = _TARGET.lower()
    target = next((v for k, v in request.headers.items() if k.lower() == wanted), "")
    return target.rpartition(".")[2]


class _Versions:
    """Compare-and-set of UpdateTable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, request: Request, forward: Forward) -> Reply:
        if not is_glue_call(request, "UpdateTable"):
            return forward(request)
        with self._lock:
            asked = json.loads(request.body)
            current = self._current(request, asked, forward)
            if current is not None and asked.get("VersionId") not in (None, current):
                return _conflict(asked["VersionId"], current)
            return forward(request)

    def _current(self, request: Request, asked: dict[str, object], forward: Forward) -> str | None:
        table = asked["TableInput"]
        assert isinstance(table, dict)
        body = json.dumps({"DatabaseName": asked["DatabaseName"], "Name": table["Name"]}).encode()
        headers = {k: v for k, v in request.headers.items() if k.lower() != _TARGET.lower()}
        reply = forward(Request("POST", request.path, {**headers, _TARGET: "AWSGlue.GetTable"}, body))
        if reply.status != 200:
            return None
        return str(json.loads(reply.body)["Table"]["VersionId"])


def _conflict(asked: str, current: str) -> Reply:
    name = "ConcurrentModificationException"
    body = {"__type": name, "Message": f"Update table failed due to concurrent modifications: {asked} is not {current}"}
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": name}
    return Reply(400, headers, json.dumps(body).encode())


def refused(call: str) -> Reply:
    """What AWS answers for a call that nobody allowed."""
    name = "AccessDeniedException"
    body = {"__type": name, "Message": f"User: nobody is not authorized to perform: {call}"}
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": name}
    return Reply(400, headers, json.dumps(body).encode())


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/moto-api/")
        return connection.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
