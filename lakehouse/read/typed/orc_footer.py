"""The footers of an ORC file: what a library must not trust, and what it does not tell. Knows nothing of columns and
rows.

Follows the ORC specification, version 1 ("File Tail", "Stripe Footer"). pyarrow ends the whole process over a decimal
that has more digits than it knows, and one damaged byte makes such a decimal. It does not know the writer's calendar,
nor the zone of the writer's clock.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

MOST_DIGITS = 38
MOST_BYTES = 64 << 20
"""Of an unpacked footer."""
_DECIMAL = 14
_JAVA, _JULIAN, _GREGORIAN = 0, 1, 2
# numbers of fields: of the postscript, of the footer, of a stripe's place, of a type, of a stripe's footer
_FOOTER_LENGTH, _COMPRESSION = 1, 2
_STRIPES, _TYPES, _WRITER, _CALENDAR = 3, 4, 9, 11
_OFFSET, _INDEX_LENGTH, _DATA_LENGTH, _STRIPE_FOOTER_LENGTH = 1, 2, 3, 4
_KIND, _PRECISION = 1, 5
_ZONE = 3


class Footers(NamedTuple):
    """Whether dates before 1582-10-15 are Julian ones, and for each stripe the zone of its timestamps without one."""

    julian: bool
    zones: tuple[str, ...]


def read_footers(path: Path) -> Footers:
    """Raises ValueError if a decimal of the file has more than MOST_DIGITS digits, or if a footer cannot be read."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - 1
        length = file.read(1)[0] if file.seek(max(end, 0)) == end else 0
        file.seek(max(end - length, 0))
        postscript = _numbers(file.read(length))
        begin = end - length - postscript.get(_FOOTER_LENGTH, 0)
        if begin < 0:
            raise ValueError("the footer is longer than the file")
        file.seek(begin)
        compression = postscript.get(_COMPRESSION, 0)
        footer = _unpacked(file.read(postscript.get(_FOOTER_LENGTH, 0)), compression)
        stripes = []
        for number, value in _fields(footer):
            if number == _STRIPES and isinstance(value, bytes):
                stripes.append(_numbers(value))
            elif number == _TYPES and isinstance(value, bytes):
                _refuse_wide_decimal(_numbers(value))
        facts = _numbers(footer)
        # Java's writer counted this way before it said so
        usual = _JULIAN if facts.get(_WRITER, _JAVA) == _JAVA else _GREGORIAN
        return Footers(
            julian=(facts.get(_CALENDAR) or usual) == _JULIAN,
            zones=tuple(_zone(file, stripe, compression, end) for stripe in stripes),
        )


def _refuse_wide_decimal(kind: Mapping[int, int]) -> None:
    if kind.get(_KIND, 0) == _DECIMAL and kind.get(_PRECISION, 0) > MOST_DIGITS:
        raise ValueError(f"a decimal of {kind[_PRECISION]} digits")


def _zone(file: BinaryIO, stripe: Mapping[int, int], compression: int, end: int) -> str:
    """The zone that the footer of a stripe names; empty if it names none."""
    begin = sum(stripe.get(part, 0) for part in (_OFFSET, _INDEX_LENGTH, _DATA_LENGTH))
    length = stripe.get(_STRIPE_FOOTER_LENGTH, 0)
    if begin + length > end:
        raise ValueError("a stripe ends behind the file")
    file.seek(begin)
    zone = b""
    for number, value in _fields(_unpacked(file.read(length), compression)):
        if number == _ZONE and isinstance(value, bytes):
            zone = value
    return zone.decode()


def _numbers(message: bytes) -> dict[int, int]:
    """The fields of a message that are numbers; the last one counts, as in every reader of Protocol Buffers."""
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every field of a Protocol Buffers message with its number. Raises ValueError."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number does not end")


def _unpacked(footer: bytes, compression: int) -> bytes:
    """The footer's chunks, each behind three bytes with its length and whether it is as it was."""
    if not compression:
        return footer
    unpack = _UNPACK.get(compression)
    if unpack is None:
        raise ValueError(f"a compression of the unknown number {compression}")
    parts, at, total = [], 0, 0
    while at < len(footer):
        head = int.from_bytes(footer[at : at + 3], "little")
        chunk = footer[at + 3 : at + 3 + (head >> 1)]
        at += 3 + (head >> 1)
        part = chunk if head & 1 else unpack(chunk)
        total += len(part)
        if total > MOST_BYTES:
            raise ValueError(f"the footer unpacks to more than {MOST_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _inflated(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _snappy(packed: bytes) -> bytes:
    length, _ = _varint(packed, 0)
    if length > MOST_BYTES:
        return bytes(MOST_BYTES + 1)
    found: bytes = _by_arrow(lambda: pa.Codec("snappy").decompress(packed, decompressed_size=length, asbytes=True))
    return found


def _zstd(packed: bytes) -> bytes:
    def read() -> bytes:
        with pa.input_stream(BytesIO(packed), compression="zstd") as stream:
            return stream.read(MOST_BYTES + 1)

    return _by_arrow(read)


def _by_arrow(unpack: Callable[[], bytes]) -> bytes:
    try:
        return unpack()
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(str(error)) from None


def _lz4(packed: bytes) -> bytes:
    """A block without a frame: it does not say how long it is, and Arrow must be told."""
    found, at = bytearray(), 0
    while at < len(packed):
        token = packed[at]
        length, at = _lz4_length(packed, at + 1, token >> 4)
        found += packed[at : at + length]
        at += length
        if at >= len(packed):
            break
        offset = int.from_bytes(packed[at : at + 2], "little")
        length, at = _lz4_length(packed, at + 2, token & 15)
        if not 0 < offset <= len(found) or len(found) + length > MOST_BYTES:
            raise ValueError("an lz4 block is damaged")
        for _ in range(length + 4):
            found.append(found[-offset])
    return bytes(found)


def _lz4_length(packed: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            if at >= len(packed):
                raise ValueError("an lz4 block is cut")
            length += packed[at]
            at += 1
            if packed[at - 1] != 255:
                break
    return length, at


_UNPACK: dict[int, Callable[[bytes], bytes]] = {1: _inflated, 2: _snappy, 4: _lz4, 5: _zstd}
"""By number of the specification; pyarrow reads none but these."""
