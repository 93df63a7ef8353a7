from __future__ import annotations

import dataclasses
from datetime import date, timedelta

import pytest

from lakehouse.bookmark import (
    RELEASE,
    RELOAD,
    REPLAY,
    RULINGS,
    SKIP,
    advance,
    checkpoint_after,
    first_seen,
    fold,
    needs_checkpoint,
    next_chain,
    ruling_of,
)
from lakehouse.errors import DataError, LakehouseError, NotAvailable
from lakehouse.model import Bookmark, Decision, Grave, LandingObject, Mode, Reference
from tests.landing_values import START, landed, manifest_of, outcome, reference_of


def test_a_new_context_has_seen_nothing_and_has_no_chain() -> None:
    assert next_chain(Bookmark()) == ()
    assert Bookmark().version == 0


def test_a_batch_moves_the_version_and_remembers_the_latest_version_of_a_key() -> None:
    bookmark = Bookmark()
    for etag, decision in (("A", Decision.CONSUMED), ("B", Decision.QUARANTINED)):
        manifest = manifest_of(bookmark, [outcome(landed("a.csv", etag), decision, reason="why")])
        bookmark = advance(bookmark, manifest, reference_of(manifest))
    (seen,) = bookmark.seen.values()
    assert (seen.object.etag, seen.decision, seen.reason) == ("B", Decision.QUARANTINED, "why")
    assert (seen.batch_id, seen.bookmark_version, seen.declaration) == ("batch2", 2, "d1")
    assert bookmark.head == reference_of(manifest)


def test_advance_leaves_the_bookmark_it_started_from() -> None:
    before = Bookmark()
    manifest = manifest_of(before, [outcome(landed("a.csv"))])
    advance(before, manifest, reference_of(manifest))
    assert before == Bookmark()


def test_a_batch_that_does_not_advance_moves_the_version_alone() -> None:
    manifest = manifest_of(Bookmark(), [outcome(landed("a.csv"))], mode=Mode.NO_ADVANCE, advance=False)
    after = advance(Bookmark(), manifest, reference_of(manifest))
    assert (after.version, dict(after.seen)) == (1, {})
    assert {uri: item.decision for uri, item in after.paused.items()} == {landed("a.csv").uri: Decision.DEFERRED}
    later = manifest_of(after, [outcome(landed("a.csv"))])
    seen = advance(after, later, reference_of(later))
    assert (len(seen.seen), dict(seen.paused)) == (1, {})


def test_what_a_batch_refused_without_advancing_is_not_counted_as_read() -> None:
    refused = [outcome(landed("a.csv"), Decision.QUARANTINED, reason="broken")]
    manifest = manifest_of(Bookmark(), refused, mode=Mode.NO_ADVANCE, advance=False)
    after = advance(Bookmark(), manifest, reference_of(manifest))
    assert [item.decision for item in after.paused.values()] == [Decision.QUARANTINED]


def test_a_full_load_updates_what_was_seen() -> None:
    manifest = manifest_of(Bookmark(), [outcome(landed("a.csv"))])
    bookmark = advance(Bookmark(), manifest, reference_of(manifest))
    again = manifest_of(bookmark, [outcome(landed("a.csv"))], mode=Mode.FULL, declaration="d2")
    seen = advance(bookmark, again, reference_of(again)).seen[landed("a.csv").uri]
    assert (seen.bookmark_version, seen.declaration) == (2, "d2")


@pytest.mark.parametrize("version", [1, 3])
def test_versions_must_follow_each_other(version: int) -> None:
    bookmark = Bookmark(version=1)
    manifest = dataclasses.replace(manifest_of(bookmark), bookmark_version=version)
    with pytest.raises(DataError, match=f"version=1 is followed by version={version}"):
        advance(bookmark, manifest, Reference("s3://state/m", "0"))


def test_an_operators_change_is_refused_until_it_exists_unless_it_changes_nothing() -> None:
    with pytest.raises(NotAvailable, match="kind=reset"):
        advance(Bookmark(), manifest_of(Bookmark(), kind="reset"), Reference("s3://state/m", "0"))
    fence = manifest_of(Bookmark(), kind="fence", advance=False)
    assert advance(Bookmark(), fence, Reference("s3://state/m", "0")).version == 1


def test_a_batch_consumes_or_quarantines_an_object_once() -> None:
    twice = manifest_of(Bookmark(), [outcome(landed("a.csv")), outcome(landed("a.csv", "B"))])
    skipped = manifest_of(Bookmark(), [outcome(landed("a.csv"), Decision.DEFERRED)])
    for manifest in (twice, skipped):
        with pytest.raises(LakehouseError):
            advance(Bookmark(), manifest, Reference("s3://state/m", "0"))


def test_the_chain_is_newest_first_and_ends_at_the_last_checkpoint() -> None:
    bookmark, versions = Bookmark(), []
    for version in range(1, 204):
        manifest = manifest_of(bookmark)
        if needs_checkpoint(version):
            manifest = dataclasses.replace(manifest, checkpoint=Reference("s3://state/c", "0"))
        bookmark = advance(bookmark, manifest, Reference(f"s3://state/{version}", "0"))
        versions.append([link.version for link in next_chain(bookmark)])
    assert versions[0] == [1]
    assert versions[98] == list(range(99, 0, -1))
    assert versions[99] == [100]
    assert versions[198] == list(range(199, 99, -1))
    assert versions[202] == [203, 202, 201, 200]


def test_fold_is_advance_repeated() -> None:
    bookmark, history = Bookmark(), []
    for number in range(5):
        manifest = manifest_of(bookmark, [outcome(landed(f"{number % 2}.csv", str(number)))])
        history.append((manifest, reference_of(manifest)))
        bookmark = advance(bookmark, *history[-1])
    assert fold(Bookmark(), history) == bookmark


def test_a_checkpoint_holds_what_is_seen_after_its_own_batch() -> None:
    manifest = manifest_of(Bookmark(), [outcome(landed("a.csv"))])
    assert checkpoint_after(Bookmark(), manifest).seen == advance(Bookmark(), manifest, reference_of(manifest)).seen


def test_reading_the_same_version_again_does_not_make_it_younger() -> None:
    manifest = manifest_of(Bookmark(), [outcome(landed("a.csv"))])
    seen = advance(Bookmark(), manifest, reference_of(manifest))
    later = START + timedelta(days=1)
    assert first_seen(seen, landed("a.csv"), now=later) == START
    assert first_seen(seen, landed("a.csv", "B"), now=later) == later
    assert first_seen(seen, landed("b.csv"), now=later) == later


def test_graves_and_the_settled_date_are_those_of_the_newest_manifest() -> None:
    bookmark = Bookmark()
    assert (bookmark.graves, bookmark.settled_date) == ((), None)
    grave = Grave(Reference("s3://state/g", "0"), START, 1)
    for graves, settled in (((grave,), date(2026, 8, 30)), ((), None)):
        manifest = dataclasses.replace(manifest_of(bookmark), graves=graves, settled_date=settled)
        bookmark = advance(bookmark, manifest, reference_of(manifest))
        assert (bookmark.graves, bookmark.settled_date) == (graves, settled)


def ruled(bookmark: Bookmark, kind: str, *objects: LandingObject) -> Bookmark:
    """The bookmark after an operator's decision."""
    manifest = manifest_of(bookmark, [outcome(obj, RULINGS[kind], reason=kind) for obj in objects], kind=kind)
    return advance(bookmark, manifest, reference_of(manifest))


def read(bookmark: Bookmark, *objects: LandingObject) -> Bookmark:
    manifest = manifest_of(bookmark, [outcome(obj) for obj in objects])
    return advance(bookmark, manifest, reference_of(manifest))


def test_an_operators_decision_stands_beside_what_was_seen() -> None:
    old, new = landed("a.csv"), landed("a.csv", "B")
    bookmark = ruled(read(Bookmark(), old), SKIP, new)
    assert (bookmark.version, bookmark.seen[old.uri].object) == (2, old)
    ruling = ruling_of(bookmark, new)
    assert ruling is not None and (ruling.decision, ruling.reason) == (Decision.SKIPPED, SKIP)
    assert (ruling.bookmark_version, ruling.batch_id) == (2, "batch2")
    assert ruling_of(bookmark, old) is None
    assert ruling_of(ruled(bookmark, RELEASE, new), new) is not None


@pytest.mark.parametrize("kind", [RELEASE, RELOAD, REPLAY])
def test_a_request_to_read_again_holds_until_a_batch_has_read_the_key(kind: str) -> None:
    item, other = landed("a.csv"), landed("b.csv")
    bookmark = ruled(read(Bookmark(), item), kind, item, other)
    assert {r.decision for r in bookmark.rulings.values()} == {Decision.PLANNED}
    assert read(bookmark, landed("a.csv", "B")).rulings.keys() == {other.uri}


def test_a_skip_holds_for_its_version_whatever_is_read_of_the_key() -> None:
    poison = landed("a.csv", "B")
    bookmark = read(ruled(read(Bookmark(), landed("a.csv")), SKIP, poison), landed("a.csv", "C"))
    assert ruling_of(bookmark, landed("a.csv", "C")) is None
    ruling = ruling_of(bookmark, poison)
    assert ruling is not None and ruling.decision is Decision.SKIPPED


def test_a_decision_can_only_be_what_its_kind_says() -> None:
    for kind, decision in ((SKIP, Decision.PLANNED), (RELOAD, Decision.CONSUMED), ("load", Decision.SKIPPED)):
        manifest = manifest_of(Bookmark(), [outcome(landed("a.csv"), decision)], kind=kind)
        with pytest.raises(LakehouseError, match=f"decision={decision}"):
            advance(Bookmark(), manifest, reference_of(manifest))


def test_an_object_is_as_old_as_the_decision_about_it() -> None:
    item = landed("a.csv")
    assert first_seen(ruled(Bookmark(), SKIP, item), item, now=START + timedelta(days=1)) == START
