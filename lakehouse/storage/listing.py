"""S3 listings, page by page, with keys exactly as S3 knows them.

boto3 signs, sends and retries; the pages are parsed here, because obstore's listing cannot be used: its paths drop the
`/` of folder markers, one key with `//` or a control character fails the whole listing, and an error document that
comes with status 200 reads as an empty one. Parsing with the standard library costs an eighth of boto3's own parser.
Never yields a page that is not a complete answer.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from lakehouse.model import LandingObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PAGE = "LakehousePage"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `token` is None on the last one."""

    objects: tuple[LandingObject, ...]
    token: str | None


def list_pages(client: S3Client, bucket: str, prefix: str) -> Iterator[Page]:
    """All pages of a listing, in order. Raises botocore's exceptions and ParseError; never ends early."""
    token: str | None = None
    while True:
        more: dict[str, Any] = {"ContinuationToken": token} if token else {}
        answer: dict[str, Any] = dict(client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more))
        page: Page = answer[_PAGE]
        yield page
        if page.token is None:
            return
        if page.token == token:
            raise ElementTree.ParseError("the listing gave the same continuation token twice")
        token = page.token


def install_page_parser(client: S3Client, bucket: str) -> None:
    """Make this client parse pages of this bucket's listings with `parse_page`."""

    def parse(response_dict: MutableMapping[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
        if response_dict["status_code"] == 200:
            customized_response_dict[_PAGE] = parse_page(response_dict["body"], bucket)
            response_dict["body"] = b"<ListBucketResult/>"

    client.meta.events.register("before-parse.s3.ListObjectsV2", parse)


def parse_page(body: bytes, bucket: str) -> Page:
    """Read a ListObjectsV2 answer; anything but a complete listing page raises ParseError."""
    root = ElementTree.fromstring(body)
    space = root.tag[: root.tag.find("}") + 1]
    if root.tag != f"{space}ListBucketResult":
        raise ElementTree.ParseError(f"the answer is no listing: <{root.tag.removeprefix(space)}>")
    encoded = root.findtext(f"{space}EncodingType") == "url"
    objects = tuple(_object(entry, space, bucket, encoded) for entry in root.iterfind(f"{space}Contents"))
    truncated = root.findtext(f"{space}IsTruncated")
    token = root.findtext(f"{space}NextContinuationToken") or None
    if truncated not in ("true", "false") or (truncated == "true") != bool(token):
        raise ElementTree.ParseError("the listing does not say whether more follows")
    return Page(objects, token)


def _object(entry: ElementTree.Element, space: str, bucket: str, encoded: bool) -> LandingObject:
    key, modified = entry.findtext(f"{space}Key"), entry.findtext(f"{space}LastModified")
    size, etag = entry.findtext(f"{space}Size"), entry.findtext(f"{space}ETag")
    if not key or not modified or not size or not etag:
        raise ElementTree.ParseError("an entry of the listing lacks key, time, size or etag")
    uri = f"s3://{bucket}/{unquote_plus(key) if encoded else key}"
    return LandingObject(uri, etag, int(size), datetime.fromisoformat(modified).astimezone(UTC))
