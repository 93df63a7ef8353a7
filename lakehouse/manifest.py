"""The stored form of batch manifests: Parquet with one row per object, all else as JSON in its footer.

Owns every format and reads it for ever; a committed sample of each must still load. The same value always gives the
same bytes. Never reads or writes storage: that is `lakehouse.state`.

Format 2 adds what hard deletes, adopted tables and snapshot feeds leave behind: `graves`, `baseline`, `settled_date`.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from lakehouse.model import (
    Acceptance,
    ChainLink,
    DateCounts,
    Decision,
    Equation,
    GateResult,
    Grave,
    Hold,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
)
from lakehouse.stored_form import (
    MANIFEST,
    OBJECT_FIELDS,
    decode_table,
    encode_table,
    moment_text,
    object_columns,
    read_column,
    read_objects,
    read_times,
    table_of,
)

_COUNTS = tuple(RowCounts().as_dict())
_SCHEMA = pa.schema([*OBJECT_FIELDS, ("ordinal", pa.int64()), *((f"rows_{name}", pa.int64()) for name in _COUNTS)])

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


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as Parquet, rows sorted by landing date and key; `decode_manifest` gives back an equal value."""
    numbered = sorted(enumerate(manifest.objects), key=lambda pair: _sort_key(pair[1]))
    objects = [outcome for _, outcome in numbered]
    columns = object_columns(objects)
    columns["ordinal"] = [position for position, _ in numbered]
    for name in _COUNTS:
        columns[f"rows_{name}"] = [getattr(outcome.rows, name) for outcome in objects]
    return encode_table(table_of(columns, _SCHEMA), content=MANIFEST, header=_header(manifest))


def decode_manifest(data: bytes) -> Manifest:
    """Read what `encode_manifest` wrote, of this or an older format. Raises as `decode_table` does."""
    return decode_table(data, MANIFEST, lambda table, header, _: _manifest(table, header))


def _sort_key(item: ObjectOutcome) -> tuple[date, str]:
    return (item.landing_date or date.min, item.object.uri)


def _manifest(table: pa.Table, header: dict[str, Any]) -> Manifest:
    rows = zip(
        read_objects(table),
        read_column(table, "landing_date"),
        map(Decision, read_column(table, "decision")),
        read_column(table, "reason"),
        read_times(table, "first_seen"),
        map(RowCounts, *(read_column(table, f"rows_{name}") for name in _COUNTS)),
        strict=True,
    )
    ordered = sorted(zip(read_column(table, "ordinal"), rows, strict=True), key=lambda pair: pair[0])
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
        **{name: moment_text(getattr(manifest, name)) for name in _TIMES},
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
            {"uri": g.file.uri, "sha256": g.file.sha256, "written_at": moment_text(g.written_at), "rows": g.rows}
            for g in manifest.graves
        ],
        "baseline": manifest.baseline,
        "settled_date": manifest.settled_date and str(manifest.settled_date),
        **({"held": {**asdict(manifest.held), "since": moment_text(manifest.held.since)}} if manifest.held else {}),
        **({"source_uri": manifest.source_uri} if manifest.source_uri else {}),
        **({"accepted": [_acceptance_header(one) for one in manifest.accepted]} if manifest.accepted else {}),
        **({"foreign": manifest.foreign} if manifest.foreign is not None else {}),
    }


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
    return {**asdict(accepted), "since": moment_text(accepted.since)}


def _acceptance(stored: dict[str, Any]) -> Acceptance:
    objects = tuple((uri, etag, version_id) for uri, etag, version_id in stored["objects"])
    return Acceptance(**{**stored, "since": datetime.fromisoformat(stored["since"]), "objects": objects})


def _reference(stored: dict[str, str] | None) -> Reference | None:
    return None if stored is None else Reference(**stored)


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
