from __future__ import annotations

import dataclasses
import random
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.manifest import decode_manifest, encode_manifest
from lakehouse.model import (
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

SAMPLES = Path(__file__).parents[1] / "samples"
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
    return Checkpoint({item.object.uri: item for item in seen}, {item.object.uri: item for item in rulings})


def test_manifest_round_trip_keeps_every_field_and_the_order_of_the_batch() -> None:
    manifest = sample_manifest()
    decoded = decode_manifest(encode_manifest(manifest))
    assert decoded == manifest
    assert [type(gate.value) for gate in decoded.gates] == [type(gate.value) for gate in manifest.gates]


def test_d25_times_keep_their_microseconds_and_every_generation_is_equal_to_the_byte() -> None:
    first = encode_manifest(sample_manifest())
    decoded = decode_manifest(first)
    assert decoded.objects[0].object.last_modified.isoformat() == "2026-01-05T10:11:12.345678+00:00"
    assert encode_manifest(decoded) == first
    checkpoint = encode_checkpoint(sample_checkpoint())
    assert encode_checkpoint(decode_checkpoint(checkpoint)) == checkpoint


def test_an_empty_batch_round_trips() -> None:
    held = dataclasses.replace(sample_manifest(), held=Hold("anna", "mending", D25))
    assert decode_manifest(encode_manifest(held)) == held
    empty = dataclasses.replace(sample_manifest(), objects=(), dates={}, equations=(), gates=(), chain=())
    empty = dataclasses.replace(empty, rejects=None, checkpoint=None, merge_started_at=None)
    assert decode_manifest(encode_manifest(empty)) == empty
    assert decode_checkpoint(encode_checkpoint(Checkpoint())) == Checkpoint()


def test_rows_are_sorted_by_landing_date_and_key_and_readable_as_plain_parquet() -> None:
    table = pq.read_table(pa.BufferReader(encode_manifest(sample_manifest())))
    assert table.column("landing_date").to_pylist() == [None, date(2026, 1, 4), date(2026, 1, 4), date(2026, 1, 5)]
    assert [str(uri).removeprefix("s3://landing/in/") for uri in table.column("uri").to_pylist()] == [
        KEYS[2],
        KEYS[1],
        KEYS[3],
        KEYS[0],
    ]
    assert table.schema.field("last_modified").type == pa.timestamp("us", tz="UTC")


def test_the_same_value_gives_the_same_bytes_however_it_was_built() -> None:
    manifest, checkpoint = sample_manifest(), sample_checkpoint()
    turned = dataclasses.replace(
        manifest,
        dates=dict(reversed(list(manifest.dates.items()))),
        started_at=D25.astimezone(timezone(timedelta(hours=5, minutes=30))),
    )
    assert encode_manifest(turned) == encode_manifest(manifest)
    seen, rulings = list(checkpoint.seen.items()), list(checkpoint.rulings.items())
    random.Random(1).shuffle(seen)
    assert encode_checkpoint(Checkpoint(dict(seen), dict(reversed(rulings)))) == encode_checkpoint(checkpoint)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(LakehouseError, match="needs a zone"):
        encode_manifest(dataclasses.replace(sample_manifest(), written_at=D25.replace(tzinfo=None)))


def test_checkpoint_round_trip() -> None:
    assert decode_checkpoint(encode_checkpoint(sample_checkpoint())) == sample_checkpoint()


def test_the_committed_samples_of_every_format_still_load() -> None:
    assert decode_manifest((SAMPLES / "manifest-1.parquet").read_bytes()) == format_1_manifest()
    assert decode_manifest((SAMPLES / "manifest-2.parquet").read_bytes()) == sample_manifest()
    assert decode_checkpoint((SAMPLES / "checkpoint-1.parquet").read_bytes()) == Checkpoint(sample_seen())
    assert decode_checkpoint((SAMPLES / "checkpoint-2.parquet").read_bytes()) == sample_checkpoint()


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


def test_a_newer_format_says_that_lakehouse_must_be_upgraded() -> None:
    newer = rewritten(encode_manifest(sample_manifest()), format="3", header='{"unknown": 1}')
    with pytest.raises(NotAvailable, match="manifest: format=3, this one reads up to format=2; upgrade lakehouse"):
        decode_manifest(newer)
    with pytest.raises(NotAvailable, match="checkpoint: format=3, this one reads up to format=2; upgrade lakehouse"):
        decode_checkpoint(rewritten(encode_checkpoint(sample_checkpoint()), format="3"))


def test_a_manifest_says_which_format_it_has_so_that_a_reader_of_format_1_refuses_it() -> None:
    def format_of(data: bytes) -> bytes:
        return (pq.ParquetFile(pa.BufferReader(data)).metadata.metadata or {})[b"lakehouse.format"]

    assert format_of(encode_manifest(sample_manifest())) == b"2"
    assert format_of((SAMPLES / "manifest-1.parquet").read_bytes()) == b"1"
    assert format_of(encode_checkpoint(sample_checkpoint())) == b"2"
    assert format_of((SAMPLES / "checkpoint-1.parquet").read_bytes()) == b"1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1 no parquet",
        encode_manifest(sample_manifest())[:-9],
        encode_checkpoint(Checkpoint()),
        rewritten(encode_manifest(sample_manifest()), header="{}"),
        rewritten(encode_manifest(sample_manifest()), header="no json"),
        rewritten(encode_manifest(sample_manifest()), format="one"),
    ],
)
def test_bytes_that_are_no_manifest_are_a_data_error(data: bytes) -> None:
    with pytest.raises(DataError, match="not a manifest"):
        decode_manifest(data)


def test_foreign_parquet_is_not_taken_for_a_checkpoint() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), sink)
    with pytest.raises(DataError, match="not a checkpoint"):
        decode_checkpoint(sink.getvalue().to_pybytes())
