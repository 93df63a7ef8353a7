"""The SQL of the order guard: which of two rows with one key is newer (DESIGN §4, invariant 4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.naming import quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

TIE_BREAK = ("_source_mtime", "_source_file", "_source_line")
"""Compared after `order_by`, in this order."""


def newest_first(declaration: Declaration) -> str:
    """An ORDER BY list for staged rows; NULL is oldest."""
    return ", ".join(f"{quote_name(c)} desc nulls last" for c in (*declaration.order_by, *TIE_BREAK))


def not_older(declaration: Declaration, staged: str, target: str) -> str:
    """A condition over two aliases: the staged row may replace the target's.

    With lineage rows compare as (order_by…, mtime, uri, line) and an equal row replaces: it is the same source row,
    read again, perhaps under another declaration. Without lineage the target wins ties.
    """
    columns: Sequence[str] = (*declaration.order_by, *TIE_BREAK) if declaration.lineage else declaration.order_by
    condition = "true" if declaration.lineage else "false"
    for column in reversed(columns):
        new, old = f"{staged}.{quote_name(column)}", f"{target}.{quote_name(column)}"
        newer = f"({new} is not null and ({old} is null or {new} > {old}))"
        condition = f"({newer} or ({new} is not distinct from {old} and {condition}))"
    return condition


def same_content(declaration: Declaration, staged: str, target: str) -> str:
    """A condition over two aliases: no business column differs. Lineage never counts."""
    columns = [quote_name(c.name) for c in declaration.columns if c.name not in declaration.key]
    return " and ".join(f"{staged}.{c} is not distinct from {target}.{c}" for c in columns) or "true"
