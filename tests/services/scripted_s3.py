"""An S3 whose answers a test writes: what no real one would say on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from lakehouse.storage import Patience, Storage, open_storage

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
QUICK = Patience(connect=1, answer=1, body=1, retries=0, backoff=0.001, give_up=1)


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None


@dataclass
class Stub:
    """A server whose `script` answers by method, path and query; every request is kept in `seen`."""

    script: Callable[[str, str, dict[str, str]], Answer]
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def open(self, patience: Patience = QUICK) -> Storage:
        env = {
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL_S3": self.url,
        }
        return open_storage("s3://landing/", env, patience=patience)


@contextmanager
def scripted_s3() -> Iterator[Stub]:
    """A server that answers 500 until it has a script."""
    served = Stub(script=lambda method, path, query: Answer(500))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            served.seen.append((self.command, parts.path, dict(self.headers)))
            reply = served.script(self.command, parts.path, query)
            self.send_response(reply.status)
            length = len(reply.body) if reply.promised is None else reply.promised
            headers = {"ETag": '"e1"', "Last-Modified": "Sat, 29 Aug 2026 10:00:00 GMT", **reply.headers}
            for name, value in {"Content-Length": str(length), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            self.close_connection = reply.promised is not None

        do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


def refusal(code: str, status: int, message: str = "no") -> Answer:
    """An error as S3 writes it, with the parts of a signature error that name keys."""
    text = f"<Error><Code>{code}</Code><Message>{message}</Message><AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId></Error>"
    headers = {"x-amz-bucket-region": "us-west-2"} if status == 301 else {}
    return Answer(status, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode(), headers)


def page(keys: Sequence[str | tuple[str, int, str]], token: str | None = None) -> Answer:
    """A page of a listing: keys, or keys with the object's size and storage class."""
    listed = [(key, 3, "STANDARD") if isinstance(key, str) else key for key in keys]
    entries = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-08-29T10:00:00.000Z</LastModified>"
        f"<ETag>&quot;e1&quot;</ETag><Size>{size}</Size><StorageClass>{storage_class}</StorageClass></Contents>"
        for key, size, storage_class in listed
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return Answer(
        body=f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>{str(bool(token)).lower()}'
        f"</IsTruncated>{more}{entries}</ListBucketResult>".encode()
    )
