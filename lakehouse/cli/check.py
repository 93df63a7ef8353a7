"""`lakehouse check`: the Dagster asset checks, for CI."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, Partition, not_empty, parse_date
from lakehouse.cli.output import print_json, print_table
from lakehouse.declaration import load_declarations
from lakehouse.settings import assets_folder

if TYPE_CHECKING:
    from lakehouse.orchestration import CheckOutcome


def add_to(app: typer.Typer) -> None:
    app.command("check", epilog="Example: lakehouse check analytics.orders --partition 2026-08-30 --junit out.xml")(
        check
    )


def check(
    selection: Annotated[
        str | None,
        typer.Argument(
            metavar="[SELECTION]", help="A table, table:check, or Dagster's selection syntax.", callback=not_empty
        ),
    ] = None,
    partition: Partition = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the asset checks; exit 1 if one fails with severity ERROR, blocking or not."""
    # Imported here: every other command starts without Dagster, which takes two seconds to import.
    import logging

    import dagster as dg

    from lakehouse.orchestration import build_definitions, run_checks

    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    declarations = load_declarations(assets_folder(os.environ), os.environ)
    day = parse_date("--partition", partition) if partition is not None else None
    instance = dg.DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else None
    outcomes = run_checks(build_definitions(declarations), selection=selection, partition=day, instance=instance)
    if junit is not None:
        write_junit(outcomes, junit)
    if as_json:
        print_json([{**_as_dict(o), "fails": o.fails} for o in outcomes])
    else:
        rows = [(o.passed, o.asset, o.check, o.severity, o.description) for o in outcomes]
        print_table("", ["passed", "table", "check", "severity", "what it saw"], rows)
    raise typer.Exit(1 if any(o.fails for o in outcomes) else 0)


def _as_dict(outcome: CheckOutcome) -> dict[str, object]:
    return {
        name: getattr(outcome, name) for name in ("asset", "check", "passed", "severity", "blocking", "description")
    }


def write_junit(outcomes: Sequence[CheckOutcome], path: Path) -> None:
    """One test case per check; a warning that did not pass is a skipped one with its text."""
    suite = ET.Element(
        "testsuite",
        name="lakehouse check",
        tests=str(len(outcomes)),
        failures=str(sum(o.fails for o in outcomes)),
    )
    for outcome in outcomes:
        case = ET.SubElement(suite, "testcase", classname=outcome.asset, name=outcome.check)
        if outcome.fails:
            ET.SubElement(case, "failure", message=outcome.description)
        elif not outcome.passed:
            ET.SubElement(case, "skipped", message=outcome.description)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
