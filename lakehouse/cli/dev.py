"""`lakehouse dev`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.dev import run_dev
from lakehouse.stack import DEFAULT_PORTS, free_ports


def add_to(app: typer.Typer) -> None:
    app.command("dev", epilog="Example: lakehouse dev --port 3001")(dev)


def dev(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="D", help="Where stack and Dagster keep what they write.")
    ] = Path(".lakehouse"),
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the Dagster UI.")] = 3000,
    any_ports: Annotated[
        bool, typer.Option("--free-ports", help="For the stack, ports that nobody uses instead of the usual ones.")
    ] = False,
) -> None:
    """The local stack and the Dagster UI with this folder's assets, until Ctrl-C; sensors and schedules are on."""
    raise typer.Exit(run_dev(directory, port, stack_ports=free_ports() if any_ports else DEFAULT_PORTS))
