"""The container of an Avro file: its header, and its blocks unpacked within bounds. Knows nothing of records' fields.

Follows "Object Container Files" of the Avro specification. fastavro would unpack a block of any size at once.
"""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.schema import parse_schema

from lakehouse.read.plain import most_bytes

MOST_OF_BLOCK = 256 << 20
"""Bytes of the largest block, unpacked; it is in memory as a whole. Writers cut blocks at some kilobytes."""
_XZ_MEMORY = 128 << 20
_SYNC = 16
_HEADER = parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}},
        ],
    }
)


class Container(NamedTuple):
    """An Avro file of which the header has been read: its schema as JSON, its metadata, what its blocks need."""

    schema: Any
    metadata: Mapping[str, str]
    codec: str
    sync: bytes
    size: int


class Block(NamedTuple):
    """Records one after the other, and how many."""

    records: int
    data: bytes


def open_container(binary: BinaryIO, path: Path) -> Container:
    """Read the header. Raises ValueError, or whatever broken bytes end as."""
    header: Any = schemaless_reader(binary, _HEADER, None)
    meta = header["meta"]
    codec = meta.get("avro.codec", b"null").decode()
    if codec not in _UNPACK:
        raise ValueError(f"the codec {codec!r} is none of {', '.join(_UNPACK)}")
    metadata = {key: text.decode(errors="replace") for key, text in meta.items()}
    return Container(json.loads(meta["avro.schema"]), metadata, codec, header["sync"], path.stat().st_size)


def blocks(binary: BinaryIO, container: Container) -> Iterator[Block]:
    """Every block to the end of the file. Raises ValueError, or what a codec raises, for a broken or unbounded one."""
    left = most_bytes(container.size)
    unpack = _UNPACK[container.codec]
    while first := binary.read(1):
        records, size = _number(binary, first), _number(binary, binary.read(1))
        if not 0 <= size <= container.size or records < 0:
            raise ValueError(f"a block claims {records} records in {size} bytes")
        packed = binary.read(size)
        if len(packed) < size or binary.read(_SYNC) != container.sync:
            raise ValueError("a block does not end with the marker of the file")
        data = unpack(packed, min(left, MOST_OF_BLOCK))
        # else some bytes could claim rows without end
        if records > len(data):
            raise ValueError(f"a block claims {records} records in {len(data)} bytes")
        left -= len(data)
        yield Block(records, data)


def _number(binary: BinaryIO, byte: bytes) -> int:
    """A zigzag number of at most 64 bits whose first byte has been read."""
    number, shift = 0, 0
    while True:
        if not byte or shift > 63:
            raise ValueError("a number of a block is broken")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
        byte = binary.read(1)


def _whole(data: bytes, most: int, *, more: bool = False) -> bytes:
    if more or len(data) > most:
        raise ValueError(f"a block unpacks to more than {most:,} bytes")
    return data


def _deflated(packed: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    data = _whole(unpacker.decompress(packed, most), most, more=bool(unpacker.unconsumed_tail))
    if not unpacker.eof:
        raise ValueError("a deflated block is cut")
    return data


def _xz(packed: bytes, most: int) -> bytes:
    unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    data = _whole(unpacker.decompress(packed, most + 1), most)
    if not unpacker.eof:
        raise ValueError("an xz block is cut")
    return data


def _snappy(packed: bytes, most: int) -> bytes:
    """Snappy says how long it is, and Avro puts the CRC-32 of the plain bytes behind it."""
    length = shift = 0
    for byte in packed[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > most:
        raise ValueError(f"a block unpacks to more than {most:,} bytes")
    data: bytes = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=length, asbytes=True)
    if zlib.crc32(data) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("the checksum of a block is another one")
    return data


def _streamed(compression: Literal["zstd", "bz2"]) -> Callable[[bytes, int], bytes]:
    def unpack(packed: bytes, most: int) -> bytes:
        with pa.input_stream(BytesIO(packed), compression=compression) as stream:
            return _whole(stream.read(most + 1), most)

    return unpack


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _whole,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": _streamed("zstd"),
    "bzip2": _streamed("bz2"),
    "xz": _xz,
}
