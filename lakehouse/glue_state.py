"""Reads the state of an AWS Glue job bookmark, as `aws glue get-job-bookmark` prints it. Pure.

The answer holds `JobBookmarkEntry`, and that a text `JobBookmark`: JSON by transformation context. The state of a
source on S3 says when its last run began and how wide the band before that is in which a listing may have missed
objects (BOOKMARKS G16-G20). `INCLUDE_LIST` has hashes of what was read of the band. How they are formed is documented
nowhere, so they are counted and prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.errors import NotAvailable, UsageError

S3_STATE = "HadoopDataSourceJobBookmarkState"


@dataclass(frozen=True, slots=True)
class GlueState:
    """Where one context of a Glue job stands. `began_at` is the start of the last run that committed, `hashes` the
    length of its list of what it read of the band before that."""

    job: str
    run_id: str
    context: str
    began_at: datetime
    band: timedelta
    hashes: int

    @property
    def certain_until(self) -> datetime:
        """What S3 dates up to this was listed by a run, and read."""
        return self.began_at - self.band


def parse_glue_state(text: str, *, file: str, context: str | None = None) -> GlueState:
    """The state of one context; `context` chooses where there are several.

    Raises UsageError that names file and field, NotAvailable for the state of a JDBC source.
    """
    entry = _mapping(_json(text, file), "JobBookmarkEntry", file)
    name, state = _chosen(_contexts(entry, file), file=file, context=context)
    where = f"JobBookmarkEntry.JobBookmark.{name}"
    if not isinstance(state, dict):
        raise _wrong(file, where, f"not an object: {_short(state)}")
    kind = state.get("jsonClass")
    if "jdbc" in str(kind).lower():
        raise NotAvailable(
            f"{file}: {where}: the state of a JDBC source cannot be imported, for database sources are not available "
            f"yet: jsonClass={_short(kind)}"
        )
    if kind != S3_STATE:
        raise _wrong(file, f"{where}.jsonClass", f"not the state of a source on S3: {_short(kind)}; it is {S3_STATE}")
    times = _mapping(state, "timestamps", file, where)
    where = f"{where}.timestamps"
    found = GlueState(
        job=str(entry.get("JobName") or ""),
        run_id=str(entry.get("RunId") or ""),
        context=name,
        began_at=_moment(times.get("CURR_RUN_START_TIME"), file, f"{where}.CURR_RUN_START_TIME"),
        band=_band(times.get("HIGH_BAND"), file, f"{where}.HIGH_BAND"),
        hashes=_count(times.get("INCLUDE_LIST", ""), file, f"{where}.INCLUDE_LIST"),
    )
    try:
        _ = found.certain_until
    except OverflowError:
        raise _wrong(file, f"{where}.HIGH_BAND", f"longer than time is: {_short(times['HIGH_BAND'])}") from None
    return found


def _contexts(entry: Mapping[str, Any], file: str) -> dict[str, Any]:
    where = "JobBookmarkEntry.JobBookmark"
    stored = entry.get("JobBookmark")
    if not isinstance(stored, str):
        raise _wrong(file, where, f"not a text with JSON in it: {_short(stored)}")
    found = _json(stored, file, where) if stored.strip() else {}
    if not isinstance(found, dict):
        raise _wrong(file, where, f"not an object by transformation context: {_short(found)}")
    if not found:
        raise _wrong(file, where, "the job has no state: no run of it with bookmarks has committed")
    return found


def _chosen(contexts: Mapping[str, Any], *, file: str, context: str | None) -> tuple[str, Any]:
    names = ", ".join(contexts)
    if context is None and len(contexts) > 1:
        raise UsageError(
            f"{file}: JobBookmarkEntry.JobBookmark: several transformation contexts: {names}",
            next=f"the same command with --glue-context {next(iter(contexts))}",
        )
    name = next(iter(contexts)) if context is None else context
    if name not in contexts:
        raise UsageError(f"{file}: no transformation context {name!r}; it has {names}")
    return name, contexts[name]


def _json(text: str, file: str, where: str = "") -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(file, where, f"not JSON: {error}") from None


def _mapping(value: Any, name: str, file: str, above: str = "") -> dict[str, Any]:
    where = f"{above}.{name}" if above else name
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise _wrong(file, where, "missing" if found is None else f"not an object: {_short(found)}")
    return found


def _moment(value: Any, file: str, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(file, where, f"not a time: {_short(value)}") from None


def _band(value: Any, file: str, where: str) -> timedelta:
    try:
        if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit():
            raise ValueError
        return timedelta(milliseconds=int(value))
    except (ValueError, OverflowError):
        raise _wrong(file, where, f"not a number of milliseconds: {_short(value)}") from None


def _count(value: Any, file: str, where: str) -> int:
    if not isinstance(value, str):
        raise _wrong(file, where, f"not a list of hashes: {_short(value)}")
    return sum(bool(item.strip()) for item in value.split(","))


def _wrong(file: str, where: str, what: str) -> UsageError:
    place = f"{file}: {where}" if where else file
    return UsageError(f"{place}: {what}", next="aws glue get-job-bookmark --job-name JOB > FILE")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
