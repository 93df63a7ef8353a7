"""The local copy of an object: what its first bytes say, and how DuckDB is told its name.

Compressed and foreign content is refused by name before any parsing. Never decides a format: that is declared.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from lakehouse.errors import UnreadableObject

BOM = b"\xef\xbb\xbf"
_LATER = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
)
_BZIP2 = b"BZh"  # a header may begin like that: the block's magic number follows the level's digit
_BZIP2_BLOCK = b"1AY&"
_PARQUET = b"PAR1"


def refuse_foreign(path: Path, *, uri: str, format_name: str) -> None:
    """Raise UnreadableObject if the file is compressed, in another encoding or of another format than declared."""
    with path.open("rb") as file:
        head = file.read(8)
        file.seek(max(0, path.stat().st_size - 4), os.SEEK_SET)
        tail = file.read(4)
    found = next((name for magic, name in _LATER if head.startswith(magic)), None)
    if head.startswith(_BZIP2) and head[4:8] == _BZIP2_BLOCK:
        found = "bzip2"
    if found:
        raise UnreadableObject(f"reading {found} is not available yet: uri={uri}")
    if format_name != "parquet" and head.startswith(_PARQUET) and tail == _PARQUET:
        raise UnreadableObject(f"the file is parquet: uri={uri} declared={format_name}")
    if format_name == "parquet" and not head.startswith(_PARQUET):
        raise UnreadableObject(f"the file is not parquet: uri={uri}")


def skip_bom(binary: BinaryIO) -> None:
    """Go behind the byte order mark of a file just opened, if it has one."""
    if binary.read(len(BOM)) != BOM:
        binary.seek(0)


def scan_path(path: Path) -> str:
    """The path for DuckDB's file readers, which take `*`, `?` and `[` for patterns."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))
