"""What a Dagster instance remembers of a table: a copy for people. Reads it; no decision about data rests on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True)
class Remembered:
    """One materialization or observation. `order` is higher for later ones; `run_id` made it."""

    metadata: Mapping[str, dg.MetadataValue]
    run_id: str
    order: int


def last_materialization(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> Remembered | None:
    """The newest materialization of the partition; of the whole asset if `partition` is None."""
    found = instance.fetch_materializations(_filter(key, partition), limit=1).records
    if not found or found[0].asset_materialization is None:
        return None
    return Remembered(found[0].asset_materialization.metadata, found[0].run_id, found[0].storage_id)


def last_load(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> Remembered | None:
    """The newest load, whether it materialized or was only observed: it failed, or there was nothing to do."""
    made = last_materialization(instance, key, partition)
    seen = instance.fetch_observations(_filter(key, partition), limit=1).records
    if not seen or seen[0].asset_observation is None or (made and made.order > seen[0].storage_id):
        return made
    return Remembered(seen[0].asset_observation.metadata, seen[0].run_id, seen[0].storage_id)


def _filter(key: dg.AssetKey, partition: str | None) -> dg.AssetRecordsFilter:
    return dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
