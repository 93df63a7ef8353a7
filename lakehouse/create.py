"""Makes a table that is missing; of several processes that make it at once, all get the same one. Writes no rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakehouse.catalog import ensure_namespace, load_table, translated
from lakehouse.errors import RetryLater

ATTEMPTS = 6
TABLE_PROPERTIES = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
"""What a new target has unless its declaration says otherwise; the names are Iceberg's own."""


def new_properties(declared: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new target: ours, and over them the declared ones."""
    return {**TABLE_PROPERTIES, **declared}


def ensure_table(
    catalog: Catalog,
    name: str,
    *,
    schema: Schema,
    spec: PartitionSpec,
    properties: Mapping[str, str],
    pause: Callable[[float], None],
    location: str | None = None,
) -> Table:
    """The table as it is now, made first if it is missing. What somebody else made may look otherwise: compare it.

    `location` None leaves the place to the catalog; one that ignores the place shows in the comparison.

    A catalog may answer the slower of two makers with any error: SeaweedFS shows namespaces and tables that are half
    made as internal errors, and returns an existing table silently. So the table is looked up again, a few times,
    before RetryLater is raised.
    """
    failure = RetryLater(f"the table is dropped as often as it is made: table={name}")
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(0.1 * attempt)
        try:
            table = load_table(catalog, name)
            if table is None:
                _make(catalog, name, schema=schema, spec=spec, properties=properties, location=location)
                table = load_table(catalog, name)
        except RetryLater as error:
            failure = error
            continue
        if table is not None:
            return table
    raise failure


def _make(
    catalog: Catalog,
    name: str,
    *,
    schema: Schema,
    spec: PartitionSpec,
    properties: Mapping[str, str],
    location: str | None,
) -> None:
    ensure_namespace(catalog, name.rpartition(".")[0])
    with translated(f"table={name}"):
        catalog.create_table_if_not_exists(
            name, schema=schema, location=location, partition_spec=spec, properties=dict(properties)
        )
