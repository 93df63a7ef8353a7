"""`lakehouse gate accept`: exactly the batch that was refused passes, once, and everything shows who let it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.load import print_receipt
from lakehouse.errors import LeaseHeld, UsageError
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.ledger import BATCHES
from lakehouse.model import Mode, Receipt, State, Window
from lakehouse.operate.gate_accept import GateAcceptance, accept_gate
from lakehouse.operate.object_change import change_object
from lakehouse.operate.operator_change import lease_of
from lakehouse.orchestration.metadata import load_metadata, read_gates
from lakehouse.orchestration.verdicts import gates_verdict
from lakehouse.position import find_position
from lakehouse.receipt import receipt_json
from tests.evolving_lake import OPERATOR, failure
from tests.lake import DAY_1, DAY_2, Lake, SaidBy, csv, order, slow_down

REJECTED = "max_rejected_ratio"


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path, gates="max_rejected_ratio: 0.1, max_duplicate_ratio: 0.1")


def block(lake: Lake, day: Any = DAY_1, name: str = "bad.csv", *, number: int = 1) -> Receipt:
    """Land a file of one good row and one reject, and load."""
    lake.put(day, name, csv(order(number), order("", "1.00")))
    receipt = lake.load()
    assert receipt.state is State.BLOCKED
    return receipt


def accept(lake: Lake, receipt: Receipt, gate: str = REJECTED, **how: Any) -> GateAcceptance:
    batch_id = receipt.batches[-1].batch_id
    return accept_gate(lake.declaration, batch_id, gate, OPERATOR, how.pop("services", lake.services()), **how)


def accepted_in_bookmark(lake: Lake) -> int:
    return len(find_position(lake.declaration, lake.services()).bookmark.accepted)


def test_the_named_command_lets_the_batch_pass(lake: Lake, said_by: SaidBy, capsys: pytest.CaptureFixture[str]) -> None:
    """The table does not exist yet: the decision makes it."""
    receipt = block(lake)
    batch_id = receipt.batches[0].batch_id
    command = f"lakehouse gate accept {batch_id} {REJECTED} --reason TEXT"
    assert receipt.next == f"lakehouse rejects show {lake.table} --batch {batch_id}; correct the files, or {command}"
    code, (status,) = said_by(lake, "status", lake.table, "--json")
    assert (code, status["state"], status["next"]) == (0, "blocked", receipt.next)

    words = shlex.split(command)[1:-1]
    code, dry = said_by(lake, *words, "the sender knows of it", "--dry-run", "--json")
    assert (code, dry["state"], dry["dry_run"], dry["value"], dry["limit"]) == (0, "nothing_to_do", True, 0.5, 0.1)
    assert not lake.stack.catalog().table_exists(lake.table)
    assert said_by(lake, *words, "the sender knows of it", "--dry-run") == (0, None), "for people"
    code, done = said_by(lake, *words, "the sender knows of it", "--json")
    assert (code, done["state"], done["bookmark_version"], done["ledger"]) == (0, "committed", 1, "ok")
    assert done["next"] == f"lakehouse load {lake.table}"

    said = f"accepted by {done['author']} at "
    (plan_text,) = lake.plan().accepted
    assert plan_text.startswith(f"gate {REJECTED} of batch 1: {said}") and plan_text.endswith("the sender knows of it")
    assert said_by(lake, "plan", lake.table) == (0, None)
    loaded = lake.load()
    assert (loaded.state, loaded.exit_code, loaded.rows.rejected, loaded.bookmark_version) == (State.COMMITTED, 0, 1, 2)
    gate = receipt_json(loaded)["gates"][REJECTED]
    assert (gate["passed"], gate["value"]) == (False, 0.5) and gate["accepted"].startswith(said)
    verdict = gates_verdict(read_gates(load_metadata(loaded)), loaded=True)
    assert verdict.passed and said in verdict.description and "the sender knows of it" in verdict.description
    change, batch = sorted(lake.ledger(BATCHES), key=lambda row: row["bookmark_version"])
    assert (change["kind"], change["author"]) == ("gate-accept", done["author"])
    assert change["reason"] == f"gate {REJECTED} of batch {batch_id}: the sender knows of it"
    assert batch["kind"] == "load" and said in batch["reason"] and REJECTED in batch["reason"]
    code, history = said_by(lake, "bookmark", "history", lake.table, "--json")
    assert code == 0 and [h["kind"] for h in history] == ["load", "gate-accept"]
    assert lake.amounts() == {1: "1.00"} and lake.differences(reread=True) == []
    assert (accepted_in_bookmark(lake), lake.plan().accepted) == (0, ())
    print_receipt(loaded)
    assert f"gate {REJECTED}: 0.5 is over 0.1, {said}" in capsys.readouterr().out


def test_other_objects_are_blocked_again(lake: Lake) -> None:
    receipt = block(lake)
    accept(lake, receipt)
    lake.put(DAY_2, "more.csv", csv(order(2)))
    assert any("will be asked again" in warning for warning in lake.plan().warnings)
    again = lake.load()
    assert (again.state, again.next.count("gate accept")) == (State.BLOCKED, 1)
    # the load that was refused still passes, and the word is used up with its objects
    assert lake.load(day=DAY_1).state is State.COMMITTED
    assert accepted_in_bookmark(lake) == 0
    assert lake.load().state is State.COMMITTED
    assert block(lake, DAY_2, "next.csv", number=3).bookmark_version == 3
    full = ingest(lake.declaration, LoadRequest(mode=Mode.FULL, window=Window(DAY_1, DAY_1)), lake.services())
    assert full.state is State.BLOCKED, "the same objects once more"
    assert full.next.startswith("lakehouse rejects show")


def test_a_new_version_and_an_object_that_cannot_be_fetched_make_another_batch(lake: Lake) -> None:
    lake.put(DAY_1, "good.csv", csv(order(5)))
    receipt = block(lake)
    accept(lake, receipt)
    with pytest.MonkeyPatch.context() as patch:
        slow_down(patch, "good.csv")
        assert lake.load().state is State.BLOCKED, "a part of what was accepted"
    lake.put(DAY_1, "bad.csv", csv(order(1), order("", "1.00"), order("", "2.00")))
    receipt = lake.load()
    assert receipt.state is State.BLOCKED
    accept(lake, receipt)
    assert lake.load().state is State.COMMITTED
    assert accepted_in_bookmark(lake) == 0


def test_another_declaration_is_blocked_again_and_forgets(lake: Lake) -> None:
    receipt = block(lake)
    accept(lake, receipt)
    declared = lake.declaration_text()
    lake.write_declaration(declared.replace("customer_id: string", "customer_id: {type: string, null_values: [x]}"))
    assert lake.load().state is State.BLOCKED
    error = failure(lambda: accept(lake, receipt))
    assert isinstance(error, UsageError) and "the declaration is another" in error.message
    accept(lake, lake.load())
    assert accepted_in_bookmark(lake) == 2
    assert lake.load().state is State.COMMITTED
    assert accepted_in_bookmark(lake) == 0


def test_each_gate_is_accepted_by_itself(lake: Lake) -> None:
    lake.put(DAY_1, "bad.csv", csv(order(1), order(1), order("", "1.00")))
    receipt = lake.load()
    batch_id = receipt.batches[0].batch_id
    names = (REJECTED, "max_duplicate_ratio")
    both = " && ".join(f"lakehouse gate accept {batch_id} {name} --reason TEXT" for name in names)
    assert receipt.next.endswith(both)
    assert accept(lake, receipt).next == f"lakehouse gate accept {batch_id} max_duplicate_ratio --reason TEXT"
    blocked = lake.load()
    assert [g.name for g in blocked.gates if g.stops] == ["max_duplicate_ratio"]
    assert "max_rejected_ratio" not in blocked.error
    error = failure(lambda: accept(lake, blocked))
    assert f"gate {REJECTED} is accepted by ann@host" in error.message
    assert accept(lake, receipt, "max_duplicate_ratio").next == f"lakehouse load {lake.table}"
    assert lake.load().state is State.COMMITTED


def test_a_snapshot_that_deletes_too_much_is_accepted(stack: Any, tmp_path: Path) -> None:
    """The gate that is asked after the match; its command names the dates and mode of the load."""
    lake = Lake(stack, tmp_path, more="write: snapshot")
    lake.put(DAY_1, "all.csv", csv(*(order(n) for n in range(5))))
    lake.load()
    lake.put(DAY_2, "few.csv", csv(order(1, day=str(DAY_2))))
    request = LoadRequest(mode=Mode.FULL, window=Window(DAY_2, None), run_id="test")
    receipt = ingest(lake.declaration, request, lake.services())
    assert receipt.state is State.BLOCKED and "lakehouse load" in receipt.next
    done = accept(lake, receipt, "max_deleted_ratio")
    assert done.next == f"lakehouse load {lake.table} --from {DAY_2} --mode full"
    receipt = ingest(lake.declaration, request, lake.services())
    assert (receipt.state, receipt.rows.vanished, set(lake.amounts())) == (State.COMMITTED, 4, {1})
    assert lake.differences() == []


def test_what_cannot_be_accepted_is_named(lake: Lake, said_by: SaidBy) -> None:
    code, found = said_by(lake, "gate", "accept", "none", REJECTED, "--reason", "x", "--json")
    assert (code, found["error"]) == (2, "no table knows the batch: batch=none")
    receipt = block(lake)
    batch_id = receipt.batches[0].batch_id
    assert said_by(lake, "gate", "accept", batch_id, REJECTED, "--reason", " ")[0] == 2
    for gate, words in (("max_duplicate_ratio", "passed"), ("row_count_change", "was not asked")):
        error = failure(lambda gate=gate: accept(lake, receipt, gate))  # type: ignore[misc]
        assert isinstance(error, UsageError) and f"gate {gate} {words}" in error.message
        assert error.next == f"lakehouse gate accept {batch_id} {REJECTED} --reason TEXT"
    error = failure(lambda: accept_gate(lake.declaration, "none", REJECTED, OPERATOR, lake.services()))
    assert isinstance(error, UsageError) and "no such batch" in error.message
    services = lake.services(lease_wait=0.0)
    with lease_of(lake.declaration, OPERATOR, services, step="load"):
        assert isinstance(failure(lambda: accept(lake, receipt, services=services)), LeaseHeld)

    uri = f"s3://landing/{lake.name}/input_date={DAY_1}/bad.csv"
    change_object(lake.declaration, uri, "object-skip", OPERATOR, lake.services())
    error = failure(lambda: accept(lake, receipt))
    assert "it is skipped: skipped by ann@host" in error.message and uri in error.message
    change_object(lake.declaration, uri, "object-release", OPERATOR, lake.services())
    assert accept(lake, receipt).state is State.COMMITTED
    again = accept(lake, receipt)
    assert (again.state, "it is accepted by ann@host" in again.warnings[0]) == (State.NOTHING_TO_DO, True)
    loaded = lake.load()
    told = accept(lake, receipt)
    assert (told.state, "its objects are loaded already" in told.warnings[0]) == (State.NOTHING_TO_DO, True)
    committed = accept(lake, loaded)
    assert "committed as bookmark version 4" in committed.warnings[0]
    receipt = block(lake, number=7)
    lake.put(DAY_1, "bad.csv", csv(order(9)))
    assert "it was overwritten" in failure(lambda: accept(lake, receipt)).message
    lake.stack.s3.delete_object(Bucket="landing", Key=uri.removeprefix("s3://landing/"))
    assert "it is not listed any more" in failure(lambda: accept(lake, receipt)).message


def test_an_attempt_that_no_gate_refused_is_named(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    services = lake.services(pause=lambda _: None)

    def never_arrives(*_: Any, **__: Any) -> None:
        raise TimeoutError("read timed out")

    services.catalog.commit_table = never_arrives  # type: ignore[method-assign]
    batch_id = lake.plan().batch_id
    assert lake.load(services=services).state is State.UNKNOWN
    error = failure(lambda: accept_gate(lake.declaration, batch_id, REJECTED, OPERATOR, lake.services()))
    assert "no gate has refused the batch" in error.message and error.next == f"lakehouse load {lake.table}"
