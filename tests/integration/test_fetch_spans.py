"""A large object comes over several connections, each asking for the listed version, and is whole on disk."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import ObjectChanged
from lakehouse.model import LandingObject
from lakehouse.storage import Storage, open_storage, s3


@pytest.fixture
def bucket(stack: Any, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """An own folder of the landing bucket, whose objects are large from 200 kB on."""
    monkeypatch.setattr(s3, "_SPAN", 100_000)
    env: Mapping[str, str] = stack.env
    return open_storage(f"s3://landing/test-{uuid.uuid4().hex}/", env)


def listed(bucket: Storage, data: bytes) -> LandingObject:
    bucket.put("large", data)
    (found,) = bucket.list("large")
    return found


@pytest.mark.parametrize("size", [0, 1, 199_999, 200_000, 200_001, 399_999, 2_000_003])
def test_the_copy_is_the_object(bucket: Storage, tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (tmp_path / "copy").write_bytes(b"left by another" * 1000)
    bucket.fetch(listed(bucket, data), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_an_overwritten_or_deleted_object_is_told(bucket: Storage, tmp_path: Path) -> None:
    first = listed(bucket, b"a" * 400_000)
    listed(bucket, b"b" * 400_000)
    with pytest.raises(ObjectChanged, match="overwritten"):
        bucket.fetch(first, tmp_path / "copy")
    bucket.delete("large")
    with pytest.raises(ObjectChanged, match="deleted"):
        bucket.fetch(first, tmp_path / "copy")


@pytest.mark.parametrize("size", [0, 1, 63 << 20, 128 << 20, (5 << 30) + 7])
def test_spans_cover_an_object_once(size: int) -> None:
    spans = s3._spans(size)
    assert 1 <= len(spans) <= s3._SPANS
    assert (spans[0][0], spans[-1][1]) == (0, size)
    assert all(end == begin for (_, end), (begin, _) in pairwise(spans))
