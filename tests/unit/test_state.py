from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import lru_cache

import pytest

from lakehouse.bookmark import RELOAD, RULINGS, SKIP
from lakehouse.errors import ConfigurationError, DataError
from lakehouse.model import Bookmark, ChainLink, Grave, Manifest, Reference
from lakehouse.naming import sha256
from lakehouse.state import (
    attempt_folder,
    find_version,
    load_bookmark,
    read_blob,
    read_blobs,
    read_manifest,
    walk,
    write_graves,
    write_object,
    write_rejects,
)
from tests.landing_values import MemoryStore, landed, manifest_of, outcome, publish


def history(store: MemoryStore, versions: int, tamper: Callable[[Manifest], Manifest]) -> list[Bookmark]:
    """A context after none and after each of so many batches; one key is overwritten again and again."""
    bookmarks = [Bookmark()]
    for version in range(1, versions + 1):
        key = f"{version}.csv" if version % 3 else "same.csv"
        manifest = manifest_of(bookmarks[-1], [outcome(landed(key, str(version)))], advance=version % 7 != 0)
        bookmarks.append(publish(store, bookmarks[-1], tamper(manifest)))
    return bookmarks


@lru_cache
def long_history() -> tuple[dict[str, bytes], list[Bookmark]]:
    store = MemoryStore()
    return store.objects, history(store, 205, lambda manifest: manifest)


def loaded(store: MemoryStore, versions: int) -> Bookmark:
    """A context after so many batches, written to the store as loads do."""
    objects, bookmarks = long_history()
    store.objects.update(objects)
    return bookmarks[versions]


def key_of(store: MemoryStore, reference: Reference) -> str:
    return reference.uri.removeprefix(store.uri(""))


@pytest.mark.parametrize("versions", [0, 1, 2, 99, 100, 101, 205])
def test_the_bookmark_read_back_equals_the_one_that_was_advanced(versions: int) -> None:
    store = MemoryStore()
    bookmark = loaded(store, versions)
    assert load_bookmark(store, bookmark.head) == bookmark


@pytest.mark.parametrize(("version", "reads"), [(205, 1), (203, 2), (101, 3), (42, 4), (1, 4), (0, 4), (206, 1)])
def test_an_old_version_is_found_without_reading_all_that_is_newer(version: int, reads: int) -> None:
    store = MemoryStore()
    head = loaded(store, 205).head
    store.reads.clear()
    found = find_version(store, head, version)
    assert (found[0].bookmark_version if found else None) == (version if 1 <= version <= 205 else None)
    assert sum(store.reads) == reads
    assert find_version(store, None, version) is None


def test_reading_goes_back_to_the_last_checkpoint_in_three_rounds() -> None:
    store = MemoryStore()
    bookmark = loaded(store, 205)
    store.reads.clear()
    load_bookmark(store, bookmark.head)
    assert store.reads == [1, 5, 1]


@pytest.mark.parametrize("versions", [0, 1, 100, 205])
def test_walk_gives_the_whole_history_newest_first(versions: int) -> None:
    store = MemoryStore()
    manifests = list(walk(store, loaded(store, versions).head))
    assert [manifest.bookmark_version for manifest, _ in manifests] == list(range(versions, 0, -1))
    assert all(read_manifest(store, reference) == manifest for manifest, reference in manifests)


@pytest.mark.parametrize(("above", "reads"), [(205, [1]), (204, [1]), (203, [1, 1]), (150, [1, 5, 49])])
def test_walk_reads_only_what_is_above_a_version(above: int, reads: list[int]) -> None:
    store = MemoryStore()
    head = loaded(store, 205).head
    store.reads.clear()
    versions = [manifest.bookmark_version for manifest, _ in walk(store, head, above=above)]
    assert versions == list(range(205, above, -1))
    assert store.reads == reads


@pytest.mark.parametrize("version", [100, 101, 103, 105])
@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_a_missing_or_altered_manifest_is_named(version: int, damage: str) -> None:
    store = MemoryStore()
    bookmark = loaded(store, 105)
    (reference,) = [ref for manifest, ref in walk(store, bookmark.head) if manifest.bookmark_version == version]
    if damage == "missing":
        del store.objects[key_of(store, reference)]
    else:
        store.objects[key_of(store, reference)] += b"x"
    for read in (lambda: load_bookmark(store, bookmark.head), lambda: list(walk(store, bookmark.head))):
        with pytest.raises(DataError, match=damage) as caught:
            read()
        assert reference.uri in str(caught.value)


def test_a_missing_checkpoint_is_named_and_what_lies_before_it_is_not_needed() -> None:
    store = MemoryStore()
    bookmark = loaded(store, 105)
    for key in [key for key in store.objects if "/batch7/" in key or "/batch99/" in key]:
        del store.objects[key]
    assert load_bookmark(store, bookmark.head) == bookmark
    (checkpoint,) = [key for key in store.objects if key.endswith("/attempt100/checkpoint.parquet")]
    del store.objects[checkpoint]
    with pytest.raises(DataError, match=r"missing: uri=.*/batch100/attempt100/checkpoint.parquet"):
        load_bookmark(store, bookmark.head)


def test_an_object_of_another_kind_under_the_right_digest_is_named() -> None:
    store = MemoryStore()
    reference = write_object(store, "x.parquet", b"no manifest")
    with pytest.raises(DataError, match=r"not a manifest .*uri=s3://state/x.parquet"):
        load_bookmark(store, reference)


def test_a_gap_in_the_versions_is_an_error() -> None:
    def skip_one(manifest: Manifest) -> Manifest:
        return replace(manifest, chain=manifest.chain[1:]) if manifest.bookmark_version == 4 else manifest

    store = MemoryStore()
    bookmark = history(store, 4, skip_one)[-1]
    for read in (lambda: load_bookmark(store, bookmark.head), lambda: list(walk(store, bookmark.head))):
        with pytest.raises(DataError, match="not consecutive"):
            read()


def test_a_link_that_names_another_version_is_an_error() -> None:
    def wrong(manifest: Manifest) -> Manifest:
        if manifest.bookmark_version != 3:
            return manifest
        newest, oldest = manifest.chain
        return replace(manifest, chain=(ChainLink(2, oldest.manifest), ChainLink(1, newest.manifest)))

    store = MemoryStore()
    with pytest.raises(DataError, match="version=1 listed_as=2 expected=2"):
        load_bookmark(store, history(store, 3, wrong)[-1].head)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_chain_that_ends_before_a_checkpoint_is_an_error(keep: int) -> None:
    def cut(manifest: Manifest) -> Manifest:
        return replace(manifest, chain=manifest.chain[:keep]) if manifest.bookmark_version >= 3 - keep else manifest

    store = MemoryStore()
    bookmark = history(store, 3, cut)[-1]
    if keep == 0:
        with pytest.raises(DataError, match="ends too early"):
            list(walk(store, bookmark.head))
    with pytest.raises(DataError, match="without a checkpoint"):
        load_bookmark(store, bookmark.head)


def test_writing_again_is_a_success_for_the_same_bytes_only() -> None:
    store = MemoryStore()
    folder = attempt_folder(
        catalog="my/catalog", table="a.b", table_uuid="new", context="x/..", batch_id="b", attempt_id="t"
    )
    assert folder == "my%2Fcatalog/a.b/new/batches/x%2F../b/t/"
    reference = write_rejects(store, b"one", folder=folder)
    assert reference == Reference(f"s3://state/{folder}rejects.parquet", sha256(b"one"))
    assert write_rejects(store, bytes([*b"one"]), folder=folder) == reference
    with pytest.raises(DataError, match="already there"):
        write_rejects(store, b"two", folder=folder)
    assert read_blob(store, reference) == b"one"
    with pytest.raises(DataError, match="altered"):
        read_blob(store, dataclasses.replace(reference, sha256="0"))


def test_a_reference_outside_the_state_folder_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="outside LAKEHOUSE_STATE=s3://state/"):
        load_bookmark(MemoryStore(), Reference("s3://elsewhere/m", "0"))


@pytest.mark.parametrize("versions", [99, 100, 101])
def test_graves_and_the_settled_date_are_read_back_across_a_checkpoint(versions: int) -> None:
    def remember(manifest: Manifest) -> Manifest:
        grave = Grave(Reference("s3://state/g", "0"), manifest.written_at, manifest.bookmark_version)
        return replace(manifest, graves=(grave,), settled_date=date(2026, 8, 30))

    store = MemoryStore()
    bookmark = history(store, versions, remember)[-1]
    assert load_bookmark(store, bookmark.head) == bookmark
    assert [grave.rows for grave in bookmark.graves] == [versions]


@pytest.mark.parametrize("versions", [1, 98, 100, 101])
def test_what_operators_decided_is_read_back_across_a_checkpoint(versions: int) -> None:
    store = MemoryStore()
    bookmark = Bookmark()
    for kind, key in ((SKIP, "poison.csv"), (RELOAD, "again.csv")):
        decided = [outcome(landed(key), RULINGS[kind], reason=kind)]
        bookmark = publish(store, bookmark, manifest_of(bookmark, decided, kind=kind))
    for version in range(versions):
        bookmark = publish(store, bookmark, manifest_of(bookmark, [outcome(landed(f"{version}.csv"))]))
    assert load_bookmark(store, bookmark.head) == bookmark
    assert sorted(r.decision for r in bookmark.rulings.values()) == ["planned", "skipped"]


def test_several_blobs_are_read_and_verified_at_once() -> None:
    store = MemoryStore()
    references = [write_object(store, f"{n}.parquet", f"{n}".encode()) for n in range(3)]
    store.reads.clear()
    assert read_blobs(store, references) == [b"0", b"1", b"2"]
    assert store.reads == [3]
    with pytest.raises(DataError, match="altered"):
        read_blobs(store, [*references, replace(references[0], sha256="0")])
    assert write_graves(store, b"x", folder="f/").uri == "s3://state/f/deleted_keys.parquet"
