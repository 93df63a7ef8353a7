"""Random batches against a plain dict: the merge, its counts and its files never disagree with the model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.merge_bench import Bench, Row, declare

START = datetime(2026, 8, 30, tzinfo=UTC)
DAYS = [date(2026, 8, 30), date(2026, 8, 31)]


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Up to five batches over few keys, few order values and few objects, so that everything collides."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        rows = []
        for line in range(draw(st.integers(0, 6))):
            minute = draw(st.sampled_from([None, 0, 1, 2]))
            values = {
                "id": draw(st.integers(1, 4)),
                "n": draw(st.sampled_from([None, 0.0, 1.0, float("nan")])),
                "t": START + timedelta(minutes=minute) if minute is not None else None,
                "day": draw(st.sampled_from(DAYS)),
            }
            rows.append(
                Row(
                    values,
                    line=line,
                    uri=f"s3://landing/orders/{draw(st.sampled_from('ab'))}{number}.csv",
                    mtime=START + timedelta(seconds=draw(st.integers(0, 2))),
                    day=draw(st.sampled_from(DAYS)),
                )
            )
        found.append(rows)
    return found


@dataclass
class Counts:
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    stale: int = 0


def order(row: Row, order_by: Sequence[str]) -> tuple[Any, ...]:
    """DESIGN §4, invariant 4: (order_by…, mtime, uri, line), NULL oldest."""
    values = (row.values[name] for name in order_by)
    return (*((value is not None, value or START) for value in values), row.mtime, row.uri, row.line)


def content(row: Row) -> tuple[str, ...]:
    return tuple(str(row.values[name]) for name in ("n", "t", "day"))


def apply(model: dict[int, Row], batch: list[Row], order_by: Sequence[str]) -> Counts:
    """What the merge must do with a batch."""
    winners: dict[int, Row] = {}
    for row in batch:
        key = row.values["id"]
        if key not in winners or order(row, order_by) > order(winners[key], order_by):
            winners[key] = row
    counts = Counts()
    for key, row in winners.items():
        old = model.get(key)
        if old is None:
            counts.inserted += 1
            model[key] = row
        elif content(old) == content(row):
            counts.unchanged += 1
        elif order(row, order_by) >= order(old, order_by):
            counts.updated += 1
            model[key] = row
        else:
            counts.stale += 1
    return counts


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    batches=batches(),
    partition_by=st.sampled_from(["[]", "[day]", "['day(t)']"]),
    order_by=st.sampled_from([["t"], ["day", "t"], ["t", "day"]]),
)
def test_the_merge_agrees_with_a_dict(batches: list[list[Row]], partition_by: str, order_by: list[str]) -> None:
    columns = "{id: bigint, n: double, t: timestamptz, day: date}"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            declare(columns=columns, partition_by=partition_by, order_by=f"[{', '.join(order_by)}]"), Path(folder)
        )
        model: dict[int, Row] = {}
        for batch in batches:
            expected = apply(model, batch, order_by)
            merged = bench.merge(batch)
            counts = merged.match.counts
            assert (counts.inserted, counts.updated, counts.unchanged, counts.stale) == (
                expected.inserted,
                expected.updated,
                expected.unchanged,
                expected.stale,
            )
            assert merged.written.keys_found == expected.inserted + expected.updated
            assert bool(merged.written.added) == bool(expected.inserted + expected.updated)
            rows = {r["id"]: r for r in bench.rows()}
            assert bench.live() == len(bench.rows()) == len(rows) == len(model)
            for key, row in model.items():
                assert tuple(str(rows[key][name]) for name in ("n", "t", "day")) == content(row)
                assert (rows[key]["_source_file"], rows[key]["_source_line"]) == (row.uri, row.line)
