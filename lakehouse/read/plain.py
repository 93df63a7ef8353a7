"""Makes the local copy of an object plain: unpacked where it is compressed, UTF-8 where another encoding is declared.

Content decides, never a name. What grows beyond reason is refused before it fills the disk. Never looks at records.
"""

from __future__ import annotations

import codecs
from bz2 import BZ2Decompressor
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lakehouse.errors import UnreadableObject
from lakehouse.read.local_file import Compression, compression_of
from lakehouse.scratch import spilling

CHUNK = 1 << 20
ALWAYS_ALLOWED = 64 << 20
"""Bytes that any object may grow to."""
MOST_TIMES = 1_200
"""How many times its size a larger one may grow; gzip cannot exceed 1,032."""
MOST_BYTES = 64 << 30
_NO_TEXT = "\udcff"
"""Stands for bytes that are no text in the declared encoding; as UTF-8 it is none either, so the record is rejected."""


def _flag(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _NO_TEXT, error.end


codecs.register_error("lakehouse.flag", _flag)


def make_plain(path: Path, *, uri: str, encoding: str | None) -> None:
    """Replace the file by its plain content; `encoding` is the declared one of a text.

    Raises UnreadableObject, and leaves the file alone, if it is damaged or grows too much.
    """
    if compression := compression_of(path):
        _rewrite(path, _unpacked(path, compression, uri=uri))
    if encoding not in (None, "utf-8"):
        try:
            _rewrite(path, _as_utf8(path, encoding))
        except UnicodeError as error:
            hint = "; declare utf-16-le or utf-16-be" if "BOM" in str(error) and encoding == "utf-16" else ""
            raise UnreadableObject(f"the text is not {encoding}: uri={uri} reason={error}{hint}") from None


def most_bytes(size: int) -> int:
    """How many bytes a file of `size` bytes may unpack to."""
    return min(max(ALWAYS_ALLOWED, MOST_TIMES * size), MOST_BYTES)


def _rewrite(path: Path, chunks: Iterator[bytes]) -> None:
    other = path.with_name(f"{path.name}-plain")
    try:
        with spilling(path.parent):
            with other.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            other.replace(path)
    finally:
        other.unlink(missing_ok=True)


def _unpacked(path: Path, compression: Compression, *, uri: str) -> Iterator[bytes]:
    """All members of the file, one after the other."""
    size = path.stat().st_size
    most = most_bytes(size)
    total = 0
    try:
        for chunk in _chunks(path, compression):
            total += len(chunk)
            if total > most:
                raise UnreadableObject(
                    f"the {compression} file unpacks to more than {most:,} bytes: uri={uri} bytes={size:,}"
                )
            yield chunk
    except (OSError, EOFError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise UnreadableObject(f"the {compression} file is damaged: uri={uri} reason={reason}") from error


def _chunks(path: Path, compression: Compression) -> Iterator[bytes]:
    """The plain content of all members. Raises OSError, EOFError or ArrowException for one that is damaged or cut."""
    if compression == "bz2":
        yield from _bz2_chunks(path)
        return
    with pa.input_stream(str(path), compression=compression) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _bz2_chunks(path: Path) -> Iterator[bytes]:
    # Arrow does not bear a member of no bytes between others, and Python's BZ2File passes over what is no member
    with path.open("rb") as file:
        unpacker = BZ2Decompressor()
        while True:
            data = b"" if unpacker.eof or not unpacker.needs_input else file.read(CHUNK)
            if unpacker.eof:
                if not (data := unpacker.unused_data or file.read(CHUNK)):
                    return
                unpacker = BZ2Decompressor()
            elif unpacker.needs_input and not data:
                raise EOFError("a member is cut")
            if chunk := unpacker.decompress(data, CHUNK):
                yield chunk


def _as_utf8(path: Path, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="lakehouse.flag")
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
