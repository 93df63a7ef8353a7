"""Compares every row of a table with the expected ones, by sums of hashes: `… .check TABLE ROWS`.

What a load adds beside the columns is not compared: it depends on which file brought the row. Exit 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing

from pyiceberg.catalog import load_catalog

from benchmarks.checker import compare
from benchmarks.generate import session
from benchmarks.reading.check import digest
from benchmarks.upkeep.files import final, make_updates
from benchmarks.upkeep.sizes import Sizes
from benchmarks.workload import ORDERS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upkeep.check", description=__doc__)
    parser.add_argument("table")
    parser.add_argument("rows", type=int, help="size of the benchmark")
    options = parser.parse_args()
    sizes = Sizes(options.rows)
    with closing(session()) as con:
        make_updates(con, sizes)
        want = digest(con, final(sizes, range(sizes.all_rows)), tuple(ORDERS))
        scan = load_catalog().load_table(options.table).scan(selected_fields=tuple(ORDERS))
        con.register("scanned", scan.to_arrow_batch_reader())
        have = digest(con, "from scanned", tuple(ORDERS))
    differences = [d for name in want for d in compare(name, have[name], want[name])]
    if differences:
        sys.exit("\n".join(f"{options.table}: {difference}" for difference in differences))
    print(json.dumps(have))


if __name__ == "__main__":
    main()
