"""Puts the commands together and turns errors into exit codes; a traceback is shown with `--debug` alone."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from lakehouse.cli import (
    arrivals,
    audit,
    bookmark,
    check,
    declarations,
    demo,
    dev,
    diagnose,
    doctor,
    gate,
    load,
    maintain,
    metrics,
    objects,
    operate,
    pending,
    reconcile,
    stack,
)
from lakehouse.cli.output import print_error, print_failure, writing
from lakehouse.errors import ConfigurationError, LakehouseError, UsageError
from lakehouse.redaction import redacted, remember, secrets_in
from lakehouse.stopping import noticing_stops, stop_code, stopped

INTERRUPTED = 130
"""What typer makes of a KeyboardInterrupt."""

app = typer.Typer(
    name="lakehouse",
    help="Files on S3 into Apache Iceberg: every business key once, newest version, with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
load.add_to(app)
declarations.add_to(app)
audit.add_to(app)
bookmark.add_to(app)
arrivals.add_to(app)
reconcile.add_to(app)
check.add_to(app)
operate.add_to(app)
maintain.add_to(app)
objects.add_to(app)
gate.add_to(app)
demo.add_to(app)
dev.add_to(app)
diagnose.add_to(app)
doctor.add_to(app)
metrics.add_to(app)
app.add_typer(stack.app, name="stack")
pending.add_to(app)


def run() -> None:
    """The entry point of the process: `main`, then leave at once.

    Native threads of DuckDB, Arrow and obstore do not all like the interpreter's teardown; one that aborts would show
    a scheduler a load that has committed as one that was killed.
    """
    code: object = 0
    _obey_sigterm()
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    status = code if isinstance(code, int) else 0 if code is None else 1
    with suppress(ValueError):  # closed
        status = _flushed(status)
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def _obey_sigterm() -> None:
    """End as after Ctrl-C when a scheduler ends the process: a load leaves its receipt, and its lease is free."""

    def stop(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break off what the first one has begun
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def _flushed(status: int) -> int:
    """The exit code once standard output has gone out. What a command says of the data weighs more than that nobody
    can read it."""
    try:
        with writing():
            sys.stdout.flush()
    except BrokenPipeError:
        return status
    except ConfigurationError as error:
        if status:
            return status
        with suppress(OSError):
            print_failure(error.message, error.next)
        return error.exit_code
    return status


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code (INTERFACE: 0 done, 1 data, 2 usage, 3 later, 4 unknown, 70 bug)."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    given = [a for a in given if a != "--debug"]
    remember(secrets_in(os.environ))
    with noticing_stops():
        _run(given, debug=debug)


def _run(given: list[str], *, debug: bool) -> NoReturn:
    try:
        _refuse_other_bytes(given)
        code = app(given, prog_name="lakehouse", standalone_mode=False)
        if code == INTERRUPTED:
            code = stop_code()
        sys.exit(code if isinstance(code, int) else 0)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort as stop:
        if not isinstance(stop.__cause__, EOFError):  # typer takes any for the end of a person's input
            sys.exit(stop_code())
        _report_bug(given, stop.__cause__, debug=debug)
    except TyperException as error:
        context = getattr(error, "ctx", None)  # of the command whose argument is wrong
        command = context.command_path if context is not None else "lakehouse"
        # what the enumeration's own check says, behind pydantic's words for it
        message = error.format_message().replace(": Value error, ", ": ")
        print_error(given, message, next_step=f"{command} --help", exit_code=2)
        sys.exit(2)
    except LakehouseError as error:
        if debug:
            sys.stderr.write(_traceback())
        print_error(given, error.message, next_step=error.next, exit_code=error.exit_code, in_lines=error.in_lines)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the last net: nothing goes out as it came, nor does a panic of Rust
        if stopped():
            sys.exit(stop_code())
        _report_bug(given, error, debug=debug)


def _report_bug(given: Sequence[str], error: BaseException, *, debug: bool) -> NoReturn:
    if debug:
        sys.stderr.write(_traceback())
    named = " ".join([type(error).__name__, *getattr(error, "__notes__", ())])
    print_error(given, f"a bug of lakehouse: {named}: details in {_details()}", exit_code=70)
    raise SystemExit(70) from None


def _refuse_other_bytes(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument that is no text: what is stored of it could not be read again."""
    for number, argument in enumerate(arguments, start=1):
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(f"argument {number} is not UTF-8: {argument!a}", next="lakehouse --help")


def _traceback() -> str:
    """Of the error that is being handled."""
    return redacted(traceback.format_exc())


def _details() -> Path:
    name = f"lakehouse-bug-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.log"
    path = Path(tempfile.gettempdir()) / name
    path.touch(mode=0o600, exist_ok=True)
    path.write_text(_traceback())
    return path
