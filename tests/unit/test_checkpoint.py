from __future__ import annotations

import dataclasses
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.checkpoint import (
    CheckpointIndex,
    decode_checkpoint,
    decode_part,
    encode_index,
    encode_part,
    part_table,
    seen_objects,
)
from lakehouse.errors import DataError, NotAvailable
from lakehouse.manifest import encode_manifest
from lakehouse.model import Bookmark, Checkpoint, Seen
from lakehouse.naming import sha256
from lakehouse.seen_parts import StoredParts
from lakehouse.state import Reference, load_bookmark, read_checkpoint, write_checkpoint, write_manifest
from tests.landing_values import MemoryStore, landed, manifest_of, outcome, publish
from tests.stored_values import SAMPLES, rewritten, sample_checkpoint, sample_manifest, sample_seen

SAMPLE_3 = SAMPLES / "checkpoint-3"


def samples_of_format_3() -> dict[str, bytes]:
    """The files that `write_checkpoint(sample_checkpoint(), folder="checkpoint-3/", most=2)` made."""
    return {f"checkpoint-3/{path.name}": path.read_bytes() for path in sorted(SAMPLE_3.iterdir())}


def test_the_committed_samples_of_every_format_still_load() -> None:
    store = MemoryStore()
    assert decode_checkpoint((SAMPLES / "checkpoint-1.parquet").read_bytes()) == Checkpoint(Seen(sample_seen()))
    assert decode_checkpoint((SAMPLES / "checkpoint-2.parquet").read_bytes()) == sample_checkpoint()
    store.objects |= samples_of_format_3()
    index = store.objects["checkpoint-3/checkpoint.parquet"]
    found = read_checkpoint(store, Reference("s3://state/checkpoint-3/checkpoint.parquet", sha256(index)))
    assert found == sample_checkpoint()
    assert {len(found.seen), len(found.rulings)} == {4, 3}


def test_the_same_value_gives_the_same_bytes_however_it_was_built() -> None:
    checkpoint = sample_checkpoint()
    seen, rulings = list(checkpoint.seen.items()), list(checkpoint.rulings.items())
    random.Random(1).shuffle(seen)
    one, other = MemoryStore(), MemoryStore()
    write_checkpoint(one, checkpoint, folder="f/", most=2)
    write_checkpoint(other, Checkpoint(dict(seen), dict(reversed(rulings))), folder="f/", most=2)
    assert one.objects == other.objects


def test_d25_times_keep_their_microseconds() -> None:
    items = sorted(sample_seen().values(), key=lambda item: item.object.uri)
    data = encode_part(part_table(items))
    assert seen_objects(decode_part(data)) == items
    assert encode_part(part_table(seen_objects(decode_part(data)))) == data
    assert {item.object.last_modified.microsecond for item in items} == {345678}


def test_a_checkpoint_is_readable_as_plain_parquet() -> None:
    rows = pq.read_table(SAMPLE_3 / "checkpoint.parquet").to_pylist()
    assert [(row["kind"], row["objects"], row["consumed"], row["quarantined"]) for row in rows] == [
        ("seen", 2, 1, 1),
        ("seen", 2, 2, 0),
        ("rulings", 2, 0, 0),
        ("rulings", 1, 0, 0),
    ]
    assert [row["first"] <= row["last"] for row in rows] == [True] * 4


def test_a_newer_format_says_that_lakehouse_must_be_upgraded() -> None:
    index = rewritten(encode_index(CheckpointIndex()), format="4", header="?")
    with pytest.raises(NotAvailable, match="checkpoint: format=4, this one reads up to format=3; upgrade lakehouse"):
        decode_checkpoint(index)
    part = rewritten(encode_part(part_table([])), format="2")
    with pytest.raises(NotAvailable, match=r"part of a checkpoint: format=2, .* format=1; upgrade lakehouse"):
        decode_part(part)


def test_foreign_parquet_is_not_taken_for_a_checkpoint() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), sink)
    for data in (sink.getvalue().to_pybytes(), encode_manifest(sample_manifest()), b"", encode_part(part_table([]))):
        with pytest.raises(DataError, match="not a checkpoint"):
            decode_checkpoint(data)


@pytest.mark.parametrize("version", [1, 2])
def test_a_chain_that_begins_with_an_old_checkpoint_goes_on_and_gets_the_new_kind(version: int) -> None:
    store = MemoryStore()
    data = (SAMPLES / f"checkpoint-{version}.parquet").read_bytes()
    store.create("old.parquet", data)
    bookmark = Bookmark(version=99)
    manifest = dataclasses.replace(
        manifest_of(bookmark), checkpoint=Reference("s3://state/old.parquet", sha256(data)), chain=()
    )
    bookmark = load_bookmark(store, write_manifest(store, manifest, folder="100/"))
    model = dict(sample_seen())
    rulings = sample_checkpoint().rulings if version == 2 else {}
    assert (bookmark.version, dict(bookmark.seen), bookmark.rulings) == (100, model, rulings)
    for number in range(101, 202):
        item = landed(f"{number:05}.csv" if number % 2 else "b/café.csv", str(number))
        bookmark = publish(store, bookmark, manifest_of(bookmark, [outcome(item)]))
        model[item.uri] = bookmark.seen[item.uri]
    found = load_bookmark(store, bookmark.head)
    assert dict(found.seen) == dict(bookmark.seen) == model
    assert found.rulings == bookmark.rulings
    assert isinstance(found.seen.store, StoredParts)
    assert (found.seen.store.size, len(found.seen.changes)) == (len(model) - 1, 1)
