"""The ledger on real Iceberg tables (SQL catalog, local files): exactly once, whatever a commit's answer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField, StringType

from lakehouse.errors import ConfigurationError, Conflict, DataError, LakehouseError
from lakehouse.ledger import LEDGERS, ledger_head, read_ledger, rebuild, sync
from lakehouse.services import Services
from lakehouse.storage import open_storage
from tests.ledger_values import History, contents, services_of, versions

Commit = Callable[..., Any]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def services(tmp_path: Path, pauses: list[float]) -> Services:
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path / 'warehouse'}"
    )
    catalog.create_tables()
    state = open_storage(f"file://{tmp_path / 'state'}", {})
    return services_of(catalog, state, spill=tmp_path / "spill", ops_namespace="lakehouse_ops", pause=pauses.append)


@pytest.fixture
def history(services: Services) -> History:
    return History(services.state)


def head(services: Services, history: History) -> int:
    return ledger_head(services.catalog, "lakehouse_ops", table_uuid=history.table_uuid, context=history.context)


def meddle(services: Services, monkeypatch: pytest.MonkeyPatch, what: Callable[[Commit, Table], object]) -> None:
    """Have `what` stand before the next commit alone; it gets the true `commit_table`, ready to be called."""
    true = services.catalog.commit_table
    waiting = [what]

    def commit(table: Table, *rest: Any) -> Any:
        if waiting:
            waiting.pop()(lambda: true(table, *rest), table)
        return true(table, *rest)

    monkeypatch.setattr(services.catalog, "commit_table", commit)


def test_every_version_is_in_every_table_once(services: Services, history: History) -> None:
    for batches in (1, 3):
        assert sync(history.load(batches).standing, services) == "ok"
    rows = contents(services, history.table_uuid)
    assert versions(rows["files"]) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert versions(rows["batches"]) == [1, 2, 3, 4]
    assert versions(rows["reconciliations"]) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert versions(rows["rejects"]) == [3]
    assert [row["snapshot_id"] for row in rows["batches"]] == [1001, None, None, 1004]
    assert head(services, history) == 4


def test_a_second_sync_commits_nothing(services: Services, history: History) -> None:
    sync(history.load(3).standing, services)
    before = [services.catalog.load_table(f"lakehouse_ops.{name}").metadata_location for name in LEDGERS]
    sync(history.standing, services)
    assert [services.catalog.load_table(f"lakehouse_ops.{name}").metadata_location for name in LEDGERS] == before


def test_both_versions_of_an_overwritten_object_are_kept(services: Services, history: History) -> None:
    """D07, D08."""
    sync(history.load(2).standing, services)
    rows = [r for r in contents(services, history.table_uuid)["files"] if r["uri"].endswith("a b.csv")]
    assert [(r["etag"], r["batch_id"]) for r in rows] == [("v1", "batch1"), ("v2", "batch2")]


def test_nothing_is_made_before_the_first_batch(services: Services, history: History) -> None:
    assert sync(history.standing, services) == "ok"
    assert services.catalog.list_namespaces() == []
    assert head(services, history) == 0
    assert read_ledger(services.catalog, "lakehouse_ops", "files", table_uuid="x").num_rows == 0


def test_reading_filters_by_batch_and_context(services: Services, history: History) -> None:
    other = History(services.state, table_uuid=history.table_uuid, context="returns").load(2)
    sync(history.load(2).standing, services)
    sync(other.standing, services)

    def found(**wanted: str) -> list[tuple[str, int]]:
        table = read_ledger(services.catalog, "lakehouse_ops", "batches", table_uuid=history.table_uuid, **wanted)
        return [(row["context"], row["bookmark_version"]) for row in table.to_pylist()]

    assert found() == [("orders", 1), ("orders", 2), ("returns", 1), ("returns", 2)]
    assert found(context="returns") == [("returns", 1), ("returns", 2)]
    assert found(context="returns", batch_id="batch2") == [("returns", 2)]


def test_a_commit_that_landed_and_was_reported_as_failed_doubles_nothing(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    def lose_the_answer(commit: Commit, table: Table) -> None:
        commit()
        raise CommitFailedException("the answer was lost")

    meddle(services, monkeypatch, lose_the_answer)
    sync(history.load(3).standing, services)
    assert versions(contents(services, history.table_uuid)["files"]) == [1, 1, 2, 2, 3, 3]
    assert len(pauses) == 1
    meddle(services, monkeypatch, lose_the_answer)
    rebuild(history.standing, services)
    assert versions(contents(services, history.table_uuid)["files"]) == [1, 1, 2, 2, 3, 3]
    assert len(services.catalog.load_table("lakehouse_ops.files").metadata.snapshots) == 2


def test_who_loses_to_the_same_rows_does_not_add_them_again(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process brings the ledger up between our look and our commit, and further than we would."""
    old = history.load(2).standing
    new = history.load(2).standing
    meddle(services, monkeypatch, lambda commit, table: sync(new, services))
    sync(old, services)
    rows = contents(services, history.table_uuid)
    assert versions(rows["files"]) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert versions(rows["batches"]) == [1, 2, 3, 4]
    assert head(services, history) == 4


def test_who_loses_to_a_part_of_the_rows_adds_the_rest(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = history.load(2).standing
    new = history.load(2).standing
    meddle(services, monkeypatch, lambda commit, table: sync(old, services))
    sync(new, services)
    rows = contents(services, history.table_uuid)
    assert versions(rows["files"]) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert versions(rows["batches"]) == [1, 2, 3, 4]


def test_a_slower_writer_without_rows_takes_no_rows_away(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions without rejects move the head alone: it may fall back over them, and no reject is lost or doubled."""
    sync(history.load(3).standing, services)
    old, new = history.load(1).standing, history.load(1).standing
    true = services.catalog.commit_table

    def commit(table: Table, *rest: Any) -> Any:
        if table.name()[-1] == "rejects":
            monkeypatch.setattr(services.catalog, "commit_table", true)
            sync(new, services)
        return true(table, *rest)

    monkeypatch.setattr(services.catalog, "commit_table", commit)
    sync(old, services)
    sync(history.load(1).standing, services)
    assert versions(contents(services, history.table_uuid)["rejects"]) == [3, 6]
    assert head(services, history) == 6


def test_losing_again_and_again_is_a_conflict_after_bounded_tries(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    def commit(*_: Any) -> Any:
        raise ValueError("a catalog's own class for a lost race")

    monkeypatch.setattr(services.catalog, "commit_table", commit)
    with pytest.raises(Conflict, match=r"lakehouse_ops\.files .*last_error=ValueError"):
        sync(history.load().standing, services)
    assert len(pauses) == 4 * 9  # each table on its own
    assert all(0 < seconds <= 2 for seconds in pauses)
    monkeypatch.undo()
    sync(history.standing, services)
    assert versions(contents(services, history.table_uuid)["files"]) == [1, 1]


def test_refused_credentials_are_not_tried_again(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    def commit(*_: Any) -> Any:
        raise ForbiddenError("not allowed to write")

    monkeypatch.setattr(services.catalog, "commit_table", commit)
    with pytest.raises(ConfigurationError, match="refuses our credentials"):
        sync(history.load().standing, services)
    assert pauses == []


def test_foreign_errors_are_ours(services: Services, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> Any:
        raise RuntimeError("something in a library")

    monkeypatch.setattr(services.catalog, "load_table", load)
    with pytest.raises(LakehouseError, match=r"table=analytics\.orders.*RuntimeError: something in a library"):
        sync(history.load().standing, services)


def test_altered_rejects_stop_before_anything_is_committed(
    services: Services, history: History, tmp_path: Path
) -> None:
    standing = history.load(3).standing
    (path,) = (tmp_path / "state").rglob("rejects.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match="altered"):
        sync(standing, services)
    assert contents(services, history.table_uuid) == {name: [] for name in LEDGERS}


def test_a_manifest_of_another_version_is_refused(services: Services, history: History) -> None:
    with pytest.raises(DataError, match="another version"):
        sync(replace(history.load(2).standing, version=3), services)


def test_a_table_of_another_shape_is_left_alone(services: Services, history: History) -> None:
    services.catalog.create_namespace("lakehouse_ops")
    services.catalog.create_table("lakehouse_ops.batches", Schema(NestedField(1, "target", StringType())))
    with pytest.raises(ConfigurationError, match="column batch_id is missing"):
        sync(history.load().standing, services)


def test_many_small_files_become_one_and_no_row_is_lost(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.ledger.data_files.COMPACT_ABOVE", 3)
    neighbour = History(services.state).load(2)
    sync(neighbour.standing, services)
    files = []
    for _ in range(9):
        sync(history.load().standing, services)
        tasks = services.catalog.load_table("lakehouse_ops.files").scan().plan_files()
        files.append(sum(task.file.partition[0] == history.table_uuid for task in tasks))
    assert files == [1, 2, 3, 4, 2, 3, 4, 2, 3]
    assert versions(contents(services, history.table_uuid)["files"]) == sorted([*range(1, 10)] * 2)
    assert versions(contents(services, history.table_uuid)["rejects"]) == [3, 6, 9]
    assert versions(contents(services, neighbour.table_uuid)["batches"]) == [1, 2]


def test_the_history_of_the_ledger_itself_is_bounded(
    services: Services, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.ledger.commit.KEEP_SNAPSHOTS", 3)
    sync(history.load().standing, services)
    tagged = services.catalog.load_table("lakehouse_ops.batches")
    first = tagged.metadata.current_snapshot_id
    assert first is not None
    tagged.manage_snapshots().create_tag(first, "audit").commit()
    for _ in range(5):
        sync(history.load().standing, services)
    snapshots = services.catalog.load_table("lakehouse_ops.batches").metadata.snapshots
    assert [snapshot.sequence_number for snapshot in snapshots] == [1, 4, 5, 6]
    assert versions(contents(services, history.table_uuid)["batches"]) == [1, 2, 3, 4, 5, 6]


def test_rebuild_replaces_the_rows_of_one_context(services: Services, history: History) -> None:
    other = History(services.state, table_uuid=history.table_uuid, context="returns").load(3)
    neighbour = History(services.state).load(2)
    for one in (history.load(4), other, neighbour):
        sync(one.standing, services)
    before = contents(services, history.table_uuid), contents(services, neighbour.table_uuid)
    for name in LEDGERS:  # somebody deleted a part of it
        services.catalog.load_table(f"lakehouse_ops.{name}").delete("context = 'orders' and bookmark_version > 2")
    rebuild(history.standing, services)
    assert (contents(services, history.table_uuid), contents(services, neighbour.table_uuid)) == before
    sync(history.load().standing, services)
    assert versions(contents(services, history.table_uuid)["batches"]) == [1, 2, 3, 4, 5, 1, 2, 3]


def test_rebuild_makes_the_same_rows_after_the_namespace_was_dropped(services: Services, history: History) -> None:
    sync(history.load(4).standing, services)
    before = contents(services, history.table_uuid)
    for name in LEDGERS:
        services.catalog.drop_table(f"lakehouse_ops.{name}")
    services.catalog.drop_namespace("lakehouse_ops")
    rebuild(history.standing, services)
    assert contents(services, history.table_uuid) == before
    assert head(services, history) == 4
