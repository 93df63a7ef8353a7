"""Discovery lists what was asked for, all of it and once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import pytest

from lakehouse.declaration.landing_pattern import LandingPattern
from lakehouse.errors import Unavailable
from lakehouse.landing import discover
from lakehouse.landing.discover import LandingSource
from lakehouse.model import LandingObject, Window
from lakehouse.storage import Storage, open_storage

DAY = date(2026, 1, 5)


@dataclass(frozen=True)
class Source:
    uri: str
    landing: LandingPattern | None


@dataclass
class Bucket:
    """The listing side of a bucket; a prefix in `broken` fails after its first object."""

    keys: list[str]
    broken: str = ""
    asked: list[str] = field(default_factory=list)

    def key(self, uri: str) -> str:
        return uri.removeprefix("s3://landing/")

    def list(self, prefix: str) -> Iterator[LandingObject]:
        self.asked.append(prefix)
        for key in self.keys:
            if key.startswith(prefix):
                yield LandingObject(f"s3://landing/{key}", '"e"', 1, datetime(2026, 1, 6, tzinfo=UTC))
                if self.broken and key.startswith(self.broken):
                    raise Unavailable("slow down")


def found(bucket: Bucket, pattern: str | None, window: Window) -> list[str]:
    source: LandingSource = Source("s3://landing/in/", LandingPattern.compile(pattern) if pattern else None)
    storage: Storage = bucket  # type: ignore[assignment]
    return [obj.uri.removeprefix("s3://landing/in/") for obj in discover(storage, source, window)]


def test_a_sibling_folder_is_never_listed() -> None:
    bucket = Bucket(["in/a.csv", "in_backup/a.csv", "in", "in/"])
    assert found(bucket, None, Window()) == ["", "a.csv"]
    assert bucket.asked == ["in/"]


def test_a_closed_window_lists_its_days_alone() -> None:
    days = [f"in/d=2026-01-{day:02}/x.csv" for day in range(1, 10)]
    bucket = Bucket([*days, "in/d=2026-01-05_old/x.csv", "in/d=2026-01-05_$folder$"])
    assert found(bucket, "d=%Y-%m-%d", Window(DAY, date(2026, 1, 6))) == ["d=2026-01-05/x.csv", "d=2026-01-06/x.csv"]
    assert sorted(bucket.asked) == ["in/d=2026-01-05/", "in/d=2026-01-06/"]


@pytest.mark.parametrize("window", [Window(), Window(DAY), Window(None, DAY), Window(date(2020, 1, 1), DAY)])
def test_any_other_window_lists_the_whole_source(window: Window) -> None:
    bucket = Bucket(["in/d=2026-01-05/x.csv", "in/d=2026-01-09/x.csv", "in/stray"])
    assert len(found(bucket, "d=%Y-%m-%d", window)) == 3
    assert bucket.asked == ["in/"]


def test_dates_in_file_names_need_the_whole_source() -> None:
    bucket = Bucket(["in/a_2026-01-05.csv", "in/a_2026-01-06.csv"])
    assert len(found(bucket, "%Y-%m-%d", Window(DAY, DAY))) == 2


def test_days_that_share_a_prefix_are_listed_once() -> None:
    bucket = Bucket(["in/2026/10-05/x.csv", "in/2026/11-05/x.csv"])
    assert found(bucket, "%Y/%H-%d/%m", Window(DAY, date(2026, 1, 8))) == ["2026/10-05/x.csv", "2026/11-05/x.csv"]
    assert bucket.asked == ["in/2026/"]


def test_every_object_is_told_of_as_it_arrives() -> None:
    days = Window(date(2026, 1, 5), date(2026, 1, 6))
    source: LandingSource = Source("s3://landing/in/", LandingPattern.compile("d=%Y-%m-%d"))
    storage: Storage = Bucket(["in/d=2026-01-05/x.csv", "in/d=2026-01-06/y.csv"])  # type: ignore[assignment]
    told: list[LandingObject] = []
    assert set(discover(storage, source, days, told=told.append)) == {*told}
    assert len(told) == 2


def test_one_failing_day_fails_the_discovery() -> None:
    bucket = Bucket(["in/d=2026-01-05/x.csv", "in/d=2026-01-06/x.csv"], broken="in/d=2026-01-06/")
    with pytest.raises(Unavailable):
        found(bucket, "d=%Y-%m-%d", Window(DAY, date(2026, 1, 6)))


def test_no_objects_are_an_empty_answer() -> None:
    assert found(Bucket([]), "d=%Y-%m-%d", Window(DAY, DAY)) == []


def test_a_slow_upload_with_an_older_time_is_listed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Discovery has no high-water mark: what is there is listed, however old it says it is."""
    root = tmp_path_factory.mktemp("landing")
    storage = open_storage(f"file://{root}", {})
    source = Source(storage.uri("in/"), None)
    storage.put("in/small.csv", b"1")
    before = discover(storage, source, Window())
    storage.put("in/big.csv", b"2")
    os.utime(root / "in/big.csv", (1, 1))
    after = discover(storage, source, Window())
    assert [obj.uri for obj in after if obj not in before] == [storage.uri("in/big.csv")]
