from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from lakehouse.gate import deleted_ratio_gate
from lakehouse.model import Bookmark, Decision, Mode, ObjectDecision, ObjectOutcome, Plan, RowCounts, Sweep, Window
from lakehouse.plan import make_plan
from lakehouse.sweep import kept_outcomes, settled_after, sweep_for, withheld_dates
from tests.landing_values import START, declared, landed, outcome
from tests.unit.test_whole_dates import A01, A30, A31, B30, D01, consumed

DAY = date(2026, 9, 1)
SNAPSHOT = declared(write="snapshot", order_by="arrival")


def planned(*listing: Any, bookmark: Bookmark | None = None, declaration: Any = SNAPSHOT, **more: Any) -> Plan:
    return make_plan(
        declaration=declaration,
        bookmark=bookmark or Bookmark(),
        listing=listing,
        mode=Mode.INCREMENTAL,
        window=Window(),
        table_uuid="uuid",
        now=START,
        **more,
    )


def read(plan: Plan, *, bad: Any = None, rejected: Any = None) -> list[ObjectOutcome]:
    """The outcomes of a plan's first batch; `bad` is quarantined, `rejected` has one rejected record."""
    found = []
    for item in plan.batches[0]:
        decision = Decision.QUARANTINED if item.object == bad else Decision.CONSUMED
        rows = RowCounts(read=2, staged=1, rejected=1) if item.object == rejected else RowCounts(read=2, staged=2)
        found.append(replace(outcome(item.object, decision, day=item.landing_date), rows=rows))
    return found


def swept(declaration: Any, *objects: Any, bookmark: Bookmark, rejected: Any = None) -> tuple[Sweep, tuple[str, ...]]:
    plan = planned(*objects, bookmark=bookmark, declaration=declaration)
    return sweep_for(declaration, plan=plan, bookmark=bookmark, outcomes=read(plan, rejected=rejected))


def test_replace_partition_replaces_the_dates_that_it_read() -> None:
    sweep, warnings = swept(declared(write="replace_partition"), A30, A31, bookmark=Bookmark())
    assert (sweep, warnings) == (Sweep(replaced_dates=frozenset({date(2026, 8, 30), date(2026, 8, 31)})), ())


def test_append_replaces_objects_that_were_seen_before() -> None:
    declaration = declared(write="append")
    bookmark = consumed(Bookmark(), A30, declaration=declaration)
    sweep, _ = swept(declaration, replace(A30, etag="B"), B30, bookmark=bookmark)
    assert sweep == Sweep(replaced_objects=frozenset({A30.uri}))


def test_upsert_sweeps_nothing_unless_it_retracts() -> None:
    bookmark = consumed(Bookmark(), A30, A31)
    new = [replace(obj, etag="B") for obj in (A30, A31)]
    assert swept(declared(), *new, B30, bookmark=bookmark) == (Sweep(), ())
    retracting = declared(source={"on_overwrite": "retract"})
    sweep, warnings = swept(retracting, *new, B30, bookmark=bookmark, rejected=new[1])
    assert sweep == Sweep(retracted_objects=frozenset({A30.uri}))
    assert warnings == (f"{A31.uri}: nothing was retracted, for 1 of its records were rejected",)


def test_the_newest_date_of_a_snapshot_is_the_truth_if_all_of_it_was_read() -> None:
    plan = planned(A30, A01)
    sweep, warnings = sweep_for(SNAPSHOT, plan=plan, bookmark=Bookmark(), outcomes=read(plan))
    assert (sweep.snapshot_date, warnings, settled_after(sweep)) == (DAY, (), DAY)


@pytest.mark.parametrize("what", ["rejected", "quarantined", "failed", "deferred", "left out"])
def test_an_incomplete_date_deletes_nothing_and_says_why(what: str) -> None:
    new = landed(D01 + "b.csv", at=-1)
    declaration = declared(write="snapshot", order_by="arrival", source={"settle_seconds": 5})
    listing = [landed(D01 + "a.csv", at=-9), landed(D01 + "b.csv", at=-1 if what == "deferred" else -9)]
    plan = planned(*listing, declaration=declaration)
    outcomes, failed = read(plan), []
    if what == "rejected":
        outcomes = read(plan, rejected=listing[1])
    elif what == "quarantined":
        outcomes = read(plan, bad=listing[1])
    elif what in ("failed", "left out"):
        outcomes = outcomes[:1]
        failed = [ObjectDecision(listing[1], DAY, Decision.PLANNED, "new object")] if what == "failed" else []
    bookmark = Bookmark(settled_date=date(2026, 8, 30))
    sweep, (warning,) = sweep_for(declaration, plan=plan, bookmark=bookmark, outcomes=outcomes, failed=failed)
    assert (sweep.snapshot_date, sweep.settled_date, settled_after(sweep)) == (None, *[date(2026, 8, 30)] * 2)
    assert warning.startswith("landing date 2026-09-01 is not complete, so no row was deleted: ")
    assert new.uri in warning or "b.csv is deferred" in warning


def test_a_batch_of_older_dates_leaves_the_settled_date_to_the_merge() -> None:
    bookmark = replace(consumed(Bookmark(), A01, declaration=SNAPSHOT), settled_date=DAY)
    plan = planned(A01, B30, bookmark=bookmark)
    sweep, warnings = sweep_for(SNAPSHOT, plan=plan, bookmark=bookmark, outcomes=read(plan))
    assert (sweep, warnings) == (Sweep(settled_date=DAY), ())


def test_a_date_with_an_unreadable_object_is_withheld_and_the_object_is_told() -> None:
    declaration = declared(write="replace_partition")
    plan = planned(A30, B30, A31, A01, declaration=declaration)
    outcomes = read(plan, bad=B30)
    failed = [ObjectDecision(A01, DAY, Decision.PLANNED, "new object")]
    outcomes = [o for o in outcomes if o.object != A01]
    withheld = withheld_dates(declaration, outcomes, failed=failed)
    assert withheld == {date(2026, 8, 30), DAY}
    assert [o.object for o in kept_outcomes(outcomes, withheld)] == [B30, A31]
    assert withheld_dates(declared(), outcomes, failed=failed) == frozenset()


@pytest.mark.parametrize(
    ("vanished", "live", "limit", "passed"),
    [(0, 0, 0.0, True), (1, 10, 0.1, True), (2, 10, 0.1, False), (10, 10, 1.0, True), (1, 10, 0.0, False)],
)
def test_the_gate_of_vanished_rows(vanished: int, live: int, limit: float, passed: bool) -> None:
    gate = deleted_ratio_gate(vanished, live, limit)
    assert (gate.name, gate.passed, gate.limit) == ("max_deleted_ratio", passed, limit)
    assert bool(gate.detail) is not passed
