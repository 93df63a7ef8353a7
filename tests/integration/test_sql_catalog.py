"""Another catalog: SQL on a local file, with the state in a folder beside the tables. Landing stays on the real S3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakehouse.ledger import BATCHES
from lakehouse.model import State
from tests.lake import DAY_1, DAY_2, Lake, csv, order


@dataclass
class SqlStack:
    """The session's S3 with a catalog of its own."""

    real: Any
    folder: Path

    @property
    def s3(self) -> Any:
        return self.real.s3

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in self.real.env.items() if not k.startswith("PYICEBERG_CATALOG__")}
        return kept | {
            "PYICEBERG_CATALOG__LOCAL__TYPE": "sql",
            "PYICEBERG_CATALOG__LOCAL__URI": f"sqlite:///{self.folder}/catalog.db",
            "PYICEBERG_CATALOG__LOCAL__WAREHOUSE": f"file://{self.folder}/warehouse",
            "LAKEHOUSE_CATALOG": "local",
        }

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(
            "local", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/warehouse"
        )


class LocalStateLake(Lake):
    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "LAKEHOUSE_STATE": ""}


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    (tmp_path / "warehouse").mkdir()
    return LocalStateLake(SqlStack(stack, tmp_path), tmp_path)


def test_a_table_lives_in_a_sql_catalog_as_well(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"]) == (0, "committed"), errors
    lake.put(DAY_2, "b.csv", csv(order(2, "9.00", 5), order(3)))
    code, receipt, _ = lake.cli("load", lake.table, "--json")
    assert (code, receipt["rows"]["updated"], receipt["rows"]["inserted"]) == (0, 1, 1)
    assert lake.amounts() == {1: "1.00", 2: "9.00", 3: "1.00"}
    assert lake.load().state is State.NOTHING_TO_DO
    assert len(lake.ledger(BATCHES)) == 2
    assert lake.differences(reread=True) == []
    state = lake.folder / "warehouse" / ".lakehouse" / "local" / lake.table
    assert (state / "lease.json").is_file() and list(state.glob("*/batches/orders/*/*/manifest.parquet"))


def test_g09_a_bookmark_is_renamed_where_the_client_checks_the_commit(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    command = ("bookmark", "rename", lake.table, "orders", "v2", "--reason", "x", "--json")
    code, done, errors = lake.cli(*command)
    assert (code, done["bookmark_version"], done["ledger"]) == (0, 2, "ok"), errors
    assert set(lake.stack.catalog().load_table(lake.table).metadata.refs) == {"main", "lakehouse.bookmark.v2"}
    assert lake.cli(*command)[0] == 2
    lake.source = "bookmark: v2"
    lake.write_declaration()
    assert (lake.load().state, lake.differences()) == (State.NOTHING_TO_DO, [])
    assert [(b["context"], b["bookmark_version"]) for b in lake.ledger(BATCHES)] == [("v2", 1), ("v2", 2)]


def test_two_loads_at_once_have_one_winner(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    runs = [lake.start("load", lake.table, "--json") for _ in range(2)]
    ended = [run.communicate(timeout=180) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    assert (lake.version(), lake.snapshots(), len(lake.ledger(BATCHES))) == (1, 1, 1)
