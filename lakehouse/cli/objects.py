"""`lakehouse explain`, `lakehouse object skip|release|reload` and `lakehouse rejects replay`: what is known of landing
objects, and what an operator decides about them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated

import typer

from lakehouse.audit.object_history import Event, explain_object
from lakehouse.bookmark import RELEASE, RELOAD, SKIP
from lakehouse.cli.load import print_ending, print_receipt
from lakehouse.cli.operate import Reason, Why, given_reason, print_hints, state_text, this_operator
from lakehouse.cli.options import (
    AsJson,
    DryRun,
    OneBatch,
    SourceName,
    TableName,
    declared,
    not_empty,
    services_for,
    sources_of,
)
from lakehouse.cli.output import of_sources, print_json, print_pairs, print_table, progress_bar, say
from lakehouse.declaration import Declaration, declarations_reading
from lakehouse.errors import UsageError
from lakehouse.operate.object_change import ObjectChange, change_object
from lakehouse.operate.replay import Replay, knowing_batch, replay_rejects
from lakehouse.receipt import receipt_json
from lakehouse.receipt_total import worst_exit_code
from lakehouse.settings import assets_folder

Uri = Annotated[str, typer.Argument(metavar="URI", help="s3://bucket/key, as S3 knows the key.")]
OfTable = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="TABLE", help="Where the sources of several tables hold the object.", callback=not_empty
    ),
]

_COMMANDS = (
    (SKIP, "Read this version of an object no more, whatever is loaded, until it is released."),
    (RELEASE, "Take a skip or a quarantine back: the next load reads the object."),
    (RELOAD, "Have the next load read an object again although it did not change."),
)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Decide about one landing object.", no_args_is_help=True)
    for kind, purpose in _COMMANDS:
        name = kind.removeprefix("object-")
        example = f"Example: lakehouse object {name} s3://landing/orders/input_date=2026-08-30/a.csv --reason TEXT"
        group.command(name, help=purpose, epilog=example)(_command(kind))
    app.add_typer(group, name="object")
    app.command("explain", epilog="Example: lakehouse explain s3://landing/orders/input_date=2026-08-30/a.csv")(explain)


def add_replay_to(rejects: typer.Typer) -> None:
    """`replay` belongs to the group `rejects`."""
    rejects.command("replay", epilog="Example: lakehouse rejects replay analytics.orders --dry-run")(replay)


def explain(uri: Uri, table: OfTable = None, source: SourceName = None, as_json: AsJson = False) -> None:
    """Why an object was read, skipped, deferred or rejected; which batch and snapshot hold it."""
    declaration = _declared_for(uri, table, source)
    found = explain_object(declaration, uri, services_for(declaration))
    if as_json:
        print_json(asdict(found))
        return
    print_pairs(
        {
            "object": found.uri,
            "table": found.table,
            "source": found.context,
            "landing date": found.landing_date,
            "now": f"{found.decision}: {found.reason}" if found.listed else found.reason,
            "etag": found.etag,
            "first seen": found.first_seen,
        }
    )
    if found.events:
        columns = ["version", "at", "what", "decision", "etag", "before", "read", "rejected", "inserted", "updated",
                   "batch", "snapshot", "because"]  # fmt: skip
        print_table("", columns, [_event_row(event) for event in found.events])
    for attempt in found.attempts:
        text = f"{attempt.state} at {attempt.step}, batch {attempt.batch_id}, ended {attempt.ended_at}: {attempt.error}"
        say(text)
    print_hints((), found.next)


def _event_row(event: Event) -> tuple[object, ...]:
    return (
        event.bookmark_version, event.at, event.what, event.decision, event.etag, event.supersedes, event.rows_read,
        event.rows_rejected, event.rows_inserted, event.rows_updated, event.batch_id, event.snapshot_id, event.reason,
    )  # fmt: skip


def _command(kind: str) -> Callable[..., None]:
    def command(
        uri: Uri,
        reason: Why,
        table: OfTable = None,
        source: SourceName = None,
        dry_run: DryRun = False,
        as_json: AsJson = False,
    ) -> None:
        declaration = _declared_for(uri, table, source)
        operator = this_operator(given_reason(reason))
        change = change_object(declaration, uri, kind, operator, services_for(declaration), dry_run=dry_run)
        if as_json:
            print_json(asdict(change))
        else:
            _print_change(change)

    return command


def replay(
    table: TableName,
    batch: OneBatch = None,
    reason: Reason = "the declaration was mended",
    source: SourceName = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Read again the objects whose rejects stand, after the declaration was mended, and load.

    First a bookmark change has them read again, then an ordinary load does it: if it dies between the two, the next
    load goes on. Of several sources those that know the batch, or all.
    """
    declaration = declared(table)
    with progress_bar(quiet=as_json) as show:
        services = services_for(declaration, progress=show)
        parts = knowing_batch(sources_of(declaration, source), batch, services)
        operator = this_operator(reason)
        made = [
            (one.context, replay_rejects(one, operator, services, batch_id=batch, dry_run=dry_run)) for one in parts
        ]
    if as_json:
        print_json(of_sources(table, [(context, _replay_json(done)) for context, done in made]))
    receipts = [done.receipt for _, done in made if done.receipt is not None]
    for _, done in () if as_json else made:
        # the load that the change asks for has been run
        _print_change(done.change if done.receipt is None else replace(done.change, next=""))
        if done.receipt is not None:
            print_receipt(done.receipt)
    for receipt in receipts:
        print_ending(receipt)
    raise typer.Exit(worst_exit_code([receipt.exit_code for receipt in receipts]))


def _replay_json(done: Replay) -> dict[str, object]:
    if done.receipt is None:
        return asdict(done.change)
    return {**receipt_json(done.receipt), "replay": asdict(done.change)}


def _declared_for(uri: str, table: str | None, source: str | None) -> Declaration:
    """The declaration with the one source that holds the object, or with the named one of several."""
    if table is not None:
        parts = sources_of(declared(table), source)
        holding = [one for one in parts if uri.startswith(one.source.uri)]
        asking = [one for one in holding if one.source.locate(uri.removeprefix(one.source.uri))[1]]
        found = tuple(asking or holding)
        if not found:
            uris = ", ".join(one.source.uri for one in parts)
            raise UsageError(f"the source of {table} does not hold uri={uri}: source={uris}")
    else:
        found = declarations_reading(assets_folder(os.environ), uri, os.environ)
        if source is not None:
            found = tuple(one for one in found if one.context == source) or found
    if len({one.table for one in found}) > 1:
        tables = ", ".join(dict.fromkeys(one.table for one in found))
        raise UsageError(
            f"several tables read uri={uri}: {tables}; say which with --table",
            next=f"the same command with --table {found[0].table}",
        )
    if len(found) > 1:
        raise UsageError(
            f"several sources of {found[0].table} read uri={uri}: {', '.join(one.context for one in found)}",
            next=f"the same command with --source {found[0].context}",
        )
    return found[0]


def _print_change(change: ObjectChange) -> None:
    print_pairs(
        {
            "table": change.table,
            "state": state_text(change.state, change.dry_run),
            "change": f"{change.change} by {change.author}: {change.reason}",
            "bookmark": f"{change.context} version {change.bookmark_version}",
            "snapshot": change.snapshot_id,
            "ledger": change.ledger,
        }
    )
    if change.objects:
        columns = ["object", "date", "was", "because", "is now", "because"]
        rows = [
            (o.uri, o.landing_date, o.before.value, o.before_reason, o.after.value, o.after_reason)
            for o in change.objects
        ]
        print_table("", columns, rows)
    print_hints(change.warnings, change.next)
