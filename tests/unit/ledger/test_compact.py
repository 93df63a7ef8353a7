"""Compaction of the ledger on real Iceberg tables (SQL catalog, local files): no row is lost, doubled or moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from lakehouse.errors import Conflict
from lakehouse.ledger import LEDGERS, compact, ledger_head, sync
from lakehouse.services import Services
from lakehouse.storage import open_storage
from tests.ledger_values import History, contents, services_of


@pytest.fixture
def services(tmp_path: Path) -> Services:
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path / 'warehouse'}"
    )
    catalog.create_tables()
    state = open_storage(f"file://{tmp_path / 'state'}", {})
    return services_of(catalog, state, spill=tmp_path / "spill", ops_namespace="lakehouse_ops")


@pytest.fixture
def history(services: Services) -> History:
    made = History(services.state)
    for _ in range(6):
        sync(made.load().standing, services)
    return made


def files_of(services: Services, table_uuid: str) -> dict[str, int]:
    return {
        name: sum(
            task.file.partition[0] == table_uuid
            for task in services.catalog.load_table(f"lakehouse_ops.{name}").scan().plan_files()
        )
        for name in LEDGERS
    }


def locations(services: Services) -> list[str]:
    return [services.catalog.load_table(f"lakehouse_ops.{name}").metadata_location for name in LEDGERS]


def head(services: Services, history: History) -> int:
    return ledger_head(services.catalog, "lakehouse_ops", table_uuid=history.table_uuid, context=history.context)


def test_small_files_become_one_and_every_row_stays(services: Services, history: History) -> None:
    neighbour = History(services.state).load(2)
    sync(neighbour.standing, services)
    other = History(services.state, table_uuid=history.table_uuid, context="returns").load(3)
    sync(other.standing, services)
    before = contents(services, history.table_uuid), contents(services, neighbour.table_uuid)
    found = compact(history.standing, services)
    assert [(one.ledger, one.files_before, one.files_after) for one in found] == [
        (name, 3 if name == "rejects" else 7, 1) for name in LEDGERS
    ]
    assert [one.rows_rewritten for one in found] == [len(before[0][one.ledger]) for one in found]
    assert files_of(services, history.table_uuid) == dict.fromkeys(LEDGERS, 1)
    assert (contents(services, history.table_uuid), contents(services, neighbour.table_uuid)) == before
    assert (head(services, history), head(services, other)) == (6, 3)
    sync(history.load().standing, services)
    assert head(services, history) == 7


def test_a_dry_run_counts_and_a_second_run_has_nothing_to_do(services: Services, history: History) -> None:
    before = locations(services)
    planned = compact(history.standing, services, dry_run=True)
    assert locations(services) == before
    assert compact(history.standing, services) == planned
    after = locations(services)
    assert {(one.files_before, one.files_after, one.rows_rewritten) for one in compact(history.standing, services)} == {
        (1, 1, 0)
    }
    assert locations(services) == after


def test_without_a_ledger_there_is_nothing_to_compact(services: Services) -> None:
    assert compact(History(services.state).load().standing, services) == ()


@pytest.mark.parametrize("landed", [True, False])
def test_a_sync_at_the_same_time_and_a_lost_answer_change_nothing(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    """The first commit lands and is reported as failed, or a sync commits first."""
    true = services.catalog.commit_table
    waiting = [True]

    def commit(table: Any, *rest: Any) -> Any:
        if waiting:
            waiting.pop()
            if landed:
                true(table, *rest)
                raise CommitFailedException("no answer")
            sync(history.load().standing, services)
        return true(table, *rest)

    monkeypatch.setattr(services.catalog, "commit_table", commit)
    found = compact(history.standing, services)
    assert [one.files_after for one in found] == [1] * len(LEDGERS)
    assert files_of(services, history.table_uuid) == dict.fromkeys(LEDGERS, 1)
    assert [row["bookmark_version"] for row in contents(services, history.table_uuid)["batches"]] == [
        *range(1, head(services, history) + 1)
    ]


def test_whoever_always_loses_says_so(services: Services, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise CommitFailedException("others were first")

    monkeypatch.setattr(services.catalog, "commit_table", refuse)
    with pytest.raises(Conflict, match="could not be compacted") as caught:
        compact(history.standing, services)
    assert caught.value.next == "lakehouse ledger compact analytics.orders"
