"""Cuts the local copy of a regular CSV file between records, so that DuckDB reads it on several threads.

A piece is a file of its own beside the copy: DuckDB can begin at no byte but the first. Never looks inside a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb

from lakehouse.read.csv.survey import Cut, Survey
from lakehouse.read.local_file import BOM
from lakehouse.scratch import spilling

SHORTEST = 8 << 20
SHORTEST_PER_COLUMN = 64 << 10
"""Bytes of the shortest piece: below, planning one more branch of the statement costs more than a thread saves."""
PER_THREAD = 2
"""Pieces for each thread, so that none waits long for the slowest one."""
_COPIED = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the records: DuckDB skips the first `skip` lines of `path`, which has `lines` lines of the file above
    its first record.
    """

    path: Path
    skip: int
    lines: int


@contextmanager
def cut(
    con: duckdb.DuckDBPyConnection, path: Path, regular: Survey, *, header_lines: int, columns: int
) -> Iterator[tuple[Piece, ...]]:
    """The pieces for the threads of `con`, in order; the whole file if it is not worth cutting.

    The files of the pieces are gone afterwards.

    Raises ConfigurationError if there is no room for them.
    """
    size = path.stat().st_size
    shortest = max(SHORTEST, columns * SHORTEST_PER_COLUMN)
    threads = _threads(con) if size >= 2 * shortest else 1
    count = min(size // shortest, threads * PER_THREAD) if threads > 1 else 1
    cuts = _places(path, regular.cuts, size=size, count=count, header_lines=header_lines)
    if not cuts:
        yield (Piece(path, header_lines, header_lines),)
        return
    pieces = [Piece(path.with_name(f"{path.name}-0"), header_lines, header_lines)]
    pieces += [Piece(path.with_name(f"{path.name}-{i}"), 0, cut.lines) for i, cut in enumerate(cuts, start=1)]
    bounds = [0, *(cut.offset for cut in cuts), size]
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="cut") as pool:
            spans = pairwise(bounds)
            copies = [pool.submit(_copy, path, piece.path, *span) for piece, span in zip(pieces, spans, strict=True)]
        for copy in copies:
            copy.result()
        yield tuple(pieces)
    finally:
        for piece in pieces:
            piece.path.unlink(missing_ok=True)


def _threads(con: duckdb.DuckDBPyConnection) -> int:
    ((threads,),) = con.execute("SELECT current_setting('threads')").fetchall()
    return int(threads)


def _places(path: Path, cuts: Sequence[Cut], *, size: int, count: int, header_lines: int) -> list[Cut]:
    """At most `count` - 1 of the cuts, about equally far from each other."""
    chosen: list[Cut] = []
    if count < 2:
        return chosen
    step = size / count
    wanted = step
    with path.open("rb") as file:
        for place in cuts:
            if place.offset < wanted or place.offset >= size or min(place.records, place.lines) <= header_lines:
                continue
            # DuckDB would take it for the byte order mark of a file
            file.seek(place.offset)
            if file.read(len(BOM)) != BOM:
                chosen.append(place)
                wanted = place.offset + step
    return chosen


def _copy(source: Path, target: Path, first: int, end: int) -> None:
    with (
        spilling(target.parent),
        source.open("rb", buffering=0) as file,
        target.open("wb", buffering=0) as piece,
    ):
        file.seek(first)
        left = end - first
        while left and (chunk := file.read(min(left, _COPIED))):
            view = memoryview(chunk)
            while view:
                view = view[piece.write(view) :]
            left -= len(chunk)
