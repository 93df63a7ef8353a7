"""Finds the ledger tables in the catalog and makes those that are missing. Never writes rows."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lakehouse.catalog import ensure_namespace, load_table, translated
from lakehouse.errors import RetryLater
from lakehouse.ledger.schema import PROPERTIES, check_ledger, ledger_schema, ledger_spec


def find_ledger(catalog: Catalog, ops_namespace: str, name: str) -> Table | None:
    """The ledger table as it is now; None if it does not exist. Raises ConfigurationError if it is not ours."""
    table = load_table(catalog, f"{ops_namespace}.{name}")
    if table is not None:
        check_ledger(table, name)
    return table


def open_ledger(catalog: Catalog, ops_namespace: str, name: str) -> Table:
    """The ledger table, made first if it is missing; of several who make it at once, one does and all get the same."""
    table = find_ledger(catalog, ops_namespace, name)
    if table is not None:
        return table
    identifier = f"{ops_namespace}.{name}"
    ensure_namespace(catalog, ops_namespace)
    schema = ledger_schema(name)
    with translated(f"table={identifier}"):
        catalog.create_table_if_not_exists(
            identifier, schema=schema, partition_spec=ledger_spec(schema), properties=PROPERTIES
        )
    # What the call returned may be the table of another writer, or one that was just replaced: look again.
    table = find_ledger(catalog, ops_namespace, name)
    if table is None:
        raise RetryLater(f"the ledger table was dropped while it was made: table={identifier}")
    return table
