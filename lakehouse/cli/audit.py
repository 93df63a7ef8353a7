"""`lakehouse status`, `batches`, `files`, `rejects show` and `ledger rebuild`: the audit record."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any

import typer

from lakehouse.audit.status import TableStatus, rejected_rows, status_of, unreadable_status
from lakehouse.cli import objects
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
from lakehouse.cli.output import of_sources, print_json, print_pairs, print_table, say
from lakehouse.declaration import Declaration, load_declarations
from lakehouse.errors import LakehouseError
from lakehouse.ledger import BATCHES, FILES, compact, ledger_head, read_ledger, rebuild, standing_of
from lakehouse.position import find_position
from lakehouse.services import Services
from lakehouse.settings import assets_folder
from lakehouse.target import Target

OptionalTable = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="namespace.table; default: all", callback=not_empty)
]

_BATCH_COLUMNS = (
    "bookmark_version", "batch_id", "state", "mode", "objects", "rows_read", "rows_rejected", "rows_inserted",
    "rows_updated", "rows_unchanged", "rows_stale", "rows_superseded", "ended_at",
)  # fmt: skip
_FILE_COLUMNS = (
    "bookmark_version", "landing_date", "decision", "uri", "size", "rows_read", "rows_rejected", "rows_inserted",
    "rows_updated", "reason",
)  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.command("status", epilog="Example: lakehouse status analytics.orders")(status)
    app.command("batches", epilog="Example: lakehouse batches analytics.orders --json")(batches)
    app.command("files", epilog="Example: lakehouse files analytics.orders")(files)
    rejects = typer.Typer(help="Rows that did not fit.", no_args_is_help=True)
    rejects.command("show", epilog="Example: lakehouse rejects show analytics.orders")(show_rejects)
    objects.add_replay_to(rejects)
    app.add_typer(rejects, name="rejects")
    ledger = typer.Typer(help="The ledger tables in the namespace lakehouse_ops.", no_args_is_help=True)
    ledger.command("rebuild", epilog="Example: lakehouse ledger rebuild analytics.orders")(rebuild_ledger)
    ledger.command("compact", epilog="Example: lakehouse ledger compact analytics.orders --dry-run")(compact_ledger)
    app.add_typer(ledger, name="ledger")


def status(table: OptionalTable = None, as_json: AsJson = False) -> None:
    """Where every table stands: bookmark, last batch, rows, ledger, and what is blocked; one line for each source."""
    if table is not None:
        declarations: tuple[Declaration, ...] = (declared(table),)
    else:
        declarations = load_declarations(assets_folder(os.environ), os.environ)
    found = [status_or_error(one) for declaration in declarations for one in declaration.by_source]
    if as_json:
        print_json([s.as_dict() for s in found])
        raise typer.Exit(max((one.exit_code for one in found), default=0))
    columns = ["table", "source", "state", "bookmark", "last batch", "at", "rows", "ledger", "next"]
    print_table("", columns, [_status_row(s) for s in found])
    for one in found:
        if one.detail:
            say(f"{one.table}: {one.detail}")
        if table is not None and one.measures is not None:
            print_pairs({f"{one.context} {name.replace('_', ' ')}": v for name, v in asdict(one.measures).items()})
    raise typer.Exit(max((one.exit_code for one in found), default=0))


def status_or_error(declaration: Declaration) -> TableStatus:
    """One table that cannot be looked at must not hide the others."""
    try:
        return status_of(declaration, services_for(declaration))
    except LakehouseError as error:
        return unreadable_status(declaration, error)


def _status_row(one: TableStatus) -> tuple[object, ...]:
    return (
        one.table, one.context, one.state, one.bookmark_version, one.last_batch, one.last_batch_at, one.rows,
        one.ledger, one.next,
    )  # fmt: skip


def batches(table: TableName, source: SourceName = None, as_json: AsJson = False) -> None:
    """Every published batch of a table, from the ledger."""
    _show(table, source, BATCHES, _BATCH_COLUMNS, None, as_json)


def files(table: TableName, batch: OneBatch = None, source: SourceName = None, as_json: AsJson = False) -> None:
    """Every object that a batch consumed or quarantined or an operator decided about, from the ledger."""
    _show(table, source, FILES, _FILE_COLUMNS, batch, as_json)


def _show(
    table: str, source: str | None, name: str, columns: tuple[str, ...], batch: str | None, as_json: bool
) -> None:
    declaration = declared(table)
    services = services_for(declaration)
    targets = [(one, find_position(one, services).target) for one in sources_of(declaration, source)]
    rows: list[dict[str, Any]] = []
    for one, target in targets:
        rows += read_ledger(
            services.catalog,
            services.settings.ops_namespace,
            name,
            table_uuid=target.uuid,
            batch_id=batch,
            context=one.context,
        ).to_pylist()
    if as_json:
        print_json(rows)
    else:
        columns = ("context", *columns) if len(targets) > 1 else columns
        print_table("", columns, [tuple(r[c] for c in columns) for r in rows])
    for one, target in targets:
        _tell_if_behind(one, target, services)


def _tell_if_behind(declaration: Declaration, target: Target, services: Services) -> None:
    head = ledger_head(
        services.catalog, services.settings.ops_namespace, table_uuid=target.uuid, context=declaration.context
    )
    if head < target.bookmark_version:
        typer.echo(
            f"the ledger is behind: it ends at version {head} of {target.bookmark_version}\n"
            f"next:  lakehouse ledger rebuild {declaration.table}",
            err=True,
        )


def show_rejects(table: TableName, batch: OneBatch = None, source: SourceName = None, as_json: AsJson = False) -> None:
    """Rows that did not fit when their files were read last, by file and line; of a blocked batch too.

    With --batch those of one batch, also if its files were read again since.
    """
    declaration = declared(table)
    services = services_for(declaration)
    rows = [row for one in sources_of(declaration, source) for row in rejected_rows(one, services, batch_id=batch)]
    if as_json:
        print_json([r.as_dict() for r in rows])
        return
    columns = ["batch", "state", "file", "line", "column", "reason", "raw"]
    shown = [(r.batch_id, r.state, r.uri, str(r.line_number), r.column_name, r.reason, r.raw) for r in rows]
    print_table("", columns, shown)


def rebuild_ledger(table: TableName, source: SourceName = None, as_json: AsJson = False) -> None:
    """Write the ledger of a table again from its batch manifests; also after the namespace was dropped."""
    declaration = declared(table)
    services = services_for(declaration)
    found = []
    for one in sources_of(declaration, source):
        standing = standing_of(find_position(one, services).target)
        rebuild(standing, services)
        found.append((one.context, {"table": table, "bookmark_version": standing.version, "ledger": "ok"}))
        if not as_json:
            say(f"ledger of {table} rebuilt up to bookmark {one.context} version {standing.version}")
    if as_json:
        print_json(of_sources(table, found))


def compact_ledger(
    table: TableName, source: SourceName = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Make one file of the small ones that the loads of a table have left in each ledger table; no row changes."""
    declaration = declared(table)
    services = services_for(declaration)
    found = []
    for one in sources_of(declaration, source):
        made = compact(standing_of(find_position(one, services).target), services, dry_run=dry_run)
        found.append((one.context, {"table": table, "dry_run": dry_run, "ledgers": [asdict(part) for part in made]}))
        rows = [(part.ledger, part.files_before, part.files_after, part.rows_rewritten) for part in made]
        if not as_json:
            columns = ["ledger", "files", "would be" if dry_run else "are now", "rows in the small ones"]
            print_table(one.context if len(declaration.sources) > 1 else "", columns, rows)
    if as_json:
        print_json(of_sources(table, found))
