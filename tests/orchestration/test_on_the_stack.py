"""Assets, checks, sensor and backfill on a real Dagster instance, a real S3 and a real catalog."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from lakehouse.orchestration import build_definitions, run_checks
from lakehouse.orchestration.names import RUN_KEY, STATE
from tests.conftest import RunningStack
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, csv, order


@pytest.fixture(scope="module")
def _instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def instance(_instance: dg.DagsterInstance) -> Iterator[dg.DagsterInstance]:
    yield _instance
    _instance.wipe()


@pytest.fixture
def lake(stack: RunningStack, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    """A test can give fields of the declaration as an indirect parameter."""
    return Lake(stack, tmp_path, **getattr(request, "param", {}))


@pytest.fixture(autouse=True)
def _environment(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies open their services from the environment of their process."""
    for name, value in lake.env.items():
        monkeypatch.setenv(name, value)


class Project:
    """The definitions of the lake's table, and what a daemon does with them."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance) -> None:
        self.lake = lake
        self.instance = instance
        self.definitions = build_definitions([lake.declaration])
        self.key = dg.AssetKey([lake.name, "orders"])
        self.cursor: str | None = None

    def run(self, **tags: str) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=self.instance, tags=tags, raise_on_error=False)

    def run_date(self, day: object) -> dg.ExecuteInProcessResult:
        return self.run(**{"dagster/partition": str(day)})

    def tick(self) -> SensorExecutionData:
        repository = self.definitions.get_repository_def()
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor, definitions=self.definitions)
        data = repository.get_sensor_def(f"{self.lake.name}__orders_landing").evaluate_tick(context)
        self.cursor = data.cursor
        return data

    def follow(self) -> list[str | None]:
        """Tick, and run everything that is asked for; the dates."""
        requests = self.tick().run_requests or []
        for request in requests:
            self.run(**{**request.tags, RUN_KEY: str(request.run_key)})
        return [request.partition_key for request in requests]

    def rows(self, result: dg.ExecuteInProcessResult) -> dict[str | None, object]:
        events = result.get_asset_materialization_events()
        made = [event.step_materialization_data.materialization for event in events]
        return {m.partition: m.metadata["rows_inserted"].value for m in made}


@pytest.fixture
def project(lake: Lake, instance: dg.DagsterInstance) -> Project:
    return Project(lake, instance)


def test_two_partitions_and_their_checks(project: Project) -> None:
    lake = project.lake
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_2, "b.csv", csv(order(3)))
    first, second = project.run_date(DAY_1), project.run_date(DAY_2)

    assert first.success and second.success
    assert project.rows(first) == {str(DAY_1): 2} and project.rows(second) == {str(DAY_2): 1}
    evaluations = [*first.get_asset_check_evaluations(), *second.get_asset_check_evaluations()]
    assert len(evaluations) == 12 and all(e.passed or e.check_name == "late_arrivals" for e in evaluations)
    metadata = second.get_asset_materialization_events()[0].step_materialization_data.materialization.metadata
    table = lake.stack.catalog().load_table(lake.table)
    assert metadata["snapshot_id"].value == str(table.metadata.current_snapshot_id)
    assert metadata["dagster/row_count"].value == 3 and metadata["bookmark_version"].value == 2
    assert set(lake.rows()) == {1, 2, 3}

    again = project.run_date(DAY_1)
    assert again.success and project.rows(again) == {}
    assert lake.version() == 2
    outcomes = run_checks(project.definitions, partition=DAY_1, instance=project.instance)
    assert len(outcomes) == 6 and not any(outcome.fails for outcome in outcomes)


def test_d17_an_empty_prefix_is_a_success_and_makes_no_table(project: Project) -> None:
    result = project.run_date(DAY_1)

    assert result.success and project.rows(result) == {str(DAY_1): 0}
    evaluations = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert all(evaluation.passed for evaluation in evaluations.values())
    assert "0 = 0" in str(evaluations["counts_reconcile"].description)
    assert not project.lake.stack.catalog().table_exists(project.lake.table)


def test_d17_an_empty_day_is_materialized_and_publishes_nothing(project: Project) -> None:
    project.lake.put(DAY_1, "a.csv", csv(order(1)))
    project.run_date(DAY_1)
    empty = project.run_date(DAY_2)

    assert empty.success and project.rows(empty) == {str(DAY_2): 0}
    assert project.lake.version() == 1 and project.lake.snapshots() == 1


def test_the_sensor_follows_what_lands(project: Project) -> None:
    lake = project.lake
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_2, "b.csv", csv(order(2)))
    assert project.follow() == [str(DAY_1), str(DAY_2)]
    assert project.follow() == []

    lake.put(DAY_1, "late.csv", csv(order(3)))
    lake.put(DAY_2, "b.csv", csv(order(2, "5.00", 5)))
    assert project.follow() == [str(DAY_1), str(DAY_2)]
    assert project.follow() == []
    assert lake.amounts() == {1: "1.00", 2: "5.00", 3: "1.00"}


@pytest.mark.parametrize("lake", [{"gates": "max_rejected_ratio: 0.0"}], indirect=True)
def test_o01_o11_a_blocked_date_is_asked_for_once_until_it_changes(
    project: Project, instance: dg.DagsterInstance
) -> None:
    lake = project.lake
    lake.put(DAY_1, "a.csv", csv(order(1), order(2, "not a number")))
    assert project.follow() == [str(DAY_1)]
    assert project.follow() == []
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE and run.tags[STATE] == "blocked"
    assert run.tags["dagster/max_retries"] == "0"
    (event,) = [e.dagster_event for e in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)]
    assert event is not None
    told = event.step_failure_data.user_failure_data
    assert told is not None
    batch, evidence = lake.said("diagnose", lake.table, "--json")[1]["next"].split()[3], told.metadata["evidence"].value
    assert told.metadata["next"].value == f"lakehouse gate accept {batch} max_rejected_ratio --reason TEXT"
    assert f"Dagster run {run.run_id}" in evidence["orders"]["ended attempt"]
    assert "diagnosis of source orders: blocked: " in str(told.description) and batch in str(told.description)
    (gates,) = run_checks(project.definitions, selection=f"{lake.table}:gates", partition=DAY_1, instance=instance)
    assert gates.fails and "max_rejected_ratio" in gates.description

    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    assert project.follow() == [str(DAY_1)]
    assert set(lake.rows()) == {1, 2}
    assert project.follow() == []


def test_d26_a_late_object_behind_the_window_is_a_warning_with_the_command_that_loads_it(project: Project) -> None:
    lake = project.lake
    today = datetime.now(UTC).date()
    lake.put(today, "new.csv", csv(order(1)))
    late = lake.put(DAY_1, "late.csv", csv(order(2)))
    result = project.run_date(today)

    assert result.success and project.rows(result) == {str(today): 1}
    (check,) = [e for e in result.get_asset_check_evaluations() if e.check_name == "late_arrivals"]
    assert (check.passed, check.severity, check.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    command = f"lakehouse load {lake.table} --from {DAY_1} --to {DAY_1}"
    assert f"late, outside window: {late}: {command}" in str(check.description)
    assert check.metadata["next"].value == command
    assert lake.cli(*command.split()[1:], "--json")[1]["rows"]["inserted"] == 1
    (again,) = run_checks(
        project.definitions, selection=f"{lake.table}:late_arrivals", partition=today, instance=project.instance
    )
    assert again.passed


def test_a_quarantined_object_fails_its_check_and_not_the_run(project: Project) -> None:
    project.lake.put(DAY_1, "a.csv", csv(order(1)))
    project.lake.put(DAY_1, "bad.csv", b"something,else\n1,2\n")
    result = project.run_date(DAY_1)

    assert result.success and project.rows(result) == {str(DAY_1): 1}
    (complete,) = [e for e in result.get_asset_check_evaluations() if e.check_name == "objects_complete"]
    assert not complete.passed and "1 quarantined" in str(complete.description)
    assert project.follow() == []


@pytest.mark.parametrize("lake", [{"more": "backfill: range"}], indirect=True)
def test_o03_c03_a_range_is_one_run_with_counts_of_its_dates(project: Project) -> None:
    lake = project.lake
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_3, "c.csv", csv(order(3), order(4), order(5)))
    result = project.run(
        **{"dagster/asset_partition_range_start": str(DAY_1), "dagster/asset_partition_range_end": str(DAY_3)}
    )

    assert result.success
    assert project.rows(result) == {str(DAY_1): 2, str(DAY_2): 0, str(DAY_3): 3}
    assert lake.version() == 1
    assert len(result.get_asset_check_evaluations()) == 6
