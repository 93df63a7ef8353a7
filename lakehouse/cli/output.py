"""How results look: JSON on standard output, tables for people, progress and errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from lakehouse.errors import LakehouseError
from lakehouse.services import Progress


def console() -> Console:
    """Standard output. Wide where nobody looks, so that logs and pipes never cut a URI."""
    return Console(width=None if sys.stdout.isatty() else 220, highlight=False, soft_wrap=not sys.stdout.isatty())


def error_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


def print_json(value: Any) -> None:
    """Exactly one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, indent=2, ensure_ascii=False) + "\n")


def of_sources(table: str, found: Sequence[tuple[str, Any]]) -> Any:
    """What was found of each source, by context, as one document: of an only source it is what was found."""
    if len(found) == 1:
        return found[0][1]
    return {"table": table, "sources": [{"context": context, "found": value} for context, value in found]}


def error_json(error: LakehouseError) -> dict[str, object]:
    return {"error": error.message, "next": error.next, "exit_code": error.exit_code}


def print_failure(error: str, next_step: str) -> None:
    """What went wrong and what helps, on standard error."""
    out = error_console()
    if error:
        out.print(Text.assemble(("error: ", "bold red"), error))
    if next_step:
        out.print(Text.assemble(("next:  ", "bold"), next_step))


def print_error(arguments: Sequence[str], message: str, *, next_step: str = "", exit_code: int) -> None:
    """An error for people on standard error; with `--json` also as a document on standard output."""
    if wants_json(arguments):
        print_json({"error": message, "next": next_step, "exit_code": exit_code})
    print_failure(message, next_step)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for name in columns:
        numeric = bool(rows) and all(isinstance(r[len(table.columns)], (int, float, Decimal)) for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(v)) for v in row))
    console().print(table)


def print_pairs(pairs: Mapping[str, object]) -> None:
    width = max((len(k) for k in pairs), default=0)
    for key, value in pairs.items():
        console().print(Text.assemble((f"{key:<{width}}  ", "bold"), _cell(value)))


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A progress line on a terminal; nothing where standard error is none, or with `--json`."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("plan", total=None, detail="")

        def show(progress: Progress) -> None:
            left = f", {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
            detail = f"{progress.done}/{progress.total} files, {progress.rows:,} rows{left}" if progress.total else ""
            bar.update(
                task,
                description=progress.step,
                completed=progress.done,
                total=progress.total or None,
                detail=detail,
            )

        yield show


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**12 else str(value)
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
