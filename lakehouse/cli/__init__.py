"""The command line `lakehouse`: argument names, output, exit codes. Every decision is made below it."""

from lakehouse.cli.app import main

__all__ = ["main"]
