"""`lakehouse reconcile`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, Partition, TableName, declared, parse_date, refuse, services_for
from lakehouse.cli.output import console, print_json, print_table
from lakehouse.recount import Recount, recount


def add_to(app: typer.Typer) -> None:
    app.command("reconcile", epilog="Example: lakehouse reconcile analytics.orders --reread")(reconcile)


def reconcile(
    table: TableName,
    partition: Partition = None,
    reread: Annotated[bool, typer.Option("--reread", help="Read the source objects again.")] = False,
    as_json: AsJson = False,
    objects: Annotated[bool, typer.Option(hidden=True)] = False,
    accept_foreign: Annotated[str | None, typer.Option(hidden=True)] = None,
    reason: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Count the table again and compare it with what the bookmark says; exit 1 if anything differs."""
    refuse(objects=objects, accept_foreign=accept_foreign, reason=reason)
    declaration = declared(table)
    day = parse_date("--partition", partition) if partition is not None else None
    result = recount(declaration, services_for(declaration), landing_date=day, reread=reread)
    if as_json:
        print_json(recount_json(table, result))
    else:
        print_recount(table, result)
    raise typer.Exit(0 if result.holds else 1)


def recount_json(table: str, result: Recount) -> dict[str, object]:
    return {
        "table": table,
        "snapshot_id": result.snapshot_id,
        "holds": result.holds,
        "equations": [
            {
                "equation": e.name,
                "landing_date": e.landing_date,
                "left_value": e.left,
                "right_value": e.right,
                "holds": e.holds,
            }
            for e in result.equations
        ],
        "unavailable": list(result.unavailable),
        "foreign": list(result.foreign),
    }


def print_recount(table: str, result: Recount) -> None:
    rows = [(e.holds, e.name, e.landing_date, e.left, e.right) for e in result.equations]
    print_table(f"{table} at snapshot {result.snapshot_id}", ["holds", "equation", "date", "left", "right"], rows)
    for line in (*result.unavailable, *result.foreign):
        console().print(line, markup=False)
    console().print(
        "everything holds" if result.holds else "something differs", style="green" if result.holds else "red"
    )
