"""Runs asset checks in this process, for CI: what a run of Dagster would evaluate, with an outcome for every check.

A check that raises evaluates nothing and Dagster may still call the run a success, so evaluations are counted against
what was asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import dagster as dg

from lakehouse.errors import UsageError
from lakehouse.orchestration.names import PARTITION

_JOB = "lakehouse_checks"
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The outcomes are the output; Dagster would write fifty lines of its own for each check."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How one check of one asset ended; `asset` is the table's name. A check that raised has failed with severity
    ERROR and says so in its description."""

    asset: str
    check: str
    passed: bool
    severity: str
    blocking: bool
    description: str

    @property
    def fails(self) -> bool:
        """Whether CI must stop: an ERROR that did not pass, blocking or not."""
        return not self.passed and self.severity == dg.AssetCheckSeverity.ERROR.value


def run_checks(
    definitions: dg.Definitions,
    *,
    selection: str | None = None,
    partition: date | None = None,
    instance: dg.DagsterInstance | None = None,
) -> list[CheckOutcome]:
    """Evaluate checks and give one outcome for each, by asset and name.

    `selection` is a table (`analytics.orders`), one check of it (`analytics.orders:keys_unique`) or Dagster's own
    selection syntax (`group:sales`); None is every check. `partition` None looks at whole tables. Without an instance
    nothing is recorded, and `gates` has no load to look at.

    Raises UsageError if nothing is selected or the partition does not exist.
    """
    selected = _select(definitions, selection)
    outcomes: list[CheckOutcome] = []
    for asset, checks in sorted(selected.items()):
        outcomes += _run_asset(definitions, asset, checks, partition=partition, instance=instance)
    return outcomes


def _select(definitions: dg.Definitions, selection: str | None) -> Mapping[dg.AssetKey, Sequence[dg.AssetCheckKey]]:
    graph = definitions.resolve_asset_graph()
    found = sorted(graph.asset_check_keys, key=lambda key: (key.asset_key, key.name))
    if selection is not None:
        table, _, name = selection.partition(":")
        ours = [key for key in found if _table(key.asset_key) == table and name in ("", key.name)]
        found = ours or _by_dagster(definitions, selection, found)
    if not found:
        known = ", ".join(sorted({_table(key.asset_key) for key in graph.asset_check_keys})) or "none"
        raise UsageError(f"no check is selected: selection={selection}; tables with checks are {known}")
    return {asset: [key for key in found if key.asset_key == asset] for asset in {key.asset_key for key in found}}


def _by_dagster(
    definitions: dg.Definitions, selection: str, found: Sequence[dg.AssetCheckKey]
) -> list[dg.AssetCheckKey]:
    try:
        with warnings.catch_warnings():
            # Dagster calls its own parser beta
            warnings.simplefilter("ignore", dg.BetaWarning)
            assets = dg.AssetSelection.from_string(selection).resolve(definitions.resolve_asset_graph())
    except (dg.DagsterError, ValueError) as error:
        raise UsageError(
            f"cannot read the selection {selection!r}: {error}; a table, table:check, or Dagster's syntax such as "
            "group:sales"
        ) from error
    return [key for key in found if key.asset_key in assets]


def _run_asset(
    definitions: dg.Definitions,
    asset: dg.AssetKey,
    checks: Sequence[dg.AssetCheckKey],
    *,
    partition: date | None,
    instance: dg.DagsterInstance | None,
) -> list[CheckOutcome]:
    """One run per asset: they may be partitioned differently, and a job of checks alone has no partitions at all."""
    job = dg.define_asset_job(_JOB, selection=dg.AssetSelection.checks(*checks))
    resolved = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job])).resolve_job_def(_JOB)
    tags = _partition_tags(definitions, asset, partition)
    result = resolved.execute_in_process(instance=instance, tags=tags, run_config=_QUIET, raise_on_error=False)
    evaluations = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    errors = _errors(result, asset)
    graph = definitions.resolve_asset_graph()
    return [_outcome(key, evaluations.get(key.name), blocking=graph.get(key).blocking, errors=errors) for key in checks]


def _partition_tags(definitions: dg.Definitions, asset: dg.AssetKey, partition: date | None) -> dict[str, str]:
    partitions = definitions.resolve_asset_graph().get(asset).partitions_def
    if partition is None or partitions is None:
        return {}
    if not partitions.has_partition_key(partition.isoformat()):
        raise UsageError(f"no such partition: table={_table(asset)} partition={partition}")
    return {PARTITION: partition.isoformat()}


def _outcome(
    key: dg.AssetCheckKey,
    evaluation: dg.AssetCheckEvaluation | None,
    *,
    blocking: bool,
    errors: Mapping[str, str],
) -> CheckOutcome:
    if evaluation is None:
        text = errors.get(key.name) or "; ".join(errors.values()) or "it was not evaluated"
        return CheckOutcome(_table(key.asset_key), key.name, False, "ERROR", blocking, text)
    return CheckOutcome(
        asset=_table(key.asset_key),
        check=key.name,
        passed=evaluation.passed,
        severity=evaluation.severity.value,
        blocking=blocking,
        description=evaluation.description or "",
    )


def _errors(result: dg.ExecuteInProcessResult, asset: dg.AssetKey) -> dict[str, str]:
    """What the failed steps raised, by check: Dagster calls the step of a check `<asset>_<check>`."""
    found: dict[str, str] = {}
    for event in result.all_node_events:
        if not event.is_step_failure or event.node_name is None:
            continue
        failure = event.step_failure_data
        said = failure.user_failure_data.description if failure.user_failure_data else None
        found[event.node_name.removeprefix(asset.to_python_identifier() + "_")] = said or (
            failure.error.message.strip() if failure.error else ""
        )
    return found


def _table(key: dg.AssetKey) -> str:
    return ".".join(key.path)
