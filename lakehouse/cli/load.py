"""`lakehouse load` and `lakehouse plan`."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from lakehouse.cli.options import (
    AcceptMissing,
    AsJson,
    First,
    Last,
    ModeName,
    Partition,
    TableName,
    declared,
    parse_mode,
    parse_window,
    refuse,
    services_for,
)
from lakehouse.cli.output import console, error_console, print_json, print_pairs, print_table, progress_bar
from lakehouse.errors import LakehouseError
from lakehouse.ingest import LoadRequest, ingest, plan_load
from lakehouse.model import Decision, Plan, Receipt
from lakehouse.receipt import failed_receipt, receipt_json

FromBatch = Annotated[
    str | None,
    typer.Option(
        "--from-batch", metavar="A", help="With --mode no-advance: leave out what this batch and all before it read."
    ),
]
ToBatch = Annotated[
    str | None,
    typer.Option(
        "--to-batch", metavar="B", help="With --from-batch: read again what later ones up to this batch read."
    ),
]
Name = Annotated[str | None, typer.Option(hidden=True)]
Flag = Annotated[bool, typer.Option(hidden=True)]


def add_to(app: typer.Typer) -> None:
    app.command("load", epilog="Example: lakehouse load analytics.orders --partition 2026-08-30")(load)
    app.command("plan", epilog="Example: lakehouse plan analytics.orders --from 2026-08-30 --to 2026-09-01")(plan)


def load(
    table: TableName,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    mode: ModeName = "incremental",
    as_json: AsJson = False,
    from_batch: FromBatch = None,
    to_batch: ToBatch = None,
    source: Name = None,
    accept_new: Flag = False,
    accept_missing: AcceptMissing = False,
) -> None:
    """Read what is new, merge it by key, publish rows and bookmark in one commit, and print the receipt."""
    refuse(source=source, accept_new=accept_new)
    request = LoadRequest(
        mode=parse_mode(mode),
        window=parse_window(partition, first, last),
        from_batch=from_batch,
        to_batch=to_batch,
        run_id=f"cli-{uuid.uuid4().hex[:12]}",
        accept_missing=accept_missing,
    )
    declaration = declared(table)
    with progress_bar(quiet=as_json) as show:
        try:
            receipt = ingest(declaration, request, services_for(declaration, progress=show))
        except LakehouseError as error:  # the surroundings could not even be opened: that is a failed load too
            receipt = failed_receipt(declaration, request.run_id, error)
    if as_json:
        print_json(receipt_json(receipt))
    else:
        print_receipt(receipt)
    print_ending(receipt)
    raise typer.Exit(receipt.exit_code)


def plan(
    table: TableName,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    mode: ModeName = "incremental",
    as_json: AsJson = False,
    from_batch: FromBatch = None,
    to_batch: ToBatch = None,
    source: Name = None,
    accept_new: Flag = False,
    accept_missing: AcceptMissing = False,
) -> None:
    """Print what a load would read, object by object, with the reason. Writes nothing."""
    refuse(source=source, accept_new=accept_new)
    declaration = declared(table)
    request = LoadRequest(
        mode=parse_mode(mode),
        window=parse_window(partition, first, last),
        from_batch=from_batch,
        to_batch=to_batch,
        accept_missing=accept_missing,
    )
    made = plan_load(declaration, request, services_for(declaration))
    if as_json:
        print_json(plan_json(made))
    else:
        print_plan(made)


def plan_json(plan: Plan) -> dict[str, object]:
    """A plan as a document; objects keep the order of their keys, batches theirs."""
    return {
        "table": plan.table,
        "context": plan.context,
        "table_uuid": plan.table_uuid,
        "mode": plan.mode,
        "from": plan.window.first,
        "to": plan.window.last,
        "declaration": plan.declaration,
        "bookmark_version": plan.bookmark_version,
        "batch_id": plan.batch_id,
        "objects": {d.value: plan.count(d) for d in Decision},
        "decisions": [
            {**asdict(d.object), "landing_date": d.landing_date, "decision": d.decision, "reason": d.reason}
            for d in plan.decisions
        ],
        "batches": [[d.object.uri for d in batch] for batch in plan.batches],
        "missing": list(plan.missing),
        "newest_date": plan.newest_date,
        "unfinished": list(plan.unfinished),
        "warnings": list(plan.warnings),
        "held": plan.held,
        "accepted": list(plan.accepted),
    }


def print_plan(plan: Plan) -> None:
    number = {d.object.uri: n for n, batch in enumerate(plan.batches, start=1) for d in batch}
    rows = [
        (d.decision.value, number.get(d.object.uri), d.landing_date, d.object.size, d.object.uri, d.reason)
        for d in plan.decisions
    ]
    title = f"plan of {plan.table}: {plan.mode.value}, bookmark version {plan.bookmark_version}"
    print_table(title, ["decision", "batch", "date", "bytes", "object", "reason"], rows)
    for text in plan.accepted:
        console().print(text, markup=False)
    for warning in (*plan.warnings, *_unfinished(plan)):
        console().print(Text(f"warning: {warning}", style="yellow"))
    if not plan.batches:
        console().print("nothing to do")


def _unfinished(plan: Plan) -> list[str]:
    """That a snapshot's newest date does not tell the whole truth, if the plan reads it."""
    read = any(d.landing_date == plan.newest_date for batch in plan.batches for d in batch)
    if not plan.unfinished or not read:
        return []
    return [f"landing date {plan.newest_date} is not complete, no row will be deleted: {plan.unfinished[0]}"]


def print_receipt(receipt: Receipt) -> None:
    """The receipt for people: state first, then what it counted."""
    version = receipt.bookmark_version
    print_pairs(
        {
            "table": receipt.table,
            "state": receipt.state.value,
            "bookmark": f"{receipt.context} version {'-' if version is None else version}",
            "snapshot": receipt.snapshot_id,
            "batches": ", ".join(b.batch_id for b in receipt.batches) or "-",
            "objects": ", ".join(f"{n} {name}" for name, n in receipt.objects.items()),
            "rows": ", ".join(f"{n:,} {name}" for name, n in receipt.rows.as_dict().items() if n) or "none",
            "files": ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in asdict(receipt.files).items()),
            "seconds": f"{receipt.seconds.get('total', 0.0):.2f}",
        }
    )
    if receipt.dates:
        columns = ["date", "objects", "read", "rejected", "inserted", "updated", "unchanged", "stale", "gained", "lost"]
        rows = [
            (
                day, c.objects, c.rows.read, c.rows.rejected, c.rows.inserted, c.rows.updated, c.rows.unchanged,
                c.rows.stale, c.gained, c.lost,
            )
            for day, c in receipt.dates.items()
        ]  # fmt: skip
        print_table("", columns, rows)
    for gate in receipt.gates:
        if gate.accepted:
            console().print(f"gate {gate.name}: {gate.value} is over {gate.limit}, {gate.accepted}", markup=False)
    for warning in receipt.warnings:
        console().print(Text(f"warning: {warning}", style="yellow"))


def print_ending(receipt: Receipt) -> None:
    """What went wrong and what helps, on standard error."""
    out = error_console()
    if receipt.error:
        out.print(Text.assemble(("error: ", "bold red"), receipt.error))
    if receipt.next:
        out.print(Text.assemble(("next:  ", "bold"), receipt.next))
