"""Counts the requests of a load by kind: proxies before S3 and the catalog that pass everything on, on this machine.

For small loads: bodies are held whole. Never used in a timed run.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.workload import BUCKET

LISTING, STATE, LANDING = "listing", "state", "landing object"
METADATA, DATA, TABLE_WRITE = "table metadata", "data file", "write to a table"
CATALOG_READ, CATALOG_WRITE = "catalog read", "catalog commit"
ALLOWED = (LISTING, STATE, METADATA, CATALOG_READ)
"""What a load that finds nothing unseen may ask for: the listing, its state, and where the tables stand."""

_HOP = ("connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the proxy saw it; `target` is path and query."""

    service: str
    method: str
    target: str


def kind(request: Request, *, state: str) -> str:
    """What a request is for; `state` is the bucket of the state folder."""
    url = urlsplit(request.target)
    writes = request.method not in ("GET", "HEAD")
    if request.service == "catalog":
        harmless = "/oauth/" in url.path or not writes or url.path.endswith("/metrics")
        return CATALOG_READ if harmless else CATALOG_WRITE
    bucket, _, key = url.path.lstrip("/").partition("/")
    if bucket == state:
        return STATE
    if bucket == BUCKET:
        return LISTING if not writes and (not key or "list-type" in parse_qs(url.query)) else LANDING
    if writes:
        return TABLE_WRITE
    return DATA if key.endswith(".parquet") else METADATA


def by_kind(seen: list[Request], *, state: str) -> dict[str, int]:
    """Numbers of requests by kind, sorted by name."""
    return dict(sorted(Counter(kind(request, state=state) for request in seen).items()))


@contextmanager
def counted(env: Mapping[str, str]) -> Iterator[tuple[dict[str, str], list[Request]]]:
    """The environment with both services behind proxies, and the list that fills while the block runs."""
    seen: list[Request] = []
    services = {"s3": env["AWS_ENDPOINT_URL_S3"], "catalog": env["PYICEBERG_CATALOG__DEFAULT__URI"]}
    changed = dict(env)
    servers = []
    for service, url in services.items():
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service, urlsplit(url).netloc, seen))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        own = f"http://127.0.0.1:{server.server_address[1]}"
        changed = {name: value.replace(url, own) for name, value in changed.items()}
    try:
        yield changed, seen
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(service: str, address: str, seen: list[Request]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            seen.append(Request(service, self.command, self.path))
            body = self._body()
            connection = http.client.HTTPConnection(address)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # Host too: the signature covers it
                if name.lower() not in _HOP and name.lower() != "content-length":
                    connection.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            data = response.read()
            self.send_response(response.status)
            length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            for name, value in response.getheaders():
                if name.lower() not in _HOP and name.lower() != "content-length":
                    self.send_header(name, value)
            if length is not None and response.status != 204:
                self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(data)
            connection.close()

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, *_: Any) -> None:
            pass

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on

    return Handler
