"""Modes, state and commits of the bookmark on the real stack. Tests carry the numbers of the rules and field cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakehouse import naming
from lakehouse.declaration import load_declarations
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.ledger import BATCHES, FILES
from lakehouse.model import GLUE_MODES, Mode, State
from lakehouse.position import find_position
from tests.evolving_lake import at_step
from tests.fault.test_crash import free_lease
from tests.field_cases.files import OPTIONS, render
from tests.lake import DAY_1, DAY_2, Lake, SaidBy, csv, order, uris


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def test_g01_enable_reads_what_is_unseen_and_takes_it_in(lake: Lake) -> None:
    """It is what a load does that asks for no mode."""
    assert LoadRequest().mode is GLUE_MODES["job-bookmark-enable"] is Mode.INCREMENTAL
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert lake.load().objects["read"] == 1
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert (lake.load().objects["read"], lake.version()) == (1, 2)
    assert lake.load().state is State.NOTHING_TO_DO


def test_g02_disable_reads_everything_and_doubles_nothing(lake: Lake) -> None:
    """There it is the default; here it has to be asked for."""
    assert GLUE_MODES["job-bookmark-disable"] is Mode.FULL
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    receipt = lake.load(mode=Mode.FULL)
    assert (receipt.objects["read"], receipt.rows.unchanged, receipt.rows.inserted) == (2, 1, 1)
    assert (len(lake.amounts()), lake.plan().batches) == (2, ())


def test_g03_the_words_of_the_replaced_system_are_understood(lake: Lake, said_by: SaidBy) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    for word, mode in GLUE_MODES.items():
        code, plan = said_by(lake, "plan", lake.table, "--mode", word, "--json")
        assert (code, plan["mode"]) == (0, mode.value)
    code, receipt = said_by(lake, "load", lake.table, "--mode", "job-bookmark-pause", "--json")
    assert (code, receipt["rows"]["inserted"], uris(lake.plan())) == (0, 1, ["a.csv"])
    assert said_by(lake, "load", lake.table, "--mode", "job-bookmark-off", "--json")[0] == 2


def test_g10_every_object_is_in_the_state_and_readable_by_sql(lake: Lake) -> None:
    """There, the state holds hashes of the paths of the last quarter of an hour."""
    for number in (1, 2, 3):
        lake.put(DAY_1, f"{number}.csv", csv(order(number)))
        lake.load()
    services = lake.services()
    files = services.catalog.load_table(f"{services.settings.ops_namespace}.{FILES}").scan().to_arrow()
    found = duckdb.sql("select bookmark_version, uri, rows_read, decision from files order by 1").fetchall()
    assert files.num_rows == 3
    folder = f"s3://landing/{lake.name}/input_date={DAY_1}"
    assert found == [(n, f"{folder}/{n}.csv", 1, "consumed") for n in (1, 2, 3)]
    assert set(find_position(lake.declaration, services).bookmark.seen) == {uri for _, uri, _, _ in found}


def test_g12_every_batch_and_every_attempt_is_counted(lake: Lake) -> None:
    """The version grows by one with each batch; an attempt that fails has an id, and leaves the version where it is."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("lakehouse.batch.run.match_batch", _die)
        lake.load()
    assert lake.version() == 0
    for version in (1, 2):
        assert lake.load(mode=Mode.FULL).bookmark_version == lake.version() == version
    batches = lake.ledger(BATCHES)
    assert sorted(b["bookmark_version"] for b in batches) == [1, 2]
    assert len({b["attempt_id"] for b in batches}) == len({b["batch_id"] for b in batches}) == 2
    summary = lake.stack.catalog().load_table(lake.table).current_snapshot().summary.additional_properties
    assert (summary[naming.BOOKMARK_VERSION], summary[naming.CONTEXT]) == ("2", "orders")


def _die(*_: Any, **__: Any) -> None:
    raise RuntimeError("the process dies")


def test_g13_d23_of_two_loads_at_once_the_loser_has_written_nothing_visible(lake: Lake) -> None:
    """The compare-and-set on the version is inside the commit of the rows. There, the loser has written already."""
    lake.put(DAY_1, "base.csv", csv(order(1)))
    lake.load()
    lake.put(DAY_1, "f1.csv", csv(order(1, "2.00", 2)))
    lake.put(DAY_2, "f2.csv", csv(order(2, day=str(DAY_2))))
    services = lake.services()
    commit, seen = services.catalog.commit_table, []

    def commit_after_the_other(table: Any, *rest: Any, **named: Any) -> Any:
        services.catalog.commit_table = commit  # type: ignore[method-assign]
        free_lease(lake)
        seen.append(lake.load())
        with pytest.raises(Exception, match=r"(?i)requirement|conflict|changed|mismatch|failed"):
            commit(table, *rest, **named)
        seen.append((lake.snapshots(), lake.version(), lake.amounts()))
        raise ConnectionError("the answer is lost as well")

    services.catalog.commit_table = commit_after_the_other  # type: ignore[method-assign]
    loser = lake.load(services=services)
    winner, after = seen
    assert (winner.state, winner.objects["read"]) == (State.COMMITTED, 2)
    assert after == (2, 2, {1: "2.00", 2: "1.00"}), "what the loser has written shows nowhere"
    assert (loser.state, loser.bookmark_version, loser.batches) == (State.NOTHING_TO_DO, 2, ())
    assert sorted(f["uri"][-6:] for f in lake.ledger(FILES)) == ["f1.csv", "f2.csv", "se.csv"]
    assert lake.differences(reread=True) == []


def test_g14_dropping_a_declaration_drops_nothing(lake: Lake, said_by: SaidBy) -> None:
    """There, deleting the job deletes its bookmark; here it lives in the table."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.load()
    path = lake.folder / "defs" / "orders" / "defs.yaml"
    path.unlink()
    assert load_declarations(lake.folder / "defs", lake.env) == ()
    assert said_by(lake, "load", lake.table, "--json")[0] == 2
    assert lake.amounts() == {1: "1.00"}
    lake.write_declaration()
    lake.put(DAY_1, "b.csv", csv(order(2)))
    assert uris(lake.plan()) == ["b.csv"]
    assert (lake.load().bookmark_version, set(lake.amounts())) == (2, {1, 2})


FORMATS = ("csv", "jsonl", "json", "xml", "parquet", "orc", "avro")


@pytest.mark.parametrize("format", FORMATS)
def test_g24_every_format_is_tracked(stack: Any, tmp_path: Path, format: str) -> None:
    lake = Lake(stack, tmp_path)
    options = "".join(f", {name}: {value}" for name, value in OPTIONS.get(format, {}).items())
    declared = lake.declaration_text().replace("{type: csv}", f"{{type: {format}{options}}}").replace("*.csv", "**")
    lake.write_declaration(declared)
    types = {"order_id": pa.int64(), "amount": pa.decimal128(12, 2), "order_time": pa.timestamp("us", tz="UTC")}
    lake.put(DAY_1, "a", _orders(format, 1, types))
    assert lake.load().rows.inserted == 1
    lake.put(DAY_1, "b", _orders(format, 2, types))
    assert (uris(lake.plan()), lake.load().rows.inserted) == (["b"], 1)
    assert lake.amounts() == {1: "1.00", 2: "1.00"}


def _orders(format: str, number: int, types: dict[str, pa.DataType]) -> bytes:
    columns = ("order_id", "customer_id", "amount", "order_time")
    row: tuple[Any, ...] = tuple(order(number).split(","))
    if format in ("parquet", "orc", "avro"):
        table = pa.table({name: pa.array([value]) for name, value in zip(columns, row, strict=True)})
        typed = {name: table.column(name).cast(types.get(name, pa.string())) for name in columns}
        row = tuple(column[0].as_py() for column in typed.values())
    return render(format, columns, [row], types)


def test_g26_every_way_to_load_shares_one_bookmark(lake: Lake, said_by: SaidBy) -> None:
    """There, plain reads and shell jobs are not tracked."""
    for number, load in enumerate((lambda: lake.load(), lambda: said_by(lake, "load", lake.table, "--json")), start=1):
        lake.put(DAY_1, f"{number}.csv", csv(order(number)))
        load()
    assert (lake.plan().batches, lake.version()) == ((), 2)
    assert {f["bookmark_version"] for f in lake.ledger(FILES)} == {1, 2}


def test_g32_d18_what_failed_before_its_commit_is_read_again_and_counts_once(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_2, "b.csv", csv(order(2, "5.00", 9)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("lakehouse.batch.commit.publish", _die)
        lake.load()
    assert lake.version() == 0
    receipt = lake.load()
    assert (receipt.objects["read"], receipt.rows.read, receipt.rows.inserted) == (2, 3, 2)
    assert lake.amounts() == {1: "1.00", 2: "5.00"}
    assert lake.load().state is State.NOTHING_TO_DO
    assert (lake.snapshots(), lake.differences(reread=True)) == (1, [])


def test_d23_a_load_waits_for_the_one_that_holds_the_table_before_it_reads(lake: Lake) -> None:
    lake.put(DAY_1, "f1.csv", csv(order(1)))
    services, waiting = lake.services(), lake.services(lease_wait=0.0)
    second = []

    def start_another() -> None:
        second.append(ingest(lake.declaration, LoadRequest(run_id="second"), waiting))

    lake.load(services=lake.services(progress=at_step(services, "stage", start_another)))
    (refused,) = second
    assert (refused.state, refused.exit_code, refused.rows.read) == (State.CONFLICT, 3, 0)
    assert (lake.version(), lake.load().state) == (1, State.NOTHING_TO_DO)
