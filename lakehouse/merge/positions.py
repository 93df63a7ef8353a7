"""Row positions by data file, from the session's tables: ascending, for a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from lakehouse.merge.target_files import TargetFile

ROWS_AT_ONCE = 2_000_000


def positions_by_file(
    con: duckdb.DuckDBPyConnection, places: str, files: Mapping[int, TargetFile]
) -> Iterator[list[tuple[TargetFile, Any]]]:
    """Files with the Arrow array of their positions, in groups, from the query `places` of distinct (__file, __pos)."""
    counts = con.execute(
        f"select __file, count(*) from ({places}) where __pos is not null group by 1 order by 1"
    ).fetchall()
    group: list[tuple[int, int]] = []
    total = 0
    for number, count in counts:
        group.append((int(number), int(count)))
        total += int(count)
        if total >= ROWS_AT_ONCE:
            yield _take(con, places, group, files)
            group, total = [], 0
    if group:
        yield _take(con, places, group, files)


def _take(
    con: duckdb.DuckDBPyConnection, places: str, group: Sequence[tuple[int, int]], files: Mapping[int, TargetFile]
) -> list[tuple[TargetFile, Any]]:
    found = con.sql(
        f"select __pos from ({places}) where __file between ? and ? order by __file, __pos",
        params=[group[0][0], group[-1][0]],
    ).to_arrow_table()
    positions = found.column(0).combine_chunks()
    taken = []
    start = 0
    for number, count in group:
        taken.append((files[number], positions.slice(start, count)))
        start += count
    return taken
