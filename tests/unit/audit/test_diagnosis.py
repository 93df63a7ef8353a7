"""Which state evidence means. Pure values in, one state out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.audit.diagnosis import (
    WORST_FIRST,
    Answer,
    Attempt,
    Condition,
    Evidence,
    Failure,
    Lease,
    diagnose_evidence,
    worst_first,
)

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
SOON, LONG_AGO = timedelta(seconds=30), timedelta(hours=1)
WELL = Evidence("analytics.orders", "orders", several=False, now=NOW, version=7, ledger=7)
LOAD = "lakehouse load analytics.orders"


def lease(**changes: Any) -> Lease:
    """The lease of a process that is gone, at step `merge`."""
    one = Lease(
        run_id="r", host="h", pid=7, step="merge", batch_id="b", attempt_id="a", command="", since=NOW - LONG_AGO,
        expires_at=NOW + SOON, finished=False, gone=True,
    )  # fmt: skip
    return replace(one, **changes)


def attempt(state: str = "failed", **changes: Any) -> Attempt:
    failure = Failure("merge", "it went wrong", 3, f"{LOAD} --from 2026-08-30")
    return replace(Attempt("a", "b", "r", state, NOW - SOON, failure), **changes)


@pytest.mark.parametrize(
    ("step", "state", "code"),
    [
        ("", Condition.BEFORE_STAGING, 3),
        ("plan", Condition.BEFORE_STAGING, 3),
        ("discover", Condition.BEFORE_STAGING, 3),
        ("stage", Condition.DURING_STAGING, 3),
        ("merge", Condition.BEFORE_PUBLISH, 3),
        ("publish", Condition.BEFORE_PUBLISH, 3),
        ("commit", Condition.UNKNOWN, 4),
        ("hold", Condition.BEFORE_PUBLISH, 3),
        ("ledger", Condition.NOTHING, 0),
    ],
)
def test_a_process_that_is_gone_has_left_its_step(step: str, state: Condition, code: int) -> None:
    found = diagnose_evidence(replace(WELL, lease=lease(step=step)))
    assert (found.state, found.exit_code) == (state, code)
    assert found.next == (LOAD if code else "")
    told = diagnose_evidence(replace(WELL, lease=lease(step=step, command="lakehouse hold t --reason x")))
    assert told.next == ("lakehouse hold t --reason x" if code else "")


def test_a_lease_that_is_renewed_is_of_a_running_load_and_an_expired_one_is_not() -> None:
    there = lease(gone=False)
    assert diagnose_evidence(replace(WELL, lease=there)).state is Condition.RUNNING
    late = diagnose_evidence(replace(WELL, lease=replace(there, expires_at=NOW)))
    assert late.state is Condition.BEFORE_PUBLISH and "has stopped renewing its lease" in late.why


def test_an_interrupted_load_is_judged_as_one_that_was_killed() -> None:
    stopped = diagnose_evidence(replace(WELL, lease=lease(step="commit", interrupted=True)))
    assert (stopped.state, stopped.exit_code) == (Condition.UNKNOWN, 4)
    assert "was interrupted at step commit" in stopped.why


def test_what_a_dead_process_has_published_is_there() -> None:
    published = replace(WELL, lease=lease(step="commit", published=True))
    assert diagnose_evidence(published).state is Condition.NOTHING
    behind = diagnose_evidence(replace(published, ledger=6))
    assert (behind.state, behind.next) == (Condition.AFTER_PUBLISH, LOAD)
    assert "ends at version 6 of 7" in behind.why
    of_an_operator = replace(WELL, ledger=6, lease=lease(step="bookmark-reset", published=True, command="lakehouse x"))
    assert diagnose_evidence(of_an_operator).next == "lakehouse ledger rebuild analytics.orders"
    of_no_crash = diagnose_evidence(replace(WELL, ledger=6, several=True))
    assert of_no_crash.next == "lakehouse ledger rebuild analytics.orders --source orders"


def test_the_last_load_has_the_last_word() -> None:
    """An attempt's record counts until a later load came to its end, or said why it did not."""
    record = attempt(ended_at=NOW - 2 * LONG_AGO)
    ended = lease(finished=True, step="ledger")
    assert diagnose_evidence(replace(WELL, attempts=[record])).state is Condition.BEFORE_PUBLISH
    assert diagnose_evidence(replace(WELL, attempts=[record], lease=ended)).state is Condition.NOTHING
    held = replace(ended, step="hold")
    assert diagnose_evidence(replace(WELL, attempts=[record], lease=held)).state is Condition.BEFORE_PUBLISH
    said = replace(ended, step="discover", failure=Failure("plan", "503 slow down", 3))
    assert diagnose_evidence(replace(WELL, attempts=[record], lease=said)).state is Condition.BEFORE_STAGING
    own = attempt(ended_at=NOW - SOON)
    assert "batch b, step merge" in diagnose_evidence(replace(WELL, attempts=[own], lease=said)).why


KILLED_AT_ONCE = lease(step="plan", batch_id="", since=NOW - SOON)
SLOW = Failure("read", "503 slow down", 3, f"{LOAD} --from 2026-08-30")
DOUBLED = Failure("merge", "2 keys are doubled", 1, LOAD, "lakehouse maintain analytics.orders dedupe")


@pytest.mark.parametrize(
    ("later", "told", "command"),
    [
        ({"lease": KILLED_AT_ONCE}, "was killed", LOAD),
        ({"lease": replace(KILLED_AT_ONCE, finished=True, failure=SLOW)}, "503 slow down", SLOW.command),
        ({"failure": SLOW}, "503 slow down", SLOW.command),
        ({"failure": DOUBLED}, "doubled", DOUBLED.next),
        ({"lease": KILLED_AT_ONCE, "held": "held by anna"}, "was killed", LOAD),
        ({"held": "held by anna"}, "held by anna", f"lakehouse release analytics.orders --reason TEXT && {LOAD}"),
    ],
)
def test_a_commit_that_can_still_land_is_hidden_by_no_later_failure(
    later: dict[str, Any], told: str, command: str
) -> None:
    sent = attempt("unknown", ended_at=NOW - LONG_AGO, failure=Failure("publish", "nobody can say", 4, LOAD))
    attempts = [attempt(failure=later["failure"]), sent] if "failure" in later else [sent]
    evidence = replace(WELL, attempts=attempts, lease=later.get("lease"), held=later.get("held", ""))
    found = diagnose_evidence(evidence)
    assert (found.state, found.exit_code, found.next) == (Condition.UNKNOWN, 4, command)
    assert found.why.startswith("batch b: nobody can say; since then: ") and told in found.why


def test_a_gate_still_blocks_a_batch_whose_next_load_was_killed() -> None:
    refused = attempt("blocked", ended_at=NOW - LONG_AGO, refused=("max_rejected_ratio",))
    accept = "lakehouse gate accept b max_rejected_ratio --reason TEXT"
    for evidence in (
        replace(WELL, attempts=[refused], lease=KILLED_AT_ONCE),
        replace(WELL, attempts=[refused], lease=replace(KILLED_AT_ONCE, finished=True, failure=SLOW)),
        replace(WELL, attempts=[attempt(failure=SLOW), refused]),
    ):
        found = diagnose_evidence(evidence)
        assert (found.state, found.exit_code, found.next) == (Condition.BLOCKED, 1, accept)
        assert "; since then: " in found.why
    of_other_objects = attempt(failure=SLOW, batch_id="c")
    found = diagnose_evidence(replace(WELL, attempts=[of_other_objects, refused]))
    assert found.state is Condition.DURING_STAGING
    to_be_mended = attempt(failure=DOUBLED)
    assert diagnose_evidence(replace(WELL, attempts=[to_be_mended, refused])).next == DOUBLED.next


def test_a_load_that_could_not_see_that_its_commit_had_landed() -> None:
    """Its last words are of an unknown outcome; the table says more by now."""
    said = Failure("publish", "the commit was sent and nobody can say whether it landed", 4)
    ended = lease(finished=True, step="commit", failure=said)
    assert diagnose_evidence(replace(WELL, ledger=6, lease=ended)).state is Condition.UNKNOWN
    landed = diagnose_evidence(replace(WELL, ledger=6, lease=replace(ended, published=True)))
    assert (landed.state, landed.exit_code) == (Condition.AFTER_PUBLISH, 3)
    assert diagnose_evidence(replace(WELL, lease=replace(ended, published=True))).state is Condition.NOTHING


def test_an_error_that_another_try_does_not_change_is_for_an_operator() -> None:
    doubled = Failure("merge", "2 keys are doubled", 1, LOAD, "lakehouse maintain analytics.orders dedupe")
    found = diagnose_evidence(replace(WELL, attempts=[attempt(failure=doubled)]))
    assert (found.state, found.exit_code, found.next) == (Condition.BEFORE_PUBLISH, 1, doubled.next)
    prose = replace(doubled, step="read", exit_code=2, next="raise LAKEHOUSE_MEMORY")
    found = diagnose_evidence(replace(WELL, attempts=[attempt(failure=prose)]))
    assert (found.state, found.exit_code, found.next) == (Condition.DURING_STAGING, 1, LOAD)
    assert found.why.endswith("; raise LAKEHOUSE_MEMORY")
    dated = diagnose_evidence(replace(WELL, attempts=[attempt(failure=replace(prose, at=NOW))]))
    assert "step read (2026-09-01 12:00:00+00:00): " in dated.why, "a later load may have left no trace"
    gone = Failure("plan", "objects are not listed any more", 1, LOAD, "land them again")
    found = diagnose_evidence(replace(WELL, lease=lease(finished=True, failure=gone)))
    assert (found.state, found.exit_code) == (Condition.BLOCKED, 1)
    lost = Failure("publish", "nobody can say whether it landed", 4, LOAD)
    found = diagnose_evidence(replace(WELL, lease=lease(finished=True, failure=lost)))
    assert (found.state, found.exit_code) == (Condition.UNKNOWN, 4)


def test_commands_are_quoted_for_a_shell() -> None:
    odd = replace(WELL, context="a b", several=True, quarantined=[("s3://l/it's.csv", "not UTF-8"), ("s3://l/x", "y")])
    found = diagnose_evidence(odd)
    assert (found.state, found.exit_code) == (Condition.BLOCKED, 1)
    assert found.next == (
        "lakehouse object skip 's3://l/it'\"'\"'s.csv' --table analytics.orders --source 'a b' --reason TEXT"
    )
    assert "not UTF-8 (and 1 more)" in found.why


def test_what_must_be_mended_first_is_told_first() -> None:
    everything = replace(
        WELL,
        ledger=1,
        detached=Answer("rolled back", "rewind"),
        lease=lease(gone=False),
        held="held by anna",
        question=Answer("no bookmark", "rename"),
        attempts=[attempt("blocked", refused=("max_rejected_ratio",))],
        quarantined=[("s3://l/x", "bad")],
        accepted=["max_rejected_ratio"],
    )
    mend: list[dict[str, Any]] = [
        {"detached": None},
        {"lease": lease(step="stage", batch_id="another")},
        {"lease": None},
        {"held": ""},
        {"question": None},
        {"attempts": ()},
        {"quarantined": ()},
        {"accepted": ()},
        {"ledger": 7},
    ]
    told = [diagnose_evidence(everything)]
    for change in mend:
        everything = replace(everything, **change)
        told.append(diagnose_evidence(everything))
    assert [one.state for one in told] == [
        Condition.DETACHED, Condition.RUNNING, Condition.DURING_STAGING, Condition.HELD, Condition.BLOCKED,
        Condition.BLOCKED, Condition.BLOCKED, Condition.BLOCKED, Condition.AFTER_PUBLISH, Condition.NOTHING,
    ]  # fmt: skip
    assert [one.next.split()[:3] for one in told[4:8]] == [
        ["rename"], ["lakehouse", "gate", "accept"], ["lakehouse", "object", "skip"], LOAD.split(),
    ]  # fmt: skip
    assert worst_first(told)[0].state is Condition.DETACHED and worst_first(told)[-1].state is Condition.NOTHING


def test_every_state_has_its_place() -> None:
    assert set(WORST_FIRST) == set(Condition)
