"""The tables of this project, as INTERFACE names what Dagster shows of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.declaration import load_declarations
from lakehouse.orchestration import build_definitions, build_table_definitions

ASSETS = Path(__file__).parents[2] / "assets"
ORDERS = dg.AssetKey(["analytics", "orders"])
READINGS = dg.AssetKey(["telemetry", "readings"])
CHECKS = {"counts_reconcile", "keys_unique", "gates", "objects_complete", "late_arrivals", "freshness"}


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    from assets.definitions import defs

    return defs()


@pytest.fixture(scope="module")
def built() -> dg.Definitions:
    return build_definitions(load_declarations(ASSETS / "defs", os.environ))


def test_the_code_location_loads_both_tables(definitions: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(definitions)
    assert set(definitions.resolve_all_asset_keys()) == {ORDERS, READINGS}


def test_the_code_location_serves_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.definitions import defs

    shutil.copytree(ASSETS / "defs" / "orders", tmp_path / "elsewhere")
    monkeypatch.setenv("LAKEHOUSE_ASSETS", str(tmp_path))
    assert set(defs().resolve_all_asset_keys()) == {ORDERS}


def test_names_pools_and_partitions(definitions: dg.Definitions) -> None:
    repository = definitions.get_repository_def()
    assert {s.name for s in repository.sensor_defs} == {"analytics__orders_landing", "telemetry__readings_landing"}
    assert {s.name for s in repository.schedule_defs} == {"analytics__orders_daily", "telemetry__readings_daily"}
    asset = definitions.resolve_assets_def(ORDERS)
    assert asset.op.pool == "analytics__orders"
    partitions = asset.partitions_def
    assert isinstance(partitions, dg.DailyPartitionsDefinition)
    assert partitions.get_first_partition_key() == "2026-08-30" and partitions.end_offset == 1
    assert asset.backfill_policy is None, "a range of one day would leave its partitioned checks without a result"


def test_the_page_of_the_asset(definitions: dg.Definitions) -> None:
    node = definitions.resolve_asset_graph().get(ORDERS)
    (declaration, _) = load_declarations(ASSETS / "defs", os.environ)
    assert node.group_name == "sales" and node.kinds == {"iceberg", "s3"}
    assert node.owners == ["data@example.com"] and str(node.description).startswith("Orders as the shop exports them")
    assert node.code_version == declaration.hash
    schema = node.metadata["dagster/column_schema"].value
    assert [(c.name, c.type) for c in schema.columns][:2] == [("order_id", "long"), ("customer_id", "string")]
    assert schema.columns[0].constraints.unique and not schema.columns[0].constraints.nullable
    assert [c.name for c in schema.columns][-1] == "_ingested_at"


def test_checks_can_block_and_run_alone(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if key.asset_key == ORDERS and graph.get(key).blocking}
    assert {key.name for key in graph.asset_check_keys if key.asset_key == ORDERS} == CHECKS
    assert {"counts_reconcile", "keys_unique"} <= blocking
    # a quarantined object does not stop the others: the run succeeds and this check is red
    assert "objects_complete" not in blocking


def test_plain_definitions_know_the_same(definitions: dg.Definitions, built: dg.Definitions) -> None:
    assert set(built.resolve_all_asset_keys()) == set(definitions.resolve_all_asset_keys())
    assert built.resolve_asset_graph().asset_check_keys == definitions.resolve_asset_graph().asset_check_keys


@pytest.mark.parametrize(("value", "running"), [(None, False), ("0", False), ("1", True)])
def test_sensors_and_schedules_run_in_development_alone(value: str | None, running: bool) -> None:
    (declaration, _) = load_declarations(ASSETS / "defs", os.environ)
    table = build_table_definitions(declaration, env={"LAKEHOUSE_DEV": value} if value else {})
    (sensor,) = table.sensors or []
    (schedule,) = table.schedules or []
    assert (sensor.default_status is dg.DefaultSensorStatus.RUNNING) is running
    assert (schedule.default_status is dg.DefaultScheduleStatus.RUNNING) is running
