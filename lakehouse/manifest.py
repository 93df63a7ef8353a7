"""The stored form of batch manifests and checkpoints: Parquet with one row per object, all else as JSON in its footer.

Owns every format and reads it for ever; a committed sample of each must still load. The same value always gives the
same bytes. Never reads or writes storage: that is `lakehouse.state`.

Format 2 of a manifest adds what hard deletes, adopted tables and snapshot feeds leave behind: `graves`, `baseline`,
`settled_date`. Format 2 of a checkpoint adds rows of their own beside those of what was seen: what operators decided
about objects, with the decision `skipped` or `planned`, and what was read without advancing, `deferred`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.model import (
    Acceptance,
    ChainLink,
    Checkpoint,
    DateCounts,
    Decision,
    Equation,
    GateResult,
    Grave,
    Hold,
    LandingObject,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
    SeenObject,
)

_MANIFEST = "manifest"
_CHECKPOINT = "checkpoint"
FORMATS = {_MANIFEST: 2, _CHECKPOINT: 2}
"""The formats that are written. A change of columns or of the header's meaning is another number."""

_FORMAT_KEY = "lakehouse.format"
_CONTENT_KEY = "lakehouse.content"
_HEADER_KEY = "lakehouse.header"

# Small enough that the statistics of landing date and key let a reader skip most of a large checkpoint.
_ROW_GROUP = 50_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME = pa.timestamp("us", tz="UTC")

_OBJECT_FIELDS: list[tuple[str, pa.DataType]] = [
    ("landing_date", pa.date32()),
    ("uri", pa.string()),
    ("etag", pa.string()),
    ("version_id", pa.string()),
    ("size", pa.int64()),
    ("last_modified", _TIME),
    ("decision", pa.string()),
    ("reason", pa.string()),
    ("first_seen", _TIME),
]
_COUNTS = tuple(RowCounts().as_dict())
_MANIFEST_SCHEMA = pa.schema(
    [*_OBJECT_FIELDS, ("ordinal", pa.int64()), *((f"rows_{name}", pa.int64()) for name in _COUNTS)]
)
_CHECKPOINT_SCHEMA = pa.schema(
    [*_OBJECT_FIELDS, ("batch_id", pa.string()), ("bookmark_version", pa.int64()), ("declaration", pa.string())]
)

# Fields of a manifest that JSON holds as they are.
_PLAIN = (
    "table",
    "table_uuid",
    "context",
    "bookmark_version",
    "batch_id",
    "attempt_id",
    "run_id",
    "kind",
    "advance",
    "declaration",
    "lookback_days",
    "author",
    "reason",
)
_TIMES = ("started_at", "merge_started_at", "merge_ended_at", "written_at")

_Item = TypeVar("_Item", ObjectOutcome, SeenObject)
_Value = TypeVar("_Value")


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as Parquet, rows sorted by landing date and key; `decode_manifest` gives back an equal value."""
    numbered = sorted(enumerate(manifest.objects), key=lambda pair: _sort_key(pair[1]))
    objects = [outcome for _, outcome in numbered]
    columns = _object_columns(objects)
    columns["ordinal"] = [position for position, _ in numbered]
    for name in _COUNTS:
        columns[f"rows_{name}"] = [getattr(outcome.rows, name) for outcome in objects]
    return _encode(columns, schema=_MANIFEST_SCHEMA, content=_MANIFEST, header=_header(manifest))


def decode_manifest(data: bytes) -> Manifest:
    """Read what `encode_manifest` wrote, of this or an older format.

    Raises NotAvailable for a format newer than this lakehouse, DataError for bytes that are no manifest.
    """
    return _decode(data, _MANIFEST, _manifest)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Seen and paused objects and rulings as Parquet, rows sorted by landing date and key."""
    objects = sorted(
        (*checkpoint.seen.values(), *checkpoint.rulings.values(), *checkpoint.paused.values()), key=_sort_key
    )
    columns = _object_columns(objects)
    for name in ("batch_id", "bookmark_version", "declaration"):
        columns[name] = [getattr(item, name) for item in objects]
    return _encode(columns, schema=_CHECKPOINT_SCHEMA, content=_CHECKPOINT, header={})


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Read what `encode_checkpoint` wrote, of this or an older format. Raises as `decode_manifest` does."""
    return _decode(data, _CHECKPOINT, lambda table, _: _checkpoint(table))


def _encode(columns: dict[str, list[Any]], *, schema: pa.Schema, content: str, header: dict[str, Any]) -> bytes:
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    text = json.dumps(header, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False) as writer:
        writer.add_key_value_metadata({_FORMAT_KEY: str(FORMATS[content]), _CONTENT_KEY: content, _HEADER_KEY: text})
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=_ROW_GROUP)
    return sink.getvalue().to_pybytes()


def _decode(data: bytes, content: str, build: Callable[[pa.Table, dict[str, Any]], _Value]) -> _Value:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        stored = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
        _check_format(stored, content)
        return build(file.read(), json.loads(stored[_HEADER_KEY]))
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
        raise DataError(f"not a {content} of format {FORMATS[content]}: {error!r}") from error


def _check_format(stored: Mapping[str, str], content: str) -> None:
    version, found = int(stored.get(_FORMAT_KEY, "0")), stored.get(_CONTENT_KEY, "")
    if version > FORMATS.get(found, FORMATS[content]):
        raise NotAvailable(
            f"a newer lakehouse wrote this {found or content}: format={version}, this one reads up to "
            f"format={FORMATS[content]}; upgrade lakehouse"
        )
    if version < 1 or found != content:
        raise DataError(f"not a {content} of lakehouse: format={version} content={found or None}")


def _sort_key(item: ObjectOutcome | SeenObject) -> tuple[date, str]:
    return (item.landing_date or date.min, item.object.uri)


def _object_columns(items: Sequence[_Item]) -> dict[str, list[Any]]:
    return {
        "landing_date": [item.landing_date for item in items],
        "uri": [item.object.uri for item in items],
        "etag": [item.object.etag for item in items],
        "version_id": [item.object.version_id for item in items],
        "size": [item.object.size for item in items],
        "last_modified": [_micros(item.object.last_modified) for item in items],
        "decision": [item.decision.value for item in items],
        "reason": [item.reason for item in items],
        "first_seen": [_micros(item.first_seen) for item in items],
    }


def _objects(table: pa.Table) -> Iterable[LandingObject]:
    return map(
        LandingObject,
        _column(table, "uri"),
        _column(table, "etag"),
        _column(table, "size"),
        _times(table, "last_modified"),
        _column(table, "version_id"),
    )


def _column(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()


def _times(table: pa.Table, name: str) -> list[datetime]:
    micros: list[Any] = table.column(name).cast(pa.int64()).to_pylist()
    return [_EPOCH + timedelta(microseconds=value) for value in micros]


def _micros(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise LakehouseError(f"a stored time needs a zone: {moment.isoformat()}")
    return (moment - _EPOCH) // _MICROSECOND


def _manifest(table: pa.Table, header: dict[str, Any]) -> Manifest:
    rows = zip(
        _objects(table),
        _column(table, "landing_date"),
        map(Decision, _column(table, "decision")),
        _column(table, "reason"),
        _times(table, "first_seen"),
        map(RowCounts, *(_column(table, f"rows_{name}") for name in _COUNTS)),
        strict=True,
    )
    ordered = sorted(zip(_column(table, "ordinal"), rows, strict=True), key=lambda pair: pair[0])
    fields: dict[str, Any] = {name: header[name] for name in _PLAIN} | {name: _moment(header[name]) for name in _TIMES}
    return Manifest(
        **fields,
        mode=Mode(header["mode"]),
        objects=tuple(ObjectOutcome(*row) for _, row in ordered),
        rows=RowCounts(**header["rows"]),
        dates={day: _date_counts(counts) for day, counts in header["dates"].items()},
        equations=tuple(Equation(**{**e, "landing_date": _day(e["landing_date"])}) for e in header["equations"]),
        gates=tuple(GateResult(**gate) for gate in header["gates"]),
        rejects=_reference(header["rejects"]),
        checkpoint=_reference(header["checkpoint"]),
        chain=tuple(ChainLink(version, Reference(uri, digest)) for version, uri, digest in header["chain"]),
        # format 1 knew neither hard deletes nor adopted tables nor snapshot feeds
        graves=tuple(_grave(stored) for stored in header.get("graves", ())),
        baseline=header.get("baseline", 0),
        settled_date=_day(header.get("settled_date")),
        held=_hold(header.get("held")),
        source_uri=header.get("source_uri", ""),
        accepted=tuple(_acceptance(stored) for stored in header.get("accepted", ())),
        foreign=header.get("foreign"),
    )


def _header(manifest: Manifest) -> dict[str, Any]:
    return {
        **{name: getattr(manifest, name) for name in _PLAIN},
        **{name: _moment_text(getattr(manifest, name)) for name in _TIMES},
        "mode": manifest.mode.value,
        "rows": manifest.rows.as_dict(),
        "dates": {
            day: {"objects": c.objects, "rows": c.rows.as_dict(), "gained": c.gained, "lost": c.lost}
            for day, c in manifest.dates.items()
        },
        "equations": [
            {"name": e.name, "left": e.left, "right": e.right, "landing_date": e.landing_date and str(e.landing_date)}
            for e in manifest.equations
        ],
        "gates": [
            {"name": g.name, "passed": g.passed, "value": g.value, "limit": g.limit, "detail": g.detail}
            | ({"accepted": g.accepted} if g.accepted else {})
            for g in manifest.gates
        ],
        "rejects": manifest.rejects and {"uri": manifest.rejects.uri, "sha256": manifest.rejects.sha256},
        "checkpoint": manifest.checkpoint and {"uri": manifest.checkpoint.uri, "sha256": manifest.checkpoint.sha256},
        "chain": [[link.version, link.manifest.uri, link.manifest.sha256] for link in manifest.chain],
        "graves": [
            {"uri": g.file.uri, "sha256": g.file.sha256, "written_at": _moment_text(g.written_at), "rows": g.rows}
            for g in manifest.graves
        ],
        "baseline": manifest.baseline,
        "settled_date": manifest.settled_date and str(manifest.settled_date),
        **({"held": {**asdict(manifest.held), "since": _moment_text(manifest.held.since)}} if manifest.held else {}),
        **({"source_uri": manifest.source_uri} if manifest.source_uri else {}),
        **({"accepted": [_acceptance_header(one) for one in manifest.accepted]} if manifest.accepted else {}),
        **({"foreign": manifest.foreign} if manifest.foreign is not None else {}),
    }


def _checkpoint(table: pa.Table) -> Checkpoint:
    seen: dict[str, SeenObject] = {}
    rulings: dict[str, SeenObject] = {}
    paused: dict[str, SeenObject] = {}
    places = {Decision.CONSUMED: seen, Decision.QUARANTINED: seen, Decision.DEFERRED: paused}
    for item in _seen(table):
        places.get(item.decision, rulings)[item.object.uri] = item
    return Checkpoint(seen, rulings, paused)


def _seen(table: pa.Table) -> Iterable[SeenObject]:
    return map(
        SeenObject,
        _objects(table),
        _column(table, "landing_date"),
        map(Decision, _column(table, "decision")),
        _column(table, "reason"),
        _column(table, "batch_id"),
        _column(table, "bookmark_version"),
        _column(table, "declaration"),
        _times(table, "first_seen"),
    )


def _date_counts(stored: dict[str, Any]) -> DateCounts:
    return DateCounts(**{**stored, "rows": RowCounts(**stored["rows"])})


def _grave(stored: dict[str, Any]) -> Grave:
    written_at = datetime.fromisoformat(stored["written_at"])
    return Grave(Reference(stored["uri"], stored["sha256"]), written_at, stored["rows"])


def _hold(stored: dict[str, str] | None) -> Hold | None:
    if stored is None:
        return None
    return Hold(stored["author"], stored["reason"], datetime.fromisoformat(stored["since"]))


def _acceptance_header(accepted: Acceptance) -> dict[str, Any]:
    return {**asdict(accepted), "since": _moment_text(accepted.since)}


def _acceptance(stored: dict[str, Any]) -> Acceptance:
    objects = tuple((uri, etag, version_id) for uri, etag, version_id in stored["objects"])
    return Acceptance(**{**stored, "since": datetime.fromisoformat(stored["since"]), "objects": objects})


def _reference(stored: dict[str, str] | None) -> Reference | None:
    return None if stored is None else Reference(**stored)


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else (_EPOCH + _micros(moment) * _MICROSECOND).isoformat()
