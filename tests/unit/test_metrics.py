"""What Prometheus reads of statuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from prometheus_client.samples import Sample

from lakehouse.audit.measures import Measures
from lakehouse.audit.status import TableStatus
from lakehouse.cli.metrics import gauges

MEASURES = Measures(5, 1, 2, 0.25, None, 90.0, None)
STATUS = TableStatus(
    table="analytics.orders",
    context="orders",
    state="committed",
    bookmark_version=7,
    snapshot_id=4711,
    last_batch="b7",
    last_batch_at=datetime(2026, 9, 1, tzinfo=UTC),
    rows=12,
    ledger="behind: 6 of 7",
    detail="",
    next="",
    measures=MEASURES,
)


def samples(*found: TableStatus) -> list[Sample]:
    return [sample for family in gauges(found) for sample in family.samples]


def test_numbers_are_gauges_of_a_table_and_a_source() -> None:
    told = {s.name: s.value for s in samples(STATUS)}
    assert told == {
        "lakehouse_up": 1,
        "lakehouse_bookmark_version": 7,
        "lakehouse_rows": 12,
        "lakehouse_ledger_ok": 0,
        "lakehouse_last_batch_timestamp_seconds": datetime(2026, 9, 1, tzinfo=UTC).timestamp(),
        "lakehouse_loads": 5,
        "lakehouse_recoveries": 1,
        "lakehouse_late_arrivals": 2,
        "lakehouse_merge_share": 0.25,
        "lakehouse_seconds_to_confirmed": 90,
        "lakehouse_state": 1,
    }
    assert {tuple(s.labels.items()) for s in samples(STATUS)} == {
        (("table", "analytics.orders"), ("source", "orders")),
        (("table", "analytics.orders"), ("source", "orders"), ("state", "committed")),
    }


def test_a_table_that_cannot_be_looked_at_is_not_up_and_hides_no_other() -> None:
    lost = replace(STATUS, context="other", state="error", measures=None)
    told = [(s.name, s.value) for s in samples(STATUS, lost) if s.labels["source"] == "other"]
    assert told == [("lakehouse_up", 0), ("lakehouse_state", 1)]
    detached = replace(lost, state="detached")
    assert [s.value for s in samples(detached) if s.name == "lakehouse_up"] == [1]
