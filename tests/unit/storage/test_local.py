"""A local folder behaves as a bucket does: exact versions, exclusive creation, complete listings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakehouse.errors import ConfigurationError, ObjectChanged
from lakehouse.storage import Storage, open_storage, split_uri

KEYS = [
    "in/a b.csv",
    "in/a+b.csv",
    "in/a%20b.csv",
    "in/sales[1].csv",
    "in/café.csv",
    "in/q?#.csv",
    "in/x#1",
    "in/deep/y",
]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"file://{tmp_path}", {})


def test_names_survive_writing_listing_and_fetching(storage: Storage, tmp_path: Path) -> None:
    for key in [*KEYS, "in_backup/z"]:
        assert storage.create(key, key.encode())
    listed = [*storage.list("in/")]
    assert {storage.key(obj.uri) for obj in listed} == set(KEYS)
    for obj in listed:
        storage.fetch(obj, tmp_path.with_name("copy"))
        assert tmp_path.with_name("copy").read_text() == storage.key(obj.uri)
        root, key = split_uri(obj.uri)
        assert open_storage(root, {}).read(key) == storage.key(obj.uri).encode()


def test_conditional_writes_have_one_winner(storage: Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda n: storage.create("state/x", b"%d" % n), range(8))) == 1
    found = storage.read_with_etag("state/x")
    assert found
    with ThreadPoolExecutor(8) as pool:
        tags = [*pool.map(lambda n: storage.replace("state/x", b"new%d" % n, found[1]), range(8))]
    (won,) = [tag for tag in tags if tag]
    assert storage.read_with_etag("state/x") == (f"new{tags.index(won)}".encode(), won)
    assert storage.replace("state/x", b"y", found[1]) is None
    assert storage.replace("absent/x", b"y", won) is None
    assert [storage.key(obj.uri) for obj in storage.list("")] == ["state/x"]


def test_another_version_is_never_fetched(storage: Storage, tmp_path: Path) -> None:
    storage.put("in/a", b"1")
    (obj,) = storage.list("in/")
    storage.put("in/a", b"2")
    with pytest.raises(ObjectChanged, match="overwritten"):
        storage.fetch(obj, tmp_path / "copy")
    storage.delete("in/a")
    storage.delete("in/a")
    with pytest.raises(ObjectChanged, match="deleted"):
        storage.fetch(obj, tmp_path / "copy")
    assert storage.read_many(["in/a", "in/b"]) == [None, None]


def test_upload_and_what_is_no_key(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"data")
    storage.upload(tmp_path / "local", "up/loaded")
    assert storage.read("up/loaded") == b"data"
    for key in ("../out", "a//b", "", "a/./b"):
        with pytest.raises(ConfigurationError):
            storage.put(key, b"")
    with pytest.raises(ConfigurationError, match="outside"):
        storage.key("file:///elsewhere/a")
    with pytest.raises(ConfigurationError, match="does not exist"):
        list(open_storage(f"file://{tmp_path}/absent", {}).list(""))
