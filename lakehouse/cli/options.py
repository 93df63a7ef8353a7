"""Arguments and options that several commands share, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date
from typing import Annotated, TypeVar

import typer

from lakehouse.declaration import Declaration, find_declaration
from lakehouse.declaration.problem import nearest
from lakehouse.errors import LakehouseError, NotAvailable, UsageError
from lakehouse.model import GLUE_MODES, Mode, Window
from lakehouse.services import Progress, Services, open_services
from lakehouse.settings import assets_folder
from lakehouse.step_log import StepLog, silent


def not_empty(given: str | None) -> str | None:
    """Raises UsageError for a name without a letter: a script's variable is not set, and everything is not meant."""
    if given is not None and not given.strip():
        raise UsageError("the name of a table or batch is empty", next="lakehouse status")
    return given


TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table, as declared", callback=not_empty)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
OneBatch = Annotated[
    str | None, typer.Option("--batch", metavar="BATCH", help="One batch, by its id.", callback=not_empty)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and tell; change nothing.")]
Partition = Annotated[str | None, typer.Option("--partition", metavar="DATE", help="One landing date, YYYY-MM-DD.")]
First = Annotated[str | None, typer.Option("--from", metavar="DATE", help="First landing date, inclusive.")]
Last = Annotated[str | None, typer.Option("--to", metavar="DATE", help="Last landing date, inclusive.")]
ModeName = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="MODE",
        help="incremental | full | no-advance, or Glue's job-bookmark-enable | -disable | -pause.",
    ),
]
AcceptMissing = Annotated[
    bool,
    typer.Option(
        "--accept-missing",
        help="Replace dates although consumed objects of theirs are not listed any more: their rows are removed.",
    ),
]


Found = TypeVar("Found")

SourceName = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="One source of the table, by its bookmark.")
]
EverySource = Annotated[bool, typer.Option("--all", help="Every source of the table.")]
AcceptNew = Annotated[
    bool,
    typer.Option(
        "--accept-new", help="Read a source from the beginning although its bookmark is new or was elsewhere."
    ),
]


def narrowed(declaration: Declaration, source: str | None) -> Declaration:
    """The declaration with that source alone; as it is without a name. Raises UsageError for an unknown one."""
    if source is None:
        return declaration
    for one in declaration.by_source:
        if one.context == source:
            return one
    raise UsageError(
        f"--source: table {declaration.table} has no source with bookmark {source}; "
        f"{nearest(source, declaration.contexts)}"
    )


def sources_of(declaration: Declaration, source: str | None, *, every: bool = False) -> tuple[Declaration, ...]:
    """One declaration for each source that is looked at: the named one, or all. Raises as `narrowed` does."""
    if source is not None and every:
        raise UsageError("--source and --all exclude each other")
    return narrowed(declaration, source).by_source


def look_at(
    declarations: Sequence[Declaration], look: Callable[[Declaration], Found]
) -> list[tuple[str, Found | LakehouseError]]:
    """What each source shows, by context; of several one that cannot be looked at shows its error. Raises that of an
    only source."""
    if len(declarations) == 1:
        return [(one.context, look(one)) for one in declarations]
    found: list[tuple[str, Found | LakehouseError]] = []
    for one in declarations:
        try:
            found.append((one.context, look(one)))
        except LakehouseError as error:
            found.append((one.context, error))
    return found


def sources_to_change(declaration: Declaration, source: str | None, *, every: bool) -> tuple[Declaration, ...]:
    """As `sources_of`, for a change: of several sources one must be named, or all be meant."""
    if source is None and not every and len(declaration.sources) > 1:
        raise UsageError(
            f"table {declaration.table} has several sources: {', '.join(declaration.contexts)}; say which",
            next=f"the same command with --source {declaration.contexts[0]}, or with --all",
        )
    return sources_of(declaration, source, every=every)


def declared(table: str) -> Declaration:
    """The declaration of a table, found as LAKEHOUSE_ASSETS says."""
    return find_declaration(assets_folder(os.environ), table, os.environ)


def services_for(
    declaration: Declaration, *, progress: Callable[[Progress], None] | None = None, log: StepLog = silent
) -> Services:
    return open_services(os.environ, catalog=declaration.catalog, progress=progress, log=log)


def parse_window(partition: str | None, first: str | None, last: str | None) -> Window:
    if partition is not None and (first is not None or last is not None):
        raise UsageError("--partition stands alone, without --from and --to")
    if partition is not None:
        day = parse_date("--partition", partition)
        return Window(day, day)
    window = Window(
        parse_date("--from", first) if first is not None else None,
        parse_date("--to", last) if last is not None else None,
    )
    if window.first is not None and window.last is not None and window.first > window.last:
        raise UsageError(f"--from {window.first} is after --to {window.last}")
    return window


def parse_date(option: str, text: str) -> date:
    try:
        if len(text) != 10:
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: not a date: {text!r}; write YYYY-MM-DD") from None


def parse_mode(text: str) -> Mode:
    if text in GLUE_MODES:
        return GLUE_MODES[text]
    try:
        return Mode(text)
    except ValueError:
        known = ", ".join([*Mode, *GLUE_MODES])
        raise UsageError(f"--mode: unknown mode {text!r}; one of {known}") from None


def refuse(**options: object) -> None:
    """Name the first option that was given although its feature does not exist yet."""
    for name, value in options.items():
        if value:
            raise NotAvailable(f"--{name.replace('_', '-')} is not available yet")
