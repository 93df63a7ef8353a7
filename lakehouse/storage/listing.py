"""S3 listings, page by page, with keys exactly as S3 knows them.

boto3 signs, sends and retries; the pages are parsed here, because obstore's listing cannot be used: its paths drop the
`/` of folder markers, one key with `//` or a control character fails the whole listing, and an error document that
comes with status 200 reads as an empty one. Parsing with the standard library costs an eighth of boto3's own parser.
Never yields a page that is not a complete answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

from botocore.handlers import _handle_200_error as look_for_error  # type: ignore[attr-defined]

from lakehouse.model import LandingObject

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_s3 import S3Client

_BODY = "LakehouseBody"
_TOKEN = re.compile(rb"<NextContinuationToken>([^<]+)</NextContinuationToken>")
_BEGINNING = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `token` is None on the last one."""

    objects: tuple[LandingObject, ...]
    token: str | None


def list_pages(client: S3Client, bucket: str, prefix: str) -> Iterator[Page]:
    """All pages of a listing, in order; the next one is asked for while one is parsed.

    Raises botocore's exceptions and ParseError; never ends early.
    """

    def fetch(token: str | None) -> bytes:
        more: dict[str, Any] = {"ContinuationToken": token} if token else {}
        answer: dict[str, Any] = dict(client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more))
        body: bytes = answer[_BODY]
        return body

    with ThreadPoolExecutor(1, thread_name_prefix="listing") as ahead:
        token, coming = None, ahead.submit(fetch, None)
        while True:
            body = coming.result()
            if (hint := _next_token(body)) is not None:
                coming = ahead.submit(fetch, hint)
            page = parse_page(body, bucket)
            yield page
            if page.token is None:
                return
            if page.token == token:
                raise ElementTree.ParseError("the listing gave the same continuation token twice")
            if page.token != hint:
                coming = ahead.submit(fetch, page.token)
            token = page.token


def _next_token(body: bytes) -> str | None:
    """What the page seems to give as its token, without parsing it."""
    found = _TOKEN.search(body)
    return unescape(found[1].decode()) if found else None


def keep_bodies(client: S3Client) -> None:
    """Make this client hand the bytes of listings to `list_pages` and parse nothing of them.

    botocore's own look for errors in answers with status 200 would parse each page as a whole: it is done here. What
    is no listing becomes a 500, which is asked for again.
    """

    def keep(
        operation_model: OperationModel,
        response_dict: MutableMapping[str, Any],
        customized_response_dict: dict[str, Any],
        **_: object,
    ) -> None:
        if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
            return
        if b"<ListBucketResult" in response_dict["body"][:_BEGINNING]:
            customized_response_dict[_BODY] = response_dict["body"]
            response_dict["body"] = b"<ListBucketResult/>"
        else:
            response_dict["status_code"] = 500

    client.meta.events.unregister("before-parse.s3.*", look_for_error)
    client.meta.events.register_first("before-parse.s3.*", keep)


def parse_page(body: bytes, bucket: str) -> Page:
    """Read a ListObjectsV2 answer; anything but a complete listing page raises ParseError."""
    root = ElementTree.fromstring(body)
    space = root.tag[: root.tag.find("}") + 1]
    if root.tag != f"{space}ListBucketResult":
        raise ElementTree.ParseError(f"the answer is no listing: <{root.tag.removeprefix(space)}>")
    encoded = root.findtext(f"{space}EncodingType") == "url"
    names = _Names(*(f"{space}{name}" for name in ("Key", "LastModified", "Size", "ETag")))
    place = f"s3://{bucket}/"
    objects = tuple(_object(entry, names, place, encoded) for entry in root.iterfind(f"{space}Contents"))
    truncated = root.findtext(f"{space}IsTruncated")
    token = root.findtext(f"{space}NextContinuationToken") or None
    if truncated not in ("true", "false") or (truncated == "true") != bool(token):
        raise ElementTree.ParseError("the listing does not say whether more follows")
    return Page(objects, token)


class _Names(NamedTuple):
    """Tags of an entry, with their namespace."""

    key: str
    modified: str
    size: str
    etag: str


def _object(entry: ElementTree.Element, names: _Names, place: str, encoded: bool) -> LandingObject:
    find = entry.findtext
    key, modified, size, etag = find(names.key), find(names.modified), find(names.size), find(names.etag)
    if not key or not modified or not size or not etag:
        raise ElementTree.ParseError("an entry of the listing lacks key, time, size or etag")
    if encoded and ("%" in key or "+" in key):
        key = unquote_plus(key)
    return LandingObject(place + key, etag, int(size), datetime.fromisoformat(modified).astimezone(UTC))
