"""The values that flow between the steps. Pure: no I/O, no clock, no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from enum import StrEnum

NEW_TABLE = "new"
"""Stands for the table uuid while the target does not exist."""


ACCEPTED_AND_STAGED = "batch: accepted, staged (differ by sql)"
"""Names the equation that tells both sides of a batch whose rows a declared SQL made: they need not be equal."""


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


class State(StrEnum):
    """How a load or a batch ended."""

    COMMITTED = "committed"
    NOTHING_TO_DO = "nothing_to_do"
    BLOCKED = "blocked"
    HELD = "held"
    DETACHED = "detached"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    FAILED = "failed"


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


@dataclass(frozen=True, slots=True)
class ObjectDecision:
    """One listed object, classified. `ruled_at` is the bookmark version at which an operator decided about exactly
    this version of it, None if nobody did."""

    object: LandingObject
    landing_date: date | None
    decision: Decision
    reason: str
    ruled_at: int | None = None


@dataclass(frozen=True, slots=True)
class SeenObject:
    """The latest version of a key that a batch has consumed or quarantined; as a ruling, the version that an operator
    has decided about: SKIPPED, or PLANNED to be read again."""

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
class Plan:
    """What a load will do, in full: printing it is the dry run, executing it is the load.

    `batches` holds the planned objects in (mtime, key) order, cut by the declared bounds; every listed object appears
    once in `decisions`. `batch_id` is the id of the first batch, empty if there is none.

    `missing` are consumed objects of dates to be replaced that are not listed any more: such a plan is blocked unless
    the request accepts them. `newest_date` is the landing date that a snapshot feed takes for the whole truth, None
    where no date of this plan can be that; `unfinished` says why its objects do not tell all of it.
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


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of DESIGN §8, for one object, batch or load."""

    read: int = 0
    rejected: int = 0
    staged: int = 0
    superseded: int = 0
    stale: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    removed: int = 0
    vanished: int = 0
    replaced: int = 0
    absent: int = 0

    @property
    def accepted(self) -> int:
        """Records that were not rejected: as many as are staged, unless a declared SQL makes other rows of them."""
        return self.read - self.rejected

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class DateCounts:
    """What one batch did to one landing date: counts of its objects' rows, and rows that the date won and lost."""

    objects: int = 0
    rows: RowCounts = field(default_factory=RowCounts)
    gained: int = 0
    lost: int = 0

    def __add__(self, other: DateCounts) -> DateCounts:
        return DateCounts(
            self.objects + other.objects, self.rows + other.rows, self.gained + other.gained, self.lost + other.lost
        )


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Data files of the target that a batch touched."""

    added: int = 0
    rewritten: int = 0
    delete_files: int = 0

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(
            self.added + other.added, self.rewritten + other.rewritten, self.delete_files + other.delete_files
        )


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate with its numbers. `limit` None means that the gate was not asked for."""

    name: str
    passed: bool
    value: float | int | str | None
    limit: float | int | str | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Equation:
    """One reconciliation equation with both sides; `landing_date` None is the whole batch or table."""

    name: str
    left: int
    right: int
    landing_date: date | None = None

    @property
    def holds(self) -> bool:
        return self.left == self.right or self.name == ACCEPTED_AND_STAGED


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """What a batch did with one object: `decision` is CONSUMED or QUARANTINED, of an operator's change SKIPPED or
    PLANNED."""

    object: LandingObject
    landing_date: date | None
    decision: Decision
    reason: str
    first_seen: datetime
    rows: RowCounts = field(default_factory=RowCounts)


@dataclass(frozen=True, slots=True)
class Reference:
    """A written state object: where it is and the SHA-256 of its bytes."""

    uri: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Grave:
    """A written file of keys that were hard-deleted: `rows` of them, the last one at `written_at`."""

    file: Reference
    written_at: datetime
    rows: int


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One batch manifest of the chain."""

    version: int
    manifest: Reference


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch manifest: what one bookmark version stands for. Immutable once written.

    `chain` lists the manifests before this one, newest first, down to and including the last one that has a
    checkpoint (or to version 1), so that planning fetches them in parallel. `checkpoint` is the full set of seen
    objects after this batch. `kind` is `load` or an operator's action.

    `graves` are the files of hard-deleted keys that still count after this batch: each manifest carries on those of the
    one before. `baseline` counts rows that were in the table before it was taken over. `settled_date` is the landing
    date that a snapshot feed's table was last made equal to, by this batch or one before it.
    """

    table: str
    table_uuid: str
    context: str
    bookmark_version: int
    batch_id: str
    attempt_id: str
    run_id: str
    kind: str
    mode: Mode
    advance: bool
    declaration: str
    lookback_days: int
    started_at: datetime
    merge_started_at: datetime | None
    merge_ended_at: datetime | None
    written_at: datetime
    objects: tuple[ObjectOutcome, ...]
    rows: RowCounts
    dates: Mapping[str, DateCounts]
    equations: tuple[Equation, ...]
    gates: tuple[GateResult, ...]
    rejects: Reference | None
    checkpoint: Reference | None
    chain: tuple[ChainLink, ...]
    author: str = ""
    reason: str = ""
    graves: tuple[Grave, ...] = ()
    baseline: int = 0
    settled_date: date | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The position of a context: version 0 and nothing seen before the first batch.

    `rulings` are what operators decided about object versions, by uri: a skip holds until it is taken back, a request
    to read again until a batch has read the key.
    """

    version: int = 0
    head: Reference | None = None
    chain: tuple[ChainLink, ...] = ()
    seen: Mapping[str, SeenObject] = field(default_factory=dict)
    graves: tuple[Grave, ...] = ()
    settled_date: date | None = None
    rulings: Mapping[str, SeenObject] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What of a bookmark only all of its manifests together tell."""

    seen: Mapping[str, SeenObject] = field(default_factory=dict)
    rulings: Mapping[str, SeenObject] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """How one batch of a load ended."""

    batch_id: str
    state: State
    snapshot_id: int | None
    bookmark_version: int
    objects: int
    rows: RowCounts
    ledger: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a load reports, also on failure. `seconds` maps a step's name to wall-clock seconds.

    `bookmark_version` is None if the load failed before it could read the bookmark.
    `table_rows` counts the rows of the whole table after the load, from its manifests; None if that is not known.
    `merge_rule` is the rule by which files with dead rows were rewritten or left with position deletes.
    `added_columns` are the table's columns that files brought undeclared, in this load or before.
    """

    table: str
    context: str
    run_id: str
    state: State
    bookmark_version: int | None
    snapshot_id: int | None
    declaration: str
    next: str
    objects: Mapping[str, int]
    rows: RowCounts
    dates: Mapping[str, DateCounts]
    files: FileCounts
    gates: tuple[GateResult, ...]
    seconds: Mapping[str, float]
    batches: tuple[BatchReceipt, ...]
    warnings: tuple[str, ...] = ()
    error: str = ""
    exit_code: int = 0
    table_rows: int | None = None
    merge_rule: str = ""
    added_columns: tuple[str, ...] = ()
