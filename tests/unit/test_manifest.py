from __future__ import annotations

import dataclasses
from datetime import date, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.checkpoint import CheckpointIndex, encode_index
from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.manifest import decode_manifest, encode_manifest
from lakehouse.model import Acceptance, GateResult, Hold
from tests.stored_values import D25, KEYS, SAMPLES, format_1_manifest, rewritten, sample_manifest


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


def test_an_empty_batch_round_trips() -> None:
    held = dataclasses.replace(sample_manifest(), held=Hold("anna", "mending", D25), source_uri="s3://landing/in/")
    assert decode_manifest(encode_manifest(held)) == held
    word = Acceptance(
        "max_rejected_ratio", "anna", "known", D25, "d1", (("s3://b/a", "e", None), ("s3://b/b", "f", "v")), 7
    )
    accepted = GateResult("max_rejected_ratio", False, 0.5, 0.1, "", word.text)
    decided = dataclasses.replace(sample_manifest(), accepted=(word,), gates=(accepted,), foreign=2**62)
    assert decode_manifest(encode_manifest(decided)) == decided
    empty = dataclasses.replace(sample_manifest(), objects=(), dates={}, equations=(), gates=(), chain=())
    empty = dataclasses.replace(empty, rejects=None, checkpoint=None, merge_started_at=None)
    assert decode_manifest(encode_manifest(empty)) == empty


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
    manifest = sample_manifest()
    turned = dataclasses.replace(
        manifest,
        dates=dict(reversed(list(manifest.dates.items()))),
        started_at=D25.astimezone(timezone(timedelta(hours=5, minutes=30))),
    )
    assert encode_manifest(turned) == encode_manifest(manifest)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(LakehouseError, match="needs a zone"):
        encode_manifest(dataclasses.replace(sample_manifest(), written_at=D25.replace(tzinfo=None)))


def test_the_committed_samples_of_every_format_of_manifests_still_load() -> None:
    assert decode_manifest((SAMPLES / "manifest-1.parquet").read_bytes()) == format_1_manifest()
    assert decode_manifest((SAMPLES / "manifest-2.parquet").read_bytes()) == sample_manifest()


def test_a_newer_format_says_that_lakehouse_must_be_upgraded() -> None:
    newer = rewritten(encode_manifest(sample_manifest()), format="3", header='{"unknown": 1}')
    with pytest.raises(NotAvailable, match="manifest: format=3, this one reads up to format=2; upgrade lakehouse"):
        decode_manifest(newer)


def test_a_manifest_says_which_format_it_has_so_that_a_reader_of_format_1_refuses_it() -> None:
    def format_of(data: bytes) -> bytes:
        return (pq.ParquetFile(pa.BufferReader(data)).metadata.metadata or {})[b"lakehouse.format"]

    assert format_of(encode_manifest(sample_manifest())) == b"2"
    assert format_of((SAMPLES / "manifest-1.parquet").read_bytes()) == b"1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1 no parquet",
        encode_manifest(sample_manifest())[:-9],
        encode_index(CheckpointIndex()),
        rewritten(encode_manifest(sample_manifest()), header="{}"),
        rewritten(encode_manifest(sample_manifest()), header="no json"),
        rewritten(encode_manifest(sample_manifest()), format="one"),
    ],
)
def test_bytes_that_are_no_manifest_are_a_data_error(data: bytes) -> None:
    with pytest.raises(DataError, match="not a manifest"):
        decode_manifest(data)
