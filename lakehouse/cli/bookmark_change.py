"""`lakehouse bookmark reset|rewind|set|import-glue`: an operator moves the position of a table's bookmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.operate import Why, given_reason, print_hints, state_text, this_operator
from lakehouse.cli.options import (
    AsJson,
    DryRun,
    EverySource,
    SourceName,
    TableName,
    declared,
    look_at,
    not_empty,
    services_for,
    sources_to_change,
)
from lakehouse.cli.output import error_json, of_sources, print_failure, print_json, print_pairs, print_table, say
from lakehouse.declaration import Declaration
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.glue_state import parse_glue_state
from lakehouse.operate.bookmark_change import reset_bookmark, rewind_bookmark, set_bookmark
from lakehouse.operate.glue_import import import_glue
from lakehouse.operate.move import BookmarkChange, Objects
from lakehouse.operate.reattach import rewind_to_table
from lakehouse.operate.rewind_table import rewind_with_table
from lakehouse.receipt_total import worst_exit_code
from lakehouse.services import Services

SHOWN_DATES = 31
"""Landing dates that a terminal shows; `--json` has all of them."""

ToBatch = Annotated[
    str | None,
    typer.Option(
        "--to-batch", metavar="BATCH", help="A batch id or a bookmark version; 0 is the beginning.", callback=not_empty
    ),
]
WithTable = Annotated[
    bool, typer.Option("--with-table", help="Take the rows of the table back too, in the same commit.")
]
ToTable = Annotated[
    bool,
    typer.Option("--to-table", help="Mend a detached bookmark: go to where the table is, whatever was done to it."),
]
Place = Annotated[str, typer.Option("--to", metavar="now", help="Everything that is there now is done with.")]
GlueFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="What `aws glue get-job-bookmark --job-name JOB` has printed.")
]
GlueContext = Annotated[
    str | None,
    typer.Option("--glue-context", metavar="NAME", help="The transformation context, where the job has several."),
]
ImportReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the job and its run if left out.")]


def add_to(bookmark: typer.Typer) -> None:
    table = "analytics.orders"
    bookmark.command("reset", epilog=f"Example: lakehouse bookmark reset {table} --reason 'a new mapping' --dry-run")(
        reset
    )
    bookmark.command(
        "rewind",
        epilog=f"Example: lakehouse bookmark rewind {table} --to-batch 12 --with-table --reason 'wrong export'",
    )(rewind)
    bookmark.command("set", epilog=f"Example: lakehouse bookmark set {table} --to now --reason 'loaded by hand'")(
        set_to
    )
    bookmark.command("import-glue", epilog=f"Example: lakehouse bookmark import-glue {table} bookmark.json --dry-run")(
        import_from_glue
    )


def reset(
    table: TableName,
    reason: Why,
    source: SourceName = None,
    every: EverySource = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """See nothing any more: the next load reads everything again and merges it. The table stays as it is."""
    operator = this_operator(given_reason(reason))

    def change(one: Declaration, services: Services) -> BookmarkChange:
        return reset_bookmark(one, operator, services, dry_run=dry_run)

    _change(table, source, change, every=every, as_json=as_json)


def rewind(
    table: TableName,
    reason: Why,
    to_batch: ToBatch = None,
    with_table: WithTable = False,
    to_table: ToTable = False,
    source: SourceName = None,
    every: EverySource = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """See what was seen after a batch, and nothing since: the next load reads that again. The table stays as it is,
    unless --with-table takes it back too. --to-table goes to where a detached table is."""
    if to_table == (to_batch is not None) or (to_table and with_table):
        raise UsageError(
            "say where to: --to-batch BATCH, with --with-table to take the rows back too, or --to-table alone",
            next=f"lakehouse bookmark history {table}",
        )
    operator = this_operator(given_reason(reason))

    def change(one: Declaration, services: Services) -> BookmarkChange:
        if to_batch is None:
            return rewind_to_table(one, operator, services, dry_run=dry_run)
        if with_table:
            return rewind_with_table(one, to_batch, operator, services, dry_run=dry_run)
        return rewind_bookmark(one, to_batch, operator, services, dry_run=dry_run)

    _change(table, source, change, every=every, as_json=as_json)


def set_to(
    table: TableName,
    to: Place,
    reason: Why,
    source: SourceName = None,
    every: EverySource = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Count everything as done that a load would read, now or once it is ready. Nothing is read."""
    operator = this_operator(given_reason(reason))

    def change(one: Declaration, services: Services) -> BookmarkChange:
        return set_bookmark(one, to, operator, services, dry_run=dry_run)

    _change(table, source, change, every=every, as_json=as_json)


def import_from_glue(
    table: TableName,
    file: GlueFile,
    context: GlueContext = None,
    reason: ImportReason = "",
    source: SourceName = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Go on where an AWS Glue job bookmark stands: what it has surely read counts as consumed, the rest is read."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    state = parse_glue_state(text, file=str(file), context=context)
    operator = this_operator(reason.strip() or f"imported from Glue job {state.job}, run {state.run_id}")

    def change(one: Declaration, services: Services) -> BookmarkChange:
        return import_glue(one, state, operator, services, dry_run=dry_run)

    _change(table, source, change, every=False, as_json=as_json)


def _change(
    table: str,
    source: str | None,
    change: Callable[[Declaration, Services], BookmarkChange],
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Change the position of each source that is meant, and print what was done: one that fails holds back none."""
    declaration = declared(table)
    services = services_for(declaration)
    done = look_at(sources_to_change(declaration, source, every=every), lambda one: change(one, services))
    failed = [(context, error) for context, error in done if isinstance(error, LakehouseError)]
    if as_json:
        told = [(c, error_json(one) if isinstance(one, LakehouseError) else asdict(one)) for c, one in done]
        print_json(of_sources(table, told))
    else:
        for _, one in done:
            if isinstance(one, BookmarkChange):
                _print(one)
    for context, error in failed:
        print_failure(f"{context}: {error.message}", error.next)
    raise typer.Exit(worst_exit_code([error.exit_code for _, error in failed]))


def _print(change: BookmarkChange) -> None:
    again = f", {change.again:,} of them again" if change.to_read.count else ""
    pairs: dict[str, object] = {
        "table": change.table,
        "state": state_text(change.state, change.dry_run),
        "change": f"{change.change} by {change.author}: {change.reason}",
        "bookmark": f"{change.context} version {change.bookmark_version}",
        "as after": f"version {change.to_version}" if change.to_version is not None else None,
        "snapshot": change.snapshot_id,
        "to read": f"{_sum(change.to_read)}{again}; {change.deferred:,} deferred",
        "done with": f"{_sum(change.marked)}, not read" if change.marked.count else None,
        "rows": f"{change.inserted:,} more and {change.deleted:,} fewer by landing date"
        if change.inserted or change.deleted
        else None,
        "glue": ", ".join(f"{count:,} {name}" for name, count in change.counts.items()) or None,
        "ledger": change.ledger,
    }
    print_pairs({name: value for name, value in pairs.items() if value is not None})
    for title, objects in (("to read", change.to_read), ("done with", change.marked)):
        if objects.count:
            _print_objects(title, objects)
    print_hints(change.warnings, change.next)


def _sum(objects: Objects) -> str:
    return f"{objects.count:,} objects, {objects.bytes:,} bytes"


def _print_objects(title: str, objects: Objects) -> None:
    print_table(title, ["landing date", "objects"], [*objects.dates.items()][-SHOWN_DATES:])
    if len(objects.dates) > SHOWN_DATES:
        say(f"and {len(objects.dates) - SHOWN_DATES:,} older landing dates: --json shows all of them")
    for uri in objects.first:
        say(uri)
    if objects.count > len(objects.first):
        say(f"and {objects.count - len(objects.first):,} more objects")
