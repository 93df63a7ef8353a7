"""`lakehouse validate`."""

from __future__ import annotations

import os

import typer

from lakehouse.cli.options import AsJson
from lakehouse.cli.output import error_console, print_json, print_table, say
from lakehouse.declaration import Declaration, validate_all
from lakehouse.delete_mark import check_delete_condition
from lakehouse.errors import DeclarationError
from lakehouse.readable import readable
from lakehouse.settings import assets_folder
from lakehouse.transform import check_sql


def add_to(app: typer.Typer) -> None:
    app.command("validate", epilog="Example: LAKEHOUSE_ASSETS=assets/defs lakehouse validate")(validate)


def validate(as_json: AsJson = False) -> None:
    """Check every declaration; a mistake is told with file, line, column, field and what would be right."""
    root = assets_folder(os.environ)
    parsed, mistakes = validate_all(root, os.environ)
    of_sql = {d.table: _mistakes_of_sql(d) for d in parsed}
    good = [d for d in parsed if not of_sql[d.table]]
    mistakes = (*mistakes, *(line for lines in of_sql.values() for line in lines))
    if as_json:
        print_json({"folder": str(root), "tables": [d.table for d in good], "mistakes": list(mistakes)})
    else:
        if good:
            rows = [(d.table, tuple(s.uri for s in d.sources), ", ".join(d.key), d.hash) for d in good]
            print_table("", ["table", "source", "key", "declaration"], rows)
        for line in mistakes:
            error_console().print(readable(line), markup=False)
        if not mistakes:
            say(f"{len(good)} declaration{'' if len(good) == 1 else 's'}, no mistake")
    raise typer.Exit(2 if mistakes else 0)


def _mistakes_of_sql(declaration: Declaration) -> list[str]:
    """What is wrong with `sql` and `delete_when`."""
    lines: list[str] = []
    for check in (check_sql, check_delete_condition):
        try:
            check(declaration.by_source[0])
        except DeclarationError as error:
            lines += error.message.splitlines()
    return lines
