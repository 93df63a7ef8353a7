"""Plans of the modes that read landing dates as a whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from lakehouse.bookmark import RELOAD, RULINGS, SKIP, advance
from lakehouse.bookmark_move import marked, seen_nothing
from lakehouse.model import Bookmark, Decision, LandingObject, Mode, Plan, Window
from lakehouse.plan import batch_id_for, make_plan
from tests.landing_values import START, declared, landed, manifest_of, outcome, reference_of

D30, D31, D01 = "day=2026-08-30/", "day=2026-08-31/", "day=2026-09-01/"
REPLACE = declared(write="replace_partition")
SNAPSHOT = declared(write="snapshot", order_by="arrival")


def plan_of(*listing: LandingObject, bookmark: Bookmark | None = None, declaration: Any = REPLACE, **more: Any) -> Plan:
    return make_plan(
        declaration=declaration,
        bookmark=bookmark or Bookmark(),
        listing=listing,
        mode=more.pop("mode", Mode.INCREMENTAL),
        window=Window(),
        table_uuid="uuid",
        now=START + timedelta(days=1),
        **more,
    )


def consumed(
    bookmark: Bookmark, *objects: LandingObject, bad: tuple[str, ...] = (), declaration: Any = REPLACE
) -> Bookmark:
    """The bookmark after one batch of these objects."""
    outcomes = [
        outcome(
            obj,
            Decision.QUARANTINED if name(obj) in bad else Decision.CONSUMED,
            reason="bad",
            day=date.fromisoformat(name(obj).removeprefix("day=")[:10]),
        )
        for obj in objects
    ]
    manifest = manifest_of(bookmark, outcomes, declaration=declaration.hash)
    return advance(bookmark, manifest, reference_of(manifest))


def name(obj: LandingObject) -> str:
    return obj.uri.removeprefix("s3://landing/in/")


def planned(plan: Plan) -> list[list[str]]:
    return [[name(item.object) for item in batch] for batch in plan.batches]


def said(plan: Plan, key: str) -> tuple[Decision, str]:
    (found,) = [(item.decision, item.reason) for item in plan.decisions if name(item.object) == key]
    return found


A30, B30, A31, A01 = (landed(key) for key in (D30 + "a.csv", D30 + "b.csv", D31 + "a.csv", D01 + "a.csv"))


# replace_partition


def test_one_unseen_object_reads_all_of_its_date_again_and_no_other() -> None:
    bookmark = consumed(Bookmark(), A30, A31)
    plan = plan_of(A30, B30, A31, bookmark=bookmark)
    assert planned(plan) == [[D30 + "a.csv", D30 + "b.csv"]]
    assert said(plan, D30 + "a.csv") == (Decision.PLANNED, f"re-read: {D30}b.csv is new in 2026-08-30")
    assert said(plan, D30 + "b.csv") == (Decision.PLANNED, "new object")
    assert said(plan, D31 + "a.csv")[0] is Decision.CONSUMED
    assert plan_of(A30, B30, A31, bookmark=consumed(bookmark, A30, B30)).batches == ()


def test_a_new_version_replaces_its_date_too() -> None:
    plan = plan_of(landed(D30 + "a.csv", "B"), B30, bookmark=consumed(Bookmark(), A30, B30))
    assert planned(plan) == [[D30 + "a.csv", D30 + "b.csv"]]


def test_batches_are_cut_between_dates_and_a_large_date_is_one_of_its_own() -> None:
    listing = [landed(day + f"{n}.csv", at=9 - n) for day in (D01, D30, D31) for n in range(3)]
    by_files = plan_of(*listing, declaration=declared(write="replace_partition", source={"max_files": 4}))
    assert [[key[:14] for key in batch] for batch in planned(by_files)] == [
        [D30[:14]] * 3,
        [D31[:14]] * 3,
        [D01[:14]] * 3,
    ]
    assert planned(by_files)[0] == [D30 + "2.csv", D30 + "1.csv", D30 + "0.csv"]
    for bounds, sizes in (({"max_bytes": 60}, [6, 3]), ({"max_bytes": 1}, [3, 3, 3]), ({"max_files": 1}, [3, 3, 3])):
        plan = plan_of(*listing, declaration=declared(write="replace_partition", source=bounds))
        assert [len(batch) for batch in plan.batches] == sizes
    assert by_files.batch_id == batch_id_for(by_files, by_files.batches[0], table_uuid="uuid", version=0)


def test_a_date_with_a_young_object_waits_as_a_whole() -> None:
    settling = declared(write="replace_partition", source={"settle_seconds": 60})
    young = landed(D30 + "young.csv", at=86_399)
    plan = plan_of(A30, B30, young, A31, bookmark=consumed(Bookmark(), A30), declaration=settling)
    assert planned(plan) == [[D31 + "a.csv"]]
    assert said(plan, D30 + "a.csv")[0] is Decision.CONSUMED
    assert said(plan, D30 + "b.csv") == (Decision.DEFERRED, f"its date waits: {D30}young.csv is deferred")


def test_a_date_with_a_quarantined_object_waits_until_that_object_can_be_read() -> None:
    bookmark = consumed(Bookmark(), A30, bad=(D30 + "a.csv",))
    waiting = plan_of(A30, B30, bookmark=bookmark)
    assert planned(waiting) == []
    assert said(waiting, D30 + "b.csv") == (Decision.DEFERRED, f"its date waits: {D30}a.csv is quarantined")
    assert said(waiting, D30 + "a.csv") == (Decision.QUARANTINED, "bad")
    assert len(plan_of(landed(D30 + "a.csv", "B"), B30, bookmark=bookmark).batches[0]) == 2
    assert len(plan_of(A30, B30, bookmark=bookmark, mode=Mode.FULL).batches[0]) == 2


def test_a_full_load_leaves_a_consumed_object_consumed_while_its_date_waits() -> None:
    before = consumed(Bookmark(), A30)
    half = consumed(before, B30, bad=(D30 + "b.csv",))
    plan = plan_of(A30, B30, bookmark=half, mode=Mode.FULL, since=before.version)
    assert planned(plan) == []
    assert said(plan, D30 + "a.csv") == (Decision.CONSUMED, f"its date waits: {D30}b.csv is quarantined")


def test_a_date_with_an_object_that_could_not_be_fetched_waits_in_this_load() -> None:
    plan = plan_of(A30, B30, A31, failed={A30.uri})
    assert planned(plan) == [[D31 + "a.csv"]]
    assert [name(item.object) for item in plan.decisions] == [D30 + "b.csv", D31 + "a.csv"]
    assert said(plan, D30 + "b.csv") == (Decision.DEFERRED, f"its date waits: {D30}a.csv could not be fetched")


def test_a_consumed_object_that_is_not_listed_any_more_is_named() -> None:
    bookmark = consumed(Bookmark(), A30, A31)
    plan = plan_of(B30, A01, bookmark=bookmark)
    assert plan.missing == (A30.uri,)
    assert "1 consumed object is not listed any more" in plan.warnings[0] and A30.uri in plan.warnings[0]
    assert plan_of(A30, B30, A01, bookmark=bookmark).missing == ()
    # nothing is to be replaced where nothing is new
    assert plan_of(A01, bookmark=bookmark).missing == ()


def test_what_was_left_out_with_leave_is_not_asked_for_again() -> None:
    bookmark = consumed(consumed(Bookmark(), A30), B30)
    assert plan_of(landed(D30 + "c.csv"), B30, bookmark=bookmark).missing == ()
    # under another declaration its rows may still be there
    older = consumed(consumed(Bookmark(), A30, declaration=SNAPSHOT), B30, declaration=SNAPSHOT)
    assert plan_of(landed(D30 + "c.csv"), B30, bookmark=older).missing == (A30.uri,)


def test_an_emptied_object_is_not_missing_but_read_and_then_refused() -> None:
    plan = plan_of(replace(A30, etag="0", size=0), B30, bookmark=consumed(Bookmark(), A30))
    assert (plan.missing, planned(plan)) == ((), [[D30 + "a.csv", D30 + "b.csv"]])


# snapshot


def snapshot_plan(*listing: LandingObject, bookmark: Bookmark | None = None, **more: Any) -> Plan:
    return plan_of(*listing, bookmark=bookmark, declaration=more.pop("declaration", SNAPSHOT), **more)


def settled(*objects: LandingObject, day: str) -> Bookmark:
    return replace(consumed(Bookmark(), *objects, declaration=SNAPSHOT), settled_date=date.fromisoformat(day))


def test_the_newest_date_is_read_as_a_whole_and_goes_first() -> None:
    plan = snapshot_plan(
        A30, A31, A01, declaration=declared(write="snapshot", order_by="arrival", source={"max_files": 2})
    )
    assert planned(plan) == [[D30 + "a.csv", D01 + "a.csv"], [D31 + "a.csv"]]
    assert (plan.newest_date, plan.unfinished) == (date(2026, 9, 1), ())
    new = landed(D01 + "b.csv")
    again = snapshot_plan(A01, new, bookmark=settled(A01, day="2026-09-01"))
    assert planned(again) == [[D01 + "a.csv", D01 + "b.csv"]]
    assert said(again, D01 + "a.csv")[1] == f"re-read: {D01}b.csv is new in 2026-09-01"


def test_a_late_object_of_an_older_date_is_read_alone() -> None:
    plan = snapshot_plan(A30, B30, A01, bookmark=settled(A30, A01, day="2026-09-01"))
    assert planned(plan) == [[D30 + "b.csv"]]


def test_a_date_that_is_older_than_what_was_read_is_not_the_newest() -> None:
    plan = snapshot_plan(A31, bookmark=settled(A01, day="2026-09-01"))
    assert (planned(plan), plan.newest_date) == ([[D31 + "a.csv"]], None)


@pytest.mark.parametrize("accept", [False, True])
def test_the_newest_date_is_not_finished_without_its_objects(accept: bool) -> None:
    gone = landed(D01 + "gone.csv")
    bookmark = settled(A01, gone, day="2026-09-01")
    plan = snapshot_plan(A01, landed(D01 + "b.csv"), bookmark=bookmark, accept_missing=accept)
    assert planned(plan) == [[D01 + "a.csv", D01 + "b.csv"]]
    assert plan.unfinished == (() if accept else (f"{D01}gone.csv is not listed any more",))
    assert plan.missing == ()
    waiting = snapshot_plan(A01, landed(D01 + "q.csv"), failed={landed(D01 + "f.csv").uri})
    assert waiting.unfinished == (f"{D01}f.csv could not be fetched",)


def test_a_newest_date_that_was_read_in_pieces_is_read_as_a_whole() -> None:
    new = landed(D01 + "b.csv")
    pieces = consumed(consumed(Bookmark(), A01, declaration=SNAPSHOT), new, declaration=SNAPSHOT)
    plan = snapshot_plan(A01, new, bookmark=pieces)
    assert planned(plan) == [[D01 + "a.csv", D01 + "b.csv"]]
    assert said(plan, D01 + "a.csv")[1] == "re-read: not all of 2026-09-01 was read in one batch"
    assert snapshot_plan(A01, new, bookmark=consumed(pieces, A01, new, declaration=SNAPSHOT)).batches == ()


# every mode


@pytest.mark.parametrize("write", ["upsert", "snapshot", "replace_partition", "append"])
def test_full_mode_reads_everything_once(write: str) -> None:
    declaration = declared(write=write)
    listing = (A30, B30, A31, A01)
    bookmark = consumed(Bookmark(), *listing, declaration=declaration)
    plan = plan_of(*listing, bookmark=bookmark, declaration=declaration, mode=Mode.FULL)
    assert sorted(key for batch in planned(plan) for key in batch) == sorted(map(name, listing))
    done = consumed(bookmark, *listing, declaration=declaration)
    again = plan_of(*listing, bookmark=done, declaration=declaration, mode=Mode.FULL, since=bookmark.version)
    assert again.batches == ()


@pytest.mark.parametrize("write", ["upsert", "append"])
def test_other_modes_take_every_object_for_itself(write: str) -> None:
    declaration = declared(write=write)
    plan = plan_of(A30, B30, bookmark=consumed(Bookmark(), A30, declaration=declaration), declaration=declaration)
    assert planned(plan) == [[D30 + "b.csv"]]
    assert (plan.missing, plan.newest_date, plan.unfinished) == ((), None, ())


# what operators decided


def ruled(bookmark: Bookmark, kind: str, *objects: LandingObject) -> Bookmark:
    decided = [outcome(obj, RULINGS[kind], reason=f"{kind} by ann") for obj in objects]
    manifest = manifest_of(bookmark, decided, kind=kind)
    return advance(bookmark, manifest, reference_of(manifest))


def test_a_date_is_replaced_without_its_skipped_objects() -> None:
    bookmark = ruled(consumed(Bookmark(), A30, B30, bad=(D30 + "a.csv",)), SKIP, A30)
    plan = plan_of(A30, B30, landed(D30 + "c.csv"), bookmark=bookmark)
    assert planned(plan) == [[D30 + "b.csv", D30 + "c.csv"]]
    assert (said(plan, D30 + "a.csv")[0], plan.missing) == (Decision.SKIPPED, ())
    assert plan.warnings[1:] == ("2026-08-30 is replaced without its skipped objects",)
    assert plan_of(A30, B30, bookmark=bookmark).warnings[1:] == ()


def test_one_reloaded_object_reads_all_of_its_date_again() -> None:
    bookmark = ruled(consumed(Bookmark(), A30, B30, A31), RELOAD, A30)
    assert planned(plan_of(A30, B30, A31, bookmark=bookmark)) == [[D30 + "a.csv", D30 + "b.csv"]]


def test_a_reloaded_object_whose_date_waits_is_not_done_with() -> None:
    bookmark = ruled(consumed(consumed(Bookmark(), A30), B30, bad=(D30 + "b.csv",)), RELOAD, A30)
    plan = plan_of(A30, B30, bookmark=bookmark)
    assert said(plan, D30 + "a.csv") == (Decision.DEFERRED, f"its date waits: {D30}b.csv is quarantined")


def test_a_newest_date_with_a_skipped_object_is_not_the_whole_truth() -> None:
    new = landed(D01 + "b.csv")
    bookmark = ruled(settled(A30, day="2026-08-30"), SKIP, new)
    plan = snapshot_plan(A30, A01, new, bookmark=bookmark)
    assert (planned(plan), plan.newest_date) == ([[D01 + "a.csv"]], date(2026, 9, 1))
    assert plan.unfinished == (f"{D01}b.csv is skipped",)
    # a date that is skipped as a whole is none
    plan = snapshot_plan(A30, A31, new, bookmark=bookmark)
    assert (plan.newest_date, plan.unfinished) == (date(2026, 8, 31), ())


# after an operator has moved the position


def test_a_date_misses_what_was_read_before_a_reset() -> None:
    bookmark = consumed(consumed(Bookmark(), A30, B30), landed(D31 + "bad.csv"), bad=(D31 + "bad.csv",))
    found = plan_of(A30, A31, bookmark=seen_nothing(bookmark))
    assert (found.missing, planned(found)) == ((B30.uri,), [[D30 + "a.csv", D31 + "a.csv"]])


def test_a_snapshots_newest_date_stays_the_newest_after_a_reset() -> None:
    bookmark = seen_nothing(consumed(Bookmark(), A30, A31, declaration=SNAPSHOT))
    assert plan_of(A30, bookmark=bookmark, declaration=SNAPSHOT).newest_date is None
    assert plan_of(A30, A31, bookmark=bookmark, declaration=SNAPSHOT).newest_date == date(2026, 8, 31)


@pytest.mark.parametrize("declaration", [REPLACE, SNAPSHOT])
def test_a_date_of_which_a_part_is_set_is_not_read_in_pieces(declaration: Any) -> None:
    bookmark = consumed(Bookmark(), A30, declaration=declaration)
    done = [outcome(B30, day=date(2026, 8, 30))]
    bookmark = marked(bookmark, done, batch_id="set", version=2, whole_dates=True)
    assert planned(plan_of(A30, B30, bookmark=bookmark, declaration=declaration)) == []
    again = plan_of(replace(A30, etag="B"), bookmark=bookmark, declaration=declaration)
    assert again.missing == (), "nobody has read the one that was set, so no row of it is lost"
    lost = plan_of(replace(B30, etag="B"), bookmark=bookmark, declaration=declaration)
    assert lost.missing == ((A30.uri,) if declaration is REPLACE else ())


def test_a_set_after_a_reset_leaves_dates_as_they_were_read() -> None:
    before = consumed(Bookmark(), A30, B30)
    done = [outcome(obj, day=date(2026, 8, 30)) for obj in (A30, B30)]
    after = marked(seen_nothing(before), done, batch_id="set", version=3, whole_dates=True)
    assert (after.seen, after.paused) == (before.seen, {})


def test_a_date_misses_the_rows_of_an_older_version_of_what_was_set() -> None:
    bookmark = consumed(Bookmark(), A30, B30)
    done = [outcome(replace(B30, etag="B"), day=date(2026, 8, 30))]
    after = marked(bookmark, done, batch_id="set", version=2, whole_dates=True)
    assert plan_of(replace(A30, etag="B"), bookmark=after).missing == (B30.uri,)
