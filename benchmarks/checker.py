"""Checks a timed run against the expected results: every row, every reject, every count, by other code than ours.

    python -m benchmarks.checker ours TABLE FOLDER PREFIX RECEIPT [--again RECEIPT] [--verified FILE]
    python -m benchmarks.checker peer TABLE FOLDER

`--again`: the same file was loaded once more, in mode full; nothing may have changed. `--verified` remembers which
files hold the unchanged rows of a day, so that files that were compared once are not compared again.
Reads tables with PyIceberg's scan and compares with DuckDB; imports nothing of `lakehouse`. Prints one JSON object;
exit 1 and a line per difference if anything differs. Writes nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from benchmarks.generate import session
from benchmarks.rows import names, rows_of_day
from benchmarks.workload import NEW_DAY, Dataset, Target, first_days

LINEAGE = ("_source_date", "_source_line", "_source_file", "_batch_id")
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the generator says of one batch: its folder, its target, where its files landed, its counts."""

    dataset: Dataset
    target: Target
    prefix: str
    counts: Mapping[str, Any]

    @property
    def uri(self) -> str:
        return f"{self.prefix}landing_date={NEW_DAY}/orders.csv"

    @property
    def again(self) -> dict[str, int]:
        """Counts of the same file read once more."""
        batch: dict[str, int] = self.counts["batch"]
        written = batch["inserted"] + batch["updated"]
        return batch | {"inserted": 0, "updated": 0, "unchanged": batch["unchanged"] + written}


def read_expected(folder: Path, prefix: str = "") -> Expected:
    """What the generator left in `folder`."""
    counts = json.loads(Dataset(folder).counts.read_text())
    return Expected(Dataset(folder), Target(**counts["made"]["target"]), prefix, counts)


def check_peer(catalog: Catalog, name: str, expected: Expected) -> list[str]:
    """Rows and sum of a peer's table: those of a merge without an order guard, where the file's row always wins."""
    con = session()
    con.register("scanned", catalog.load_table(name).scan(selected_fields=("amount",)).to_arrow_batch_reader())
    ((rows, total),) = con.execute("select count(*), sum(amount) from scanned").fetchall()
    return compare("rows and sum", {"rows": rows, "sum": str(total)}, expected.counts["expected_upsert"])


def check_ours(
    catalog: Catalog, name: str, expected: Expected, *, receipt: Mapping[str, Any], again: Mapping[str, Any] | None
) -> list[str]:
    """Differences of our snapshot, receipt and ledger, and of the rows that the batch left in the table."""
    table = catalog.load_table(name)
    for told, counts in ((receipt, expected.counts["batch"]), *([(again, expected.again)] if again else [])):
        differences = compare("receipt state", told["state"], "committed")
        differences += compare("receipt batches", len(told["batches"]), 1)
        if differences:
            return [*differences, f"receipt: {told.get('error') or told}"]
        batch = told["batches"][0]
        differences += compare("receipt rows", {k: told["rows"].get(k) for k in counts}, dict(counts))
        differences += _check_snapshot(table, batch, counts, newest=told is (again or receipt))
        differences += _check_ledger(catalog, name, batch, counts, uri=expected.uri)
        differences += _check_rejects(catalog, name, batch["batch_id"], expected.dataset)
        if differences:
            return differences
    if again:
        differences = compare("files of the second load", again["files"], dict.fromkeys(again["files"], 0))
    return differences


def check_days(
    table: Table, expected: Expected, *, batch_id: str, verified: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Compare the table day by day; returns the differences, and the files of each day that no batch has changed."""
    con, differences = session(), []
    con.execute(f"create view changes as from '{expected.dataset.changes}'")
    changed = {day for (day,) in con.execute("select distinct input_date from changes").fetchall()}
    files = files_by_day(table)
    known = {*first_days(), NEW_DAY}
    differences += [f"rows of another day: {day}" for day in files if day not in known]
    for day in sorted(known & (set(files) | changed | set(first_days()))):
        if day not in changed and verified.get(str(day)) == files.get(day):
            continue
        con.execute(f"create or replace temp table expected as {expected_of_day(expected, day, batch_id)}")
        columns = (*expected.target.columns, *LINEAGE)
        differences += [f"{day}: {d}" for d in compare_rows(con, table, columns, day=day, batch_id=batch_id)]
    return differences, {str(day): names for day, names in files.items() if day not in changed}


def expected_of_day(expected: Expected, day: date, batch_id: str) -> str:
    """SQL of the rows that a day must have after the batch, with their lineage, from the view `changes`."""
    columns = names(expected.target)
    old = f"select {columns}, date '{day}' as _source_date, _source_line, false as written from ({_old(expected, day)})"
    new = f"select {columns}, date '{NEW_DAY}', _source_line, true from changes where input_date = date '{day}'"
    return f"""select * exclude (written),
            '{expected.prefix}landing_date=' || strftime(_source_date, '%Y-%m-%d') || '/orders.csv' as _source_file,
            case when written then '{batch_id}' end as _batch_id
        from (({old} anti join changes using (order_id)) union all {new})"""


def files_by_day(table: Table) -> dict[date, str]:
    """The paths of the data files of each day with those of their delete files, as one text."""
    found = defaultdict(list)
    for task in table.scan().plan_files():
        value = task.file.partition[0]
        day = value if isinstance(value, date) else _EPOCH + timedelta(days=int(value))
        found[day].append(" ".join([task.file.file_path, *sorted(d.file_path for d in task.delete_files)]))
    return {day: "\n".join(sorted(paths)) for day, paths in found.items()}


def compare_rows(
    con: duckdb.DuckDBPyConnection,
    table: Table,
    columns: Sequence[str],
    *,
    day: date | None = None,
    batch_id: str | None = None,
) -> list[str]:
    """Full outer join of the relation `expected` (unique keys) and a scan (of one day), over every column.

    Rows that `batch_id` did not write must have another batch: which one, the expected results cannot know.
    """
    rows = table.scan(f"input_date = '{day}'") if day else table.scan()
    con.register("scanned", rows.select(*columns).to_arrow_batch_reader())
    picked = ", ".join(c for c in columns if c != "_batch_id")
    if batch_id is not None:
        picked += f", case when _batch_id = '{batch_id}' then _batch_id end as _batch_id"
    con.execute(f"create or replace temp table actual as select {picked} from scanned")
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


def _old(expected: Expected, day: date) -> str:
    """SQL of the target's rows of a day, none for the new day."""
    if day < NEW_DAY:
        return rows_of_day(expected.target, day)
    return f"select * from ({rows_of_day(expected.target, first_days()[0])}) where false"


def _check_snapshot(table: Table, batch: Mapping[str, Any], counts: Mapping[str, int], *, newest: bool) -> list[str]:
    """The batch is exactly one snapshot, the current one if it is the `newest`, and carries bookmark and counts."""
    ours = [s for s in table.metadata.snapshots if s.summary and s.summary["lakehouse.batch-id"] == batch["batch_id"]]
    if len(ours) != 1 or ours[0].summary is None:
        return [f"snapshots of the batch: expected=1 actual={len(ours)}"]
    snapshot, summary = ours[0], ours[0].summary
    tags = {n: r.snapshot_id for n, r in table.metadata.refs.items() if n.startswith("lakehouse.bookmark.")}
    properties = summary.additional_properties.items()
    stated = {k.removeprefix("lakehouse.rows-"): int(v) for k, v in properties if k.startswith("lakehouse.rows-")}
    differences = [
        *compare("receipt snapshot", batch["snapshot_id"], snapshot.snapshot_id),
        *compare("bookmark version", summary["lakehouse.bookmark-version"], str(batch["bookmark_version"])),
        *compare("counts of the summary", {k: stated.get(k, 0) for k in counts}, dict(counts)),
    ]
    if newest:
        differences += compare("current snapshot", table.metadata.current_snapshot_id, snapshot.snapshot_id)
        differences += compare("tags", list(tags.values()), [snapshot.snapshot_id])
    return differences


def _check_ledger(
    catalog: Catalog, name: str, batch: Mapping[str, Any], counts: Mapping[str, int], *, uri: str
) -> list[str]:
    batches = _ledger(catalog, "batches", name, batch["batch_id"])
    files = _ledger(catalog, "files", name, batch["batch_id"])
    if len(batches) != 1 or len(files) != 1:
        return [f"ledger rows of the batch: expected=1 batch, 1 file actual={len(batches)}, {len(files)}"]
    row, file = batches[0], files[0]
    equations = catalog.load_table(f"{_ops()}.reconciliations").scan(
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


def _check_rejects(catalog: Catalog, name: str, batch_id: str, dataset: Dataset) -> list[str]:
    """Every refused record by line, column and text."""
    have = {
        (row["line_number"], row["column_name"], row["raw"].rstrip("\r\n"))
        for row in _ledger(catalog, "rejects", name, batch_id)
    }
    sql = f"select line_number, column_name, raw from '{dataset.rejects}'"
    want = {(int(line), str(column), str(raw)) for line, column, raw in session().execute(sql).fetchall()}
    return [f"reject missing: {r}" for r in sorted(want - have)] + [
        f"reject not expected: {r}" for r in sorted(have - want, key=str)
    ]


def _ledger(catalog: Catalog, kind: str, name: str, batch_id: str) -> list[dict[str, Any]]:
    scan = catalog.load_table(f"{_ops()}.{kind}").scan(f"target = '{name}' and batch_id = '{batch_id}'")
    return list(scan.to_arrow().to_pylist())


def _ops() -> str:
    return os.environ.get("LAKEHOUSE_OPS_NAMESPACE", "lakehouse_ops")


def _read_json(path: Path | None) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path and path.is_file() else {}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checker", description=__doc__)
    parser.add_argument("kind", choices=("ours", "peer"))
    parser.add_argument("table")
    parser.add_argument("folder", type=Path, help="what the generator made")
    parser.add_argument("prefix", nargs="?", default="", help="where the files landed, s3://…/")
    parser.add_argument("receipt", type=Path, nargs="?")
    parser.add_argument("--again", type=Path, help="receipt of a second load of the same file")
    parser.add_argument("--verified", type=Path, help="what was compared before; written")
    options = parser.parse_args()
    expected, catalog = read_expected(options.folder, options.prefix), load_catalog()
    if options.kind == "peer":
        differences = check_peer(catalog, options.table, expected)
    else:
        receipt, again = _read_json(options.receipt), _read_json(options.again)
        differences = check_ours(catalog, options.table, expected, receipt=receipt, again=again or None)
        if not differences:
            batch_id, verified = receipt["batches"][0]["batch_id"], _read_json(options.verified)
            table = catalog.load_table(options.table)
            differences, found = check_days(table, expected, batch_id=batch_id, verified=verified)
            if options.verified and not differences:
                options.verified.write_text(json.dumps(verified | found))
    if differences:
        sys.exit("\n".join(f"{options.table}: {difference}" for difference in differences[:50]))
    print(json.dumps(expected.counts["expected" if options.kind == "ours" else "expected_upsert"]))


if __name__ == "__main__":
    main()
