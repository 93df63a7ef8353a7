"""A door before the real S3 that knows which IAM action each request needs: it writes them down, and refuses some."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request


@dataclass(frozen=True)
class Asked:
    """What IAM decides about: `key` is the prefix of a listing."""

    action: str
    bucket: str
    key: str

    @property
    def resource(self) -> str:
        """The ARN without its partition's head: a listing is of the bucket."""
        return self.bucket if self.action.startswith("s3:ListBucket") else f"{self.bucket}/{self.key}"


def asked(request: Request) -> list[Asked]:
    """The actions of one request, as the S3 user guide lists them per operation."""
    split = urlsplit(request.path)
    bucket, _, key = unquote(split.path).lstrip("/").partition("/")
    query = parse_qs(split.query, keep_blank_values=True)
    if request.method == "POST" and "delete" in query:
        keys = re.findall(rb"<Key>([^<]+)</Key>", request.body)
        return [Asked("s3:DeleteObject", bucket, one.decode()) for one in keys]
    if not key:
        assert request.method in ("GET", "HEAD"), request
        return [Asked("s3:ListBucket", bucket, query.get("prefix", [""])[0])]
    return [Asked(_action(request.method, query), bucket, key)]


def _action(method: str, query: dict[str, list[str]]) -> str:
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    return {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "POST": "s3:PutObject"}[method]


@dataclass
class S3Door:
    """`refuse` answers None, or the S3 error code and status instead of the service; `message` is what it says then.

    `hidden`: S3 tells only who may list the bucket that a key is not there; others are refused.
    """

    url: str = ""
    seen: list[Asked] = field(default_factory=list)
    refuse: Callable[[Asked], tuple[str, int] | None] = lambda _: None
    message: str = "no"
    hidden: Callable[[Asked], bool] = lambda _: False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request, forward: Forward) -> Reply:
        wanted = asked(request)
        with self._lock:
            self.seen += wanted
        for one in wanted:
            if (refused := self.refuse(one)) is not None:
                return _refusal(*refused, one, self.message)
        reply = forward(request)
        gone = reply.status == 404 and any(self.hidden(one) for one in wanted)
        return _refusal("AccessDenied", 403, wanted[0], self.message) if gone else reply


@contextmanager
def s3_door(upstream: str) -> Iterator[S3Door]:
    door = S3Door()
    with FaultyHttp(upstream, between=door, signed=True).running() as served:
        door.url = served.url
        yield door


def _refusal(code: str, status: int, one: Asked, message: str) -> Reply:
    resource = f"<Resource>/{one.bucket}/{one.key}</Resource>"
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message>{resource}</Error>"
    headers = {"Content-Type": "application/xml", "x-amz-bucket-region": "us-west-2"}
    return Reply(status, headers, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode())
