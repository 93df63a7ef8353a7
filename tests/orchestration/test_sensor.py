"""Ticks of the sensor against a lake in memory and a real Dagster instance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.test_utils import create_run_for_test

from lakehouse.declaration import Declaration
from lakehouse.errors import Unavailable
from lakehouse.model import Acceptance, Decision, Hold
from lakehouse.orchestration import build_table_definitions
from lakehouse.orchestration.cursor import Asked, Fate, RunFate, next_listing, next_request, read_cursor, write_cursor
from lakehouse.orchestration.names import REFUSED, RUN_KEY
from tests.orchestration_lake import NOW, Lake, daily_table

NAME = "analytics__orders_landing"


@pytest.fixture(scope="module")
def _instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def instance(_instance: dg.DagsterInstance) -> Iterator[dg.DagsterInstance]:
    yield _instance
    _instance.wipe()


@pytest.fixture
def lake() -> Lake:
    return Lake()


def tick(
    lake: Lake, instance: dg.DagsterInstance, cursor: str | None, declaration: Declaration | None = None
) -> SensorExecutionData:
    definitions = build_table_definitions(declaration or daily_table(), library=lake.library(), env={})
    context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
    sensor = definitions.get_repository_def().get_sensor_def(NAME)
    return sensor.evaluate_tick(context)


def started(instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus, **tags: str) -> None:
    """The run that the daemon makes of a request, as it ended."""
    assert request.run_key
    create_run_for_test(instance, status=status, tags={RUN_KEY: request.run_key, **tags})


def test_exactly_the_dates_with_unseen_objects_are_asked_for(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    lake.land("2024-01-02", "b.csv")
    lake.land("2024-01-05")
    first = tick(lake, instance, None)

    assert [r.partition_key for r in first.run_requests or []] == ["2024-01-02", "2024-01-05"]
    (request, _) = first.run_requests or []
    assert request.tags["dagster/max_runtime"] == "3600" and request.tags["lakehouse/trigger"] == "sensor"
    again = tick(lake, instance, first.cursor)
    # no run of these keys is known here, so the same keys come again: Dagster starts one run per key
    assert [r.run_key for r in again.run_requests or []] == [r.run_key for r in first.run_requests or []]


def test_a_consumed_date_is_asked_for_again_when_an_object_changes(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    lake.load()
    quiet = tick(lake, instance, first.cursor)
    assert not quiet.run_requests and quiet.skip_message == "no unseen objects"

    lake.land("2024-01-02", etag="B")
    lake.land("2024-01-01", "late.csv")
    assert [r.partition_key for r in tick(lake, instance, quiet.cursor).run_requests or []] == [
        "2024-01-01",
        "2024-01-02",
    ]


def test_a_running_request_is_waited_for(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    started(instance, first.run_requests[0], dg.DagsterRunStatus.STARTED)  # type: ignore[index]
    lake.land("2024-01-02", "b.csv")
    assert not tick(lake, instance, first.cursor).run_requests


def test_a_blocked_date_waits_until_something_changes(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    started(instance, first.run_requests[0], dg.DagsterRunStatus.FAILURE, **{REFUSED: "true"})  # type: ignore[index]
    lake.now = NOW + timedelta(days=30)
    blocked = tick(lake, instance, first.cursor)
    assert not blocked.run_requests

    relaxed = daily_table(gates={"max_rejected_ratio": 0.5})
    assert tick(lake, instance, blocked.cursor, relaxed).run_requests
    lake.land("2024-01-02", etag="B")
    assert tick(lake, instance, blocked.cursor).run_requests


def test_a_blocked_date_is_asked_for_again_when_an_operator_decides(lake: Lake, instance: dg.DagsterInstance) -> None:
    """One poison file does not block its date for ever."""
    lake.land("2024-01-02")
    lake.land("2024-01-02", "poison.csv")
    cursor, keys = None, set()
    for decision in (None, Decision.SKIPPED, Decision.PLANNED, Decision.SKIPPED):
        if decision:
            lake.rule("2024-01-02", "poison.csv", decision)
        asked = tick(lake, instance, cursor)
        (request,) = asked.run_requests or []
        started(instance, request, dg.DagsterRunStatus.FAILURE, **{REFUSED: "true"})
        keys.add(request.run_key)
        cursor = asked.cursor
        assert not tick(lake, instance, cursor).run_requests
    assert len(keys) == 4


def test_a_blocked_date_is_asked_for_again_when_its_gate_is_accepted(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    started(instance, first.run_requests[0], dg.DagsterRunStatus.FAILURE, **{REFUSED: "true"})  # type: ignore[index]
    (item,) = lake.objects.values()
    hash_ = daily_table().hash
    word = Acceptance("max_rejected_ratio", "anna", "known", NOW, hash_, (item.identity,), lake.bookmark.version + 1)
    other = replace(word, objects=((item.uri, "another etag", None),))
    for accepted, asked in ((other, False), (replace(word, declaration="another"), False), (word, True)):
        lake.bookmark = replace(lake.bookmark, version=1, accepted=(accepted,))
        assert bool(tick(lake, instance, first.cursor).run_requests) is asked


def test_a_reloaded_object_of_a_consumed_date_is_asked_for(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    started(instance, first.run_requests[0], dg.DagsterRunStatus.SUCCESS)  # type: ignore[index]
    lake.load()
    lake.rule("2024-01-02", "a.csv", Decision.PLANNED)
    (again,) = tick(lake, instance, tick(lake, instance, first.cursor).cursor).run_requests or []
    assert again.run_key != first.run_requests[0].run_key  # type: ignore[index]


def test_o01_a_date_is_asked_for_when_its_marker_comes_and_comes_back(lake: Lake, instance: dg.DagsterInstance) -> None:
    """A marker that is the same to the byte gives the date the same mark: the run key is another one all the same."""
    marked = daily_table(
        source={"uri": "s3://landing/in/", "partition": "day=%Y-%m-%d", "format": {"type": "csv"},
                "ready": {"marker": "_SUCCESS"}}
    )  # fmt: skip
    lake.land("2024-01-02")
    waiting = tick(lake, instance, None, marked)
    assert not waiting.run_requests
    lake.land("2024-01-02", "_SUCCESS")
    first = tick(lake, instance, waiting.cursor, marked)
    (one,) = first.run_requests or []
    started(instance, one, dg.DagsterRunStatus.FAILURE)
    marker = lake.objects.pop("s3://landing/in/day=2024-01-02/_SUCCESS")
    gone = tick(lake, instance, first.cursor, marked)
    assert not gone.run_requests
    lake.objects[marker.uri] = marker
    lake.now = datetime.now(UTC) + timedelta(minutes=5)
    (two,) = tick(lake, instance, gone.cursor, marked).run_requests or []
    assert one.run_key != two.run_key


def test_o01_a_failed_run_and_a_reset_get_new_run_keys(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    (one,) = first.run_requests or []
    started(instance, one, dg.DagsterRunStatus.FAILURE)
    assert not tick(lake, instance, first.cursor).run_requests, "not at once"

    lake.now = datetime.now(UTC) + timedelta(minutes=5)
    second = tick(lake, instance, first.cursor)
    (two,) = second.run_requests or []
    started(instance, two, dg.DagsterRunStatus.SUCCESS)
    lake.load()
    lake.reset()
    (three,) = tick(lake, instance, second.cursor).run_requests or []

    assert len({one.run_key, two.run_key, three.run_key}) == 3


def test_o01_a_lost_cursor_asks_again_with_the_same_keys(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    keys = [[r.run_key for r in tick(lake, instance, None).run_requests or []] for _ in range(2)]
    assert keys[0] == keys[1] and len(keys[0]) == 1


def test_unknown_partitions_are_filtered(lake: Lake, instance: dg.DagsterInstance) -> None:
    for day in ("2023-12-31", "2024-01-10", "2024-01-11"):
        lake.land(day)
    assert [r.partition_key for r in tick(lake, instance, None).run_requests or []] == ["2024-01-10"]


def test_a_listing_that_fails_fails_the_tick(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.broken = Unavailable("bucket=landing does not answer")
    with pytest.raises(Unavailable, match="does not answer"):
        tick(lake, instance, "{}")


def test_too_young_objects_come_with_a_later_tick(lake: Lake, instance: dg.DagsterInstance) -> None:
    patient = daily_table(
        source={"uri": "s3://landing/in/", "partition": "day=%Y-%m-%d", "settle_seconds": 60, "format": {"type": "csv"}}
    )
    lake.land("2024-01-02", at=NOW - timedelta(seconds=10))
    first = tick(lake, instance, None, patient)
    assert not first.run_requests
    lake.now = NOW + timedelta(seconds=60)
    assert tick(lake, instance, first.cursor, patient).run_requests


def test_an_undated_source_is_one_request(lake: Lake, instance: dg.DagsterInstance) -> None:
    undated = daily_table(
        source={"uri": "s3://landing/in/", "partition": None, "files": "**.csv", "format": {"type": "csv"}}
    )
    lake.land("2024-01-02")
    (request,) = tick(lake, instance, None, undated).run_requests or []
    assert request.partition_key is None


def test_the_cursor_stays_small_and_forgets_what_is_done(lake: Lake, instance: dg.DagsterInstance) -> None:
    start = datetime(2021, 1, 1, tzinfo=UTC)
    dates = [(start + timedelta(days=n)).date().isoformat() for n in range(30_000)]
    at_once = {day: Asked(f"{n:012x}", 123456, 2) for n, day in enumerate(dates[:1100])}
    one_by_one = {day: Asked(f"{n:012x}", 100_000 + n, n % 3) for n, day in enumerate(dates[:1100])}
    scattered = {day: Asked(f"{n:012x}", 123456, 2) for n, day in enumerate(dates[:2200:2])} | {"": Asked("m", 1)}
    for asked, most in ((at_once, 15_000), (one_by_one, 50_000), (scattered, 50_000)):
        assert len(write_cursor(asked)) < most
        assert read_cursor(write_cursor(asked)) == asked
    endless = {day: Asked(f"{n:012x}", 123456) for n, day in enumerate(dates)}
    text = write_cursor(endless, next_listing=NOW)
    assert len(text) < 50_000
    assert next_listing(text) == NOW
    kept = read_cursor(text)
    assert kept == {day: endless[day] for day in dates[-len(kept) :]}
    assert len(kept) > 3500

    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    lake.load()
    assert json.loads(str(tick(lake, instance, first.cursor).cursor))["asked"] == []


def test_a_cursor_of_the_first_format_is_read() -> None:
    text = '{"format":1,"asked":{"2024-01-02":["0123456789ab",7,1],"":["m",2,0]}}'
    assert read_cursor(text) == {"2024-01-02": Asked("0123456789ab", 7, 1), "": Asked("m", 2, 0)}


def test_a_large_source_is_listed_less_often(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.orchestration.sensor.KEYS_PER_LISTING", 1)
    for number in range(20):
        lake.land("2024-01-02", f"{number}.csv")
    first = tick(lake, instance, None)
    assert next_listing(first.cursor) == NOW + timedelta(minutes=1)
    lake.land("2024-01-03")
    lake.now = NOW + timedelta(seconds=59)
    waits = tick(lake, instance, first.cursor)
    assert (waits.run_requests, waits.cursor) == ([], first.cursor)
    lake.now = NOW + timedelta(seconds=60)
    assert "2024-01-03" in [r.partition_key for r in tick(lake, instance, waits.cursor).run_requests or []]


@pytest.mark.parametrize("text", [None, "", '{"format": 9}', "[]"])
def test_another_cursor_is_no_cursor(text: str | None) -> None:
    assert read_cursor(text) == {}


@pytest.mark.parametrize(
    ("attempt", "waited", "asks"),
    [(0, 29, False), (0, 30, True), (2, 119, False), (2, 120, True), (50, 3599, False), (50, 3600, True)],
)
def test_failed_runs_are_asked_for_after_a_doubling_wait(attempt: int, waited: int, asks: bool) -> None:
    run = RunFate(Fate.FAILED, NOW)
    found = next_request(
        Asked("m", 1, attempt), mark="m", bookmark_version=1, run=run, now=NOW + timedelta(seconds=waited)
    )
    assert found == (Asked("m", 1, attempt + 1) if asks else None)


def test_a_success_that_left_objects_is_not_asked_for_in_a_loop() -> None:
    done = RunFate(Fate.SUCCEEDED, NOW)
    assert next_request(Asked("m", 1), mark="m", bookmark_version=1, run=done, now=NOW) is None
    assert next_request(Asked("m", 1), mark="m", bookmark_version=2, run=done, now=NOW) == Asked("m", 2)


def test_a_held_table_is_not_asked_for_and_its_cursor_stays(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.land("2024-01-02")
    first = tick(lake, instance, None)
    lake.bookmark = replace(lake.bookmark, held=Hold("anna", "mending", datetime(2024, 1, 3, tzinfo=UTC)))
    held = tick(lake, instance, first.cursor)
    assert (held.run_requests, held.cursor) == ([], first.cursor)
    assert "held by anna since 2024-01-03" in (held.skip_message or "")
