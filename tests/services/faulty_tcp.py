"""A TCP relay before PostgreSQL that cuts a connection at the COMMIT of a chosen statement: after it, or before it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PIECE = 1 << 16


class FaultyPostgres:
    """Relays to a server on 127.0.0.1. `lose` and `refuse` cut the next transaction that holds the given statement.

    `lose`: the server commits, its answer does not arrive. `refuse`: the COMMIT itself does not arrive. `hits` counts.
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._lock = threading.Lock()
        self._fault: tuple[str, bytes] | None = None
        self.hits = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @contextmanager
    def running(self) -> Iterator[FaultyPostgres]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join()

    def lose(self, statement: str) -> None:
        self._fault = ("lose", statement.encode())

    def refuse(self, statement: str) -> None:
        self._fault = ("refuse", statement.encode())

    def clear(self) -> None:
        with self._lock:
            self._fault, self.hits = None, 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the relay is over
            server = socket.create_connection(("127.0.0.1", self._upstream))
            cut = threading.Event()
            threading.Thread(target=self._to_server, args=(client, server, cut), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client, cut), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        chosen = False
        while data := _receive(client):
            if (fault := self._fault) and fault[1] in data:
                chosen = True
            if chosen and b"COMMIT" in data and (kind := self._take()):
                if kind == "refuse":
                    break
                cut.set()
            if not _send(server, data):
                break
        _close(client, server)

    def _to_client(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        while data := _receive(server):
            if cut.is_set() or not _send(client, data):
                break
        _close(client, server)

    def _take(self) -> str | None:
        with self._lock:
            if self._fault is None:
                return None
            kind, self._fault = self._fault[0], None
            self.hits += 1
            return kind


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(_PIECE)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> bool:
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


def _close(*ends: socket.socket) -> None:
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # the other direction was faster
        finally:
            end.close()
