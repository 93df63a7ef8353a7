"""Runs the assets as Dagster runs in this process, for the demo, and gives back what each run left on the asset."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg

from lakehouse.declaration import Declaration
from lakehouse.errors import CountsDiffer
from lakehouse.orchestration import CheckOutcome, build_definitions, run_checks


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a partition, from its materialization or, when there was nothing to do, its observation."""

    table: str
    partition: str
    state: str
    bookmark_version: int
    rows: Mapping[str, int]
    files_added: int


class DagsterRuns:
    """A Dagster instance in a folder of its own, and the definitions of some tables."""

    def __init__(self, declarations: Sequence[Declaration], folder: Path) -> None:
        folder.mkdir(parents=True)
        logging.getLogger("dagster").setLevel(logging.CRITICAL)
        self._instance = dg.DagsterInstance.local_temp(str(folder), overrides={"telemetry": {"enabled": False}})
        self._definitions = build_definitions(declarations)

    def load(self, declaration: Declaration, day: date, *, mode: str = "incremental") -> Ran:
        """Run one partition with its blocking checks. Raises CountsDiffer if the run fails."""
        key = dg.AssetKey(declaration.table.split("."))
        job = self._definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self._instance,
            partition_key=day.isoformat(),
            asset_selection=[key],
            run_config={
                "ops": {key.to_python_identifier(): {"config": {"mode": mode}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            raise_on_error=False,
        )
        if not result.success:
            raise CountsDiffer(f"the Dagster run of {declaration.table} {day} failed: {_why(result)}")
        metadata = _left_on_asset(result, key)
        rows = {k.removeprefix("rows_"): int(str(v.value)) for k, v in metadata.items() if k.startswith("rows_")}
        return Ran(
            table=declaration.table,
            partition=day.isoformat(),
            state=str(metadata["lakehouse/state"].value),
            bookmark_version=int(str(metadata["bookmark_version"].value)),
            rows=rows,
            files_added=int(str(metadata["files_added"].value)),
        )

    def checks(self, day: date) -> list[CheckOutcome]:
        """Every asset check of the day."""
        return run_checks(self._definitions, partition=day, instance=self._instance)


def _left_on_asset(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> Mapping[str, dg.MetadataValue]:
    for event in result.all_events:
        if event.asset_key == key and event.event_type_value == "ASSET_MATERIALIZATION":
            return event.step_materialization_data.materialization.metadata
        if event.asset_key == key and event.event_type_value == "ASSET_OBSERVATION":
            return event.asset_observation_data.asset_observation.metadata
    raise CountsDiffer(f"the run left nothing on the asset {key.to_user_string()}")


def _why(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data and data.user_failure_data.description:
                return data.user_failure_data.description
            return data.error.message.strip() if data.error else "no reason given"
    return "no reason given"
