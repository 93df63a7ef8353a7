"""What a published bookmark version holds, and where a bookmark stands. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from lakehouse.model.counts import DateCounts, Equation, GateResult, RowCounts
from lakehouse.model.plans import Decision, LandingObject, Mode, SeenObject
from lakehouse.model.seen import Seen


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
class Hold:
    """An operator's word that a table is not to be loaded, until it is released."""

    author: str
    reason: str
    since: datetime

    @property
    def text(self) -> str:
        """Who holds it, since when and why."""
        return f"held by {self.author} since {self.since.isoformat(timespec='seconds')}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An operator's word that the next load of exactly these objects under that declaration passes a gate that has
    refused them. `objects` are their identities, by key; `bookmark_version` is that of the change."""

    gate: str
    author: str
    reason: str
    since: datetime
    declaration: str
    objects: tuple[tuple[str, str, str | None], ...]
    bookmark_version: int

    @property
    def text(self) -> str:
        """Who has accepted it, when and why."""
        return f"accepted by {self.author} at {self.since.isoformat(timespec='seconds')}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch manifest: what one bookmark version stands for. Immutable once written.

    `chain` lists the manifests before this one, newest first, down to and including the last one that has a
    checkpoint (or to version 1), so that planning fetches them in parallel. `checkpoint` is the full set of seen
    objects after this batch. `kind` is `load` or an operator's action.

    `graves` are the files of hard-deleted keys that still count after this batch: each manifest carries on those of the
    one before. `baseline` counts rows that were in the table before it was taken over. `settled_date` is the landing
    date that a snapshot feed's table was last made equal to, by this batch or one before it. `held` is carried on until
    an operator releases the table, `accepted` until the objects are read or the declaration is another. `foreign` is
    the snapshot of another writer whose net rows this change accepts, as `baseline` and `dates`. `source_uri` is the
    folder that the last batch up to this one has read, empty where none has and in manifests that are older than the
    field.
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
    held: Hold | None = None
    accepted: tuple[Acceptance, ...] = ()
    foreign: int | None = None
    source_uri: str = ""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The position of a context: version 0 and nothing seen before the first batch.

    `rulings` are what operators decided about object versions, by uri: a skip holds until it is taken back, a request
    to read again until a batch has read the key. `paused` are the keys that batches have read without advancing, or
    that were seen until an operator moved the position: not seen, and their rows are in the table. `accepted` are the
    gates that operators let batches pass.
    """

    version: int = 0
    head: Reference | None = None
    chain: tuple[ChainLink, ...] = ()
    seen: Seen = field(default_factory=Seen)
    graves: tuple[Grave, ...] = ()
    settled_date: date | None = None
    held: Hold | None = None
    accepted: tuple[Acceptance, ...] = ()
    rulings: Mapping[str, SeenObject] = field(default_factory=dict)
    paused: Seen = field(default_factory=Seen)
    source_uri: str = ""

    def __post_init__(self) -> None:
        """A plain mapping becomes the set of its objects."""
        object.__setattr__(self, "seen", Seen.of(self.seen))
        object.__setattr__(self, "paused", Seen.of(self.paused))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What of a bookmark only all of its manifests together tell."""

    seen: Mapping[str, SeenObject] = field(default_factory=dict)
    rulings: Mapping[str, SeenObject] = field(default_factory=dict)
    paused: Mapping[str, SeenObject] = field(default_factory=dict)
