"""An HTTP server between a client and a service that loses responses, refuses requests or holds them, on demand.

What no fault is asked for passes unchanged. `lose`: the service executes the request, the client's connection is cut
instead of an answer. `refuse`: cut before the service sees anything. `hold`: the service sees it once the gate opens.
`mute`: the service executes it, and the answer waits for the gate. `halve`: the connection is cut in the middle of the
answer's body. `answer`: this answer is given, with or without the service having executed the request. `slow`: the
service sees it so many seconds later.
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
    chunked: bool = False


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    length: int = 0
    """That an answer without a body (HEAD) speaks of."""


Forward = Callable[[Request], Reply]
Matches = Callable[[Request], bool]


@dataclass
class _Fault:
    matches: Matches
    kind: str
    times: int
    gate: threading.Event = field(default_factory=threading.Event)
    reply: Reply | None = None
    seconds: float = 0.0


class FaultyHttp:
    """Faults wait for the first `times` requests that match; `hit` are their paths, `under_way` counts requests
    without an answer.

    `signed`: the service proves signatures over the name of the host, so it gets the one that clients say.
    """

    def __init__(
        self, upstream: str, *, between: Callable[[Request, Forward], Reply] | None = None, signed: bool = False
    ) -> None:
        split = urlsplit(upstream)
        self._dropped = _HOP_BY_HOP - ({"host"} if signed else set())
        self._upstream = (split.hostname or "", split.port or 80)
        self._between = between
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self.hit: list[str] = []
        self.under_way = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{split.path}"

    @property
    def hits(self) -> int:
        return len(self.hit)

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

    def mute(self, matches: Matches, *, times: int = 1) -> None:
        """The gate opens with `clear`."""
        self._faults.append(_Fault(matches, "mute", times))

    def halve(self, matches: Matches, *, times: int = 1) -> None:
        self._faults.append(_Fault(matches, "halve", times))

    def answer(self, matches: Matches, reply: Reply, *, times: int = 1, executed: bool = False) -> None:
        self._faults.append(_Fault(matches, "executed" if executed else "answer", times, reply=reply))

    def slow(self, matches: Matches, seconds: float, *, times: int = 1) -> None:
        self._faults.append(_Fault(matches, "slow", times, seconds=seconds))

    def clear(self) -> None:
        with self._lock:
            for fault in self._faults:
                fault.gate.set()
            self._faults.clear()
            self.hit.clear()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def _next_fault(self, request: Request) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times > 0 and fault.matches(request):
                    fault.times -= 1
                    self.hit.append(request.path)
                    return fault
        return None

    def _forward(self, request: Request) -> Reply:
        connection = HTTPConnection(*self._upstream, timeout=120)
        try:
            body = iter([request.body]) if request.chunked else request.body
            headers = dict(request.headers) | ({"Transfer-Encoding": "chunked"} if request.chunked else {})
            connection.request(request.method, request.path, body, headers, encode_chunked=request.chunked)
            response = connection.getresponse()
            headers = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_BY_HOP}
            length = int(response.getheader("Content-Length") or 0) if request.method == "HEAD" else 0
            return Reply(response.status, headers, response.read(), length)
        finally:
            connection.close()

    def _answer(self, request: Request) -> tuple[Reply | None, int | None]:
        """The answer, None to cut the connection, and how many bytes of its body are sent, None for all."""
        fault = self._next_fault(request)
        kind = fault.kind if fault else ""
        if kind == "refuse":
            return None, None
        if fault and kind == "answer":
            return fault.reply, None
        if fault and kind in ("hold", "slow"):
            fault.gate.wait(fault.seconds or HOLD_SECONDS)
        reply = self._between(request, self._forward) if self._between else self._forward(request)
        if fault and kind == "mute":
            fault.gate.wait(HOLD_SECONDS)
        if fault and kind == "executed":
            return fault.reply, None
        return (None if kind == "lose" else reply), (len(reply.body) // 2 if kind == "halve" else None)

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

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing: pytest shows what matters."""

            def handle_expect_100(self) -> bool:
                sent = super().handle_expect_100()
                self.wfile.flush()  # the client waits for it before it sends the body
                return sent

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                chunks = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    continue  # trailers
                return b"".join(chunks)

            def _serve(self) -> None:
                body, chunked = self._body(), "chunked" in self.headers.get("Transfer-Encoding", "")
                headers = {k: v for k, v in self.headers.items() if k.lower() not in proxy._dropped}
                with proxy._counted():
                    reply, sent = proxy._answer(Request(self.command, self.path, headers, body, chunked))
                if reply is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.status != 204:
                    self.send_header("Content-Length", str(reply.length or len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body[:sent])
                if sent is not None:
                    self.wfile.flush()
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve

        return Handler
