"""The asset of a table: unwraps a run into a request, loads, and turns the receipt into a materialization.

When is a partition materialized? When a load committed something; when a load of a complete listing had nothing to do
although Dagster knows no materialization of the partition and no object waits: a day without files turns green, and a
day that was loaded by the command line is caught up with; and in every run of a backfill, which Dagster calls failed if
one of its partitions yields nothing. Any other load with nothing to do yields no output, so that nothing downstream is
triggered; it is recorded as an observation, and a partition that was green stays green. Dagster then skips the check
steps of that run, which would leave the checks of the partition without a result (field case C08), so the body reports
their evaluations itself.

No `from __future__ import annotations` here: Dagster reads the annotations of the body.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import dagster as dg
from pydantic import Field

from lakehouse import naming
from lakehouse.errors import LakehouseError
from lakehouse.model import GLUE_MODES, Mode, Receipt, State
from lakehouse.orchestration.failure import fail_load, fail_with, has_failed, telling_interruptions
from lakehouse.orchestration.history import last_materialization
from lakehouse.orchestration.library import Library
from lakehouse.orchestration.metadata import (
    added_metadata,
    date_metadata,
    definition_metadata,
    load_metadata,
    position_metadata,
    read_bookmark_version,
    receipt_text,
)
from lakehouse.orchestration.names import BACKFILL, SCHEDULE, TRIGGER, asset_key
from lakehouse.orchestration.partitions import daily_partitions, partition_keys, window_of
from lakehouse.orchestration.progress import ProgressLog

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.ingest import LoadRequest
    from lakehouse.services import Services

ReportChecks = Callable[[dg.AssetExecutionContext], None]
"""Evaluates the checks of a run whose check steps are skipped."""


class LoadConfig(dg.Config):
    """What a run can ask for in its launchpad."""

    mode: Literal[
        "incremental", "full", "no-advance", "job-bookmark-enable", "job-bookmark-disable", "job-bookmark-pause"
    ] = Field(
        default="incremental",
        description="incremental reads what is unseen, full reads everything again, no-advance reads what is unseen "
        "and leaves the bookmark where it is; Glue's own words mean the same",
    )
    from_batch: str | None = Field(
        default=None,
        description="with no-advance: leave out what this batch (id or bookmark version) and all before it read",
    )
    to_batch: str | None = Field(
        default=None, description="with from_batch: read again what later batches up to and including this one read"
    )
    accept_new: bool = Field(
        default=False,
        description="read a source from the beginning although its bookmark is new to the table or was elsewhere",
    )


def build_asset(declaration: "Declaration", library: Library, report_checks: ReportChecks) -> dg.AssetsDefinition:
    """The asset; its runs share a pool of one, so that a table has one writer."""
    partitions = daily_partitions(declaration)

    @dg.asset(
        key=asset_key(declaration),
        description=declaration.description or None,
        metadata=definition_metadata(declaration),
        partitions_def=partitions,
        backfill_policy=_backfill_policy(declaration) if partitions else None,
        group_name=declaration.group,
        kinds={"iceberg", "s3"},
        owners=list(declaration.owners),
        tags=dict(declaration.tags),
        code_version=declaration.hash,
        pool=naming.pool(namespace_name(declaration), declaration.name),
        output_required=False,
    )
    def load(context: dg.AssetExecutionContext, config: LoadConfig) -> Iterator[dg.MaterializeResult[None]]:
        keys = partition_keys(context)
        services = _open(context, declaration, library)
        diagnose = partial(library.diagnose, declaration, services)
        with telling_interruptions(context, diagnose=diagnose):
            receipt = _ingest(context, declaration, library, services, config=config, keys=keys)
        context.log.info(receipt_text(receipt))
        _warn_if_dagster_is_ahead(context, receipt)
        if has_failed(receipt):
            _observe(context, receipt, keys)
            fail_load(context, receipt, diagnose=diagnose)
        if receipt.state is State.COMMITTED or (
            receipt.state is State.NOTHING_TO_DO and _is_awaited(context, receipt, keys)
        ):
            yield _materialize(context, declaration, receipt, keys)
        else:
            context.log.info(f"{declaration.table}: nothing to do, nothing downstream is triggered")
            _observe(context, receipt, keys)
            report_checks(context)

    return load


def namespace_name(declaration: "Declaration") -> str:
    """The namespace as one name: Dagster's names have no dots."""
    return declaration.namespace.replace(".", "__")


def load_request(config: LoadConfig, *, keys: Sequence[str], run_id: str, scheduled: bool) -> "LoadRequest":
    """What the run asks of `ingest`."""
    from lakehouse.ingest import LoadRequest

    return LoadRequest(
        mode=GLUE_MODES.get(config.mode) or Mode(config.mode),
        window=window_of(keys),
        from_batch=config.from_batch or None,
        to_batch=config.to_batch or None,
        run_id=run_id,
        scheduled=scheduled,
        accept_new=config.accept_new,
    )


def _backfill_policy(declaration: "Declaration") -> dg.BackfillPolicy | None:
    """None is one run per partition, too, but with a partition: `multi_run(1)` gives it a range of one day, under which
    Dagster leaves the partitioned checks of that day "skipped"."""
    return dg.BackfillPolicy.single_run() if declaration.backfill == "range" else None


def _open(context: dg.AssetExecutionContext, declaration: "Declaration", library: Library) -> "Services":
    try:
        return library.open(declaration, ProgressLog(context.log.info, time.monotonic))
    except LakehouseError as error:
        fail_with(context, error)


def _ingest(
    context: dg.AssetExecutionContext,
    declaration: "Declaration",
    library: Library,
    services: "Services",
    *,
    config: LoadConfig,
    keys: Sequence[str],
) -> Receipt:
    scheduled = context.run.tags.get(TRIGGER) == SCHEDULE
    try:
        request = load_request(config, keys=keys, run_id=context.run.run_id, scheduled=scheduled)
    except LakehouseError as error:
        fail_with(context, error)
    return library.ingest(declaration, request, services)


def _materialize(
    context: dg.AssetExecutionContext, declaration: "Declaration", receipt: Receipt, keys: Sequence[str]
) -> dg.MaterializeResult[None]:
    """A range gets the load's position on every partition, and counts on the partition that they belong to (C03)."""
    version = dg.DataVersion(str(receipt.snapshot_id)) if receipt.snapshot_id is not None else None
    columns = added_metadata(declaration, receipt)
    if len(keys) <= 1:
        return dg.MaterializeResult(metadata={**load_metadata(receipt), **columns}, data_version=version)
    for key in keys:
        context.add_asset_metadata(date_metadata(receipt, key), partition_key=key)
    return dg.MaterializeResult(metadata={**position_metadata(receipt), **columns}, data_version=version)


def _observe(context: dg.AssetExecutionContext, receipt: Receipt, keys: Sequence[str]) -> None:
    """Leave the receipt on the asset's page without materializing anything."""
    whole = len(keys) <= 1
    metadata = load_metadata(receipt) if whole else position_metadata(receipt)
    for key in keys or (None,):
        own = metadata if key is None or whole else {**metadata, **date_metadata(receipt, key)}
        context.log_event(dg.AssetObservation(asset_key=context.asset_key, partition=key, metadata=own))


def _is_awaited(context: dg.AssetExecutionContext, receipt: Receipt, keys: Sequence[str]) -> bool:
    """Whether Dagster waits for a materialization although there was nothing to load.

    Not of a date whose objects are there and not ready: it would turn green, and set off what is downstream.
    """
    if BACKFILL in context.run.tags:
        return True
    if receipt.objects["deferred"]:
        return False
    return any(last_materialization(context.instance, context.asset_key, key) is None for key in keys or (None,))


def _warn_if_dagster_is_ahead(context: dg.AssetExecutionContext, receipt: Receipt) -> None:
    """Dagster's copy and the table can differ, after a rollback for example: the table wins, the difference is told."""
    known = last_materialization(context.instance, context.asset_key, None)
    version = read_bookmark_version(known.metadata) if known else 0
    if not receipt.error and receipt.bookmark_version is not None and version > receipt.bookmark_version:
        context.log.warning(
            f"Dagster remembers bookmark_version={version}, the table stands at {receipt.bookmark_version}: "
            f"the table was set back or replaced, and the table is what counts"
        )
