from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from lakehouse.audit.recount import Recount
from lakehouse.model import Decision, Equation, GateResult, LandingObject, Mode, ObjectDecision, Plan, Window
from lakehouse.orchestration.verdicts import (
    Verdict,
    complete_verdict,
    counts_verdict,
    freshness_verdict,
    gates_verdict,
    keys_verdict,
    late_verdict,
)
from lakehouse.reconcile import KEYS_DISTINCT_BY_DATE
from tests.orchestration_lake import daily_table

DAY = date(2024, 1, 2)
ALL = Window()
MORNING = datetime(2024, 1, 2, 6, tzinfo=UTC)


def decided(
    decision: Decision, name: str = "a.csv", *, day: date | None = DAY, at: datetime = MORNING
) -> ObjectDecision:
    return ObjectDecision(LandingObject(f"s3://landing/in/{name}", "A", 1, at), day, decision, "because")


def plan(decisions: Sequence[ObjectDecision]) -> Plan:
    return Plan("analytics.orders", "orders", "uuid", Mode.INCREMENTAL, Window(), "h", 1, tuple(decisions), (), "")


def test_complete_counts_both_sides_and_names_what_is_left() -> None:
    done = [decided(Decision.CONSUMED), decided(Decision.IGNORED, "b"), decided(Decision.OUTSIDE_WINDOW, "c")]
    assert complete_verdict(plan(done)).passed
    for left in (Decision.PLANNED, Decision.DEFERRED, Decision.QUARANTINED):
        verdict = complete_verdict(plan([*done, decided(left, "bad.csv")]))
        assert not verdict.passed
        assert verdict.description == f"listed 3, consumed or ignored 2: 1 {left.value}"
        assert "bad.csv" in str(verdict.metadata["left"].value) and "because" in str(verdict.metadata["left"].value)


def test_what_an_operator_skipped_is_named_and_fails_nothing() -> None:
    skipped = decided(Decision.SKIPPED, "poison.csv")
    verdict = complete_verdict(plan([decided(Decision.CONSUMED), skipped]))
    assert verdict.passed
    assert verdict.description == "listed 2 = consumed or ignored 1 + skipped by an operator 1"
    assert "poison.csv" in str(verdict.metadata["skipped_objects"].value)
    left = complete_verdict(plan([skipped, decided(Decision.DEFERRED)]))
    assert left.description == "listed 2, consumed or ignored 0, skipped by an operator 1: 1 deferred"


def test_an_empty_date_is_complete() -> None:
    assert complete_verdict(plan([])).description == "listed 0 = consumed or ignored 0"


@pytest.mark.parametrize(("days", "late"), [(0, False), (3, False), (4, True)])
def test_late_is_what_came_after_the_schedule_stopped_looking(days: int, late: bool) -> None:
    item = decided(Decision.CONSUMED, at=MORNING + timedelta(days=days))
    verdict = late_verdict(plan([item]), daily_table(), now=MORNING + timedelta(days=9), window=ALL)
    assert verdict.passed is not late
    assert verdict.metadata["late"].value == int(late)


def late_of(*items: ObjectDecision, days: int, window: Window = ALL) -> Verdict:
    return late_verdict(plan(items), daily_table(), now=MORNING + timedelta(days=days), window=window)


def test_d26_an_unseen_object_of_an_old_date_waits_behind_the_window() -> None:
    item = decided(Decision.PLANNED)
    assert late_of(item, days=3).passed
    newest = Window(date(2024, 1, 6), date(2024, 1, 6))
    for old in (late_of(item, days=4), late_of(item, decided(Decision.CONSUMED, "b"), days=4, window=newest)):
        assert not old.passed and old.metadata["unseen_behind_the_window"].value == 1
        command = "lakehouse load analytics.orders --from 2024-01-02 --to 2024-01-02"
        assert old.metadata["next"].value == command
        assert old.description.endswith(f"1 unseen, late, outside window: {item.object.uri}: {command}")
    assert "late_objects" in late_of(item, days=4, window=newest).metadata


def test_d26_what_lies_before_the_start_is_late_if_it_came_since() -> None:
    old = date(2023, 12, 1)
    history = decided(Decision.OUTSIDE_WINDOW, day=old, at=datetime(2023, 12, 2, tzinfo=UTC))
    assert late_of(history, days=0).passed
    since = decided(Decision.OUTSIDE_WINDOW, "late.csv", day=old)
    verdict = late_of(history, since, days=0)
    assert not verdict.passed and verdict.metadata["unseen_behind_the_window"].value == 1
    assert verdict.description.endswith(
        f"{since.object.uri}: declare start_date: 2023-12-01, then "
        "lakehouse load analytics.orders --from 2023-12-01 --to 2023-12-01"
    )
    assert late_of(since._replace(ruled_at=3), days=0).passed, "an operator skipped it"


@pytest.mark.parametrize(
    ("hour", "objects", "passed"), [(7, 0, True), (8, 0, False), (9, 1, False), (9, 2, True), (6, 2, True)]
)
def test_freshness_is_due_at_the_declared_time(hour: int, objects: int, passed: bool) -> None:
    declaration = daily_table(
        gates={"expected_objects": {"min": 2, "by": "08:00"}}, timezone="America/New_York", start_date="2024-01-01"
    )
    there = [decided(Decision.CONSUMED, f"{n}.csv") for n in range(objects)]
    now = datetime(2024, 1, 2, hour + 5, tzinfo=UTC)
    assert freshness_verdict(plan(there), declaration, day=DAY, now=now).passed is passed


def test_freshness_without_a_date_looks_at_the_newest_due_one() -> None:
    declaration = daily_table(gates={"expected_objects": {"min": 1}})
    yesterday = [decided(Decision.CONSUMED, day=date(2024, 1, 1))]
    verdict = freshness_verdict(plan(yesterday), declaration, day=None, now=MORNING)
    assert verdict.passed and verdict.metadata["date"].value == "2024-01-01"
    assert not freshness_verdict(plan([]), declaration, day=None, now=MORNING).passed


def test_freshness_needs_a_declaration() -> None:
    assert freshness_verdict(plan([]), daily_table(), day=DAY, now=MORNING).passed


def test_counts_and_keys_show_both_sides() -> None:
    keys = Equation("table: count(*) = count(distinct key)", 3, 2)
    recount = Recount(7, (Equation("date: rows = gained - lost", 3, 3, DAY), keys), ("dates: none",))
    counts = counts_verdict(recount)
    assert not counts.passed and "3 ≠ 2" in counts.description
    assert counts.metadata["snapshot_id"].value == "7" and "- dates: none" in str(counts.metadata["unavailable"].value)
    assert not keys_verdict(recount).passed
    assert counts_verdict(Recount(7, recount.equations[:1])).description == (
        "date: rows = gained - lost [2024-01-02]: 3 = 3"
    )


def test_a_table_that_does_not_exist_yet_has_unique_keys() -> None:
    nothing = Recount(None, (Equation("table: rows = published rows", 0, 0),))
    assert keys_verdict(nothing).passed and "0 = 0" in keys_verdict(nothing).description


def test_a_write_mode_without_unique_keys_has_none_to_compare() -> None:
    rows = Equation("table: rows = published rows", 3, 3)
    verdict = keys_verdict(Recount(7, (rows,), ("keys: append keeps every row, whatever its key",)))
    assert (verdict.passed, verdict.description) == (True, "keys: append keeps every row, whatever its key")
    assert not keys_verdict(Recount(7, (rows, Equation(KEYS_DISTINCT_BY_DATE, 3, 2)))).passed


def test_a_recount_that_compared_nothing_proves_nothing() -> None:
    assert not keys_verdict(Recount(7, (Equation("date: rows = gained - lost", 3, 3, DAY),))).passed


def test_gates() -> None:
    bad = GateResult("max_rejected_ratio", False, 0.5, 0.1, "5 of 10 rows")
    good = GateResult("max_duplicate_ratio", True, 0.0, 0.1)
    assert gates_verdict([bad], loaded=True).description == "max_rejected_ratio: value=0.5 limit=0.1 5 of 10 rows"
    assert not gates_verdict([bad], loaded=True).passed
    accepted = gates_verdict([replace(bad, accepted="accepted by ann: known"), good], loaded=True)
    assert (accepted.passed, accepted.description) == (
        True,
        "1 gates passed; max_rejected_ratio: value=0.5 limit=0.1 5 of 10 rows accepted by ann: known",
    )
    assert gates_verdict([], loaded=True).passed and gates_verdict([], loaded=False).passed
