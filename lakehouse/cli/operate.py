"""`lakehouse adopt`, `hold` and `release`: what an operator does to a table beside loading it."""

from __future__ import annotations

import getpass
import shlex
import socket
import sys
import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, DryRun, TableName, declared, services_for
from lakehouse.cli.output import print_json, print_pairs, say
from lakehouse.errors import UsageError
from lakehouse.model import State
from lakehouse.operate.adopt import Adoption, adopt
from lakehouse.operate.hold import HoldChange, hold, release
from lakehouse.operate.operator_change import Operator

Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored and shown with the decision.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored with the change.")]


def add_to(app: typer.Typer) -> None:
    app.command("adopt", epilog="Example: lakehouse adopt analytics.orders --dry-run")(adopt_table)
    app.command("hold", epilog="Example: lakehouse hold analytics.orders --reason 'the source is mended'")(hold_table)
    app.command("release", epilog="Example: lakehouse release analytics.orders --reason 'it is mended'")(release_table)


def hold_table(table: TableName, reason: Why, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Let no load of a table be executed until it is released; shown in every plan."""
    _change_hold(hold, table, reason, dry_run=dry_run, as_json=as_json)


def release_table(table: TableName, reason: Why, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Let a held table be loaded again."""
    _change_hold(release, table, reason, dry_run=dry_run, as_json=as_json)


def _change_hold(change: Callable[..., HoldChange], table: str, reason: str, *, dry_run: bool, as_json: bool) -> None:
    declaration = declared(table)
    done = change(declaration, this_operator(given_reason(reason)), services_for(declaration), dry_run=dry_run)
    if as_json:
        print_json(asdict(done))
        return
    held = done.held
    print_pairs(
        {
            "table": done.table,
            "state": state_text(done.state, done.dry_run),
            "held": held.text if held else "no",
            "bookmark": f"{done.context} version {done.bookmark_version}",
            "snapshot": done.snapshot_id,
            "ledger": done.ledger,
        }
    )
    print_hints((), f"lakehouse release {table} --reason TEXT" if held else f"lakehouse load {table}")


def given_reason(reason: str) -> str:
    """Raises UsageError if it is empty."""
    if not reason.strip():
        raise UsageError("--reason is empty; say why, for whoever finds the decision later")
    return reason


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


def this_operator(reason: str) -> Operator:
    """Who runs this command, as `user@host`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run under a number that has no name
        user = "unknown"
    command = shlex.join(["lakehouse", *sys.argv[1:]])
    return Operator(f"{user}@{socket.gethostname()}", reason, f"cli-{uuid.uuid4().hex[:12]}", command)


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


def state_text(state: State, dry_run: bool) -> str:
    return "dry run, nothing was changed" if dry_run else state.value


def print_hints(warnings: tuple[str, ...], next_step: str) -> None:
    for warning in warnings:
        say((f"warning: {warning}", "yellow"))
    if next_step:
        say(f"next:  {next_step}")
