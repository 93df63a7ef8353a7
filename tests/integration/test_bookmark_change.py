"""`lakehouse bookmark reset|rewind|set` on the real stack: what is read again, what table, counts and ledger say
(BOOKMARKS G33, G34; field cases D20, D21)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.audit.bookmark_history import differences, standing_at
from lakehouse.audit.object_history import explain_object
from lakehouse.bookmark import RELOAD, SKIP
from lakehouse.errors import LeaseHeld, UsageError
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.ledger import BATCHES, FILES
from lakehouse.model import Decision, State
from lakehouse.operate.bookmark_change import reset_bookmark, rewind_bookmark, set_bookmark
from lakehouse.operate.object_change import change_object
from lakehouse.operate.operator_change import Operator, lease_of
from tests.evolving_lake import at_step, failure
from tests.fault.test_crash import free_lease
from tests.lake import DAY_1, DAY_2, Lake, csv, order, uris

ANNA = Operator("anna@host", "a new mapping", "test")
UNKEYED = "  key: [order_id]\n  order_by: [order_time]\n"

Make = Callable[[str], Lake]


@pytest.fixture
def make(stack: Any, tmp_path: Path) -> Make:
    def make(write: str, source: str = "") -> Lake:
        lake = Lake(stack, tmp_path, more=f"write: {write}", source=source)
        if write == "append":
            lake.write_declaration(lake.declaration_text().replace(UNKEYED, ""))
        return lake

    return make


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def names(objects: Any) -> list[str]:
    return [uri.rpartition("/")[2] for uri in objects.first]


@pytest.mark.parametrize("write", ["upsert", "append", "replace_partition", "snapshot"])
def test_g33_a_reset_reads_everything_again_and_changes_no_row(make: Make, write: str) -> None:
    lake = make(write)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_1, "b.csv", csv(order(3), order(4)))
    lake.load()
    before = lake.rows()

    dry = reset_bookmark(lake.declaration, ANNA, lake.services(), dry_run=True)
    assert (dry.state, dry.dry_run, dry.bookmark_version, dry.snapshot_id is None) == (
        State.NOTHING_TO_DO, True, 1, False,
    )  # fmt: skip
    assert (dry.to_read.count, dry.again, dry.to_read.dates, names(dry.to_read)) == (
        2, 2, {"2026-08-30": 2}, ["a.csv", "b.csv"],
    )  # fmt: skip
    assert (lake.version(), uris(lake.plan())) == (1, [])

    done = reset_bookmark(lake.declaration, ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.to_read, done.ledger) == (State.COMMITTED, 2, dry.to_read, "ok")
    assert done.next == f"lakehouse load {lake.table}"
    assert (lake.rows(), uris(lake.plan())) == (before, ["a.csv", "b.csv"])
    assert standing_at(lake.declaration, lake.services()).consumed == 0
    assert {d.how for d in differences(lake.declaration, lake.services(), "1", "2")} == {"removed"}

    receipt = lake.load()
    assert (receipt.state, receipt.objects["read"], receipt.bookmark_version) == (State.COMMITTED, 2, 3)
    assert {key: row["amount"] for key, row in lake.rows().items()} == {k: r["amount"] for k, r in before.items()}
    if write in ("upsert", "snapshot"):
        assert (receipt.rows.unchanged, receipt.rows.inserted, receipt.rows.updated) == (4, 0, 0)
        assert (receipt.files.added, receipt.files.delete_files) == (0, 0)
    else:
        assert (receipt.rows.inserted, receipt.rows.replaced) == (4, 4)
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences(reread=True) == []
    assert [(b["kind"], b["reason"], b["author"]) for b in lake.ledger(BATCHES)][1] == (
        "bookmark-reset", "a new mapping", "anna@host",
    )  # fmt: skip


def test_g33_a_reset_of_nothing_publishes_nothing(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    done = reset_bookmark(lake.declaration, ANNA, lake.services())
    assert (done.state, done.to_read.count, done.again) == (State.NOTHING_TO_DO, 1, 0)
    lake.load()
    reset_bookmark(lake.declaration, ANNA, lake.services())
    again = reset_bookmark(lake.declaration, ANNA, lake.services())
    assert (again.state, again.bookmark_version, again.again) == (State.NOTHING_TO_DO, 2, 1)
    assert "nothing is seen" in again.warnings[0]


def test_g33_a_skip_and_a_hold_outlive_a_reset(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    skipped = lake.put(DAY_1, "b.csv", csv(order(2)))
    lake.load()
    change_object(lake.declaration, skipped, SKIP, ANNA, lake.services())
    assert lake.said("hold", lake.table, "--reason", "x")[0] == 0
    done = reset_bookmark(lake.declaration, ANNA, lake.services())
    assert names(done.to_read) == ["a.csv"]
    assert lake.load().state is State.HELD
    assert lake.said("release", lake.table, "--reason", "x")[0] == 0
    assert (lake.load().objects["read"], set(lake.amounts())) == (1, {1, 2})
    assert lake.differences() == []


def test_a_date_that_lost_an_object_is_not_replaced_after_a_reset(make: Make) -> None:
    lake = make("replace_partition")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    gone = lake.put(DAY_1, "b.csv", csv(order(2)))
    lake.load()
    lake.stack.s3.delete_object(Bucket="landing", Key=gone.removeprefix("s3://landing/"))
    done = reset_bookmark(lake.declaration, ANNA, lake.services())
    assert f"1 object was read and is not listed any more: what the table has of them stays, the first: {gone}" in (
        done.warnings
    )
    assert lake.load().state is State.BLOCKED
    request = LoadRequest(accept_missing=True)
    assert ingest(lake.declaration, request, lake.services()).rows.replaced == 2
    assert (set(lake.amounts()), lake.differences()) == ({1}, [])


def test_an_older_date_is_no_newest_one_after_a_reset(make: Make) -> None:
    """The newest date of a snapshot feed was read and is gone: what it said stays the truth."""
    lake = make("snapshot")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    gone = lake.put(DAY_2, "b.csv", csv(order(1, "2.00", 1), order(2)))
    lake.load()
    lake.stack.s3.delete_object(Bucket="landing", Key=gone.removeprefix("s3://landing/"))
    reset_bookmark(lake.declaration, ANNA, lake.services())
    receipt = lake.load()
    assert (receipt.state, receipt.rows.vanished, lake.amounts()) == (State.COMMITTED, 0, {1: "2.00", 2: "1.00"})
    assert lake.differences() == []


def test_what_was_retracted_and_deleted_stays_so_after_a_reset(stack: Any, tmp_path: Path) -> None:
    text = "delete_when: \"customer_id = 'gone'\""
    lake = Lake(stack, tmp_path, more=text, source="on_overwrite: retract")
    lake.put(DAY_1, "a.csv", csv(order(1), order(2), order(3)))
    lake.load()
    lake.put(DAY_1, "a.csv", csv(order(1), order(3)))
    lake.put(DAY_2, "b.csv", csv("3,gone,1.00,2026-08-31T10:00:00Z"))
    lake.load()
    assert set(lake.amounts()) == {1}
    reset_bookmark(lake.declaration, ANNA, lake.services())
    receipt = lake.load()
    assert (receipt.state, set(lake.amounts()), receipt.rows.inserted) == (State.COMMITTED, {1}, 0)
    assert lake.differences(reread=True) == []


@pytest.mark.parametrize("write", ["upsert", "append", "replace_partition", "snapshot"])
def test_g34_a_rewind_sees_what_was_seen_after_a_batch(make: Make, write: str) -> None:
    lake = make(write)
    lake.put(DAY_1, "a.csv", csv(order(1)))
    first = lake.load().batches[0].batch_id
    lake.put(DAY_1, "a.csv", csv(order(1, "2.00", 1)))
    lake.put(DAY_2, "b.csv", csv(order(1, "2.00", 1), order(2)) if write == "snapshot" else csv(order(2)))
    lake.load()
    before = lake.amounts()
    if write == "append":
        lake.put(DAY_2, "b.csv", csv(order(2, "5.00")))

    done = rewind_bookmark(lake.declaration, first, ANNA, lake.services())
    assert (done.state, done.to_version, done.bookmark_version, done.again) == (State.COMMITTED, 1, 3, 2)
    assert (names(done.to_read), lake.amounts()) == (["a.csv", "b.csv"], before)
    assert [d.uri for d in differences(lake.declaration, lake.services(), "1", "3")] == []
    receipt = lake.load()
    assert (receipt.objects["read"], receipt.bookmark_version) == (2, 4)
    assert lake.amounts() == (before | {2: "5.00"} if write == "append" else before)
    assert lake.differences(reread=True) == []

    again = rewind_bookmark(lake.declaration, "4", ANNA, lake.services())
    assert (again.state, again.warnings) == (State.NOTHING_TO_DO, ("nothing more is seen than after version 4",))
    assert names(rewind_bookmark(lake.declaration, "0", ANNA, lake.services()).to_read) == ["a.csv", "b.csv"]
    error = failure(lambda: rewind_bookmark(lake.declaration, "9", ANNA, lake.services()))
    assert isinstance(error, UsageError) and "no such version or batch" in error.message


def test_g34_a_request_that_was_carried_out_since_stands_again(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    change_object(lake.declaration, uri, RELOAD, ANNA, lake.services())
    lake.load()
    done = rewind_bookmark(lake.declaration, "2", ANNA, lake.services())
    assert (done.state, names(done.to_read)) == (State.COMMITTED, ["a.csv"])
    assert lake.load().rows.unchanged == 1


@pytest.mark.parametrize("write", ["upsert", "append", "replace_partition", "snapshot"])
def test_set_to_now_counts_what_is_there_as_done(make: Make, write: str) -> None:
    lake = make(write, "ready: {marker: _SUCCESS}")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "_SUCCESS", b"")
    lake.load()
    uri = lake.put(DAY_1, "b.csv", csv(order(2)))
    waiting = lake.put(DAY_2, "c.csv", csv(order(3)))
    early = lake.put(DAY_1.replace(day=1), "early.csv", csv(order(4)))

    done = set_bookmark(lake.declaration, "now", ANNA, lake.services())
    assert (done.state, names(done.marked), done.to_read.count) == (State.COMMITTED, ["b.csv", "c.csv"], 0)
    assert (lake.load().state, set(lake.amounts())) == (State.NOTHING_TO_DO, {1})
    decided = {d.object.uri: d.decision for d in lake.plan().decisions}
    assert (decided[uri], decided[waiting], decided[early]) == (
        Decision.CONSUMED, Decision.CONSUMED, Decision.OUTSIDE_WINDOW,
    )  # fmt: skip
    assert lake.plan().warnings == ()
    event = explain_object(lake.declaration, uri, lake.services()).events[0]
    assert (event.what, event.author, event.decision, event.rows_read) == ("bookmark-set", "anna@host", "consumed", 0)
    assert event.reason == "set to now by anna@host, not read: a new mapping"
    assert [f["decision"] for f in lake.ledger(FILES) if f["uri"] == uri] == ["consumed"]
    assert lake.differences(reread=True) == []
    again = set_bookmark(lake.declaration, "now", ANNA, lake.services())
    assert (again.state, again.bookmark_version) == (State.NOTHING_TO_DO, 2)

    lake.put(DAY_1, "d.csv", csv(order(5)))
    lake.load()
    # a date that is read as a whole is, with what was set
    assert set(lake.amounts()) == ({1, 2, 5} if write == "replace_partition" else {1, 5})
    assert lake.differences(reread=True) == []
    error = failure(lambda: set_bookmark(lake.declaration, "1", ANNA, lake.services()))
    assert isinstance(error, UsageError) and "bookmark rewind" in error.next


def test_set_before_the_first_load_makes_the_table(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert set_bookmark(lake.declaration, "now", ANNA, lake.services()).bookmark_version == 1
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert (lake.load().rows.inserted, set(lake.amounts())) == (1, {2})


def test_a_change_waits_for_a_load_that_runs(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    services = lake.services(lease_wait=0.0)
    with lease_of(lake.declaration, ANNA, services, step="load"), pytest.raises(LeaseHeld):
        reset_bookmark(lake.declaration, ANNA, services)

    lake.put(DAY_1, "b.csv", csv(order(2)))
    started, done = threading.Event(), []

    def reset() -> None:
        started.set()
        done.append(reset_bookmark(lake.declaration, ANNA, lake.services()))

    beside = threading.Thread(target=reset)
    services = lake.services()

    def start() -> None:
        beside.start()
        started.wait()

    receipt = ingest(lake.declaration, LoadRequest(), lake.services(progress=at_step(services, "merge", start)))
    beside.join()
    assert (receipt.state, [(d.bookmark_version, d.again) for d in done]) == (State.COMMITTED, [(3, 2)])


def test_a_set_that_lost_against_a_load_is_decided_again(lake: Lake) -> None:
    """Without the lease: the commit alone keeps them apart."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    services = lake.services()
    commit = services.catalog.commit_table

    def commit_after_a_load(*args: Any, **kwargs: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        free_lease(lake)
        assert lake.load().state is State.COMMITTED
        lake.put(DAY_1, "b.csv", csv(order(2)))
        return commit(*args, **kwargs)

    services.catalog.commit_table = commit_after_a_load  # type: ignore[method-assign]
    done = set_bookmark(lake.declaration, "now", ANNA, services)
    assert (done.state, done.bookmark_version, names(done.marked)) == (State.COMMITTED, 2, ["b.csv"])
    assert (lake.load().state, lake.amounts()) == (State.NOTHING_TO_DO, {1: "1.00"})
    assert lake.differences(reread=True) == []


def test_the_command_line(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    assert lake.said("bookmark", "reset", lake.table)[0] == 2
    assert lake.said("bookmark", "reset", lake.table, "--reason", " ")[0] == 2
    assert lake.said("bookmark", "rewind", lake.table, "--reason", "x")[0] == 2
    assert lake.said("bookmark", "rewind", lake.table, "--to-batch", "1", "--to-table", "--reason", "x")[0] == 2
    code, dry, _ = lake.said("bookmark", "reset", lake.table, "--reason", "x", "--dry-run", "--json")
    assert (code, dry["dry_run"], dry["state"], dry["to_read"]["count"]) == (0, True, "nothing_to_do", 1)
    code, _, out = lake.said("bookmark", "reset", lake.table, "--reason", "a new mapping")
    assert (code, "1 objects" in out, "1 of them again" in out, "a.csv" in out) == (0, True, True, True)
    code, done, _ = lake.said("bookmark", "set", lake.table, "--to", "now", "--reason", "x", "--json")
    assert (code, done["state"], done["marked"]["count"], done["bookmark_version"]) == (0, "committed", 1, 3)
    code, done, _ = lake.said("bookmark", "rewind", lake.table, "--to-batch", "2", "--reason", "x", "--json")
    assert (code, done["state"], done["to_version"]) == (0, "committed", 2)
    code, history, _ = lake.said("bookmark", "history", lake.table, "--json")
    assert [change["kind"] for change in history] == ["bookmark-rewind", "bookmark-set", "bookmark-reset", "load"]
    assert history[1]["author"] and history[1]["consumed"] == 1
