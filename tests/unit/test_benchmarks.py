"""The benchmark's own yardstick: its expected results against a plain dict model, its checker against wrong tables."""

from __future__ import annotations

import csv
import json
from decimal import Decimal, InvalidOperation
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.checker import compare_rows
from benchmarks.generate import generate
from benchmarks.peer_pyiceberg import make_target, read_source
from benchmarks.report import OURS, PEER, Result, bar_chart
from benchmarks.scenario import Run
from benchmarks.workload import COLUMNS, NEW_DAY, WORKLOADS, Dataset, Workload, first_days

ROWS = 30_000


@pytest.fixture(scope="module", params=WORKLOADS)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return generate(tmp_path_factory.mktemp(request.param), Workload(request.param, ROWS))


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _is_amount(text: str) -> bool:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return text.isascii() and abs(value) < 10**10 and value == value.quantize(Decimal("0.01"))


def _merge(dataset: Dataset) -> tuple[dict[str, dict[str, str]], set[int], dict[str, int]]:
    """What a load must do, row by row: the rows by key, the refused lines, the counts."""
    target = {row["order_id"]: row for day in first_days() for row in _read(dataset.landed(day))}
    refused: set[int] = set()
    newest: dict[str, dict[str, str]] = {}
    counts = dict.fromkeys(("read", "rejected", "staged", "superseded", "stale", "inserted", "updated", "unchanged"), 0)
    for line, row in enumerate(_read(dataset.landed(NEW_DAY)), start=2):
        counts["read"] += 1
        if not row["order_id"] or not _is_amount(row["amount"]):
            refused.add(line)
            continue
        counts["staged"] += 1
        old = newest.get(row["order_id"])
        counts["superseded"] += old is not None
        if old is None or row["order_time"] >= old["order_time"]:
            newest[row["order_id"]] = row
    counts["rejected"] = len(refused)
    for key, row in newest.items():
        old = target.get(key)
        if old is None:
            fate = "inserted"
        elif old == row:
            fate = "unchanged"
        else:
            fate = "stale" if row["order_time"] < old["order_time"] else "updated"
        counts[fate] += 1
        if fate in ("inserted", "updated"):
            target[key] = row
    return target, refused, counts


def test_expected_results_are_those_of_a_plain_model(dataset: Dataset) -> None:
    rows, refused, counts = _merge(dataset)
    stated = json.loads(dataset.counts.read_text())
    assert {k: v for k, v in stated["batch"].items() if k in counts} == counts
    assert all(counts[k] > 0 for k in ("rejected", "superseded", "stale", "unchanged", "updated"))
    assert stated["expected"] == {"rows": len(rows), "sum": str(sum(Decimal(r["amount"]) for r in rows.values()))}
    assert set(pq.read_table(dataset.rejects)["line_number"].to_pylist()) == refused
    expected = pq.read_table(dataset.expected, columns=["order_id", "amount", "status"]).to_pylist()
    assert {(str(r["order_id"]), str(r["amount"]), r["status"]) for r in expected} == {
        (r["order_id"], r["amount"], r["status"]) for r in rows.values()
    }


def test_rejects_hold_the_text_of_their_lines(dataset: Dataset) -> None:
    lines = dataset.landed(NEW_DAY).read_text().split("\n")
    for reject in pq.read_table(dataset.rejects).to_pylist():
        assert lines[reject["line_number"] - 1] == reject["raw"]


def test_the_peer_gets_the_good_rows_once(dataset: Dataset) -> None:
    counts = json.loads(dataset.counts.read_text())["batch"]
    keys = read_source(dataset.landed(NEW_DAY))["order_id"].to_pylist()
    assert len(keys) == len(set(keys)) == counts["staged"] - counts["superseded"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Table]:
    folder = tmp_path_factory.mktemp("filled")
    dataset = generate(folder, Workload("daily", 3_000))
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    make_target(catalog, "bench.t", dataset)
    return dataset, catalog.load_table("bench.t")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("select *", []),
        ("select * replace (order_id + 10000 * (order_id = 7)::int as order_id)", ["missing", "not expected"]),
        ("select * replace (amount + (order_id = 7)::int as amount)", ["different", "sum(amount)"]),
        ("select * replace (case when order_id = 7 then null else note end as note)", ["different"]),
        ("select * replace (case when order_id = 7 then 8 else order_id end as order_id)", ["not expected"]),
        ("select * limit 2999", ["not expected", "count(*)"]),
        ("select * union all select -1, * exclude (order_id) from extra", ["missing", "count(*)"]),
    ],
)
def test_the_checker_finds_one_wrong_row(filled: tuple[Dataset, Table], change: str, found: list[str]) -> None:
    dataset, table = filled
    rows = f"(select {', '.join(COLUMNS)} from '{dataset.target}')"
    differences = _compare(table, f"with t as {rows}, extra as (from t limit 1) from t {change}")
    assert [word for word in found if word not in " ".join(differences)] == []
    assert bool(differences) == bool(found)


def test_the_checker_finds_a_doubled_row(filled: tuple[Dataset, Table]) -> None:
    dataset, table = filled
    table.append(table.scan(limit=1).to_arrow())
    differences = _compare(table, f"select {', '.join(COLUMNS)} from '{dataset.target}'")
    assert any("count(*)" in difference for difference in differences)


def _compare(table: Table, expected: str) -> list[str]:
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    con.execute(f"create view expected as {expected}")
    return compare_rows(con, table, tuple(COLUMNS))


@pytest.mark.parametrize(
    ("rows", "seconds", "misses"),
    [(2_000_000, 20.1, False), (2_000_000, 19.9, True), (10_000_000, 49.9, True), (200_000, 2.0, False)],
)
def test_a_missed_ratio_is_told(rows: int, seconds: float, misses: bool) -> None:
    def run(took: float) -> Run:
        return Run(seconds=took, cpu_seconds=took, process_seconds=took, rss_bytes=1, details={}, checked={})

    runs = {OURS: [run(9.0), run(1.0), run(0.5)], PEER: [run(seconds)]}
    result = Result(Workload("daily", rows), {"batch": {"read": 1}}, runs)
    assert bool(result.misses) == misses
    assert f"({seconds:.1f}×)" in bar_chart(result)
