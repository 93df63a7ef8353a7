"""What `lakehouse bookmark`, `arrivals` and `reconcile --objects` say: from manifests, and from a listing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.audit.bookmark_history import changes, differences, standing_at
from lakehouse.errors import UsageError
from lakehouse.model import Mode
from tests.lake import DAY_1, DAY_2, Lake, csv, order

START = datetime(2026, 9, 1, 6, tzinfo=UTC)


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


def load(lake: Lake, hours: int, mode: Mode = Mode.INCREMENTAL) -> None:
    receipt = lake.load(mode=mode, services=lake.services(now=lambda: START + timedelta(hours=hours)))
    assert receipt.exit_code in (0, 1), receipt.error


def test_a_bookmark_is_shown_as_it_stands_and_as_it_stood(lake: Lake) -> None:
    services = lake.services()
    before = standing_at(lake.declaration, services)
    assert (before.bookmark_version, before.change, before.dates) == (0, None, ())
    first = lake.put(DAY_1, "a.csv", csv(order(1)))
    load(lake, 0)
    lake.put(DAY_1, "a.csv", csv(order(1, "2.00", 1)))
    second = lake.put(DAY_2, "b.csv", csv(order(2)))
    bad = lake.put(DAY_2, "bad.csv", b"nothing,declared\n1,2\n")
    load(lake, 1)
    load(lake, 2, Mode.FULL)

    now = standing_at(lake.declaration, services)
    assert (now.bookmark_version, now.consumed, now.quarantined) == (3, 2, 1)
    assert [(d.landing_date, d.consumed, d.quarantined) for d in now.dates] == [(DAY_2, 1, 1), (DAY_1, 1, 0)]
    then = standing_at(lake.declaration, services, at=START + timedelta(minutes=30))
    assert (then.bookmark_version, then.consumed) == (1, 1)
    assert standing_at(lake.declaration, services, at=START - timedelta(days=1)).bookmark_version == 0

    history = [*changes(lake.declaration, services)]
    assert [(c.bookmark_version, c.mode, c.consumed, c.quarantined) for c in history] == [
        (3, "full", 2, 1),
        (2, "incremental", 2, 1),
        (1, "incremental", 1, 0),
    ]
    assert then.change == history[-1]

    found = {d.uri: d.how for d in differences(lake.declaration, services, "1", history[1].batch_id)}
    assert found == {first: "new version", second: "added", bad: "added"}
    assert {d.how for d in differences(lake.declaration, services, "2", "3")} == {"read again"}
    back = differences(lake.declaration, services, "3", "0")
    assert {d.how for d in back} == {"removed"}
    assert differences(lake.declaration, services, "3", "3") == ()
    with pytest.raises(UsageError, match="no such version or batch"):
        differences(lake.declaration, services, "1", "9")


def test_the_command_line_shows_it(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    load(lake, 0)
    code, shown, _ = lake.cli("bookmark", "show", lake.table, "--json")
    assert (code, shown["bookmark_version"], shown["dates"][0]["landing_date"]) == (0, 1, "2026-08-30")
    code, history, _ = lake.cli("bookmark", "history", lake.table, "--most", "1", "--json")
    assert (code, [change["kind"] for change in history]) == (0, ["load"])
    for command, said in ((["show"], "version 1"), (["history"], "load, incremental"), (["diff"], "1 objects differ")):
        process = lake.start("bookmark", *command, lake.table, *(["0", "1"] if command == ["diff"] else []))
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, said in out) == (0, True)
    code, _, err = lake.cli("bookmark", "show", lake.table, "--at", "yesterday")
    assert (code, "--at: not a time" in err) == (2, True)


def test_arrivals_are_counted_in_days(lake: Lake) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    load(lake, 0)
    waiting = lake.put(DAY_2, "b.csv", csv(order(2)))
    code, found, _ = lake.cli("arrivals", lake.table, "--miss-rate", "0.5", "--json")
    first, second = (int(days) for days in found["days"])
    assert (code, found["objects"], second - first, found["advised"]) == (0, 2, 1, first)
    assert [one["wait"] is None for one in found["latest"] if one["uri"] == waiting] == [True]
    code, _, err = lake.cli("arrivals", lake.table, "--miss-rate", "7")
    assert (code, "--miss-rate: got 7.0" in err) == (2, True)
    process = lake.start("arrivals", lake.table)
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, "days from landing date to arrival" in out) == (0, True)


def test_the_listing_is_compared_with_the_bookmark(lake: Lake) -> None:
    gone = lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    load(lake, 0)
    lake.stack.s3.delete_object(Bucket="landing", Key=gone.removeprefix("s3://landing/"))
    code, found, _ = lake.cli("reconcile", lake.table, "--objects", "--json")
    assert (code, found["complete"], found["left"]) == (0, True, [])
    assert [item["uri"] for item in found["gone"]] == [gone]
    waiting = lake.put(DAY_2, "c.csv", csv(order(3)))
    code, found, _ = lake.cli("reconcile", lake.table, "--objects", "--json")
    assert (code, found["holds"], found["complete"]) == (1, True, False)
    assert [(item["uri"], item["decision"]) for item in found["left"]] == [(waiting, "planned")]
    code, found, _ = lake.cli("reconcile", lake.table, "--objects", "--partition", str(DAY_1), "--json")
    assert (code, found["complete"]) == (0, True)
    process = lake.start("reconcile", lake.table, "--objects")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, "objects are left" in out, f"gone since: {gone}" in out) == (1, True, True)
