"""`make audit` against a service like OSV: it fails for a known vulnerability, and goes on where nobody answers."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit"
ADVISORY = {
    "id": "PYSEC-2026-1",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "planted",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "requests"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}],
        }
    ],
}


class Advisories:
    """What the service says; `asked` are the names of packages."""

    def __init__(self) -> None:
        self.vulnerable: set[str] = set()
        self.status = 200
        self.asked: list[str] = []
        self.url = ""


@pytest.fixture
def advisories() -> Iterator[Advisories]:
    said = Advisories()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            names = [query["package"]["name"] for query in queries]
            said.asked += names
            known = {"vulns": [{"id": ADVISORY["id"], "modified": ADVISORY["modified"]}]}
            self.reply({"results": [known if name in said.vulnerable else {} for name in names]})

        def do_GET(self) -> None:
            self.reply(ADVISORY)

        def reply(self, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(said.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    said.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield said
    server.shutdown()
    server.server_close()
    thread.join()


def audit(url: str, *arguments: str) -> tuple[int, str]:
    command = [SCRIPT, "--service-url", url, *arguments]
    env = {**os.environ, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    return done.returncode, done.stdout + done.stderr


def test_every_locked_dependency_is_asked_about(advisories: Advisories) -> None:
    code, said = audit(advisories.url)
    assert (code, "no known vulnerabilities" in said) == (0, True)
    assert {"pyiceberg", "duckdb", "dagster", "pytest"} <= set(advisories.asked)


def test_a_known_vulnerability_fails(advisories: Advisories) -> None:
    advisories.vulnerable = {"requests"}
    code, said = audit(advisories.url)
    assert code == 1
    assert "PYSEC-2026-1: planted" in said


@pytest.mark.parametrize("status", [None, 503, 403])
def test_a_service_that_cannot_be_reached_is_one_line(advisories: Advisories, status: int | None) -> None:
    advisories.status = status or 200
    code, said = audit(advisories.url if status else "http://127.0.0.1:9")
    assert (code, said) == (0, "audit: the advisory service cannot be reached: nothing was audited\n")


def test_what_else_is_wrong_fails(advisories: Advisories) -> None:
    code, said = audit(advisories.url, "--no-such-option")
    assert code == 2
    assert "--no-such-option" in said
