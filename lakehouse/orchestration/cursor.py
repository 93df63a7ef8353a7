"""The sensor's memory: what it has asked for and what it may ask for again. Pure.

A hint and nothing more: the plan, which comes from the table, says which dates have unseen objects. The cursor only
keeps a date from being asked for again while nothing changed, so it holds the dates that are still unseen and no
others; losing it costs requests that Dagster knows to have run already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

FORMAT = 1
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """The last request for a date. `mark` changes with its objects and the declaration, `attempt` counts retries."""

    mark: str
    bookmark_version: int
    attempt: int = 0

    def run_key(self, date: str) -> str:
        """Unique per request: Dagster starts one run per key, for ever (field case O01)."""
        return f"{date or 'undated'}:{self.mark}:{self.bookmark_version}:{self.attempt}"


class Fate(StrEnum):
    """What became of the run that was asked for."""

    UNKNOWN = "unknown"
    GOING_ON = "going on"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunFate:
    """A run's fate and when it ended; UNKNOWN if there is no such run."""

    fate: Fate
    ended_at: datetime | None = None


def next_request(asked: Asked | None, *, mark: str, bookmark_version: int, run: RunFate, now: datetime) -> Asked | None:
    """What to ask for a date with unseen objects; None to wait.

    A refused load (a gate, the declaration) is not asked for again until `mark` changes; one that failed otherwise is,
    after a wait that doubles. A run that succeeded and left objects unseen is asked for again when the bookmark has
    moved: it was reset.
    """
    first = Asked(mark, bookmark_version)
    if asked is None:
        return first
    if run.fate is Fate.GOING_ON:
        return None
    if asked.mark != mark:
        return first
    if run.fate is Fate.UNKNOWN:
        return asked
    if run.fate is Fate.SUCCEEDED:
        return first if asked.bookmark_version != bookmark_version else None
    if run.fate is Fate.REFUSED:
        return None
    wait = min(FIRST_WAIT * 2 ** min(asked.attempt, 10), LONGEST_WAIT)
    if run.ended_at is not None and now < run.ended_at + wait:
        return None
    return replace(asked, attempt=asked.attempt + 1)


def read_cursor(text: str | None) -> dict[str, Asked]:
    """The cursor by date; empty for none, and for one of another format: it is a hint."""
    body = json.loads(text) if text else {}
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        return {}
    return {date: Asked(*entry) for date, entry in body["asked"].items()}


def write_cursor(asked: Mapping[str, Asked]) -> str:
    """About 40 bytes per date that is still unseen."""
    entries = {date: [a.mark, a.bookmark_version, a.attempt] for date, a in sorted(asked.items())}
    return json.dumps({"format": FORMAT, "asked": entries}, separators=(",", ":"))
