"""Structured lines about loads, on standard error: one for each step, and one for each batch with what it did.

Every line names table, source, run, batch and step. Never a value of the data, and never the text of an error, which
may quote one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from lakehouse.errors import ConfigurationError
from lakehouse.readable import readable
from lakehouse.redaction import redacted

StepLog = Callable[[str, Mapping[str, object]], None]
"""Takes the name of an event and what there is to say of it."""

LOG_VARIABLE = "LAKEHOUSE_LOG"


def silent(event: str, values: Mapping[str, object]) -> None:
    """Says nothing."""


def open_log(env: Mapping[str, str], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> StepLog:
    """JSON where nobody looks, readable on a terminal; LAKEHOUSE_LOG=json, text or off decides otherwise.

    Raises ConfigurationError for another word.
    """
    style = env.get(LOG_VARIABLE) or ("text" if sys.stderr.isatty() else "json")
    if style not in ("json", "text", "off"):
        raise ConfigurationError(
            f"{LOG_VARIABLE}: unknown word {style!r}", next=f"export {LOG_VARIABLE}=json, text or off"
        )
    if style == "off":
        return silent
    render = structlog.processors.JSONRenderer() if style == "json" else structlog.dev.ConsoleRenderer(colors=False)

    def write(event: str, values: Mapping[str, object]) -> None:
        told = {name: redacted(value) if isinstance(value, str) else value for name, value in values.items()}
        line = {"timestamp": now().isoformat(timespec="milliseconds"), "level": "info", "event": event, **told}
        text = str(render(None, "info", line))
        with suppress(OSError, ValueError):  # a load does not fail because nobody listens any more
            # looked up now: a progress bar has its own
            sys.stderr.write((text if style == "json" else readable(text)) + "\n")

    return write
