"""Reads a table once with DuckDB's iceberg extension: `… .read_duckdb TABLE SNAPSHOT [DAY KEY]`.

As `read_pyiceberg`, in the environment of the peer: imports DuckDB 1.5 and the standard library. Loading the extensions
and attaching the catalog are not timed.
"""

from __future__ import annotations

import os

from benchmarks.peer_duckdb import connect
from benchmarks.upkeep.files import LOOKED_UP
from benchmarks.upkeep.question import Question, answer, asked


def sql_of(question: Question) -> str:
    table = f"lake.{question.table} at (version => {question.snapshot})"
    if question.day is None:
        return f"select status, count(*), sum(amount), sum(order_id) from {table} group by status order by status"
    where = f"input_date = date '{question.day}' and order_id = {question.key}"
    return f"select {', '.join(LOOKED_UP)} from {table} where {where}"


def main() -> None:
    question, con = asked(__doc__), connect(os.environ)
    answer(lambda: con.execute(sql_of(question)).fetchall())


if __name__ == "__main__":
    main()
