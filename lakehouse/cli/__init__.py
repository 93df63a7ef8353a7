"""The command line `lakehouse`: argument names, output, exit codes. Every decision is made below it."""

import sys


def run() -> None:
    """The entry point of the process. Loading its libraries takes a second: Ctrl-C may come as early as that."""
    try:
        from lakehouse.cli.app import run as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()


__all__ = ["run"]
