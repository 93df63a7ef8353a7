"""`lakehouse maintain TABLE orphans` on the real stack: what nothing refers to goes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.table import Table

from lakehouse import naming
from lakehouse.errors import LeaseHeld
from lakehouse.maintain import Orphans, expire, remove_orphans
from lakehouse.maintain.listing import list_files
from lakehouse.model import State
from lakehouse.operate.operator_change import lease_of
from lakehouse.position import find_position
from lakehouse.services import Services
from lakehouse.state import load_bookmark, walk
from tests.evolving_lake import OPERATOR, failure, lake_on
from tests.integration.test_maintain_expire import before_commit, four_upserts
from tests.lake import DAY_1, DAY_2, Lake, csv, order

LATER = timedelta(days=4)


@pytest.fixture
def local(stack: Any, tmp_path: Path) -> Lake:
    return lake_on("sql", stack, tmp_path)


def orphans(lake: Lake, *, later: timedelta = timedelta(0), dry_run: bool = False, **how: Any) -> Orphans:
    services = lake.services(now=lambda: datetime.now(UTC) + later)
    return remove_orphans(lake.declaration, services, OPERATOR, dry_run=dry_run, **how)


def table_of(lake: Lake) -> Table:
    table: Table = lake.stack.catalog().load_table(lake.table)
    return table


def stored(lake: Lake, ending: str = ".parquet") -> set[str]:
    return {file.uri for file in list_files(table_of(lake)) if file.uri.endswith(ending)}


def in_state(lake: Lake) -> set[str]:
    state = lake.services().state
    return {item.uri for item in state.list("")}


class Held:
    """Services whose first commit to a table is held back: its sender gets no answer, and it can arrive later."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.arrive: Callable[[], object] | None = None
        self._send = services.catalog.commit_table
        services.catalog.commit_table = self._hold  # type: ignore[method-assign,assignment]

    def _hold(self, *request: Any) -> Any:
        if self.arrive is None:
            self.arrive = lambda: self._send(*request)
            raise requests.ReadTimeout("no answer")
        return self._send(*request)


@pytest.mark.parametrize("catalog", ["rest", "sql"])
def test_x02_files_of_an_undecided_attempt_go_behind_a_fence_alone(catalog: str, stack: Any, tmp_path: Path) -> None:
    lake = lake_on(catalog, stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    clean = stored(lake)
    lake.put(DAY_2, "b.csv", csv(order(1, "2.00", 1), order(2)))
    held = Held(lake.services(pause=lambda _: None))
    assert lake.load(services=held.services).state is State.UNKNOWN
    left = stored(lake) - clean
    assert len(left) == 1

    dry = orphans(lake, dry_run=True)
    assert (dry.fence, dry.state, lake.version()) == (True, State.NOTHING_TO_DO, 1)
    assert left < {file.uri for file in dry.removed}
    code, done, errors = lake.said("maintain", lake.table, "orphans", "--json")
    assert (code, done["fence"], done["state"], done["bookmark_version"]) == (0, True, "committed", 2), errors
    assert {file["uri"] for file in done["removed"]} == {file.uri for file in dry.removed}
    assert stored(lake) == clean
    assert held.arrive is not None
    with pytest.raises(Exception):  # noqa: B017 - catalogs differ in what they say
        held.arrive()
    assert (lake.amounts(), lake.differences()) == ({1: "1.00"}, [])

    code, [status], _ = lake.said("status", lake.table, "--json")
    assert (code, status["state"]) == (0, "unknown"), "a fence answers no attempt"
    assert lake.load().rows.updated == 1
    assert (lake.amounts(), lake.differences(reread=True)) == ({1: "2.00", 2: "1.00"}, [])
    assert orphans(lake).removed == ()
    assert len(orphans(lake, later=LATER).removed) >= 1, "the record is history"
    assert (orphans(lake, later=LATER).state, lake.differences(reread=True)) == (State.NOTHING_TO_DO, [])


def put_file(lake: Lake, below: str) -> str:
    """A file below the table's location that its writer has not committed."""
    uri = f"{table_of(lake).location()}/{below}"
    with table_of(lake).io.new_output(uri).create() as file:
        file.write(b"rows")
    return uri


def test_x04_work_in_flight_and_files_of_others_stay(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1)))
    local.load()
    young, elsewhere, hidden = (put_file(local, f"{name}.parquet") for name in ("data/x", "files/x", "data/_x"))
    found = orphans(local)
    assert (found.state, found.removed) == (State.NOTHING_TO_DO, ())
    kept = {file.uri: file.why for file in found.kept}
    assert (
        "too young" in kept[young] and "neither among data" in kept[elsewhere] and "no file of a table" in kept[hidden]
    )
    code, _, errors = local.said("maintain", local.table, "orphans", "--older-than", "1h")
    assert code == 2 and "another writer" in errors

    # a load that is under way: its files are there, and its lease has been lost
    local.put(DAY_2, "b.csv", csv(order(1, "2.00", 1), order(2)))
    cleaned: list[Orphans] = []

    def clean() -> None:
        local.services().state.delete(naming.lease("local", local.table))
        cleaned.append(orphans(local))

    receipt = local.load(services=before_commit(local.services(), clean))
    assert (receipt.state, cleaned[0].fence, len(receipt.batches)) == (State.COMMITTED, True, 1)
    assert (local.amounts(), local.differences(reread=True)) == ({1: "2.00", 2: "1.00"}, [])

    late = orphans(local, later=LATER)
    assert young in {file.uri for file in late.removed} and elsewhere in {file.uri for file in late.kept}
    assert (local.amounts(), local.differences(reread=True)) == ({1: "2.00", 2: "1.00"}, [])
    assert local.said("ledger", "rebuild", local.table)[0] == 0


def test_x04_what_may_be_another_tables_stays(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1)))
    local.load()
    catalog, table = local.stack.catalog(), table_of(local)
    inner = catalog.create_table(
        f"{local.name}.inner", schema=table.schema(), location=f"{table.location()}/data/inner"
    )
    inner.append(table.scan().to_arrow())
    put_file(local, "data/x.parquet")
    late = orphans(local, later=LATER)
    assert [file.uri.rpartition("/")[2] for file in late.removed] == ["x.parquet"]
    assert len(catalog.load_table(f"{local.name}.inner").scan().to_arrow()) == 1

    same = catalog.create_table(f"{local.name}.same", schema=table.schema(), location=table.location())
    same.append(table.scan().to_arrow())
    put_file(local, "data/x.parquet")
    late = orphans(local, later=LATER)
    assert (late.removed, {file.why for file in late.kept}) == ((), {"another table has its metadata here"})
    assert len(catalog.load_table(f"{local.name}.same").scan().to_arrow()) == 1


def test_x04_a_running_load_is_waited_for(local: Lake) -> None:
    local.put(DAY_1, "a.csv", csv(order(1)))
    local.load()
    with lease_of(local.declaration, OPERATOR, local.services(), step="merge"):
        error = failure(lambda: remove_orphans(local.declaration, local.services(lease_wait=0), OPERATOR))
    assert isinstance(error, LeaseHeld) and error.exit_code == 3


def test_x01_an_expiry_that_was_killed_leaves_orphans_that_are_found(
    local: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_upserts(local)
    killed = RuntimeError("killed")

    def kill(point: str) -> None:
        if point == "after_expire":
            raise killed

    monkeypatch.setattr("lakehouse.maintain.expiry.fault_point", kill)
    with pytest.raises(RuntimeError, match="killed"):
        expire(local.declaration, local.services(), OPERATOR, older_than=timedelta(0))
    assert (len(stored(local)), local.snapshots()) == (4, 2)
    found = orphans(local)
    assert (found.fence, len(stored(local)), local.version()) == (False, 1, 5), "each attempt was published"
    assert not [file for file in found.kept if file.uri.endswith(".avro")]
    assert (orphans(local).state, local.differences(reread=True)) == (State.NOTHING_TO_DO, [])


def test_checkpoints_and_the_parts_that_later_ones_refer_to_stay(local: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.bookmark.CHECKPOINT_EVERY", 2)
    for number, day in enumerate((DAY_1, DAY_2, DAY_1, DAY_2, DAY_1)):
        local.put(day, f"{number}.csv", csv(order(number)))
        local.load()
    before = in_state(local)
    assert len([uri for uri in before if uri.endswith("/checkpoint.parquet")]) == 2
    assert (orphans(local, later=LATER).state, in_state(local)) == (State.NOTHING_TO_DO, before)
    store = local.services().state
    for manifest, reference in walk(store, find_position(local.declaration, local.services()).target.bookmark):
        assert len(dict(load_bookmark(store, reference).seen.items())) == manifest.bookmark_version


def test_old_files_of_the_ledger_go_with_it(local: Lake) -> None:
    for number in range(3):
        local.put(DAY_1, f"{number}.csv", csv(order(number)))
        local.load()
    assert local.said("ledger", "compact", local.table)[0] == 0
    monkeyed = orphans(local, later=LATER)
    assert monkeyed.removed == ()
    services = local.services()
    ledger = services.catalog.load_table(f"{services.settings.ops_namespace}.batches")
    with ledger.maintenance.expire_snapshots() as change:
        change.by_ids([s.snapshot_id for s in ledger.metadata.snapshots[:-1]])
    found = orphans(local, later=LATER)
    assert len([f for f in found.removed if f.why.startswith("ledger") and f.uri.endswith(".parquet")]) == 3
    assert len(local.ledger("batches")) == 3
