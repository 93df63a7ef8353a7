"""Three readers of one table: PyIceberg in this process, DuckDB and Spark each in a server of its own.

All give rows as mappings of canonical values (`tests.readers.canonical`). A table is a PyIceberg `Table`: one of the
stack's REST catalog is read through that catalog, any other by its local metadata file. Filters are SQL conditions that
all three understand: comparisons of columns with numbers and quoted text, `and`, `or`, `not`, `in`, `is null`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow.compute as pc
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from lakehouse.stack import Stack, catalog_properties
from tests.readers.canonical import canonical
from tests.readers.environment import duckdb_environment, spark_environment
from tests.readers.server import Server

CATALOG = "lake"


class Reader(Protocol):
    """Reads tables. `where` and `snapshot` (an id) restrict what is read; a `where` of None reads all."""

    name: str

    def rows(
        self, table: Table, columns: Sequence[str], *, where: str | None = None, snapshot: int | None = None
    ) -> list[dict[str, Any]]:
        """The rows in any order."""
        ...

    def rows_by_filter(
        self, table: Table, columns: Sequence[str], filters: Sequence[str | None]
    ) -> list[list[dict[str, Any]]]:
        """What `rows` gives for each filter."""
        ...

    def totals(self, table: Table, column: str, filters: Sequence[str | None]) -> list[tuple[int, str]]:
        """For each filter the number of rows and the sum of a numeric column, as text without trailing zeros."""
        ...

    def close(self) -> None: ...


class PyIcebergReader:
    """PyIceberg's own scan."""

    name = "pyiceberg"

    def rows(
        self, table: Table, columns: Sequence[str], *, where: str | None = None, snapshot: int | None = None
    ) -> list[dict[str, Any]]:
        scan = table.scan(where or AlwaysTrue(), selected_fields=tuple(columns), snapshot_id=snapshot)
        found = scan.to_arrow().to_pylist(maps_as_pydicts="strict")
        return [{name: canonical(row[name]) for name in columns} for row in found]

    def rows_by_filter(
        self, table: Table, columns: Sequence[str], filters: Sequence[str | None]
    ) -> list[list[dict[str, Any]]]:
        return [self.rows(table, columns, where=where) for where in filters]

    def totals(self, table: Table, column: str, filters: Sequence[str | None]) -> list[tuple[int, str]]:
        found = (table.scan(w or AlwaysTrue(), selected_fields=(column,)).to_arrow() for w in filters)
        return [(rows.num_rows, _number(pc.sum(rows[column]).as_py())) for rows in found]

    def close(self) -> None:
        """Holds nothing."""


class DuckDBReader:
    """DuckDB's iceberg extension."""

    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        self._server = Server("tests.readers.duckdb_server", duckdb_environment(), folder)

    def attach(self, stack: Stack) -> None:
        """Read the stack's REST catalog from now on."""
        self._server.ask(do="attach", catalog=_catalog(stack))

    def query(self, sql: str) -> list[list[Any]]:
        return list(self._server.ask(do="query", sql=sql))

    def rows(
        self, table: Table, columns: Sequence[str], *, where: str | None = None, snapshot: int | None = None
    ) -> list[dict[str, Any]]:
        source = _named(table) or f"iceberg_scan('{_local(table)}')"
        if snapshot is not None:
            source = f"{source} at (version => {snapshot})"
        return _mappings(columns, self.query(_select(columns, source, where)))

    def rows_by_filter(
        self, table: Table, columns: Sequence[str], filters: Sequence[str | None]
    ) -> list[list[dict[str, Any]]]:
        return [self.rows(table, columns, where=where) for where in filters]

    def totals(self, table: Table, column: str, filters: Sequence[str | None]) -> list[tuple[int, str]]:
        source = _named(table) or f"iceberg_scan('{_local(table)}')"
        found = (self.query(_totals(column, source, where))[0] for where in filters)
        return [(count, _number(total)) for count, total in found]

    def close(self) -> None:
        self._server.close()


class SparkReader:
    """Spark with Iceberg's runtime; it also makes the commits of another writer."""

    name = "spark"

    def __init__(self, folder: Path) -> None:
        environment = spark_environment()
        jars = ":".join(str(jar) for jar in environment.jars)
        self._server = Server("tests.readers.spark_server", environment, folder, [jars])

    def attach(self, stack: Stack) -> None:
        """Read and write the stack's REST catalog from now on."""
        self._server.ask(do="attach", catalog=_catalog(stack))

    def query(self, sql: str) -> list[list[Any]]:
        return list(self._server.ask(do="query", sql=sql))

    def execute(self, sql: str) -> None:
        """Run a statement; `lake` names the stack's catalog."""
        self._server.ask(do="execute", sql=sql)

    def write(
        self,
        source: Path,
        target: Path,
        *,
        format: str,
        settings: Mapping[str, str],
        zone: str,
        columns: Sequence[str] = ("*",),
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> Path:
        """Write columns of a Parquet file, which are SQL, as one file of another format below the folder `target`."""
        request = {"source": str(source), "target": str(target), "format": format, "zone": zone}
        lists = {"columns": list(columns), "settings": dict(settings), "options": dict(options)}
        return Path(self._server.ask(do="write", write={**request, **lists}))

    def delete_by_equality(self, table: Table, column: str, value: str) -> None:
        """Commit an equality delete on a text column, to an unpartitioned table of the stack's catalog."""
        self._server.ask(do="equality_delete", delete={"table": _named(table), "column": column, "value": value})

    def rows(
        self, table: Table, columns: Sequence[str], *, where: str | None = None, snapshot: int | None = None
    ) -> list[dict[str, Any]]:
        source = self._source(table)
        if snapshot is not None:
            source = f"{source} version as of {snapshot}"
        return _mappings(columns, self.query(_select(columns, source, where)))

    def rows_by_filter(
        self, table: Table, columns: Sequence[str], filters: Sequence[str | None]
    ) -> list[list[dict[str, Any]]]:
        source = self._source(table)
        found: list[list[dict[str, Any]]] = [[] for _ in filters]
        for number, *row in self.query(_numbered([_select(columns, source, where) for where in filters])):
            found[number] += _mappings(columns, [row])
        return found

    def totals(self, table: Table, column: str, filters: Sequence[str | None]) -> list[tuple[int, str]]:
        source = self._source(table)
        found = self.query(_numbered([_totals(column, source, where) for where in filters]))
        return [(count, _number(total)) for _, count, total in sorted(found)]

    def close(self) -> None:
        self._server.close()

    def _source(self, table: Table) -> str:
        if (name := _named(table)) is not None:
            return name
        self._server.ask(do="view", path=_local(table), name="by_path")
        return "by_path"


def _catalog(stack: Stack) -> dict[str, str]:
    properties = catalog_properties(stack)
    return {
        "name": CATALOG,
        "uri": properties["uri"],
        "warehouse": properties["warehouse"],
        "key": stack.access_key,
        "secret": stack.secret_key,
        "s3": stack.s3_endpoint,
    }


def _named(table: Table) -> str | None:
    """The table's name in the attached catalog; None if it is not in a REST catalog."""
    return ".".join((CATALOG, *table.name())) if isinstance(table.catalog, RestCatalog) else None


def _local(table: Table) -> str:
    return table.metadata_location.removeprefix("file://")


def _select(columns: Iterable[str], source: str, where: str | None) -> str:
    return f"select {', '.join(columns)} from {source}" + (f" where {where}" if where else "")


def _totals(column: str, source: str, where: str | None) -> str:
    return f"select count(*), sum({column}) from {source}" + (f" where {where}" if where else "")


def _numbered(queries: Iterable[str]) -> str:
    """All queries in one, which starts one job of Spark's and not many; each still plans a scan of its own."""
    return " union all ".join(f"select {number}, * from ({query})" for number, query in enumerate(queries))


def _mappings(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _number(value: Any) -> str:
    """A sum as text without the scale, which engines choose differently."""
    return format(Decimal(str(value or 0)).normalize(), "f")
