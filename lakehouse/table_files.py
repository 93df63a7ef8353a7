"""Single files of a table, through its FileIO: how they are uploaded and what an upload costs. Decides nothing of them.

Credentials are the catalog's, so neither obstore nor boto3 can stand in for the FileIO.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pyarrow.fs import FileSystem, S3FileSystem
from pyiceberg.io import S3_RETRY_STRATEGY_IMPL, FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

_COPIED_AT_ONCE = 4 << 20


def upload(io: FileIO, path: Path, uri: str) -> None:
    """Copy a local file to an address that nobody else uses: it is an id of ours, so nobody is asked what is there.

    Raises the transport's errors as they come.
    """
    with path.open("rb") as source, io.new_output(uri).create(overwrite=True) as target:
        shutil.copyfileobj(source, target, _COPIED_AT_ONCE)


def write_small_files_at_once(io: FileIO) -> None:
    """Let a FileIO on Arrow's S3 send a small file in one request, where a multipart upload takes three."""
    if not isinstance(io, PyArrowFileIO) or io.properties.get(S3_RETRY_STRATEGY_IMPL):
        return  # a strategy of the user's own cannot be carried over
    opened = io.fs_by_scheme

    @lru_cache
    def delayed(scheme: str, netloc: str | None = None) -> FileSystem:
        found = opened(scheme, netloc)
        if not isinstance(found, S3FileSystem):
            return found
        _, arguments = cast(tuple[Any, tuple[dict[str, Any]]], found.__reduce__())  # what makes an equal one
        return S3FileSystem(**{**arguments[0], "allow_delayed_open": True})

    io.fs_by_scheme = delayed
