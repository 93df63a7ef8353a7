"""What is listed, what is decided about it, and what a load will do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple

NEW_TABLE = "new"
"""Stands for the table uuid while the target does not exist."""


class Mode(StrEnum):
    """How a load treats the consumed set (BOOKMARKS G1-G4)."""

    INCREMENTAL = "incremental"
    FULL = "full"
    NO_ADVANCE = "no-advance"


GLUE_MODES = {
    "job-bookmark-enable": Mode.INCREMENTAL,
    "job-bookmark-disable": Mode.FULL,
    "job-bookmark-pause": Mode.NO_ADVANCE,
}
"""Glue's own words for the modes; accepted wherever a mode is asked for."""


class Decision(StrEnum):
    """What a plan decided about one listed object; each carries a reason."""

    PLANNED = "planned"
    CONSUMED = "consumed"
    DEFERRED = "deferred"
    IGNORED = "ignored"
    OUTSIDE_WINDOW = "outside_window"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class LandingObject:
    """One object as listed. Its identity is uri + etag (+ version id); size in bytes, times in UTC.

    `uri` is `s3://bucket/key` with the key as S3 knows it: never URL-encoded or decoded.
    """

    uri: str
    etag: str
    size: int
    last_modified: datetime
    version_id: str | None = None

    @property
    def identity(self) -> tuple[str, str, str | None]:
        return (self.uri, self.etag, self.version_id)


class ObjectDecision(NamedTuple):
    """One listed object, classified; a plan has one for each. `ruled_at` is the bookmark version at which an operator
    decided about exactly this version of it, or let a batch that holds it pass a gate; None if nobody did."""

    object: LandingObject
    landing_date: date | None
    decision: Decision
    reason: str
    ruled_at: int | None = None


@dataclass(frozen=True, slots=True)
class SeenObject:
    """The latest version of a key that a batch has consumed or quarantined; as a ruling, the version that an operator
    has decided about: SKIPPED, or PLANNED to be read again. `declaration` is empty for one that no batch has read: an
    operator says that it is done with."""

    object: LandingObject
    landing_date: date | None
    decision: Decision
    reason: str
    batch_id: str
    bookmark_version: int
    declaration: str
    first_seen: datetime


@dataclass(frozen=True, slots=True)
class Window:
    """Inclusive landing dates that a load asks for; None is open."""

    first: date | None = None
    last: date | None = None

    def contains(self, day: date) -> bool:
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Bookmark versions after `first` up to and including `last` (G5): what they read is asked for again.

    `read` are the objects that they read, by identity, each with the last of these versions that did.
    """

    first: int
    last: int
    read: Mapping[tuple[str, str, str | None], int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load will do, in full: printing it is the dry run, executing it is the load.

    `batches` holds the planned objects in (mtime, key) order, cut by the declared bounds; every listed object appears
    once in `decisions`. `batch_id` is the id of the first batch, empty if there is none.

    `missing` are consumed objects of dates to be replaced that are not listed any more: such a plan is blocked unless
    the request accepts them. `newest_date` is the landing date that a snapshot feed takes for the whole truth, None
    where no date of this plan can be that; `unfinished` says why its objects do not tell all of it. `held` says who
    holds the table, so that no load may execute it; empty if nobody does. `unaccepted` says why no load may execute it
    without being told that the source is new, `answer` which commands tell it; empty where that is settled. `accepted`
    says of the batches which gate an operator lets them pass, who and why.
    """

    table: str
    context: str
    table_uuid: str
    mode: Mode
    window: Window
    declaration: str
    bookmark_version: int
    decisions: tuple[ObjectDecision, ...]
    batches: tuple[tuple[ObjectDecision, ...], ...]
    batch_id: str
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    newest_date: date | None = None
    unfinished: tuple[str, ...] = ()
    held: str = ""
    unaccepted: str = ""
    answer: str = ""
    accepted: tuple[str, ...] = ()

    def count(self, decision: Decision) -> int:
        return sum(d.decision is decision for d in self.decisions)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a batch takes out of the target besides the deletes of its own rows.

    `replaced_dates`: every target row with such a `_source_date` is replaced (replace_partition). `replaced_objects`:
    every target row with such a `_source_file` is replaced (append). `retracted_objects`: a target row with such a
    `_source_file` vanishes if no winner has its key (keyed modes). `snapshot_date`: the batch holds all rows of that
    landing date: a target row vanishes if no staged row of that date has its key, and a winner of an older date whose
    key has no staged row of that date is stale. `settled_date`: an earlier batch has made the table equal to that
    landing date: a winner of an older date whose key the target does not hold is stale.
    """

    replaced_dates: frozenset[date | None] = frozenset()
    replaced_objects: frozenset[str] = frozenset()
    retracted_objects: frozenset[str] = frozenset()
    snapshot_date: date | None = None
    settled_date: date | None = None
