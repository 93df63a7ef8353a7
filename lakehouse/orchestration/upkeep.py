"""The upkeep of a table as a job of its own: compaction, expiry and orphans, and the schedule that may ask for it.

It changes no row, so it is no asset: nothing downstream is triggered. It shares the pool of the table's loads, so that
Dagster never starts both at once.

No `from __future__ import annotations` here: Dagster reads the annotations of the bodies.
"""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from lakehouse import naming
from lakehouse.errors import LakehouseError
from lakehouse.orchestration.asset import namespace_name
from lakehouse.orchestration.failure import fail_with
from lakehouse.orchestration.library import Library
from lakehouse.orchestration.names import SCHEDULE, asset_key, run_tags
from lakehouse.orchestration.progress import ProgressLog

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.maintain import Upkept


class UpkeepConfig(dg.Config):
    """What a run can ask for in its launchpad."""

    compact: bool = Field(default=True, description="merge small files and apply deletes")
    expire: bool = Field(default=True, description="drop old snapshots with the files that only they need")
    orphans: bool = Field(default=True, description="remove the files that nothing refers to")
    dry_run: bool = Field(default=False, description="tell what would be done, and change nothing")

    def kinds(self) -> list[str]:
        return [kind for kind in ("compact", "expire", "orphans") if getattr(self, kind)]


def build_upkeep(declaration: "Declaration", library: Library) -> dg.JobDefinition:
    """The job `<namespace>__<table>_maintain`; what was done stands on the page of the asset, as an observation."""
    name = naming.upkeep_job(namespace_name(declaration), declaration.name)

    @dg.op(name=f"{name}_table", pool=naming.pool(namespace_name(declaration), declaration.name))
    def maintain(context: dg.OpExecutionContext, config: UpkeepConfig) -> None:
        try:
            services = library.open(declaration, ProgressLog(context.log.info, time.monotonic))
            done = library.maintain(declaration, services, config.kinds(), context.run.run_id, config.dry_run)
        except LakehouseError as error:
            fail_with(context, error)
        metadata = {f"{kind}_{name}": value for kind, found in done.items() for name, value in _told(found).items()}
        context.log.info("\n".join(f"{name}: {value}" for name, value in metadata.items()))
        context.log_event(dg.AssetObservation(asset_key=asset_key(declaration), metadata=metadata))

    @dg.job(name=name, description=f"Upkeep of {declaration.table}: compact, expire, orphans")
    def job() -> None:
        maintain()

    return job


def _told(found: "Upkept") -> dict[str, int | str | bool]:
    """What was done, with numbers in place of lists of files; ids of snapshots are too long for a number there."""
    told: dict[str, int | str | bool] = {}
    for name, value in asdict(found).items():
        if isinstance(value, tuple):
            told[name] = len(value)
        elif isinstance(value, int) and name != "snapshot_id":
            told[name] = value
        elif value not in (None, ""):
            told[name] = str(value)
    return told


def build_upkeep_schedule(
    declaration: "Declaration", job: dg.JobDefinition, *, status: dg.DefaultScheduleStatus
) -> dg.ScheduleDefinition | None:
    """The schedule `<namespace>__<table>_maintenance`; None if the declaration has no `maintenance`."""
    if declaration.maintenance is None:
        return None
    return dg.ScheduleDefinition(
        name=naming.upkeep_schedule(namespace_name(declaration), declaration.name),
        job=job,
        cron_schedule=declaration.maintenance,
        execution_timezone=declaration.timezone,
        tags=run_tags(declaration, trigger=SCHEDULE),
        default_status=status,
        description="Merges small files, drops old snapshots and removes what nothing refers to",
    )
