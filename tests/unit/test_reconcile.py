from __future__ import annotations

from dataclasses import replace
from datetime import date

from lakehouse.model import Bookmark, DateCounts, RowCounts
from lakehouse.reconcile import UNDATED, baseline_dates, day_text, expected_by_date, expected_live
from tests.landing_values import manifest_of


def test_rows_of_an_adopted_table_count_as_undated_until_a_batch_writes_them_again() -> None:
    adopted = replace(manifest_of(Bookmark(), kind="adopt", advance=False), baseline=10)
    batch = replace(
        manifest_of(Bookmark()),
        rows=RowCounts(inserted=3, updated=2, deleted=1, removed=1),
        dates={"2026-08-30": DateCounts(gained=5), UNDATED: DateCounts(lost=3)},
    )
    assert expected_live([batch, adopted]) == 12
    assert expected_by_date([batch, adopted]) == {"2026-08-30": 5, UNDATED: 7}


def test_a_baseline_is_moved_to_its_dates_and_may_be_less_than_nothing() -> None:
    day = date(2026, 8, 30)
    for rows in ({day: 3, None: 2}, {day: -3}, {day: -3, date(2026, 8, 31): 5, None: -1}, {None: 4}, {}):
        taken = replace(manifest_of(Bookmark()), baseline=sum(rows.values()), dates=baseline_dates(rows))
        counted = {day: rows for day, rows in expected_by_date([taken]).items() if rows}
        assert counted == {day_text(day): count for day, count in rows.items() if count}
