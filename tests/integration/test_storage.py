"""Storage against a real S3: keys, versions and conditions as the server sees them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from lakehouse.errors import ConfigurationError, ObjectChanged
from lakehouse.landing import discover, fetch_all
from lakehouse.landing.discover import LandingSource
from lakehouse.model import Window
from lakehouse.storage import Storage, open_storage, split_uri

KEYS = [
    "a b.csv",
    "a+b.csv",
    "a%20b.csv",
    "sales[1].csv",
    "café.csv",
    "cafe\u0301.csv",
    "q?x=1#&.csv",
    "'\"<>`~^{}|*.csv",
    "日本/x.csv",
    "..x/.y",
    "day=1/x.parquet",
]


class Folder:
    """An undated source."""

    landing = None

    def __init__(self, uri: str) -> None:
        self.uri = uri


@pytest.fixture
def stack_env(stack: Any) -> Mapping[str, str]:
    """The environment that reaches the local stack: endpoint, region and keys."""
    env: Mapping[str, str] = stack.env
    return env


@pytest.fixture
def bucket(stack_env: Mapping[str, str]) -> Storage:
    """An own folder of the landing bucket."""
    return open_storage(f"s3://landing/test-{uuid.uuid4().hex}/", stack_env)


def test_keys_survive_writing_listing_and_fetching(bucket: Storage, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda key: bucket.create(f"in/{key}", key.encode()), KEYS))
    bucket.put("in_backup/x", b"other folder")
    source: LandingSource = Folder(bucket.uri("in/"))
    found = discover(bucket, source, Window())
    assert {obj.uri for obj in found} == {bucket.uri(f"in/{key}") for key in KEYS}
    for obj, path in fetch_all(bucket, found, tmp_path):
        assert isinstance(path, Path)
        assert bucket.uri("in/" + path.read_text()) == obj.uri
        assert abs(obj.last_modified - before) < timedelta(minutes=5)
        root, key = split_uri(obj.uri)
        assert root == "s3://landing/"
        assert bucket.read("in/" + key.partition("/in/")[2]) is not None


def test_folder_markers_keep_their_slash(bucket: Storage, stack_env: Mapping[str, str]) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=stack_env["AWS_ENDPOINT_URL_S3"],
        aws_access_key_id=stack_env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stack_env["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    _, folder = split_uri(bucket.uri(""))
    for key in ("in/", "in/day=1_$folder$"):
        client.put_object(Bucket="landing", Key=folder + key)
    bucket.put("in/day=1/x.parquet", b"x")
    assert {(bucket.key(obj.uri), obj.size) for obj in bucket.list("in/")} == {
        ("in/", 0),
        ("in/day=1_$folder$", 0),
        ("in/day=1/x.parquet", 1),
    }


def test_more_than_one_page_is_listed(bucket: Storage) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: bucket.put(f"many/{number:04}", b"x"), range(1100)))
    assert [bucket.key(obj.uri) for obj in bucket.list("many/")] == [f"many/{number:04}" for number in range(1100)]


def test_only_the_listed_version_is_fetched(bucket: Storage, tmp_path: Path) -> None:
    bucket.put("in/a", b"1,10")
    (obj,) = bucket.list("in/")
    bucket.put("in/a", b"1,11\n2,5")
    with pytest.raises(ObjectChanged):
        bucket.fetch(obj, tmp_path / "copy")
    (obj,) = bucket.list("in/")
    bucket.fetch(obj, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"1,11\n2,5"
    bucket.delete("in/a")
    with pytest.raises(ObjectChanged):
        bucket.fetch(obj, tmp_path / "copy")
    assert [*bucket.list("in/")] == []


def test_conditional_writes_have_one_winner(bucket: Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda n: bucket.create("x", b"%d" % n), range(8))) == 1
    found = bucket.read_with_etag("x")
    assert found
    with ThreadPoolExecutor(8) as pool:
        tags = [*pool.map(lambda n: bucket.replace("x", b"new%d" % n, found[1]), range(8))]
    (won,) = [tag for tag in tags if tag]
    assert bucket.read_with_etag("x") == (f"new{tags.index(won)}".encode(), won)
    assert bucket.replace("absent", b"y", won) is None
    assert bucket.read_many(["x", "absent"]) == [f"new{tags.index(won)}".encode(), None]


def test_a_large_file_is_uploaded_in_parts(bucket: Storage, tmp_path: Path) -> None:
    block = bytes(range(256)) * 4096
    (tmp_path / "large").write_bytes(block * 20)
    bucket.upload(tmp_path / "large", "large")
    (obj,) = bucket.list("large")
    assert obj.size == 20 * len(block)
    bucket.fetch(obj, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "large").read_bytes()


@pytest.mark.parametrize("change", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "nobody"}])
def test_wrong_credentials_are_named(stack_env: Mapping[str, str], change: Mapping[str, str]) -> None:
    storage = open_storage("s3://landing/", {**stack_env, **change})
    with pytest.raises(ConfigurationError, match="refuses our credentials"):
        list(storage.list(""))
    with pytest.raises(ConfigurationError, match="refuses our credentials"):
        storage.read("x")


def test_a_missing_bucket_is_named(stack_env: Mapping[str, str]) -> None:
    storage = open_storage("s3://no-such-bucket/", stack_env)
    with pytest.raises(ConfigurationError, match="bucket=no-such-bucket"):
        list(storage.list(""))
    with pytest.raises(ConfigurationError, match="bucket=no-such-bucket"):
        storage.read("x")
