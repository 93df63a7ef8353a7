"""Prometheus' text format, printed, written and scraped; and the lines that a load writes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.lake import DAY_1, Lake, csv, order


def test_metrics(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(order(1), order(2)))
    code, receipt, lines = lake.said("load", lake.table, "--json")
    assert code == 0
    told = [json.loads(line) for line in lines.splitlines()]
    assert [line["step"] for line in told if line["event"] == "step"] == [
        "plan", "discover", "stage", "merge", "publish", "commit", "ledger",
    ]  # fmt: skip
    assert {(line["table"], line["run_id"]) for line in told} == {(lake.table, receipt["run_id"])}
    (batch,) = [line for line in told if line["event"] == "batch"]
    assert (batch["state"], batch["objects"], batch["rows_inserted"]) == ("committed", 1, 2)
    assert [(line["step"], line["objects_planned"]) for line in told if line["event"] == "plan"] == [
        ("planned", 1), ("planned", 0),
    ]  # fmt: skip
    assert {line["batch_id"] for line in told[2:] if line.get("objects_planned") != 0} == {
        batch["batch_id"],
        receipt["batches"][0]["batch_id"],
    }
    *_, last = [json.loads(line) for line in lake.said("load", lake.table, "--json")[2].splitlines()]
    assert (last["step"], last["batch_id"]) == ("ledger", batch["batch_id"]), "nothing to do: the last batch's"
    code, _, lines = lake.said("maintain", lake.table, "expire", "--older-than", "0s", "--json")
    assert code == 0 and "expire" in [json.loads(line)["step"] for line in lines.splitlines()]
    code, _, printed = lake.said("metrics")
    assert code == 0
    assert numbers(printed, lake)["lakehouse_rows"] == 2 and numbers(printed, lake)["lakehouse_loads"] == 1
    assert lake.said("metrics", "--textfile", str(tmp_path / "metrics.prom"))[0] == 0
    assert numbers((tmp_path / "metrics.prom").read_text(), lake) == numbers(printed, lake)
    assert lake.said("metrics", "--listen", "nowhere")[0] == 2

    server = lake.start("metrics", "--listen", "127.0.0.1:0")
    try:
        assert server.stderr is not None
        where = server.stderr.readline().split()[-1]
        with urlopen(where, timeout=30) as answer:
            assert numbers(answer.read().decode(), lake) == numbers(printed, lake)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert server.returncode == 0


def numbers(text: str, lake: Lake) -> dict[str, float]:
    """Those of the lake's table, which have to be all."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {sample.labels["table"] for sample in samples} == {lake.table}
    return {sample.name: sample.value for sample in samples}
