"""Plans of sources that say when an object may be read (`source.ready`)."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.bookmark import advance
from lakehouse.declaration import Declaration
from lakehouse.model import Bookmark, Decision, LandingObject, Mode, Window
from lakehouse.plan import make_plan
from tests.landing_values import START, declared, landed, manifest_of, outcome, reference_of

DAY = "day=2026-08-30/"


def waiting(ready: dict[str, Any], **source: Any) -> Declaration:
    return declared(source={"files": "**", "ready": ready, **source})


def decided(
    declaration: Declaration,
    *keys: str | LandingObject,
    bookmark: Bookmark | None = None,
    mode: Mode = Mode.INCREMENTAL,
) -> dict[str, tuple[Decision, str]]:
    plan = make_plan(
        declaration=declaration,
        bookmark=bookmark or Bookmark(),
        listing=[landed(key) if isinstance(key, str) else key for key in keys],
        mode=mode,
        window=Window(),
        table_uuid="uuid",
        now=START,
    )
    return {d.object.uri.removeprefix("s3://landing/in/"): (d.decision, d.reason) for d in plan.decisions}


def names(found: dict[str, tuple[Decision, str]], decision: Decision) -> list[str]:
    return [key for key, (what, _) in found.items() if what is decision]


def after(bookmark: Bookmark, *keys: str) -> Bookmark:
    day = START.date().replace(month=8, day=30)
    manifest = manifest_of(bookmark, [outcome(landed(key), day=day) for key in keys])
    return advance(bookmark, manifest, reference_of(manifest))


def test_a_date_waits_for_its_objects() -> None:
    declaration = waiting({"objects": 2}, files="*.csv")
    here = (DAY + "a.csv", DAY + "empty.txt", landed(DAY + "empty.csv", size=0), "day=2026-08-31/b.csv")
    found = decided(declaration, *here)
    assert names(found, Decision.PLANNED) == []
    assert found[DAY + "a.csv"] == (Decision.DEFERRED, "not ready: 2026-08-30 has 1 of 2 objects")
    assert names(decided(declaration, *here, DAY + "b.csv"), Decision.PLANNED) == [DAY + "a.csv", DAY + "b.csv"]


def test_what_was_loaded_and_removed_counts_for_a_late_object() -> None:
    declaration = waiting({"objects": 2})
    loaded = after(Bookmark(), DAY + "a.csv", DAY + "b.csv")
    assert names(decided(declaration, DAY + "late.csv", bookmark=loaded), Decision.PLANNED) == [DAY + "late.csv"]


@pytest.mark.parametrize("marker", ["_SUCCESS", "done.csv"])
def test_a_date_waits_for_the_marker_in_its_folder(marker: str) -> None:
    declaration = waiting({"marker": marker})
    elsewhere = ("day=2026-08-31/" + marker, marker, DAY + "deep/" + marker)
    found = decided(declaration, DAY + "deep/a.csv", *elsewhere)
    assert found[DAY + "deep/a.csv"] == (
        Decision.DEFERRED,
        f"not ready: s3://landing/in/{DAY}{marker} is not there",
    )
    assert {found[key] for key in elsewhere} == {(Decision.IGNORED, "ready marker")}
    ready = decided(declaration, DAY + "deep/a.csv", landed(DAY + marker, size=0))
    assert names(ready, Decision.PLANNED) == [DAY + "deep/a.csv"]


def test_where_hours_fold_into_the_day_each_hour_has_its_marker() -> None:
    declaration = waiting({"marker": "_SUCCESS"}, partition="%Y/%m/%d/%H")
    found = decided(declaration, "2026/08/30/05/a.csv", "2026/08/30/06/a.csv", "2026/08/30/05/_SUCCESS")
    assert names(found, Decision.PLANNED) == ["2026/08/30/05/a.csv"]
    assert names(found, Decision.DEFERRED) == ["2026/08/30/06/a.csv"]


def test_a_date_in_the_file_name_has_no_folder_for_a_marker() -> None:
    declaration = waiting({"marker": "_SUCCESS"}, partition="orders_%Y%m%d")
    (decision, reason) = decided(declaration, "orders_20260830.csv", "_SUCCESS")["orders_20260830.csv"]
    assert decision is Decision.DEFERRED and "the date stands in the file name" in reason


@pytest.mark.parametrize("partition", ["day=%Y-%m-%d", None])
def test_an_object_waits_for_its_control_file(partition: str | None) -> None:
    declaration = waiting({"control": "{stem}.count"}, partition=partition)
    found = decided(declaration, DAY + "a.csv", DAY + "a.count", DAY + "b.csv")
    assert found[DAY + "a.csv"][0] is Decision.PLANNED
    assert found[DAY + "a.count"] == (Decision.IGNORED, "control file")
    assert found[DAY + "b.csv"] == (
        Decision.DEFERRED,
        f"not ready: its control file s3://landing/in/{DAY}b.count is not there",
    )


def test_control_files_of_the_gate_and_of_readiness_are_both_no_data() -> None:
    declaration = declared(
        source={"files": "**", "ready": {"control": "{name}.ok"}}, gates={"control_file": "{stem}.count"}
    )
    found = decided(declaration, DAY + "a.csv", DAY + "a.count", DAY + "a.csv.ok")
    assert names(found, Decision.PLANNED) == [DAY + "a.csv"]
    assert names(found, Decision.IGNORED) == [DAY + "a.count", DAY + "a.csv.ok"]


def test_what_is_consumed_waits_for_nothing_and_a_full_load_waits_too() -> None:
    declaration = waiting({"marker": "_SUCCESS"})
    loaded = after(Bookmark(), DAY + "a.csv")
    assert names(decided(declaration, DAY + "a.csv", bookmark=loaded), Decision.CONSUMED) == [DAY + "a.csv"]
    full = decided(declaration, DAY + "a.csv", bookmark=loaded, mode=Mode.FULL)
    assert names(full, Decision.DEFERRED) == [DAY + "a.csv"]


def test_a_date_that_is_replaced_waits_for_all_of_its_objects() -> None:
    declaration = declared(write="replace_partition", source={"ready": {"control": "{stem}.count"}})
    found = decided(declaration, DAY + "a.csv", DAY + "a.count", DAY + "b.csv")
    assert names(found, Decision.DEFERRED) == [DAY + "a.csv", DAY + "b.csv"]
