"""`lakehouse maintain TABLE expire` on the real stack: what goes, what stays, and that no bookmark is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakehouse import naming
from lakehouse.errors import DataError, UsageError
from lakehouse.ledger import BATCHES
from lakehouse.maintain import Expiry, expire
from lakehouse.maintain.listing import list_files
from lakehouse.model import State
from lakehouse.operate.rewind_table import rewind_with_table
from lakehouse.position import find_position
from lakehouse.services import Services
from tests.evolving_lake import OPERATOR, failure, lake_on
from tests.lake import DAY_1, DAY_2, Lake, csv, order

NOW = timedelta(0)


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    return lake_on("sql", stack, tmp_path)


def expired(lake: Lake, *, older_than: timedelta | None = NOW, dry_run: bool = False) -> Expiry:
    return expire(lake.declaration, lake.services(), OPERATOR, older_than=older_than, dry_run=dry_run)


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def stored(lake: Lake, ending: str = ".parquet") -> set[str]:
    """Addresses of the files that lie below the table's location."""
    return {file.uri for file in list_files(table_of(lake)) if file.uri.endswith(ending)}


def before_commit(services: Services, act: Callable[[], None], *, times: int = 1) -> Services:
    """The services, which act before their first commits to a table are sent."""
    send = services.catalog.commit_table
    done: list[bool] = []

    def commit(*arguments: Any) -> Any:
        if len(done) < times:
            done.append(True)
            act()
        return send(*arguments)

    services.catalog.commit_table = commit  # type: ignore[method-assign,assignment]
    return services


def four_upserts(lake: Lake) -> None:
    for minute in range(4):
        lake.put(DAY_1, "a.csv", csv(order(1, f"{minute}.00", minute), order(2, f"{minute}.00", minute)))
        lake.load()


@pytest.mark.parametrize("catalog", ["rest", "sql"])
def test_x01_expired_snapshots_free_their_files(catalog: str, stack: Any, tmp_path: Path) -> None:
    lake = lake_on(catalog, stack, tmp_path)
    four_upserts(lake)
    rows = lake.rows()
    assert len(stored(lake)) == 4
    code, dry, errors = lake.said("maintain", lake.table, "expire", "--older-than", "0s", "--dry-run", "--json")
    assert (code, len(dry["files"]), dry["expired"], dry["state"]) == (0, 3, 3, "nothing_to_do"), errors
    assert (len(stored(lake)), lake.snapshots(), lake.version()) == (4, 4, 4)

    manifests = stored(lake, ".avro")
    code, done, errors = lake.said("maintain", lake.table, "expire", "--older-than", "0s", "--json")
    assert (code, done["state"], done["files"], done["bookmark_version"]) == (0, "committed", dry["files"], 5), errors
    assert (len(stored(lake)), lake.snapshots()) == (1, 2)
    assert stored(lake, ".avro") & manifests == manifests - set(done["metadata"])
    assert lake.rows() == rows
    assert lake.differences(reread=True) == []
    kinds = [(b["bookmark_version"], b["kind"]) for b in lake.ledger(BATCHES)]
    assert sorted(kinds)[-1] == (5, "expire")

    lake.put(DAY_2, "b.csv", csv(order(2, "9.00", 9), order(3)))
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.inserted, lake.differences(reread=True)) == (1, 1, [])
    error = failure(lambda: rewind_with_table(lake.declaration, "2", OPERATOR, lake.services()))
    assert isinstance(error, DataError) and "expired" in error.message


def test_an_idle_bookmark_goes_along_and_every_bookmark_stays_attached(local: Lake) -> None:
    local.put(DAY_2, "c.csv", csv(order(5)))
    local.write_declaration(local.declaration_text().replace("files:", "bookmark: other\n    files:"))
    local.load()
    local.write_declaration()
    local.source = "bookmark: orders"
    local.load(accept_new=True)
    four_upserts(local)
    dry = expired(local, dry_run=True)
    assert (dry.moved, dry.expired, len(dry.files)) == (("other",), 5, 3)
    done = expired(local)
    assert (done.moved, set(done.files)) == (("other",), set(dry.files))
    other = local.declaration.under("other")
    stands = [find_position(one, local.services()).bookmark.version for one in (local.declaration, other)]
    assert (stands, local.snapshots(), local.differences()) == ([6, 2], 3, [])
    assert local.load().state is State.NOTHING_TO_DO


def test_what_refs_of_others_stand_on_and_what_nobody_has_accepted_stays(local: Lake) -> None:
    four_upserts(local)
    first, second, *_ = sorted(table_of(local).metadata.snapshots, key=lambda s: s.sequence_number or 0)
    with table_of(local).manage_snapshots() as change:
        change.create_tag(first.snapshot_id, "audit").create_branch(
            second.snapshot_id, "trial", min_snapshots_to_keep=1
        )
    foreign = table_of(local)
    foreign.append(foreign.scan().to_arrow().slice(0, 0))
    for minute in (5, 6):
        local.put(DAY_1, "a.csv", csv(order(1, f"{minute}.00", minute)))
        local.load()
    done = expired(local)
    assert done.expired == 1 and "nobody has accepted" in done.warnings[0]
    kept = {s.snapshot_id for s in table_of(local).metadata.snapshots}
    assert {first.snapshot_id, second.snapshot_id, foreign.metadata.current_snapshot_id} <= kept
    for ref in ("audit", "trial"):
        snapshot = table_of(local).snapshot_by_name(ref)
        assert snapshot is not None and len(table_of(local).scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == 2

    accepted = (
        "reconcile",
        local.table,
        "--accept-foreign",
        str(foreign.metadata.current_snapshot_id),
        "--reason",
        "x",
    )
    assert local.said(*accepted)[0] == 0
    again = expired(local)
    assert (again.warnings, local.differences()) == ((), [])
    assert foreign.metadata.current_snapshot_id not in {s.snapshot_id for s in table_of(local).metadata.snapshots}


def test_age_and_number_come_from_the_table_and_some_tables_are_left_alone(local: Lake) -> None:
    error = failure(lambda: expired(local))
    assert isinstance(error, UsageError) and "does not exist" in error.message
    four_upserts(local)
    assert (expired(local, older_than=None).state, local.snapshots()) == (State.NOTHING_TO_DO, 4)
    with table_of(local).transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "3"})
    assert (expired(local, older_than=None).expired, local.snapshots()) == (1, 4)
    with table_of(local).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    assert "gc.enabled=false" in failure(lambda: expired(local)).message
    with table_of(local).transaction() as change:
        change.set_properties({"gc.enabled": "true", "history.expire.min-snapshots-to-keep": "few"})
    assert "no whole number" in failure(lambda: expired(local)).message


def test_a_load_that_commits_in_between_wins_and_nothing_of_it_is_removed(local: Lake) -> None:
    four_upserts(local)

    def load() -> None:
        local.put(DAY_2, "b.csv", csv(order(2, "9.00", 9), order(3)))
        break_lease(local)
        local.load()

    done = expire(local.declaration, before_commit(local.services(), load), OPERATOR, older_than=NOW)
    assert (done.state, done.expired, local.version()) == (State.COMMITTED, 4, 6)
    assert (local.amounts(), local.differences(reread=True)) == ({1: "3.00", 2: "9.00", 3: "1.00"}, [])


def test_a_commit_that_was_prepared_before_an_expiry_loses(local: Lake) -> None:
    """A rewind brings back files of an old snapshot: it must not land once they are gone."""
    four_upserts(local)

    def expire_now() -> None:
        break_lease(local)
        expired(local)

    services = before_commit(local.services(), expire_now)
    error = failure(lambda: rewind_with_table(local.declaration, "2", OPERATOR, services))
    assert isinstance(error, DataError) and "expired" in error.message
    assert (local.amounts(), local.differences(reread=True)) == ({1: "3.00", 2: "3.00"}, [])


def break_lease(lake: Lake) -> None:
    """Nobody knows any more who holds it."""
    lake.services().state.delete(naming.lease("local", lake.table))


def test_without_a_kind_all_three_are_done_in_order(local: Lake) -> None:
    for number in range(3):
        local.put(DAY_1, f"{number}.csv", csv(order(number)))
        local.load()
    code, _, errors = local.said("maintain", local.table, "--older-than", "5d")
    assert code == 2 and "goes with expire or orphans" in errors
    with table_of(local).transaction() as change:
        change.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    code, done, errors = local.said("maintain", local.table, "--json")
    assert (code, list(done)) == (0, ["table", "compact", "expire", "orphans"]), errors
    assert (done["compact"]["commits"], len(done["expire"]["files"]), done["orphans"]["removed"]) == (1, 3, [])
    assert (len(stored(local)), set(local.amounts()), local.differences(reread=True)) == (1, {0, 1, 2}, [])
    code, text, _ = local.said("maintain", local.table, "--dry-run")
    assert (code, text) == (0, None)
