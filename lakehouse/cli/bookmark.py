"""`lakehouse bookmark`: how a bookmark stands, how it got there, and what two versions of it know differently."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from lakehouse.bookmark_history import Change, Difference, Standing, changes, differences, standing_at
from lakehouse.cli.options import AsJson, TableName, declared, services_for
from lakehouse.cli.output import console, print_json, print_pairs, print_table
from lakehouse.cli.pending import add_refusal
from lakehouse.errors import UsageError

SHOWN_DATES = 31
"""Landing dates that a terminal shows; `--json` has all of them."""

Moment = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As it stood then: ISO date or time, UTC unless it says otherwise."),
]
Most = Annotated[int, typer.Option("--most", min=1, metavar="N", help="No more than the N newest versions.")]
OneVersion = Annotated[str, typer.Argument(help="A bookmark version or a batch id; 0 is before the first batch.")]


def add_to(app: typer.Typer) -> None:
    bookmark = typer.Typer(help="Bookmarks: show them and compare them.", no_args_is_help=True)
    bookmark.command("show", epilog="Example: lakehouse bookmark show analytics.orders --at 2026-09-01")(show)
    bookmark.command("history", epilog="Example: lakehouse bookmark history analytics.orders")(history)
    bookmark.command("diff", epilog="Example: lakehouse bookmark diff analytics.orders 3 5")(diff)
    for name in ("reset", "rewind", "set", "rename", "import-glue"):
        add_refusal(bookmark, "bookmark", name)
    app.add_typer(bookmark, name="bookmark")


def show(table: TableName, at: Moment = None, as_json: AsJson = False) -> None:
    """How the bookmark of a table stands: version, last change, what it has seen of each landing date."""
    declaration = declared(table)
    found = standing_at(declaration, services_for(declaration), at=None if at is None else _moment(at))
    if as_json:
        print_json(asdict(found))
    else:
        _print_standing(found)


def history(table: TableName, most: Most = 100, as_json: AsJson = False) -> None:
    """Every version of the bookmark, newest first: batches, and what operators did and why."""
    declaration = declared(table)
    found = [*islice(changes(declaration, services_for(declaration)), most)]
    if as_json:
        print_json([asdict(change) for change in found])
        return
    columns = ["version", "written", "what", "batch", "consumed", "quarantined", "inserted", "updated", "deleted", "by"]
    print_table("", columns, [_change_row(change) for change in found])


def diff(table: TableName, before: OneVersion, after: OneVersion, as_json: AsJson = False) -> None:
    """Objects that the bookmark knows differently after one version than after another."""
    declaration = declared(table)
    found = differences(declaration, services_for(declaration), before, after)
    if as_json:
        print_json([asdict(difference) for difference in found])
        return
    columns = ["what", "landing date", "uri", "before", "after"]
    print_table("", columns, [_difference_row(difference) for difference in found])
    console().print(f"{len(found):,} objects differ")


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
        console().print(f"and {len(found.dates) - SHOWN_DATES:,} older landing dates: --json shows all of them")


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
