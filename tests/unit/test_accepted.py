from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

from lakehouse.accepted import accepted_for, accepted_versions, still_accepted, with_accepted
from lakehouse.gate import accept
from lakehouse.model import Acceptance, Bookmark, Decision, GateResult, Mode, ObjectDecision, Plan, Window
from tests.landing_values import landed

A, B = landed("a.csv"), landed("b.csv")
WORD = Acceptance(
    "max_rejected_ratio", "ann", "known", datetime(2026, 9, 1, tzinfo=UTC), "d1", (A.identity, B.identity), 7
)


def test_it_counts_for_exactly_these_objects_and_that_declaration() -> None:
    assert accepted_for([WORD], [B.identity, A.identity], declaration="d1") == {WORD.gate: WORD}
    for objects, declaration in (
        ([A], "d1"),
        ([A, B, landed("c.csv")], "d1"),
        ([A, landed("b.csv", "B")], "d1"),
        ([A, replace(B, version_id="v2")], "d1"),
        ([A, B], "d2"),
    ):
        assert accepted_for([WORD], [o.identity for o in objects], declaration=declaration) == {}
    assert accepted_versions(Bookmark(accepted=(WORD,)), declaration="d1") == {A.identity: 7, B.identity: 7}
    assert accepted_versions(Bookmark(accepted=(WORD,)), declaration="d2") == {}


def test_it_ends_with_the_first_of_its_objects_that_is_read_and_with_its_declaration() -> None:
    bookmark = Bookmark(accepted=(WORD,))
    assert still_accepted(bookmark, [landed("c.csv")], declaration="d1", advance=True) == (WORD,)
    assert still_accepted(bookmark, [landed("a.csv", "B")], declaration="d1", advance=True) == ()
    assert still_accepted(bookmark, [A, B], declaration="d1", advance=False) == (WORD,)
    assert still_accepted(bookmark, [], declaration="d2", advance=True) == ()


def test_a_plan_says_which_batch_passes_and_which_word_is_about_others() -> None:
    def planned(*objects: object) -> Plan:
        batch = tuple(ObjectDecision(o, date(2026, 9, 1), Decision.PLANNED, "new") for o in objects)  # type: ignore[arg-type]
        return Plan("t", "orders", "uuid", Mode.INCREMENTAL, Window(), "d1", 7, batch, (batch,), "id")

    plan = with_accepted(planned(A, B), [WORD])
    assert plan.accepted == ("gate max_rejected_ratio of batch 1: accepted by ann at 2026-09-01T00:00:00+00:00: known",)
    plan = with_accepted(planned(A), [WORD])
    assert plan.accepted == () and plan.warnings[0].startswith("gate max_rejected_ratio will be asked again")
    assert with_accepted(planned(landed("c.csv")), [WORD]).warnings == ()


def test_only_a_gate_that_failed_needs_a_word() -> None:
    failed, passed = GateResult("a", False, 1, 0), GateResult("b", True, 0, 0)
    assert [g.stops for g in (failed, passed)] == [True, False]
    assert accept([failed, passed], {"a": "by ann", "b": "by ann"}) == (replace(failed, accepted="by ann"), passed)
    assert not accept([failed], {"a": "by ann"})[0].stops and accept([failed], {})[0].stops
