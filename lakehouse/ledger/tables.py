"""Finds the ledger tables in the catalog and makes those that are missing. Never writes rows."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lakehouse.catalog import ensure_namespace, load_table, translated
from lakehouse.errors import RetryLater
from lakehouse.ledger.schema import PROPERTIES, check_ledger, ledger_schema, ledger_spec

ATTEMPTS = 6


def find_ledger(catalog: Catalog, ops_namespace: str, name: str) -> Table | None:
    """The ledger table as it is now; None if it does not exist. Raises ConfigurationError if it is not ours."""
    table = load_table(catalog, f"{ops_namespace}.{name}")
    if table is not None:
        check_ledger(table, name)
    return table


def open_ledger(catalog: Catalog, ops_namespace: str, name: str, *, pause: Callable[[float], None]) -> Table:
    """The ledger table, made first if it is missing; of several who make it at once, all get the same one.

    A catalog may answer the slower ones with any error: SeaweedFS shows namespaces and tables that are half made as
    internal errors. So they look again, a few times, before Unavailable is raised.
    """
    failure = RetryLater(f"the ledger table is dropped as often as it is made: table={ops_namespace}.{name}")
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(0.1 * attempt)
        try:
            table = find_ledger(catalog, ops_namespace, name)
            if table is None:
                _make(catalog, ops_namespace, name)
                table = find_ledger(catalog, ops_namespace, name)
        except RetryLater as error:
            failure = error
            continue
        if table is not None:
            return table
    raise failure


def _make(catalog: Catalog, ops_namespace: str, name: str) -> None:
    """What the call returns may be another writer's table, or one that was just replaced: it has to be looked up."""
    ensure_namespace(catalog, ops_namespace)
    schema = ledger_schema(name)
    with translated(f"table={ops_namespace}.{name}"):
        catalog.create_table_if_not_exists(
            f"{ops_namespace}.{name}", schema=schema, partition_spec=ledger_spec(schema), properties=PROPERTIES
        )
