"""The stored form of checkpoints: a small index, and parts of a bounded number of objects that it refers to.

Owns every format and reads it for ever; a committed sample of each must still load. Never reads or writes storage: that
is `lakehouse.state`.

Format 3 is the index: one row per part, with the range of its uris and landing dates, its counts and its digest. Parts
are immutable, so the next checkpoint refers to those that nothing has changed. They are sorted by uri and not by
landing date: the uri is what an object is known by, and is found again after a change of the declaration gave it
another date; where folders name the date, both orders are the same. Formats 1 and 2 hold all objects in one file:
format 2 with what operators decided (`skipped`, `planned`) and what was read without advancing (`deferred`) beside
what was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from itertools import chain, repeat
from operator import sub
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.model import Checkpoint, Decision, Fate, Glance, Reference, Seen, SeenObject
from lakehouse.stored_form import (
    CHECKPOINT,
    OBJECT_FIELDS,
    PART,
    decode_table,
    encode_table,
    object_columns,
    read_column,
    read_objects,
    read_repeated,
    read_times,
    table_of,
)

_PART_SCHEMA = pa.schema(
    [*OBJECT_FIELDS, ("batch_id", pa.string()), ("bookmark_version", pa.int64()), ("declaration", pa.string())]
)
_INDEX_FIELDS: list[tuple[str, pa.DataType]] = [
    ("kind", pa.string()),
    ("uri", pa.string()),
    ("sha256", pa.string()),
    ("first", pa.string()),
    ("last", pa.string()),
    ("objects", pa.int64()),
    ("consumed", pa.int64()),
    ("quarantined", pa.int64()),
    ("undated", pa.int64()),
    ("first_date", pa.date32()),
    ("last_date", pa.date32()),
]
_INDEX_SCHEMA = pa.schema(_INDEX_FIELDS)
GLANCED = ["uri", "etag", "version_id", *Fate._fields]
"""The columns of a part that `glances` needs."""
_DECISIONS = {decision.value: decision for decision in Decision}
_WHOLE_FILE_FORMATS = (1, 2)


@dataclass(frozen=True, slots=True)
class Part:
    """One stored piece of a set of objects: `first` and `last` are its uris, the dates those of its dated objects."""

    file: Reference
    first: str
    last: str
    objects: int
    consumed: int
    quarantined: int
    undated: int
    first_date: date | None
    last_date: date | None


@dataclass(frozen=True, slots=True)
class CheckpointIndex:
    """The parts of a checkpoint, each kind in the order of its uris and without overlap."""

    seen: tuple[Part, ...] = ()
    rulings: tuple[Part, ...] = ()
    paused: tuple[Part, ...] = ()


def encode_index(index: CheckpointIndex) -> bytes:
    kinds = {"seen": index.seen, "rulings": index.rulings, "paused": index.paused}
    rows = [(kind, part) for kind, parts in kinds.items() for part in parts]
    columns: dict[str, list[Any]] = {
        "kind": [kind for kind, _ in rows],
        "uri": [part.file.uri for _, part in rows],
        "sha256": [part.file.sha256 for _, part in rows],
    }
    for name in _INDEX_SCHEMA.names[3:]:
        columns[name] = [getattr(part, name) for _, part in rows]
    return encode_table(table_of(columns, _INDEX_SCHEMA), content=CHECKPOINT, header={})


def decode_checkpoint(data: bytes) -> Checkpoint | CheckpointIndex:
    """What a checkpoint of this or an older format says: older ones hold the objects themselves.

    Raises as `stored_form.decode_table` does.
    """
    return decode_table(data, CHECKPOINT, lambda table, _, format: _checkpoint(table, format))


def encode_part(table: pa.Table) -> bytes:
    """The rows of one part, as `part_table` makes them, in the order of their uris."""
    return encode_table(table, content=PART, header={})


def decode_part(data: bytes, columns: list[str] | None = None) -> pa.Table:
    """Read what `encode_part` wrote, of this or an older format; `columns`: these alone."""
    return decode_table(data, PART, lambda table, _, __: table.combine_chunks(), columns=columns)


def part_table(items: Sequence[SeenObject]) -> pa.Table:
    """The objects as rows, in their order."""
    columns = object_columns(items)
    for name in ("batch_id", "bookmark_version", "declaration"):
        columns[name] = [getattr(item, name) for item in items]
    return table_of(columns, _PART_SCHEMA)


def describe_part(table: pa.Table, file: Reference) -> Part:
    """The entry of a part in the index; the rows are in the order of their uris, one at least."""
    uris, dates = table.column("uri"), table.column("landing_date")
    decided = Counter(read_column(table, "decision"))
    return Part(
        file=file,
        first=str(uris[0]),
        last=str(uris[-1]),
        objects=table.num_rows,
        consumed=decided[Decision.CONSUMED.value],
        quarantined=decided[Decision.QUARANTINED.value],
        undated=dates.null_count,
        first_date=pc.min(dates).as_py(),
        last_date=pc.max(dates).as_py(),
    )


def seen_objects(table: pa.Table) -> list[SeenObject]:
    """The rows of a part as objects."""
    return [
        *map(
            SeenObject,
            read_objects(table),
            read_repeated(table, "landing_date"),
            map(_DECISIONS.__getitem__, read_repeated(table, "decision")),
            read_repeated(table, "reason"),
            read_repeated(table, "batch_id"),
            read_column(table, "bookmark_version"),
            read_repeated(table, "declaration"),
            read_times(table, "first_seen"),
        )
    ]


def glances(table: pa.Table) -> Iterator[tuple[str, Glance]]:
    """The rows of a part as a plan looks at them, by uri."""
    glanced = map(Glance, read_column(table, "etag"), read_column(table, "version_id"), _fates(table))
    return zip(read_column(table, "uri"), glanced, strict=True)


def _fates(table: pa.Table) -> Iterator[Fate]:
    """The fate of each row, made once for neighbours that share it: objects of a day were mostly read by one batch."""
    if not table.num_rows:
        return iter(())
    columns = [table.column(name) for name in Fate._fields]
    differs = reduce(pc.or_, (pc.not_equal(column[1:], column[:-1]) for column in columns))
    starts: list[Any] = [0, *pc.add(pc.indices_nonzero(differs), 1).to_pylist()]
    rows = table.take(pa.array(starts))
    decisions, *others = (read_column(rows, name) for name in Fate._fields)
    fates = map(Fate, map(_DECISIONS.__getitem__, decisions), *others)
    return chain.from_iterable(map(repeat, fates, map(sub, [*starts[1:], table.num_rows], starts)))


def _checkpoint(table: pa.Table, format: int) -> Checkpoint | CheckpointIndex:
    return _whole_file(table) if format in _WHOLE_FILE_FORMATS else _index(table)


def _whole_file(table: pa.Table) -> Checkpoint:
    seen: dict[str, SeenObject] = {}
    rulings: dict[str, SeenObject] = {}
    paused: dict[str, SeenObject] = {}
    places = {Decision.CONSUMED: seen, Decision.QUARANTINED: seen, Decision.DEFERRED: paused}
    for item in seen_objects(table):
        places.get(item.decision, rulings)[item.object.uri] = item
    return Checkpoint(Seen(seen), rulings, Seen(paused))


def _index(table: pa.Table) -> CheckpointIndex:
    parts: dict[str, list[Part]] = {"seen": [], "rulings": [], "paused": []}
    fields = [read_column(table, name) for name in _INDEX_SCHEMA.names]
    for kind, uri, sha256, *rest in zip(*fields, strict=True):
        parts[kind].append(Part(Reference(uri, sha256), *rest))
    return CheckpointIndex(**{kind: tuple(found) for kind, found in parts.items()})
