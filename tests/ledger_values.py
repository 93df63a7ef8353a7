"""Histories of batch manifests and the services that a ledger needs, for tests of the ledger."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog

from lakehouse.bookmark import advance
from lakehouse.ledger import LEDGERS, Standing, read_ledger
from lakehouse.model import Bookmark, Decision, Equation, Reference
from lakehouse.services import Services
from lakehouse.settings import Settings
from lakehouse.state import StateStore, write_manifest, write_rejects
from lakehouse.storage import Storage
from tests.landing_values import START, landed, manifest_of, outcome

DAY = date(2026, 9, 1)


def services_of(
    catalog: Catalog,
    state: Storage,
    *,
    spill: Path,
    ops_namespace: str,
    pause: Callable[[float], None] = lambda _: None,
) -> Services:
    return Services(
        catalog=catalog,
        catalog_name="default",
        state=state,
        settings=Settings("default", None, spill, 1 << 30, ops_namespace, Path("assets")),
        env={},
        now=lambda: datetime.now(UTC),
        clock=lambda: 0.0,
        new_id=lambda: uuid.uuid4().hex,
        pause=pause,
        progress=lambda _: None,
    )


class History:
    """One context of one table, batch after batch: each consumes the next version of one object and quarantines
    another; every third has a reject."""

    def __init__(self, state: StateStore, *, table_uuid: str = "", context: str = "orders") -> None:
        self._state = state
        self.table_uuid = table_uuid or str(uuid.uuid4())
        self.context = context
        self._bookmark = Bookmark()

    def load(self, batches: int = 1) -> History:
        for _ in range(batches):
            self._bookmark = self._next()
        return self

    @property
    def standing(self) -> Standing:
        version = self._bookmark.version
        return Standing(
            "analytics.orders", self.table_uuid, self.context, version, self._bookmark.head, {version: 1000 + version}
        )

    def _next(self) -> Bookmark:
        version = self._bookmark.version + 1
        folder = f"{self.table_uuid}/{self.context}/{version}/"
        manifest = manifest_of(
            self._bookmark,
            [
                outcome(landed("a b.csv", f"v{version}"), day=DAY),
                outcome(landed(f"{version}.csv"), Decision.QUARANTINED, reason="no header", day=DAY),
            ],
        )
        manifest = replace(
            manifest,
            context=self.context,
            merge_started_at=START,
            equations=(Equation("batch: accepted = staged", 2, 2), Equation("dates", version, version, DAY)),
            rejects=self._rejects(version, folder) if version % 3 == 0 else None,
        )
        return advance(self._bookmark, manifest, write_manifest(self._state, manifest, folder=folder))

    def _rejects(self, version: int, folder: str) -> Reference:
        return write_rejects(self._state, parquet(rejects_table(version)), folder=folder)


def rejects_table(line: int) -> pa.Table:
    return pa.table(
        {
            "uri": ["s3://landing/in/a b.csv"],
            "line_number": pa.array([line], pa.int64()),
            "column_name": ["amount"],
            "reason": ["not a decimal"],
            "raw": ["1,\u00e9,'x'"],
        }
    )


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def contents(services: Services, table_uuid: str) -> dict[str, list[dict[str, Any]]]:
    """Every ledger row of one life of a table, by ledger table, in reading order."""
    return {
        name: read_ledger(services.catalog, services.settings.ops_namespace, name, table_uuid=table_uuid).to_pylist()
        for name in LEDGERS
    }


def versions(rows: list[dict[str, Any]]) -> list[int]:
    return [row["bookmark_version"] for row in rows]
