"""The job and the schedule of a table's upkeep."""

from __future__ import annotations

import dagster as dg
import pytest

from lakehouse.declaration import Declaration
from lakehouse.errors import LeaseHeld, UsageError
from lakehouse.orchestration import build_table_definitions
from tests.orchestration_lake import Lake, daily_table

NAME = "analytics__orders_maintain"


def run(lake: Lake, declaration: Declaration, config: dict[str, object] | None = None) -> dg.ExecuteInProcessResult:
    job = build_table_definitions(declaration, library=lake.library(), env={}).resolve_job_def(NAME)
    return job.execute_in_process(
        run_config={"ops": {f"{NAME}_table": {"config": config or {}}}},
        instance=dg.DagsterInstance.ephemeral(),
        raise_on_error=False,
    )


def test_the_job_does_all_kinds_unless_told_and_shares_the_pool_of_the_loads() -> None:
    lake = Lake()
    done = run(lake, daily_table())
    assert (done.success, lake.kept_up) == (True, [(("compact", "expire", "orphans"), False)])
    (seen,) = done.get_asset_observation_events()
    observed = seen.asset_observation_data.asset_observation
    assert observed.asset_key == dg.AssetKey(["analytics", "orders"])
    assert (observed.metadata["expire_files"].value, observed.metadata["expire_state"].value) == (2, "committed")
    assert run(lake, daily_table(), {"compact": False, "orphans": False, "dry_run": True}).success
    assert lake.kept_up[-1] == (("expire",), True)
    job = build_table_definitions(daily_table(), library=lake.library(), env={}).resolve_job_def(NAME)
    assert [node.definition.pools for node in job.nodes] == [{"analytics__orders"}]


@pytest.mark.parametrize("error", [LeaseHeld("another load holds the lease"), UsageError("gc.enabled=false")])
def test_a_refusal_fails_the_run_and_only_a_passing_one_is_tried_again(
    error: LeaseHeld | UsageError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.orchestration.failure.RETRY_SECONDS", 0)
    lake = Lake(upkeep_error=error)
    done = run(lake, daily_table())
    assert not done.success
    assert len(lake.kept_up) == (4 if isinstance(error, LeaseHeld) else 1)


def test_a_schedule_is_there_where_it_is_declared_and_starts_stopped() -> None:
    lake = Lake()
    assert not list(build_table_definitions(daily_table(), library=lake.library(), env={}).schedules or [])
    declaration = daily_table(maintenance="0 3 * * 0", timezone="Asia/Kolkata")
    assert declaration.hash == daily_table().hash
    for env in ({}, {"LAKEHOUSE_DEV": "1"}):
        (schedule,) = build_table_definitions(declaration, library=lake.library(), env=env).schedules or []
        assert isinstance(schedule, dg.ScheduleDefinition)
        assert (schedule.name, schedule.job_name) == ("analytics__orders_maintenance", NAME)
        assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * 0", "Asia/Kolkata")
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
