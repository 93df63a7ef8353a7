"""Why an object was read, skipped, deferred or rejected: every decision ever taken on it, and that of now. Reads only.

History comes from the published manifests and the records of open attempts, the decision of now from a plan.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.audit.attempts import open_attempts
from lakehouse.bookmark import LOAD
from lakehouse.errors import LakehouseError, UsageError
from lakehouse.model import Decision, Manifest, ObjectOutcome, Window
from lakehouse.operate.object_change import list_source, near_names
from lakehouse.placement import landing_date
from lakehouse.plan import decide_objects
from lakehouse.position import Position, find_position
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.target import summary

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


_GONE = "not listed any more: it was deleted, or moved"


@dataclass(frozen=True, slots=True)
class Event:
    """One decision on one version of an object. `what` is the batch's mode or an operator's change; rows are those of
    this object in that batch. `snapshot_id` is None once the snapshot has expired. `supersedes` is the ETag of another
    version that was decided about before."""

    bookmark_version: int
    what: str
    decision: str
    reason: str
    batch_id: str
    snapshot_id: int | None
    at: datetime
    etag: str
    size: int
    last_modified: datetime
    supersedes: str | None
    rows_read: int
    rows_rejected: int
    rows_inserted: int
    rows_updated: int
    rows_unchanged: int
    author: str


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt that held the object and ended unpublished: its bookmark has not moved since."""

    batch_id: str
    state: str
    step: str
    error: str
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known of an object. `decision` is what a load would do with it now, None if it is not listed."""

    uri: str
    table: str
    context: str
    landing_date: str | None
    listed: bool
    decision: str | None
    reason: str
    etag: str | None
    first_seen: datetime | None
    events: tuple[Event, ...]
    attempts: tuple[OpenAttempt, ...]
    next: str


def explain_object(declaration: Declaration, uri: str, services: Services) -> Explained:
    """Everything that is known of the object, newest first.

    Raises UsageError for one that is not listed and that no batch or operator has ever dealt with, naming what is near,
    and what `discover` raises for one of these where nothing can be listed.
    """
    position = find_position(declaration, services)
    day = landing_date(uri, source=declaration.source)
    try:
        listing, unlisted = list_source(declaration, services, Window(day, day)), None
    except LakehouseError as error:
        listing, unlisted = (), error
    decided = decide_objects(
        [uri], declaration=declaration, bookmark=position.bookmark, listing=listing, now=services.now()
    ).get(uri)
    events = _events(uri, position, services)
    if unlisted is not None and not events:
        raise unlisted
    if decided is None and not events:
        raise UsageError(
            f"no such object: it is not listed and no batch has seen it: uri={uri}; "
            f"{near_names(uri, listing, position.bookmark)}",
            next=f"lakehouse plan {declaration.table}",
        )
    known = position.bookmark.seen.get(uri) or position.bookmark.paused.get(uri)
    return Explained(
        uri=uri,
        table=declaration.table,
        context=declaration.context,
        landing_date=day.isoformat() if day else None,
        listed=decided is not None,
        decision=decided.decision.value if decided else None,
        reason=decided.reason if decided else unlisted.message if unlisted else _GONE,
        etag=decided.object.etag if decided else None,
        first_seen=known.first_seen if known else None,
        events=events,
        attempts=_attempts(declaration, uri, position, services),
        next=_next(declaration, decided.decision if decided else None, uri),
    )


def _events(uri: str, position: Position, services: Services) -> tuple[Event, ...]:
    snapshots = _snapshots(position)
    found = [
        (manifest, outcome)
        for manifest, _ in walk(services.state, position.target.bookmark)
        for outcome in manifest.objects
        if outcome.object.uri == uri
    ]
    older = [outcome.object.etag for _, outcome in found[1:]]
    before = [*older, None] if found else []
    return tuple(_event(m, o, snapshots.get(m.attempt_id), etag) for (m, o), etag in zip(found, before, strict=True))


def _snapshots(position: Position) -> dict[str, int]:
    """Snapshots of published attempts that have not expired."""
    table = position.target.table
    if table is None:
        return {}
    keyed = ((summary(s).get(naming.ATTEMPT_ID), s.snapshot_id) for s in table.metadata.snapshots)
    return {attempt: snapshot_id for attempt, snapshot_id in keyed if attempt is not None}


def _event(manifest: Manifest, outcome: ObjectOutcome, snapshot_id: int | None, before: str | None) -> Event:
    rows = outcome.rows
    return Event(
        bookmark_version=manifest.bookmark_version,
        what=manifest.mode.value if manifest.kind == LOAD else manifest.kind,
        decision=outcome.decision.value,
        reason=outcome.reason,
        batch_id=manifest.batch_id,
        snapshot_id=snapshot_id,
        at=manifest.written_at,
        etag=outcome.object.etag,
        size=outcome.object.size,
        last_modified=outcome.object.last_modified,
        supersedes=before if before != outcome.object.etag else None,
        rows_read=rows.read,
        rows_rejected=rows.rejected,
        rows_inserted=rows.inserted,
        rows_updated=rows.updated,
        rows_unchanged=rows.unchanged,
        author=manifest.author,
    )


def _attempts(declaration: Declaration, uri: str, position: Position, services: Services) -> tuple[OpenAttempt, ...]:
    return tuple(
        OpenAttempt(record.batch_id, record.state.value, record.step, record.error, record.ended_at)
        for record in open_attempts(declaration, position, services)
        if any(identity[0] == uri for identity in record.objects)
    )


def _next(declaration: Declaration, decision: Decision | None, uri: str) -> str:
    """The command that changes what is decided."""
    match decision:
        case Decision.PLANNED | Decision.DEFERRED:
            return f"lakehouse load {declaration.table}"
        case Decision.QUARANTINED | Decision.SKIPPED:
            return f"lakehouse object release {shlex.quote(uri)} --reason TEXT"
        case Decision.CONSUMED:
            return f"lakehouse object reload {shlex.quote(uri)} --reason TEXT"
    return ""
