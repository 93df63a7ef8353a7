"""Every answer of a storage service ends as the error that says what to do. Answers come from a scripted S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.errors import ConfigurationError, LakehouseError, ObjectChanged, Unavailable, UnreadableObject
from lakehouse.model import LandingObject
from lakehouse.storage import Patience, Storage, open_storage
from tests.services.scripted_s3 import SECRET, Answer, Stub, page, refusal, scripted_s3

TWICE = Patience(connect=1, answer=1, body=1, retries=1, backoff=0.001, give_up=5)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with scripted_s3() as served:
        yield served


def listed(key: str, etag: str = '"e1"', size: int = 3) -> LandingObject:
    return LandingObject(f"s3://landing/{key}", etag, size, datetime(2026, 8, 29, 10, tzinfo=UTC))


OPERATIONS: dict[str, Callable[[Storage], object]] = {
    "list": lambda storage: [*storage.list("in/")],
    "read": lambda storage: storage.read("in/a"),
    "create": lambda storage: storage.create("in/a", b"x"),
    "replace": lambda storage: storage.replace("in/a", b"x", '"e0"'),
    "put": lambda storage: storage.put("in/a", b"x"),
    "delete": lambda storage: storage.delete("in/a"),
}

REFUSALS = [
    ("InvalidAccessKeyId", 403, ConfigurationError, "credentials"),
    ("SignatureDoesNotMatch", 403, ConfigurationError, "credentials"),
    ("AccessDenied", 403, ConfigurationError, "does not allow it"),
    ("ExpiredToken", 400, ConfigurationError, "credentials have expired"),
    ("NoSuchBucket", 404, ConfigurationError, "bucket=landing"),
    ("PermanentRedirect", 301, ConfigurationError, "AWS_REGION"),
    ("RequestTimeTooSkewed", 403, ConfigurationError, "clock"),
    ("SlowDown", 503, Unavailable, "status=503 code=SlowDown"),
    ("InternalError", 500, Unavailable, "status=500"),
    ("TooManyRequests", 429, Unavailable, "status=429"),
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("code", "status", "expected", "text"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_a_refusal_says_what_to_do(
    stub: Stub, operation: str, code: str, status: int, expected: type[LakehouseError], text: str
) -> None:
    stub.script = lambda method, path, query: refusal(code, status, message=f"key {SECRET}")
    with pytest.raises(expected) as caught:
        OPERATIONS[operation](stub.open())
    assert text in str(caught.value)
    assert "uri=s3://landing/in/" in str(caught.value)
    assert f"endpoint={stub.url}" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "AKIA" not in str(caught.value)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_endpoint_that_is_not_there_is_unavailable(operation: str) -> None:
    unreachable = Stub(script=lambda *_: Answer(), url="http://user:pass@127.0.0.1:9")
    with pytest.raises(Unavailable) as caught:
        OPERATIONS[operation](unreachable.open())
    assert "endpoint=http://127.0.0.1:9" in str(caught.value)


def test_absent_is_none_and_a_held_condition_is_no_error(stub: Stub) -> None:
    stub.script = lambda method, path, query: refusal("NoSuchKey", 404)
    assert stub.open().read("in/a") is None
    assert stub.open().replace("in/a", b"x", '"e0"') is None
    stub.open().delete("in/a")
    stub.script = lambda method, path, query: refusal("PreconditionFailed", 412)
    assert stub.open().create("in/a", b"x") is False
    assert stub.open().replace("in/a", b"x", '"e0"') is None


def test_a_write_that_landed_unseen_is_ours(stub: Stub) -> None:
    """The answer to the first try is lost; the second finds the object, which holds our bytes."""
    for content, ours in ((b"x", True), (b"somebody else's", False)):
        writes = iter([refusal("InternalError", 500), refusal("PreconditionFailed", 412)])
        stub.script = lambda method, path, query, w=writes, c=content: next(w) if method == "PUT" else Answer(body=c)  # type: ignore[misc]
        assert stub.open(TWICE).create("in/a", b"x") is ours


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (refusal("AccessDenied", 403), ConfigurationError),
        (refusal("SlowDown", 503), Unavailable),
        (refusal("InternalError", 200), Unavailable),
        (Answer(body=b"<html>captive portal</html>"), Unavailable),
        (Answer(body=b"<ListBucketResult/>"), Unavailable),
        (Answer(body=b"<ListBucketResult><IsTr", promised=4000), Unavailable),
        (page(["in/b"], token="next"), Unavailable),
    ],
    ids=["denied", "slow", "error-with-200", "no-xml", "no-end", "cut", "same-token"],
)
def test_a_listing_that_fails_midway_is_never_a_short_one(
    stub: Stub, second: Answer, expected: type[LakehouseError]
) -> None:
    stub.script = lambda method, path, query: second if "continuation-token" in query else page(["in/a"], token="next")
    with pytest.raises(expected):
        list(stub.open().list("in/"))


def test_all_pages_are_listed(stub: Stub) -> None:
    keys = [f"in/part-{number:04}.csv" for number in range(2500)]
    pages = {"": page(keys[:1000], token="p2"), "p2": page(keys[1000:2000], token="p3"), "p3": page(keys[2000:])}
    stub.script = lambda method, path, query: pages[query.get("continuation-token", "")]
    assert [obj.uri for obj in stub.open().list("in/")] == [f"s3://landing/{key}" for key in keys]


def test_a_page_that_fails_once_is_asked_for_again(stub: Stub) -> None:
    answers = iter([page(["in/a"], token="p2"), refusal("SlowDown", 503), page(["in/b"])])
    stub.script = lambda method, path, query: next(answers)
    assert [obj.uri for obj in stub.open(TWICE).list("in/")] == ["s3://landing/in/a", "s3://landing/in/b"]


@pytest.mark.parametrize("key", ["in/a", "in//a", "in/a/"])
def test_fetch_takes_the_listed_version_or_none(stub: Stub, tmp_path: Path, key: str) -> None:
    """Also for keys that obstore's paths cannot hold."""
    stub.script = lambda method, path, query: Answer(body=b"abc")
    stub.open().fetch(listed(key), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"abc"
    method, path, headers = stub.seen[-1]
    assert (method, path, headers.get("If-Match", headers.get("if-match"))) == ("GET", f"/landing/{key}", '"e1"')
    for answer, word in ((refusal("PreconditionFailed", 412), "overwritten"), (refusal("NoSuchKey", 404), "deleted")):
        stub.script = lambda method, path, query, a=answer: a  # type: ignore[misc]
        with pytest.raises(ObjectChanged, match=word) as caught:
            stub.open().fetch(listed(key), tmp_path / "copy")
        assert caught.value.uri == f"s3://landing/{key}"


@pytest.mark.parametrize("key", ["in/a", "in//a"])
def test_a_download_that_breaks_off_is_unavailable(stub: Stub, tmp_path: Path, key: str) -> None:
    stub.script = lambda method, path, query: Answer(body=b"ab", promised=3)
    with pytest.raises(Unavailable):
        stub.open().fetch(listed(key), tmp_path / "copy")


def test_one_unreadable_object_concerns_itself_alone(stub: Stub, tmp_path: Path) -> None:
    stub.script = lambda method, path, query: refusal("InvalidObjectState", 403)
    with pytest.raises(UnreadableObject, match="archived"):
        stub.open().fetch(listed("in/a"), tmp_path / "copy")
    with pytest.raises(UnreadableObject, match="fold"):
        stub.open().fetch(listed("in/../a"), tmp_path / "copy")


def test_no_credentials_are_named_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for env, text in (
        ({}, "no AWS credentials found"),
        ({"AWS_PROFILE": "absent"}, "reason=ProfileNotFound"),
        ({"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE"}, "without AWS_SECRET_ACCESS_KEY"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            open_storage("s3://landing/", env)


@pytest.mark.parametrize("uri", ["s3://", "gs://landing/", "/tmp/x", "file://x"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError):
        open_storage(uri, {})
