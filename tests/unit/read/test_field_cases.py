"""Every field case of reading and staging, over formats, places in the file, orders of the files and ways to stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.errors import UnreadableObject
from lakehouse.merge import supersede
from lakehouse.stage import StagedObject, create_staging, make_object_plain, stage_object, stage_small_objects
from tests.field_cases.model import File, Run
from tests.field_cases.page import PAGE, page
from tests.field_cases.table import CASES
from tests.named_tests import ROOT, exists
from tests.staging_values import declared, planned

RUNS = [
    pytest.param(run, together, id=f"{run.label}, {'together' if together else 'one by one'}")
    for case in CASES
    for run in case.runs()
    # only CSV files have a way of their own to be staged together
    for together in ((False, True) if run.format["type"] == "csv" else (False,))
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as con:
        yield con


@pytest.mark.parametrize(("run", "together"), RUNS)
def test_field_case(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, together: bool
) -> None:
    declaration = declared(run.columns, format=run.format, **{"order_by": "arrival", "key": ["id"], **run.changes})
    if run.zone:
        monkeypatch.setenv("TZ", run.zone)
        time.tzset()
    create_staging(con, declaration)
    objects = []
    for number, file in enumerate(run.files):
        path = tmp_path / f"object-{number}"
        path.write_bytes(file.data)
        objects.append((planned(f"s3://landing/in/day=2026-08-30/{file.folder}{number}"), path))
    for item, path in objects:
        make_object_plain(path, item=item, declaration=declaration)
    if together:
        small = [(item, path.read_bytes()) for item, path in objects]
        results = stage_small_objects(con, objects=small, declaration=declaration, folder=tmp_path)
    else:
        results = [_one(con, path, item, declaration) for item, path in objects]
    for (item, _), file, result in zip(objects, run.files, results, strict=True):
        _check(con, item.object.uri, file, result, width=len(declaration.columns))
    if run.survivors is not None:
        supersede(con, declaration)
        rows = con.execute("SELECT * FROM winners").fetchall()
        assert tuple(row[: len(declaration.columns)] for row in rows) == run.survivors
    monkeypatch.undo()
    time.tzset()


def _one(con: duckdb.DuckDBPyConnection, path: Path, item: Any, declaration: Any) -> StagedObject | UnreadableObject:
    try:
        return stage_object(con, path=path, item=item, declaration=declaration)
    except UnreadableObject as error:
        return error


def _check(
    con: duckdb.DuckDBPyConnection, uri: str, file: File, result: StagedObject | UnreadableObject, *, width: int
) -> None:
    staged = con.execute(
        "SELECT * FROM staged WHERE _source_file = $uri ORDER BY _source_line", {"uri": uri}
    ).fetchall()
    rejects = con.execute(
        "SELECT line_number, reason FROM rejects WHERE uri = $uri ORDER BY 1", {"uri": uri}
    ).fetchall()
    if file.refused is not None:
        assert isinstance(result, UnreadableObject)
        assert file.refused in str(result)
        assert uri in str(result)
        assert (staged, rejects) == ([], [])
        return
    assert isinstance(result, StagedObject), result
    assert tuple(row[:width] for row in staged) == file.rows
    assert [line for line, _ in rejects] == [reject.line for reject in file.rejects]
    for (_, reason), reject in zip(rejects, file.rejects, strict=True):
        assert reject.reason in reason
    counts = result.rows
    assert (counts.read, counts.staged, counts.rejected) == (len(staged) + len(rejects), len(staged), len(rejects))


def test_the_page_is_that_of_the_table() -> None:
    assert (ROOT / PAGE).read_text() == page(), "write it again: python -m tests.field_cases.page"


def test_the_tests_that_a_case_names_exist() -> None:
    for case in CASES:
        assert case.parts or case.tests
        for named in case.tests:
            assert exists(named), named
