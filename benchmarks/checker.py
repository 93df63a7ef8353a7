"""Checks a timed run against the expected results: every row, every reject, every count, by other code than ours.

    python -m benchmarks.checker ours|upsert TABLE FOLDER PREFIX [RECEIPT.json]

Reads tables with PyIceberg's scan and compares with DuckDB; imports nothing of `lakehouse`. Prints one JSON object;
exit 1 and a line per difference if anything differs. Reads only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from benchmarks.workload import COLUMNS, NEW_DAY, Dataset

LEDGER = "lakehouse_ops"
LINEAGE = ("_source_date", "_source_line", "_source_file", "_batch_id")


def check_upsert(catalog: Catalog, name: str, dataset: Dataset) -> list[str]:
    """Differences of the peer's table: rows alone, as an upsert without an order guard leaves them."""
    con = _session()
    con.execute(f"create view expected as from '{dataset.expected_upsert}'")
    return compare_rows(con, catalog.load_table(name), tuple(COLUMNS))


def check_ours(catalog: Catalog, name: str, dataset: Dataset, *, prefix: str, receipt: Mapping[str, Any]) -> list[str]:
    """Differences of our table, its lineage, its snapshot, the receipt and the ledger."""
    counts: dict[str, int] = json.loads(dataset.counts.read_text())["batch"]
    differences = compare("receipt state", receipt["state"], "committed")
    differences += compare("receipt batches", len(receipt["batches"]), 1)
    if differences:
        return [*differences, f"receipt: {receipt.get('error') or receipt}"]
    differences += compare("receipt rows", dict(receipt["rows"]), counts)
    batch = receipt["batches"][0]
    table = catalog.load_table(name)
    con = _session()
    batch_id = batch["batch_id"]
    con.execute(
        f"""create view expected as select * exclude (written),
            '{prefix}landing_date=' || strftime(_source_date, '%Y-%m-%d') || '/orders.csv' as _source_file,
            case when written then '{batch_id}' end as _batch_id
        from '{dataset.expected}'"""
    )
    differences += compare_rows(con, table, (*COLUMNS, *LINEAGE), batch_id=batch_id)
    differences += _check_snapshot(table, batch, counts)
    differences += _check_ledger(catalog, name, batch, counts, uri=f"{prefix}landing_date={NEW_DAY}/orders.csv")
    return differences + _check_rejects(con, catalog, name, batch_id, dataset)


def compare_rows(
    con: duckdb.DuckDBPyConnection, table: Table, columns: Sequence[str], *, batch_id: str | None = None
) -> list[str]:
    """Full outer join of the view `expected` (unique keys) and a scan, over every column.

    Rows that `batch_id` did not write must have another batch: which one, the expected results cannot know.
    """
    con.register("scanned", table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader())
    picked = ", ".join(c for c in columns if c != "_batch_id")
    if batch_id is not None:
        picked += f", case when _batch_id = '{batch_id}' then _batch_id end as _batch_id"
    con.execute(f"create or replace table actual as select {picked} from scanned")
    con.unregister("scanned")
    differ = " or ".join(f"e.{c} is distinct from a.{c}" for c in columns)
    found = con.execute(
        f"""select case when a.order_id is null then 'missing' when e.order_id is null then 'not expected'
                else 'different' end as what,
            count(*), min(coalesce(e.order_id, a.order_id)), any_value(e::varchar), any_value(a::varchar)
        from expected e full join actual a on e.order_id = a.order_id where {differ} group by 1 order by 1"""
    ).fetchall()
    differences = [
        f"rows {what}: {number}, first order_id={key}; for example expected={e} actual={a}"
        for what, number, key, e, a in found
    ]
    for sql in ("select count(*) from {}", "select count(distinct order_id) from {}", "select sum(amount) from {}"):
        (want,), (have,) = (con.execute(sql.format(side)).fetchall()[0] for side in ("expected", "actual"))
        differences += compare(sql.format("the table"), have, want)
    return differences


def compare(what: str, have: object, want: object) -> list[str]:
    """One difference, or none."""
    return [] if have == want else [f"{what}: expected={want} actual={have}"]


def _check_snapshot(table: Table, batch: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """The batch is exactly one snapshot, the current one, and carries the bookmark and the counts."""
    ours = [s for s in table.metadata.snapshots if s.summary and s.summary["lakehouse.batch-id"] == batch["batch_id"]]
    if len(ours) != 1 or ours[0].summary is None:
        return [f"snapshots of the batch: expected=1 actual={len(ours)}"]
    snapshot, summary = ours[0], ours[0].summary
    tags = {n: r.snapshot_id for n, r in table.metadata.refs.items() if n.startswith("lakehouse.bookmark.")}
    stated = {k.removeprefix("lakehouse.rows-"): int(v) for k, v in _properties(summary) if "lakehouse.rows-" in k}
    return [
        *compare("current snapshot", table.metadata.current_snapshot_id, snapshot.snapshot_id),
        *compare("receipt snapshot", batch["snapshot_id"], snapshot.snapshot_id),
        *compare("tags", list(tags.values()), [snapshot.snapshot_id]),
        *compare(
            "bookmark version of the snapshot", summary["lakehouse.bookmark-version"], str(batch["bookmark_version"])
        ),
        *compare("counts of the summary", {k: stated.get(k, 0) for k in counts}, dict(counts)),
    ]


def _properties(summary: Any) -> list[tuple[str, str]]:
    return list(summary.additional_properties.items())


def _check_ledger(
    catalog: Catalog, name: str, batch: Mapping[str, Any], counts: Mapping[str, int], *, uri: str
) -> list[str]:
    batches = _ledger(catalog, "batches", name, batch["batch_id"])
    files = _ledger(catalog, "files", name, batch["batch_id"])
    if len(batches) != 1 or len(files) != 1:
        return [f"ledger rows of the batch: expected=1 batch, 1 file actual={len(batches)}, {len(files)}"]
    row, file = batches[0], files[0]
    equations = catalog.load_table(f"{LEDGER}.reconciliations").scan(
        f"target = '{name}' and bookmark_version = {int(batch['bookmark_version'])}"
    )
    sides = [(e["equation"], e["left_value"], e["right_value"]) for e in equations.to_arrow().to_pylist()]
    differences = [f"equation {equation}: {left} is not {right}" for equation, left, right in sides if left != right]
    if not sides:
        differences.append("the ledger has no equation of the batch")
    return [
        *differences,
        *compare("ledger batch", {k: row[f"rows_{k}"] for k in counts}, dict(counts)),
        *compare("ledger batch state", row["state"], "committed"),
        *compare("ledger snapshot", row["snapshot_id"], batch["snapshot_id"]),
        *compare("ledger bookmark version", row["bookmark_version"], batch["bookmark_version"]),
        *compare("ledger file", (file["uri"], file["decision"]), (uri, "consumed")),
        *(
            difference
            for count in ("read", "rejected", "inserted", "updated")
            for difference in compare(f"ledger file rows_{count}", file[f"rows_{count}"], counts[count])
        ),
    ]


def _check_rejects(
    con: duckdb.DuckDBPyConnection, catalog: Catalog, name: str, batch_id: str, dataset: Dataset
) -> list[str]:
    """Every refused record by line, column and text."""
    have = {
        (row["line_number"], row["column_name"], row["raw"].rstrip("\r\n"))
        for row in _ledger(catalog, "rejects", name, batch_id)
    }
    sql = f"select line_number, column_name, raw from '{dataset.rejects}'"
    want = {(int(line), str(column), str(raw)) for line, column, raw in con.execute(sql).fetchall()}
    return [f"reject missing: {r}" for r in sorted(want - have)] + [
        f"reject not expected: {r}" for r in sorted(have - want, key=str)
    ]


def _ledger(catalog: Catalog, kind: str, name: str, batch_id: str) -> list[dict[str, Any]]:
    scan = catalog.load_table(f"{LEDGER}.{kind}").scan(f"target = '{name}' and batch_id = '{batch_id}'")
    return list(scan.to_arrow().to_pylist())


def _session() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    return con


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checker", description=__doc__)
    parser.add_argument("kind", choices=("ours", "upsert"))
    parser.add_argument("table")
    parser.add_argument("folder", type=Path, help="what the generator made")
    parser.add_argument("prefix", help="where the files landed, s3://…/")
    parser.add_argument("receipt", type=Path, nargs="?")
    arguments = parser.parse_args()
    dataset, catalog = Dataset(arguments.folder), load_catalog()
    if arguments.kind == "upsert":
        differences = check_upsert(catalog, arguments.table, dataset)
    else:
        receipt = json.loads(arguments.receipt.read_text())
        differences = check_ours(catalog, arguments.table, dataset, prefix=arguments.prefix, receipt=receipt)
    if differences:
        sys.exit("\n".join(f"{arguments.table}: {difference}" for difference in differences[:50]))
    expected = json.loads(dataset.counts.read_text())["expected" if arguments.kind == "ours" else "expected_upsert"]
    print(json.dumps(expected))


if __name__ == "__main__":
    main()
