from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from lakehouse.bookmark import MOVES, REATTACH, RELOAD, RESET, SKIP, advance, first_seen, fold, last_readings
from lakehouse.bookmark_move import known_of, marked, seen_as, seen_nothing, stood_as
from lakehouse.errors import DataError, LakehouseError
from lakehouse.model import Bookmark, Decision, Grave, Manifest, ObjectOutcome, Reference
from lakehouse.state import load_bookmark, walk, write_checkpoint, write_manifest
from tests.landing_values import START, MemoryStore, landed, manifest_of, outcome, publish, reference_of

DAY = date(2026, 8, 30)
A, B, C = landed("a.csv"), landed("b.csv"), landed("c.csv")


def after(bookmark: Bookmark, *outcomes: ObjectOutcome, kind: str = "load", advances: bool = True) -> Bookmark:
    manifest = manifest_of(bookmark, outcomes, kind=kind, advance=advances)
    return advance(bookmark, manifest, reference_of(manifest))


@pytest.fixture
def then() -> Bookmark:
    """a and b are consumed, b is to be read again."""
    read = after(Bookmark(), outcome(A, day=DAY), outcome(B, day=DAY))
    return after(read, outcome(B, Decision.PLANNED), kind=RELOAD)


@pytest.fixture
def now(then: Bookmark) -> Bookmark:
    """b was read again, a has another version that is quarantined, c was read without advancing and is skipped."""
    read = after(then, outcome(B, day=DAY), outcome(landed("a.csv", "B"), Decision.QUARANTINED, day=DAY))
    return after(after(read, outcome(C), advances=False), outcome(C, Decision.SKIPPED), kind=SKIP)


def test_a_reset_sees_nothing_and_knows_what_was_read(now: Bookmark) -> None:
    found = seen_nothing(now)
    assert (dict(found.seen), set(found.paused)) == ({}, {A.uri, B.uri, C.uri})
    assert (found.rulings, found.version, found.held) == (now.rulings, now.version, now.held)
    assert first_seen(found, B, now=START.replace(year=2030)) == START, "reading it again makes it no younger"


def test_a_rewind_sees_what_was_seen_and_asks_again_for_what_was_asked(then: Bookmark, now: Bookmark) -> None:
    found = seen_as(now, then)
    assert found.seen == then.seen
    assert {uri: item.bookmark_version for uri, item in found.paused.items()} == {A.uri: 3, B.uri: 3, C.uri: 4}
    assert {uri: item.decision for uri, item in found.rulings.items()} == {
        B.uri: Decision.PLANNED,
        C.uri: Decision.SKIPPED,
    }
    assert seen_as(now, now).seen == now.seen


def test_a_table_that_went_back_knows_of_nothing_since(then: Bookmark, now: Bookmark) -> None:
    grave = Grave(Reference("s3://state/g", "0"), START, 1)
    found = stood_as(replace(now, graves=(grave,), settled_date=DAY), then)
    assert (found.seen, found.paused, found.graves, found.settled_date) == (then.seen, then.paused, (), None)
    assert (set(found.rulings), found.version) == ({B.uri, C.uri}, now.version)


def test_what_is_marked_counts_as_consumed_and_was_read_by_nobody(now: Bookmark) -> None:
    items = [outcome(B, day=DAY), outcome(C), outcome(landed("d.csv"), day=DAY)]
    found = marked(now, items, batch_id="set", version=9, whole_dates=False)
    assert {uri: item.bookmark_version for uri, item in found.seen.items()} == {
        A.uri: 3, B.uri: 9, C.uri: 9, landed("d.csv").uri: 9,
    }  # fmt: skip
    assert {found.seen[i.object.uri].declaration for i in items} == {""}
    assert (dict(found.paused), set(found.rulings)) == ({}, {C.uri})
    whole = marked(now, items, batch_id="set", version=9, whole_dates=True)
    assert whole.seen[landed("d.csv").uri].bookmark_version == 3, "the version of its date"


def test_the_last_reading_is_the_newest_whether_it_counts_or_not(now: Bookmark) -> None:
    again = after(now, outcome(B), advances=False)
    assert {uri: item.bookmark_version for uri, item in last_readings(again, {DAY, None}).items()} == {
        A.uri: 3,
        B.uri: 6,
        C.uri: 4,
    }


@pytest.mark.parametrize("kind", sorted(MOVES))
def test_nothing_is_folded_across_a_move(kind: str) -> None:
    manifest = manifest_of(Bookmark(), kind=kind)
    with pytest.raises(LakehouseError, match=f"only its checkpoint says what a {kind} knows"):
        fold(Bookmark(), [(manifest, reference_of(manifest))])


def published(store: MemoryStore, bookmark: Bookmark, moved: Bookmark, manifest: Manifest) -> Bookmark:
    """Publish a move as an operator's change does; what is read back then."""
    checkpoint = write_checkpoint(store, known_of(moved), folder=f"{manifest.attempt_id}/")
    stored = replace(manifest, checkpoint=checkpoint, chain=bookmark.chain)
    return load_bookmark(store, write_manifest(store, stored, folder=f"{manifest.attempt_id}/"))


def test_loading_stops_at_a_move_and_walking_goes_on_behind_it() -> None:
    store, bookmark = MemoryStore(), Bookmark()
    for key in ("a.csv", "b.csv"):
        bookmark = publish(store, bookmark, manifest_of(bookmark, [outcome(landed(key))]))
    moved = seen_nothing(bookmark)
    found = published(store, bookmark, moved, manifest_of(bookmark, kind=RESET))
    assert (found.version, found.seen, found.paused) == (3, moved.seen, moved.paused)
    found = publish(store, found, manifest_of(found, [outcome(landed("a.csv"))]))
    assert load_bookmark(store, found.head) == found
    assert set(found.paused) == {landed("b.csv").uri}
    assert [m.bookmark_version for m, _ in walk(store, found.head)] == [4, 3, 2, 1]


@pytest.mark.parametrize(("above", "left"), [(0, [8, 7, 2, 1]), (1, [8, 7, 2]), (2, [8, 7]), (5, [8, 7]), (7, [8])])
def test_a_bookmark_that_was_attached_again_follows_an_older_version(above: int, left: list[int]) -> None:
    store, bookmark = MemoryStore(), Bookmark()
    for key in ("a.csv", "b.csv"):
        bookmark = publish(store, bookmark, manifest_of(bookmark, [outcome(landed(key))]))
    known = replace(bookmark, version=6)
    found = published(store, known, known, manifest_of(known, kind=REATTACH))
    found = publish(store, found, manifest_of(found, [outcome(landed("c.csv"))]))
    assert load_bookmark(store, found.head) == found
    assert [m.bookmark_version for m, _ in walk(store, found.head, above=above)] == left


def test_behind_a_bookmark_that_was_attached_to_nothing_comes_nothing() -> None:
    store, known = MemoryStore(), Bookmark(version=6)
    found = published(store, known, known, manifest_of(known, kind=REATTACH))
    assert [m.bookmark_version for m, _ in walk(store, found.head)] == [7]
    store = MemoryStore()
    reset = published(store, known, known, manifest_of(known, kind=RESET))
    with pytest.raises(DataError, match="ends too early"):
        list(walk(store, reset.head))
