"""Runs in Dagster (G38): which failures are tried again, how long a run may go on, and that a table has one writer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lakehouse.errors import Blocked, DeclarationError, GateFailed, LakehouseError, Unavailable
from lakehouse.model import State
from lakehouse.orchestration import build_table_definitions, failure
from lakehouse.orchestration.names import MAX_RETRIES, MAX_RUNTIME, REFUSED
from tests.orchestration_lake import Lake, daily_table, failed

DAY = "2024-01-02"
INSTANCE = yaml.safe_load((Path(__file__).parents[2] / "dagster.yaml").read_text())


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(settings={"run_retries": INSTANCE["run_retries"]}) as made:
        yield made


def run(lake: Lake, instance: dg.DagsterInstance) -> tuple[int, Any]:
    """One run of the asset: how often it asked for a load, and the tags of the run."""
    job = build_table_definitions(daily_table(), library=lake.library(), env={}).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, tags={"dagster/partition": DAY}, raise_on_error=False)
    found = instance.get_run_by_id(result.run_id)
    assert found is not None and not result.success
    return len(lake.requests), found.tags


@pytest.mark.parametrize("error", [GateFailed, Blocked, DeclarationError, LakehouseError])
def test_g38_what_another_try_does_not_change_is_not_tried_again(
    instance: dg.DagsterInstance, error: type[LakehouseError]
) -> None:
    """Neither in the run nor as a new one."""
    lake = Lake(fail=failed(daily_table(), State.BLOCKED, error.exit_code))
    loads, tags = run(lake, instance)
    assert (loads, tags[MAX_RETRIES], tags[REFUSED]) == (1, "0", "true")


def test_g38_what_may_succeed_later_is_tried_again_a_bounded_number_of_times(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure, "RETRY_SECONDS", 0)
    loads, tags = run(Lake(fail=failed(daily_table(), State.CONFLICT, Unavailable.exit_code)), instance)
    assert loads == 1 + failure.MOST_RETRIES == 4
    assert REFUSED not in tags
    # a run whose process died is started again; one that failed by itself has had its tries
    assert INSTANCE["run_retries"] == {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False}


def test_g38_a_run_ends_long_before_its_load_window() -> None:
    """The window of a partition is a day; there, a job runs for hours before it times out."""
    lake = Lake()
    lake.land("2024-01-09")
    for minutes in (60, 5):
        declaration = daily_table(schedule="0 6 * * *", timeout_minutes=minutes)
        definitions = build_table_definitions(declaration, library=lake.library(), env={}).get_repository_def()
        context = dg.build_schedule_context(
            scheduled_execution_time=datetime(2024, 1, 10, 6, tzinfo=UTC), repository_def=definitions
        )
        schedule = definitions.get_schedule_def("analytics__orders_daily")
        (request,) = schedule.evaluate_tick(context).run_requests or []
        assert int(request.tags[MAX_RUNTIME]) == minutes * 60 < 24 * 3600
    assert daily_table().timeout_minutes == 60
    monitoring = INSTANCE["run_monitoring"]
    assert monitoring["enabled"] and monitoring["max_runtime_seconds"] <= 3600


def test_g38_a_table_has_one_writer() -> None:
    tables = [daily_table(), daily_table(table="analytics.items")]
    pools = [
        asset.op.pool
        for table in tables
        for asset in build_table_definitions(table, env={}).resolve_asset_graph().assets_defs
        if not asset.check_keys
    ]
    assert pools == ["analytics__orders", "analytics__items"]
    assert INSTANCE["concurrency"]["pools"] == {"default_limit": 1, "granularity": "op"}
