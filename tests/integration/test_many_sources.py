"""G8: several sources fill one table, each with a position of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.batch import BatchTask
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Receipt, State
from lakehouse.operate.dedupe import dedupe
from lakehouse.operate.hold import hold, release
from lakehouse.operate.operator_change import Operator
from lakehouse.position import find_position
from tests.lake import DAY_1, DAY_2, csv, order
from tests.many_sources import ManyLake

ANNA = Operator("anna@host", "the source is mended", "test")


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> ManyLake:
    return ManyLake(stack, tmp_path)


def part(receipt: Receipt, context: str) -> Receipt:
    return next(one for one in receipt.sources if one.context == context)


def versions(lake: ManyLake) -> dict[str, int]:
    services = lake.services()
    return {one.context: find_position(one, services).bookmark.version for one in lake.declaration.by_source}


def test_g08_each_source_has_a_position_of_its_own(lake: ManyLake) -> None:
    lake.land("eu", DAY_1, "a.csv", csv(order(1, "1.00"), order(2, "1.00")))
    lake.land("us", DAY_1, "a.csv", csv(order(2, "2.00", 5), order(3, "2.00")))
    receipt = lake.load()
    assert (receipt.state, receipt.exit_code, receipt.context) == (State.COMMITTED, 0, "eu, us")
    assert (receipt.rows.inserted, receipt.rows.updated, receipt.objects["read"]) == (3, 1, 2)
    assert receipt.table_rows == 3 and len(receipt.batches) == 2
    assert receipt.dates["2026-08-30"].objects == 2
    assert [(one.context, one.bookmark_version) for one in receipt.sources] == [("eu", 1), ("us", 1)]
    assert lake.amounts() == {1: "1.00", 2: "2.00", 3: "2.00"}, "the newest wins, whichever source it came from"
    lake.land("eu", DAY_2, "b.csv", csv(order(2, "9.00", 1), order(3, "9.00", 9)))
    second = lake.load()
    assert (part(second, "eu").rows.stale, part(second, "eu").rows.updated) == (1, 1)
    assert part(second, "us").state is State.NOTHING_TO_DO
    assert lake.amounts() == {1: "1.00", 2: "2.00", 3: "9.00"}
    assert versions(lake) == {"eu": 2, "us": 1}
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences(reread=True) == []
    assert not any("other writers" in warning for warning in second.warnings)
    ledger = [(b["context"], b["bookmark_version"]) for b in lake.ledger("batches")]
    assert sorted(ledger) == [("eu", 1), ("eu", 2), ("us", 1)]


def test_g08_a_tie_between_sources_is_broken_as_within_one(lake: ManyLake) -> None:
    """The same key and order value: object time, then uri decide, in whatever order the sources are loaded."""
    lake.land("us", DAY_1, "a.csv", csv(order(1, "2.00"), order(2, "2.00", 5)))
    lake.load()
    lake.land("eu", DAY_1, "a.csv", csv(order(1, "1.00"), order(2, "1.00")))
    lake.load()
    services = lake.services()
    eu, us = (
        next(iter(find_position(one, services).bookmark.seen.values())).object for one in lake.declaration.by_source
    )
    first = "1.00" if (eu.last_modified, eu.uri) > (us.last_modified, us.uri) else "2.00"
    assert lake.amounts() == {1: first, 2: "2.00"}
    assert lake.differences(reread=True) == []


def test_g08_one_failing_source_holds_back_none_of_the_others(lake: ManyLake) -> None:
    lake.declare("eu", "gone", "us", broken=("gone",))
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    lake.land("us", DAY_1, "a.csv", csv(order(2)))
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"], [one["state"] for one in receipt["sources"]]) == (
        2,
        "failed",
        ["committed", "failed", "committed"],
    )
    assert receipt["rows"]["inserted"] == 2 and "gone: " in receipt["error"] and "gone: " in errors
    code, found, errors = lake.said("diagnose", lake.table, "--json")
    assert [(one["context"], one["state"], one["exit_code"]) for one in found] == [
        ("gone", "failed before staging", 1),
        ("eu", "nothing in flight", 0),
        ("us", "nothing in flight", 0),
    ]
    assert (code, found[0]["next"]) == (1, f"lakehouse load {lake.table}") and "nowhere" in found[0]["why"]
    code, plans, errors = lake.cli("plan", lake.table, "--json")
    assert (code, [one["context"] for one in plans["sources"]]) == (2, ["eu", "gone", "us"])
    assert "nowhere" in errors and plans["sources"][0]["objects"]["consumed"] == 1
    code, found, errors = lake.cli("reconcile", lake.table, "--objects", "--json")
    assert (code, found["holds"], found["sources"][1]["exit_code"]) == (2, True, 2) and "gone: " in errors
    code, found, errors = lake.cli("bookmark", "reset", lake.table, "--all", "--reason", "again", "--json")
    states = [one["found"].get("state") or one["found"]["exit_code"] for one in found["sources"]]
    assert (code, states) == (2, ["committed", 2, "committed"]) and "gone: " in errors
    # a source that failed in the table's first load was declared then: it is not new when it comes back
    lake.declare("eu", "gone", "us")
    lake.land("gone", DAY_1, "a.csv", csv(order(3)))
    assert (lake.load().exit_code, len(lake.rows())) == (0, 3)
    assert lake.differences() == []


def test_g08_a_blocked_source_is_the_ending_of_the_load(lake: ManyLake) -> None:
    lake.gates = "max_rejected_ratio: 0.0"
    lake.write_declaration()
    lake.land("eu", DAY_1, "a.csv", csv("x,c,1.00,2026-08-30T10:00:00Z"))
    lake.land("us", DAY_1, "a.csv", csv(order(2)))
    receipt = lake.load()
    assert (receipt.exit_code, receipt.state) == (1, State.BLOCKED)
    assert "eu: gate max_rejected_ratio" in receipt.error
    assert {gate.name: gate.passed for gate in receipt.gates}["eu: max_rejected_ratio"] is False
    assert (part(receipt, "us").state, len(lake.rows())) == (State.COMMITTED, 1)
    code, rows, _ = lake.cli("rejects", "show", lake.table, "--json")
    assert (code, len(rows)) == (0, 1), rows
    code, found, _ = lake.cli("status", lake.table, "--json")
    assert {one["context"]: one["state"] for one in found} == {"eu": "blocked", "us": "committed"}


def test_g08_rejects_are_replayed_by_the_source_that_has_them(lake: ManyLake) -> None:
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    lake.land("us", DAY_1, "a.csv", csv(order(2), "x,c,1.00,2026-08-30T10:00:00Z"))
    receipt = lake.load()
    batch = part(receipt, "us").batches[0].batch_id
    code, rows, _ = lake.cli("rejects", "show", lake.table, "--json")
    assert (code, [row["batch_id"] for row in rows]) == (0, [batch])
    code, done, errors = lake.cli("rejects", "replay", lake.table, "--batch", batch, "--json")
    assert (code, done["context"], done["replay"]["context"]) == (0, "us", "us"), errors
    code, done, errors = lake.cli("rejects", "replay", lake.table, "--dry-run", "--json")
    assert (code, [one["context"] for one in done["sources"]]) == (0, ["eu", "us"]), errors
    code, _, errors = lake.cli("rejects", "replay", lake.table, "--batch", "nothing")
    assert code == 2 and "no batch of that id" in errors


def test_g08_commands_look_at_one_source_or_at_all(lake: ManyLake) -> None:
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    uri = lake.land("us", DAY_1, "a.csv", csv(order(2)))
    code, receipt, _ = lake.cli("load", lake.table, "--source", "eu", "--json")
    assert (code, receipt["context"], "sources" in receipt) == (0, "eu", False)
    assert versions(lake) == {"eu": 1, "us": 0}
    assert lake.cli("load", lake.table, "--json")[0] == 0
    code, found, _ = lake.cli("explain", uri, "--json")
    assert (code, found["context"], found["decision"]) == (0, "us", "consumed")
    code, change, _ = lake.cli("object", "reload", uri, "--reason", "x", "--json")
    assert (code, change["context"], change["bookmark_version"]) == (0, "us", 2)
    assert lake.load().rows.unchanged == 1
    code, shown, _ = lake.cli("bookmark", "show", lake.table, "--json")
    assert [(one["context"], one["found"]["bookmark_version"]) for one in shown["sources"]] == [("eu", 1), ("us", 3)]
    code, shown, _ = lake.cli("bookmark", "show", lake.table, "--source", "us", "--json")
    assert (code, shown["bookmark_version"]) == (0, 3)
    code, made, _ = lake.cli("bookmark", "history", lake.table, "--all", "--json")
    assert [len(one["found"]) for one in made["sources"]] == [1, 3]
    code, _, errors = lake.cli("bookmark", "diff", lake.table, "0", "1")
    assert code == 2 and "--source eu" in errors
    code, differing, _ = lake.cli("bookmark", "diff", lake.table, "0", "1", "--source", "us", "--json")
    assert (code, [one["uri"] for one in differing]) == (0, [uri])
    code, _, errors = lake.cli("load", lake.table, "--source", "uss")
    assert code == 2 and "did you mean us?" in errors
    code, rows, _ = lake.cli("files", lake.table, "--json")
    assert (code, {row["context"] for row in rows}) == (0, {"eu", "us"})
    assert len(lake.cli("batches", lake.table, "--source", "eu", "--json")[1]) == 1
    code, found, _ = lake.cli("reconcile", lake.table, "--objects", "--json")
    assert (code, found["complete"], [one["context"] for one in found["sources"]]) == (0, True, ["eu", "us"])
    code, found, _ = lake.cli("arrivals", lake.table, "--json")
    assert (code, [one["found"]["objects"] for one in found["sources"]]) == (0, [1, 1])
    assert lake.cli("ledger", "rebuild", lake.table)[0] == 0
    assert len(lake.ledger("files")) == 4
    code, _, errors = lake.cli("load", lake.table, "--mode", "no-advance", "--from-batch", "0", "--to-batch", "1")
    assert code == 2 and "--source eu" in errors


def test_g08_a_hold_stops_every_source_also_one_that_comes_later(lake: ManyLake) -> None:
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    lake.load()
    done = hold(lake.declaration, ANNA, lake.services())
    assert (done.context, done.state) == ("eu", State.COMMITTED)
    lake.declare("eu", "us", "asia")
    lake.land("asia", DAY_1, "a.csv", csv(order(2)))
    receipt = lake.load()
    assert [one.state for one in receipt.sources] == [State.HELD] * 3
    assert release(lake.declaration, ANNA, lake.services()).held is None
    assert [one.state for one in lake.load().sources] == [State.NOTHING_TO_DO, State.NOTHING_TO_DO, State.BLOCKED]


def test_g09_a_source_that_is_added_later_is_accepted_once(lake: ManyLake) -> None:
    lake.declare("eu")
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.declare("eu", "us")
    lake.land("us", DAY_1, "a.csv", csv(order(2)))
    receipt = lake.load()
    assert (receipt.exit_code, part(receipt, "eu").state) == (2, State.NOTHING_TO_DO)
    assert "us: table" in receipt.error and "no bookmark for us; 1 object would be re-read" in receipt.error
    assert receipt.next == f"lakehouse load {lake.table} --source us --accept-new   # reads them"
    accepted = ingest(lake.declaration, LoadRequest(accept_new=True, run_id="test"), lake.services())
    assert (accepted.exit_code, accepted.rows.inserted) == (0, 1)
    assert (lake.load().state, lake.differences()) == (State.NOTHING_TO_DO, [])


def test_g09_a_source_that_is_not_declared_any_more_keeps_its_rows_in_the_count(lake: ManyLake) -> None:
    lake.land("eu", DAY_1, "a.csv", csv(order(1), order(2)))
    lake.land("us", DAY_1, "a.csv", csv(order(2, "2.00", 5), order(3)))
    lake.load()
    lake.declare("eu")
    lake.land("eu", DAY_2, "b.csv", csv(order(3, "3.00", 9)))
    assert lake.load().rows.updated == 1
    assert lake.differences(reread=True) == []


def test_g08_another_source_may_commit_between_plan_and_publish(
    lake: ManyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser plans again on the new head: the other's row is matched, not doubled."""
    import lakehouse.ingest as module

    lake.land("eu", DAY_1, "a.csv", csv(order(1, "1.00", 1)))
    lake.load()
    lake.land("eu", DAY_1, "b.csv", csv(order(2, "1.00", 1)))
    lake.land("us", DAY_1, "b.csv", csv(order(2, "2.00", 2)))
    real: Callable[..., Any] = module.run_batch
    others = [lake.declaration.by_source[1]]
    raced: list[Receipt] = []

    def run_batch(task: BatchTask, **rest: Any) -> Any:
        if others:
            raced.append(without_lease(others.pop(), lake))
        return real(task, **rest)

    monkeypatch.setattr(module, "run_batch", run_batch)
    receipt = ingest(lake.declaration.by_source[0], LoadRequest(run_id="test"), lake.services())
    assert (receipt.state, receipt.rows.stale, raced[0].state) == (State.COMMITTED, 1, State.COMMITTED)
    assert lake.amounts() == {1: "1.00", 2: "2.00"}
    assert (versions(lake), lake.differences()) == ({"eu": 2, "us": 1}, [])


def without_lease(declaration: Any, lake: ManyLake) -> Receipt:
    """A load of another process whose lease was taken over."""
    services = lake.services()
    lease = next(item for item in services.state.list("") if item.uri.endswith("lease.json"))
    services.state.delete(services.state.key(lease.uri))
    return ingest(declaration, LoadRequest(run_id="other"), services)


def test_g08_a_row_that_one_source_deleted_stays_deleted_for_the_others(lake: ManyLake) -> None:
    lake.more = "delete_when: \"customer_id = 'D'\""
    lake.write_declaration()
    lake.land("eu", DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.land("us", DAY_2, "d.csv", csv("1,D,1.00,2026-08-31T10:00:00Z"))
    lake.load()
    lake.land("eu", DAY_2, "late.csv", csv(order(1, "7.00", 3)))
    receipt = lake.load()
    assert (receipt.rows.stale, lake.rows()) == (1, {})
    assert lake.differences(reread=True) == []


def test_g08_upkeep_of_the_table_goes_under_one_bookmark(lake: ManyLake) -> None:
    lake.land("us", DAY_1, "a.csv", csv(order(1)))
    lake.load()
    table = lake.stack.catalog().load_table(lake.table)
    table.append(table.scan().to_arrow())
    done = dedupe(lake.declaration, lake.services(), ANNA)
    assert (done.context, done.removed, len(lake.rows())) == ("us", 1, 1)


def test_g08_an_adopted_table_counts_its_baseline_once(lake: ManyLake) -> None:
    lake.declare("old")
    lake.land("old", DAY_1, "a.csv", csv(order(1), order(2)))
    lake.load()
    catalog = lake.stack.catalog()
    rows = catalog.load_table(lake.table).scan().to_arrow()
    taken = ManyLake(lake.stack, lake.folder / "taken")
    catalog.create_namespace(taken.name)
    catalog.create_table(taken.table, rows.schema).append(rows)
    assert taken.cli("adopt", taken.table)[0] == 0
    taken.land("eu", DAY_1, "a.csv", csv(order(1, "5.00", 5), order(3)))
    taken.land("us", DAY_1, "a.csv", csv(order(4)))
    assert [one.exit_code for one in taken.load().sources] == [0, 2]
    accepted = ingest(taken.declaration, LoadRequest(accept_new=True, run_id="test"), taken.services())
    assert (accepted.exit_code, len(taken.rows()), taken.differences()) == (0, 4, [])


def test_g08_the_sources_of_a_narrowed_declaration_are_still_known(lake: ManyLake) -> None:
    (_, us) = lake.declaration.by_source
    assert (us.contexts, us.sources[0].bookmark) == (("eu", "us"), "us")
    with pytest.raises(ValueError):
        _ = lake.declaration.source
