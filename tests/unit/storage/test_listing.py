"""Listing pages are read exactly, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape

import pytest

from lakehouse.model import LandingObject
from lakehouse.storage.listing import list_pages, parse_page

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

KEYS = ["in/", "in//x", "a b", "a+b", "a%20b", "[1]", "q?#&=", "'\"<>`", "café", "tab\there", "é", "日本", "../up"]
END = "<IsTruncated>false</IsTruncated>"


def listing(inner: str, name: str = "ListBucketResult") -> bytes:
    return f'<?xml version="1.0"?><{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'.encode()


def entry(key: str) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-08-29T10:00:00.123Z</LastModified>"
        f"<ETag>&quot;d41d8cd9-2&quot;</ETag><Size>7</Size></Contents>"
    )


@pytest.mark.parametrize("encoded", [True, False])
def test_keys_come_as_they_are(encoded: bool) -> None:
    kind = "<EncodingType>url</EncodingType>" if encoded else ""
    body = listing(kind + END + "".join(entry(quote_plus(key) if encoded else key) for key in KEYS))
    page = parse_page(body, "landing")
    assert [obj.uri for obj in page.objects] == [f"s3://landing/{key}" for key in KEYS]
    modified = datetime(2026, 8, 29, 10, 0, 0, 123000, tzinfo=UTC)
    assert page.objects[0] == LandingObject("s3://landing/in/", '"d41d8cd9-2"', 7, modified)
    assert page.token is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        listing("<Code>SlowDown</Code>", name="Error"),
        listing(entry("a")),
        listing("<IsTruncated>true</IsTruncated>" + entry("a")),
        listing(END + "<NextContinuationToken>x</NextContinuationToken>"),
        listing(END + entry("a").replace("<Size>7</Size>", "")),
        listing(END + entry("a").replace("&quot;d41d8cd9-2&quot;", "")),
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse_page(body, "landing")


def page(number: int, more: str) -> bytes:
    """A page of one key that says how it goes on."""
    end = f"<IsTruncated>true</IsTruncated>{more}" if more else END
    return listing(entry(str(number)) + end)


class Pages:
    """A client that answers with the bytes of pages by token, as ours does."""

    def __init__(self, by_token: dict[str | None, bytes]) -> None:
        self.by_token = by_token
        self.asked: list[str | None] = []

    def list_objects_v2(self, *, ContinuationToken: str | None = None, **_: str) -> dict[str, Any]:
        self.asked.append(ContinuationToken)
        return {"LakehouseBody": self.by_token[ContinuationToken]}


def token(text: str) -> str:
    return f"<NextContinuationToken>{text}</NextContinuationToken>"


@pytest.mark.parametrize(
    ("written", "asked"),
    [("a&amp;b", ["a&b"]), ("a&#38;b", ["a&#38;b", "a&b"]), ("<![CDATA[a&b]]>", ["a&b"])],
)
def test_the_next_page_is_the_one_that_the_page_names_however_it_is_written(written: str, asked: list[str]) -> None:
    """What is asked for ahead is a guess: another page is never taken for the next one."""
    client = Pages({None: page(1, token(written)), "a&b": page(2, ""), "a&#38;b": page(9, token("wrong"))})
    found = [*list_pages(cast("S3Client", client), "landing", "in/")]
    assert [obj.uri for one in found for obj in one.objects] == ["s3://landing/1", "s3://landing/2"]
    assert client.asked == [None, *asked]


def test_a_token_that_comes_twice_ends_the_listing_with_an_error() -> None:
    client = Pages({None: page(1, token("x")), "x": page(2, token("x"))})
    with pytest.raises(ParseError, match="twice"):
        [*list_pages(cast("S3Client", client), "landing", "in/")]
