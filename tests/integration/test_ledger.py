"""The ledger on the real catalog and the real S3: processes that race, a dropped namespace, another reader."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import duckdb
import pytest

from lakehouse.ledger import LEDGERS, Standing, compact, ledger_head, rebuild, sync
from lakehouse.services import Services, open_services
from tests.ledger_values import History, contents, services_of, versions

# Brings the ledger up to the bookmark of each line, and says what came of it.
RACER = """
import json, sys
from dataclasses import replace
from lakehouse.errors import LakehouseError
from lakehouse.ledger import Standing, sync
from lakehouse.model import Reference
from lakehouse.services import open_services

services = open_services()
print("ready", flush=True)
for line in sys.stdin:
    said = json.loads(line)
    settings = replace(services.settings, ops_namespace=said["namespace"])
    standing = Standing("analytics.orders", said["uuid"], "orders", said["version"], Reference(*said["head"]), {})
    try:
        print(sync(standing, replace(services, settings=settings)), flush=True)
    except LakehouseError as error:
        print(repr(error), flush=True)
"""


@pytest.fixture
def services(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Services:
    """Services on the stack with a ledger of this test's own."""
    settings = {"LAKEHOUSE_OPS_NAMESPACE": f"ops_{uuid.uuid4().hex[:12]}", "LAKEHOUSE_SPILL": str(tmp_path / "spill")}
    env: Mapping[str, str] = {**stack.env, **settings}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    opened = open_services()
    return services_of(
        opened.catalog,
        opened.state,
        spill=tmp_path / "spill",
        ops_namespace=settings["LAKEHOUSE_OPS_NAMESPACE"],
        pause=time.sleep,
    )


@pytest.fixture
def racers(services: Services) -> Iterator[list[subprocess.Popen[str]]]:
    """Three processes, up and waiting."""
    started = [
        subprocess.Popen([sys.executable, "-c", RACER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for racer in started:
        assert hear(racer) == "ready"
    yield started
    for racer in started:
        racer.communicate(timeout=60)


def hear(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout
    return racer.stdout.readline().strip()


def race(racers: Sequence[subprocess.Popen[str]], standings: Sequence[Standing], ops_namespace: str) -> list[str]:
    """Let each process sync one standing, all at the same moment; what each said."""
    for racer, standing in zip(racers, standings, strict=True):
        assert standing.head is not None
        line = {
            "namespace": ops_namespace,
            "uuid": standing.table_uuid,
            "version": standing.version,
            "head": [standing.head.uri, standing.head.sha256],
        }
        assert racer.stdin
        racer.stdin.write(json.dumps(line) + "\n")
        racer.stdin.flush()
    return [hear(racer) for racer in racers]


def test_processes_that_race_double_no_row(services: Services, racers: list[subprocess.Popen[str]]) -> None:
    """From a ledger that does not exist yet: two of the same table and one of another one; then once more."""
    history, other = History(services.state), History(services.state)
    for expected in (3, 6):
        standings = [history.load(2).standing, history.load(1).standing, other.load(3).standing]
        assert race(racers, standings, services.settings.ops_namespace) == ["ok"] * 3
        for one in (history, other):
            rows = contents(services, one.table_uuid)
            assert versions(rows["batches"]) == [*range(1, expected + 1)]
            assert versions(rows["files"]) == sorted([*range(1, expected + 1)] * 2)
            assert versions(rows["reconciliations"]) == sorted([*range(1, expected + 1)] * 2)
            assert versions(rows["rejects"]) == [*range(3, expected + 1, 3)]


def test_a_commit_that_comes_late_sets_no_head_back(services: Services) -> None:
    """It has staged version 4 and sleeps; somebody else brings in version 5; neither has rejects."""
    history = History(services.state).load(3)
    sync(history.standing, services)  # the tables are there
    first = history.load().standing
    second = history.load(1).standing
    late = services_of(
        open_services().catalog,
        services.state,
        spill=services.settings.spill,
        ops_namespace=services.settings.ops_namespace,
        pause=lambda _: None,
    )
    commit = late.catalog.commit_table
    asleep = Barrier(len(LEDGERS), action=lambda: sync(second, services))
    woken: set[str] = set()

    def commit_late(table: Any, *rest: Any) -> Any:
        if table.name()[-1] not in woken:
            woken.add(table.name()[-1])
            asleep.wait(60)
        return commit(table, *rest)

    late.catalog.commit_table = commit_late  # type: ignore[method-assign]
    assert sync(first, late) == "ok"
    namespace = services.settings.ops_namespace
    assert ledger_head(services.catalog, namespace, table_uuid=history.table_uuid, context="orders") == 5


def test_a_compaction_beside_loads_that_sync_loses_and_doubles_nothing(
    services: Services, racers: list[subprocess.Popen[str]]
) -> None:
    history, other = History(services.state), History(services.state)
    for _ in range(4):
        sync(history.load().standing, services)
    with ThreadPoolExecutor(1) as beside:
        compacted = beside.submit(compact, history.standing, services)
        standings = [history.load(2).standing, other.load(2).standing, history.load(1).standing]
        assert race(racers, standings, services.settings.ops_namespace) == ["ok"] * 3
        assert {one.ledger for one in compacted.result()} == {*LEDGERS}
    for one, expected in ((history, 7), (other, 2)):
        assert versions(contents(services, one.table_uuid)["batches"]) == [*range(1, expected + 1)]
        assert versions(contents(services, one.table_uuid)["files"]) == sorted([*range(1, expected + 1)] * 2)


def test_a_dropped_namespace_is_filled_again_with_the_same_rows(services: Services) -> None:
    history = History(services.state).load(4)
    sync(history.standing, services)
    before = contents(services, history.table_uuid)
    namespace = services.settings.ops_namespace
    for name in LEDGERS:
        services.catalog.drop_table(f"{namespace}.{name}")
    services.catalog.drop_namespace(namespace)
    head = ledger_head(services.catalog, namespace, table_uuid=history.table_uuid, context="orders")
    assert (head, contents(services, history.table_uuid)) == (0, {name: [] for name in LEDGERS})
    rebuild(history.standing, services)
    assert contents(services, history.table_uuid) == before


def test_another_reader_finds_every_row_once_after_a_compaction(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """D07, D08: DuckDB reads the live files themselves; both versions of an overwritten object are in them."""
    monkeypatch.setattr("lakehouse.ledger.data_files.COMPACT_ABOVE", 2)
    history = History(services.state)
    for _ in range(5):
        sync(history.load().standing, services)
    table = services.catalog.load_table(f"{services.settings.ops_namespace}.files")
    paths = []
    for number, task in enumerate(table.scan().plan_files()):
        paths.append(str(tmp_path / f"{number}.parquet"))
        with table.io.new_input(task.file.file_path).open() as source:
            Path(paths[-1]).write_bytes(source.read())
    assert len(paths) < 5
    query = f"select etag from read_parquet({paths}) where uri like '%/a b.csv' order by bookmark_version"
    with duckdb.connect() as con:
        found = con.execute(query).fetchall()
    assert found == [("v1",), ("v2",), ("v3",), ("v4",), ("v5",)]
