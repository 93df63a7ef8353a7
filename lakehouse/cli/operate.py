"""`lakehouse adopt` and `lakehouse maintain`: what an operator does to a table beside loading it."""

from __future__ import annotations

import getpass
import socket
import uuid
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from lakehouse.adopt import Adoption, adopt
from lakehouse.cli.options import AsJson, DryRun, TableName, declared, services_for
from lakehouse.cli.output import console, print_json, print_pairs, print_table
from lakehouse.dedupe import Deduplication, dedupe
from lakehouse.errors import NotAvailable
from lakehouse.model import State
from lakehouse.operator_change import Operator

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored with the change.")]


class Upkeep(StrEnum):
    """What `maintain` can be asked for."""

    COMPACT = "compact"
    EXPIRE = "expire"
    ORPHANS = "orphans"
    DEDUPE = "dedupe"


def add_to(app: typer.Typer) -> None:
    app.command("adopt", epilog="Example: lakehouse adopt analytics.orders --dry-run")(adopt_table)
    app.command("maintain", epilog="Example: lakehouse maintain analytics.orders dedupe --dry-run")(maintain)


def adopt_table(
    table: TableName,
    dry_run: DryRun = False,
    remove_doubles: Annotated[
        bool, typer.Option("--dedupe", help="Keep only the newest row of a key that stands in several.")
    ] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Take over an existing Iceberg table: its rows become the baseline, and loads go on from there."""
    declaration = declared(table)
    found = adopt(
        declaration, services_for(declaration), this_operator(reason), dry_run=dry_run, remove_doubles=remove_doubles
    )
    if as_json:
        print_json(asdict(found))
    else:
        _print_adoption(found)


def maintain(
    table: TableName,
    what: Annotated[
        Upkeep | None, typer.Argument(metavar="[compact|expire|orphans|dedupe]", help="One kind of upkeep.")
    ] = None,
    dry_run: DryRun = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Upkeep of a table. `dedupe` keeps only the newest row of every key; the others are not available yet."""
    if what is not Upkeep.DEDUPE:
        name = f"lakehouse maintain TABLE {what.value}" if what else "lakehouse maintain without a kind of upkeep"
        raise NotAvailable(f"{name} is not available yet", next=f"lakehouse maintain {table} dedupe --dry-run")
    declaration = declared(table)
    found = dedupe(declaration, services_for(declaration), this_operator(reason), dry_run=dry_run)
    if as_json:
        print_json(asdict(found))
    else:
        _print_deduplication(found)


def this_operator(reason: str) -> Operator:
    """Who runs this command, as `user@host`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run under a number that has no name
        user = "unknown"
    return Operator(f"{user}@{socket.gethostname()}", reason, f"cli-{uuid.uuid4().hex[:12]}")


def _print_adoption(found: Adoption) -> None:
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "baseline": "as it was taken over" if found.baseline is None else f"{found.baseline:,} rows",
            "removed": f"{found.removed:,} rows of doubled keys",
            "changes": "; ".join(found.changes) or "none",
            "carried": ", ".join(found.carried) or "none",
            "ledger": found.ledger,
        }
    )
    print_hints(found.warnings, found.next)


def _print_deduplication(found: Deduplication) -> None:
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "rows": f"{found.rows:,}",
            "doubled keys": f"{found.doubled:,}",
            "removed": f"{found.removed:,} rows",
            "ledger": found.ledger,
        }
    )
    if found.first:
        print_table("", ["key", "rows"], [(d.key, d.rows) for d in found.first])
    print_hints(found.warnings, found.next)


def state_text(state: State, dry_run: bool) -> str:
    return "dry run, nothing was changed" if dry_run else state.value


def print_hints(warnings: tuple[str, ...], next_step: str) -> None:
    for warning in warnings:
        console().print(Text(f"warning: {warning}", style="yellow"))
    if next_step:
        console().print(Text(f"next:  {next_step}"))
