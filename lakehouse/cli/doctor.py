"""`lakehouse doctor`: every permission and connection, and what to grant for those that are missing."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, declared, not_empty
from lakehouse.cli.output import print_json, say
from lakehouse.declaration import Declaration, validate_all
from lakehouse.doctor import Check, Standing, examine
from lakehouse.errors import ConfigurationError
from lakehouse.receipt_total import worst_exit_code
from lakehouse.redaction import redacted
from lakehouse.settings import assets_folder

OneTable = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="namespace.table; default: every table", callback=not_empty)
]

_STYLES = {Standing.OK: "green", Standing.WARNING: "yellow", Standing.MISSING: "bold red", Standing.SKIPPED: "dim"}


def add_to(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: lakehouse doctor analytics.orders")(doctor)


def doctor(table: OneTable = None, as_json: AsJson = False) -> None:
    """Check settings, credentials and every right that loads need, one line each, and say what is missing.

    It writes small probes of its own below LAKEHOUSE_STATE, at the tables' locations and into the ledger's namespace,
    and removes them again. Exits with 0 if nothing is missing, 2 if something must be changed, 3 if a service does
    not answer.
    """
    declarations, problems = _declarations(table)
    checks: list[Check] = []
    found = examine(declarations, os.environ, now=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex[:12])
    for found_one in (*problems, *found):
        check = replace(found_one, subject=redacted(found_one.subject), detail=redacted(found_one.detail))
        checks.append(check)
        if not as_json:
            say(*_line(check))
    code = worst_exit_code([check.exit_code for check in checks])
    counts = Counter(check.standing for check in checks)
    if as_json:
        document = {standing.value: counts[standing] for standing in Standing}
        print_json({**document, "exit_code": code, "checks": [asdict(check) for check in checks]})
    else:
        say(", ".join(f"{counts[standing]} {standing}" for standing in Standing))
    raise typer.Exit(code)


def _declarations(table: str | None) -> tuple[Sequence[Declaration], list[Check]]:
    """Of all tables those whose declarations are right: what is wrong with the others is a check like any other."""
    if table is not None:
        return (declared(table),), []
    folder = assets_folder(os.environ)
    try:
        declarations, mistakes = validate_all(folder, os.environ)
    except ConfigurationError as error:
        return (), [Check("declarations", str(folder), Standing.MISSING, error.message, next=error.next, exit_code=2)]
    if mistakes:
        detail = "; ".join(mistakes)
        wrong = Check("declarations", str(folder), Standing.MISSING, detail, next="lakehouse validate", exit_code=2)
        return declarations, [wrong]
    return declarations, [Check("declarations", str(folder), Standing.OK, f"{len(declarations)} tables")]


def _line(check: Check) -> tuple[tuple[str, str], str]:
    told = f": {check.detail}" if check.detail else ""
    grant = f"; grant {check.grant}" if check.grant else ""
    after = f"; next: {check.next}" if check.next else ""
    head = (f"{check.standing.value:<8}", _STYLES[check.standing])
    return head, f" {check.name:<17} {check.subject}{told}{grant}{after}"
