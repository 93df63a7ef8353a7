"""What no real storage would do on demand: break its conditions, or live in another time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse.doctor.buckets import check_source, check_state
from lakehouse.doctor.check import Check, Standing
from tests.services.scripted_s3 import Answer, page, refusal, scripted_s3

LISTED_AT = datetime(2026, 8, 29, 10, tzinfo=UTC)
Script = Callable[[str, str, dict[str, str]], Answer]


def state_checks(script: Script, *, now: datetime = LISTED_AT) -> dict[str, Check]:
    with scripted_s3() as stub:
        stub.script = script
        found = check_state(stub.open(), region="eu-west-1", new_id="1", now=lambda: now)
        return {check.name: check for check in found}


def careless(method: str, path: str, query: dict[str, str]) -> Answer:
    return page(["doctor/1"]) if "list-type" in query else Answer(body=b"1")


def test_a_storage_without_conditional_writes_is_refused() -> None:
    """It would give every lease to everybody."""
    found = state_checks(careless)["state conditions"]
    assert found.standing is Standing.MISSING
    assert "If-None-Match and If-Match" in found.detail


@pytest.mark.parametrize(
    ("ours", "standing", "text"),
    [
        (LISTED_AT - timedelta(seconds=300), Standing.MISSING, "300 s ahead of ours"),
        (LISTED_AT + timedelta(seconds=300), Standing.MISSING, "300 s behind ours"),
        (LISTED_AT + timedelta(seconds=5), Standing.OK, "5 s behind ours"),
    ],
)
def test_the_clocks_are_compared(ours: datetime, standing: Standing, text: str) -> None:
    found = state_checks(careless, now=ours)["clock"]
    assert (found.standing, text in found.detail) == (standing, True)


def test_a_probe_that_cannot_be_removed_is_named() -> None:
    found = state_checks(lambda m, p, q: refusal("AccessDenied", 403) if m == "DELETE" else careless(m, p, q))
    assert found["state delete"].grant == "s3:DeleteObject on arn:aws:s3:::landing/*"
    assert found["state probe"].subject == "s3://landing/doctor/1"


@pytest.mark.parametrize(
    ("answer", "standing", "grant"),
    [
        (refusal("InvalidObjectState", 403), Standing.OK, ""),
        (refusal("PreconditionFailed", 412), Standing.OK, ""),
        (refusal("AccessDenied", 403), Standing.MISSING, "s3:GetObject on arn:aws-cn:s3:::landing/*"),
    ],
    ids=["archived", "overwritten", "denied"],
)
def test_reading_an_object_of_a_source(answer: Answer, standing: Standing, grant: str) -> None:
    with scripted_s3() as stub:
        stub.script = lambda method, path, query: page(["a.csv"]) if "list-type" in query else answer
        checks = [*check_source(stub.open(), uri="s3://landing/", region="cn-north-1", new_id="1")]
    assert [check.name for check in checks] == ["source list", "source read"]
    assert checks[1].standing is standing
    assert checks[1].grant.startswith(grant)
