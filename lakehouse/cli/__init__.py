"""The command line `lakehouse`: argument names, output, exit codes. Every decision is made below it."""

from lakehouse.cli.app import main, run

__all__ = ["main", "run"]
