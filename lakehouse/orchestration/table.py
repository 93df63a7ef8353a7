"""Everything that Dagster knows of a table, from its declaration. Opens nothing: bodies do, when they run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.orchestration.asset import build_asset
from lakehouse.orchestration.checks import build_checks, report_skipped_checks
from lakehouse.orchestration.library import Library, installed_library
from lakehouse.orchestration.schedule import build_schedule
from lakehouse.orchestration.sensor import build_sensor
from lakehouse.orchestration.upkeep import build_upkeep, build_upkeep_schedule

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

DEV = "LAKEHOUSE_DEV"
"""Set to 1 by `make dev`: sensors and schedules start running. Otherwise somebody has to start them."""


def build_table_definitions(
    declaration: Declaration, *, library: Library | None = None, env: Mapping[str, str] | None = None
) -> dg.Definitions:
    """Asset, checks, sensor, upkeep and, where they are declared, schedules of a table."""
    library = library or installed_library()
    running = (os.environ if env is None else env).get(DEV) == "1"
    status = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED
    upkeep = build_upkeep(declaration, library)
    schedules = [
        build_schedule(declaration, library, status=status),
        build_upkeep_schedule(declaration, upkeep, status=dg.DefaultScheduleStatus.STOPPED),
    ]
    sensor = build_sensor(
        declaration, library, status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
    )
    with warnings.catch_warnings():
        # pinned and tested: backfill policies are called beta, partitioned checks a preview
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        asset = build_asset(declaration, library, report_skipped_checks(declaration, library))
        checks = build_checks(declaration, library)
    return dg.Definitions(
        assets=[asset],
        asset_checks=checks,
        sensors=[sensor],
        jobs=[upkeep],
        schedules=[schedule for schedule in schedules if schedule is not None],
    )


def build_definitions(declarations: Sequence[Declaration], *, library: Library | None = None) -> dg.Definitions:
    """The tables together; a load is one step, so its run needs no process of its own (2 s instead of 10)."""
    tables = [build_table_definitions(declaration, library=library) for declaration in declarations]
    return dg.Definitions.merge(*tables, dg.Definitions(executor=dg.in_process_executor))
