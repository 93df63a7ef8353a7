"""A lake in one folder for tests without any server: landing objects, a SQL catalog, the state, and real loads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

import lakehouse.ingest
from lakehouse.audit.recount import recount
from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.ingest import LoadRequest, ingest
from lakehouse.model import Equation, Mode, Receipt
from lakehouse.services import Services, open_services
from lakehouse.storage.local import LocalStorage
from tests.lake import changed_environment

LANDING = "s3://landing/"


class LocalBucket(LocalStorage):
    """A folder whose objects have S3 addresses: declarations name no other kind of landing zone."""

    def uri(self, key: str) -> str:
        return LANDING + key

    def key(self, uri: str) -> str:
        return uri.removeprefix(LANDING)


@dataclass
class LocalLake:
    """One table, `analytics.orders`, loaded from Parquet objects below `s3://landing/orders/`."""

    folder: Path
    with_ledger: bool = True
    services: Services = field(init=False)
    _open: ExitStack = field(init=False, default_factory=ExitStack)

    def __post_init__(self) -> None:
        (self.folder / "warehouse").mkdir()
        (self.folder / "landing").mkdir()
        env = {
            "PYICEBERG_CATALOG__LOCAL__TYPE": "sql",
            "PYICEBERG_CATALOG__LOCAL__URI": f"sqlite:///{self.folder}/catalog.db",
            "PYICEBERG_CATALOG__LOCAL__WAREHOUSE": f"file://{self.folder}/warehouse",
            "LAKEHOUSE_CATALOG": "local",
            "LAKEHOUSE_SPILL": str(self.folder / "spill"),
            "LAKEHOUSE_MEMORY": "512MB",
        }
        bucket = LocalBucket(self.folder / "landing")
        self._open.enter_context(patch.object(lakehouse.ingest, "open_root", lambda uri, env: bucket))
        self._open.enter_context(patch.object(lakehouse.operate.object_change, "open_root", lambda uri, env: bucket))
        if not self.with_ledger:
            self._open.enter_context(patch.object(lakehouse.ingest, "sync", lambda standing, services: None))
        with changed_environment(env):
            self.services = open_services(env)

    def close(self) -> None:
        self._open.close()
        self.services.catalog.close()

    def put(self, key: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, *, mtime: datetime) -> str:
        """Land a Parquet object, or a new version of it; returns its URI."""
        path = self.folder / "landing" / "orders" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)
        os.utime(path, (mtime.timestamp(), mtime.timestamp()))
        return f"{LANDING}orders/{key}"

    def load(self, declaration: Declaration, *, mode: Mode = Mode.INCREMENTAL) -> Receipt:
        return ingest(declaration, LoadRequest(mode=mode, run_id="test"), self.services)

    def table(self, name: str = "analytics.orders") -> Table:
        return self.services.catalog.load_table(name)

    def differences(self, declaration: Declaration) -> list[Equation]:
        """Equations of a recount that do not hold."""
        return [e for e in recount(declaration, self.services).equations if not e.holds]


def declare_text(text: str) -> Declaration:
    """The one declaration of a YAML text."""
    (declaration,) = parse_declarations(text, path=Path("defs.yaml"), env={})
    return declaration
