"""`lakehouse object skip|release|reload` on the real stack: what the plan, the table, the ledger and the checks say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.bookmark import RELEASE, RELOAD, SKIP
from lakehouse.errors import LeaseHeld, UsageError
from lakehouse.ledger import BATCHES, FILES
from lakehouse.model import Decision, Mode, State
from lakehouse.operate.object_change import ObjectChange, change_object
from lakehouse.orchestration.verdicts import complete_verdict
from tests.evolving_lake import OPERATOR, at_step, failure
from tests.fault.test_crash import free_lease
from tests.lake import DAY_1, DAY_2, Lake, SaidBy, csv, order

POISON = b"who,knows\n1,2\n"
WRITES = {
    "upsert": "",
    "append": "  key: [order_id]\n  order_by: [order_time]\n",
    "snapshot": "",
    "replace_partition": "",
}


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


Make = Callable[[str], Lake]


@pytest.fixture
def make(stack: Any, tmp_path: Path) -> Make:
    def make(write: str) -> Lake:
        lake = Lake(stack, tmp_path, more=f"write: {write}")
        if drop := WRITES[write]:
            lake.write_declaration(lake.declaration_text().replace(drop, ""))
        return lake

    return make


def decide(lake: Lake, kind: str, uri: str, **how: Any) -> ObjectChange:
    return change_object(lake.declaration, uri, kind, OPERATOR, how.pop("services", lake.services()), **how)


def said(lake: Lake, uri: str) -> tuple[Decision, str]:
    (found,) = [(d.decision, d.reason) for d in lake.plan().decisions if d.object.uri == uri]
    return found


def test_a_poison_file_is_skipped_and_released_from_the_command_line(lake: Lake, said_by: SaidBy) -> None:
    poison = lake.put(DAY_1, "poison.csv", POISON)
    lake.put(DAY_1, "good.csv", csv(order(1)))
    assert lake.load().exit_code == 1

    code, dry = said_by(lake, "object", "skip", poison, "--reason", "broken export", "--dry-run", "--json")
    assert (code, dry["state"], dry["dry_run"], dry["bookmark_version"]) == (0, "nothing_to_do", True, 1)
    ((change,),) = [dry["objects"]]
    assert (change["before"], change["after"]) == ("quarantined", "skipped")
    assert (lake.version(), lake.snapshots()) == (1, 1)

    code, done, errors = lake.cli("object", "skip", poison, "--reason", "broken export", "--json")
    assert (code, done["state"], done["bookmark_version"], done["ledger"]) == (0, "committed", 2, "ok"), errors
    assert (done["reason"], done["next"]) == ("broken export", f"lakehouse plan {lake.table} --partition {DAY_1}")
    decision, reason = said(lake, poison)
    assert (decision, reason) == (Decision.SKIPPED, f"skipped by {done['author']}: broken export")
    receipt = lake.load(mode=Mode.FULL)
    assert (receipt.exit_code, receipt.objects["skipped"], receipt.objects["read"]) == (0, 1, 1)
    assert f"1 object is skipped by an operator, the first: {poison}: {reason}" in receipt.warnings
    verdict = complete_verdict(lake.plan())
    assert (verdict.passed, verdict.description) == (
        True,
        "listed 2 = consumed or ignored 1 + skipped by an operator 1",
    )
    assert lake.differences(reread=True) == []

    again = decide(lake, SKIP, poison)
    assert (again.state, again.bookmark_version) == (State.NOTHING_TO_DO, 3)
    code, done = said_by(lake, "object", "release", poison, "--reason", "it is repaired", "--json")
    assert (code, done["state"], done["next"]) == (0, "committed", f"lakehouse load {lake.table} --partition {DAY_1}")
    assert said(lake, poison)[0] is Decision.PLANNED
    assert lake.load().exit_code == 1, "it is quarantined again"
    assert said(lake, poison)[0] is Decision.QUARANTINED
    assert lake.amounts() == {1: "1.00"}
    told = [(f["bookmark_version"], f["decision"]) for f in lake.ledger(FILES) if f["uri"] == poison]
    assert sorted(told) == [(1, "quarantined"), (2, "skipped"), (4, "planned"), (5, "quarantined")]
    changes = {b["bookmark_version"]: b for b in lake.ledger(BATCHES)}
    assert (changes[2]["kind"], changes[2]["reason"], changes[2]["objects"]) == ("object-skip", "broken export", 1)
    assert (changes[4]["kind"], changes[4]["rows_read"], changes[4]["advance"]) == ("object-release", 0, True)
    assert lake.differences() == []


def test_a_first_batch_that_a_gate_blocks_loads_without_the_skipped_object(stack: Any, tmp_path: Path) -> None:
    """There is no table yet: the decision makes it."""
    lake = Lake(stack, tmp_path, gates="max_rejected_ratio: 0.0")
    bad = lake.put(DAY_1, "bad.csv", csv(order("x"), order(2)))
    lake.put(DAY_1, "good.csv", csv(order(1)))
    assert lake.load().state is State.BLOCKED
    assert decide(lake, SKIP, bad).bookmark_version == 1
    receipt = lake.load()
    assert (receipt.state, receipt.bookmark_version, lake.amounts()) == (State.COMMITTED, 2, {1: "1.00"})
    lake.put(DAY_1, "bad.csv", csv(order(3)))
    assert lake.load().rows.inserted == 1, "a new version of the key is read"
    assert lake.differences(reread=True) == []


@pytest.mark.parametrize("write", ["upsert", "append", "snapshot", "replace_partition"])
def test_a_reload_reads_again_and_changes_no_row(make: Make, write: str) -> None:
    lake = make(write)
    uri = lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_1, "b.csv", csv(order(3)))
    lake.load()
    before = lake.rows()
    assert decide(lake, RELOAD, uri).bookmark_version == 2
    assert decide(lake, RELOAD, uri).state is State.NOTHING_TO_DO
    assert said(lake, uri) == (Decision.PLANNED, "to be read again by ann@host: it is ours now")
    receipt = lake.load()
    whole = write in ("snapshot", "replace_partition")
    assert (receipt.state, receipt.objects["read"]) == (State.COMMITTED, 2 if whole else 1)
    if write in ("upsert", "snapshot"):
        assert receipt.rows.unchanged == receipt.rows.read and receipt.files.added == 0
    assert {k: r["amount"] for k, r in lake.rows().items()} == {k: r["amount"] for k, r in before.items()}
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences(reread=True) == []


def test_a_date_is_replaced_without_its_skipped_object(make: Make) -> None:
    """What was quarantined kept the date waiting; the rows of an older version of it go, as was told."""
    lake = make("replace_partition")
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    lake.load()
    lake.put(DAY_1, "a.csv", POISON)
    assert lake.load().exit_code == 1
    lake.put(DAY_1, "c.csv", csv(order(3)))
    assert lake.load().objects["deferred"] == 1
    done = decide(lake, SKIP, uri)
    assert "is replaced without this object from now on: rows of it" in done.warnings[0]
    assert set(lake.amounts()) == {1, 2}
    assert lake.plan().warnings[1] == f"{DAY_1} is replaced without its skipped objects"
    receipt = lake.load()
    assert (receipt.state, set(lake.amounts())) == (State.COMMITTED, {2, 3})
    assert lake.load().state is State.NOTHING_TO_DO
    assert lake.differences(reread=True) == []


def test_a_snapshot_with_a_skipped_object_takes_no_row_away(make: Make) -> None:
    lake = make("snapshot")
    lake.put(DAY_1, "a.csv", csv(*(order(n) for n in range(1, 21))))
    lake.load()
    lake.put(DAY_2, "a.csv", csv(*(order(n, "2.00", 5) for n in range(1, 19))))
    uri = lake.put(DAY_2, "b.csv", POISON)
    decide(lake, SKIP, uri)
    receipt = lake.load()
    assert (receipt.exit_code, receipt.rows.updated, receipt.rows.vanished) == (0, 18, 0)
    assert any("input_date=2026-08-31/b.csv is skipped" in text for text in receipt.warnings), receipt.warnings
    lake.put(DAY_2, "b.csv", csv(order(19, "2.00", 5)))
    assert lake.load().rows.vanished == 1
    assert lake.differences(reread=True) == []


def test_what_cannot_be_decided_exits_with_2_and_says_what_is_near(lake: Lake, said_by: SaidBy) -> None:
    uri = lake.put(DAY_1, "orders.csv", csv(order(1)))
    other = lake.put(DAY_1, "notes.txt", b"x")
    lake.load()
    for arguments, text in (
        (("skip", uri.replace("orders.csv", "order.csv")), f"near is {uri}"),
        (("skip", other), "ignored, so there is nothing to skip"),
        (("release", uri), f"lakehouse object reload {uri}"),
        (("skip", "s3://landing/nobody/a.csv"), "no declared source holds"),
        (("reload", uri, "--table", "no.table"), "no declaration of table=no.table"),
    ):
        code, told = said_by(lake, "object", *arguments, "--reason", "x", "--json")
        assert code == 2 and text in told["error"] + told["next"], (arguments, told)
    code, told = said_by(lake, "object", "skip", uri, "--json")
    assert code == 2 and "--reason" in told["error"]
    code, told = said_by(lake, "object", "skip", uri, "--reason", " ", "--json")
    assert code == 2 and "--reason is empty" in told["error"]
    lake.stack.s3.delete_object(Bucket="landing", Key=uri.removeprefix("s3://landing/"))
    assert "not listed any more" in failure(lambda: decide(lake, RELOAD, uri)).message
    assert lake.version() == 1


def test_an_object_of_several_tables_needs_the_table(lake: Lake, said_by: SaidBy) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    again = lake.declaration_text().replace(f"table: {lake.table}", f"table: {lake.name}.others")
    lake.write_declaration(lake.declaration_text() + "---\n" + again)
    code, told = said_by(lake, "object", "skip", uri, "--reason", "x", "--json")
    assert code == 2 and "say which with --table" in told["error"], told
    code, told = said_by(lake, "object", "skip", uri, "--reason", "x", "--table", lake.table, "--json")
    assert (code, told["table"], told["objects"][0]["before"]) == (0, lake.table, "planned")


def test_a_decision_can_be_taken_back_for_an_object_that_is_gone(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    decide(lake, SKIP, uri)
    lake.stack.s3.delete_object(Bucket="landing", Key=uri.removeprefix("s3://landing/"))
    assert isinstance(failure(lambda: decide(lake, SKIP, uri)), UsageError)
    assert decide(lake, RELEASE, uri).state is State.COMMITTED
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert lake.load().rows.inserted == 1


def test_a_decision_waits_for_the_load_and_exits_with_3(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    errors: list[Any] = []

    def meanwhile() -> None:
        services = lake.services(lease_wait=0.0)
        errors.append(failure(lambda: decide(lake, SKIP, uri, services=services)))

    services = lake.services()
    lake.load(services=lake.services(progress=at_step(services, "merge", meanwhile)))
    assert isinstance(errors[0], LeaseHeld) and errors[0].exit_code == 3
    assert (lake.version(), lake.amounts()) == (1, {1: "1.00"})


def test_a_load_that_lost_against_a_skip_plans_again_without_the_object(lake: Lake) -> None:
    """Without the lease: the commit alone keeps them apart."""
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    services = lake.services()
    commit = services.catalog.commit_table

    def commit_after_a_skip(*args: Any, **kwargs: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        free_lease(lake)
        assert decide(lake, SKIP, uri).state is State.COMMITTED
        return commit(*args, **kwargs)

    services.catalog.commit_table = commit_after_a_skip  # type: ignore[method-assign]
    receipt = lake.load(services=services)
    assert (receipt.state, receipt.objects["read"], receipt.objects["skipped"]) == (State.COMMITTED, 1, 1)
    assert lake.amounts() == {2: "1.00"}
    assert lake.differences(reread=True) == []


def test_a_skip_that_lost_against_a_load_is_decided_again(lake: Lake) -> None:
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    services = lake.services()
    commit = services.catalog.commit_table

    def commit_after_a_load(*args: Any, **kwargs: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        free_lease(lake)
        assert lake.load().state is State.COMMITTED
        return commit(*args, **kwargs)

    services.catalog.commit_table = commit_after_a_load  # type: ignore[method-assign]
    done = decide(lake, SKIP, uri, services=services)
    assert (done.state, done.bookmark_version, done.objects[0].before) == (State.COMMITTED, 2, Decision.CONSUMED)
    assert "rows of it that the table has stay there" in done.warnings[0]
    assert lake.amounts() == {1: "1.00"}
    assert lake.load(mode=Mode.FULL).state is State.NOTHING_TO_DO


def test_an_old_object_whose_deletes_are_forgotten_is_warned_about(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, more="delete_when: amount is null")
    uri = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    assert decide(lake, RELOAD, uri, dry_run=True).warnings == ()
    later = lake.services(now=lambda: datetime.now(UTC) + timedelta(days=11))
    (warning,) = decide(lake, RELOAD, uri, services=later, dry_run=True).warnings
    assert f"rows of {uri} that other objects have deleted come back" in warning
