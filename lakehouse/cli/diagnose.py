"""`lakehouse diagnose`: which state holds, the evidence, and the next command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from lakehouse.cli.options import AsJson, declared, services_for
from lakehouse.cli.output import console, print_json, print_pairs, print_table
from lakehouse.declaration import Declaration, load_declarations
from lakehouse.diagnose import diagnose_batch, diagnose_source, near_batches
from lakehouse.diagnosis import Diagnosis, worst_first
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.receipt_total import worst_exit_code
from lakehouse.services import Services
from lakehouse.settings import assets_folder

TableOrBatch = Annotated[
    str | None,
    typer.Argument(metavar="[TABLE|BATCH]", help="namespace.table, or the id of a batch; default: every table"),
]
AT_ONCE = 8
"""So many sources are looked at at the same time."""

_Found = TypeVar("_Found")


def add_to(app: typer.Typer) -> None:
    app.command("diagnose", epilog="Example: lakehouse diagnose analytics.orders")(diagnose)


def diagnose(what: TableOrBatch = None, as_json: AsJson = False) -> None:
    """What became of the last load, or of one batch: the state, the evidence, and the next command.

    Exits with 0 if nothing is wrong, 1 if somebody must act, 3 if a load runs or should be run again, 4 if the
    outcome of a commit is unknown; 2 for what cannot be looked at.
    """
    if what is None:
        found = _look(_all_sources(), diagnose_source)
        _print_all(found, as_json)
    else:
        several = [_of_batch(what)] if "." not in what else _of_table(what)
        _print_some(several, as_json)


def _of_table(table: str) -> list[Diagnosis]:
    declaration = declared(table)
    return worst_first([diagnose_source(one, services_for(one)) for one in declaration.by_source])


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


def _print_all(found: Sequence[tuple[Declaration, Diagnosis | LakehouseError]], as_json: bool) -> None:
    """One line for each source, those that could not be looked at first, then the worst."""
    unseen = [(source, one) for source, one in found if isinstance(one, LakehouseError)]
    seen = worst_first([one for _, one in found if isinstance(one, Diagnosis)])
    lines: list[dict[str, Any]] = [
        {
            "table": source.table,
            "context": source.context,
            "state": "error",
            "why": error.message,
            "next": error.next,
            "exit_code": error.exit_code,
        }
        for source, error in unseen
    ]
    lines += [asdict(one) for one in seen]
    if as_json:
        print_json(lines)
    else:
        columns = ["table", "source", "state", "why", "next"]
        print_table("", columns, [(i["table"], i["context"], str(i["state"]), i["why"], i["next"]) for i in lines])
    raise typer.Exit(worst_exit_code([line["exit_code"] for line in lines]))


def _print_some(found: Sequence[Diagnosis], as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in found] if len(found) > 1 else asdict(found[0]))
    else:
        for one in found:
            print_pairs({"table": one.table, "source": one.context, "state": one.state, "why": one.why})
            print_pairs({f"  {name}": text for name, text in one.evidence.items()})
            for command in one.look:
                console().print(Text(f"look:  {command}"))
            if one.next:
                console().print(Text(f"next:  {one.next}"))
    raise typer.Exit(worst_exit_code([one.exit_code for one in found]))
