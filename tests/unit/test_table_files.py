"""How a table's FileIO opens S3: small files in one request, where nothing of the user's would be lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem
from pyiceberg.io import S3_RETRY_STRATEGY_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakehouse.table_files import upload, write_small_files_at_once

S3 = {"s3.endpoint": "http://s3.test:1", "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "eu-1"}


def options(io: PyArrowFileIO) -> dict[str, Any]:
    found: dict[str, Any] = io.fs_by_scheme("s3", "bucket").__reduce__()[1][0]
    return found


def test_everything_but_the_delayed_open_is_as_configured() -> None:
    before, io = options(PyArrowFileIO(S3)), PyArrowFileIO(S3)
    write_small_files_at_once(io)
    assert options(io) == {**before, "allow_delayed_open": True}
    assert before["allow_delayed_open"] is False
    assert io.fs_by_scheme("s3", "bucket") is io.fs_by_scheme("s3", "bucket")


def test_a_retry_strategy_of_the_users_own_is_kept() -> None:
    io = PyArrowFileIO({**S3, S3_RETRY_STRATEGY_IMPL: "some.Strategy"})
    opened = io.fs_by_scheme
    write_small_files_at_once(io)
    assert io.fs_by_scheme is opened


def test_other_file_systems_stay_and_files_are_copied(tmp_path: Path) -> None:
    io = PyArrowFileIO()
    write_small_files_at_once(io)
    assert isinstance(io.fs_by_scheme("file", ""), LocalFileSystem)
    (tmp_path / "a").write_bytes(b"x" * 10)
    upload(io, tmp_path / "a", f"file://{tmp_path}/b")
    assert (tmp_path / "b").read_bytes() == b"x" * 10
