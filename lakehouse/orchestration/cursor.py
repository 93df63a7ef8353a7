"""The sensor's memory: what it has asked for and what it may ask for again. Pure.

A hint and nothing more: the plan, which comes from the table, says which dates have unseen objects. The cursor only
keeps a date from being asked for again while nothing changed, so it holds the dates that are still unseen and no
others; losing it costs requests that Dagster knows to have run already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

FORMAT = 2
MOST_BYTES = 49_000
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
    body = _body(text)
    if body.get("format") == 1:
        return {day: Asked(*entry) for day, entry in body["asked"].items()}
    found = {}
    for version, attempt, first, marks in body.get("asked", ()):
        for number, mark in enumerate(marks.split(" ")):
            found[_day_after(first, number)] = Asked(mark, version, attempt)
    return found


def next_listing(text: str | None) -> datetime | None:
    """When the source may be listed again; None if it may be at once."""
    due = _body(text).get("next_listing")
    return None if due is None else datetime.fromisoformat(due)


def write_cursor(asked: Mapping[str, Asked], *, next_listing: datetime | None = None) -> str:
    """13 bytes for each of the dates that follow each other and were asked for at one bookmark version, 40 for others.

    No longer than MOST_BYTES: the oldest dates are left out then. They are asked for again, with the same key as long
    as the bookmark stays where it is, and a key starts one run.
    """
    entries: list[tuple[int, int, str, list[str]]] = []
    size = 0
    for day in sorted(asked, reverse=True):
        mark, version, attempt = asked[day].mark, asked[day].bookmark_version, asked[day].attempt
        newer = entries[-1] if entries else None
        new = newer is None or newer[:2] != (version, attempt) or not day or day != _day_after(newer[2], -1)
        size += len(mark) + (len(f'[{version},{attempt},"{day}",""],') if new else 1)
        if size > MOST_BYTES:
            break
        if new:
            entries.append((version, attempt, day, [mark]))
        else:
            entries[-1][3].append(mark)
            entries[-1] = (version, attempt, day, entries[-1][3])
    told = [[v, a, first, " ".join(reversed(marks))] for v, a, first, marks in reversed(entries)]
    body = {"format": FORMAT, "asked": told}
    due = {"next_listing": next_listing.isoformat()} if next_listing else {}
    return json.dumps(body | due, separators=(",", ":"))


def _body(text: str | None) -> dict[str, Any]:
    body = json.loads(text) if text else {}
    return body if isinstance(body, dict) and body.get("format") in (1, FORMAT) else {}


def _day_after(day: str, number: int) -> str:
    """The ISO date so many days later; the empty one, of everything undated, stays what it is."""
    return (date.fromisoformat(day) + timedelta(days=number)).isoformat() if day else day
