"""Lists, plans or ticks once, timed, in a process of its own: `… .ours list|paginate|plan|tick TABLE`.

From the listing to the plan, or to the sensor's answer; imports and opening the catalog are not counted. The tick is
the second one, of an unchanged source. Prints one JSON object: seconds, peak memory, and what was found.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import dagster as dg

import lakehouse.storage.s3  # noqa: F401  # imported before the clock starts
from benchmarks.machine import Meter
from benchmarks.workload import BUCKET
from lakehouse.bulk import in_bulk
from lakehouse.declaration import Declaration, find_declaration
from lakehouse.ingest import LoadRequest, plan_load
from lakehouse.landing import discover
from lakehouse.model import Decision, Window
from lakehouse.orchestration import build_definitions
from lakehouse.orchestration.cursor import read_cursor, write_cursor
from lakehouse.services import open_services
from lakehouse.storage import open_storage

if TYPE_CHECKING:
    from dagster._core.definitions.sensor_definition import SensorExecutionData


def listed() -> dict[str, Any]:
    declaration = _declaration()
    meter = Meter()
    with in_bulk():
        found = discover(open_storage(f"s3://{BUCKET}/", os.environ), declaration.source, Window())
    return {**meter.read(), "found": {"listed": len(found)}}


def paginated() -> dict[str, Any]:
    """As whoever writes it by hand lists a prefix."""
    key = _declaration().source.uri.removeprefix(f"s3://{BUCKET}/")
    meter = Meter()
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=key)
    found = [entry for page in pages for entry in page.get("Contents", ())]
    return {**meter.read(), "found": {"listed": len(found)}}


def planned() -> dict[str, Any]:
    declaration, services = _declaration(), open_services(os.environ)
    meter = Meter()
    plan = plan_load(declaration, LoadRequest(), services)
    measured = meter.read()
    counts = {decision.value: plan.count(decision) for decision in (Decision.PLANNED, Decision.CONSUMED)}
    return {**measured, "found": {"listed": len(plan.decisions), **counts}}


def ticked() -> dict[str, Any]:
    definitions = build_definitions([_declaration()])
    (sensor,) = definitions.get_repository_def().sensor_defs
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None) -> SensorExecutionData:
            context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
            return sensor.evaluate_tick(context)

        first = tick(None)
        # as if the pause after the listing of a large source were over
        cursor = write_cursor(read_cursor(first.cursor))
        meter = Meter()
        again = tick(cursor)
        measured = meter.read()
    found = {"dates asked for": len(first.run_requests or []), "cursor bytes": len(again.cursor or "")}
    return {**measured, "found": found}


_PARTS = {"list": listed, "paginate": paginated, "plan": planned, "tick": ticked}


def _declaration() -> Declaration:
    return find_declaration(Path(os.environ["LAKEHOUSE_ASSETS"]), _options().table, os.environ)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discovery.ours", description=__doc__)
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("table")
    parser.add_argument("--profile", type=Path, help="write what cProfile saw to this file; slows the work")
    return parser.parse_args()


def main() -> None:
    options = _options()
    profile = cProfile.Profile() if options.profile else None
    with profile or nullcontext():
        result = _PARTS[options.part]()
    if profile:
        profile.dump_stats(options.profile)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
