"""The queries of the runbook (docs/operations.md) run as they are written: in our DuckDB, in DuckDB's iceberg extension
and in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.ledger import LEDGERS
from tests.lake import DAY_1, DAY_2, Lake, csv, dated, order
from tests.readers.environment import Missing
from tests.readers.reader import DuckDBReader, SparkReader

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
NAMES = ("Batch state", "Staged rows", "Target rows", "Duplicate keys", "Source objects", "Late files")


def queries() -> dict[str, str]:
    """The queries of the page's section, by the name in bold before each."""
    section = PAGE.read_text().partition("## Runbook")[2].partition("\n## ")[0]
    found = re.findall(r"\*\*([A-Z][a-z]+ [a-z]+)\*\*.*?```sql\n(.*?)```", section, re.DOTALL)
    return dict(found)


def test_the_page_has_the_six_queries() -> None:
    assert tuple(queries()) == NAMES


def fill(lake: Lake, patch: pytest.MonkeyPatch) -> None:
    """Two batches; one record does not fit, one object comes a week late, another engine doubles a key."""
    at = datetime(2026, 8, 31, 4, tzinfo=UTC)
    dated(patch, {"a.csv": at, "b.csv": at, "late.csv": datetime(2026, 9, 7, 4, tzinfo=UTC)})
    lake.put(DAY_1, "a.csv", csv(order(1), order(2), order(3, "no number")))
    assert lake.load().exit_code == 0
    lake.put(DAY_2, "b.csv", csv(order(2, "2.50", 5), order(3)))
    lake.put(DAY_1, "late.csv", csv(order(4)))
    assert lake.load().exit_code == 0
    table = lake.stack.catalog().load_table(lake.table)
    table.append(table.scan("order_id = 1").to_arrow())


def check(answers: dict[str, Sequence[Sequence[Any]]]) -> None:
    """What the queries say of `fill`; numbers and texts are the same in every reader."""
    assert [row[1] for row in answers["Batch state"]] == [2, 1]
    assert [row[-2:] for row in map(list, answers["Batch state"])] == [[3, 0], [3, 1]]
    assert [list(row[1:2]) + list(row[3:]) for row in answers["Staged rows"]] == [[2, 3, 3, 0], [1, 2, 2, 0]]
    assert [list(map(int, row)) for row in answers["Target rows"]] == [[5, 4, 1]]
    assert [list(row) for row in answers["Duplicate keys"]] == [[1, 2]]
    assert [row[1].rpartition("/")[2] for row in answers["Source objects"]] == ["a.csv", "late.csv"]
    assert [list(row[6:9]) for row in answers["Source objects"]] == [[3, 1, 2], [1, 0, 1]]
    assert [row[1].rpartition("/")[2] for row in answers["Late files"]] == ["late.csv"]


def test_in_our_duckdb(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(stack, tmp_path)
    fill(lake, monkeypatch)
    catalog = stack.catalog()
    con = duckdb.connect()
    con.execute("create schema analytics; create schema lakehouse_ops")
    for name in LEDGERS:
        con.register("ledger", catalog.load_table(f"ops_{lake.name}.{name}").scan().to_arrow())
        renamed = "select * replace ('analytics.orders' as target) from ledger"
        con.execute(f"create table lakehouse_ops.{name} as {renamed}")
    con.register("target", catalog.load_table(lake.table).scan().to_arrow())
    con.execute("create table analytics.orders as from target")
    check({name: con.execute(sql).fetchall() for name, sql in queries().items()})


class NamedAsOnThePage(Lake):
    @property
    def env(self) -> dict[str, str]:
        return super().env | {"LAKEHOUSE_OPS_NAMESPACE": "lakehouse_ops"}


@pytest.fixture(scope="module")
def named(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose tables have the names of the page."""
    lake = NamedAsOnThePage(stack, tmp_path_factory.mktemp("named"), name="analytics")
    with stack.active(), pytest.MonkeyPatch.context() as patch:
        fill(lake, patch)
    return lake


@pytest.mark.chaos
@pytest.mark.timeout(1500)  # the first start also builds the environments of the readers
@pytest.mark.parametrize(
    ("start", "use"), [(DuckDBReader, "use lake.analytics"), (SparkReader, "use lake")], ids=["duckdb", "spark"]
)
def test_in_another_reader(named: Lake, tmp_path: Path, start: Callable[[Path], Any], use: str) -> None:
    try:
        reader = start(tmp_path)
    except Missing as missing:
        pytest.skip(f"{missing}")
    try:
        reader.attach(named.stack.stack)
        reader.query(use)
        check({name: reader.query(sql) for name, sql in queries().items()})
    finally:
        reader.close()
