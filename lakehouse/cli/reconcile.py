"""`lakehouse reconcile`: the table against the bookmark, and with `--objects` the bookmark against the listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import Annotated

import typer

from lakehouse.audit.completeness import Completeness, completeness
from lakehouse.audit.recount import Recount, recount
from lakehouse.cli.operate import given_reason, print_hints, state_text, this_operator
from lakehouse.cli.options import AsJson, DryRun, Partition, TableName, declared, look_at, parse_date, services_for
from lakehouse.cli.output import error_json, print_failure, print_json, print_pairs, print_table, say
from lakehouse.declaration import Declaration
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.ingest import LoadRequest, plan_load
from lakehouse.model import Window
from lakehouse.operate.foreign import ForeignAcceptance, accept_foreign
from lakehouse.position import find_position
from lakehouse.receipt_total import worst_exit_code
from lakehouse.services import Services


def add_to(app: typer.Typer) -> None:
    app.command("reconcile", epilog="Example: lakehouse reconcile analytics.orders --reread")(reconcile)


def reconcile(
    table: TableName,
    partition: Partition = None,
    reread: Annotated[bool, typer.Option("--reread", help="Read the source objects again.")] = False,
    as_json: AsJson = False,
    objects: Annotated[
        bool, typer.Option("--objects", help="List the landing folder and name what nothing has been done with.")
    ] = False,
    accept: Annotated[
        int | None,
        typer.Option(
            "--accept-foreign",
            metavar="SNAPSHOT",
            help="Count the net rows of another writer's snapshot as ours from now on; with --reason, and --dry-run.",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="With --accept-foreign: why; it is stored.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Count the table again and compare it with what the bookmark says; exit 1 if anything differs."""
    declaration = declared(table)
    if accept is not None:
        if partition is not None or reread or objects:
            raise UsageError("--accept-foreign stands alone, with --reason and --dry-run")
        operator = this_operator(given_reason(reason or ""))
        _tell_acceptance(
            accept_foreign(declaration.by_source[0], accept, operator, services_for(declaration), dry_run=dry_run),
            as_json,
        )
        return
    if reason is not None or dry_run:
        raise UsageError("--reason and --dry-run belong to --accept-foreign SNAPSHOT")
    day = parse_date("--partition", partition) if partition is not None else None
    services = services_for(declaration)
    result = recount(declaration, services, landing_date=day, reread=reread)
    parts = declaration.by_source if objects else ()
    listed = look_at(parts, lambda one: find_completeness(one, services, landing_date=day))
    if as_json:
        print_json(recount_json(table, result) | (listings_json(listed) if listed else {}))
    else:
        print_recount(table, result)
        for context, found in listed:
            of = f"the landing folder of {context}" if len(listed) > 1 else "the landing folder"
            if isinstance(found, Completeness):
                print_completeness(found, of=of)
    codes = [0 if result.holds else 1]
    for context, found in listed:
        if isinstance(found, Completeness):
            codes.append(0 if found.holds else 1)
        else:
            codes.append(found.exit_code)
            print_failure(f"{context}: {found.message}", found.next)
    raise typer.Exit(worst_exit_code(codes))


def _tell_acceptance(done: ForeignAcceptance, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
        return
    dates = ", ".join(f"{day} {rows:+,}" for day, rows in done.dates.items())
    print_pairs(
        {
            "table": done.table,
            "state": state_text(done.state, done.dry_run),
            "accepted": f"snapshot {done.foreign_snapshot}, net rows {done.rows:+,}",
            "dates": dates or "none",
            "bookmark": f"{done.context} version {done.bookmark_version}",
            "snapshot": done.snapshot_id,
            "ledger": done.ledger,
        }
    )
    print_hints(done.warnings, done.next)


def find_completeness(declaration: Declaration, services: Services, *, landing_date: date | None) -> Completeness:
    """The listing of one landing date, or all of it, against the bookmark."""
    plan = plan_load(declaration, LoadRequest(window=Window(landing_date, landing_date)), services)
    return completeness(plan, find_position(declaration, services).bookmark.seen)


def listings_json(listed: Sequence[tuple[str, Completeness | LakehouseError]]) -> dict[str, object]:
    """What `--objects` adds to the document; of several sources one entry each."""
    if len(listed) == 1:
        return completeness_json(listed[0][1])
    return {
        "complete": all(isinstance(found, Completeness) and found.holds for _, found in listed),
        "sources": [{"context": context, **completeness_json(found)} for context, found in listed],
    }


def completeness_json(listed: Completeness | LakehouseError) -> dict[str, object]:
    if isinstance(listed, LakehouseError):
        return error_json(listed)
    return {
        "complete": listed.holds,
        "objects": [
            {"landing_date": e.landing_date, "listed": e.left, "done": e.right, "holds": e.holds}
            for e in listed.equations
        ],
        "left": [
            {"uri": d.object.uri, "landing_date": d.landing_date, "decision": d.decision, "reason": d.reason}
            for d in listed.left
        ],
        "outside": [d.object.uri for d in listed.outside],
        "gone": [{"uri": item.object.uri, "landing_date": item.landing_date} for item in listed.gone],
    }


def print_completeness(listed: Completeness, *, of: str) -> None:
    rows = [(e.holds, e.name, e.landing_date, e.left, e.right) for e in listed.equations]
    print_table(of, ["holds", "equation", "date", "left", "right"], rows)
    if listed.left:
        left = [(d.decision, d.object.uri, d.reason) for d in listed.left]
        print_table("not dealt with", ["what", "uri", "reason"], left)
    for item in listed.gone:
        say(f"read in {item.batch_id}, and gone since: {item.object.uri}")
    for named in listed.outside:
        say(f"not loaded: {named.object.uri}: {named.reason}")
    text, style = ("every object is dealt with", "green") if listed.holds else ("objects are left", "red")
    say((text, style))


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
        "next": result.next,
    }


def print_recount(table: str, result: Recount) -> None:
    rows = [(e.holds, e.name, e.landing_date, e.left, e.right) for e in result.equations]
    print_table(f"{table} at snapshot {result.snapshot_id}", ["holds", "equation", "date", "left", "right"], rows)
    for line in (*result.unavailable, *result.foreign):
        say(line)
    say(("everything holds", "green") if result.holds else ("something differs", "red"))
    print_hints((), result.next)
