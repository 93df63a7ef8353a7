"""Values that several tests build: listed objects, manifests and a state store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lakehouse.bookmark import advance, checkpoint_after, needs_checkpoint, next_chain
from lakehouse.declaration import Declaration
from lakehouse.manifest import encode_manifest
from lakehouse.model import (
    Bookmark,
    Decision,
    LandingObject,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
)
from lakehouse.naming import sha256
from lakehouse.state import attempt_folder, write_checkpoint, write_manifest

START = datetime(2026, 9, 1, tzinfo=UTC)


def declared(
    *, source: Mapping[str, Any] | None = None, gates: Mapping[str, Any] | None = None, **changes: Any
) -> Declaration:
    """A table whose objects land as `s3://landing/in/day=2026-08-30/x.csv`."""
    return Declaration.model_validate(
        {
            "table": "analytics.orders",
            "source": {
                "uri": "s3://landing/in/",
                "partition": "day=%Y-%m-%d",
                "files": "*.csv",
                "format": {"type": "csv"},
                **(source or {}),
            },
            "columns": {"id": {"type": "bigint", "required": True}, "at": "timestamptz"},
            "key": ["id"],
            "order_by": ["at"],
            "start_date": "2026-08-30",
            "gates": dict(gates or {}),
            **changes,
        }
    )


def landed(
    key: str, etag: str = "A", *, size: int = 10, at: float = 0, source: str = "s3://landing/in/"
) -> LandingObject:
    """An object below the source, last modified `at` seconds after START."""
    return LandingObject(source + key, etag, size, START + timedelta(seconds=at))


def outcome(
    obj: LandingObject, decision: Decision = Decision.CONSUMED, *, reason: str = "", day: date | None = None
) -> ObjectOutcome:
    return ObjectOutcome(obj, day, decision, reason, START, RowCounts(read=2, staged=2, inserted=2))


def manifest_of(
    bookmark: Bookmark,
    outcomes: Sequence[ObjectOutcome] = (),
    *,
    mode: Mode = Mode.INCREMENTAL,
    advance: bool = True,
    declaration: str = "d1",
    kind: str = "load",
) -> Manifest:
    """The manifest that follows the bookmark."""
    version = bookmark.version + 1
    return Manifest(
        table="analytics.orders",
        table_uuid="uuid",
        context="orders",
        bookmark_version=version,
        batch_id=f"batch{version}",
        attempt_id=f"attempt{version}",
        run_id="run",
        kind=kind,
        mode=mode,
        advance=advance,
        declaration=declaration,
        lookback_days=3,
        started_at=START,
        merge_started_at=None,
        merge_ended_at=None,
        written_at=START,
        objects=tuple(outcomes),
        rows=sum((item.rows for item in outcomes), RowCounts()),
        dates={},
        equations=(),
        gates=(),
        rejects=None,
        checkpoint=None,
        chain=next_chain(bookmark),
    )


def reference_of(manifest: Manifest) -> Reference:
    return Reference(f"s3://state/{manifest.attempt_id}", sha256(encode_manifest(manifest)))


class MemoryStore:
    """A state store in memory; `reads` counts rounds, one per call that goes to the storage."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: list[int] = []

    def read(self, key: str) -> bytes | None:
        self.reads.append(1)
        return self.objects.get(key)

    def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.reads.append(len(keys))
        return [self.objects.get(key) for key in keys]

    def create(self, key: str, data: bytes) -> bool:
        return self.objects.setdefault(key, data) is data

    def uri(self, key: str) -> str:
        return f"s3://state/{key}"


def publish(store: MemoryStore, bookmark: Bookmark, manifest: Manifest) -> Bookmark:
    """Write the manifest, and its checkpoint where one is due, as a load does; the bookmark after it."""
    folder = attempt_folder(
        catalog="default",
        table=manifest.table,
        table_uuid=manifest.table_uuid,
        context=manifest.context,
        batch_id=manifest.batch_id,
        attempt_id=manifest.attempt_id,
    )
    if needs_checkpoint(manifest.bookmark_version):
        checkpoint = write_checkpoint(store, checkpoint_after(bookmark, manifest), folder=folder)
        manifest = replace(manifest, checkpoint=checkpoint)
    return advance(bookmark, manifest, write_manifest(store, manifest, folder=folder))
