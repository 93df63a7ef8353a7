"""A landing prefix, a declaration and the table behind it, on the real stack: what most integration tests need."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from lakehouse.audit.recount import recount
from lakehouse.cli.app import main
from lakehouse.declaration import Declaration, find_declaration
from lakehouse.errors import Unavailable
from lakehouse.ingest import LoadRequest, ingest, plan_load
from lakehouse.ledger import read_ledger
from lakehouse.model import Equation, LandingObject, Mode, Plan, Receipt, Window
from lakehouse.position import find_position
from lakehouse.services import Services, open_services
from lakehouse.storage.s3 import S3Storage

HEADER = "order_id,customer_id,amount,order_time\n"
DECLARATION = """\
type: lakehouse.components.IcebergTable
attributes:
  table: {table}
  source:
    uri: s3://landing/{prefix}/
    partition: input_date=%Y-%m-%d
    files: "*.csv"
    format: {{type: csv}}
    {source}
  columns:
    order_id: {{type: bigint, required: true}}
    customer_id: string
    amount: "decimal(12,2)"
    order_time: timestamptz
    input_date: {{type: date, from_path: date}}
  key: [order_id]
  order_by: [order_time]
  partition_by: [input_date]
  start_date: 2026-08-30
  gates: {{{gates}}}
  {more}
"""
DAY_1, DAY_2, DAY_3 = date(2026, 8, 30), date(2026, 8, 31), date(2026, 9, 1)


def csv(*rows: str) -> bytes:
    """A CSV file of orders; each row is `id,customer,amount,time`."""
    return (HEADER + "".join(f"{row}\n" for row in rows)).encode()


def order(number: int | str, amount: str = "1.00", minute: int = 0, *, day: str = "2026-08-30") -> str:
    return f"{number},c{number},{amount},{day}T10:{minute:02d}:00Z"


@dataclass
class Lake:
    """One declared table with a namespace and a prefix of its own. `stack` is the fixture of tests/conftest.py."""

    stack: Any
    folder: Path
    source: str = ""
    gates: str = "max_rejected_ratio: 1.0"
    more: str = ""
    text: str | None = None
    name: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.write_declaration()

    @property
    def table(self) -> str:
        return f"{self.name}.orders"

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.stack.env,
            "LAKEHOUSE_ASSETS": str(self.folder / "defs"),
            "LAKEHOUSE_SPILL": str(self.folder / "spill"),
            "LAKEHOUSE_OPS_NAMESPACE": f"ops_{self.name}",
            "LAKEHOUSE_STATE": f"s3://state/{self.name}",
        }

    def write_declaration(self, text: str | None = None) -> None:
        path = self.folder / "defs" / "orders" / "defs.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or self.text or self.declaration_text())

    def declaration_text(self) -> str:
        return DECLARATION.format(
            table=self.table, prefix=self.name, source=self.source, gates=self.gates, more=self.more
        )

    @property
    def declaration(self) -> Declaration:
        return find_declaration(self.folder / "defs", self.table, self.env)

    def services(self, **changes: Any) -> Services:
        with changed_environment(self.env):
            return replace(open_services(self.env), **changes)

    def put(self, day: date, name: str, data: bytes) -> str:
        """Land a file; returns its URI."""
        key = f"{self.name}/input_date={day}/{name}"
        self.stack.s3.put_object(Bucket="landing", Key=key, Body=data)
        return f"s3://landing/{key}"

    def load(
        self,
        *,
        day: date | None = None,
        mode: Mode = Mode.INCREMENTAL,
        services: Services | None = None,
        accept_new: bool = False,
    ) -> Receipt:
        request = LoadRequest(mode=mode, window=Window(day, day), run_id="test", accept_new=accept_new)
        return ingest(self.declaration, request, services or self.services())

    def plan(self, *, day: date | None = None, mode: Mode = Mode.INCREMENTAL) -> Plan:
        return plan_load(self.declaration, LoadRequest(mode=mode, window=Window(day, day)), self.services())

    def rows(self) -> dict[Any, dict[str, Any]]:
        """The table by key, as PyIceberg reads it; a doubled key fails."""
        found = self.stack.catalog().load_table(self.table).scan().to_arrow().to_pylist()
        by_key = {r["order_id"]: r for r in found}
        assert len(by_key) == len(found)
        return by_key

    def amounts(self) -> dict[int, str]:
        return {k: str(r["amount"]) for k, r in self.rows().items()}

    def version(self) -> int:
        return find_position(self.declaration, self.services()).bookmark.version

    def snapshots(self) -> int:
        return len(self.stack.catalog().load_table(self.table).metadata.snapshots)

    def ledger(self, name: str) -> list[dict[str, Any]]:
        services = self.services()
        uuid = find_position(self.declaration.by_source[0], services).target.uuid
        found = read_ledger(services.catalog, services.settings.ops_namespace, name, table_uuid=uuid)
        return list(found.to_pylist())

    def equations(self) -> tuple[Equation, ...]:
        return recount(self.declaration, self.services()).equations

    def differences(self, *, reread: bool = False) -> list[Equation]:
        """Equations of a recount that do not hold."""
        return [e for e in recount(self.declaration, self.services(), reread=reread).equations if not e.holds]

    def cli(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, Any, str]:
        """Run the command line: exit code, JSON of standard output (None if it is none), stderr.

        With variables of its own it runs in a process of its own.
        """
        if env is None:
            return self.said(*arguments)
        done = self.start(*arguments, env=env)
        out, err = done.communicate(timeout=120)
        return done.returncode, parse_json(out), err

    def said(self, *arguments: str) -> tuple[int, Any, str]:
        """As `cli`, in this process; where it has printed for people, that stands for an empty stderr."""
        out, err = io.StringIO(), io.StringIO()
        with changed_environment(self.env), redirect_stdout(out), redirect_stderr(err):
            try:
                main([*arguments])
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
        found = parse_json(out.getvalue())
        return code, found, err.getvalue() or ("" if found is not None else out.getvalue())

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lakehouse", *arguments]
        return subprocess.Popen(
            command,
            env={**os.environ, **self.env, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


SaidBy = Callable[..., tuple[int, Any]]
"""The command line in this process: a lake and arguments give the exit code and the JSON."""


class changed_environment:
    """Sets variables for a block: PyIceberg and boto3 read os.environ themselves."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._before: dict[str, str] = {}

    def __enter__(self) -> None:
        self._before = dict(os.environ)
        os.environ.update(self._values)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


def uris(plan: Plan) -> Sequence[str]:
    """File names of what a plan reads, in order."""
    return [d.object.uri.rpartition("/")[2] for batch in plan.batches for d in batch]


def dated(patch: pytest.MonkeyPatch, times: Mapping[str, datetime]) -> None:
    """Let listings say that the objects with these file names were modified then."""
    listing = S3Storage.list

    def list_dated(self: S3Storage, prefix: str) -> Iterator[LandingObject]:
        for obj in listing(self, prefix):
            yield replace(obj, last_modified=times.get(obj.uri.rpartition("/")[2], obj.last_modified))

    patch.setattr(S3Storage, "list", list_dated)


def slow_down(patch: pytest.MonkeyPatch, ending: str) -> None:
    """Let S3 answer 503 to whoever fetches an object whose name ends so."""
    fetch, fetch_bytes = S3Storage.fetch, S3Storage.fetch_bytes

    def check(obj: LandingObject) -> None:
        if obj.uri.endswith(ending):
            raise Unavailable("503 slow down")

    def to_file(self: S3Storage, obj: LandingObject, target: Path) -> None:
        check(obj)
        fetch(self, obj, target)

    def to_memory(self: S3Storage, obj: LandingObject) -> bytes:
        check(obj)
        return fetch_bytes(self, obj)

    patch.setattr(S3Storage, "fetch", to_file)
    patch.setattr(S3Storage, "fetch_bytes", to_memory)
