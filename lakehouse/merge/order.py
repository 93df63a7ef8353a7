"""The SQL of the order guard: which of two rows with one key is newer (DESIGN §4, invariant 4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

TIE_BREAK = ("_source_mtime", "_source_file", "_source_line")
"""Compared after `order_by`, in this order."""


def tie_break(declaration: Declaration) -> tuple[str, ...]:
    """The lineage columns that order rows which tie in `order_by`: (mtime, uri, line).

    An equal row replaces: it is the same source row, read again, perhaps under another declaration. Without lineage
    they order the rows of a batch alone, and the target wins ties.

    A snapshot without `order_by` is ordered by its date first: whatever arrives late for an older date stays older.
    """
    dated = declaration.write == "snapshot" and not declaration.order_by and not declaration.arrival
    return ("_source_date", *TIE_BREAK) if dated else TIE_BREAK


def newer(columns: Sequence[str], one: str, other: str, *, if_equal: str = "false") -> str:
    """A condition over two aliases: `one` is newer by these columns, in order; NULL is oldest."""
    condition = if_equal
    for column in reversed(columns):
        new, old = f"{one}.{quote_name(column)}", f"{other}.{quote_name(column)}"
        greater = f"({new} is not null and ({old} is null or {new} > {old}))"
        condition = f"({greater} or ({new} is not distinct from {old} and {condition}))"
    return condition


def old_date(declaration: Declaration) -> str:
    """SQL of the landing date that a target row `o` came from; NULL without lineage."""
    return 'o."_source_date"' if declaration.lineage else "null::date"


def order_verdict(declaration: Declaration) -> str:
    """SQL over a target row `o` and the staged row `s` of its key: the verdict if `order_by` tells it, else NULL.

    A row that is newer or older there differs in content, too: the columns of `order_by` are business columns.
    """
    update = "if(s._is_delete, 'removed', 'updated')" if declaration.hard_deletes else "'updated'"
    return (
        f"case when {newer(declaration.order_by, 's', 'o')} then {update} "
        f"when {newer(declaration.order_by, 'o', 's')} then 'stale' end"
    )


def newest_first(declaration: Declaration) -> str:
    """An ORDER BY list for staged rows; NULL is oldest."""
    return ", ".join(f"{quote_name(c)} desc nulls last" for c in (*declaration.order_by, *tie_break(declaration)))
