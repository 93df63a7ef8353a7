"""The local copy of an object: what its first bytes say, and how DuckDB is told its name.

Foreign content is refused by name before any parsing. Never decides a format: that is declared.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from lakehouse.errors import UnreadableObject

Compression: TypeAlias = Literal["gzip", "zstd", "bz2"]
HEAD, TAIL = 8, 4
"""Bytes at the ends of a file that say what it is."""
BOM = b"\xef\xbb\xbf"
_COMPRESSED: tuple[tuple[bytes, Compression], ...] = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  # behind one byte of 0x50 to 0x5f: a frame to be skipped, as parallel writers begin
_BZIP2 = b"BZh"  # a header may begin like that: the block's magic number follows the level's digit
_BZIP2_BLOCKS = (b"1AY&", b"\x17rE8")  # the second one ends a stream without a block
_FOREIGN = ((b"\xfd7zXZ\x00", "xz"), (b"PK\x03\x04", "zip"))
_ENCODINGS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_TYPED = {"parquet": b"PAR1", "orc": b"ORC", "avro": b"Obj\x01"}
"""How files of these formats begin."""


def compression_of(path: Path) -> Compression | None:
    """How the content is compressed, by the name that Arrow has for it; None if it is not, or by something else."""
    with path.open("rb") as file:
        return compression_in(file.read(HEAD))


def compression_in(head: bytes) -> Compression | None:
    """The same of content that begins like this."""
    if head.startswith(_BZIP2) and head[4:8] in _BZIP2_BLOCKS:
        return "bz2"
    if head[1:4] == _ZSTD_SKIPPED and 0x50 <= head[0] <= 0x5F:
        return "zstd"
    return next((name for magic, name in _COMPRESSED if head.startswith(magic)), None)


def ends_of(path: Path) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file, by which `refuse_foreign` knows it."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        file.seek(max(0, path.stat().st_size - TAIL), os.SEEK_SET)
        return head, file.read(TAIL)


def refuse_foreign(head: bytes, tail: bytes, *, uri: str, format_name: str) -> None:
    """Raise UnreadableObject if the unpacked file is in another encoding or of another format than declared."""
    if compression := compression_in(head):
        raise UnreadableObject(f"the file is compressed more than once: uri={uri} content={compression}")
    if found := next((name for magic, name in _FOREIGN if head.startswith(magic)), None):
        raise UnreadableObject(f"files of {found} are not read: uri={uri}; compress with gzip, zstd or bzip2")
    if found := next((name for magic, name in _ENCODINGS if head.startswith(magic)), None):
        raise UnreadableObject(f"the file is {found}: uri={uri}; declare its encoding")
    if (kind := _typed_kind(head, tail)) not in (None, format_name):
        raise UnreadableObject(f"the file is {kind}: uri={uri} declared={format_name}")
    if not head.startswith(_TYPED.get(format_name, b"")):
        raise UnreadableObject(f"the file is not {format_name}: uri={uri}")


def _typed_kind(head: bytes, tail: bytes) -> str | None:
    """Which format with types of its own the file is in; a text may well begin with `ORC`."""
    if head.startswith(_TYPED["parquet"]) and tail == _TYPED["parquet"]:
        return "parquet"
    if head.startswith(_TYPED["orc"]) and tail.startswith(_TYPED["orc"]):
        return "orc"
    return "avro" if head.startswith(_TYPED["avro"]) else None


def skip_bom(binary: BinaryIO) -> None:
    """Go behind the byte order mark of a file just opened, if it has one."""
    if binary.read(len(BOM)) != BOM:
        binary.seek(0)


def scan_path(path: Path) -> str:
    """The path for DuckDB's file readers, which take `*`, `?` and `[` for patterns."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))
