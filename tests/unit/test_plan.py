from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from lakehouse.bookmark import RELEASE, RELOAD, RULINGS, SKIP, advance
from lakehouse.bookmark_move import seen_nothing
from lakehouse.declaration import Declaration
from lakehouse.errors import ObjectChanged, UsageError
from lakehouse.fingerprint import fingerprints
from lakehouse.model import Bookmark, Decision, LandingObject, Mode, Plan, VersionRange, Window
from lakehouse.placement import Places, control_uri
from lakehouse.plan import batch_id_for, decide_objects, make_plan
from tests.landing_values import START, declared, landed, manifest_of, outcome, reference_of

LATER = START + timedelta(days=1)
UNDATED = declared(source={"partition": None})


def plan_of(
    listing: Sequence[LandingObject],
    *,
    bookmark: Bookmark | None = None,
    declaration: Declaration = UNDATED,
    mode: Mode = Mode.INCREMENTAL,
    window: Window | None = None,
    now: datetime = LATER,
    since: int | None = None,
    places: Places | None = None,
) -> Plan:
    return make_plan(
        declaration=declaration,
        bookmark=bookmark or Bookmark(),
        listing=listing,
        mode=mode,
        window=window or Window(),
        table_uuid="uuid",
        now=now,
        since=since,
        places=places,
    )


def committed(
    bookmark: Bookmark, plan: Plan, *, quarantined: Iterable[str] = (), only: Iterable[str] | None = None
) -> Bookmark:
    """The bookmark after every batch of the plan; `only` leaves out other objects, as if they could not be read."""
    for batch in plan.batches:
        outcomes = [
            outcome(
                item.object,
                Decision.QUARANTINED if name(item.object) in quarantined else Decision.CONSUMED,
                reason="broken header" if name(item.object) in quarantined else "",
            )
            for item in batch
            if only is None or name(item.object) in only
        ]
        manifest = manifest_of(
            bookmark,
            outcomes,
            mode=plan.mode,
            advance=plan.mode is not Mode.NO_ADVANCE,
            declaration=plan.declaration,
        )
        bookmark = advance(bookmark, manifest, reference_of(manifest))
    return bookmark


def loaded(*listing: LandingObject, declaration: Declaration = UNDATED, **changes: Any) -> Bookmark:
    return committed(Bookmark(), plan_of(listing, declaration=declaration), **changes)


def name(obj: LandingObject) -> str:
    return obj.uri.removeprefix("s3://landing/in/")


def planned(plan: Plan) -> list[list[str]]:
    return [[name(item.object) for item in batch] for batch in plan.batches]


def classes(plan: Plan) -> Mapping[str, Decision]:
    return {name(item.object): item.decision for item in plan.decisions}


def reason(plan: Plan, key: str) -> str:
    (found,) = [item.reason for item in plan.decisions if name(item.object) == key]
    return found


# Field cases, section discovery/bookmark


def test_d01_a_second_file_of_the_same_second_is_planned() -> None:
    a, b = landed("a.csv", at=5), landed("b.csv", at=5)
    bookmark = loaded(a)
    second = plan_of([a, b], bookmark=bookmark)
    assert planned(second) == [["b.csv"]]
    assert planned(plan_of([a, b], bookmark=committed(bookmark, second))) == []


def test_d02_a_slow_upload_with_an_older_time_is_planned() -> None:
    small, big = landed("small.csv", at=120), landed("big.csv", at=0)
    assert planned(plan_of([small, big], bookmark=loaded(small))) == [["big.csv"]]


def test_d03_a_rewritten_or_deleted_object_hides_no_other() -> None:
    bookmark = loaded(landed("A.csv", at=1))
    listing = [landed("A.csv", "v2", at=4), landed("B.csv", at=2), landed("C.csv", at=3)]
    assert planned(plan_of(listing, bookmark=bookmark)) == [["B.csv", "C.csv", "A.csv"]]
    assert planned(plan_of(listing[1:], bookmark=bookmark)) == [["B.csv", "C.csv"]]


def test_d04_an_object_that_could_not_be_read_is_planned_again() -> None:
    listing = [landed("a.csv", at=1), landed("b.csv", at=2)]
    bookmark = loaded(*listing, only=["b.csv"])
    assert planned(plan_of(listing, bookmark=bookmark)) == [["a.csv"]]


def test_d06_bounds_cut_in_the_order_of_time_and_key_and_lose_nothing() -> None:
    listing = [landed("1.csv", at=5), landed("2.csv", at=3), landed("4.csv", at=4), landed("3.csv", at=4)]
    plan = plan_of(listing, declaration=declared(source={"partition": None, "max_files": 2}))
    assert planned(plan) == [["2.csv", "3.csv"], ["4.csv", "1.csv"]]
    assert set(classes(plan).values()) == {Decision.PLANNED}
    after_one = committed(Bookmark(), replace(plan, batches=plan.batches[:1]))
    assert planned(plan_of(listing, bookmark=after_one)) == [["4.csv", "1.csv"]]


def test_d07_history_forgets_nothing() -> None:
    listing = [landed(f"f{number}.csv", at=number) for number in range(1, 400)]
    bookmark = loaded(*listing, declaration=declared(source={"partition": None, "max_files": 3}))
    assert bookmark.version == 133
    assert planned(plan_of(listing, bookmark=bookmark)) == []
    assert planned(plan_of([*listing, landed("f0.csv", at=0)], bookmark=bookmark)) == [["f0.csv"]]


def test_d08_an_overwritten_object_is_a_new_version_linked_to_the_old_one() -> None:
    bookmark = loaded(landed("a.csv", "A"))
    plan = plan_of([landed("a.csv", "B", at=9)], bookmark=bookmark)
    assert planned(plan) == [["a.csv"]]
    assert reason(plan, "a.csv") == "new version of a consumed object: etag=A before"


def test_a_b_a_is_read_three_times() -> None:
    bookmark = Bookmark()
    for number, etag in enumerate("ABA"):
        plan = plan_of([landed("a.csv", etag, at=number)], bookmark=bookmark)
        assert planned(plan) == [["a.csv"]]
        bookmark = committed(bookmark, plan)


def test_d09_an_object_copied_onto_itself_is_the_same_version() -> None:
    plan = plan_of([landed("a.csv", at=9)], bookmark=loaded(landed("a.csv", at=1)))
    assert planned(plan) == []
    assert reason(plan, "a.csv") == "batch_id=batch1 bookmark_version=1"


def test_d12_a_sibling_folder_is_outside_the_source() -> None:
    sales = declared(source={"uri": "s3://landing/sales", "partition": None})
    listing = [landed(key, source="s3://landing/") for key in ("sales/a.csv", "sales_backup/a.csv")]
    plan = plan_of(listing, declaration=sales)
    assert [item.object.uri for batch in plan.batches for item in batch] == ["s3://landing/sales/a.csv"]
    assert plan.decisions[1].reason == "outside the source s3://landing/sales/"


def test_d13_folder_markers_are_listed_as_ignored() -> None:
    keys = ("", "day=2026-08-30_$folder$", "day=2026-08-30/", "day=2026-08-30/x.csv")
    plan = plan_of([landed(key, size=len(key)) for key in keys], declaration=declared(source={"files": "**"}))
    assert planned(plan) == [["day=2026-08-30/x.csv"]]
    assert [reason(plan, key) for key in keys[:3]] == ["folder marker"] * 3


def test_what_hadoop_and_spark_leave_behind_is_hidden() -> None:
    hidden = {
        "day=2026-08-30/_SUCCESS": "_SUCCESS begins with _",
        "day=2026-08-30/._SUCCESS.crc": "._SUCCESS.crc begins with .",
        "day=2026-08-30/_temporary/0/a.csv": "_temporary begins with _",
        "_delta_log/a.csv": "_delta_log begins with _",
    }
    data = ["day=2026-08-30/_p=1/a_.b.csv", "day=2026-08-30/x.csv"]
    plan = plan_of([landed(key) for key in (*hidden, *data)], declaration=declared(source={"files": "**"}))
    assert planned(plan) == [data]
    assert {key: reason(plan, key) for key in hidden} == {key: f"hidden: {why}" for key, why in hidden.items()}
    assert reason(plan_of([landed("_a.txt")]), "_a.txt").startswith("hidden")
    # what the declaration itself names is wanted
    dated = declared(source={"partition": "_day/%Y-%m-%d", "uri": "s3://landing/_in/"})
    wanted = [landed(key, source="s3://landing/_in/") for key in ("_day/2026-08-30/a.csv",)]
    assert len(plan_of(wanted, declaration=dated).batches) == 1


def test_d14_a_young_object_waits_and_its_next_version_is_read_in_full() -> None:
    settling = declared(source={"partition": None, "settle_seconds": 60})
    young, now = landed("x.csv", at=0), START + timedelta(seconds=2)
    plan = plan_of([young, landed("y.csv.tmp", at=0)], declaration=settling, now=now)
    assert classes(plan) == {"x.csv": Decision.DEFERRED, "y.csv.tmp": Decision.IGNORED}
    assert reason(plan, "x.csv") == "too young: settle_seconds=60 until 2026-09-01T00:01:00+00:00"
    assert planned(plan) == []
    full = landed("x.csv", "full", at=30)
    assert planned(plan_of([full], declaration=settling, now=START + timedelta(seconds=89))) == []
    assert planned(plan_of([full], declaration=settling, now=START + timedelta(seconds=90))) == [["x.csv"]]


def test_d15_keys_are_taken_as_they_are() -> None:
    keys = ["a b.csv", "a+b.csv", "a%20b.csv", "sales[1].csv", "café.csv", "line\nbreak.csv", "q?#'\".csv"]
    plan = plan_of([landed(key, at=number) for number, key in enumerate(keys)])
    assert planned(plan) == [keys]


def test_d17_an_empty_prefix_plans_nothing() -> None:
    plan = plan_of([], declaration=declared())
    assert (plan.decisions, plan.batches, plan.batch_id, plan.warnings) == ((), (), "", ())


def test_d26_a_late_object_outside_the_window_is_shown_with_the_command_that_loads_it() -> None:
    window = Window(date(2026, 9, 5), date(2026, 9, 9))
    keys = ("day=2026-08-31/a.csv", "day=2026-09-10/a.csv", "day=2026-09-05/a.csv", "day=2026-08-01/a.csv")
    plan = plan_of([landed(key) for key in keys], declaration=declared(), window=window)
    assert planned(plan) == [[keys[2]]]
    assert reason(plan, keys[0]) == (
        "late, outside window 2026-09-05..2026-09-09: lakehouse load analytics.orders --from 2026-08-31 --to 2026-08-31"
    )
    assert reason(plan, keys[1]).startswith("outside window 2026-09-05..2026-09-09: lakehouse load")
    assert reason(plan, keys[3]) == (
        "before start_date=2026-08-30: declare start_date: 2026-08-01, then "
        "lakehouse load analytics.orders --from 2026-08-01 --to 2026-08-01"
    )
    assert plan.count(Decision.OUTSIDE_WINDOW) == 3


# What is ignored, and why


@pytest.mark.parametrize(
    ("key", "size", "expected"),
    [
        ("day=2026-08-30/a.txt", 1, "does not match files=*.csv"),
        ("day=2026-08-30/deep/a.csv", 1, "does not match files=*.csv"),
        ("day=2026-08-30/a.csv", 0, "empty: 0 bytes"),
        ("day=2026-02-30/a.csv", 1, "no landing date in the path: partition=day=%Y-%m-%d"),
        ("a.csv", 1, "no landing date in the path: partition=day=%Y-%m-%d"),
        ("day=2026-08-01/a.txt", 1, "does not match files=*.csv"),
    ],
)
def test_ignored_objects_carry_the_reason(key: str, size: int, expected: str) -> None:
    plan = plan_of([landed(key, size=size)], declaration=declared())
    assert (classes(plan)[key], reason(plan, key)) == (Decision.IGNORED, expected)


def test_an_object_that_was_emptied_is_not_a_day_without_rows() -> None:
    emptied = landed("a.csv", etag="2", size=0)
    bookmark = loaded(landed("a.csv"), landed("b.csv"))
    plan = plan_of([emptied, landed("b.csv"), landed("c.csv", size=0)], bookmark=bookmark)
    assert classes(plan) == {"a.csv": Decision.PLANNED, "b.csv": Decision.CONSUMED, "c.csv": Decision.IGNORED}
    # refused as it is, it stays refused, and what comes next is read
    bookmark = committed(bookmark, plan, quarantined=["a.csv"])
    assert classes(plan_of([emptied], bookmark=bookmark)) == {"a.csv": Decision.QUARANTINED}
    again = landed("a.csv", etag="3")
    assert classes(plan_of([again], bookmark=bookmark)) == {"a.csv": Decision.PLANNED}
    bookmark = loaded(landed("a.csv"), quarantined=["a.csv"])
    assert classes(plan_of([emptied], bookmark=bookmark)) == {"a.csv": Decision.IGNORED}


def test_ignored_objects_keep_their_landing_date() -> None:
    plan = plan_of([landed("day=2026-08-30/a.txt")], declaration=declared())
    assert plan.decisions[0].landing_date == date(2026, 8, 30)


def test_a_control_file_of_a_listed_object_is_not_data() -> None:
    controlled = declared(source={"partition": None, "files": "**"}, gates={"control_file": "{stem}.count"})
    keys = ["x/a.csv", "x/a.count", "y/a.count", "x/b.csv"]
    plan = plan_of([landed(key) for key in keys], declaration=controlled)
    assert planned(plan) == [["x/a.csv", "x/b.csv", "y/a.count"]]
    assert reason(plan, "x/a.count") == "control file"


def test_what_was_placed_while_listing_is_placed_alike() -> None:
    controlled = declared(source={"files": "**"}, gates={"control_file": "{stem}.count"})
    keys = ["a.csv", "day=2026-08-30/a.csv", "day=2026-08-30/a.count", "day=2026-08-30/_b.csv", "day=2026-08-30/c.csv"]
    listing = [landed(key) for key in keys]
    places = Places(controlled.source)
    for obj in listing:
        places.note(obj)
    assert plan_of(listing, declaration=controlled, places=places) == plan_of(listing, declaration=controlled)
    emptied = [*listing[:-1], landed("day=2026-08-30/c.csv", "B", size=0)]
    again = plan_of(emptied, declaration=controlled, places=places)
    assert again == plan_of(emptied, declaration=controlled)
    assert reason(again, "day=2026-08-30/c.csv") == "empty: 0 bytes"


def test_what_the_glob_does_not_want_has_no_control_file() -> None:
    controlled = declared(source={"partition": None}, gates={"control_file": "{stem}.csv"})
    assert planned(plan_of([landed("a.bak"), landed("a.csv")], declaration=controlled)) == [["a.csv"]]


@pytest.mark.parametrize(
    ("uri", "template", "expected"),
    [
        ("s3://b/x/a.csv", "{stem}.count", "s3://b/x/a.count"),
        ("s3://b/x/a.csv.gz", "{name}.count", "s3://b/x/a.csv.gz.count"),
        ("s3://b/x.y/noext", "{stem}.count", "s3://b/x.y/noext.count"),
        ("s3://b/x/.hidden", "_{stem}", "s3://b/x/_.hidden"),
        ("s3://b/x/{name}.csv", "{stem}.{name}", "s3://b/x/{name}.{name}.csv"),
    ],
)
def test_control_uri(uri: str, template: str, expected: str) -> None:
    assert control_uri(uri, template) == expected


def test_d21_after_a_reset_everything_is_planned_and_says_that_it_was_read() -> None:
    listing = [landed("a.csv", at=1), landed("b.csv", at=2), landed("empty.csv", "B", size=0, at=3)]
    bookmark = seen_nothing(loaded(*listing[:2], landed("empty.csv", at=3)))
    plan = plan_of([*listing, landed("c.csv", at=4)], bookmark=bookmark)
    assert planned(plan) == [["a.csv", "b.csv", "empty.csv", "c.csv"]], "rows of the emptied object are in the table"
    assert reason(plan, "a.csv") == "read before, and not seen by the bookmark: batch_id=batch1 bookmark_version=1"
    assert reason(plan, "c.csv") == "new object"
    assert planned(plan_of(listing, bookmark=committed(bookmark, plan))) == []


def test_g5_a_range_finds_what_was_read_and_is_not_seen_any_more() -> None:
    listing = [landed("a.csv", at=1), landed("b.csv", at=2)]
    bookmark = seen_nothing(loaded(*listing))
    read = {item.identity: 1 for item in listing}
    for versions, found in ((VersionRange(0, 1, read), [["a.csv", "b.csv"]]), (VersionRange(1, 2, {}), [])):
        plan = make_plan(
            declaration=UNDATED,
            bookmark=bookmark,
            listing=listing,
            mode=Mode.NO_ADVANCE,
            window=Window(),
            table_uuid="uuid",
            now=LATER,
            versions=versions,
        )
        assert planned(plan) == found
    assert reason(plan, "a.csv") == "outside bookmark versions (1, 2]: none of them has read it as it is"


# Modes, quarantine, declarations


def test_full_mode_reads_what_was_consumed_and_says_so() -> None:
    listing = [landed("a.csv", at=1), landed("b.csv", at=2)]
    plan = plan_of(listing, bookmark=loaded(listing[0]), mode=Mode.FULL)
    assert planned(plan) == [["a.csv", "b.csv"]]
    assert reason(plan, "a.csv") == "full mode: consumed at bookmark_version=1"
    assert reason(plan, "b.csv") == "new object"


def test_a_full_load_that_plans_again_does_not_start_over() -> None:
    listing = [landed(f"{number}.csv", at=number) for number in range(3)]
    before = loaded(*listing)
    first = plan_of(listing, bookmark=before, mode=Mode.FULL)
    half = committed(before, first, only=["0.csv"], quarantined=["1.csv"])
    half = committed(half, first, only=["1.csv"], quarantined=["1.csv"])
    again = plan_of(listing, bookmark=half, mode=Mode.FULL, since=before.version)
    assert classes(again) == {
        "0.csv": Decision.CONSUMED,
        "1.csv": Decision.QUARANTINED,
        "2.csv": Decision.PLANNED,
    }


def test_no_advance_plans_the_increment_each_time() -> None:
    listing = [landed("a.csv"), landed("b.csv")]
    bookmark = loaded(listing[0])
    for _ in range(2):
        plan = plan_of(listing, bookmark=bookmark, mode=Mode.NO_ADVANCE)
        assert planned(plan) == [["b.csv"]]
        bookmark = committed(bookmark, plan)
    assert bookmark.version == 3


def test_a_quarantined_version_waits_for_a_new_version_a_new_declaration_or_full_mode() -> None:
    a = landed("a.csv")
    bookmark = loaded(a, quarantined=["a.csv"])
    again = plan_of([a], bookmark=bookmark)
    assert (classes(again)["a.csv"], reason(again, "a.csv")) == (Decision.QUARANTINED, "broken header")
    newer = plan_of([landed("a.csv", "B")], bookmark=bookmark)
    assert reason(newer, "a.csv") == "new version of a quarantined object: etag=A before"
    declared_anew = plan_of([a], bookmark=bookmark, declaration=declared(source={"partition": None, "files": "**"}))
    assert reason(declared_anew, "a.csv") == "quarantined under an older declaration: broken header"
    full = plan_of([a], bookmark=bookmark, mode=Mode.FULL)
    assert reason(full, "a.csv") == "full mode: quarantined at bookmark_version=1"
    assert all(planned(plan) == [["a.csv"]] for plan in (newer, declared_anew, full))


@pytest.mark.parametrize(
    ("objects", "warning"),
    [
        (1, "1 object was loaded under an older declaration, use mode full"),
        (2, "2 objects were loaded under an older declaration, use mode full"),
    ],
)
def test_objects_of_an_older_declaration_are_counted(objects: int, warning: str) -> None:
    listing = [landed(f"{number}.csv") for number in range(objects)]
    changed = declared(source={"partition": None, "files": "**"})
    assert plan_of(listing, bookmark=loaded(*listing), declaration=changed).warnings == (warning,)
    assert plan_of(listing, bookmark=loaded(*listing)).warnings == ()
    assert plan_of(listing, bookmark=loaded(*listing), declaration=changed, mode=Mode.FULL).warnings == ()


def test_another_version_id_is_another_version() -> None:
    listed = replace(landed("a.csv"), version_id="v2")
    assert planned(plan_of([listed], bookmark=loaded(landed("a.csv")))) == [["a.csv"]]


# Batches and their ids


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "expected"),
    [
        ([5, 5, 5], 10, [2, 1]),
        ([30, 5, 5], 10, [1, 2]),
        ([5, 30, 5], 10, [1, 1, 1]),
        ([5, 5, 30], 10, [2, 1]),
        ([10, 10], 10, [1, 1]),
        ([5, 5, 5], None, [3]),
    ],
)
def test_batches_hold_at_most_max_bytes_and_at_least_one_object(
    sizes: list[int], max_bytes: int | None, expected: list[int]
) -> None:
    listing = [landed(f"{number}.csv", size=size, at=number) for number, size in enumerate(sizes)]
    plan = plan_of(listing, declaration=declared(source={"partition": None, "max_bytes": max_bytes}))
    assert [len(batch) for batch in plan.batches] == expected


def test_the_batch_id_is_the_same_work_whoever_runs_it() -> None:
    listing = [landed("a.csv", at=1), landed("b.csv", at=2)]
    plan = plan_of(listing)
    assert plan.batch_id == plan_of(listing[::-1], now=LATER + timedelta(hours=1)).batch_id
    assert plan.batch_id == batch_id_for(plan, plan.batches[0], table_uuid="uuid", version=0)
    others = [
        plan_of([listing[0]]).batch_id,
        plan_of(listing, mode=Mode.FULL).batch_id,
        plan_of(listing, declaration=declared(source={"partition": None, "files": "**"})).batch_id,
        plan_of([landed("a.csv", "B", at=1), listing[1]]).batch_id,
        batch_id_for(plan, plan.batches[0], table_uuid="other", version=0),
        plan_of(listing, bookmark=loaded(landed("c.csv"))).batch_id,
    ]
    assert len({plan.batch_id, *others}) == len(others) + 1
    assert others[-1] == batch_id_for(plan, plan.batches[0], table_uuid="uuid", version=1)


def test_the_plan_does_not_depend_on_the_order_of_the_listing() -> None:
    listing = [landed(f"{number % 7}{number}.csv", at=number % 3) for number in range(20)]
    assert plan_of(listing) == plan_of(listing[::-1])


# What cannot be planned


def test_a_key_that_is_listed_twice_is_planned_later() -> None:
    with pytest.raises(ObjectChanged, match=r"uri=s3://landing/in/a.csv") as caught:
        plan_of([landed("a.csv"), landed("b.csv"), landed("a.csv", "B")])
    assert caught.value.uri == "s3://landing/in/a.csv"


def test_an_undated_source_cannot_be_asked_for_dates() -> None:
    with pytest.raises(UsageError, match="names no landing dates"):
        plan_of([], window=Window(first=date(2026, 9, 1)))


# For schedule and sensor


def prints(*listing: LandingObject, declaration: Declaration | None = None, now: datetime = LATER) -> dict[str, str]:
    return fingerprints(listing, source=(declaration or declared()).source, now=now)


def test_a_fingerprint_changes_with_its_own_date_only() -> None:
    first, second = landed("day=2026-08-30/a.csv"), landed("day=2026-08-31/a.csv")
    before = prints(first, second)
    assert sorted(before) == ["2026-08-30", "2026-08-31"]
    assert all(len(digits) == 16 and int(digits, 16) >= 0 for digits in before.values())
    assert prints(second, first) == before
    for changed in (prints(first, replace(second, etag="B")), prints(first, second, landed("day=2026-08-31/b.csv"))):
        assert changed["2026-08-30"] == before["2026-08-30"]
        assert changed["2026-08-31"] != before["2026-08-31"]
    assert prints(first) == {"2026-08-30": before["2026-08-30"]}


def test_a_control_file_changes_the_fingerprint_and_a_marker_does_not() -> None:
    data = landed("day=2026-08-30/a.csv")
    before = prints(data)
    assert prints(data, landed("day=2026-08-30/"), landed("nodate.csv")) == before
    assert prints(data, landed("day=2026-08-30/a.count")) != before


def test_a_young_object_changes_the_fingerprint_when_it_settles() -> None:
    settling = declared(source={"settle_seconds": 60})
    old, young = landed("day=2026-08-30/a.csv"), landed("day=2026-08-30/b.csv", at=100)
    early = prints(old, young, declaration=settling, now=START + timedelta(seconds=120))
    assert early == prints(old)
    assert prints(old, young, declaration=settling, now=START + timedelta(seconds=160)) != early


def test_an_undated_source_has_one_fingerprint() -> None:
    assert list(prints(landed("a.csv"), landed("b.csv"), declaration=UNDATED)) == [""]


# what operators decided


def ruled(bookmark: Bookmark, kind: str, *objects: LandingObject) -> Bookmark:
    decided = [outcome(obj, RULINGS[kind], reason=f"{kind} by ann") for obj in objects]
    manifest = manifest_of(bookmark, decided, kind=kind)
    return advance(bookmark, manifest, reference_of(manifest))


def test_a_skipped_version_is_read_in_no_mode_and_a_new_one_is() -> None:
    poison = landed("a.csv")
    bookmark = ruled(Bookmark(), SKIP, poison)
    for mode in Mode:
        plan = plan_of([poison, landed("b.csv")], bookmark=bookmark, mode=mode)
        assert (planned(plan), reason(plan, "a.csv")) == ([["b.csv"]], "object-skip by ann")
    assert plan.warnings == (f"1 object is skipped by an operator, the first: {poison.uri}: object-skip by ann",)
    assert [d.ruled_at for d in plan.decisions] == [1, None]
    assert planned(plan_of([landed("a.csv", "B")], bookmark=bookmark)) == [["a.csv"]]


def test_a_skipped_object_outside_the_window_is_outside_and_says_both() -> None:
    dated = declared()
    early, late = landed("day=2026-08-01/a.csv"), landed("day=2026-08-31/a.csv")
    bookmark = ruled(Bookmark(), SKIP, early, late)
    plan = plan_of([early, late], bookmark=bookmark, declaration=dated, window=Window(last=date(2026, 8, 30)))
    assert set(classes(plan).values()) == {Decision.OUTSIDE_WINDOW}
    assert all(d.reason.endswith("; object-skip by ann") for d in plan.decisions)


def test_a_quarantined_object_is_released_and_a_consumed_one_reloaded() -> None:
    listing = [landed("a.csv"), landed("b.csv")]
    bookmark = committed(Bookmark(), plan_of(listing), quarantined=["a.csv"])
    assert planned(plan_of(listing, bookmark=bookmark)) == []
    bookmark = ruled(bookmark, RELEASE, listing[0])
    plan = plan_of(listing, bookmark=bookmark)
    assert (planned(plan), reason(plan, "a.csv")) == ([["a.csv"]], "object-release by ann")
    bookmark = ruled(committed(bookmark, plan, quarantined=["a.csv"]), RELOAD, listing[1])
    assert classes(plan_of(listing, bookmark=bookmark)) == {"a.csv": Decision.QUARANTINED, "b.csv": Decision.PLANNED}
    assert planned(plan_of(listing, bookmark=committed(bookmark, plan_of(listing, bookmark=bookmark)))) == []


def test_what_is_to_be_read_again_may_have_to_wait() -> None:
    settling = declared(source={"partition": None, "settle_seconds": 60})
    bookmark = ruled(loaded(landed("a.csv")), RELOAD, landed("a.csv"))
    plan = plan_of([landed("a.csv")], bookmark=bookmark, declaration=settling, now=START)
    assert classes(plan) == {"a.csv": Decision.DEFERRED}


def test_an_object_is_decided_about_by_itself() -> None:
    whole = declared(write="replace_partition")
    listing = [landed("day=2026-08-30/a.csv"), landed("day=2026-08-30/b.csv")]
    bookmark = committed(Bookmark(), plan_of(listing, declaration=whole), quarantined=["day=2026-08-30/a.csv"])
    bookmark = ruled(bookmark, SKIP, listing[1])
    found = decide_objects(
        [item.uri for item in listing] + ["s3://landing/in/gone.csv"],
        declaration=whole,
        bookmark=bookmark,
        listing=listing,
        now=LATER,
    )
    assert [item.decision for item in found.values()] == [Decision.QUARANTINED, Decision.SKIPPED]
