from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse.declaration import Declaration
from lakehouse.model import Hold
from lakehouse.orchestration import build_table_definitions
from tests.orchestration_lake import Lake, daily_table

NAME = "analytics__orders_daily"


def tick(lake: Lake, declaration: Declaration, at: datetime) -> list[dg.RunRequest]:
    definitions = build_table_definitions(declaration, library=lake.library(), env={})
    schedule = definitions.get_repository_def().get_schedule_def(NAME)
    context = dg.build_schedule_context(
        scheduled_execution_time=at,
        repository_def=definitions.get_repository_def(),
        instance=dg.DagsterInstance.ephemeral(),
    )
    return list(schedule.evaluate_tick(context).run_requests or [])


def test_every_unseen_date_of_the_window_is_asked_for() -> None:
    lake = Lake()
    declaration = daily_table(schedule="0 6 * * *")
    for day in ("2024-01-06", "2024-01-07", "2024-01-09", "2024-01-10", "2024-01-11"):
        lake.land(day)
    at = datetime(2024, 1, 10, 6, tzinfo=UTC)
    requests = tick(lake, declaration, at)

    assert [r.partition_key for r in requests] == ["2024-01-07", "2024-01-09", "2024-01-10"]
    assert {r.tags["lakehouse/trigger"] for r in requests} == {"schedule"}
    assert {r.tags["dagster/max_runtime"] for r in requests} == {"3600"}
    assert len({r.run_key for r in requests}) == 3
    lake.load()
    assert tick(lake, declaration, at) == []


@pytest.mark.parametrize(
    ("zone", "expected"), [("UTC", ["2024-01-10"]), ("Asia/Kolkata", ["2024-01-11"]), ("Asia/Shanghai", ["2024-01-11"])]
)
def test_o13_today_is_the_day_of_the_declared_zone(zone: str, expected: list[str]) -> None:
    lake = Lake()
    declaration = daily_table(
        schedule="0 6 * * *",
        timezone=zone,
        source={
            "uri": "s3://landing/in/",
            "partition": "day=%Y-%m-%d",
            "files": "*.csv",
            "format": {"type": "csv"},
            "lookback_days": 0,
        },
    )
    lake.land("2024-01-10")
    lake.land("2024-01-11")
    requests = tick(lake, declaration, datetime(2024, 1, 10, 20, tzinfo=UTC))
    definitions = build_table_definitions(declaration, env={})

    assert [r.partition_key for r in requests] == expected
    assert definitions.get_repository_def().get_schedule_def(NAME).execution_timezone == zone


def test_a_held_table_is_not_asked_for() -> None:
    lake = Lake()
    lake.land("2024-01-10")
    lake.bookmark = replace(lake.bookmark, held=Hold("anna", "mending", datetime(2024, 1, 3, tzinfo=UTC)))
    assert tick(lake, daily_table(schedule="0 6 * * *"), datetime(2024, 1, 10, 6, tzinfo=UTC)) == []


def test_without_a_schedule_there_is_none() -> None:
    assert build_table_definitions(daily_table(), env={}).schedules == []
