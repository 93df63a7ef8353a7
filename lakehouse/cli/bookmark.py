"""`lakehouse bookmark`: how a bookmark stands, how it got there, and what two versions of it know differently."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from lakehouse.audit.bookmark_history import Change, Difference, Standing, changes, differences, standing_at
from lakehouse.cli import bookmark_change
from lakehouse.cli.operate import Why, given_reason, print_hints, state_text, this_operator
from lakehouse.cli.options import (
    AsJson,
    DryRun,
    EverySource,
    SourceName,
    TableName,
    declared,
    not_empty,
    services_for,
    sources_of,
    sources_to_change,
)
from lakehouse.cli.output import of_sources, print_json, print_pairs, print_table, say
from lakehouse.errors import UsageError
from lakehouse.operate.bookmark_rename import rename_bookmark

SHOWN_DATES = 31
"""Landing dates that a terminal shows; `--json` has all of them."""

Moment = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As it stood then: ISO date or time, UTC unless it says otherwise."),
]
Most = Annotated[int, typer.Option("--most", min=1, metavar="N", help="No more than the N newest versions.")]
OneVersion = Annotated[
    str, typer.Argument(help="A bookmark version or a batch id; 0 is before the first batch.", callback=not_empty)
]


def add_to(app: typer.Typer) -> None:
    bookmark = typer.Typer(help="Bookmarks: show, compare, move and rename them.", no_args_is_help=True)
    bookmark.command("show", epilog="Example: lakehouse bookmark show analytics.orders --at 2026-09-01")(show)
    bookmark.command("history", epilog="Example: lakehouse bookmark history analytics.orders")(history)
    bookmark.command("diff", epilog="Example: lakehouse bookmark diff analytics.orders 3 5")(diff)
    bookmark_change.add_to(bookmark)
    bookmark.command(
        "rename",
        epilog="Example: lakehouse bookmark rename analytics.orders orders orders_v2 --reason 'new source name'",
    )(rename)
    app.add_typer(bookmark, name="bookmark")


def show(
    table: TableName,
    at: Moment = None,
    source: SourceName = None,
    every: EverySource = False,
    as_json: AsJson = False,
) -> None:
    """How the bookmarks of a table stand: version, last change, what they have seen of each landing date."""
    declaration = declared(table)
    services = services_for(declaration)
    moment = None if at is None else _moment(at)
    found = [standing_at(one, services, at=moment) for one in sources_of(declaration, source, every=every)]
    if as_json:
        print_json(of_sources(table, [(one.context, asdict(one)) for one in found]))
        return
    for one in found:
        _print_standing(one)


def history(
    table: TableName,
    most: Most = 100,
    source: SourceName = None,
    every: EverySource = False,
    as_json: AsJson = False,
) -> None:
    """Every version of a bookmark, newest first: batches, and what operators did and why."""
    declaration = declared(table)
    services = services_for(declaration)
    parts = sources_of(declaration, source, every=every)
    found = [(one.context, [*islice(changes(one, services), most)]) for one in parts]
    if as_json:
        print_json(of_sources(table, [(context, [asdict(change) for change in made]) for context, made in found]))
        return
    columns = ["version", "written", "what", "batch", "consumed", "quarantined", "inserted", "updated", "deleted", "by"]
    for context, made in found:
        print_table(context if len(found) > 1 else "", columns, [_change_row(change) for change in made])


def rename(
    table: TableName,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The bookmark as it is called now.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What it is to be called; declare it as bookmark: NEW.")],
    reason: Why,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a bookmark another name: it goes on where it stands, and nothing is read again."""
    declaration = declared(table)
    operator = this_operator(given_reason(reason))
    done = rename_bookmark(declaration, old, new, operator, services_for(declaration), dry_run=dry_run)
    if as_json:
        print_json(asdict(done))
        return
    print_pairs(
        {
            "table": done.table,
            "state": state_text(done.state, done.dry_run),
            "bookmark": f"{done.old} is now {done.context}, version {done.bookmark_version}",
            "objects": f"{done.objects:,} seen, which are not read again",
            "snapshot": done.snapshot_id,
            "ledger": done.ledger,
        }
    )
    print_hints(done.warnings, done.next)


def diff(
    table: TableName, before: OneVersion, after: OneVersion, source: SourceName = None, as_json: AsJson = False
) -> None:
    """Objects that the bookmark knows differently after one version than after another."""
    (declaration,) = sources_to_change(declared(table), source, every=False)
    found = differences(declaration, services_for(declaration), before, after)
    if as_json:
        print_json([asdict(difference) for difference in found])
        return
    columns = ["what", "landing date", "uri", "before", "after"]
    print_table("", columns, [_difference_row(difference) for difference in found])
    say(f"{len(found):,} objects differ")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--at: not a time: {text!r}; write 2026-09-01 or 2026-09-01T06:30:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _print_standing(found: Standing) -> None:
    change = found.change
    print_pairs(
        {
            "table": found.table,
            "context": found.context,
            "bookmark": f"version {found.bookmark_version}",
            "last change": f"{change.kind} {change.batch_id}" if change else "none yet",
            "written": change.written_at if change else None,
            "by": _by(change) if change else None,
            "manifest": change.manifest if change else None,
            "sha256": found.manifest_sha256 or None,
            "objects": f"{found.consumed:,} consumed, {found.quarantined:,} quarantined",
        }
    )
    if found.dates:
        rows = [(d.landing_date or "undated", d.consumed, d.quarantined, d.newest) for d in found.dates[:SHOWN_DATES]]
        print_table("", ["landing date", "consumed", "quarantined", "newest object"], rows)
    if len(found.dates) > SHOWN_DATES:
        say(f"and {len(found.dates) - SHOWN_DATES:,} older landing dates: --json shows all of them")


def _change_row(change: Change) -> tuple[object, ...]:
    what = change.kind if change.kind != "load" else f"load, {change.mode}"
    return (
        change.bookmark_version, change.written_at, what, change.batch_id, change.consumed, change.quarantined,
        change.rows_inserted, change.rows_updated, change.rows_deleted, _by(change),
    )  # fmt: skip


def _by(change: Change) -> str | None:
    return ": ".join(filter(None, (change.author, change.reason))) or None


def _difference_row(one: Difference) -> tuple[object, ...]:
    before, after = (
        f"version {version}, etag {etag}" if version is not None else None
        for version, etag in ((one.before_version, one.before_etag), (one.after_version, one.after_etag))
    )
    return one.how, one.landing_date, one.uri, before, after
