"""Lakes on two catalogs whose tables change under them, and tables that others made before any load."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from lakehouse.errors import LakehouseError
from lakehouse.operate.operator_change import Operator
from lakehouse.services import Progress, Services
from tests.integration.test_sql_catalog import LocalStateLake, SqlStack
from tests.lake import Lake

OPERATOR = Operator("ann@host", "it is ours now", "test")
ORDERS = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("order_time", pa.timestamp("us", tz="UTC")),
        ("input_date", pa.date32()),
    ]
)


def lake_on(catalog: str, stack: Any, folder: Path) -> Lake:
    """A lake on the stack's REST catalog or on a SQL catalog in a local file."""
    if catalog == "rest":
        return Lake(stack, folder)
    (folder / "warehouse").mkdir()
    return LocalStateLake(SqlStack(stack, folder), folder)


def orders(*rows: tuple[int | None, str, int], schema: pa.Schema = ORDERS) -> pa.Table:
    """Rows as another writer has them: (id, amount, minute of 2026-08-01 09:00)."""
    columns = [
        [r[0] for r in rows],
        [f"c{r[0]}" for r in rows],
        [Decimal(r[1]) for r in rows],
        [datetime(2026, 8, 1, 9, r[2], tzinfo=UTC) for r in rows],
        [None for _ in rows],
    ]
    arrays = [pa.array(v, f.type) for v, f in zip(columns, ORDERS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ORDERS).select(schema.names)


def foreign_table(lake: Lake, *appends: pa.Table, schema: pa.Schema = ORDERS, **properties: str) -> Table:
    """A table of the declared name that another engine made, one snapshot per append."""
    catalog = lake.stack.catalog()
    catalog.create_namespace_if_not_exists(lake.name)
    table: Table = catalog.create_table(lake.table, schema=schema, properties=properties)
    for rows in appends:
        table.append(rows)
    return table


def at_step(services: Services, step: str, act: Callable[[], None]) -> Callable[[Progress], None]:
    """A listener to progress that acts when a step is reached first."""
    done: list[str] = []

    def listen(progress: Progress) -> None:
        if progress.step == step and not done:
            done.append(step)
            act()
        services.progress(progress)

    return listen


def failure(act: Callable[[], object]) -> LakehouseError:
    """The error of ours that a call raises."""
    try:
        act()
    except LakehouseError as error:
        return error
    raise AssertionError("nothing was raised")
