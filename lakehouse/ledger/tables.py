"""Finds the ledger tables in the catalog and makes those that are missing. Never writes rows."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lakehouse.catalog import load_table
from lakehouse.create import ensure_table
from lakehouse.ledger.schema import PROPERTIES, check_ledger, ledger_schema, ledger_spec


def find_ledger(catalog: Catalog, ops_namespace: str, name: str) -> Table | None:
    """The ledger table as it is now; None if it does not exist. Raises ConfigurationError if it is not ours."""
    table = load_table(catalog, f"{ops_namespace}.{name}")
    if table is not None:
        check_ledger(table, name)
    return table


def open_ledger(catalog: Catalog, ops_namespace: str, name: str, *, pause: Callable[[float], None]) -> Table:
    """The ledger table, made first if it is missing. Raises ConfigurationError if it is not ours, else RetryLater."""
    schema = ledger_schema(name)
    table = ensure_table(
        catalog, f"{ops_namespace}.{name}", schema=schema, spec=ledger_spec(schema), properties=PROPERTIES, pause=pause
    )
    check_ledger(table, name)
    return table
