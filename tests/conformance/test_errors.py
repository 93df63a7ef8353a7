"""Where the replaced system reads again, skips, or fails with a name of its own (G36, G37): here each situation is a
named error with an exit code and the next command, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Mode, Receipt, State, Window
from lakehouse.operate.hold import hold
from lakehouse.operate.operator_change import lease_of
from lakehouse.services import open_services
from tests.evolving_lake import OPERATOR, foreign_table, orders
from tests.lake import DAY_1, DAY_2, Lake, changed_environment, csv, order

Act = Callable[[Lake], Receipt]


@dataclass(frozen=True)
class Situation:
    """What somebody does to a loaded table before the next load, and what that load says."""

    name: str
    act: Act
    state: State
    exit_code: int
    said: str
    next: str


def load(lake: Lake, **asked: Any) -> Receipt:
    return ingest(lake.declaration, LoadRequest(run_id="test", **asked), lake.services())


def two_at_once(lake: Lake) -> Receipt:
    services = lake.services(lease_wait=0.0)
    with lease_of(lake.declaration, OPERATOR, lake.services(), step="load"):
        return lake.load(services=services)


def always_second(lake: Lake) -> Receipt:
    """Others commit first, whenever this load wants to."""
    services = lake.services()
    commit = services.catalog.commit_table

    def after_others(table: Any, *rest: Any, **named: Any) -> Any:
        other = lake.stack.catalog().load_table(lake.table)
        with other.transaction() as change, change.update_snapshot().fast_append():
            pass
        return commit(table, *rest, **named)

    services.catalog.commit_table = after_others  # type: ignore[method-assign]
    return lake.load(services=services)


def rolled_back(lake: Lake) -> Receipt:
    table = lake.stack.catalog().load_table(lake.table)
    first = table.metadata.snapshots[0].snapshot_id
    lake.load()
    with lake.stack.catalog().load_table(lake.table).manage_snapshots() as change:
        change.rollback_to_snapshot(first)
    lake.put(DAY_2, "c.csv", csv(order(3)))
    return lake.load()


def tag_lost(lake: Lake) -> Receipt:
    with lake.stack.catalog().load_table(lake.table).manage_snapshots() as change:
        change.remove_tag("lakehouse.bookmark.orders")
    return lake.load()


def table_dropped(lake: Lake) -> Receipt:
    lake.stack.catalog().drop_table(lake.table)
    return lake.load()


def another_state(lake: Lake) -> Receipt:
    env = {**lake.env, "LAKEHOUSE_STATE": f"s3://state/{lake.name}-elsewhere"}
    with changed_environment(env):
        return lake.load(services=open_services(env))


def state_key(lake: Lake) -> str:
    (key,) = [item.uri for item in lake.services().state.list("") if item.uri.endswith("manifest.parquet")]
    return lake.services().state.key(key)


def manifest_gone(lake: Lake) -> Receipt:
    lake.services().state.delete(state_key(lake))
    return lake.load()


def manifest_altered(lake: Lake) -> Receipt:
    lake.services().state.put(state_key(lake), b"another")
    return lake.load()


def never_taken_over(lake: Lake) -> Receipt:
    catalog = lake.stack.catalog()
    catalog.drop_table(lake.table)
    for item in [*lake.services().state.list("")]:
        lake.services().state.delete(lake.services().state.key(item.uri))
    foreign_table(lake, orders((1, "1.00", 1)))
    return lake.load()


def held(lake: Lake) -> Receipt:
    hold(lake.declaration, OPERATOR, lake.services())
    return lake.load()


def refused_by_a_gate(lake: Lake) -> Receipt:
    lake.gates = ""
    lake.write_declaration()
    lake.put(DAY_1, "bad.csv", csv(order("x")))
    return lake.load()


def lost_answer(lake: Lake) -> Receipt:
    services = lake.services(pause=lambda _: None)

    def never_arrives(*_: Any, **__: Any) -> None:
        raise TimeoutError("read timed out")

    services.catalog.commit_table = never_arrives  # type: ignore[method-assign]
    return lake.load(services=services)


def date_of_a_source_without(lake: Lake) -> Receipt:
    lake.write_declaration(
        lake.declaration_text()
        .replace("    partition: input_date=%Y-%m-%d\n", "")
        .replace("    input_date: {type: date, from_path: date}\n", "")
        .replace("  partition_by: [input_date]\n", "")
    )
    return load(lake, window=Window(DAY_1, DAY_1))


def ranged(first: str, last: str | None, mode: Mode = Mode.NO_ADVANCE) -> Act:
    return lambda lake: load(lake, mode=mode, from_batch=first, to_batch=last)


HISTORY = "lakehouse bookmark history"
RANGE = "lakehouse load"
READ_AGAIN = [
    Situation("two at once", two_at_once, State.CONFLICT, 3, "another load holds the lease", "lakehouse"),
    Situation("others always first", always_second, State.CONFLICT, 3, "others committed first", RANGE),
    Situation("rolled back", rolled_back, State.DETACHED, 1, "rolled the table back", "set main back to the tag"),
    Situation("tag lost", tag_lost, State.DETACHED, 1, "is detached from bookmark orders", "--to-table"),
    Situation("table dropped", table_dropped, State.DETACHED, 1, "the table was dropped", "--to-table"),
    Situation("another state", another_state, State.FAILED, 2, "outside LAKEHOUSE_STATE", "point LAKEHOUSE_STATE"),
]
NAMED = [
    Situation("manifest gone", manifest_gone, State.FAILED, 1, "state object is missing", "restore s3://state/"),
    Situation("manifest altered", manifest_altered, State.FAILED, 1, "state object was altered", "restore s3://state/"),
    Situation("rows of others", never_taken_over, State.FAILED, 2, "was never loaded by lakehouse", "lakehouse adopt"),
    Situation("held", held, State.HELD, 1, "held by ann@host", "lakehouse release"),
    Situation("gate", refused_by_a_gate, State.BLOCKED, 1, "gate max_rejected_ratio", "lakehouse gate accept"),
    Situation("outcome unknown", lost_answer, State.UNKNOWN, 4, "nobody can say whether it landed", "lakehouse"),
    Situation("no such batch", ranged("0", "nine"), State.FAILED, 2, "no such version or batch", HISTORY),
    Situation("one end", ranged("0", None), State.FAILED, 2, "has two ends", RANGE),
    Situation("no pause", ranged("0", "1", Mode.INCREMENTAL), State.FAILED, 2, "the mode is incremental", RANGE),
    Situation("empty range", ranged("1", "0"), State.FAILED, 2, "the range is empty", HISTORY),
    Situation("undated", date_of_a_source_without, State.FAILED, 2, "names no landing dates", RANGE),
]


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    lake = Lake(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    return lake


def check(lake: Lake, situation: Situation) -> None:
    receipt = situation.act(lake)
    assert (receipt.state, receipt.exit_code) == (situation.state, situation.exit_code), receipt.error
    assert situation.said in receipt.error
    assert situation.next in receipt.next
    assert receipt.rows.inserted == 0


@pytest.mark.parametrize("situation", READ_AGAIN, ids=lambda s: s.name)
def test_g36_what_made_jobs_read_again_is_named_before_anything_is_read(lake: Lake, situation: Situation) -> None:
    check(lake, situation)


def test_g36_what_could_be_forgotten_cannot(lake: Lake) -> None:
    """There: no transformation context, bookmarks not enabled, no commit at the end of the script."""
    assert lake.declaration.context == "orders", "every source has a context"
    assert LoadRequest().mode is Mode.INCREMENTAL
    table = lake.stack.catalog().load_table(lake.table)
    assert table.metadata.refs["lakehouse.bookmark.orders"].snapshot_id == table.metadata.current_snapshot_id


@pytest.mark.parametrize("situation", NAMED, ids=lambda s: s.name)
def test_g37_every_situation_has_a_named_error_with_the_next_command(lake: Lake, situation: Situation) -> None:
    check(lake, situation)
