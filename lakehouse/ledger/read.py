"""Reads the ledger for people: rows of one table, and how far the ledger has come. Never writes, never plans."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal

from lakehouse.catalog import translated
from lakehouse.ledger.schema import LEDGERS, SORTED_BY, head_of, ledger_schema
from lakehouse.ledger.tables import find_ledger


def read_ledger(
    catalog: Catalog,
    ops_namespace: str,
    name: str,
    *,
    table_uuid: str,
    batch_id: str | None = None,
    context: str | None = None,
) -> pa.Table:
    """The rows of one ledger table for one life of a target, oldest version first. Empty if nothing was written yet.

    Raises ConfigurationError if the table is not as this release makes it, Unavailable if nobody answers.
    """
    table = find_ledger(catalog, ops_namespace, name)
    if table is None:
        return ledger_schema(name).as_arrow().empty_table()
    wanted = {"table_uuid": table_uuid, "batch_id": batch_id, "context": context}
    terms = [_equal(column, value) for column, value in wanted.items() if value is not None]
    with translated(f"table={ops_namespace}.{name}"):
        rows = table.scan(row_filter=And(AlwaysTrue(), *terms)).to_arrow()
    return rows.sort_by([(column, "ascending") for column in SORTED_BY[name]])


def ledger_head(catalog: Catalog, ops_namespace: str, *, table_uuid: str, context: str) -> int:
    """The bookmark version up to which all ledger tables have this context's rows; 0 if one of them is missing."""
    tables = [find_ledger(catalog, ops_namespace, name) for name in LEDGERS]
    return min(head_of(table, table_uuid=table_uuid, context=context) if table else 0 for table in tables)


def newest_in_ledger(catalog: Catalog, ops_namespace: str, *, table_uuid: str, context: str) -> int:
    """The highest bookmark version of this context that any ledger table has; 0 if none has one."""
    tables = [find_ledger(catalog, ops_namespace, name) for name in LEDGERS]
    return max(head_of(table, table_uuid=table_uuid, context=context) if table else 0 for table in tables)


def _equal(column: str, value: str) -> BooleanExpression:
    return EqualTo(term=Reference(column), value=literal(value))
