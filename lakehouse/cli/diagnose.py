"""`lakehouse diagnose`: which state holds, the evidence, and the next command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer

from lakehouse.audit.diagnose import diagnose_batch, diagnose_source, near_batches
from lakehouse.audit.diagnosis import Diagnosis, worst_first
from lakehouse.cli.options import AsJson, declared, not_empty, services_for
from lakehouse.cli.output import print_json, print_pairs, print_table, say
from lakehouse.declaration import Declaration, load_declarations
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.receipt_total import worst_exit_code
from lakehouse.services import Services
from lakehouse.settings import assets_folder

TableOrBatch = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE|BATCH]",
        help="namespace.table, or the id of a batch; default: every table",
        callback=not_empty,
    ),
]
AT_ONCE = 8
"""So many sources are looked at at the same time."""

_SHOWN = {"table": "table", "source": "context", "state": "state", "why": "why"}

_Found = TypeVar("_Found")


def add_to(app: typer.Typer) -> None:
    app.command("diagnose", epilog="Example: lakehouse diagnose analytics.orders")(diagnose)


def diagnose(what: TableOrBatch = None, as_json: AsJson = False) -> None:
    """What became of the last load, or of one batch: the state, the evidence, and the next command.

    Exits with 0 if nothing is wrong, 1 if somebody must act, 3 if a load runs or should be run again, 4 if the
    outcome of a commit is unknown; 2 for what cannot be looked at.
    """
    if what is None:
        lines = _lines(_look(_all_sources(), diagnose_source))
        _print_lines(lines, as_json)
    elif "." in what:
        lines = _of_table(what)
        _print_whole(lines, as_json)
    else:
        lines = [asdict(_of_batch(what))]
        _print_whole(lines, as_json)
    raise typer.Exit(worst_exit_code([line["exit_code"] for line in lines]))


def _of_table(table: str) -> list[dict[str, Any]]:
    """Raises what an only source raises; of several, one that cannot be looked at hides no other."""
    found = _look(declared(table).by_source, diagnose_source)
    if len(found) == 1 and isinstance(found[0][1], LakehouseError):
        raise found[0][1]
    return _lines(found)


def _of_batch(batch_id: str) -> Diagnosis:
    """Raises UsageError if no source knows it; what is near, and what could not be looked at, are named."""
    found = _look(_all_sources(), lambda one, services: diagnose_batch(one, batch_id, services))
    for _, one in found:
        if isinstance(one, Diagnosis):
            return one
    unseen = [f"{source.table}: {one.message}" for source, one in found if isinstance(one, LakehouseError)]
    near = [
        f"{name} of {source.table}"
        for source, names in _look(_all_sources(), lambda one, services: near_batches(one, batch_id, services))
        if isinstance(names, list)
        for name in names
    ]
    text = f"no table knows the batch: batch={batch_id}"
    if near:
        text += f"; did you mean {' or '.join(near[:3])}?"
    if unseen:
        text += f"; could not be looked at: {'; '.join(unseen)}"
    raise UsageError(text, next="lakehouse diagnose")


def _all_sources() -> list[Declaration]:
    declarations = load_declarations(assets_folder(os.environ), os.environ)
    return [one for declaration in declarations for one in declaration.by_source]


def _look(
    sources: Sequence[Declaration], look: Callable[[Declaration, Services], _Found]
) -> list[tuple[Declaration, _Found | LakehouseError]]:
    """What each source shows; one that cannot be looked at shows its error and hides no other."""

    def one(source: Declaration) -> tuple[Declaration, _Found | LakehouseError]:
        try:
            return source, look(source, services_for(source))
        except LakehouseError as error:
            return source, error

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="diagnose") as pool:
        return list(pool.map(one, sources))


def _lines(found: Sequence[tuple[Declaration, Diagnosis | LakehouseError]]) -> list[dict[str, Any]]:
    """One for each source, those that could not be looked at first, then the worst."""
    unseen: list[dict[str, Any]] = [
        {
            "table": source.table,
            "context": source.context,
            "state": "error",
            "why": one.message,
            "next": one.next,
            "look": (),
            "evidence": {},
            "exit_code": one.exit_code,
        }
        for source, one in found
        if isinstance(one, LakehouseError)
    ]
    return unseen + [asdict(one) for one in worst_first([one for _, one in found if isinstance(one, Diagnosis)])]


def _print_lines(lines: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(lines)
    else:
        columns = ("table", "context", "state", "why", "next")
        print_table("", ["table", "source", *columns[2:]], [tuple(str(line[c]) for c in columns) for line in lines])


def _print_whole(lines: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(lines if len(lines) > 1 else lines[0])
        return
    for line in lines:
        print_pairs({name: line[key] for name, key in _SHOWN.items()})
        print_pairs({f"  {name}": text for name, text in line["evidence"].items()})
        for command in line["look"]:
            say(f"look:  {command}")
        if line["next"]:
            say(f"next:  {line['next']}")
