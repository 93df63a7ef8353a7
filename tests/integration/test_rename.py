"""G9: a renamed or re-pointed source never re-reads history unasked, and a bookmark can be renamed (D19)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate

from lakehouse import naming
from lakehouse.audit.bookmark_history import changes, differences
from lakehouse.audit.object_history import explain_object
from lakehouse.errors import LeaseHeld, UsageError
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.ledger import rebuild, standing_of
from lakehouse.model import Receipt, State
from lakehouse.operate.bookmark_rename import rename_bookmark
from lakehouse.operate.operator_change import Operator, lease_of
from lakehouse.operate.reattach import rewind_to_table
from lakehouse.operate.rewind_table import rewind_with_table
from lakehouse.position import find_position
from tests.lake import DAY_1, DAY_2, Lake, csv, order

ANNA = Operator("anna@host", "the feed has a new name", "test")


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    """Three loaded files of the source `orders`."""
    made = Lake(stack, tmp_path, source="bookmark: orders")
    for number, day in enumerate((DAY_1, DAY_1, DAY_2), start=1):
        made.put(day, f"{number}.csv", csv(order(number)))
        made.load()
    return made


def declare(lake: Lake, source: str) -> None:
    lake.source = source
    lake.write_declaration()


def accept(lake: Lake) -> Receipt:
    return ingest(lake.declaration, LoadRequest(accept_new=True, run_id="test"), lake.services())


def test_g09_d19_a_renamed_source_is_refused_until_the_bookmark_is_renamed(lake: Lake) -> None:
    declare(lake, "bookmark: orders_v2")
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"]) == (2, "blocked")
    assert "no bookmark for orders_v2; 3 objects would be re-read; the table has bookmark orders" in receipt["error"]
    assert f"lakehouse bookmark rename {lake.table} orders orders_v2 --reason TEXT" in receipt["next"]
    assert f"lakehouse load {lake.table} --accept-new" in errors
    assert lake.snapshots() == 3
    code, plan, _ = lake.cli("plan", lake.table, "--json")
    assert code == 0 and "3 objects would be re-read" in plan["unaccepted"] and plan["unaccepted"] in plan["warnings"]

    command = ("bookmark", "rename", lake.table, "orders", "orders_v2", "--reason", "new name", "--json")
    code, told, _ = lake.cli(*command, "--dry-run")
    assert (code, told["state"], told["objects"], lake.snapshots()) == (0, "nothing_to_do", 3, 3)
    code, done, _ = lake.cli(*command)
    assert (code, done["state"], done["bookmark_version"], done["ledger"]) == (0, "committed", 4, "ok")
    refs = lake.stack.catalog().load_table(lake.table).metadata.refs
    assert naming.tag("orders_v2") in refs and naming.tag("orders") not in refs

    assert lake.load().state is State.NOTHING_TO_DO
    lake.put(DAY_2, "4.csv", csv(order(4)))
    assert (lake.load().bookmark_version, len(lake.rows())) == (5, 4)
    assert lake.differences(reread=True) == []

    services = lake.services()
    kinds = [(c.bookmark_version, c.kind, c.author != "") for c in changes(lake.declaration, services)]
    assert kinds == [(5, "load", False), (4, "bookmark-rename", True), *((v, "load", False) for v in (3, 2, 1))]
    assert len(differences(lake.declaration, services, "0", "5")) == 4
    uri = f"s3://landing/{lake.name}/input_date={DAY_1}/1.csv"
    assert [e.bookmark_version for e in explain_object(lake.declaration, uri, services).events] == [1]


def test_g09_the_ledger_follows_a_renamed_bookmark(lake: Lake) -> None:
    before = lake.ledger("files")
    declare(lake, "bookmark: v2")
    rename_bookmark(lake.declaration, "orders", "v2", ANNA, lake.services())
    found = lake.ledger("batches")
    assert [(b["context"], b["bookmark_version"]) for b in found] == [("v2", n) for n in (1, 2, 3, 4)]
    assert all(b["snapshot_id"] for b in found)
    assert lake.ledger("files") == [{**row, "context": "v2"} for row in before]
    services = lake.services()
    rebuild(standing_of(find_position(lake.declaration, services).target), services)
    assert lake.ledger("batches") == found
    # back to the old name: the head that the ledger had under it is forgotten
    declare(lake, "bookmark: orders")
    rename_bookmark(lake.declaration, "v2", "orders", ANNA, lake.services())
    assert [(b["context"], b["bookmark_version"]) for b in lake.ledger("batches")] == [
        ("orders", n) for n in (1, 2, 3, 4, 5)
    ]
    assert lake.load().state is State.NOTHING_TO_DO


def test_g09_loads_under_the_old_name_say_what_became_of_it(lake: Lake) -> None:
    done = rename_bookmark(lake.declaration, "orders", "v2", ANNA, lake.services())
    assert "declare it before the next load" in done.warnings[0]
    receipt = lake.load()
    assert receipt.exit_code == 2
    assert "bookmark orders of table" in receipt.error and "was renamed to v2" in receipt.error
    assert "declare bookmark: v2" in receipt.next


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ordres", "v2", "has no bookmark ordres; did you mean orders?"),
        ("orders", "orders", "has a bookmark orders already"),
        ("orders", "a b", "not the name of a bookmark: 'a b'"),
    ],
)
def test_g09_a_renaming_needs_a_bookmark_and_a_free_name(lake: Lake, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        rename_bookmark(lake.declaration, old, new, ANNA, lake.services())


def test_g09_a_crash_before_the_commit_leaves_the_old_name(lake: Lake) -> None:
    command = ("bookmark", "rename", lake.table, "orders", "v2", "--reason", "x")
    code, _, _ = lake.cli(*command, env={"LAKEHOUSE_FAULT": "before_publish"})
    assert code == -9
    assert (lake.load().state, lake.version()) == (State.NOTHING_TO_DO, 3)
    code, _, errors = lake.cli(*command)
    assert code == 0, errors
    declare(lake, "bookmark: v2")
    assert (lake.load().state, lake.version(), lake.differences()) == (State.NOTHING_TO_DO, 4, [])


def test_g09_a_renaming_waits_for_a_load_that_runs(lake: Lake) -> None:
    services = lake.services(lease_wait=0.0)
    with lease_of(lake.declaration, ANNA, services, step="load"), pytest.raises(LeaseHeld):
        rename_bookmark(lake.declaration, "orders", "v2", ANNA, services)
    assert lake.version() == 3


def test_g09_a_load_that_commits_first_is_renamed_with_the_rest(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    import lakehouse.operate.bookmark_rename as module

    lake.put(DAY_2, "4.csv", csv(order(4)))
    real, raced = module.with_table, [lake.declaration]

    def with_table(*arguments: Any) -> Any:
        found = real(*arguments)
        if raced:
            services = lake.services()
            lease = next(item for item in services.state.list("") if item.uri.endswith("lease.json"))
            services.state.delete(services.state.key(lease.uri))
            assert ingest(raced.pop(), LoadRequest(run_id="other"), services).state is State.COMMITTED
        return found

    monkeypatch.setattr(module, "with_table", with_table)
    done = rename_bookmark(lake.declaration, "orders", "v2", ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.objects) == (State.COMMITTED, 5, 4)
    declare(lake, "bookmark: v2")
    assert (lake.load().state, lake.differences()) == (State.NOTHING_TO_DO, [])


def test_g09_a_renamed_source_can_be_accepted_as_new(lake: Lake) -> None:
    declare(lake, "bookmark: v2")
    receipt = accept(lake)
    assert (receipt.state, receipt.objects["read"], receipt.rows.unchanged) == (State.COMMITTED, 3, 3)
    assert (lake.load().state, lake.differences()) == (State.NOTHING_TO_DO, [])


def test_g09_a_repointed_source_is_refused_until_it_is_accepted(lake: Lake) -> None:
    text, folder = lake.declaration_text(), f"s3://landing/{lake.name}/"
    lake.write_declaration(text.replace(folder, f"s3://landing/{lake.name}_b/"))
    receipt = lake.load()
    assert (receipt.exit_code, receipt.state) == (2, State.BLOCKED)
    assert f"no bookmark for orders at s3://landing/{lake.name}_b/; 0 objects would be re-read" in receipt.error
    assert f"bookmark orders has read {folder}" in receipt.error and "--accept-new" in receipt.next
    assert "0 objects would be re-read" in lake.plan().unaccepted
    assert accept(lake).state is State.NOTHING_TO_DO
    assert lake.load().state is State.NOTHING_TO_DO, "an answer is remembered although nothing was read"


def test_g09_a_folder_around_the_one_that_was_read_is_no_other_source(lake: Lake) -> None:
    text = lake.declaration_text()
    wider = text.replace(f"s3://landing/{lake.name}/", "s3://landing/").replace(
        "input_date=%", f"{lake.name}/input_date=%"
    )
    lake.write_declaration(wider)
    plan = lake.plan(day=DAY_1)
    assert (plan.unaccepted, [d.decision.value for d in plan.decisions]) == ("", ["consumed", "consumed"])


def test_g09_an_operators_change_is_no_answer(lake: Lake) -> None:
    declare(lake, "bookmark: v2")
    assert lake.cli("hold", lake.table, "--reason", "x")[0] == 0
    assert lake.cli("release", lake.table, "--reason", "x")[0] == 0
    assert "no bookmark for v2; 3 objects" in lake.load().error
    (found,) = lake.cli("status", lake.table, "--json")[1]
    assert (found["state"], found["detail"]) == ("blocked", "no bookmark for v2; the table has bookmark orders")
    assert "no bookmark for v2; 3 objects" in lake.load().error


def test_g09_a_table_that_is_loaded_under_another_name_is_not_adopted(lake: Lake) -> None:
    declare(lake, "bookmark: v2")
    code, _, errors = lake.cli("adopt", lake.table)
    assert code == 2 and "is loaded under bookmark orders already" in errors


def test_g09_what_another_bookmark_has_appended_is_replaced(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="bookmark: one", more="write: append")
    unkeyed = lake.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", "")
    lake.write_declaration(unkeyed)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    lake.write_declaration(unkeyed.replace("bookmark: one", "bookmark: two"))
    receipt = accept(lake)
    assert (receipt.rows.inserted, receipt.rows.replaced, sorted(lake.rows())) == (2, 2, [1, 2])
    assert lake.differences(reread=True) == []


def test_g35_a_renamed_bookmark_goes_back_behind_its_renaming(lake: Lake) -> None:
    early = lake.stack.catalog().load_table(lake.table).metadata.snapshots[0].snapshot_id
    rename_bookmark(lake.declaration, "orders", "orders_v2", ANNA, lake.services())
    declare(lake, "bookmark: orders_v2")
    lake.put(DAY_2, "4.csv", csv(order(4)))
    lake.load()

    back = rewind_with_table(lake.declaration, "2", ANNA, lake.services())
    assert (back.state, back.bookmark_version, sorted(lake.rows())) == (State.COMMITTED, 6, [1, 2])
    assert lake.differences() == []

    catalog = lake.stack.catalog()
    table = catalog.load_table(lake.table)
    rolled = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=early)
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (rolled,))
    mended = rewind_to_table(lake.declaration, ANNA, lake.services())
    assert (mended.to_version, mended.bookmark_version, mended.to_read.count) == (1, 7, 3)
    assert lake.load().rows.inserted == 3
    assert (sorted(lake.rows()), lake.differences()) == ([1, 2, 3, 4], [])
