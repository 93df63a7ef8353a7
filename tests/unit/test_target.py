"""Targets that the merge would read wrongly are refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import StringType

from lakehouse.errors import NotAvailable
from lakehouse.target import look, refuse_what_we_cannot_merge
from tests.merge_bench import Bench, declare


@pytest.mark.parametrize("name", ["__row_id", "__path", "__filename"])
def test_a_column_called_like_those_of_the_merge_is_refused(tmp_path: Path, name: str) -> None:
    declaration = declare()
    table = Bench(declaration, tmp_path).catalog.load_table(declaration.table)
    refuse_what_we_cannot_merge(look(declaration.table, declaration.context, table))
    with table.update_schema() as change:
        change.add_column(name, StringType())
    with pytest.raises(NotAvailable, match=name) as refused:
        refuse_what_we_cannot_merge(look(declaration.table, declaration.context, table))
    assert f"rename column {name}" in str(refused.value.next)
