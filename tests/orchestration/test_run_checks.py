from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import dagster as dg
import pytest

from lakehouse.errors import DataError, Unavailable, UsageError
from lakehouse.orchestration import build_definitions, build_table_definitions, failure, run_checks
from tests.orchestration_lake import Lake, daily_table

DAY = date(2024, 1, 2)
NAMES = ["counts_reconcile", "freshness", "gates", "keys_unique", "late_arrivals", "objects_complete"]


@pytest.fixture
def lake() -> Lake:
    lake = Lake()
    lake.land("2024-01-02")
    lake.load()
    return lake


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def definitions(lake: Lake) -> dg.Definitions:
    tables = [daily_table(), daily_table(table="telemetry.readings", group="devices")]
    return build_definitions(tables, library=lake.library())


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (None, 12),
        ("analytics.orders", 6),
        ("analytics.orders:gates", 1),
        ("group:devices", 6),
        ('key:"telemetry/readings"', 6),
    ],
)
def test_a_selection_is_a_table_a_check_or_dagsters_own(lake: Lake, selection: str | None, count: int) -> None:
    outcomes = run_checks(definitions(lake), selection=selection, partition=DAY)
    assert len(outcomes) == count
    assert all(outcome.passed and not outcome.fails for outcome in outcomes)


def test_every_check_has_an_outcome_of_its_partition(lake: Lake, instance: dg.DagsterInstance) -> None:
    outcomes = run_checks(definitions(lake), selection="analytics.orders", partition=DAY, instance=instance)

    assert [outcome.check for outcome in outcomes] == NAMES
    assert set(lake.recounts) == {(None, DAY)}
    key = dg.AssetCheckKey(dg.AssetKey(["analytics", "orders"]), "keys_unique")
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=5)
    assert record.partition == "2024-01-02"


def test_without_a_partition_whole_tables_are_checked(lake: Lake) -> None:
    assert all(outcome.passed for outcome in run_checks(definitions(lake), selection="analytics.orders"))
    assert set(lake.recounts) == {(None, None)}


def test_a_difference_fails_with_both_sides(lake: Lake) -> None:
    lake.missing_rows = 2
    outcomes = {o.check: o for o in run_checks(definitions(lake), selection="analytics.orders", partition=DAY)}

    assert outcomes["counts_reconcile"].fails and "3 ≠ 5" in outcomes["counts_reconcile"].description
    assert outcomes["counts_reconcile"].blocking and outcomes["counts_reconcile"].severity == "ERROR"
    assert outcomes["keys_unique"].passed


def test_a_check_that_raises_is_a_failure_and_says_what(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "MOST_RETRIES", 0)
    lake.broken = Unavailable("catalog=default does not answer")
    outcomes = {o.check: o for o in run_checks(definitions(lake), selection="analytics.orders", partition=DAY)}

    assert list(outcomes) == NAMES
    failing = ("counts_reconcile", "keys_unique", "objects_complete", "late_arrivals")
    assert all("catalog=default does not answer" in outcomes[name].description for name in failing)
    assert all(outcomes[name].fails for name in failing)
    assert outcomes["gates"].passed and outcomes["freshness"].passed


def test_an_error_of_the_data_is_a_failed_check(lake: Lake) -> None:
    lake.broken = DataError("a published state object is missing: uri=s3://state/x")
    (outcome,) = run_checks(definitions(lake), selection="analytics.orders:counts_reconcile", partition=DAY)
    assert outcome.fails and "a published state object is missing" in outcome.description


@pytest.mark.parametrize("selection", ["analytics.nothing", "group:nothing", "((", "analytics.orders:nothing"])
def test_a_selection_of_nothing_is_refused(lake: Lake, selection: str) -> None:
    with pytest.raises(UsageError, match="selection"):
        run_checks(definitions(lake), selection=selection)


def test_a_partition_that_does_not_exist_is_refused(lake: Lake) -> None:
    with pytest.raises(UsageError, match="no such partition"):
        run_checks(definitions(lake), selection="analytics.orders", partition=date(2023, 12, 31))


def test_an_undated_table_is_checked_as_a_whole(lake: Lake) -> None:
    undated = daily_table(
        source={"uri": "s3://landing/in/", "partition": None, "files": "**.csv", "format": {"type": "csv"}}
    )
    outcomes = run_checks(build_table_definitions(undated, library=lake.library(), env={}), partition=DAY)
    assert all(outcome.passed for outcome in outcomes if outcome.check != "objects_complete")
    assert set(lake.recounts) == {(None, None)}
