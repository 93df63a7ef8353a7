"""Mistakes of a declaration as values, and the one place that turns them into lines and errors. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from lakehouse.errors import DeclarationError, NotAvailable

Loc = tuple[str | int, ...]
"""A place in the tree of a document: keys and list indexes from the top."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in one document. `later` marks a feature that is not available yet and nothing else.

    `at_key` points at the key of the place instead of its value; `position` overrides both.
    """

    loc: Loc
    message: str
    at_key: bool = False
    later: bool = False
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one file; `str()` is its line: `file:line:column: field: what is wrong; what would be right`."""

    path: Path
    position: Position
    field: str
    message: str
    later: bool = False

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.path}:{self.position.line}:{self.position.column}: {field}{self.message}"


def field_name(loc: Loc) -> str:
    """`("source", "format")` is `source.format`, `("owners", 0)` is `owners[0]`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(name: str, known: Sequence[str]) -> str:
    """`did you mean X?`, or the known names where none is near."""
    close = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def as_error(problems: Sequence[Problem]) -> DeclarationError | NotAvailable:
    """One error with a line per mistake; NotAvailable if later features are all that is asked for."""
    text = "\n".join(str(problem) for problem in problems)
    return NotAvailable(text) if all(problem.later for problem in problems) else DeclarationError(text)
