"""Tags, metadata keys and asset keys that the orchestration writes and reads again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

TRIGGER = "lakehouse/trigger"
"""Run tag: what asked for the run, `schedule` or `sensor`."""
SCHEDULE = "schedule"
SENSOR = "sensor"
STATE = "lakehouse/state"
"""Run tag and metadata: how the load ended."""
REFUSED = "lakehouse/refused"
"""Run tag: the load failed for a reason that another try does not change."""

MAX_RUNTIME = "dagster/max_runtime"
MAX_RETRIES = "dagster/max_retries"
PARTITION = "dagster/partition"
RUN_KEY = "dagster/run_key"
BACKFILL = "dagster/backfill"


def asset_key(declaration: Declaration) -> dg.AssetKey:
    """Namespace and table, level by level."""
    return dg.AssetKey(declaration.table.split("."))


def run_tags(declaration: Declaration, *, trigger: str) -> dict[str, str]:
    """Tags of a run that a sensor or a schedule asks for."""
    return {MAX_RUNTIME: str(declaration.timeout_minutes * 60), TRIGGER: trigger}
