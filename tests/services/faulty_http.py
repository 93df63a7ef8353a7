"""An HTTP server between a client and a service that loses responses, refuses requests or holds them, on demand.

What no fault is asked for passes unchanged. `lose`: the service executes the request, the client's connection is cut
instead of an answer. `refuse`: cut before the service sees anything. `hold`: the service sees it once the gate opens.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOLD_SECONDS = 60.0
"""A gate that nobody opens ends the wait then: no test hangs."""
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """`length` is what an answer without a body said of the one that it stands for."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    length: str | None = None


Forward = Callable[[Request], Reply]
Matches = Callable[[Request], bool]


@dataclass
class _Fault:
    matches: Matches
    kind: str
    times: int
    gate: threading.Event = field(default_factory=threading.Event)


class FaultyHttp:
    """Faults wait in `lose`, `refuse` and `hold` for the first `times` requests that match; `hits` counts them."""

    def __init__(
        self,
        upstream: str,
        *,
        between: Callable[[Request, Forward], Reply] | None = None,
        as_addressed: bool = False,
    ) -> None:
        """`as_addressed` hands on the Host header, which signatures of AWS cover."""
        split = urlsplit(upstream)
        self._dropped = _HOP_BY_HOP - ({"host"} if as_addressed else set())
        self._upstream = (split.hostname or "", split.port or 80)
        self._between = between
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self.hits = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{split.path}"

    @contextmanager
    def running(self) -> Iterator[FaultyHttp]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def lose(self, matches: Matches, *, times: int = 1) -> None:
        self._faults.append(_Fault(matches, "lose", times))

    def refuse(self, matches: Matches, *, times: int = 1) -> None:
        self._faults.append(_Fault(matches, "refuse", times))

    def hold(self, matches: Matches, *, times: int = 1) -> threading.Event:
        """The gate to open; the answer of a held request goes nowhere if its client has hung up."""
        fault = _Fault(matches, "hold", times)
        self._faults.append(fault)
        return fault.gate

    def clear(self) -> None:
        with self._lock:
            for fault in self._faults:
                fault.gate.set()
            self._faults.clear()
            self.hits = 0

    def _next_fault(self, request: Request) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times > 0 and fault.matches(request):
                    fault.times -= 1
                    self.hits += 1
                    return fault
        return None

    def _forward(self, request: Request) -> Reply:
        connection = HTTPConnection(*self._upstream, timeout=120)
        try:
            connection.request(request.method, request.path, body=request.body, headers=dict(request.headers))
            response = connection.getresponse()
            headers = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_BY_HOP}
            return Reply(response.status, headers, response.read(), response.getheader("Content-Length"))
        finally:
            connection.close()

    def _answer(self, request: Request) -> Reply | None:
        """None cuts the connection."""
        fault = self._next_fault(request)
        if fault and fault.kind == "refuse":
            return None
        if fault and fault.kind == "hold":
            fault.gate.wait(HOLD_SECONDS)
        reply = self._between(request, self._forward) if self._between else self._forward(request)
        return None if fault and fault.kind == "lose" else reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 120
            # Head and body in one segment, or each answer waits for a delayed acknowledgement.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True  # the client hung up, which is what faults are about

            def handle_expect_100(self) -> bool:
                """A client that asks before it sends its body waits for a second otherwise."""
                done = super().handle_expect_100()
                self.wfile.flush()
                return done

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing: pytest shows what matters."""

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                whole = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return whole

            def _serve(self) -> None:
                body = self._body()
                headers = {k: v for k, v in self.headers.items() if k.lower() not in proxy._dropped}
                reply = proxy._answer(Request(self.command, self.path, headers, body))
                if reply is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if self.command == "HEAD":
                    self.send_header("Content-Length", reply.length or "0")
                elif reply.status != 204:
                    self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve

        return Handler
