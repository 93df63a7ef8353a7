"""What one look of `lakehouse doctor` found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Loads work; something beside them does not."""
    MISSING = "missing"
    SKIPPED = "skipped"
    """Could not be looked at, because of what an earlier check of the same place found."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line. `grant` is what to allow whom, as IAM or the catalog words it; `next` is the command that helps.

    `exit_code` is 0 unless something is missing: 2 for what must be changed, 3 for a service that does not answer.
    """

    name: str
    subject: str
    standing: Standing
    detail: str = ""
    grant: str = ""
    next: str = ""
    exit_code: int = 0


def ok(name: str, subject: str, detail: str = "") -> Check:
    return Check(name, subject, Standing.OK, detail)


def warning(name: str, subject: str, detail: str, *, grant: str = "", next: str = "") -> Check:
    return Check(name, subject, Standing.WARNING, detail, grant, next)


def missing(name: str, subject: str, detail: str, *, grant: str = "", next: str = "", exit_code: int = 2) -> Check:
    return Check(name, subject, Standing.MISSING, detail, grant, next, exit_code)


def skipped(name: str, subject: str, because: str) -> Check:
    return Check(name, subject, Standing.SKIPPED, because)
