"""One asset, one sensor and one schedule for a table that two sources fill (G8, G9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from lakehouse.declaration import Declaration
from lakehouse.errors import Unavailable
from lakehouse.model import Hold, Plan, Receipt, State
from lakehouse.orchestration import build_definitions, build_table_definitions, failure, run_checks
from lakehouse.orchestration.library import Library
from lakehouse.orchestration.names import REFUSED
from lakehouse.receipt_total import total
from tests.conftest import RunningStack
from tests.lake import DAY_1, DAY_2, csv, order
from tests.many_sources import ManyLake
from tests.orchestration_lake import NOW, Lake, failed

if TYPE_CHECKING:
    from lakehouse.ingest import LoadRequest
    from lakehouse.services import Services

KEY = dg.AssetKey(["analytics", "orders"])
DAY = "2024-01-02"
SOURCE = {"uri": "s3://landing/in/", "partition": "day=%Y-%m-%d", "files": "*.csv", "format": {"type": "csv"}}


def two_sources(**changes: Any) -> Declaration:
    sources = [{**SOURCE, "bookmark": "eu"}, {**SOURCE, "bookmark": "us", "lookback_days": 8}]
    return Declaration.model_validate(
        {
            "table": "analytics.orders",
            "sources": sources,
            "columns": {"id": {"type": "bigint", "required": True}, "at": "timestamptz"},
            "key": ["id"],
            "order_by": ["at"],
            "start_date": "2024-01-01",
            **changes,
        }
    )


class Lakes:
    """One lake in memory for each source. `unplanned` sources raise when they are planned, `unaccepted` ones ask."""

    def __init__(self) -> None:
        self.of = {"eu": Lake(), "us": Lake()}
        self.unplanned: set[str] = set()
        self.unaccepted: set[str] = set()

    def library(self) -> Library:
        return replace(self.of["eu"].library(), plan=self._plan, ingest=self._ingest)

    def _plan(self, declaration: Declaration, request: LoadRequest, services: Services) -> Plan:
        context = declaration.context
        if context in self.unplanned:
            raise Unavailable("503 slow down")
        plan = self.of[context].library().plan(declaration, request, services)
        if context in self.unaccepted:
            return replace(plan, unaccepted=f"no bookmark for {context}; 1 object would be re-read", answer="accept it")
        return plan

    def _ingest(self, declaration: Declaration, request: LoadRequest, services: Services) -> Receipt:
        parts = [self.of[one.context].library().ingest(one, request, services) for one in declaration.by_source]
        return total(declaration, parts)


@pytest.fixture
def lakes() -> Lakes:
    return Lakes()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "RETRY_SECONDS", 0)


def tick(lakes: Lakes, instance: dg.DagsterInstance, cursor: str | None = None) -> SensorExecutionData:
    definitions = build_table_definitions(two_sources(), library=lakes.library(), env={})
    context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
    return definitions.get_repository_def().get_sensor_def("analytics__orders_landing").evaluate_tick(context)


def keys(ticked: SensorExecutionData) -> list[str | None]:
    return [request.partition_key for request in ticked.run_requests or []]


def run(lakes: Lakes, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    table = build_table_definitions(two_sources(), library=lakes.library(), env={})
    job = table.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, tags={"dagster/partition": DAY}, raise_on_error=False)


def test_g08_a_run_loads_every_source_and_reports_each(lakes: Lakes, instance: dg.DagsterInstance) -> None:
    lakes.of["eu"].land(DAY)
    lakes.of["us"].land(DAY, "b.csv")
    result = run(lakes, instance)
    assert result.success
    (made,) = (e.step_materialization_data.materialization for e in result.get_asset_materialization_events())
    assert made.metadata["rows_inserted"].value == 10
    assert {name: made.metadata[f"{name}/bookmark_version"].value for name in ("eu", "us")} == {"eu": 1, "us": 1}
    assert "| eu | committed | 1 |" in str(made.metadata["sources"].value)


def test_g08_a_run_of_which_one_source_failed_fails_and_says_which(lakes: Lakes, instance: dg.DagsterInstance) -> None:
    lakes.of["eu"].land(DAY)
    lakes.of["us"].fail = failed(two_sources().by_source[1], State.BLOCKED, 1)
    result = run(lakes, instance)
    assert not result.success and len(lakes.of["eu"].requests) == 1 and lakes.of["eu"].bookmark.version == 1
    (event,) = [e for e in result.all_node_events if e.is_step_failure]
    said = event.step_failure_data.user_failure_data
    assert said and said.description and "us: it went wrong" in said.description
    assert "source eu: committed" in said.description and "source us: blocked" in said.description
    assert REFUSED in instance.get_run_by_id(result.run_id).tags  # type: ignore[union-attr]


def test_g08_a_run_is_tried_again_as_long_as_that_helps_one_source(lakes: Lakes, instance: dg.DagsterInstance) -> None:
    lakes.of["eu"].fail = failed(two_sources().by_source[0], State.BLOCKED, 1)
    lakes.of["us"].fail = failed(two_sources().by_source[1], State.FAILED, 3)
    result = run(lakes, instance)
    assert not result.success and len(lakes.of["us"].requests) == 4
    assert REFUSED not in instance.get_run_by_id(result.run_id).tags  # type: ignore[union-attr]


def test_g08_the_sensor_asks_once_for_a_date_of_several_sources(lakes: Lakes, instance: dg.DagsterInstance) -> None:
    lakes.of["eu"].land(DAY)
    lakes.of["us"].land(DAY, "b.csv")
    lakes.of["us"].land("2024-01-04")
    first = tick(lakes, instance)
    assert keys(first) == [DAY, "2024-01-04"]
    # a source that cannot be listed for a while hides nothing of the other, and brings no request of its own
    lakes.unplanned.add("eu")
    again = tick(lakes, instance, first.cursor)
    assert [r.run_key for r in again.run_requests or []] == [r.run_key for r in first.run_requests or []]
    assert again.cursor == first.cursor
    lakes.unplanned.add("us")
    with pytest.raises(Unavailable):
        tick(lakes, instance, first.cursor)


def test_g09_the_sensor_and_the_schedule_say_that_a_source_is_not_accepted(
    lakes: Lakes, instance: dg.DagsterInstance
) -> None:
    lakes.of["us"].land(DAY)
    lakes.unaccepted.add("us")
    ticked = tick(lakes, instance)
    assert (
        keys(ticked) == [] and ticked.skip_message == "no bookmark for us; 1 object would be re-read\nnext: accept it"
    )
    assert scheduled(lakes) == "no bookmark for us; 1 object would be re-read\nnext: accept it"
    lakes.of["eu"].land(DAY, "b.csv")
    assert keys(tick(lakes, instance)) == [DAY]


def scheduled(lakes: Lakes) -> list[str | None] | str | None:
    """The partitions that the schedule asks for, or why it asks for none."""
    definitions = build_table_definitions(two_sources(schedule="0 6 * * *"), library=lakes.library(), env={})
    schedule = definitions.get_repository_def().get_schedule_def("analytics__orders_daily")
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2024, 1, 10, 6, tzinfo=UTC),
        repository_def=definitions.get_repository_def(),
        instance=dg.DagsterInstance.ephemeral(),
    )
    ticked = schedule.evaluate_tick(context)
    return [r.partition_key for r in ticked.run_requests] if ticked.run_requests else ticked.skip_message


def test_g08_the_schedule_looks_back_as_far_as_each_source_says(lakes: Lakes) -> None:
    for day in (DAY, "2024-01-08"):
        lakes.of["eu"].land(day)
    assert scheduled(lakes) == ["2024-01-08"]
    lakes.of["us"].land(DAY, "b.csv")
    assert scheduled(lakes) == [DAY, "2024-01-08"]
    lakes.of["us"].bookmark = replace(lakes.of["us"].bookmark, held=Hold("anna", "x", NOW))
    assert "held by anna" in str(scheduled(lakes))


def test_g08_checks_look_at_every_source(lakes: Lakes) -> None:
    lakes.of["us"].land(DAY)
    definitions = build_table_definitions(two_sources(), library=lakes.library(), env={})
    (outcome,) = run_checks(definitions, selection="analytics.orders:objects_complete", partition=date(2024, 1, 2))
    assert not outcome.passed
    assert outcome.description == "eu: listed 0 = consumed or ignored 0; us: listed 1, consumed or ignored 0: 1 planned"


def test_g08_two_sources_on_a_real_catalog(
    stack: RunningStack, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ManyLake(stack, tmp_path)
    for name, value in lake.env.items():
        monkeypatch.setenv(name, value)
    lake.land("eu", DAY_1, "a.csv", csv(order(1), order(2)))
    lake.land("us", DAY_1, "a.csv", csv(order(2, "2.00", 5)))
    lake.land("us", DAY_2, "b.csv", csv(order(3)))
    done = daily_run(lake, instance, DAY_1)
    assert done.success
    assert all(e.passed or e.check_name == "late_arrivals" for e in done.get_asset_check_evaluations())
    assert {e.check_name for e in done.get_asset_check_evaluations()} >= {"counts_reconcile", "objects_complete"}
    assert lake.amounts() == {1: "1.00", 2: "2.00"}
    lake.declare("eu", "us", "asia")
    lake.land("asia", DAY_2, "a.csv", csv(order(4)))
    refused = daily_run(lake, instance, DAY_2)
    assert not refused.success and sorted(lake.rows()) == [1, 2, 3], "the other sources are loaded"
    accepted = daily_run(lake, instance, DAY_2, accept_new=True)
    assert accepted.success and sorted(lake.rows()) == [1, 2, 3, 4]


def daily_run(lake: ManyLake, instance: dg.DagsterInstance, day: date, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions([lake.declaration]).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        tags={"dagster/partition": day.isoformat()},
        run_config={"ops": {f"{lake.name}__orders": {"config": config}}},
        raise_on_error=False,
    )
