"""Values of `pii: true` columns reach the table and nothing else: no reject, message, ledger, state or metadata."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.batch import run
from lakehouse.errors import TargetDamaged
from lakehouse.ledger import BATCHES, FILES, REJECTS
from lakehouse.model import State
from lakehouse.operate.adopt import adopt
from lakehouse.operate.dedupe import dedupe
from lakehouse.orchestration.metadata import load_metadata
from tests.evolving_lake import OPERATOR
from tests.lake import DAY_1, DAY_2, Lake, csv

CHANGES = (
    ("customer_id: string", "customer_id: {type: string, pii: true}"),
    ("key: [order_id]", "key: [customer_id]"),
)
SECRET = "secret"


def lake_of(stack: Any, folder: Path, **changes: str) -> Lake:
    lake = Lake(stack, folder, **changes)
    text = lake.declaration_text()
    for old, new in CHANGES:
        assert old in text
        text = text.replace(old, new)
    lake.write_declaration(text)
    return lake


def row(number: int | str, name: str, amount: str = "1.00", minute: int = 0) -> str:
    return f"{number},{name}-{SECRET},{amount},2026-08-30T10:{minute:02d}:00Z"


def land_damaged(lake: Lake) -> None:
    good = [row(1, "ann"), row(2, "bob")]
    bad = [row("x", "cem"), row(3, "dora", "1.005"), f"4,eve-{SECRET}", f'5,"fay-{SECRET},1.00,2026-08-30T10:00:00Z']
    lake.put(DAY_1, "a.csv", csv(*good, *bad))
    lake.put(DAY_1, "lost-header.csv", f"{row(6, 'gus')}\n".encode())


def state_objects(lake: Lake, folder: Path) -> dict[str, str]:
    """What every object of the table's state says, by its key."""
    listed = lake.stack.s3.list_objects_v2(Bucket="state", Prefix=f"{lake.name}/")
    found = {}
    for item in listed["Contents"]:
        key = item["Key"]
        lake.stack.s3.download_file("state", key, str(folder / "object"))
        data = (folder / "object").read_bytes()
        found[key] = str(pq.read_table(folder / "object").to_pydict()) if data[:4] == b"PAR1" else data.decode()
    return found


def test_a_blocked_batch_shows_no_value(stack: Any, tmp_path: Path) -> None:
    lake = lake_of(stack, tmp_path, gates="")
    land_damaged(lake)
    code, receipt, errors = lake.cli("load", lake.table, "--json")
    assert (code, receipt["state"]) == (1, State.BLOCKED), errors
    _, rejects, more = lake.cli("rejects", "show", lake.table, "--json")
    assert SECRET not in f"{receipt} {rejects} {errors} {more}"
    stored = state_objects(lake, tmp_path)
    (staged,) = [text for key, text in stored.items() if key.endswith("staged.parquet")]
    assert "customer_id" not in staged and "'order_id': [1, 2]" in staged and "_source_line" in staged
    assert any("x,***,1.00" in text for text in stored.values())
    assert SECRET not in str(stored)


def test_a_load_and_its_keys_show_no_value(stack: Any, tmp_path: Path) -> None:
    lake = lake_of(stack, tmp_path)
    land_damaged(lake)
    receipt = lake.load()
    assert receipt.state is State.COMMITTED and receipt.rows.rejected == 4
    assert SECRET not in f"{receipt} {load_metadata(receipt)}"
    table = stack.catalog().load_table(lake.table)
    assert sorted(table.scan().to_arrow()["customer_id"].to_pylist()) == [f"ann-{SECRET}", f"bob-{SECRET}"]
    ledger = {name: lake.ledger(name) for name in (REJECTS, FILES, BATCHES)}
    assert SECRET not in str(ledger)
    assert [r["raw"] for r in ledger[REJECTS]] == [
        "x,***,1.00,2026-08-30T10:00:00Z",
        "3,***,1.005,2026-08-30T10:00:00Z",
        "*** masked, 12 bytes",
        "*** masked, 39 bytes",
    ]
    (reason,) = [r["reason"] for r in ledger[FILES] if r["decision"] == "quarantined"]
    assert "columns=*** masked, 4 names" in reason

    there = table.scan().to_arrow()
    table.append(there.filter(pa.compute.equal(there["order_id"], 1)).cast(table.schema().as_arrow()))
    lake.put(DAY_2, "b.csv", csv(row(1, "ann", "2.00", 9)))
    code, _, errors = lake.cli("load", lake.table)
    assert code == 1 and "holds a key twice: customer_id=***" in errors and SECRET not in errors
    code, found, errors = lake.cli("maintain", lake.table, "dedupe", "--dry-run", "--json")
    assert code == 0 and "customer_id=***" in str(found) and SECRET not in f"{found} {errors}"
    assert dedupe(lake.declaration, lake.services(), OPERATOR).removed == 1
    assert SECRET not in str(lake.load()) + str(state_objects(lake, tmp_path))
    assert lake.amounts() == {1: "2.00", 2: "1.00"}


def test_an_adoption_names_no_value(stack: Any, tmp_path: Path) -> None:
    lake = lake_of(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(row(1, "ann")))
    lake.load()
    table = stack.catalog().load_table(lake.table)
    rows = table.scan().to_arrow()
    stack.catalog().drop_table(lake.table)
    other = Lake(stack, tmp_path / "other")
    other.write_declaration((lake.folder / "defs/orders/defs.yaml").read_text().replace(lake.name, other.name))
    stack.catalog().create_namespace_if_not_exists(other.name)
    stack.catalog().create_table(other.table, schema=rows.schema).append(pa.concat_tables([rows, rows]))
    with pytest.raises(TargetDamaged, match=r"customer_id=\*\*\* \(2 rows\)") as caught:
        adopt(other.declaration, other.services(), OPERATOR)
    assert SECRET not in str(caught.value)


def test_an_error_of_the_engine_quotes_no_value(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(row(1, "ann")))

    def fails(con: duckdb.DuckDBPyConnection, _: Any) -> None:
        con.execute("select customer_id::int from staged")

    monkeypatch.setattr(run, "mark_deletes", fails)
    with pytest.raises(duckdb.ConversionException, match=r"\*\*\* masked, \d+ bytes") as caught:
        lake.load()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
