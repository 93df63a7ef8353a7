"""Copies come in order, a bounded number ahead, and one bad object does not stop the others."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.errors import ConfigurationError, ObjectChanged, Unavailable
from lakehouse.landing import fetch_all
from lakehouse.landing.fetch import WAITING_BYTES
from lakehouse.model import LandingObject
from lakehouse.storage import Storage


@dataclass
class Bucket:
    """The fetching side of a bucket; `errors` by key."""

    errors: dict[str, Exception] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, obj: LandingObject, target: Path) -> None:
        key = obj.uri.removeprefix("s3://landing/")
        with self.lock:
            self.fetched.append(key)
        target.write_text("half")
        if error := self.errors.get(key):
            raise error
        target.write_text(key)


def storage_of(bucket: Bucket) -> Storage:
    return bucket  # type: ignore[return-value]


def objects(*keys: str, size: int = 1) -> list[LandingObject]:
    return [LandingObject(f"s3://landing/{key}", '"e"', size, datetime(2026, 1, 1, tzinfo=UTC)) for key in keys]


def test_copies_come_in_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    keys = ["../../etc/passwd", "a/../b", "x" * 300, *(f"k{number}" for number in range(30))]
    most = 0
    large = objects(*keys, size=WAITING_BYTES // 4)
    for obj, path in fetch_all(storage_of(Bucket()), large, tmp_path / "spill", ahead=4):
        assert isinstance(path, Path)
        assert path.parent == tmp_path / "spill"
        assert path.read_text() == obj.uri.removeprefix("s3://landing/") == keys.pop(0)
        most = max(most, len([*(tmp_path / "spill").iterdir()]))
    assert not keys
    assert most <= 5
    assert not [*(tmp_path / "spill").iterdir()]


def test_more_copies_of_small_objects_wait_than_are_under_way(tmp_path: Path) -> None:
    bucket = Bucket()
    keys = [f"k{number}" for number in range(100)]
    copies = fetch_all(storage_of(bucket), objects(*keys, size=WAITING_BYTES // 50), tmp_path, ahead=4)
    waiting = []
    for _ in copies:
        waiting.append(len(bucket.fetched))
    assert not [*tmp_path.iterdir()]
    assert bucket.fetched and sorted(bucket.fetched) == sorted(keys)
    assert waiting[0] <= 4 + 2 and max(number - done for done, number in enumerate(waiting)) <= 50 + 4


def test_one_bad_object_does_not_stop_the_others(tmp_path: Path) -> None:
    changed = ObjectChanged("changed", uri="s3://landing/b")
    bucket = Bucket({"a": Unavailable("reset"), "b": changed})
    results = [result for _, result in fetch_all(storage_of(bucket), objects("a", "b", "c"), tmp_path)]
    assert isinstance(results[0], Unavailable)
    assert results[1] is changed
    assert isinstance(results[2], Path)


def test_a_service_that_is_down_ends_the_fetch(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(100)]
    bucket = Bucket({key: Unavailable("down") for key in keys})
    with pytest.raises(Unavailable):
        list(fetch_all(storage_of(bucket), objects(*keys), tmp_path, ahead=2))
    assert len(bucket.fetched) <= 5


@pytest.mark.parametrize("error", [ConfigurationError("denied"), OSError(28, "No space left on device")])
def test_what_concerns_all_objects_is_raised(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(ConfigurationError):
        list(fetch_all(storage_of(Bucket({"a": error})), objects("a", "b"), tmp_path))


def test_a_reader_that_stops_leaves_no_copies(tmp_path: Path) -> None:
    copies = fetch_all(storage_of(Bucket()), objects("a", "b", "c"), tmp_path, ahead=2)
    next(copies)
    copies.close()
    assert not [*tmp_path.iterdir()]
