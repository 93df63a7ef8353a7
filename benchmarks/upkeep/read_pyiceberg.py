"""Reads a table once with PyIceberg, in a process of its own: `… .read_pyiceberg TABLE SNAPSHOT [DAY KEY]`.

Timed from loading the table to the counted rows, which go through one Arrow table; opening the catalog and imports are
not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from benchmarks.upkeep.files import LOOKED_UP
from benchmarks.upkeep.question import Question, answer, asked


def read(catalog: Catalog, question: Question) -> Sequence[Sequence[Any]]:
    table = catalog.load_table(question.table)
    if question.day is None:
        scan = table.scan(selected_fields=("status", "amount", "order_id"), snapshot_id=question.snapshot)
        grouped = scan.to_arrow().group_by("status")
        rows = grouped.aggregate([([], "count_all"), ("amount", "sum"), ("order_id", "sum")]).sort_by("status")
        rows = rows.select(["status", "count_all", "amount_sum", "order_id_sum"])
    else:
        condition = f"input_date = '{question.day}' and order_id = {question.key}"
        rows = table.scan(condition, LOOKED_UP, snapshot_id=question.snapshot).to_arrow().select(LOOKED_UP)
    return list(zip(*rows.to_pydict().values(), strict=True))


def main() -> None:
    question, catalog = asked(__doc__), load_catalog()
    answer(lambda: read(catalog, question))


if __name__ == "__main__":
    main()
