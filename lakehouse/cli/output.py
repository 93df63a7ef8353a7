"""How results look: JSON on standard output, tables for people, progress and errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from lakehouse.errors import ConfigurationError, LakehouseError
from lakehouse.readable import readable
from lakehouse.services import Progress


def console() -> Console:
    """Standard output. Wide where nobody looks, so that logs and pipes never cut a URI."""
    return Console(width=None if sys.stdout.isatty() else 220, highlight=False, soft_wrap=not sys.stdout.isatty())


def error_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def writing() -> Iterator[None]:
    """Raises ConfigurationError where standard output takes no more; that nobody reads it any more is no mistake."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigurationError(
            f"standard output: {error.strerror or error}",
            next="make room where the output goes, or send it elsewhere, and run the command again",
        ) from error


def say(*parts: str | tuple[str, str]) -> None:
    """One line on standard output; a part is a text, or a text with its style."""
    with writing():
        console().print(_line(*parts))


def _line(*parts: str | tuple[str, str]) -> Text:
    # before rich sees it, which would drop some control characters and let others through
    return Text.assemble(*(readable(p) if isinstance(p, str) else (readable(p[0]), p[1]) for p in parts))


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


def print_json(value: Any) -> None:
    """Exactly one JSON document on standard output."""
    text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False) + "\n"
    with writing():
        sys.stdout.write(text)


def of_sources(table: str, found: Sequence[tuple[str, Any]]) -> Any:
    """What was found of each source, by context, as one document: of an only source it is what was found."""
    if len(found) == 1:
        return found[0][1]
    return {"table": table, "sources": [{"context": context, "found": value} for context, value in found]}


def error_json(error: LakehouseError) -> dict[str, object]:
    return {"error": error.message, "next": error.next, "exit_code": error.exit_code}


def print_failure(error: str, next_step: str, *, in_lines: bool = False) -> None:
    """What went wrong and what helps, on standard error; `in_lines` for a message whose line ends are ours."""
    out = error_console()
    if error:
        first, *more = error.split("\n") if in_lines else [error]
        out.print(_line(("error: ", "bold red"), first))
        for line in more:
            out.print(_line(line))
    if next_step:
        out.print(_line(("next:  ", "bold"), next_step))


def print_error(
    arguments: Sequence[str], message: str, *, next_step: str = "", exit_code: int, in_lines: bool = False
) -> None:
    """An error for people on standard error; with `--json` also as a document on standard output."""
    if wants_json(arguments):
        with suppress(ConfigurationError):  # it may be what the error is about
            print_json({"error": message, "next": next_step, "exit_code": exit_code})
    print_failure(message, next_step, in_lines=in_lines)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=readable(title) or None, title_justify="left", header_style="bold")
    for name in columns:
        numeric = bool(rows) and all(isinstance(r[len(table.columns)], (int, float, Decimal)) for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_in_cell(v) for v in row))
    with writing():
        console().print(table)


def print_pairs(pairs: Mapping[str, object]) -> None:
    width = max((len(k) for k in pairs), default=0)
    for key, value in pairs.items():
        say((f"{key:<{width}}  ", "bold"), _cell(value))


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


def _in_cell(value: object) -> Text:
    """Several values stand below each other."""
    if isinstance(value, tuple):
        return Text("\n").join(_line(_cell(one)) for one in value)
    return _line(_cell(value))


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
