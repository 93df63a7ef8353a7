"""Values that the committed samples of every stored format hold, and how to change a stored file."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.model import (
    ChainLink,
    Checkpoint,
    DateCounts,
    Decision,
    Equation,
    GateResult,
    Grave,
    LandingObject,
    Manifest,
    Mode,
    ObjectOutcome,
    Reference,
    RowCounts,
    Seen,
    SeenObject,
)

SAMPLES = Path(__file__).parent / "samples"
D25 = datetime(2026, 1, 5, 10, 11, 12, 345678, tzinfo=UTC)
KEYS = ("b/café.csv", "a/a b+c%20#?[1]'\".csv", "a/\n.csv", "a/😀.csv")


def sample_manifest() -> Manifest:
    """Every field has a value that is not its default; the objects are not in the order of the rows."""
    objects = tuple(
        ObjectOutcome(
            LandingObject(f"s3://landing/in/{key}", f'"{n}-2"', 10**12 + n, D25 + timedelta(seconds=n), version),
            day,
            decision,
            reason,
            D25 + timedelta(microseconds=n),
            RowCounts(*range(n, n + 13)),
        )
        for n, (key, day, decision, reason, version) in enumerate(
            [
                (KEYS[0], date(2026, 1, 5), Decision.CONSUMED, "", None),
                (KEYS[1], date(2026, 1, 4), Decision.QUARANTINED, "header lacks column=id", "v1"),
                (KEYS[2], None, Decision.CONSUMED, "", ""),
                (KEYS[3], date(2026, 1, 4), Decision.CONSUMED, "", None),
            ]
        )
    )
    return Manifest(
        table="analytics.orders",
        table_uuid="7f1ad4c4-0000-4000-8000-000000000001",
        context="orders é",
        bookmark_version=102,
        batch_id="0123456789abcdef0123456789abcdef",
        attempt_id="attempt",
        run_id="run",
        kind="load",
        mode=Mode.FULL,
        advance=True,
        declaration="0123456789abcdef",
        lookback_days=3,
        started_at=D25,
        merge_started_at=D25 + timedelta(seconds=1),
        merge_ended_at=None,
        written_at=D25.replace(microsecond=0),
        objects=objects,
        rows=RowCounts(read=9, rejected=1, staged=8, inserted=8),
        dates={"2026-01-05": DateCounts(2, RowCounts(read=9), 8, 1), "2026-01-04": DateCounts(gained=3)},
        equations=(Equation("batch", 8, 8), Equation("landing date", 3, 3, date(2026, 1, 4))),
        gates=(
            GateResult("max_rejected_ratio", True, 0.1, 0.5, "1 of 9"),
            GateResult("required_columns", True, 2, None),
            GateResult("control_file", False, "absent", "present"),
            GateResult("row_count_change", True, None, None),
        ),
        rejects=Reference("s3://state/rejects.parquet", "aa"),
        checkpoint=Reference("s3://state/checkpoint.parquet", "bb"),
        chain=(ChainLink(101, Reference("s3://state/101", "cc")), ChainLink(100, Reference("s3://state/100", "dd"))),
        author="ann",
        reason="because",
        graves=(
            Grave(Reference("s3://state/99/deleted_keys.parquet", "ee"), D25 - timedelta(days=3), 2),
            Grave(Reference("s3://state/101/deleted_keys.parquet", "ff"), D25, 10**9),
        ),
        baseline=12,
        settled_date=date(2026, 1, 4),
    )


def format_1_manifest() -> Manifest:
    """What the first format could say of the sample."""
    return dataclasses.replace(sample_manifest(), graves=(), baseline=0, settled_date=None)


def sample_seen() -> dict[str, SeenObject]:
    manifest = sample_manifest()
    return {
        item.object.uri: SeenObject(
            item.object,
            item.landing_date,
            item.decision,
            item.reason,
            f"batch{n}",
            n,
            manifest.declaration,
            item.first_seen,
        )
        for n, item in enumerate(manifest.objects)
    }


def sample_checkpoint() -> Checkpoint:
    """Seen objects, and what operators decided about one of them, about a newer version of another, and about a new
    one."""
    consumed, quarantined, *_ = seen = [*sample_seen().values()]
    rulings = (
        dataclasses.replace(quarantined, decision=Decision.PLANNED, reason="released by ann: repaired"),
        dataclasses.replace(
            consumed,
            object=dataclasses.replace(consumed.object, etag='"new"'),
            decision=Decision.SKIPPED,
            reason="skipped by ann: broken",
        ),
        dataclasses.replace(
            consumed,
            object=dataclasses.replace(consumed.object, uri="s3://landing/in/b/new.csv"),
            decision=Decision.SKIPPED,
        ),
    )
    return Checkpoint(Seen({item.object.uri: item for item in seen}), {item.object.uri: item for item in rulings})


def rewritten(data: bytes, **changes: str) -> bytes:
    """The same Parquet file with other footer entries."""
    file = pq.ParquetFile(pa.BufferReader(data))
    entries = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
    entries.update({f"lakehouse.{name}": value for name, value in changes.items()})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, file.schema_arrow, store_schema=False) as writer:
        writer.add_key_value_metadata(entries)
        writer.write_table(file.read())
    return sink.getvalue().to_pybytes()
