"""`lakehouse load` and `lakehouse plan`."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.options import (
    AcceptMissing,
    AcceptNew,
    AsJson,
    First,
    Last,
    ModeName,
    Partition,
    SourceName,
    TableName,
    declared,
    look_at,
    narrowed,
    not_empty,
    parse_mode,
    parse_window,
    services_for,
    sources_of,
)
from lakehouse.cli.output import (
    error_json,
    print_failure,
    print_json,
    print_pairs,
    print_table,
    progress_bar,
    say,
)
from lakehouse.errors import LakehouseError
from lakehouse.ingest import LoadRequest, ingest, plan_load
from lakehouse.interruption import last_receipt
from lakehouse.model import Decision, Plan, Receipt
from lakehouse.receipt import failed_receipt, receipt_json
from lakehouse.receipt_total import worst_exit_code
from lakehouse.step_log import open_log

FromBatch = Annotated[
    str | None,
    typer.Option(
        "--from-batch",
        metavar="A",
        help="With --mode no-advance: leave out what this batch and all before it read.",
        callback=not_empty,
    ),
]
ToBatch = Annotated[
    str | None,
    typer.Option(
        "--to-batch",
        metavar="B",
        help="With --from-batch: read again what later ones up to this batch read.",
        callback=not_empty,
    ),
]


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
    source: SourceName = None,
    accept_new: AcceptNew = False,
    accept_missing: AcceptMissing = False,
) -> None:
    """Read what is new, merge it by key, publish rows and bookmark in one commit, and print the receipt.

    Of several sources one after the other; the exit code is that of the source that ended worst: 70, 4, 2, 1, 3, 0.
    """
    request = LoadRequest(
        mode=parse_mode(mode),
        window=parse_window(partition, first, last),
        from_batch=from_batch,
        to_batch=to_batch,
        run_id=f"cli-{uuid.uuid4().hex[:12]}",
        accept_missing=accept_missing,
        accept_new=accept_new,
    )
    declaration = narrowed(declared(table), source)
    with progress_bar(quiet=as_json) as show:
        try:
            services = services_for(declaration, progress=show, log=open_log(os.environ))
            receipt = ingest(declaration, request, services)
        except LakehouseError as error:  # the surroundings could not even be opened: that is a failed load too
            receipt = failed_receipt(declaration, request.run_id, error)
        except KeyboardInterrupt as stop:
            receipt = last_receipt(declaration, request.run_id, stop)
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
    source: SourceName = None,
    accept_new: AcceptNew = False,
    accept_missing: AcceptMissing = False,
) -> None:
    """Print what a load would read, object by object, with the reason. Writes nothing.

    Of several sources each by itself: one that cannot be listed hides none of the others.
    """
    declaration = declared(table)
    request = LoadRequest(
        mode=parse_mode(mode),
        window=parse_window(partition, first, last),
        from_batch=from_batch,
        to_batch=to_batch,
        accept_missing=accept_missing,
        accept_new=accept_new,
    )
    services = services_for(declaration)
    parts = sources_of(declaration, source)
    if len(parts) == 1:
        made = plan_load(parts[0], request, services)
        if as_json:
            print_json(plan_json(made))
        else:
            print_plan(made)
        return
    made_or_not = look_at(parts, lambda one: plan_load(one, request, services))
    if as_json:
        print_json({"table": table, "sources": [_planned_json(context, found) for context, found in made_or_not]})
    for context, found in made_or_not:
        if not isinstance(found, Plan):
            print_failure(f"{context}: {found.message}", found.next)
        elif not as_json:
            print_plan(found)
    raise typer.Exit(worst_exit_code([0 if isinstance(f, Plan) else f.exit_code for _, f in made_or_not]))


def _planned_json(context: str, found: Plan | LakehouseError) -> dict[str, object]:
    if isinstance(found, Plan):
        return plan_json(found)
    return {"context": context, **error_json(found)}


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
        "unaccepted": plan.unaccepted,
        "next": plan.answer,
    }


def print_plan(plan: Plan) -> None:
    number = {d.object.uri: n for n, batch in enumerate(plan.batches, start=1) for d in batch}
    rows = [
        (d.decision.value, number.get(d.object.uri), d.landing_date, d.object.size, d.object.uri, d.reason)
        for d in plan.decisions
    ]
    title = f"plan of {plan.table}: {plan.mode.value}, bookmark {plan.context} version {plan.bookmark_version}"
    print_table(title, ["decision", "batch", "date", "bytes", "object", "reason"], rows)
    for text in plan.accepted:
        say(text)
    for warning in (*plan.warnings, *_unfinished(plan)):
        say((f"warning: {warning}", "yellow"))
    if plan.unaccepted:
        say(f"a load refuses this: {plan.answer}")
    if not plan.batches:
        say("nothing to do")


def _unfinished(plan: Plan) -> list[str]:
    """That a snapshot's newest date does not tell the whole truth, if the plan reads it."""
    read = any(d.landing_date == plan.newest_date for batch in plan.batches for d in batch)
    if not plan.unfinished or not read:
        return []
    return [f"landing date {plan.newest_date} is not complete, no row will be deleted: {plan.unfinished[0]}"]


def print_receipt(receipt: Receipt) -> None:
    """The receipt for people: state first, then what it counted; of several sources each, and the total."""
    for part in receipt.sources:
        print_receipt(part)
    version = receipt.bookmark_version
    print_pairs(
        {
            "table": receipt.table,
            "state": receipt.state.value,
            "bookmark": receipt.context
            if receipt.sources
            else f"{receipt.context} version {'-' if version is None else version}",
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
            say(f"gate {gate.name}: {gate.value} is over {gate.limit}, {gate.accepted}")
    for warning in () if receipt.sources else receipt.warnings:
        say((f"warning: {warning}", "yellow"))


def print_ending(receipt: Receipt) -> None:
    """What went wrong and what helps, on standard error."""
    for part in receipt.sources or (receipt,):
        name = f"{part.context}: " if receipt.sources and part.error else ""
        print_failure(name + part.error, part.next)
