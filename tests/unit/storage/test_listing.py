"""Listing pages are read exactly, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote_plus
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape

import pytest

from lakehouse.model import LandingObject
from lakehouse.storage.listing import parse_page

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
