"""Loads with a declared SQL on the real stack: what is kept, counted, proved again, and refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import ACCEPTED_AND_STAGED, Mode, Receipt, State, Window
from tests.lake import DAY_1, DAY_2, Lake, csv, order

DECLARATION = """\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://landing/{prefix}/
    partition: input_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}
    {source}
  columns:
    order_id: {{type: bigint, required: true}}
    customer_id: string
    amount: "decimal(12,2)"
    order_time: timestamptz
    orders: {{type: int, computed: true}}
    input_date: {{type: date, from_path: date}}
  sql: orders.sql
  write: {write}
  {more}
  start_date: 2026-08-30
  gates: {{max_rejected_ratio: {rejected}}}
"""
KEYED = "key: [order_id]\n  order_by: [order_time]"
FIRST_OF_ORDER = """
-- one row for each order, with the number of its records
select * replace ((count(*) over (partition by order_id))::int as orders)
from staged
where amount <> 0
qualify row_number() over (partition by order_id order by order_time desc, _source_file, _source_line) = 1;
"""
BY_CUSTOMER = """
select min(order_id) as order_id, customer_id, sum(amount)::decimal(12,2) as amount, max(order_time) as order_time,
    count(*)::int as orders, input_date, arg_max(_source_file, _source_line) as _source_file,
    max(_source_line) as _source_line, max(_source_mtime) as _source_mtime, _source_date
from staged group by customer_id, input_date, _source_date
"""
Make = Callable[..., Lake]


@pytest.fixture
def make(stack: Any, tmp_path: Path) -> Make:
    def make(sql: str, *, write: str = "upsert", more: str = KEYED, source: str = "", rejected: str = "0.0") -> Lake:
        lake = Lake(stack, tmp_path)
        lake.text = DECLARATION.format(
            table=lake.table, prefix=lake.name, write=write, more=more, source=source, rejected=rejected
        )
        lake.write_declaration()
        (tmp_path / "defs" / "orders" / "orders.sql").write_text(sql)
        return lake

    return make


def good(receipt: Receipt) -> Receipt:
    assert (receipt.state, receipt.exit_code, receipt.error) == (State.COMMITTED, 0, "")
    return receipt


def sides(receipt: Receipt) -> tuple[int, int, int, int]:
    rows = receipt.rows
    return rows.read, rows.rejected, rows.accepted, rows.staged


def proves(lake: Lake) -> None:
    """Everything holds, also read again; a rerun has nothing to do, and a full one changes no row."""
    assert lake.differences(reread=True) == []
    (records,) = (e for e in lake.equations() if e.name == "objects: records = rejected + accepted")
    assert records.left == records.right > 0
    assert lake.load().state is State.NOTHING_TO_DO
    before = lake.rows()
    again = good(lake.load(mode=Mode.FULL))
    assert (again.rows.inserted, again.rows.updated, again.files.added) == (0, 0, 0)
    assert {k: r["amount"] for k, r in lake.rows().items()} == {k: r["amount"] for k, r in before.items()}
    assert lake.differences(reread=True) == []


def test_rows_are_filtered_derived_and_made_unique(make: Make) -> None:
    lake = make(FIRST_OF_ORDER)
    first = lake.put(DAY_1, "a.csv", csv(order(1), order(1, "2.00", 5), order(2), order(3, "0.00")))
    lake.put(DAY_2, "a.csv", csv(order(3, "7.00", 9), order(2, "0.00", 9)))
    receipt = good(lake.load())
    assert sides(receipt) == (6, 0, 6, 3)
    assert receipt.rows.superseded == 0
    rows = lake.rows()
    assert {k: (str(r["amount"]), r["orders"]) for k, r in rows.items()} == {
        1: ("2.00", 2),
        2: ("1.00", 1),
        3: ("7.00", 1),
    }
    assert (rows[1]["_source_file"], rows[1]["_source_line"], rows[1]["_source_date"]) == (first, 3, DAY_1)
    assert {day: (c.rows.read, c.rows.staged, c.gained) for day, c in receipt.dates.items()} == {
        "2026-08-30": (4, 2, 2),
        "2026-08-31": (2, 1, 1),
    }
    stored = {r["equation"]: (r["left_value"], r["right_value"]) for r in lake.ledger("reconciliations")}
    assert stored[ACCEPTED_AND_STAGED] == (6, 3)
    assert [(r["rows_read"], r["rows_rejected"], r["rows_staged"]) for r in lake.ledger("batches")] == [(6, 0, 3)]
    proves(lake)


def test_an_aggregate_is_proved_batch_by_batch(make: Make) -> None:
    """The rows of a later batch know nothing of the batch before, and so must a reread."""
    lake = make(BY_CUSTOMER, source="max_files: 1")
    text = csv(order(1), order(2)).replace(b",c2,", b",c1,")
    lake.put(DAY_1, "a.csv", text)
    lake.put(DAY_2, "b.csv", csv(order(1, "5.00", 7)))
    receipt = good(lake.load())
    assert (len(receipt.batches), sides(receipt)) == (2, (3, 0, 3, 2))
    assert lake.amounts() == {1: "5.00"}
    assert lake.differences(reread=True) == []
    lake.put(DAY_1, "a.csv", csv(order(1, "9.00", 8)))
    good(lake.load())
    assert lake.amounts() == {1: "9.00"}
    assert lake.differences(reread=True) == []


@pytest.mark.parametrize("write", ["replace_partition", "append"])
def test_dates_and_objects_are_replaced(make: Make, write: str) -> None:
    lake = make(BY_CUSTOMER, write=write, more="partition_by: [input_date]")
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    lake.put(DAY_2, "a.csv", csv(order(3)))
    assert sides(good(lake.load())) == (3, 0, 3, 3)
    lake.put(DAY_1, "a.csv", csv(order(1, "4.00")))
    receipt = good(lake.load())
    assert (receipt.rows.inserted, receipt.rows.deleted) == (1, 2)
    assert lake.amounts() == {1: "4.00", 3: "1.00"}
    assert lake.differences(reread=True) == []


def test_a_snapshot_sees_what_the_sql_left(make: Make) -> None:
    lake = make(FIRST_OF_ORDER, write="snapshot", more="key: [order_id]\n  max_deleted_ratio: 1.0")
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv(order(1), order(2, "0.00")))
    receipt = good(lake.load())
    assert (receipt.rows.vanished, set(lake.amounts())) == (1, {1})
    assert lake.differences(reread=True) == []


def test_a_row_without_a_key_is_a_reject_that_the_gate_sees(make: Make) -> None:
    sql = "select * replace (nullif(order_id, 2) as order_id, 1 as orders) from staged"
    lake = make(sql)
    uri = lake.put(DAY_1, "a.csv", csv(order(1), order(2), order("x")))
    receipt = lake.load()
    assert (receipt.state, receipt.gates[0].name, receipt.gates[0].value) == (
        State.BLOCKED,
        "max_rejected_ratio",
        2 / 3,
    )
    assert sides(receipt) == (3, 2, 1, 1)
    assert lake.text is not None
    lake.text = lake.text.replace("max_rejected_ratio: 0.0", "max_rejected_ratio: 0.9")
    lake.write_declaration()
    assert sides(good(lake.load())) == (3, 2, 1, 1)
    rejects = sorted((r["uri"], r["line_number"], r["column_name"], r["reason"]) for r in lake.ledger("rejects"))
    assert [r[:3] for r in rejects] == [(uri, 3, "order_id"), (uri, 4, "order_id")]
    assert rejects[0][3] == "order_id: no value after the SQL, and the column needs one"
    proves(lake)


def test_sql_that_fails_on_a_row_leaves_the_table_alone(make: Make) -> None:
    lake = make("select * replace (customer_id[2:]::int as orders) from staged")
    lake.put(DAY_1, "a.csv", csv(order(1)))
    good(lake.load())
    lake.put(DAY_2, "a.csv", csv(order(2).replace(",c2,", ",cc,")))
    code, receipt, stderr = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"], "Traceback" in stderr) == (2, "failed", False)
    assert re.search(
        r"defs\.yaml:17:8: sql: orders\.sql: it fails on the staged rows of \S+: Conversion Error: .*'c'.* INT32",
        receipt["error"],
    )
    assert receipt["next"] == f"lakehouse load {lake.table}"
    assert set(lake.amounts()) == {1} and lake.snapshots() == 1
    assert lake.differences(reread=True) == []


def test_another_sql_makes_what_was_loaded_outdated(make: Make) -> None:
    lake = make(FIRST_OF_ORDER)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    receipt = good(lake.load())
    before = lake.declaration.hash
    path = lake.declaration.path.parent / "orders.sql"
    path.write_text(FIRST_OF_ORDER.replace("amount <> 0", "order_id <> 2"))
    assert lake.declaration.hash != before == receipt.declaration
    plan = lake.plan()
    assert any("older declaration" in warning for warning in plan.warnings)
    assert lake.differences(reread=True) == []
    request = LoadRequest(mode=Mode.FULL, window=Window(), run_id="test")
    assert sides(good(ingest(lake.declaration, request, lake.services()))) == (2, 0, 2, 1)


def test_validate_names_both_places(make: Make) -> None:
    lake = make("select *\nfrom 'orders.csv'")
    code, found, _ = lake.cli("validate", "--json")
    assert code == 2
    assert [line.split("orders/", 1)[1] for line in found["mistakes"]] == [
        "defs.yaml:17:8: sql: orders.sql:2:6: no table orders.csv; the SQL reads staged alone"
    ]
    assert lake.load().error.endswith(found["mistakes"][0].split("orders/", 1)[1])


def test_the_example_of_the_documentation(stack: Any, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "declaration.md").read_text()
    declaration = next(found for found in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "sql: visits" in found)
    (sql,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    lake = Lake(stack, tmp_path)
    changed = {"shop.visits": lake.table, "landing/visits/": f"landing/{lake.name}/", "day=": "input_date="}
    for old, new in changed.items():
        declaration = declaration.replace(old, new)
    lake.write_declaration(declaration)
    (lake.folder / "defs" / "orders" / "visits.sql").write_text(sql)
    visits = [
        "7,https://example.com/a,2026-08-30T10:00:00Z",
        "7,https://example.com/b,2026-08-30T11:00:00Z",
        "8,https://example.com/robots.txt,2026-08-30T10:00:00Z",
    ]
    lake.put(DAY_1, "a.csv", "\n".join(["visit_id,url,seen_at", *visits, ""]).encode())
    assert sides(good(lake.load())) == (3, 0, 3, 1)
    (row,) = stack.catalog().load_table(lake.table).scan().to_arrow().to_pylist()
    assert (row["visit_id"], row["url"], row["host"], row["pages"]) == (7, "https://example.com/b", "example.com", 2)
    assert lake.differences(reread=True) == []
