"""`lakehouse stack up|down|env`: the local stack from a shell."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson
from lakehouse.cli.output import print_json, print_pairs
from lakehouse.errors import ConfigurationError
from lakehouse.stack import (
    DEFAULT_PORTS,
    Stack,
    conflicting_variables,
    free_ports,
    running_stack,
    stack_environment,
    start_stack,
    stop_stack,
)

DEFAULT_DIRECTORY = Path(".lakehouse/stack")

Directory = Annotated[Path, typer.Option("--dir", metavar="D", help="Where the stack keeps its data and its state.")]

app = typer.Typer(help="A real S3 and a real Iceberg REST catalog on this machine.", no_args_is_help=True)


@app.command("up", epilog='Example: lakehouse stack up && eval "$(lakehouse stack env)"')
def up(
    directory: Directory = DEFAULT_DIRECTORY,
    any_ports: Annotated[
        bool, typer.Option("--free-ports", help="Take ports that nobody uses, where the usual ones are taken.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the stack and wait until it answers; one that runs already is left as it is."""
    before = running_stack(directory)
    stack = start_stack(directory, free_ports() if any_ports else DEFAULT_PORTS)
    state = "already_running" if before == stack else "started"
    if as_json:
        print_json(_description(stack, state))
        return
    print_pairs({"stack": state.replace("_", " "), "S3": stack.s3_endpoint, "catalog": stack.catalog_uri})
    print_pairs({"next": f'eval "$(lakehouse stack env{_option(directory)})"'})


@app.command("down", epilog="Example: lakehouse stack down")
def down(directory: Directory = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Stop the stack; its data stays for the next `up`."""
    state = "stopped" if stop_stack(directory) else "not_running"
    if as_json:
        print_json({"state": state, "directory": str(directory.absolute())})
    else:
        print_pairs({"stack": state.replace("_", " ")})


@app.command("env", epilog='Example: eval "$(lakehouse stack env)"')
def env(directory: Directory = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Print the shell lines that point S3 clients, PyIceberg and lakehouse at the stack."""
    stack = running_stack(directory)
    if stack is None:
        raise ConfigurationError(
            f"no local stack runs: directory={directory.absolute()}", next=f"lakehouse stack up{_option(directory)}"
        )
    variables = stack_environment(stack, os.environ)
    if as_json:
        print_json(variables)
        return
    # Written as they are: wrapping or colours would break the shell that reads them.
    for name in conflicting_variables(stack, os.environ):
        sys.stdout.write(f"unset {name}\n")
    for name, value in variables.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


def _description(stack: Stack, state: str) -> dict[str, object]:
    return {
        "state": state,
        "directory": str(stack.directory),
        "pid": stack.pid,
        "s3_endpoint": stack.s3_endpoint,
        "catalog_uri": stack.catalog_uri,
        "ports": stack.ports.as_dict(),
        "log": str(stack.log),
    }


def _option(directory: Path) -> str:
    return "" if directory == DEFAULT_DIRECTORY else f" --dir {shlex.quote(str(directory))}"
