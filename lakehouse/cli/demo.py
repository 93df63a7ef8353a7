"""`lakehouse demo`."""

from __future__ import annotations

import typer

from lakehouse.cli.options import AsJson
from lakehouse.cli.output import console, error_console, print_json
from lakehouse.errors import ConfigurationError


def add_to(app: typer.Typer) -> None:
    app.command("demo", epilog="Example: lakehouse demo")(demo)


def demo(as_json: AsJson = False) -> None:
    """A few days of files on a real S3 and Iceberg catalog, through Dagster: late, wrong, overwritten, crashed."""
    # Imported here: every other command starts without Dagster.
    try:
        from lakehouse.demo import run_demo
    except ImportError as error:
        raise ConfigurationError(
            f"the demo needs the local stack: {error}", next="pip install 'lakehouse-bookmark[local]'"
        ) from error
    seconds = run_demo(error_console() if as_json else console())
    if as_json:
        print_json({"state": "ok", "seconds": round(seconds, 1)})
