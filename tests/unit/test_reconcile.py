from __future__ import annotations

from dataclasses import replace

from lakehouse.model import Bookmark, DateCounts, RowCounts
from lakehouse.reconcile import UNDATED, expected_by_date, expected_live
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
