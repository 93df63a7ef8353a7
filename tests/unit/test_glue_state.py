from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError, NotAvailable, UsageError
from lakehouse.glue_state import GlueState, parse_glue_state

SAMPLES = Path(__file__).parents[1] / "samples" / "glue"


def read(name: str, context: str | None = None) -> GlueState:
    return parse_glue_state((SAMPLES / name).read_text(), file=name, context=context)


def test_the_state_of_the_only_context() -> None:
    found = read("one-context.json")
    assert (found.job, found.run_id, found.context) == (
        "orders_daily",
        "jr_2a9d",
        "AWSGlueDataCatalog_node1730078287682",
    )
    assert found.began_at == datetime(2026, 11, 1, 2, 3, 4, 123000, tzinfo=UTC)
    assert (found.band, found.hashes) == (timedelta(minutes=15), 2)
    assert found.certain_until == datetime(2026, 11, 1, 1, 48, 4, 123000, tzinfo=UTC)


def test_one_of_several_contexts_is_named() -> None:
    with pytest.raises(UsageError, match="several transformation contexts: orders, customers") as raised:
        read("several-contexts.json")
    assert raised.value.next == "the same command with --glue-context orders"
    found = read("several-contexts.json", "customers")
    assert (found.context, found.certain_until) == ("customers", found.began_at)
    with pytest.raises(UsageError, match="no transformation context 'x'; it has orders, customers"):
        read("several-contexts.json", "x")


def test_a_database_source_is_refused_by_name() -> None:
    with pytest.raises(NotAvailable, match=r"JDBC source.*jsonClass='JDBCDataSourceJobBookmarkState'"):
        read("jdbc.json")


S3 = {
    "jsonClass": "HadoopDataSourceJobBookmarkState",
    "timestamps": {"HIGH_BAND": "900000", "CURR_RUN_START_TIME": "2026-11-01T02:03:04.123Z", "INCLUDE_LIST": ""},
}


def entry(state: Any) -> str:
    return json.dumps({"JobBookmarkEntry": {"JobName": "j", "JobBookmark": json.dumps({"ctx": state})}})


def times(**changes: Any) -> str:
    return entry({**S3, "timestamps": {**S3["timestamps"], **changes}})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.json: not JSON"),
        ("[" * 100_000, "f.json: not JSON"),
        ("[1]", "f.json: JobBookmarkEntry: missing"),
        ('{"JobBookmarkEntry": 3}', "JobBookmarkEntry: not an object: 3"),
        ('{"JobBookmarkEntry": {}}', "JobBookmarkEntry.JobBookmark: not a text with JSON in it: None"),
        ('{"JobBookmarkEntry": {"JobBookmark": "x"}}', "JobBookmarkEntry.JobBookmark: not JSON"),
        ('{"JobBookmarkEntry": {"JobBookmark": "[]"}}', "not an object by transformation context"),
        ('{"JobBookmarkEntry": {"JobBookmark": ""}}', "the job has no state"),
        ((SAMPLES / "never-ran.json").read_text(), "the job has no state"),
        (entry(7), "JobBookmarkEntry.JobBookmark.ctx: not an object: 7"),
        (entry({}), "ctx.jsonClass: not the state of a source on S3: None"),
        (entry({**S3, "jsonClass": "RelationalizeState"}), "ctx.jsonClass: not the state of a source on S3"),
        (entry({**S3, "timestamps": None}), "ctx.timestamps: missing"),
        (times(CURR_RUN_START_TIME="yesterday"), "CURR_RUN_START_TIME: not a time: 'yesterday'"),
        (times(CURR_RUN_START_TIME=None), "CURR_RUN_START_TIME: not a time: None"),
        (times(CURR_RUN_START_TIME="0001-01-01T00:00:00+14:00"), "CURR_RUN_START_TIME: not a time"),
        (times(HIGH_BAND="-1"), "HIGH_BAND: not a number of milliseconds: '-1'"),
        (times(HIGH_BAND=True), "HIGH_BAND: not a number of milliseconds: True"),
        (times(HIGH_BAND="9" * 30), "HIGH_BAND: not a number of milliseconds"),
        (times(HIGH_BAND="9" * 16), "HIGH_BAND: longer than time is"),
        (times(INCLUDE_LIST=["a"]), "INCLUDE_LIST: not a list of hashes"),
    ],
)
def test_nonsense_names_file_and_field(text: str, said: str) -> None:
    with pytest.raises(LakehouseError) as raised:
        parse_glue_state(text, file="f.json")
    assert isinstance(raised.value, UsageError) and said in raised.value.message
    assert raised.value.message.startswith("f.json: ")


def test_a_time_without_a_zone_is_utc_and_another_zone_is_turned() -> None:
    assert parse_glue_state(times(CURR_RUN_START_TIME="2026-11-01T02:03:04"), file="f").began_at.hour == 2
    assert parse_glue_state(times(CURR_RUN_START_TIME="2026-11-01T02:03:04+02:00"), file="f").began_at.hour == 0
