"""`lakehouse bookmark import-glue` on the real stack: what is certain, what is uncertain, what is new."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse.operate.move
from lakehouse.audit.object_history import explain_object
from lakehouse.errors import UsageError
from lakehouse.glue_state import parse_glue_state
from lakehouse.model import State
from lakehouse.operate.glue_import import import_glue
from lakehouse.operate.operator_change import Operator
from tests.evolving_lake import failure
from tests.lake import DAY_1, DAY_2, Lake, csv, order, uris

ANNA = Operator("anna@host", "we move", "test")
SAMPLE = Path(__file__).parents[1] / "samples" / "glue" / "one-context.json"
BEGAN = datetime(2026, 11, 1, 2, 3, 4, 123000, tzinfo=UTC)
BAND = timedelta(minutes=15)
TICK = timedelta(milliseconds=1)
MODIFIED = {
    "before.csv": BEGAN - BAND - timedelta(days=60),
    "edge.csv": BEGAN - BAND,
    "band.csv": BEGAN - BAND + TICK,
    "start.csv": BEGAN,
    "newer.csv": BEGAN + TICK,
}


@pytest.fixture
def lake(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Objects whose S3 times are what the test says, as far as the import sees them."""
    listed = lakehouse.operate.move.list_source
    lake = Lake(stack, tmp_path)

    def dated(*args: Any) -> Any:
        return tuple(replace(o, last_modified=MODIFIED[o.uri.rpartition("/")[2]]) for o in listed(*args))

    monkeypatch.setattr(lakehouse.operate.move, "list_source", dated)
    for number, name in enumerate(MODIFIED):
        lake.put(DAY_1.replace(day=1) if name == "before.csv" else DAY_2, name, csv(order(number)))
    return lake


def test_what_the_job_has_surely_read_is_done_with(lake: Lake) -> None:
    state = parse_glue_state(SAMPLE.read_text(), file="f")
    dry = import_glue(lake.declaration, state, ANNA, lake.services(), dry_run=True)
    assert (dry.state, dry.bookmark_version, lake.version()) == (State.NOTHING_TO_DO, 0, 0)
    assert dry.counts == {"certain": 2, "uncertain": 2, "newer": 1, "hashes": 2}
    done = import_glue(lake.declaration, state, ANNA, lake.services())
    assert (done.state, done.bookmark_version, done.marked.count, done.to_read.count) == (State.COMMITTED, 1, 2, 3)
    assert (done.counts, done.to_read) == (dry.counts, dry.to_read)
    assert sorted(uris(lake.plan())) == ["band.csv", "newer.csv", "start.csv"]
    edge = f"s3://landing/{lake.name}/input_date={DAY_2}/edge.csv"
    event = explain_object(lake.declaration, edge, lake.services()).events[0]
    assert event.reason == (
        "consumed by Glue job orders_daily, context AWSGlueDataCatalog_node1730078287682: modified by "
        "2026-11-01T01:48:04.123+00:00; we move"
    )
    assert (lake.load().rows.inserted, set(lake.amounts())) == (3, {2, 3, 4})
    assert lake.differences(reread=True) == []

    error = failure(lambda: import_glue(lake.declaration, state, ANNA, lake.services()))
    assert isinstance(error, UsageError) and "version 2, 5 objects seen" in error.message
    assert lake.said("bookmark", "reset", lake.table, "--reason", "x")[0] == 0
    assert import_glue(lake.declaration, state, ANNA, lake.services()).again == 3


def test_the_command_line(lake: Lake, tmp_path: Path) -> None:
    later = json.loads(SAMPLE.read_text())
    bookmark = later["JobBookmarkEntry"]["JobBookmark"].replace("2026-11-01", "2199-11-01")
    later["JobBookmarkEntry"]["JobBookmark"] = bookmark
    file = tmp_path / "bookmark.json"
    file.write_text(json.dumps(later))
    code, done, errors = lake.said("bookmark", "import-glue", lake.table, str(file), "--json")
    assert (code, done["state"], done["counts"]["certain"]) == (0, "committed", 5), errors
    assert done["reason"] == "imported from Glue job orders_daily, run jr_2a9d"
    assert lake.load().state is State.NOTHING_TO_DO
    for wrong in (tmp_path / "none.json", tmp_path):
        code, _, errors = lake.said("bookmark", "import-glue", lake.table, str(wrong))
        assert code == 2 and "cannot be read" in errors and "Traceback" not in errors
    code, _, errors = lake.said("bookmark", "import-glue", lake.table, str(SAMPLE), "--glue-context", "x")
    assert code == 2 and "no transformation context 'x'" in errors


def test_uncertain_objects_of_an_append_table_are_warned_about(lake: Lake) -> None:
    text = lake.declaration_text().replace("  key: [order_id]\n  order_by: [order_time]\n", "")
    lake.write_declaration(text + "  write: append\n")
    state = parse_glue_state(SAMPLE.read_text(), file="f")
    done = import_glue(lake.declaration, state, ANNA, lake.services(), dry_run=True)
    assert done.warnings[0].startswith("write: append adds the rows of the 2 uncertain objects")
