"""Checks what was read against the expected rows and rejects, by other code than ours.

    python -m benchmarks.reading.check staged COUNT ROWS PREFIX FOLDER
    python -m benchmarks.reading.check table COUNT ROWS PREFIX TABLE
    python -m benchmarks.reading.check peer COUNT ROWS FOUND.json FILES

Rows are compared by count and by the sums of the hashes of each column and of whole rows, with their lineage, so that
also what no memory holds can be; rejects one by one. Imports nothing of `lakehouse`. Prints one JSON object; exit 1 and
a line per difference if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import load_catalog

from benchmarks.checker import compare
from benchmarks.generate import session
from benchmarks.reading.files import Files

_LINEAGE = ("_source_line", "_source_date", "_source_file")
_REJECT = ("line_number", "column_name", "raw", "uri")


def digest(con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str]) -> dict[str, str]:
    """Rows of a relation, and the sum of the hashes of every column and of the whole rows: the same rows in any order
    have the same."""
    sums = [f"sum(hash({column}))" for column in columns]
    ((rows, *found),) = con.execute(
        f"select count(*), sum(hash({', '.join(columns)})), {', '.join(sums)} from ({relation})"
    ).fetchall()
    return {"rows": str(rows)} | {name: str(value) for name, value in zip(("whole rows", *columns), found, strict=True)}


def compare_staged(con: duckdb.DuckDBPyConnection, files: Files, prefix: str, *, rows: str, rejects: str) -> list[str]:
    """Differences of the relations `rows` and `rejects`; `prefix` is where the files stand, as a URI."""
    columns = (*files.target.columns, *_LINEAGE)
    expected = f"select *, '{prefix}' || file as _source_file from ({files.accepted})"
    have, want = digest(con, rows, columns), digest(con, expected, columns)
    differences = [d for name in want for d in compare(f"accepted rows: {name}", have[name], want[name])]
    refused = f"select *, '{prefix}' || file as uri from ({files.rejected})"
    picked = ", ".join(_REJECT)
    for what, first, second in (("missing", refused, rejects), ("not expected", rejects, refused)):
        found = con.execute(
            f"select {picked} from ({first}) except all select {picked} from ({second}) limit 5"
        ).fetchall()
        differences += [f"reject {what}: {reject}" for reject in found]
    return differences


def compare_peer(files: Files, found: dict[str, Any], folder: Path) -> list[str]:
    """Differences of what a peer found, as far as it says."""
    total = files.count * files.rows
    with session() as con:
        ((accepted, amounts),) = con.execute(f"select count(*), sum(amount) from ({files.accepted})").fetchall()
    if "bytes" in found:
        return compare("bytes", found["bytes"], sum(path.stat().st_size for path in folder.rglob("*.csv")))
    if "sum" in found:
        have = (found["rows"], found["rejected"], found["sum"])
        return compare("rows, rejects and sum", have, (accepted, total - accepted, str(amounts)))
    # types that nobody judges strictly drop some of the bad records, and bend the others
    return [] if accepted <= found["rows"] <= total else [f"rows: {found['rows']} of {total}, {accepted} good ones"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.check", description=__doc__)
    parser.add_argument("kind", choices=("staged", "table", "peer"))
    parser.add_argument("count", type=int, help="files")
    parser.add_argument("rows", type=int, help="records of each")
    parser.add_argument("where", help="where the files stand, or the JSON of what a peer found")
    parser.add_argument("what", help="folder of what was staged, table, or folder of the local files")
    options = parser.parse_args()
    files = Files(options.count, options.rows)
    with session() as con:
        if options.kind == "peer":
            differences = compare_peer(files, json.loads(Path(options.where).read_text()), Path(options.what))
        elif options.kind == "staged":
            rows, rejects = (f"from '{options.what}/{name}.parquet'" for name in ("staged", "rejects"))
            differences = compare_staged(con, files, options.where, rows=rows, rejects=rejects)
        else:
            catalog = load_catalog()
            con.register("scanned", catalog.load_table(options.what).scan().to_arrow_batch_reader())
            refused = catalog.load_table("lakehouse_ops.rejects").scan(f"target = '{options.what}'")
            con.register("refused", refused.to_arrow())
            differences = compare_staged(con, files, options.where, rows="from scanned", rejects="from refused")
    if differences:
        sys.exit("\n".join(differences[:50]))
    print(json.dumps({"records": files.count * files.rows}))


if __name__ == "__main__":
    main()
