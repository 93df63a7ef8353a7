"""The listing against the bookmark: nothing that is listed is passed over, and what is gone is told."""

from __future__ import annotations

from datetime import UTC, date, datetime

from lakehouse.audit.completeness import COMPLETE, completeness
from lakehouse.model import Decision, Equation, LandingObject, Mode, ObjectDecision, Plan, Seen, SeenObject, Window

NOW = datetime(2026, 9, 3, tzinfo=UTC)
DAY_1, DAY_2 = date(2026, 9, 1), date(2026, 9, 2)


def listed(name: str, day: date | None, decision: Decision) -> ObjectDecision:
    return ObjectDecision(LandingObject(f"s3://landing/{name}", "e", 1, NOW), day, decision, "why")


def planned(*decisions: ObjectDecision, window: Window | None = None) -> Plan:
    return Plan("n.t", "t", "uuid", Mode.INCREMENTAL, window or Window(), "hash", 1, decisions, (), "")


def seen(name: str, day: date | None) -> SeenObject:
    return SeenObject(
        LandingObject(f"s3://landing/{name}", "e", 1, NOW), day, Decision.CONSUMED, "new", "b", 1, "hash", NOW
    )


def test_what_is_dealt_with_by_date() -> None:
    done = [listed(d.value, DAY_1, d) for d in (Decision.CONSUMED, Decision.SKIPPED, Decision.IGNORED)]
    left = [listed(d.value, DAY_2, d) for d in (Decision.PLANNED, Decision.DEFERRED, Decision.QUARANTINED)]
    outside = listed("old", date(2020, 1, 1), Decision.OUTSIDE_WINDOW)
    found = completeness(planned(*done, *left, outside, listed("u", None, Decision.CONSUMED)), Seen())
    assert found.equations == (
        Equation(COMPLETE, 1, 1, None),
        Equation(COMPLETE, 3, 3, DAY_1),
        Equation(COMPLETE, 3, 0, DAY_2),
    )
    assert (found.left, found.outside, found.gone, found.holds) == (tuple(left), (outside,), (), False)
    assert completeness(planned(*done), Seen()).holds


def test_what_is_gone_is_told_of_the_dates_that_are_asked_for() -> None:
    items = {item.object.uri: item for item in (seen("a", DAY_1), seen("b", DAY_2), seen("u", None))}
    here = listed("a", DAY_1, Decision.CONSUMED)
    assert [s.object.uri for s in completeness(planned(here), Seen(items)).gone] == ["s3://landing/b", "s3://landing/u"]
    one_day = completeness(planned(window=Window(DAY_1, DAY_1)), Seen(items))
    assert [s.object.uri for s in one_day.gone] == ["s3://landing/a", "s3://landing/u"]
    assert one_day.holds
