"""`lakehouse gate accept`: an operator lets a batch pass a gate that has refused it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.audit.status import knows_batch
from lakehouse.cli.operate import Why, given_reason, print_hints, state_text, this_operator
from lakehouse.cli.options import AsJson, DryRun, declared, not_empty, services_for
from lakehouse.cli.output import print_json, print_pairs
from lakehouse.declaration import Declaration, load_declarations
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.operate.gate_accept import GateAcceptance, accept_gate
from lakehouse.position import find_position
from lakehouse.settings import assets_folder

Batch = Annotated[
    str, typer.Argument(metavar="BATCH", help="The id of the batch that was blocked.", callback=not_empty)
]
GateName = Annotated[
    str, typer.Argument(metavar="NAME", help="The gate that has refused it, such as row_count_change.")
]
OfTable = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="TABLE", help="The batch's table, where looking at all takes long.", callback=not_empty
    ),
]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Gates that refused a batch.", no_args_is_help=True)
    example = "Example: lakehouse gate accept 0f3c… max_rejected_ratio --reason 'the sender knows of it' --dry-run"
    group.command("accept", epilog=example)(accept)
    # a group of one command would be that command
    group.callback()(_gates)
    app.add_typer(group, name="gate")


def _gates() -> None:
    """Gates that refused a batch."""


def accept(
    batch: Batch, gate: GateName, reason: Why, table: OfTable = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Let the next load of exactly this batch's objects, under the same declaration, pass one gate."""
    operator = this_operator(given_reason(reason))
    among = [declared(table)] if table is not None else load_declarations(assets_folder(os.environ), os.environ)
    parts = [one for declaration in among for one in declaration.by_source]
    declaration = parts[0] if table is not None and len(parts) == 1 else _declared_for(batch, parts)
    done = accept_gate(declaration, batch, gate, operator, services_for(declaration), dry_run=dry_run)
    if as_json:
        print_json(asdict(done))
    else:
        _print_acceptance(done)


def _declared_for(batch: str, parts: Sequence[Declaration]) -> Declaration:
    """The declaration of the source that the batch is of, among those of single sources.

    Raises UsageError if none knows it; one that could not be looked at is named.
    """
    unseen = []
    for declaration in parts:
        try:
            services = services_for(declaration)
            if knows_batch(declaration, find_position(declaration, services), services, batch):
                return declaration
        except LakehouseError as error:
            unseen.append(f"{declaration.table}: {error.message}")
    also = f"; could not be looked at: {'; '.join(unseen)}" if unseen else ""
    raise UsageError(f"no table knows the batch: batch={batch}{also}", next="lakehouse status")


def _print_acceptance(done: GateAcceptance) -> None:
    print_pairs(
        {
            "table": done.table,
            "state": state_text(done.state, done.dry_run),
            "gate": f"{done.gate}: {done.value} is over {done.limit}" if done.value is not None else done.gate,
            "batch": f"{done.batch_id}, {len(done.objects)} objects",
            "bookmark": f"{done.context} version {done.bookmark_version}",
            "snapshot": done.snapshot_id,
            "ledger": done.ledger,
        }
    )
    print_hints(done.warnings, done.next)
