"""The parts of a checkpoint as a set of objects: reads those that are asked for, and makes the parts of the next one.

Memory is bounded by a few parts, whatever the number of objects. How a part's bytes are read and written comes in as a
value, with the proof that they are what the index says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from threading import Lock
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checkpoint import (
    GLANCED,
    Part,
    decode_part,
    describe_part,
    encode_part,
    glances,
    part_table,
    seen_objects,
)
from lakehouse.errors import DataError
from lakehouse.model import Changes, Decision, Glance, Reference, SeenObject, SeenStore, Tallies, Tally

PART_OBJECTS = 20_000
"""Most objects of one part."""

ReadMany: TypeAlias = Callable[[Sequence[Reference]], list[bytes]]
"""The verified bytes behind references, in their order."""

_AT_ONCE = 8
"""Parts that are read at once, and kept after a lookup."""
_FEW = 8
"""So many uris of a part are searched for one by one: fewer than it takes to hash the part."""


@dataclass(frozen=True, slots=True)
class StoredParts:
    """`lakehouse.model.SeenStore` of parts in the order of their uris, which do not overlap."""

    parts: tuple[Part, ...]
    read: ReadMany
    _kept: OrderedDict[str, pa.Table] = field(default_factory=OrderedDict, compare=False, repr=False)
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)

    @property
    def size(self) -> int:
        return sum(part.objects for part in self.parts)

    def may_hold(self, uri: str) -> bool:
        place = _place(self.parts, uri)
        return place is not None and uri <= self.parts[place].last

    def lookup(self, uris: Collection[str]) -> dict[str, SeenObject]:
        found: dict[str, SeenObject] = {}
        for rows in self._found(uris):
            found |= {item.object.uri: item for item in seen_objects(rows)}
        return found

    def glances(self, uris: Collection[str]) -> dict[str, Glance]:
        found: dict[str, Glance] = {}
        for rows in self._found(uris, columns=GLANCED):
            found.update(glances(rows))
        return found

    def _found(self, uris: Collection[str], *, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of those of these uris that are there, by part; `columns`: these alone."""
        ordered = sorted(uris)
        if not ordered:
            return
        asked: dict[int, list[str]] = {}
        for number in range(_place(self.parts, ordered[0]) or 0, len(self.parts)):
            part = self.parts[number]
            if part.first > ordered[-1]:
                break
            first = bisect_left(ordered, part.first)
            if here := ordered[first : bisect_right(ordered, part.last, first)]:
                asked[number] = here
        touched = [self.parts[number] for number in asked]
        for here, table in zip(asked.values(), self._tables(touched, keep=True), strict=True):
            yield _rows(table.select(columns) if columns else table, here)

    def stream(self) -> Iterator[SeenObject]:
        for table in self._tables(self.parts):
            yield from seen_objects(table)

    def of_dates(self, days: Collection[date | None]) -> Iterator[SeenObject]:
        dated = sorted(day for day in days if day is not None)
        wanted = pa.array([*dated, *([None] if None in days else [])], type=pa.date32())
        touched = [
            part
            for part in self.parts
            if (None in days and part.undated)
            or (
                part.first_date is not None
                and part.last_date is not None
                and bisect_left(dated, part.first_date) < bisect_right(dated, part.last_date)
            )
        ]
        for table in self._tables(touched):
            yield from seen_objects(table.filter(pc.is_in(table.column("landing_date"), value_set=wanted)))

    def after(self, day: date) -> Iterator[SeenObject]:
        touched = [part for part in self.parts if part.last_date is not None and part.last_date > day]
        for table in self._tables(touched):
            yield from seen_objects(table.filter(pc.greater(table.column("landing_date"), pa.scalar(day))))

    def around(self, uri: str) -> list[str]:
        if not self.parts:
            return []
        (table,) = self._tables([self.parts[_place(self.parts, uri) or 0]], keep=True)
        return [*map(str, table.column("uri").to_pylist())]

    def tallies(self, without: Collection[str]) -> Tallies:
        names = ["landing_date", "decision", "last_modified", "uri"]
        left_out = pa.array(sorted(without), type=pa.string())
        found: Tallies = {}
        for table in self._tables(self.parts, columns=names):
            rows = table.filter(pc.invert(pc.is_in(table.column("uri"), value_set=left_out))) if without else table
            groups = rows.group_by(["landing_date", "decision"]).aggregate([("uri", "count"), ("last_modified", "max")])
            for row in groups.to_pylist():
                key = (row["landing_date"], Decision(row["decision"]))
                one = Tally(row["uri_count"], row["last_modified_max"])
                found[key] = found[key] + one if key in found else one
        return found

    def apart_from(self, other: SeenStore) -> SeenStore:
        common = {part.file.sha256 for part in other.parts} if isinstance(other, StoredParts) else set()
        return replace(self, parts=tuple(part for part in self.parts if part.file.sha256 not in common))

    def tables(self, parts: Sequence[Part]) -> Iterator[pa.Table]:
        """The rows of these parts, one table each, a few in memory at once."""
        return self._tables(parts)

    def _tables(
        self, parts: Sequence[Part], *, keep: bool = False, columns: list[str] | None = None
    ) -> Iterator[pa.Table]:
        for start in range(0, len(parts), _AT_ONCE):
            group = parts[start : start + _AT_ONCE]
            with self._lock:
                known = {part.first: self._kept[part.first] for part in group if part.first in self._kept}
            unknown = [part for part in group if part.first not in known]
            contents = self.read([part.file for part in unknown]) if unknown else []
            for part in group:
                table = known.pop(part.first, None)
                if table is None:
                    table = _decoded(part, contents.pop(0), columns)
                if keep:
                    self._keep(part, table)
                yield table

    def _keep(self, part: Part, table: pa.Table) -> None:
        with self._lock:
            self._kept[part.first] = table
            self._kept.move_to_end(part.first)
            while len(self._kept) > _AT_ONCE:
                self._kept.popitem(last=False)


def rewritten(
    store: StoredParts, changes: Changes, write: Callable[[int, bytes], Reference], *, most: int = PART_OBJECTS
) -> tuple[Part, ...]:
    """The parts of the set after these changes: those that no change touches as they are, the others written anew.

    `write` puts the bytes of the part with that number somewhere, which is counted from 0.
    """
    by_place: dict[int, list[str]] = {}
    for uri in sorted(changes):
        by_place.setdefault(_place(store.parts, uri) or 0, []).append(uri)
    touched = store.tables([store.parts[place] for place in by_place] if store.parts else [])
    written = 0
    made: list[Part] = []
    for place in range(max(1, len(store.parts))):
        here = by_place.get(place)
        if here is None:
            made += store.parts[place : place + 1]
            continue
        old = next(touched) if store.parts else None
        rows = _changed(old, here, changes)
        if old is not None and rows is old:
            made.append(store.parts[place])
            continue
        for piece in _pieces(rows, most, last=place >= len(store.parts) - 1):
            made.append(describe_part(piece, write(written, encode_part(piece))))
            written += 1
    return tuple(made)


def _changed(old: pa.Table | None, uris: Sequence[str], changes: Changes) -> pa.Table:
    """The rows of a part with its changes, in the order of their uris; `old` itself if they change nothing."""
    new = [item for uri in uris if (item := changes[uri]) is not None]
    if old is None:
        return part_table(new)
    kept = old.filter(pc.invert(pc.is_in(old.column("uri"), value_set=pa.array(uris, type=pa.string()))))
    if not new and kept.num_rows == old.num_rows:
        return old
    rows = pa.concat_tables([kept, part_table(new)]) if new else kept
    return rows.take(pc.sort_indices(rows, sort_keys=[("uri", "ascending")])).combine_chunks()


def _pieces(rows: pa.Table, most: int, *, last: bool) -> Iterable[pa.Table]:
    """Cut what is too large: evenly, but the last part into full ones, for most keys come in the order of time."""
    count = max(1, -(-rows.num_rows // most))
    size = most if last else max(1, -(-rows.num_rows // count))
    return (rows.slice(start, size) for start in range(0, rows.num_rows, size))


def _place(parts: Sequence[Part], uri: str) -> int | None:
    """The number of the last part that begins at or before the uri; None if all begin behind it."""
    place = bisect_right(parts, uri, key=lambda part: part.first) - 1
    return None if place < 0 else place


def _decoded(part: Part, data: bytes, columns: list[str] | None) -> pa.Table:
    try:
        table = decode_part(data, columns)
    except DataError as error:
        raise DataError(f"{error.message} uri={part.file.uri}") from error
    if table.num_rows != part.objects:
        raise DataError(
            f"a part of a checkpoint does not hold its objects: uri={part.file.uri} objects={table.num_rows} "
            f"recorded={part.objects}"
        )
    return table


def _rows(table: pa.Table, uris: Sequence[str]) -> pa.Table:
    """The rows of those of these uris, given in order, that are there."""
    column = table.column("uri")
    if len(uris) > _FEW:
        places = pc.index_in(pa.array(uris, type=pa.string()), value_set=column).drop_null()
        return table if len(places) == table.num_rows else table.take(places)
    found = []
    for uri in uris:
        place = bisect_left(range(table.num_rows), uri, key=lambda number: str(column[number]))
        if place < table.num_rows and str(column[place]) == uri:
            found.append(place)
    return table.take(pa.array(found, type=pa.int64()))
